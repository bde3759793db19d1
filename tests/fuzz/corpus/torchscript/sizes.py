class Net(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  _is_full_backward_hook : Optional[bool]
  def forward(self: __torch__.Net,
    x: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, int]:
    a = torch.narrow(torch.select(x, 1, 2), 0, 0, 1)
    _0 = torch.slice(torch.slice(x), 1, 0, 3, 2)
    b = torch.permute(torch.reshape(_0, [-1, 2, 1]), [0, 2, 1])
    c = torch.constant_pad_nd(x, [1, 2, 0, 1], 0)
    _1 = torch.roll((torch.chunk(x, 3, 1))[1], [1], [0])
    d = torch.unfold(_1, 0, 2, 1)
    e = torch.repeat(torch.diagonal(x, 1), [2, 3])
    _2 = torch.as_strided(x, [2, 2], [1, 1], 1)
    _3 = torch.unsqueeze((torch.split(_2, 1))[0], 1)
    f = torch.tile(_3, [2, 1, 1])
    g = torch.cumsum(torch.full([2, 3], 2), 1)
    _4 = torch.repeat_interleave(torch.sum(x, [0, 1], True), 2, 0)
    h = torch.flatten(torch.flip(_4, [0]), 0, 1)
    _5 = torch.view(torch.arange(3, 24, 2), [-1, 1])
    i = torch.movedim(torch.expand(_5, [11, 2]), 0, 1)
    j = torch.transpose((torch.split(x, [1, 2], 1))[1], 0, 1)
    _6 = torch.unflatten(torch.linspace(0, 1, 5), 0, [5, 1])
    k = torch.tril(_6, 1)
    l = torch.slice_scatter(torch.triu(torch.eye(3, 4), -1), torch.zeros([1, 4]), 0, 1, 2)
    m = torch.add(([1, 2, 3])[1], ([4, 5, 6])[-1])
    _7 = (a, b, c, d, e, f, g, h, i, j, k, l, m)
    return _7

