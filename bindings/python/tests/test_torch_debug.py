"""treadle.debug with PyTorch's modules as models and as references. Needs torch and a build with faults. Run by
tools/test_python_long.sh."""

import copy
import os
import pathlib
import tempfile
import unittest

import torch

from treadle import debug


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.block = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 16))
        self.norm, self.out = torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)

    def forward(self, x, scale):
        h = self.block(x)
        return {"y": self.out(self.norm(h)).softmax(-1), "h": torch.neg(h) * scale["by"]}


class Modules(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.net = Net().eval()
        self.inputs = (torch.randn(6, 8), {"by": torch.randn(16)})

    def test_a_module_is_its_own_reference(self):
        found = debug.compare(self.net, self.net, self.inputs)
        self.assertEqual((found.differs, len(found.outputs)), (False, 2))
        program = torch.export.export(self.net, self.inputs)
        self.assertFalse(debug.compare(program, self.net, self.inputs).differs)

    def test_a_fault_of_a_kernel(self):
        found = debug.compare(self.net, self.net, self.inputs, inject="native_layer_norm:wrong", cc="none")
        self.assertEqual((found.differs, found.recorded_differs), (True, False))
        self.assertEqual(found.first.name, "norm.layer_norm")
        found = debug.bisect(self.net, self.inputs, self.net, inject="native_layer_norm:wrong", cc="none")
        self.assertTrue(found.kernels or found.passes)

    def test_a_module_that_is_another_one(self):
        """The first that differs is named, not those it is in, and not those behind it."""
        for path in ("block.0", "block.2", "norm"):
            other = copy.deepcopy(self.net)
            with torch.no_grad():
                other.get_submodule(path).weight.mul_(1.5)
            found = debug.compare(self.net, other, self.inputs)
            self.assertEqual((found.differs, found.recorded_differs, found.module), (True, True, path))
            self.assertIn(path, str(found))

    def test_scripted(self):
        class Neg(torch.nn.Module):
            def forward(self, x):
                return torch.neg(torch.tanh(x)) + 1
        scripted, x = torch.jit.script(Neg()), torch.randn(3, 4)
        self.assertFalse(debug.compare(scripted, Neg(), (x,)).differs)
        self.assertEqual(debug.compare(scripted, scripted, (x,), inject="neg:wrong", cc="none").differs, True)

    def test_the_smallest_part_of_a_module(self):
        with tempfile.TemporaryDirectory() as folder:
            small = debug.minify(self.net, self.inputs, os.path.join(folder, "small"), inject="native_layer_norm:nan", cc="none")
            self.assertEqual((small.nodes, small.failure), (1, "wrong"))
            self.assertIn("aten::native_layer_norm", pathlib.Path(small.path).read_text())


if __name__ == "__main__":
    unittest.main()
