class Net(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  _is_full_backward_hook : Optional[bool]
  def forward(self: __torch__.Net,
    x: Tensor) -> Tensor:
    _0 = uninitialized(Tensor)
    if bool(torch.gt(torch.max(x), 5)):
      _1 = torch.mul(x, 10)
    else:
      _2 = torch.size(x, 0)
      _3 = False
      _4 = _0
      _5 = 0
      _6 = torch.gt(_2, 0)
      while _6:
        _7 = torch.sum(torch.select(x, 0, _5))
        if bool(torch.gt(_7, 3)):
          _11 = torch.repeat(torch.select(x, 0, _5), [2, 1])
          _8, _9, _10 = False, True, _11
        else:
          _8, _9, _10 = True, False, _0
        _12 = torch.add(_5, 1)
        _13 = torch.__and__(torch.lt(_12, _2), _8)
        _6, _3, _4, _5 = _13, _9, _10, _12
      if _3:
        _14 = _4
      else:
        _14 = torch.sub(x, 1)
      _1 = _14
    return _1
