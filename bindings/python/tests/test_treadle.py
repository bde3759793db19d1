"""The Python package with Debian's numpy; no torch. Run by tools/test_python.sh."""

import contextlib
import gc
import gzip
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import numpy as np  # noqa: E402

import onnx_file  # noqa: E402
import treadle  # noqa: E402


def expected(x):
    return np.maximum(x, 0) + np.array([1, 2, 3], "f4")


def rows(count=2):
    return (np.arange(3 * count, dtype="f4") - 2).reshape(count, 3)


class Compiling(unittest.TestCase):
    """Fused loops: machine code in the user's cache folder where there is a compiler, else interpreted."""
    chain = b'tdir 1\ninput %0 "x": f32[64, 48]\n%1 = aten::tanh(%0)\n%2 = aten::exp(%1)\noutput "y" %2\n'

    def load(self, **options):
        """A model of a chain, and how many files it left in an empty cache folder."""
        before = os.environ.get("TREADLE_CACHE")
        with tempfile.TemporaryDirectory() as folder:
            os.environ["TREADLE_CACHE"] = os.path.join(folder, "cache")
            try:
                model = treadle.load(self.chain, **options)
                return model, len(list(pathlib.Path(folder).rglob("*.so")))
            finally:
                del os.environ["TREADLE_CACHE"]
                if before is not None:
                    os.environ["TREADLE_CACHE"] = before

    def check(self, model):
        x = np.random.default_rng(2).standard_normal((64, 48)).astype("f4")
        np.testing.assert_allclose(np.asarray(model(x)), np.exp(np.tanh(x)), rtol=1e-5)

    def test_code(self):
        model, files = self.load()
        self.check(model)
        self.assertEqual(files, 1 if shutil.which("cc") or shutil.which("gcc") or shutil.which("clang") else 0)
        model, files = self.load(cc="none")
        self.check(model)
        self.assertEqual(files, 0)

    def test_failing_compilers(self):
        with self.assertWarnsRegex(RuntimeWarning, "the C compiler failed"):
            model, files = self.load(cc="false")
        self.check(model)
        self.assertEqual(files, 0)
        with self.assertRaisesRegex(treadle.BadArgument, "there is no program called cc-of-nobody"):
            self.load(cc="cc-of-nobody")


class Specialising(unittest.TestCase):
    def test_variants(self):
        model = treadle.load(onnx_file.two_outputs(), specialise={"batch": (1, 4)})
        for count in (1, 2, 4, 1):
            np.testing.assert_array_equal(model(rows(count))["y"], expected(rows(count)))
        self.assertIn("# variant batch=4", model.text("plan"))
        self.assertIn("# variant batch=3", treadle.load(onnx_file.two_outputs(), specialise="batch=3").text("plan"))
        self.assertIn("# variant batch=2", treadle.load(onnx_file.two_outputs(), specialise={"batch": 2}).text("plan"))
        with self.assertRaisesRegex(treadle.BadArgument, "there are: batch"):
            treadle.load(onnx_file.two_outputs(), specialise={"seq": 4})


class KeptState(unittest.TestCase):
    FILE = onnx_file.model([onnx_file.node("Concat", "past.0.key x", "present.0.key", axis=1), onnx_file.node("Relu", "present.0.key", "y")],
                           [onnx_file.value_info("x", onnx_file.FLOAT, ["batch", "rows", 2]),
                            onnx_file.value_info("past.0.key", onnx_file.FLOAT, ["batch", "past", 2])],
                           [onnx_file.value_info("y", onnx_file.FLOAT, ["batch", "all", 2]),
                            onnx_file.value_info("present.0.key", onnx_file.FLOAT, ["batch", "all", 2])])

    def answer(self, session, x):
        return np.asarray(session(np.array(x, "f4"))).tolist()

    def test_is_passed_on(self):
        model = treadle.load(self.FILE, state="auto")
        self.assertEqual([v.name for v in model.inputs + model.outputs + model.states], ["x", "y", "past.0.key"])
        session, other = model.session(), model.session()
        self.assertEqual(self.answer(session, [[[1.0, -2.0]]]), [[[1, 0]]])
        self.assertEqual(self.answer(session, [[[3.0, 4.0], [5.0, 6.0]]]), [[[1, 0], [3, 4], [5, 6]]])
        self.assertEqual(self.answer(other, [[[7.0, 8.0]]]), [[[7, 8]]])
        self.assertEqual(session.stats["state_copied"], 0)
        self.assertGreaterEqual(session.stats["state_bytes"], 24)
        session.reset()
        self.assertEqual(self.answer(session, [[[9.0, 1.0]]]), [[[9, 1]]])

    def test_is_compiled(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "kept.tdl")
            treadle.compile(self.FILE, path, state="past.*=present.* batch=2 past=1", cc="none")
            session = treadle.load(path).session()
            self.assertEqual(self.answer(session, [[[1.0, 2.0]], [[3.0, 4.0]]]), [[[0, 0], [1, 2]], [[0, 0], [3, 4]]])

    def test_refused(self):
        for state, words in (("past.*=now.*", "no output is called now.0.key"), ("auto rows=1", "there are: batch, past"), ("x=y z", "'z' says no state")):
            with self.subTest(state), self.assertRaisesRegex(treadle.BadArgument, words):
                treadle.load(self.FILE, state=state)


