#!/usr/bin/env python3
"""The two programs of PyTorch's tutorial on fork and wait, forked and as plain calls; how long PyTorch takes for them.

    python bench/forks.py FOLDER        # writes FOLDER/NAME.pt and times each with torch at 2 + 2 threads

Needs a Python that has PyTorch. docs/measurements/epyc-zen4.md says how the files are timed with Treadle.
"""
import os
import sys
import time
import warnings
from typing import List

import torch
from torch import Tensor, nn

warnings.filterwarnings("ignore")
THREADS = 2


class Forked(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.cell_f = nn.LSTM(width, width)
        self.cell_b = nn.LSTM(width, width)

    def forward(self, x: Tensor) -> Tensor:
        future_f = torch.jit.fork(self.cell_f, x)
        output_b, _ = self.cell_b(torch.flip(x, [0]))
        output_f, _ = torch.jit.wait(future_f)
        return torch.cat((output_f, torch.flip(output_b, [0])), dim=2)


class Called(Forked):
    def forward(self, x: Tensor) -> Tensor:
        output_f, _ = self.cell_f(x)
        output_b, _ = self.cell_b(torch.flip(x, [0]))
        return torch.cat((output_f, torch.flip(output_b, [0])), dim=2)


class ForkedEnsemble(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.models = nn.ModuleList([Forked(width) for _ in range(4)])

    def forward(self, x: Tensor) -> Tensor:
        futures: List[torch.jit.Future[Tensor]] = []
        for model in self.models:
            futures.append(torch.jit.fork(model, x))
        results: List[Tensor] = []
        for future in futures:
            results.append(torch.jit.wait(future))
        return torch.stack(results).sum(dim=0)


class CalledEnsemble(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.models = nn.ModuleList([Called(width) for _ in range(4)])

    def forward(self, x: Tensor) -> Tensor:
        results: List[Tensor] = []
        for model in self.models:
            results.append(model(x))
        return torch.stack(results).sum(dim=0)


def foo(x: Tensor) -> Tensor:
    return torch.neg(x)


class ForkedLoop(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        futures = [torch.jit.fork(foo, x) for _ in range(100)]
        results = [torch.jit.wait(fut) for fut in futures]
        return torch.sum(torch.stack(results))


class CalledLoop(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        values = [foo(x) for _ in range(100)]
        results = [value for value in values]
        return torch.sum(torch.stack(results))


PROGRAMS = {
    "lstm_small": (ForkedEnsemble, CalledEnsemble, (10,), (16, 4, 10)),
    "lstm_large": (ForkedEnsemble, CalledEnsemble, (128,), (64, 16, 128)),
    "loop": (ForkedLoop, CalledLoop, (), ()),
}


def shortest_ms(program, x):
    times = []
    with torch.inference_mode():
        end = time.perf_counter() + 3
        while time.perf_counter() < end or len(times) < 10:
            began = time.perf_counter()
            program(x)
            times.append(time.perf_counter() - began)
    return min(times) * 1e3, sorted(times)[len(times) // 2] * 1e3


def main():
    torch.set_num_threads(THREADS)
    torch.set_num_interop_threads(THREADS)
    for name, (forked, called, arguments, shape) in PROGRAMS.items():
        for how, kind in (("forked", forked), ("called", called)):
            torch.manual_seed(0)
            path = os.path.join(sys.argv[1], f"{name}_{how}.pt")
            torch.jit.script(kind(*arguments).eval()).save(path)
            print("%s min %.4f ms, median %.4f ms" % ((path,) + shortest_ms(torch.jit.load(path), torch.rand(shape))))


if __name__ == "__main__":
    main()
