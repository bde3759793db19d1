"""treadle.debug without torch: faults are put in, and found. Run by tools/test_python.sh."""

import os
import pathlib
import re
import tempfile
import unittest

import numpy as np

import treadle
from treadle import debug

CHAIN = b"""tdir 1
input %0 "a": f32[1, 8]
input %1 "b": f32[90, 8]
%2 = aten::neg(%0)  # "node /neg (Neg)"
%3 = aten::maximum(%2, %1)  # "node /max (Max)"
%4 = aten::cat(%3, %0) {dim = 0}  # "node /cat (Concat)"
output "y" %4
"""
INPUTS = (np.linspace(-1, 1, 8, dtype="f4").reshape(1, 8), np.linspace(-2, 0.5, 720, dtype="f4").reshape(90, 8))


def neg_max_cat(a, b):
    return np.concatenate([np.maximum(-a, b), a])


class Comparing(unittest.TestCase):
    def test_the_same(self):
        for reference in (None, neg_max_cat):
            found = debug.compare(CHAIN, reference, INPUTS, nodes=True)
            self.assertEqual((found.differs, found.first, [d.verdict for d in found.outputs]), (False, None, ["same"]))
            self.assertEqual([d.name for d in found.nodes], ["/neg", "/max"])
        self.assertIn("y", str(found))

    def test_a_fault_has_a_node(self):
        for reference in (None, neg_max_cat):
            found = debug.compare(CHAIN, reference, {"a": INPUTS[0], "b": INPUTS[1]}, inject="neg:wrong", cc="none")
            self.assertTrue(found.differs)
            self.assertEqual((found.first.name, found.first.verdict, found.recorded_differs), ("/neg", "differs", False))
            self.assertIn("/neg", str(found))
        found = debug.compare(CHAIN, None, INPUTS, inject="neg:nan", cc="none")
        self.assertEqual(found.first.verdict, "not finite")

    def test_another_reference(self):
        found = debug.compare(CHAIN, lambda a, b: neg_max_cat(a, b) + 1, INPUTS)
        self.assertTrue(found.differs and found.recorded_differs)
        self.assertIsNone(found.first)  # the backends agree
        with self.assertRaisesRegex(treadle.BadArgument, "2 results, the model 1: y"):
            debug.compare(CHAIN, lambda a, b: (a, b), INPUTS)
        with self.assertRaises(ZeroDivisionError):
            debug.compare(CHAIN, lambda a, b: 1 / 0, INPUTS)

    def test_what_is_given(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "chain.tdir")
            path.write_bytes(CHAIN)
            self.assertFalse(debug.compare(treadle.load(path), None, INPUTS).differs)
        with self.assertRaisesRegex(treadle.BadArgument, "loaded again only if it came from a file"):
            debug.compare(treadle.load(CHAIN), None, INPUTS)
        with self.assertRaisesRegex(TypeError, "no option colour"):
            debug.compare(CHAIN, None, INPUTS, colour="red")
        with self.assertRaises(treadle.BadArgument):
            debug.compare(CHAIN, None, INPUTS, rtol=-1)


class Bisecting(unittest.TestCase):
    def test_kernels_and_passes(self):
        self.assertIsNone(debug.bisect(CHAIN, INPUTS))
        for mode in ("wrong", "crash", "hang"):
            found = debug.bisect(CHAIN, INPUTS, neg_max_cat, inject=f"neg:{mode}", cc="none", seconds=3)
            self.assertEqual(found.passes, ())
            self.assertEqual(len(found.kernels), 1)
            self.assertIn("neg", found.kernels[0])
        relu = b'tdir 1\ninput %0 "x": f32[64, 48]\n%1 = aten::tanh(%0)\n%2 = aten::exp(%1)\noutput "y" %2\n'
        found = debug.bisect(relu, np.ones((64, 48), "f4"), inject="pass=fuse:wrong", cc="none")
        self.assertEqual(found.passes, ("fuse",))


class Minifying(unittest.TestCase):
    def check(self, failure, **how):
        with tempfile.TemporaryDirectory() as folder:
            lines = []
            small = debug.minify(CHAIN, INPUTS, os.path.join(folder, "small"), cc="none", tell=lines.append, **how)
            text = pathlib.Path(small.path).read_text()
            self.assertEqual((small.failure, small.nodes, os.listdir(os.path.dirname(small.path))), (failure, 1, ["graph.tdir"]))
            self.assertIn("aten::neg", text)
            self.assertTrue(any(line.startswith("smaller sizes") for line in lines), lines)
            model = treadle.load(small.path)
            np.testing.assert_array_equal(model(**small.inputs), -np.asarray(small.inputs["a"]))
            return text

    def test_one_node_is_left(self):
        self.assertIn('f32[1, 1]', self.check("wrong", inject="neg:wrong"))
        self.check("signal 11", inject="neg:crash")

    def test_a_callable_decides(self):
        calls = []

        def fails(path, inputs):
            calls.append(sorted(inputs))
            return "aten::neg" in pathlib.Path(path).read_text()

        self.check("fails", fails=fails)
        self.assertEqual(calls[0], ["a", "b"])
        self.assertEqual(calls[-1], ["a"])

    def test_what_is_right_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(treadle.BadArgument, "nothing to make smaller"):
                debug.minify(CHAIN, INPUTS, os.path.join(folder, "small"))
            with self.assertRaises(ZeroDivisionError):
                debug.minify(CHAIN, INPUTS, os.path.join(folder, "small"), fails=lambda path, inputs: 1 / 0)


class Page(unittest.TestCase):
    def test_the_page_names_what_there_is(self):
        page = (pathlib.Path(__file__).parents[3] / "docs" / "debugging.md").read_text()
        self.assertEqual([name for name in debug.__all__ if not re.search(rf"\b{name}\b", page)], [])


if __name__ == "__main__":
    unittest.main()
