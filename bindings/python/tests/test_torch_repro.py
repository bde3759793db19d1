"""Bundles of graphs that fail, as TORCHDYNAMO_REPRO_AFTER=aot asks for them. Needs torch and a build with faults. Run by
tools/test_python_long.sh."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = """
import torch, treadle, warnings
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)
        self.register_buffer("table", torch.arange(16.))
    def forward(self, x):
        h = torch.neg(torch.relu(self.a(x)) * self.table + torch.tensor([2.] * 16)) + 1
        return self.b(h).softmax(-1) {tail}
torch.manual_seed(0)
net, x = Net().eval(), torch.randn({rows}, 8)
fast = torch.compile(net, backend="treadle", dynamic={dynamic}, options={options})
with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    y = fast(x)
    torch.testing.assert_close(y, net(x))
print([str(w.message) for w in caught])
"""
TREADLE = pathlib.Path(__file__).resolve().parents[3] / "build" / "treadle"


def python(*words, folder, **env):
    return subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, env=dict(os.environ, TREADLE=str(TREADLE), **env))


class Bundles(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def leave(self, level, inject, tail="", ends=0, rows=4, dynamic=None):
        """The folder that a run has left, or None, and what the run said."""
        options = {"inject": inject, "threads": 1} if inject else {}
        run = python("-c", PROGRAM.format(tail=tail, rows=rows, dynamic=dynamic, options=options), folder=self.folder.name,
                     TORCHDYNAMO_REPRO_AFTER="aot", TORCHDYNAMO_REPRO_LEVEL=str(level))
        self.assertEqual(run.returncode, ends, run.stderr)
        found = list(pathlib.Path(self.folder.name).rglob("README.md"))
        self.assertLessEqual(len(found), 1)
        return (found[0].parent if found else None), run.stdout

    def smaller(self, folder, operators, words):
        """Runs the launcher, and then the program that it wrote, alone in another folder, as who gets it by mail does."""
        run = python("minifier_launcher.py", folder=folder)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn(f"{operators} operators are left", run.stdout)
        text = (folder / "repro.py").read_text()
        self.assertEqual(text.count("= torch.ops."), operators)
        with tempfile.TemporaryDirectory() as elsewhere:
            (pathlib.Path(elsewhere) / "repro.py").write_text(text)
            run = python("repro.py", folder=elsewhere)
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertRegex(run.stdout, words)

    def test_results_that_differ(self):
        for rows, dynamic in ((4, None), (3, True)):
            with self.subTest(dynamic=dynamic):
                self.folder.cleanup()
                self.setUp()
                folder, said = self.leave(4, "neg:wrong", rows=rows, dynamic=dynamic)
                self.assertIn("differs by up to", said)
                self.assertIn(str(folder), said)
                for what, words in (("compare", "neg"), ("bisect", "kern_neg"), ("minify", "1 node is left")):
                    run = subprocess.run(["sh", "run.sh", what], cwd=folder, capture_output=True, text=True, env=dict(os.environ, TREADLE=str(TREADLE)))
                    self.assertEqual(run.returncode, int(what != "minify"), run.stderr)
                    self.assertIn(words, run.stdout)
                self.smaller(folder, 1, "is wrong: result 0 differs by up to")

    def test_results_that_agree_leave_nothing(self):
        for level in (1, 2, 4):
            folder, said = self.leave(level, None)
            self.assertIsNone(folder)
            self.assertEqual(said.strip(), "[]")

    def test_an_operator_that_is_missing(self):
        for level, name in ((1, "repro.py"), (2, "minifier_launcher.py")):
            with self.subTest(level=level):
                self.folder.cleanup()
                self.setUp()
                folder, said = self.leave(level, None, "+ torch.linalg.eigvals(torch.eye(8) + x.sum()).real")
                self.assertIn("what shows it is in", said)
                self.assertFalse((folder / "graph.tdir").exists())
                self.assertIn("eig", (folder / "README.md").read_text())
                self.assertTrue((folder / name).exists())
        self.smaller(folder, 1, "fails: .*eig")

    def test_a_graph_that_cannot_be_written_down(self):
        for level in (1, 2, 3, 4):
            folder, said = self.leave(level, None, "+ x.to(torch.float8_e8m0fnu).float().sum()")
            self.assertIsNone(folder)
            self.assertIn("it has elements of type torch.float8_e8m0fnu; TORCHDYNAMO_REPRO_AFTER leaves no bundle", said)

    def test_a_crash(self):
        folder, _ = self.leave(3, "neg:crash", ends=-11)
        run = subprocess.run(["sh", "run.sh"], cwd=folder, capture_output=True, text=True, env=dict(os.environ, TREADLE=str(TREADLE)))
        self.assertIn("Segmentation fault at neg (aten::neg)", run.stdout + run.stderr)
        self.smaller(folder, 1, "crashes")


if __name__ == "__main__":
    unittest.main()
