"""Threads and cores from Python: who decides how many, pools of CPUs, calls in order, batches over streams. No torch."""

import contextlib
import os
import pathlib
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import numpy as np  # noqa: E402

import onnx_file  # noqa: E402
import treadle  # noqa: E402
from treadle import runtime  # noqa: E402

LAYER = "builtin:layer:linear 512x512 out=512"


def in_a_child(code, **variables):
    """What the code prints in a process whose environment says only these numbers of threads."""
    names = ("TREADLE_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    env = {k: v for k, v in os.environ.items() if k not in names}
    return subprocess.run([sys.executable, "-c", "import treadle\n" + code], env={**env, **variables}, check=True,
                          capture_output=True, text=True).stdout.strip()


class Threads(unittest.TestCase):
    def test_who_decides(self):
        ask = "print(treadle.get_num_threads())"
        self.assertEqual(in_a_child(ask, MKL_NUM_THREADS="1"), "1")
        self.assertEqual(in_a_child(ask, OMP_NUM_THREADS="1,2", MKL_NUM_THREADS="2"), "1")
        self.assertEqual(in_a_child(ask, TREADLE_NUM_THREADS="3", OMP_NUM_THREADS="1"), "3")
        self.assertEqual(in_a_child("treadle.set_num_threads(5)\n" + ask, TREADLE_NUM_THREADS="3"), "5")
        alone = "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n"
        self.assertEqual(in_a_child(alone + ask), "1")

    def test_calls_take_it(self):
        stats = f"m = treadle.load({LAYER!r})\nprint(m.session().stats['threads'], m.session(threads=1).stats['threads'])"
        self.assertEqual(in_a_child(stats, TREADLE_NUM_THREADS="3"), "3 1")
        later = f"m = treadle.load({LAYER!r}); a = m._here(); treadle.set_num_threads(1); print(m._here() is a)"
        self.assertEqual(in_a_child(later), "False")

    def test_sessions_take_no_threads_besides(self):
        code = f"""
import os
def count(): return len(os.listdir("/proc/self/task"))
models, before = [treadle.load({LAYER!r}) for _ in range(2)], count()
sessions = [m.session() for m in models] + [models[0].session(threads=0)]
models[1]._idle_session()
print(count() - before, models[0].session(threads=3) and count() - before)
"""
        self.assertEqual(in_a_child(code, TREADLE_NUM_THREADS="4"), "3 3")  # the last is gone again
        self.assertEqual(in_a_child(code.replace("(threads=3) and", "(threads=3),"), TREADLE_NUM_THREADS="4").split()[-1], "5")

    def test_interop(self):
        code = "treadle.set_num_interop_threads(4); print(treadle.get_num_interop_threads(), treadle.get_num_threads())"
        self.assertEqual(in_a_child(code, TREADLE_NUM_THREADS="2"), "4 2")

    def test_parallel_info(self):
        text = in_a_child("print(treadle.parallel_info())", OMP_NUM_THREADS="1")
        self.assertIn("treadle.get_num_threads() : 1, by OMP_NUM_THREADS", text)
        self.assertIn("MKL_NUM_THREADS : [not set]", text)
        self.assertIn("by set_num_threads", in_a_child("treadle.set_num_threads(2); print(treadle.parallel_info())"))
        self.assertIn("by affinity and quota", in_a_child("print(treadle.parallel_info())"))

    def test_no_numbers(self):
        for wrong in (0, -1, 5000, "2", True, 1.0):
            with self.assertRaisesRegex(treadle.BadArgument, "1 to 4096"):
                treadle.set_num_threads(wrong)


class Pools(unittest.TestCase):
    def setUp(self):
        self.allowed = sorted(os.sched_getaffinity(0))

    def test_cpus(self):
        self.assertEqual(runtime.CPUPool().core_ids, self.allowed)
        self.assertEqual(runtime.CPUPool([self.allowed[0]] * 2).core_ids, self.allowed[:1])
        self.assertEqual([len(p) for p in runtime.CPUPool(self.allowed).split(1)], [len(self.allowed)])
        for wrong in ([8191], []):
            with self.assertRaisesRegex(treadle.BadArgument, "cannot be used"):
                runtime.CPUPool(wrong)
        on_nodes = set()
        for node in range(8):
            with contextlib.suppress(treadle.BadArgument):
                on_nodes |= set(runtime.CPUPool(node_id=node).core_ids)
        self.assertTrue(on_nodes and on_nodes <= set(self.allowed), on_nodes)
        with self.assertRaisesRegex(treadle.BadArgument, "node 4000.* not there"):
            runtime.CPUPool(node_id=4000)
        with self.assertRaisesRegex(treadle.BadArgument, "not both"):
            runtime.CPUPool([0], node_id=0)

    def test_pin(self):
        one = runtime.CPUPool(self.allowed[-1:])
        with runtime.pin(one):
            self.assertEqual(os.sched_getaffinity(0), set(one.core_ids))
        self.assertEqual(sorted(os.sched_getaffinity(0)), self.allowed)

        @runtime.pin(one)
        def where():
            raise ValueError(os.sched_getaffinity(0))
        with self.assertRaisesRegex(ValueError, str(self.allowed[-1])):
            where()
        self.assertEqual(sorted(os.sched_getaffinity(0)), self.allowed)


class Tasks(unittest.TestCase):
    def test_order_and_values(self):
        model, seen = treadle.load("builtin:fused_chain"), []
        x = {v.name: np.random.default_rng(1).standard_normal(v.shape).astype("f4") for v in model.inputs}
        with runtime.Task(model) as task:
            futures = [task(**x) for _ in range(5)]
            for f in futures:
                np.testing.assert_array_equal(f.get(), model(**x))
        with runtime.Task(seen.append) as task:
            for i in range(10000):
                task(i)
        self.assertEqual(seen, list(range(10000)))

    def test_on_its_cores(self):
        last = runtime.CPUPool(sorted(os.sched_getaffinity(0))[-1:])
        with runtime.Task(lambda: os.sched_getaffinity(0), last) as task:
            self.assertEqual(task.run_sync(), set(last.core_ids))

    def test_errors_cancel_stop(self):
        task, gate = runtime.Task(lambda f: f()), threading.Event()
        held, waiting = task(gate.wait), task(lambda: 1)
        self.assertTrue(waiting.cancel())
        gate.set()
        self.assertTrue(held.result())
        with self.assertRaises(ZeroDivisionError):
            task.run_sync(lambda: 1 // 0)
        self.assertEqual(task.run_sync(lambda: 7), 7)
        task.stop()
        with self.assertRaisesRegex(treadle.BadArgument, "was stopped"):
            task(lambda: 1)
        task.stop()


class Streams(unittest.TestCase):
    def test_remainders_and_small_batches(self):
        sizes = []

        def double(x):
            sizes.append(len(x))
            return 2 * x
        many = runtime.MultiStreamModule(double, 1)
        self.addCleanup(many.stop)
        for batch in (1, 2, 3, 7, 8):
            x = np.arange(batch * 3).reshape(batch, 3)
            np.testing.assert_array_equal(many(x), 2 * x)
        streams = runtime.MultiStreamModule(double, runtime.AUTO)
        self.addCleanup(streams.stop)
        count = streams.num_streams
        self.assertEqual(count, len(os.sched_getaffinity(0)))
        del sizes[:]
        x = np.arange((count + 1) * 2).reshape(-1, 2)  # one sample more than streams
        np.testing.assert_array_equal(streams(x), 2 * x)
        self.assertEqual(sorted(sizes), [1] * (count - 1) + [2])
        self.assertEqual(runtime.MultiStreamModule(double, 10000).num_streams, count)

    def test_a_model_gives_the_same_bits(self):
        model = treadle.load(onnx_file.two_outputs())
        x = np.arange(21, dtype="f4").reshape(7, 3) - 9
        many = runtime.MultiStreamModule(model, output_concat_axis=(0, 1))
        self.addCleanup(many.stop)
        for ours, plain in zip(many(x), model(x)):
            np.testing.assert_array_equal(ours, plain)

    def test_joined_where_they_are_made(self):
        relu = onnx_file.model([onnx_file.node("Relu", "x", "a"), onnx_file.node("Add", "a w", "y"), onnx_file.node("Mul", "a y", "z")],
                               [onnx_file.value_info(n, onnx_file.FLOAT, ["batch", 3]) for n in "xw"],
                               [onnx_file.value_info(n, onnx_file.FLOAT, ["batch", 3]) for n in "yz"])
        model = treadle.load(relu)
        for streams in (1, 2, 3, runtime.AUTO):
            many = runtime.MultiStreamModule(model, streams)
            for batch in (1, 2, 3, 7, 8, 0, 5):
                x = np.arange(batch * 3, dtype="f4").reshape(batch, 3) - 4
                w = np.asfortranarray(x[::-1] * 2)
                results = many(x, w=w)
                self.assertIsInstance(results["y"], np.ndarray)
                for ours, plain in zip(results, model(x, w)):
                    np.testing.assert_array_equal(ours, plain)
            self.assertIsNone(many._tasks)
            many.stop()
            with self.assertRaisesRegex(treadle.BadArgument, "was stopped"):
                many(x, w)

    def test_whole_inputs_and_mistakes(self):
        model = treadle.load(onnx_file.model([onnx_file.node("Mul", "x w", "y")], [onnx_file.value_info("x", onnx_file.FLOAT, ["n", 3]),
                             onnx_file.value_info("w", onnx_file.FLOAT, ["k", 3])], [onnx_file.value_info("y", onnx_file.FLOAT, ["n", 3])]))
        x, w = np.arange(12, dtype="f4").reshape(4, 3), np.ones((1, 3), "f4") * 3
        many = runtime.MultiStreamModule(model, input_split_hint=runtime.MultiStreamModuleHint(0, None))
        np.testing.assert_array_equal(many(x, w), x * 3)
        self.assertIsNone(many._tasks)
        with self.assertRaisesRegex(treadle.BadArgument, "the hint is for 2 arguments"):
            many(x, w=w)
        with self.assertRaisesRegex(treadle.BadArgument, "has 1 samples; others have 4"):
            runtime.MultiStreamModule(model)(x, w)
        np.testing.assert_array_equal(many(x, w), x * 3)

    def test_sizes_that_running_tells(self):
        found = onnx_file.model([onnx_file.node("NonZero", "x", "a"), onnx_file.node("Transpose", "a", "y")],
                                [onnx_file.value_info("x", onnx_file.FLOAT, ["n", "m"])], [onnx_file.value_info("y", onnx_file.INT64, ["k", 2])])
        model, x = treadle.load(found), np.eye(5, dtype="f4")
        many = runtime.MultiStreamModule(model)
        self.addCleanup(many.stop)
        np.testing.assert_array_equal(many(x)[:, 1], model(x)[:, 1])

    def test_how_many(self):
        model = treadle.load(onnx_file.two_outputs())
        many = runtime.MultiStreamModule(model, output_concat_axis=0)
        self.assertEqual(many.streams_of(1), 1)
        self.assertEqual(many.streams_of(many.num_streams), many.num_streams)
        layer = treadle.load("builtin:mobilenet_v2")
        many, x = runtime.MultiStreamModule(layer), np.ones((3, 3, 224, 224), "f4")
        np.testing.assert_array_equal(many.tune(x), layer(x))
        self.assertIn(many.streams_of(3), range(1, many.num_streams + 1))
        self.assertEqual(runtime.MultiStreamModule(layer, 1).streams_of(8), 1)

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one CPU is not two")
    def test_on_its_cores(self):
        last = runtime.CPUPool(sorted(os.sched_getaffinity(0))[-1:])
        many = runtime.MultiStreamModule(treadle.load("builtin:mobilenet_v2"), 1, last)
        many(np.zeros((2, 3, 224, 224), "f4"))
        self.assertEqual(many.num_streams, 1)
        self.assertGreater(len(os.sched_getaffinity(0)), 1)

    def test_many_callers(self):
        model = treadle.load("builtin:mobilenet_v2")
        many, x, failed = runtime.MultiStreamModule(model), np.ones((3, 3, 224, 224), "f4"), []
        plain = model(x)

        def call():
            for _ in range(3):
                if not np.array_equal(many(x), plain):
                    failed.append(1)
        threads = [threading.Thread(target=call) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(failed, [])

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_in_a_child_of_fork(self):
        many = runtime.MultiStreamModule(treadle.load("builtin:mobilenet_v2"))
        x = np.ones((2, 3, 224, 224), "f4")
        plain = many(x)
        child = os.fork()
        if child == 0:
            os._exit(0 if np.array_equal(many(x), plain) else 3)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_hints(self):
        def scaled(x, factor, bias=None):
            return x * factor + bias
        hint = runtime.MultiStreamModuleHint(1, None, bias=1)
        many = runtime.MultiStreamModule(scaled, input_split_hint=hint, output_concat_axis=1)
        self.addCleanup(many.stop)
        x = np.arange(10.0).reshape(2, 5)
        np.testing.assert_array_equal(many(x, 3, bias=x), 4 * x)
        with self.assertRaisesRegex(treadle.BadArgument, "the hint is for 2 arguments"):
            many(x, bias=x)
        with self.assertRaisesRegex(treadle.BadArgument, "arguments of one batch"):
            many(x, 3, bias=x[:, :4])
        parts = runtime.MultiStreamModule(lambda x: x, 1, concat_output=False)
        self.addCleanup(parts.stop)
        self.assertEqual(len(parts(x)), 1)
        with self.assertRaisesRegex(treadle.BadArgument, "num_streams is 0"):
            runtime.MultiStreamModule(scaled, 0)


class EarlyEnds(unittest.TestCase):
    def setUp(self):
        self.model = treadle.load("builtin:mobilenet_v2")
        self.batch = np.zeros((64, 3, 224, 224), np.float32)

    def test_timeout(self):
        session = self.model.session(timeout=1e-6)
        with self.assertRaises(treadle.TimedOut) as caught:
            session(self.batch)
        self.assertIsInstance(caught.exception, TimeoutError)
        self.assertIn("deadline", str(caught.exception))
        session.timeout = 60
        self.assertEqual(session(self.batch[:1]).shape, (1, 1000))

    def test_cancel(self):
        session = self.model.session()
        session(self.batch[:1])
        session.cancel()  # there is no call to end
        session(self.batch[:1])
        ended = threading.Event()

        def cancel():
            while not ended.wait(0.002):
                session.cancel()

        thread = threading.Thread(target=cancel)
        thread.start()
        with self.assertRaises(treadle.Cancelled):
            for _ in range(1000):
                session(self.batch)
        ended.set()
        thread.join()
        self.assertEqual(session(self.batch[:1]).shape, (1, 1000))


if __name__ == "__main__":
    unittest.main()
