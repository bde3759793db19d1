class Net(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  _is_full_backward_hook : Optional[bool]
  def forward(self: __torch__.Net,
    x: Tensor) -> Tuple[Tensor, Tensor]:
    y = torch.clone(x)
    row = torch.select(y, 0, 1)
    _0 = torch.add_(row, 10)
    rows = [y, torch.select(y, 0, 0)]
    _1 = torch.mul_(rows[1], 2)
    if bool(torch.gt(torch.sum(x), 0)):
      _2 = torch.select(torch.slice(y), 1, 0)
      _3 = torch.tensor(-1, dtype=ops.prim.dtype(_2), device=ops.prim.device(_2))
      _4 = torch.copy_(_2, _3)
    else:
      pass
    z = torch.view(y, [-1])
    for i in range(3):
      _5 = float(i)
      _6 = torch.select(z, 0, i)
      _7 = torch.tensor(_5, dtype=ops.prim.dtype(_6), device=ops.prim.device(_6))
      _8 = torch.copy_(_6, _7)
    _9 = torch.fill_(torch.select(torch.t(y), 0, 1), 7.)
    return (y, z)
