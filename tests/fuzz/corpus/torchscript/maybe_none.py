class Net(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  _is_full_backward_hook : Optional[bool]
  def forward(self: __torch__.Net,
    x: Tensor) -> Tensor:
    _0 = uninitialized(Tensor)
    best: Optional[Tensor] = None
    for i in range(torch.size(x, 0)):
      row = torch.select(x, 0, i)
      if torch.__is__(best, None):
        best0 = row
      else:
        best1 = unchecked_cast(Tensor, best)
        _1 = torch.gt(torch.sum(row), torch.sum(best1))
        if bool(_1):
          best2 = row
        else:
          best2 = best1
        best0 = best2
      best = best0
    if torch.__isnot__(best, None):
      best3 = unchecked_cast(Tensor, best)
    else:
      ops.prim.RaiseException("AssertionError: no rows")
      best3 = _0
    return best3
