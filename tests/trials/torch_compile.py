"""Who has torch.compile in a program: one word more, options that are checked, fallbacks that are named."""

import torch

from trial import check, finish, refuses, step
import treadle

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4)).eval()
x = torch.randn(8, 16)

with torch.no_grad():
    want = net(x)
    with step("one word more"):
        fast = torch.compile(net, backend="treadle")
        check("agrees", torch.allclose(fast(x), want, atol=1e-5))
        check("other sizes", torch.allclose(fast(x[:3]), want[:3], atol=1e-5))
        check("no graph was left to PyTorch", treadle.fallbacks() == [], treadle.fallbacks())
        check("its models", len(treadle.models(fast)) >= 1)

    for options, text in (({"math": "fastt"}, "exact"), ({"specialise": "batch"}, "specialise"), ({"isa": "sse"}, "sse"),
                          ({"disabled_passes": ["fold", "nopass"]}, "nopass"), ({"speed": 11}, "speed")):
        refuses(str(options), Exception, text, lambda: torch.compile(net, backend="treadle", options=options)(x))

    with step("the module itself"):
        model = treadle.load(net, (x,))
        check("agrees", torch.allclose(model(x), want, atol=1e-5))
        model.save("net.tdl")
        check("saved and opened", torch.allclose(treadle.load("net.tdl")(x), want, atol=1e-5))

    class Named(torch.nn.Module):
        def forward(self, pair, scale):
            return {"sum": (pair[0] + pair[1]) * scale, "first": pair[0]}

    with step("calls nested as at load, results by name"):
        one, two = torch.ones(3), torch.full((3,), 2.0)
        model = treadle.load(Named(), ((one, two), one))
        got = model((one, two), one)
        check("sum", torch.equal(got["sum"], one + two), got)
        check("first", torch.equal(got["first"], one), got)
finish()