class Profiling(unittest.TestCase):
    def record(self, target, runs, **options):
        with treadle.profile(target, **options) as prof:
            for _ in range(runs):
                target(rows())
                prof.step()
        return prof

    def test_adds_up(self):
        session = treadle.load(onnx_file.two_outputs(), threads=1).session()
        prof = self.record(session, 5)
        session(rows())  # no longer recorded
        t = prof.totals
        self.assertEqual(t["runs"], 5)
        self.assertAlmostEqual(t["self_ms"] + t["wait_ms"] + t["between_ms"], t["run_ms"], delta=0.01 * t["run_ms"])
        rows_ = prof.key_averages()
        self.assertAlmostEqual(sum(r.self_cpu_time_total for r in rows_), 1e3 * t["self_ms"], delta=10 * t["self_ms"] + 1)
        table = rows_.table(sort_by="self_cpu_time_total", row_limit=1)
        for words in ("Self CPU %", "CPU total", "# of Calls", "Self CPU time total: "):
            self.assertIn(words, table)
        self.assertTrue(any("Relu" in r.key or r.nodes for r in prof.key_averages("node")))
        with self.assertRaises(treadle.BadArgument):
            rows_.table(sort_by="weight")
        with self.assertRaises(treadle.BadArgument):
            prof.key_averages("colour")

    def test_of_a_model(self):
        model = treadle.load(onnx_file.two_outputs(), threads=1)
        self.assertEqual(self.record(model, 3).totals["runs"], 3)

    def test_schedule(self):
        session = treadle.load(onnx_file.two_outputs(), threads=1).session()
        ready = []
        plan = treadle.schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=2)
        prof = self.record(session, 12, schedule=plan, on_trace_ready=lambda p: ready.append((p.step_num, p.totals["runs"])))
        self.assertEqual(ready, [(5, 2), (9, 2)])  # each cycle its own
        self.assertEqual(prof.totals["runs"], 2)
        ready.clear()
        plan = treadle.schedule(wait=0, warmup=0, active=3)
        self.record(session, 9, schedule=plan, on_trace_ready=lambda p: ready.append((p.step_num, p.totals["runs"])))
        self.assertEqual(ready, [(3, 3), (6, 3), (9, 3)])
        with self.assertRaises(treadle.BadArgument):
            treadle.schedule(wait=0, warmup=0, active=0)

    def test_one_after_the_other(self):
        session = treadle.load(onnx_file.two_outputs(), threads=1).session()
        for runs in (2, 3):  # the first is freed while the second records
            prof = self.record(session, runs)
            self.assertEqual(prof.totals["runs"], runs)

    def test_exports(self):
        session = treadle.load(onnx_file.two_outputs(), threads=1).session()
        prof = self.record(session, 2)
        with tempfile.TemporaryDirectory() as folder:
            for name in ("trace.json", "trace.json.gz"):
                path = pathlib.Path(folder) / name
                prof.export_chrome_trace(path)
                with (gzip.open if name.endswith("gz") else open)(path, "rt") as file:
                    events = json.load(file)["traceEvents"]
                self.assertEqual(sum(e["name"].startswith("ProfilerStep#") for e in events), 2)
            prof.export_stacks(pathlib.Path(folder) / "stacks.txt")
            prof.export_html(pathlib.Path(folder) / "page.html")

    def test_what_the_page_shows(self):
        page = pathlib.Path(__file__).parents[3] / "docs" / "profiling.md"
        block, = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        here, out = os.getcwd(), io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(out):
            os.chdir(folder)
            try:
                pathlib.Path("net.onnx").write_bytes(onnx_file.two_outputs())
                exec(block, {"treadle": treadle, "batches": [rows()] * 6})
                self.assertTrue(json.loads(pathlib.Path("trace.json").read_text())["traceEvents"])
            finally:
                os.chdir(here)
        self.assertIn("Self CPU time total: ", out.getvalue())

    def test_misuse(self):
        with self.assertRaises(treadle.BadArgument):
            treadle.profile(3)
        with self.assertRaises(treadle.BadArgument):
            treadle.profile(treadle.load(onnx_file.two_outputs())).key_averages()

    def test_ranges_without_a_collector(self):
        from treadle import itt
        self.assertEqual(itt.is_available(), "INTEL_LIBITTNOTIFY64" in os.environ)
        with itt.range("batch {}", 1):
            itt.mark("now")
        with self.assertRaises(treadle.NoResource):
            treadle._core.Collector("/nowhere.so")


