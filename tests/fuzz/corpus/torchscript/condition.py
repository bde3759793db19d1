class Net(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  _is_full_backward_hook : Optional[bool]
  def forward(self: __torch__.Net,
    x: Tensor) -> Tuple[Tensor, int]:
    _0 = uninitialized(Tensor)
    _1 = uninitialized(int)
    _2 = uninitialized(bool)
    y = x
    n = 0
    _3 = True
    while _3:
      y0 = torch.mul(y, 1.5)
      n0 = torch.add(n, 1)
      _4 = bool(torch.gt(torch.sum(y0), 100))
      if _4:
        _5, _6, _7, _8, _9, _10, _11 = True, False, y0, n0, _2, _0, _1
      else:
        _12 = torch.eq(torch.remainder(n0, 2), 0)
        if _12:
          _13, _14, _15, _16, _17, _18, _19 = True, True, y0, n0, _2, _0, _1
        else:
          _13, _14, _15, _16, _17, _18, _19 = False, _2, _0, _1, True, torch.add(y0, 1), n0
        _5, _6, _7, _8, _9, _10, _11 = _13, _14, _15, _16, _18, _18, _19
      if _5:
        _20, _21, _22 = _7, _7, _8
      else:
        _20, _21, _22 = _9, _10, _11
      _3, y, n = _20, _21, _22
    return (y, n)
