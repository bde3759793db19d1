"""What readers of tutorials do first, as they would write it: the profile of a MobileBERT, threads compared, an ensemble in forks."""

import time

import torch

import treadle


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
    failed = 0
    for example in (profile_mobilebert, tune_threads, fork_ensemble):
        try:
            example()
        except Exception as error:  # the others run all the same
            failed += 1
            print(f"{example.__name__} failed: {type(error).__name__}: {error}")
    print(f"{3 - failed} passed, {failed} failed")
    return failed != 0