class Quantising(unittest.TestCase):
    def test_samples_from_memory(self):
        random = np.random.default_rng(0)
        samples = [random.random((1, 3, 224, 224), dtype="f4") for _ in range(2)]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "small.onnx"
            report = treadle.quantize("builtin:mobilenet_v3_small", samples, path, layers=0)
            self.assertIn("54 of 54 layers narrow, on 2 samples", report)
            plain, narrow = (treadle.load(of)(samples[0]) for of in ("builtin:mobilenet_v3_small", str(path)))
            self.assertLess(np.linalg.norm(plain - narrow), 0.05 * np.linalg.norm(plain))
            self.assertGreater(np.linalg.norm(plain - narrow), 0)
            report = treadle.quantize("builtin:mobilenet_v3_small", [{"input": samples[0]}], path, mode="int4", layers=0, max_loss=0)
            self.assertIn("0 of 2 layers narrow", report)
            self.assertIsNone(report.keep_f32)

    def test_halves(self):
        x = np.random.default_rng(0).random((1, 3, 224, 224), dtype="f4")
        try:
            report = treadle.quantize("builtin:mobilenet_v3_small", [x], mode="bf16", layers=1)
        except treadle.Unsupported as error: # a CPU without conversions of 16 bits
            self.assertIn("changes no layer here", str(error))
            return
        self.assertIn("layers narrow, on 1 samples\n", report)
        self.assertEqual(report.keep_f32, "")
        report = treadle.quantize("builtin:mobilenet_v3_small", [x], mode="bf16", layers=0, max_loss=0)
        self.assertIn(f"--precision bf16 --keep-f32 '{report.keep_f32}'", report)
        plain, kept, narrow = (treadle.load("builtin:mobilenet_v3_small", **options)(x) for options in (
            {}, {"precision": "bf16", "keep_f32": report.keep_f32}, {"precision": "bf16"}))
        self.assertTrue((plain == kept).all())
        self.assertFalse((plain == narrow).all())

    def test_misuse(self):
        with self.assertRaises(treadle.BadArgument) as caught:
            treadle.quantize("builtin:mobilenet_v3_small", [], "y.onnx", mode="int3")
        self.assertIn("--mode 'int3'", str(caught.exception))
        with self.assertRaises(treadle.BadFile):
            treadle.quantize("none.onnx", [], "y.onnx")


class Loading(unittest.TestCase):
    def test_from_bytes_and_path(self):
        data = onnx_file.two_outputs()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "two.onnx"
            path.write_bytes(data)
            for source in (data, bytearray(data), memoryview(data), np.frombuffer(data, "u1"), path, str(path)):
                model = treadle.load(source)
                y, z = model(rows())
                np.testing.assert_array_equal(y, expected(rows()))
                np.testing.assert_array_equal(z, expected(rows()).T)

    def test_bytes_are_kept(self):
        model = treadle.load(bytes(bytearray(onnx_file.two_outputs())))
        gc.collect()
        np.testing.assert_array_equal(model(rows())[0], expected(rows()))

    def test_describes_itself(self):
        model = treadle.load(onnx_file.two_outputs(), backend="eager", threads=1)
        self.assertEqual(model.inputs, (("x", "tensor", "f32", ("batch", 3), False, False),))
        self.assertEqual([v.name for v in model.outputs], ["y", "z"])
        self.assertEqual(model.outputs[0].shape, ("batch", 3))
        text = str(model)
        for words in ("eager", "x: f32[batch, 3]", "z: f32[3, batch]", "weights"):
            self.assertIn(words, text)
        self.assertEqual(model.stats["backend"], "eager")
        self.assertIn("aten::relu", model.text("imported"))
        self.assertIn("digraph", model.text("plan", "dot"))
        self.assertIn("1 in, 2 out", repr(model))

    def test_options(self):
        x = np.random.default_rng(1).standard_normal((1, 3, 32, 32)).astype("f4")
        model = treadle.load("builtin:mobilenet_v3_small", math="exact", isa="scalar", seed=3, threads=1)
        self.assertEqual(model.inputs[0].shape[1], 3)
        del x
        with self.assertRaisesRegex(treadle.BadArgument, "there are: "):
            treadle.load(onnx_file.add(), backend="cuda")
        with self.assertRaisesRegex(treadle.BadArgument, "math|sums|exact"):
            treadle.load(onnx_file.add(), math="sloppy")
        with self.assertRaises(treadle.BadArgument):
            treadle.load(onnx_file.add(), weights="weights.pth")

    def test_options_are_looked_at(self):
        for wrong in ("batch", "batch=", "batch=0", "batch=1,", "batch=1 seq", 3, {"batch": ()}, {"batch": "8"}):
            with self.assertRaisesRegex(treadle.BadArgument, "specialise"):
                treadle.load(onnx_file.two_outputs(), specialise=wrong)
        for math in ("fastt", "", "Exact"):
            with self.assertRaisesRegex(treadle.BadArgument, "exact.*fast"):
                treadle.load(onnx_file.two_outputs(), math=math)
        treadle.load(onnx_file.two_outputs(), math="exact", specialise="")

    def test_open_sizes_by_name(self):
        path = os.path.join(os.path.dirname(__file__), "../../../tests/models/torchscript/forks/model.pt")
        model = treadle.load(path, [("f32", ("rows", 3))], threads=1)
        self.assertEqual(model.inputs[0].shape, ("rows", 3))
        for rows in (1, 4, 2):
            self.assertEqual(np.asarray(model(np.ones((rows, 3), "f4"))).shape, (rows, 3))
        with self.assertRaisesRegex(treadle.BadArgument, "3"):
            model(np.ones((2, 4), "f4"))

    def test_errors_by_status(self):
        with self.assertRaises(treadle.BadFile) as caught:
            treadle.load("no/such/model.onnx")
        self.assertIn("no/such/model.onnx", caught.exception.name)
        with self.assertRaises(treadle.BadFile) as caught:
            treadle.load(onnx_file.two_outputs()[:-3])
        self.assertIsInstance(caught.exception, treadle.Error)
        unknown = onnx_file.model([onnx_file.node("Frobnicate", "x", "y")], [onnx_file.value_info("x", 1, [1])],
                                  [onnx_file.value_info("y", 1, [1])])
        with self.assertRaisesRegex(treadle.Unsupported, "Frobnicate"):
            treadle.load(unknown)
        with self.assertRaises(TypeError):
            treadle.load(42)
        with self.assertRaises(treadle.BadArgument):
            treadle.load(np.zeros((4, 4), "u1")[:, ::2])


