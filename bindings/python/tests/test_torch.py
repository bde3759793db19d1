"""torch.compile, ExportedProgram and modules; needs torch. Run by tools/test_python_long.sh."""

import contextlib
import dataclasses
import io
import math
import threading
import unittest
import warnings

import torch

import treadle
from treadle import _torch


def watched(call):
    """What the call gives, and why graphs ran on PyTorch."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    return result, [str(w.message) for w in caught if issubclass(w.category, _torch.Fallback)]


class ComplexMatrix(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Buffer(torch.randn(4, 4, dtype=torch.complex64))

    def forward(self, z, x):
        y = (z @ self.w) * x
        return y.abs(), y


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.fc = torch.nn.Linear(8, 5)

    def forward(self, x):
        return self.fc(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


@dataclasses.dataclass
class Pair:
    first: torch.Tensor
    second: torch.Tensor


class Compile(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(0)

    def test_flex_attention(self):
        from torch.nn.attention.flex_attention import flex_attention

        def nearer(score, batch, head, at, to):
            return torch.where(at >= to, score + 0.1 * (to - at), float("-inf"))

        def attend(q, k):
            return flex_attention(q, k, k, score_mod=nearer) + 1

        q, k = torch.randn(1, 2, 9, 8), torch.randn(1, 2, 9, 8)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = attend(q, k)
            got, fallbacks = watched(lambda: torch.compile(attend, backend="treadle")(q, k))
        self.assertEqual(fallbacks, [])
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)

    def same(self, function, *args, fallback=False, options=None, dynamic=None):
        compiled = torch.compile(function, backend="treadle", options=options or {}, dynamic=dynamic)
        with torch.no_grad():
            want = function(*args)
            got, why = watched(lambda: compiled(*args))
        self.assertEqual(bool(why), fallback, why)
        torch.testing.assert_close(got, want)
        return compiled

    def test_a_network(self):
        for options in ({}, {"threads": 1, "math": "exact"}, {"backend": "eager"}):
            torch._dynamo.reset()
            self.same(Net().eval(), torch.randn(2, 3, 16, 16), options=options)

    def test_changed_parameters(self):
        net, x = Net().eval(), torch.randn(2, 3, 16, 16)
        compiled = self.same(net, x)
        with torch.no_grad():
            net.fc.weight.mul_(2)
            torch.testing.assert_close(compiled(x), net(x))
            net.load_state_dict(Net().state_dict())
            torch.testing.assert_close(compiled(x), net(x))

    def test_parameters_in_other_memory(self):
        net, x = Net().eval(), torch.randn(2, 3, 16, 16)
        compiled = self.same(net, x)
        with torch.no_grad():
            net.fc.weight.data = torch.randn_like(net.fc.weight)
            torch.testing.assert_close(compiled(x), net(x))
            net.fc.bias = torch.nn.Parameter(torch.randn(5))
            torch.testing.assert_close(compiled(x), net(x))

    def test_parameters_that_count_no_writes(self):
        x = torch.randn(2, 3, 16, 16)
        with torch.inference_mode():
            net = Net().eval()
            compiled = self.same(net, x)
            net.fc.weight.mul_(2)
            torch.testing.assert_close(compiled(x), net(x))

    def test_negated_arguments(self):
        self.same(lambda x: x * 2 + 1, torch.randn(4, dtype=torch.complex64).conj().imag, fallback=True)

    def test_open_sizes(self):
        net = Net().eval()
        compiled = torch.compile(net, backend="treadle", dynamic=True)
        counter = torch._dynamo.utils.counters
        counter.clear()
        with torch.no_grad():
            for n in (2, 5, 3, 9):
                x = torch.randn(n, 3, 16, 12 + n)
                torch.testing.assert_close(compiled(x), net(x))
        self.assertEqual(counter["stats"]["unique_graphs"], 1)

    def test_sizes_as_values(self):
        self.same(lambda x: x.reshape(-1, x.shape[0]) * x.shape[1] + x.numel(), torch.randn(4, 6), dynamic=True)

    def test_writes_come_back(self):
        class Counter(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("n", torch.zeros(3))

            def forward(self, x, into):
                self.n.add_(x)
                into.mul_(2)
                return self.n * 2

        mine, theirs = Counter(), Counter()
        compiled = torch.compile(mine, backend="treadle")
        with torch.no_grad():
            for i in range(4):
                x, a, b = torch.randn(3), torch.ones(3), torch.ones(3)
                got, why = watched(lambda: compiled(x, a))
                torch.testing.assert_close(got, theirs(x, b))
                torch.testing.assert_close(mine.n, theirs.n)
                torch.testing.assert_close(a, b)
                self.assertEqual(why, [])

    def test_graph_breaks_and_nested_results(self):
        def function(x, more):
            y = torch.relu(x) + more["bias"]
            torch._dynamo.graph_break()
            return {"pair": Pair(y, y.sum(0)), "list": [y * 2, None, 3, y.shape[0]], "same": x}

        self.same(function, torch.randn(3, 4), {"bias": torch.randn(4)})

    def test_dtypes(self):
        self.same(lambda a, b: (a.double() + b, a.long() // 2, a > b, (a * 3).to(torch.int32)), torch.randn(5), torch.randn(5))

    def test_attention(self):
        q = torch.randn(2, 4, 7, 8)
        self.same(lambda q: torch.nn.functional.scaled_dot_product_attention(q, q, q), q)
        self.same(lambda q: torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True), q)

    def test_attention_without_numbers(self):
        """A row whose scores are NaN is NaN, as in the definition; PyTorch's kernel for CPUs gives zeros."""
        q, k = torch.randn(2, 4, 70, 16), torch.randn(2, 4, 70, 16)
        q[0, 1, 3] = math.nan
        for causal in (False, True):
            with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
                want = torch.nn.functional.scaled_dot_product_attention(q, k, k, is_causal=causal)
            for backend in ("eager", "native"):
                torch._dynamo.reset()
                compiled = torch.compile(lambda q, k: torch.nn.functional.scaled_dot_product_attention(q, k, k, is_causal=causal),
                                         backend="treadle", options={"backend": backend})
                with torch.no_grad():
                    torch.testing.assert_close(compiled(q, k), want, equal_nan=True)
            self.assertTrue(want[0, 1, 3].isnan().all())

    def test_strided_arguments(self):
        self.same(lambda x: x * 2 + 1, torch.randn(6, 8)[::2, 1:5].T)
        self.same(lambda x: torch.relu(x).sum(1), torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last))

    def test_taken_apart(self):
        def function(x):
            y = x.clone()
            y[:, 1:3] = 0
            return torch.nn.functional.hardswish(torch.roll(y, (1, 1), (0, 1))) + torch.logsumexp(x, 1, keepdim=True)

        self.same(function, torch.randn(4, 5))

    def test_training_falls_back(self):
        net, x = Net().train(), torch.randn(2, 3, 16, 16)
        compiled = torch.compile(net, backend="treadle")
        out, why = watched(lambda: compiled(x))
        out.sum().backward()
        self.assertEqual(len(why), 1)
        self.assertIn("no_grad", why[0])
        self.assertIsNotNone(net.fc.weight.grad)

    def test_a_missing_operator_falls_back(self):
        self.same(lambda x: torch.linalg.eigvals(x @ x.T).real.sum() + 1, torch.randn(3, 3), fallback=True)

    def test_rare_operators(self):
        x = torch.randn(4, 5)
        self.same(lambda x: (torch.cummax(x, 1), torch.logcumsumexp(x, 0), torch.nanmedian(x, 1)), x)
        self.same(lambda x: (torch.lgamma(x), torch.special.i0e(x), torch.erfinv(torch.tanh(x)), torch.erfc(x * 3)), x)
        self.same(lambda x: torch.linalg.solve(x @ x.T + torch.eye(4), x), x)
        self.same(lambda x: (torch.linalg.svdvals(x), torch.linalg.det(x[:, :4]), torch.linalg.pinv(x)), x)
        self.same(lambda x: (torch.histc(x, 5), torch.bincount((x * x).long().flatten())), x)

    def test_grouped_products(self):
        ends, w = torch.tensor([5, 5, 16], dtype=torch.int32), torch.randn(3, 8, 16)
        grouped = torch._grouped_mm
        self.same(lambda x: grouped(x, w, offs=ends), torch.randn(16, 8))
        self.same(lambda x: grouped(x, w[0], offs=ends), torch.randn(3, 4, 8))
        self.same(lambda x: grouped(x, x.t().contiguous(), offs=ends), torch.randn(8, 16))

    def test_products_of_integers(self):
        x, w = torch.randint(-128, 127, (19, 40), dtype=torch.int8), torch.randint(-128, 127, (40, 24), dtype=torch.int8)
        self.same(lambda x: torch._int_mm(x, w), x)

    def test_strides_of_views(self):
        self.same(lambda x: (x[1:].as_strided((2, 3), (8, 1)), x.t()[2:].as_strided((2, 3), (1, 8)), x[1, 2:].as_strided((2, 2), (2, 1))),
                  torch.randn(6, 8))

    def test_numbers_for_tensors(self):
        self.same(lambda x: torch.ops.aten.sub.Tensor(x.sum(), 1.0), torch.randn(5, dtype=torch.float16))

    def test_complex_numbers(self):
        x, z = torch.randn(4, 16), torch.randn(4, 16, dtype=torch.complex64)
        self.same(torch.fft.fft, x)
        self.same(lambda z: (torch.fft.ifft(z, norm="ortho"), z.abs(), z * z.conj(), z @ z.T, torch.exp(z), z + 1j * z), z)
        self.same(lambda z: z * 2, z.conj())
        window = torch.hann_window(16)
        self.same(lambda x: torch.istft(torch.stft(x, 16, 4, window=window, return_complex=True), 16, 4, window=window), x.view(1, 64))

    def test_random_numbers(self):
        def function(x):
            y = torch.nn.functional.dropout(x.sin(), 0.5) + torch.rand_like(x * 2)
            return y, torch.randint(3, 9, (x.shape[0], 5)), torch.randperm(7), torch.empty_like(y).bernoulli_(0.3)

        x = torch.randn(40, 3)
        for dynamic in (False, True):
            compiled = torch.compile(function, backend="treadle", dynamic=dynamic)
            torch.manual_seed(1)
            (first, again), why = watched(lambda: (compiled(x), compiled(x)))
            self.assertEqual(why, [])
            self.assertFalse(torch.equal(first[1], again[1]))
            self.assertEqual([y.shape for y in first], [(40, 3), (40, 5), (7,), (40, 3)])
            self.assertTrue(3 <= int(first[1].min()) and int(first[1].max()) < 9)
        torch.manual_seed(1)
        want = torch.rand(5), torch.randn(3), torch.randint(9, (4,))
        torch.manual_seed(1)
        with torch.no_grad():
            got = torch.compile(lambda: (torch.rand(5) + 0, torch.randn(3) + 0, torch.randint(9, (4,)) + 0), backend="treadle")()
        torch.testing.assert_close(got, want)  # PyTorch's own

    def test_memory_of_results(self):
        x = torch.randn(2, 3, 4, 5)
        for function in (lambda x: torch.relu(x).permute(2, 0, 3, 1), lambda x: (x * 2).contiguous(memory_format=torch.channels_last),
                         lambda x: (x @ x.mT).mT):
            compiled = self.same(function, x)
            with torch.no_grad():
                self.assertEqual(compiled(x).stride(), function(x).stride())

        def written_later(x):
            y = x * 2
            z = y[1].view(-1)
            torch._dynamo.graph_break()
            y[1, 0] = 7
            return z

        self.same(written_later, x)

    def test_operators_written_in_python(self):
        loss, options = torch.nn.functional.linear_cross_entropy, torch.nn.modules.LinearCrossEntropyOptions(batch_chunk_size=2)
        x, weight, target = torch.randn(6, 4), torch.randn(9, 4), torch.randint(9, (6,))
        self.same(lambda x, w, t: loss(x, w, t, options=options), x, weight, target)

    def test_options(self):
        with self.assertRaisesRegex(Exception, "no option"):
            torch.compile(Net().eval(), backend="treadle", options={"speed": 11})(torch.randn(1, 3, 8, 8))

    def test_threads(self):
        net, failures = Net().eval(), []
        xs = [torch.randn(1, 3, 16, 16) for _ in range(4)]
        compiled = self.same(net, xs[0])
        with torch.no_grad():
            want = [net(x) for x in xs]

        def work(i):
            with torch.no_grad():
                for _ in range(20):
                    if not torch.allclose(compiled(xs[i]), want[i], atol=1e-5):
                        failures.append(i)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(failures, [])

    def test_optimize(self):
        net, x = Net(), torch.randn(2, 3, 16, 16)
        fast, why = watched(lambda: treadle.optimize(net, x, math="exact", threads=1))
        self.assertEqual(why, [])
        torch.testing.assert_close(fast(x), net(x).detach())
        self.assertIs(fast.fc, net.fc)
        self.assertFalse(fast(x).requires_grad)

    def test_optimized_modules_side_by_side(self):
        class Scaled(torch.nn.Module):
            def __init__(self, scale, breaks):
                super().__init__()
                self.fc = torch.nn.Linear(4, 4)
                self.scale, self.breaks = scale, breaks

            def forward(self, x):
                y = torch.relu(self.fc(x))
                if self.breaks:
                    torch._dynamo.graph_break()
                return y * self.scale

        x = torch.randn(3, 4)
        for breaks in (False, True):
            nets = [Scaled(scale, breaks) for scale in (2, 3)]
            fast = [treadle.optimize(net, x) for net in nets]
            with torch.no_grad():
                for given in (x, torch.randn(5, 4), x):
                    for net, own in zip(nets, fast):
                        torch.testing.assert_close(own(given), net(given))
                nets[0].fc.weight.mul_(2)
                nets[1].fc.weight = torch.nn.Parameter(torch.randn(4, 4))
                for net, own in zip(nets, fast):
                    torch.testing.assert_close(own(x), net(x))


