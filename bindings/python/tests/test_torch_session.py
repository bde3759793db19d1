"""What surrounds a model inside a PyTorch process: examples by keyword, options, threads, grad mode. Needs torch. Run by
tools/test_python_long.sh."""

import collections
import subprocess
import sys
import unittest
import warnings

import torch

import treadle
from treadle import _torch


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, a, b):
        return {"sum": self.fc(a) + b}


def quiet(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


class Examples(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(0)
        self.net, self.a, self.b = Two().eval(), torch.randn(2, 4), torch.randn(2, 4)
        with torch.no_grad():
            self.want = self.net(self.a, self.b)

    def same(self, got):
        self.assertIs(type(got), dict)
        torch.testing.assert_close(got, self.want)

    def test_mappings_are_keyword_arguments(self):
        for kind in (dict, collections.UserDict):  # as transformers' BatchEncoding is
            named = kind({"b": self.b, "a": self.a})
            model = treadle.load(self.net, named)
            for got in (model(**named), model(a=self.a, b=self.b), treadle.optimize(self.net, named)(**named)):
                self.same(got)

    def test_named_calls_give_what_the_module_gives(self):
        model = treadle.load(self.net, (self.a, self.b))
        self.same(model(self.a, self.b))
        self.same(model(a=self.a, b=self.b))
        self.assertEqual([v.name for v in model.outputs], ["sum"])

    def test_one_tensor(self):
        net, x = torch.nn.Linear(4, 3).eval(), torch.randn(2, 4)
        for model in (treadle.load(net, x), treadle.load(net, [x]), treadle.load(net, (x.numpy(),)), treadle.optimize(net, x)):
            torch.testing.assert_close(model(x), net(x).detach())

    def test_other_things_are_errors(self):
        for call in (treadle.load, treadle.optimize):
            for wrong, words in ((("a", "b"), "argument 0 is 'a'"), ({"a": self.a, "b": "b"}, "argument b is 'b'"),
                                 ((self.a, [object()]), r"argument 1\[0\] is"), ({1: self.a}, "no name"), ("ab", "argument 0"), (None, "example_inputs")):
                with self.assertRaisesRegex(treadle.BadArgument, words):
                    call(self.net, wrong)


class Options(unittest.TestCase):
    wrong = (("isa", "nope", "avx2"), ("math", "sloppy", "exact"), ("backend", "cuda", "native"), ("threads", -3, "there are: 0"),
             ("threads", "two", "there are: 0"), ("interop_threads", -1, "there are: 0"), ("disabled_passes", "nope", "fuse"),
             ("cc", "cc-of-nobody", "no program"), ("inference", "yes", "True, False"))

    def test_values_are_refused_at_the_call(self):
        for name, value, words in self.wrong:
            with self.assertRaisesRegex(treadle.BadArgument, words):
                torch.compile(torch.nn.ReLU(), backend="treadle", options={name: value})
            with self.assertRaisesRegex(treadle.BadArgument, words):
                treadle.optimize(torch.nn.ReLU(), torch.randn(2), **{name: value})

    def test_unknown_keywords_are_refused_at_the_call(self):
        for call in (lambda: torch.compile(torch.nn.ReLU(), backend="treadle", options={"thread": 2}),
                     lambda: treadle.optimize(torch.nn.ReLU(), torch.randn(2), thread=2),
                     lambda: treadle.load(torch.nn.ReLU(), torch.randn(2), thread=2)):
            with self.assertRaisesRegex(TypeError, "no option thread; there are: .*threads"):
                call()


COUNT = """
import os, torch, treadle
{}
before = len(os.listdir("/proc/self/task"))
def made(): return len(os.listdir("/proc/self/task")) - before
x = torch.randn(64, 256)
nets = [torch.nn.Sequential(torch.nn.Linear(256, 256 + i), torch.nn.ReLU()) for i in range(3)]
{}
"""


class Threads(unittest.TestCase):
    def run_apart(self, before, after):
        code = COUNT.format(before, after)
        run = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout.split()

    def test_one_pool_for_all_models(self):
        made, again = self.run_apart("", "models = [treadle.load(n, x, threads=3) for n in nets]\nfor m in models: m(x)\n"
                                     "print(made())\ndel m, models\nprint(made())")
        self.assertEqual((made, again), ("2", "0"))

    def test_they_follow_pytorch(self):
        code = """
fast = [torch.compile(n, backend="treadle") for n in nets]
own = torch.compile(nets[0].forward, backend="treadle", options={"threads": 1})
with torch.no_grad():
    for f in fast: f(x)
    print([m.threads for f in fast for m in treadle.models(f)], treadle.models(fast[0])[0].interop_threads)
    torch.set_num_threads(1)
    for f in fast: f(x)
    print([m.threads for f in fast for m in treadle.models(f)])
"""
        out = " ".join(self.run_apart("torch.set_num_threads(3); torch.set_num_interop_threads(5)", code))
        self.assertEqual(out, f"{[3] * 3} 5 {[3, 1] * 3}")


class GradMode(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        self.net, self.x = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), torch.randn(2, 4)

    def test_the_warning_has_the_remedy(self):
        before = len(treadle.fallbacks())
        with self.assertWarnsRegex(_torch.Fallback, r'no_grad\(\).*options=\{"inference": True\}') as caught:
            torch.compile(self.net, backend="treadle")(self.x).sum().backward()
        self.assertNotIn("\n", str(caught.warning))
        self.assertIsNotNone(self.net[0].weight.grad)
        new = treadle.fallbacks()[before:]
        self.assertEqual(len(new), 1)
        self.assertIn("backward", new[0].why)
        self.assertTrue(any("addmm" in name or "linear" in name for name in new[0].operators))

    def test_inference_whatever_the_mode_is(self):
        before = len(treadle.fallbacks())
        fast = torch.compile(self.net, backend="treadle", options={"inference": True})
        for call in (fast, treadle.optimize(self.net, self.x)):
            y = call(self.x)
            self.assertFalse(y.requires_grad)
            torch.testing.assert_close(y, self.net(self.x).detach())
        self.assertEqual(treadle.fallbacks()[before:], [])

    def test_missing_operators_are_listed(self):
        def odd(x):
            return torch.linalg.eigvals(x @ x.T).real.sum() + 1

        before = len(treadle.fallbacks())
        quiet(lambda: torch.compile(odd, backend="treadle")(self.x))
        new = treadle.fallbacks()[before:]
        self.assertEqual(len(new), 1)
        self.assertIn("eig", new[0].why)
        self.assertIn("test_torch_session.py", new[0].where)


if __name__ == "__main__":
    unittest.main()