class Files(unittest.TestCase):
    def test_saved_and_opened(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "net.tdl"
            treadle.load(onnx_file.two_outputs()).save(path)
            for options in ({}, {"trusted": True}):
                np.testing.assert_array_equal(treadle.load(path, **options)(rows())["y"], expected(rows()))

    def test_compiled(self):
        x = np.random.default_rng(2).standard_normal((64, 48)).astype("f4")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "net.tdl")
            treadle.compile(Compiling.chain, path, isa=("scalar", "avx2"))
            for trusted in (False, True):
                model = treadle.load(path, trusted=trusted, cc="none")
                np.testing.assert_allclose(model(x), np.exp(np.tanh(x)), rtol=1e-5)
            with self.assertRaisesRegex(TypeError, "no option threads; there are: .*math"):
                treadle.compile(Compiling.chain, path, threads=2)

    def test_pickled_by_path(self):
        import pickle
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "net.onnx")
            pathlib.Path(path).write_bytes(onnx_file.two_outputs())
            model = pickle.loads(pickle.dumps(treadle.load(path, threads=1, specialise={"batch": 3})))
            self.assertEqual((model.name, model.threads), (path, 1))
            self.assertIn("# variant batch=3", model.plan_text())
            np.testing.assert_array_equal(model(rows())["y"], expected(rows()))
        with self.assertRaisesRegex(treadle.BadArgument, "loaded from a file"):
            pickle.dumps(treadle.load(onnx_file.two_outputs()))

    def test_debug_dir(self):
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2):  # what was there before goes
                treadle.load(onnx_file.two_outputs(), debug_dir=folder, isa="scalar")
            there = sorted(os.listdir(folder))
            for name in ("graph.tdir", "plan.txt", "loops.txt", "options.txt", "timings.txt"):
                self.assertIn(name, there)
            self.assertIn("isa scalar\n", pathlib.Path(folder, "options.txt").read_text())
            again = treadle.load(os.path.join(folder, "graph.tdir"))
            np.testing.assert_array_equal(again(rows())["y"], expected(rows()))

    def test_verbose(self):
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            model = treadle.load(onnx_file.two_outputs(), verbose=True)
        self.assertEqual(err.getvalue(), str(model) + "\n")

    def test_the_command(self):
        path = [p for p in sys.path if os.path.isdir(os.path.join(p, "treadle"))][0]
        run = subprocess.run([sys.executable, "-m", "treadle", "--version"], capture_output=True, text=True, env=dict(os.environ, PYTHONPATH=path))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(treadle.__version__, run.stdout)