class Load(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def test_exported(self):
        net, x = Net().eval(), torch.randn(2, 3, 16, 16)
        program = torch.export.export(net, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},))
        for source in (program, program.run_decompositions()):
            model = treadle.load(source)
            with torch.no_grad():
                torch.testing.assert_close(model(x), net(x))
                torch.testing.assert_close(model(x[:1].expand(5, 3, 16, 16)), net(x[:1].expand(5, 3, 16, 16)))
            self.assertIn("f32", str(model))

    def test_composed_operators(self):
        """Operators that PyTorch writes out in others, as torchao's are."""
        library = torch.library.Library("treadle_test", "DEF")
        library.define("rounded(Tensor x, float scale) -> Tensor")
        library.impl("rounded", lambda x, scale: torch.round(x / scale) * scale, "CompositeImplicitAutograd")

        class Rounded(torch.nn.Module):
            def forward(self, x):
                return torch.ops.treadle_test.rounded(x, 0.25) + 1

        x = torch.randn(3, 4)
        program = torch.export.export(Rounded(), (x,))
        self.assertIn("treadle_test", str(program.graph))
        torch.testing.assert_close(treadle.load(program)(x), Rounded()(x))

    def test_a_module(self):
        net, x = Net().eval(), torch.randn(2, 3, 16, 16)
        model = treadle.load(net, (x,))
        torch.testing.assert_close(model(x), net(x).detach())
        with self.assertRaises(treadle.BadArgument):
            treadle.load(net)

    def test_weights_are_shared(self):
        net, x = Net().eval(), torch.randn(2, 3, 16, 16)
        model = treadle.load(net, (x,), backend="eager")
        self.assertEqual(model.stats["copied_bytes"], 0)

    def test_nested(self):
        class Nested(torch.nn.Module):
            def forward(self, pair, *, scale, more):
                a, b = pair
                return {"sum": a + b, "more": [more["k"] * scale, None, a.shape[0]]}

        module = Nested()
        args, named = ((torch.randn(3), torch.randn(3)),), {"scale": torch.tensor(2.0), "more": {"k": torch.randn(2, 2)}}
        model = treadle.load(torch.export.export(module, args, named))
        want = module(*args, **named)
        torch.testing.assert_close(model(*args, **named), want)
        torch.testing.assert_close(model(*args, more=named["more"], scale=named["scale"]), want)

    def test_state(self):
        class Counter(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("n", torch.zeros(2))

            def forward(self, x):
                self.n += x
                return self.n * 1

        model = treadle.load(Counter(), (torch.ones(2),))
        one, two = model.session(), model.session()
        for i in range(1, 4):
            self.assertEqual(one(torch.ones(2)).tolist(), [i, i])
        self.assertEqual(two(torch.ones(2)).tolist(), [1, 1])
        self.assertEqual(one.state["n"].tolist(), [3, 3])
        one.reset()
        self.assertEqual(one(torch.ones(2)).tolist(), [1, 1])
        one.set_state("n", torch.tensor([5.0, 6.0]))
        self.assertEqual(one(torch.ones(2)).tolist(), [6, 7])

    def test_prints(self):
        class Double(torch.nn.Module):
            def forward(self, x):
                print("rows:", x.shape[0])
                print(x)
                return x * 2

        script, x, heard = torch.jit.script(Double()), torch.ones(2), []
        model = treadle.load(script, (x,))
        torch.testing.assert_close(model.session(print=heard.append)(x), x * 2)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            model(x)
        self.assertEqual("".join(heard), out.getvalue())
        self.assertTrue(out.getvalue().startswith("rows: 2\n"), out.getvalue())

    def test_scripted_functions(self):
        @torch.jit.script
        def clipped(x):
            for _ in range(3):
                x = torch.clamp(x * 2, -1.0, 1.0)
            return x

        x = torch.randn(4, 5)
        torch.testing.assert_close(treadle.load(clipped, (x,))(x), clipped(x))

    def test_complex_arguments(self):
        module = ComplexMatrix().eval()
        z, x = torch.randn(3, 4, dtype=torch.complex64), torch.randn(3, 4)
        want = module(z, x)
        for script in torch.jit.script(module), torch.jit.trace(module, (z, x)):
            sizes, parts = treadle.load(script, (z, x))(z, x)
            self.assertLess((sizes - want[0]).abs().max(), 1e-5)
            self.assertLess((parts - want[1]).abs().max(), 1e-5)
        out = [torch.empty_like(w) for w in want]
        treadle.load(script, (z, x))(z, x, out=out)
        self.assertLess((out[1] - want[1]).abs().max(), 1e-5)
        exported = treadle.load(torch.export.export(module, (z, x)))(z.conj().resolve_conj().conj(), x)
        self.assertLess((exported[1] - want[1]).abs().max(), 1e-5)

    def test_bfloat16(self):
        model = treadle.load(torch.nn.ReLU(), (torch.randn(3, dtype=torch.bfloat16),), backend="eager")
        x = torch.randn(3, dtype=torch.bfloat16)
        torch.testing.assert_close(model(x), torch.relu(x))


if __name__ == "__main__":
    unittest.main()
