"""What readers of tutorials do first, as they would write it: the profile of a MobileBERT, a kernel that is wrong, an annotated
loop, threads compared, an ensemble in forks."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings

import torch

import treadle
from treadle.__main__ import command


def profile_mobilebert():
    from transformers import MobileBertConfig, MobileBertModel
    torch.manual_seed(0)
    config = MobileBertConfig(num_hidden_layers=4, vocab_size=1000)
    model, ids = MobileBertModel(config).eval(), torch.randint(1000, (1, 32))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    fast = torch.compile(model, backend="treadle")
    with torch.no_grad():
        want, got = model(**inputs), fast(**inputs)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
            fast(**inputs)
    torch.testing.assert_close(got.last_hidden_state, want.last_hidden_state, rtol=1e-3, atol=1e-3)
    averages = prof.key_averages()
    print(averages.table(sort_by="self_cpu_time_total", row_limit=5, max_name_column_width=100))
    layers = {row.key.split(".")[2] for row in averages if row.key.startswith("encoder.layer.")}
    assert layers == {"0", "1", "2", "3"}, layers


def a_wrong_neg():
    def foo(x1, x2):
        a = torch.neg(x1)
        b = torch.maximum(x2, a)
        return torch.cat([b], dim=0)

    torch.manual_seed(0)
    x1, x2 = torch.randint(256, (1, 8)).float() - 300, torch.randint(256, (8390, 8)).float()
    fault = {"inject": "neg:wrong"}
    for backend in ("eager", "native"):  # which rung of the ladder is it?
        torch._dynamo.reset()
        right = torch.equal(torch.compile(foo, backend="treadle", options=dict(fault, backend=backend))(x1, x2), foo(x1, x2))
        print(f"{backend}: {'right' if right else 'wrong'}")
        assert right == (backend == "eager")
    with tempfile.TemporaryDirectory() as folder:
        torch._dynamo.reset()
        with torch._dynamo.config.patch(repro_after="aot", repro_level=4, debug_dir_root=folder), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = torch.compile(foo, backend="treadle", options=fault)(x1, x2)  # held against PyTorch, which takes over
        assert torch.equal(got, foo(x1, x2))
        print(treadle.fallbacks()[-1].why.partition(";")[0])
        bundle = next(pathlib.Path(folder).rglob("run.sh")).parent
        run = subprocess.run(["sh", "run.sh", "bisect"], cwd=bundle, capture_output=True, text=True, env=dict(os.environ, TREADLE=command()))
        print(run.stdout.splitlines()[0])
        assert run.stdout.startswith("kernel kern_neg"), run.stdout + run.stderr
        subprocess.run([sys.executable, "minifier_launcher.py"], cwd=bundle, capture_output=True, check=True)
        run = subprocess.run([sys.executable, "repro.py"], cwd=bundle, capture_output=True, text=True)
        program = (bundle / "repro.py").read_text()
        print("repro.py:", next(line.strip() for line in program.splitlines() if "torch.ops" in line).partition(";")[0])
        print("repro.py:", run.stdout.strip())
        assert run.returncode == 1 and program.count("= torch.ops.") == 1


ANNOTATED = """
import torch, treadle
model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16 * 6 * 6, 10)).eval()
x = torch.rand(1, 3, 8, 8)
fast = torch.compile(model, backend="treadle")
with torch.no_grad():
    fast(x)
    with torch.autograd.profiler.emit_itt():
        for i in range(3):
            torch.profiler.itt.range_push(f"step_{i}")
            fast(x)
            torch.profiler.itt.range_pop()
"""


def an_annotated_loop():
    collector = pathlib.Path(__file__).resolve().parents[3] / "build" / "itt_collector.so"
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        env = dict(os.environ, INTEL_LIBITTNOTIFY64=str(collector), COLLECTED=log)
        subprocess.run([sys.executable, "-W", "ignore", "-c", ANNOTATED], env=env, check=True)
        with open(log) as file:
            heard = [line.split(" ", 1)[1].strip() for line in file]
    depth, open_ranges, seen = 0, [], {f"step_{i}": [] for i in range(3)}
    for line in heard:
        if line.startswith("begin "):
            open_ranges.append(line[len("begin "):])
            if open_ranges[0] in seen:
                seen[open_ranges[0]].append((len(open_ranges) - 1, open_ranges[-1]))
        elif line == "end":
            open_ranges.pop()
    assert not open_ranges, heard
    for depth, name in seen["step_1"]:
        if depth < 1 or name.startswith("treadle::") or "kern_" in name:
            print("  " * depth + name[:100])
    for ranges in seen.values():
        inference = next(i for i, (_, name) in enumerate(ranges) if name.startswith("treadle::"))
        layers = {name.partition(".")[0] for depth, name in ranges[inference + 1:] if depth > ranges[inference][0] and "kern_" in name}
        assert layers == {"0", "3"}, ranges  # the user's names, each with what it became


def tune_threads():
    torch.manual_seed(0)
    net, x = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024)).eval(), torch.randn(256, 1024)
    fast, before, results = torch.compile(net, backend="treadle"), torch.get_num_threads(), []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        with torch.no_grad():
            results.append(fast(x))
            start = time.perf_counter()
            for _ in range(20):
                fast(x)
        print(f"{threads} threads: {(time.perf_counter() - start) / 20 * 1e3:.2f} ms")
        assert treadle.models(fast)[-1].threads == threads
    torch.set_num_threads(before)
    assert torch.equal(*results)  # the same bits


def fork_ensemble():
    class Ensemble(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.members = torch.nn.ModuleList(torch.nn.LSTM(64, 64, bidirectional=True) for _ in range(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            futures: list[torch.jit.Future[tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]]] = []
            for member in self.members:
                futures.append(torch.jit.fork(member, x))
            results = [torch.jit.wait(future)[0] for future in futures]
            return torch.stack(results).sum(0)

    torch.manual_seed(0)
    script, x = torch.jit.script(Ensemble().eval()), torch.randn(20, 8, 64)
    results = [treadle.load(script, x, threads=1, interop_threads=tasks)(x) for tasks in (1, 2)]
    torch.testing.assert_close(results[0], script(x).detach(), rtol=1e-4, atol=1e-5)
    assert torch.equal(*results)
    print("an ensemble of 4 LSTMs: the same bits with 1 and 2 threads for forks")


def add_options(parser):
    """None."""


def run(options):
    failed, examples = 0, (profile_mobilebert, a_wrong_neg, an_annotated_loop, tune_threads, fork_ensemble)
    for example in examples:
        try:
            example()
        except Exception as error:  # the others run all the same
            failed += 1
            print(f"{example.__name__} failed: {type(error).__name__}: {error}")
    print(f"{len(examples) - failed} passed, {failed} failed")
    return failed != 0