class Calling(unittest.TestCase):
    def setUp(self):
        self.model = treadle.load(onnx_file.two_outputs())

    def test_positions_and_names(self):
        for out in (self.model(rows()), self.model(x=rows()), self.model.session()(x=rows())):
            self.assertIsInstance(out, treadle.Outputs)
            self.assertIsInstance(out[0], np.ndarray)
            np.testing.assert_array_equal(out["z"], out[1])
            self.assertEqual(list(out._asdict()), ["y", "z"])
        with self.assertRaises(KeyError):
            out["w"]
        for args, named in (((), {"w": rows()}), ((rows(),), {"x": rows()}), ((rows(), rows()), {}), ((), {})):
            with self.assertRaises(treadle.BadArgument):
                self.model(*args, **named)

    def test_complex_numbers(self):
        for part, whole, name in (("f32", "c8", "c64"), ("f64", "c16", "c128")):
            text = f'tdir 1\ninput %0 "x": {part}[n, 2]\n%1 = aten::neg(%0)\noutput "y" %1 complex\n'
            model, x = treadle.load(text.encode(), backend="eager"), np.array([1 + 2j, -3j, 4], whole)
            self.assertEqual(str(model.outputs[0]), f"y: {name}[n]")
            for given in (x, x[:2], x[::2]):
                y, out = model(given), np.empty(given.shape, whole)
                self.assertEqual((y.dtype, y.tolist()), (x.dtype, (-given).tolist()))
                self.assertIs(model(given, out=out), out)
                np.testing.assert_array_equal(out, -given)
            with self.assertRaisesRegex(treadle.BadArgument, "dense"):
                model(x, out=np.empty(6, whole)[::2])
            self.assertEqual(model([[1.0, 2.0]]).tolist(), [[-1, -2]])

    def test_other_sizes(self):
        for count in (0, 1, 7, 2, 0, 64):
            np.testing.assert_array_equal(self.model(rows(count))[0], expected(rows(count)))

    def test_no_elements_at_no_address(self):
        cast = onnx_file.model([onnx_file.node("Cast", "x", "y", to=onnx_file.FLOAT)], [onnx_file.value_info("x", onnx_file.INT64, ["n"])],
                               [onnx_file.value_info("y", onnx_file.FLOAT, ["n"])])
        for backend in ("eager", "native"):
            empty = treadle._core.view(0, "i64", (0,), None, None, False)
            self.assertEqual(treadle.load(cast, backend=backend)(empty).tolist(), [])

    def test_strides_and_alignment(self):
        wide = np.arange(48, dtype="f4").reshape(4, 12) - 20
        odd = np.frombuffer(b"x" + wide.tobytes(), "u1")[1:].view("f4").reshape(4, 12)
        for x in (wide[:, 1:4], wide[::-1, 9:6:-1], wide.T[:3].T, np.broadcast_to(wide[0, :3], (5, 3)), odd[:, :3],
                  wide[::2, ::4], np.asfortranarray(wide[:, :3])):
            np.testing.assert_array_equal(self.model(x)[0], expected(x))
            np.testing.assert_array_equal(self.model(x)[1], expected(x).T)

    def test_plain_python(self):
        model = treadle.load(onnx_file.add(onnx_file.INT64))
        out = model([1, 2], [3, 4])
        self.assertIsInstance(out, treadle.Array)
        self.assertEqual((out.tolist(), out.shape, out.dtype, len(out), out.nbytes), ([4, 6], (2,), "i64", 2, 16))
        self.assertEqual(memoryview(out).tolist(), [4, 6])
        self.assertEqual(memoryview(out).format, "l")
        self.assertIn("i64", repr(out))
        import array
        self.assertEqual(model(array.array("q", [5]), [1]).tolist(), [6])
        for wrong in ([1.5, 2], [[1], [1, 2]], ["a"], [1 << 70], object()):
            with self.assertRaises((treadle.BadArgument, TypeError)):
                model(wrong, [1, 2])

    def test_wrong_arrays(self):
        for x in (rows().astype("f8"), rows()[0], np.zeros((2, 4), "f4"), rows().astype(">f4"), rows().astype("c8"),
                  np.zeros((1,) * 9, "f4"), np.zeros(3, "f4,i4")):
            with self.assertRaises((treadle.BadArgument, TypeError)):
                self.model(x)
        with self.assertRaisesRegex(treadle.BadArgument, "x.*f64"):
            self.model(rows().astype("f8"))
        np.testing.assert_array_equal(self.model(rows())[0], expected(rows()))

    def test_sizes_by_data(self):
        model = treadle.load(onnx_file.found())
        for x in (np.eye(3, dtype="f4"), np.zeros((2, 2), "f4"), np.ones((2, 5), "f4")):
            np.testing.assert_array_equal(model(x), np.array(np.nonzero(x)))

    def test_defaults_come_back(self):
        weighted = onnx_file.model(
            [onnx_file.node("Add", "x w", "y")],
            [onnx_file.value_info("x", 1, [3]), onnx_file.value_info("w", 1, [3])], [onnx_file.value_info("y", 1, [3])],
            [onnx_file.floats("w", [3], [1, 2, 3])])
        x = np.zeros(3, "f4")
        self.assertEqual([v.name for v in treadle.load(weighted, {"x": x}).inputs], ["x"])
        model = treadle.load(weighted)
        session = model.session()
        self.assertTrue(model.inputs[1].has_default)
        np.testing.assert_array_equal(session(x), [1, 2, 3])
        np.testing.assert_array_equal(session(x, np.full(3, 9, "f4")), [9, 9, 9])
        gc.collect()
        np.testing.assert_array_equal(session(x), [1, 2, 3])

    def test_list_inputs(self):
        model = treadle.load("tests/fuzz/corpus/onnx/sequence_map_add_2_sequences.onnx")
        a = [np.full(4, i, "f4") for i in range(3)]
        out = model(a, a)
        self.assertEqual(len(out), 3)
        for item, one in zip(out, a):
            np.testing.assert_array_equal(item, 2 * one)


