class Net(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  _is_full_backward_hook : Optional[bool]
  def forward(self: __torch__.Net,
    x: Tensor) -> Tensor:
    outs = annotate(List[Tensor], [])
    h = torch.zeros([2])
    h0 = h
    for i in range(torch.size(x, 0)):
      _0 = torch.add(h0, torch.select(x, 0, i))
      h1 = torch.tanh(_0)
      _1 = torch.eq(torch.remainder(i, 3), 0)
      if _1:
        _2 = torch.append(outs, h1)
      else:
        pass
      h0 = h1
    return torch.stack(outs)
