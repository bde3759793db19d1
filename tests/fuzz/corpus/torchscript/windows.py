class Net(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  _is_full_backward_hook : Optional[bool]
  def forward(self: __torch__.Net,
    x: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, List[int], int]:
    image = torch.ones([1, 2, 4, 6])
    a = torch.im2col(image, [2, 3], [1, 1], [0, 1], [2, 1])
    b = torch.col2im(torch.ones([1, 4, 15]), [4, 6], [2, 2], [1, 1], [0, 0], [1, 1])
    c = torch.conv2d(image, torch.ones([3, 2, 2, 3]), None, [1, 1], "same", [1, 2], 1)
    d = torch.linalg_matrix_power(torch.eye(3), 5)
    e = torch.diag_embed(torch.ones([2, 3]), 1, 0, 2)
    _0, _1 = torch.adaptive_max_pool2d(image, [3, 4])
    f = torch.round(torch.ones([2]), decimals=2)
    g = torch.as_strided_scatter(torch.ones([3, 4]), torch.ones([2, 2]), [2, 2], [4, 1], 1)
    h = torch.upsample_nearest2d(image, None, [2., 1.5])
    i = torch.unfold(torch.ones([7]), 0, 3, 2)
    j = torch.diagonal(torch.ones([3, 5]), 1)
    k = (torch.chunk(torch.ones([7]), 3, 0))[2]
    numbers = annotate(List[int], [])
    l = 0
    for _2 in range(torch.__range_length(2, 30, 7)):
      _3 = torch.__derive_index(_2, 2, 7)
      _4 = torch.append(numbers, _3)
      l = torch.add(l, int(2.5))
    _5 = (a, b, c, d, e, _0, f, g, h, i, k, numbers, l)
    return _5