class Memory(unittest.TestCase):
    def setUp(self):
        self.model = treadle.load(onnx_file.two_outputs())

    def test_tables(self):
        """What pandas, polars and Arrow have in common: columns by name. (They themselves: tests/trials/data.py.)"""
        class Column(np.ndarray):
            def to_numpy(self):
                return np.asarray(self)

        class Frame:
            def __init__(self, **columns):
                self.kept = {name: np.asarray(values).view(Column) for name, values in columns.items()}
            columns = property(lambda self: list(self.kept))

            def __getitem__(self, name):
                return self.kept[name]

            def __dataframe__(self):
                raise NotImplementedError

        x = np.arange(6, dtype="f8").reshape(2, 3)
        whole = Frame(a=x[:, 0], b=x[:, 1].astype("i4"), c=x[:, 2].astype("f4"))
        for y, z in (self.model(whole), self.model.session()(whole)):
            np.testing.assert_array_equal(y, expected(x))
        by_column = treadle.load(b'tdir 1\ninput %0 "a": f32[n]\ninput %1 "b": f32[n, 1]\n%2 = aten::mul(%0, %1)\noutput "y" %2\n')
        np.testing.assert_array_equal(by_column(Frame(b=[2, 3], a=[1.0, 5.0], other=["x", "y"])), [[2, 10], [3, 15]])
        for wrong, message in ((Frame(a=x[:, 0]), "has 1 columns .a.; the model takes x: f32.batch, 3"),
                               (Frame(a=x[:, 0], b=x[:, 0], c=["u", "v"]), "column c holds <U1; the model takes f32")):
            with self.assertRaisesRegex(treadle.BadArgument, message):
                self.model(wrong)
        with self.assertRaisesRegex(treadle.BadArgument, "has no column b; it has: a"):
            by_column(Frame(a=x[:, 0]))
        with self.assertRaisesRegex(treadle.BadArgument, "no column of the table is called as an input is"):
            by_column(Frame(u=x[:, 0]))
        ids = treadle.load(b'tdir 1\ninput %0 "a": i64[n]\n%1 = aten::neg(%0)\noutput "y" %1\n')
        np.testing.assert_array_equal(ids(Frame(a=np.array([1, 2], "i2"))), [-1, -2])
        with self.assertRaisesRegex(treadle.BadArgument, "float64, which does not become i64"):
            ids(Frame(a=[1.0, np.nan]))

    def test_outputs_outlive_everything(self):
        model = treadle.load(onnx_file.two_outputs())
        y, _ = model(rows())
        del model
        gc.collect()
        np.testing.assert_array_equal(y, expected(rows()))
        y += 1  # it is the caller's own

    def test_calls_do_not_share_outputs(self):
        first = self.model(rows(3))[0]
        kept = first.copy()
        self.model(rows(3) + 9)
        np.testing.assert_array_equal(first, kept)

    def test_out(self):
        y, z = np.empty((2, 3), "f4"), np.empty((3, 2), "f4")
        out = self.model(rows(), out=(y, z))
        self.assertIs(out[0], y)
        self.assertIs(out[1], z)
        np.testing.assert_array_equal(y, expected(rows()))
        np.testing.assert_array_equal(z, y.T)
        y[:] = 0
        out = self.model(rows() + 1, out={"y": y})
        self.assertIs(out["y"], y)
        np.testing.assert_array_equal(out["z"], expected(rows() + 1).T)
        room = bytearray(24)
        self.model(rows(), out=(memoryview(room).cast("f", (2, 3)), None))
        np.testing.assert_array_equal(np.frombuffer(room, "f4").reshape(2, 3), expected(rows()))
        with self.assertRaises((treadle.BadArgument, ValueError, BufferError)):
            self.model(rows(), out=(memoryview(bytes(24)).cast("f", (2, 3)), None))
        for wrong in (np.empty((3, 3), "f4"), np.empty((2, 3), "f8"), np.empty(6, "f4"), np.empty((2, 6), "f4")[:, ::2]):
            with self.assertRaises(treadle.BadArgument):
                self.model(rows(), out=(wrong, None))
        with self.assertRaises(treadle.BadArgument):
            self.model(rows(), out=y)
        with self.assertRaises(treadle.BadArgument):
            self.model(rows(), out={"w": y})

    def test_output_over_input(self):
        x = rows()
        want = expected(x)
        self.model(x, out=(x, None))
        np.testing.assert_array_equal(x, want)

    def test_no_copy_in_or_out(self):
        model = treadle.load(onnx_file.add(onnx_file.INT64))
        array = model([1], [2])
        self.assertEqual(np.asarray(array).__array_interface__["data"][0], array.address)
        self.assertEqual(array.numpy().__array_interface__["data"][0], array.address)
        self.assertEqual(np.from_dlpack(array).__array_interface__["data"][0], array.address)
        self.assertEqual(array.__dlpack_device__(), (1, 0))
        seen = np.from_dlpack(array)
        del array
        gc.collect()
        self.assertEqual(seen.tolist(), [3])

    def test_dlpack_in(self):
        class Only:  # DLPack and nothing else
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **options):
                return self.array.__dlpack__(**options)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        class Interface:
            def __init__(self, array):
                self.__array_interface__ = array.__array_interface__
                self.array = array

        for wrap in (Only, Interface):
            for x in (rows(), rows(4)[::2], np.asfortranarray(rows())):
                out = self.model(wrap(x))
                self.assertIsInstance(out[0], treadle.Array)
                np.testing.assert_array_equal(out[0].numpy(), expected(x))
        before = sys.getrefcount(x)
        for _ in range(100):
            self.model(Only(x))
        self.assertLess(sys.getrefcount(x) - before, 5)
        for _ in range(100):
            out[0].__dlpack__()
            out[0].__dlpack__(max_version=(1, 0))
        self.assertLess(sys.getrefcount(out[0]), 5)

    def test_inputs_are_let_go(self):
        x = rows()
        before = sys.getrefcount(x)
        for _ in range(10):
            self.model(x)
            with self.assertRaises(treadle.BadArgument):
                self.model(x, x)
            with self.assertRaises(treadle.BadArgument):
                self.model(x, out=(x[:1], None))
        gc.collect()
        self.assertEqual(sys.getrefcount(x), before)
        held = bytearray(24)
        self.model(memoryview(held).cast("f", (2, 3)))
        held.append(0)  # nobody has its buffer any more

    def test_element_types(self):
        for code, name in (("f8", "f64"), ("f4", "f32"), ("f2", "f16"), ("i8", "i64"), ("i4", "i32"), ("i2", "i16"), ("i1", "i8"),
                           ("u1", "u8"), ("?", "bool")):
            x = np.array([0, 1, 0, 1], code)
            view = memoryview(x) if code != "f2" else x
            from treadle import _core
            array = _core.view(x.__array_interface__["data"][0], name, x.shape, None, x, True)
            self.assertEqual(array.tolist(), x.tolist())
            np.testing.assert_array_equal(np.asarray(array), x)
            self.assertEqual(np.asarray(array).dtype, x.dtype)
            self.assertFalse(np.asarray(array).flags.writeable)
            del view
        halves = np.array([1.5, -2, 65504, 6e-8, float("inf"), 0], "f2")
        array = _core.view(halves.__array_interface__["data"][0], "f16", halves.shape, None, halves, True)
        self.assertEqual(array.tolist(), halves.tolist())


