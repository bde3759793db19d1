class Net(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  _is_full_backward_hook : NoneType
  mode : str
  def forward(self: __torch__.Net,
    x: Tensor) -> Tensor:
    mode = self.mode
    parts = torch.split(mode, "_and_")
    y = x
    for _0 in range(torch.len(parts)):
      part = parts[_0]
      if torch.eq(part, "sum"):
        y0 = torch.add(y, torch.sum(x))
      else:
        if torch.eq(part, "mean"):
          y1 = torch.mul(y, torch.mean(x))
        else:
          y1 = y
        y0 = y1
      y = y0
    return y