class Threads(unittest.TestCase):
    def test_one_model_many_threads(self):
        model = treadle.load("builtin:small_lstm")
        shape = tuple(d if isinstance(d, int) else 1 for d in model.inputs[0].shape)
        xs = [np.random.default_rng(i).standard_normal(shape).astype("f4") for i in range(4)]
        want = [model(x) for x in xs]
        failures = []

        def work(i):
            for _ in range(50):
                if not np.array_equal(model(xs[i]), want[i]):
                    failures.append(i)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(failures, [])
        for future, y in [(model.run_async(x), y) for x, y in zip(xs, want)]:
            np.testing.assert_array_equal(future.result(), y)

    def test_a_session_says_that_it_is_taken(self):
        model = treadle.load("builtin:resnet18")
        session = model.session(threads=1)
        x = np.zeros((1, 3, 224, 224), "f4")
        errors, done = [], threading.Event()

        def work():
            while not done.is_set():
                try:
                    session(x)
                except treadle.BadArgument as error:
                    errors.append(str(error))
                    done.set()

        threads = [threading.Thread(target=work) for _ in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
        done.set()
        self.assertIn("running in another thread", errors[0])
        session(x)

    def test_fork(self):
        model = treadle.load(onnx_file.two_outputs())
        session = model.session(threads=2)
        want = model(rows())[0]
        session(rows())
        child = os.fork()
        if child == 0:
            status = 1
            try:
                if np.array_equal(model(rows())[0], want) and np.array_equal(model.run_async(rows()).result()[0], want):
                    try:
                        session(rows())
                    except treadle.BadArgument as error:
                        status = 0 if "fork" in str(error) else 2
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        np.testing.assert_array_equal(model(rows())[0], want)

    def test_bench(self):
        bench = treadle.load("builtin:fused_chain").bench(min_time=0.01, threads=1)
        self.assertGreater(bench.p50, 0)
        self.assertGreaterEqual(bench.p99, bench.min)
        self.assertIn("p50", repr(bench))
        with self.assertRaisesRegex(treadle.BadArgument, "give bench"):
            treadle.load(onnx_file.two_outputs()).bench()

    def test_run_time_stats(self):
        session = treadle.load(onnx_file.two_outputs()).session(threads=1)
        session(rows())
        self.assertEqual(session.stats["runs"], 1)
        self.assertEqual(session.state, {})
        session.reset()
        with self.assertRaisesRegex(treadle.BadArgument, "no state called"):
            session.set_state("cache", rows())


class Unclear:
    def __bool__(self):
        return bool(1 // 0)


class Package(unittest.TestCase):
    def test_imports_nothing_large(self):
        code = "import sys, treadle; m = treadle.load(sys.stdin.buffer.read()); y, z = m([[1.0, -2.0, 3.0]]); " \
               "assert y.tolist() == [[2, 2, 6]], y.tolist(); assert not {'numpy', 'torch'} & set(sys.modules)"
        run = subprocess.run([sys.executable, "-c", code], input=onnx_file.two_outputs(), capture_output=True)
        self.assertEqual((run.returncode, run.stderr), (0, b""))

    def test_parts_are_there_when_asked_for(self):
        code = "import treadle; treadle.itt.pause(); treadle.itt.resume(); print(treadle.runtime.CPUPool.__name__, hasattr(treadle, 'no'))"
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "CPUPool False\n", ""))

    def test_the_page_names_what_there_is(self):
        page = (pathlib.Path(__file__).parents[3] / "docs" / "python.md").read_text()
        missing = [name for name in treadle.__all__ if not re.search(rf"\b{name}\b", page)]
        self.assertEqual(missing, [])
        options = set(treadle.load.__kwdefaults__) | treadle._options.FIELDS
        self.assertEqual([name for name in options if f"`{name}`" not in page], [])

    def test_options_come_from_the_list(self):
        """Each text, flag and number of options.def is a keyword of load, in the stub, and has the type that is told."""
        import ast
        rows = re.findall(r"^(TEXT|FLAG|NUMBER)\((\w+)\)$", (pathlib.Path(__file__).parents[3] / "include/treadle/options.def").read_text(), re.M)
        self.assertEqual({name: kind.lower() for kind, name in rows}, treadle._core.options)
        stub = ast.parse((pathlib.Path(treadle.__file__).parent / "__init__.pyi").read_text())
        load = next(f for f in stub.body if isinstance(f, ast.FunctionDef) and f.name == "load")
        told = {a.arg for a in load.args.kwonlyargs}
        self.assertEqual({name for _, name in rows} - told, {"cache", "for_file"})
        self.assertEqual(set(treadle.load.__kwdefaults__) - told, set())
        wrong = {"text": 7, "flag": Unclear(), "number": -1}
        for name, kind in treadle._core.options.items():
            with self.assertRaises((TypeError, OverflowError, ZeroDivisionError), msg=name):
                treadle._core.load(Compiling.chain, True, **{name: wrong[kind]})
        with self.assertRaises(treadle.BadArgument):
            treadle._core.load(Compiling.chain, True, cc_limit_ms=1 << 32)
        with self.assertRaisesRegex(TypeError, "no field colour"):
            treadle._core.load(Compiling.chain, True, colour="red")
        with self.assertRaisesRegex(TypeError, "load has no option colour; there are: alone, "):
            treadle.load(Compiling.chain, colour="red")
        model = treadle.load(Compiling.chain, cc="none", taps="*", float64=True, backend="eager")
        self.assertEqual([v.dtype for v in model.outputs], ["f64", "f64"])

    def test_stubs_name_what_there_is(self):
        import ast
        folder = pathlib.Path(treadle.__file__).parent
        for stub, module in (("__init__.pyi", treadle), ("_core.pyi", treadle._core)):
            for item in ast.parse((folder / stub).read_text()).body:
                if isinstance(item, (ast.FunctionDef, ast.ClassDef)):
                    self.assertTrue(hasattr(module, item.name), item.name)
        for name in treadle.__all__:
            self.assertTrue(hasattr(treadle, name))
        self.assertTrue((folder / "py.typed").exists())

    def test_errors_travel(self):
        import pickle
        error = pickle.loads(pickle.dumps(treadle.BadFile("it is damaged", "a.onnx", 7)))
        self.assertEqual((error.name, error.text, error.offset, str(error)), ("a.onnx", "it is damaged", 7, "a.onnx: it is damaged"))


if __name__ == "__main__":
    unittest.main()
