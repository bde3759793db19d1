#!/usr/bin/env python3
"""Writes the cases of this folder: small TorchScript programs, their inputs, and what PyTorch gives for them.

Run with a Python that has PyTorch; the cases are kept in the repository, so that nothing needs it afterwards.
"""
import json
import os
import subprocess
import sys
import warnings
from enum import Enum
from typing import Dict, List, NamedTuple, Optional, Tuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import rnn

HERE = os.path.dirname(os.path.abspath(__file__))
warnings.filterwarnings("ignore")


class Point(NamedTuple):
    x: Tensor
    y: int


class Colour(Enum):
    RED = 1
    BLUE = 2


class Branches(nn.Module):
    def forward(self, x: Tensor, flag: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        total = x.sum()
        if bool(total > 0):
            y, z = x * 2, torch.zeros(3)
        elif bool(total < -10):
            y, z = x - 1, torch.ones(2)
        else:
            y, z = x.t().t(), torch.full((4,), 2.0)
        if flag is not None:
            y = y + flag
        return y, z


class MaybeNone(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        best: Optional[Tensor] = None
        for i in range(x.size(0)):
            row = x[i]
            if best is None:
                best = row
            elif bool(row.sum() > best.sum()):
                best = row
        assert best is not None, "no rows"
        return best


class Among(nn.Module):
    def __init__(self):
        super().__init__()
        self.rates = [8, 16]

    def forward(self, x: Tensor, rate: int) -> Tensor:
        known = [int(x.sum() > 0), rate // 2]
        if rate not in self.rates:
            x = -x
        return x * 2 if 8 in known else x


class EarlyReturn(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if bool(x.max() > 5):
            return x * 10
        for i in range(int(x.size(0))):
            if bool(x[i].sum() > 3):
                return x[i].repeat(2, 1)
        return x - 1


class Breaks(nn.Module):
    def forward(self, x: Tensor) -> Tuple[Tensor, int]:
        n = 0
        y = x
        while True:
            y = y * 1.5
            n += 1
            if bool(y.sum() > 100):
                break
            if n % 2 == 0:
                continue
            y = y + 1
        return y, n


class Checks(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 2:
            raise ValueError("expected a matrix, got {} dimensions".format(x.dim()))
        if bool(x.isnan().any()):
            raise ValueError("not a number")
        return x + 1


class Lists(nn.Module):
    def forward(self, xs: List[Tensor]) -> Tuple[Tensor, List[int], int]:
        sizes = [x.size(0) for x in xs]
        taken: List[Tensor] = []
        for i, x in enumerate(xs):
            if i % 2 == 0:
                taken.append(x * float(i + 1))
            else:
                taken.insert(0, x)
        taken += [xs[0]]
        taken.reverse()
        last = taken.pop()
        return torch.cat(taken, 0) + last.mean(), sizes, max(sizes)


class Dicts(nn.Module):
    table: Dict[str, float]

    def __init__(self):
        super().__init__()
        self.table = {"a": 1.5, "b": 2.5}

    def forward(self, x: Tensor) -> Dict[str, Tensor]:
        out: Dict[str, Tensor] = {}
        for k, v in self.table.items():
            out[k] = x * v
        if "c" not in out:
            out["c"] = x
        return out


class Texts(nn.Module):
    mode: str

    def __init__(self):
        super().__init__()
        self.mode = "sum_and_mean"

    def forward(self, x: Tensor) -> Tensor:
        parts = self.mode.split("_and_")
        y = x
        for part in parts:
            if part == "sum":
                y = y + x.sum()
            elif part == "mean":
                y = y * x.mean()
        return y


class Shared(nn.Module):
    """In-place writes through views, list elements and branches."""

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        y = x.clone()
        row = y[1]
        row.add_(10)
        rows = [y, y[0]]
        rows[1].mul_(2)
        if bool(x.sum() > 0):
            y[:, 0] = -1
        z = y.view(-1)
        for i in range(3):
            z[i] = float(i)
        y.t().select(0, 1).fill_(7.0)
        return y, z


@torch.jit.script
class Accumulator:
    def __init__(self, start: float):
        self.total = start
        self.items: List[Tensor] = []

    def add(self, x: Tensor, weight: float) -> None:
        self.total += weight
        self.items.append(x * weight)


class Classes(nn.Module):
    def forward(self, x: Tensor) -> Tuple[Tensor, float]:
        acc = Accumulator(0.5)
        for i in range(3):
            acc.add(x, float(i) + 1.0)
        return torch.stack(acc.items).sum(0), acc.total


class Named(nn.Module):
    def make(self, x: Tensor, n: int) -> Point:
        return Point(x * n, n)

    def pick(self, c: Colour, x: Tensor) -> Tensor:
        if c == Colour.RED:
            return x + 1
        return x - c.value

    def forward(self, x: Tensor) -> Tensor:
        p = self.make(x, 3)
        q, n = p
        return self.pick(Colour.BLUE, p.x + q) + self.pick(Colour.RED, x) * n + p.y


class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.norm = nn.LayerNorm(n)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(torch.relu(self.linear(x)) + x)


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(4), Block(4)])
        self.by_name = nn.ModuleDict({"head": nn.Linear(4, 2)})
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.by_name["head"](x * self.scale)


class Forks(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)

    def task(self, x: Tensor, k: int) -> Tensor:
        return self.a(x) * k

    def forward(self, x: Tensor) -> Tensor:
        futures: List[torch.jit.Future[Tensor]] = []
        for i in range(4):
            futures.append(torch.jit.fork(self.task, x, i))
        outs = [torch.jit.wait(f) for f in futures]
        return torch.stack(outs).sum(0)


class ForksInLoops(nn.Module):
    """More tasks than turns are unrolled; each forks one of its own."""

    def inner(self, x: Tensor) -> Tensor:
        return torch.sigmoid(x) * 2

    def task(self, x: Tensor, i: int) -> Tensor:
        future = torch.jit.fork(self.inner, x)
        return x * i + torch.jit.wait(future)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, int]:
        futures: List[torch.jit.Future[Tensor]] = []
        h = x[0]
        for i in range(x.size(0)):
            h = torch.tanh(h + x[i])
            futures.append(torch.jit.fork(self.task, h, i))
        last = torch.jit.fork(self.inner, h)
        for i in range(x.size(0)):
            last = torch.jit.fork(self.task, torch.jit.wait(last), i)
        if bool(x.sum() > 0):
            futures.append(torch.jit.fork(self.task, h, 7))
        outs: List[Tensor] = []
        for future in futures:
            outs.append(torch.jit.wait(future))
        return torch.stack(outs), torch.jit.wait(last), len(futures)


class ForksOfAll(nn.Module):
    """What tasks may give, and what they may share."""

    def several(self, x: Tensor) -> Tuple[Tensor, int, float, List[Tensor]]:
        return x + 1, x.size(0), float(x.sum()), [x, x * 2]

    def nothing(self, x: Tensor) -> None:
        assert x.dim() == 2, "a matrix is needed"

    def mapped(self, x: Tensor) -> Dict[str, Point]:
        return {"a": Point(x * 3, 4), "b": Point(x, int(x[0, 0]) + 1)}

    def maybe(self, x: Tensor) -> Optional[Tensor]:
        return x * 4 if bool(x.sum() > 3) else None

    def itself(self, x: Tensor) -> Tensor:
        return x

    def fills(self, x: Tensor, log: List[int]) -> Tensor:
        log.append(x.size(0))
        x += 1
        return x

    def forward(self, x: Tensor) -> Tuple[Tensor, int, float, Tensor, Tensor, int, Tensor, Tensor, int, Tensor, Tensor]:
        several = torch.jit.fork(self.several, x)
        nothing = torch.jit.fork(self.nothing, x)
        mapped = torch.jit.fork(self.mapped, x)
        maybe = torch.jit.fork(self.maybe, x)
        itself = torch.jit.fork(self.itself, x)
        log: List[int] = []
        y = x * 2
        written = torch.jit.fork(self.fills, y, log)
        more, size, total, items = torch.jit.wait(several)
        items.append(x - 1)
        torch.jit.wait(nothing)
        points = torch.jit.wait(mapped)
        given = torch.jit.wait(maybe)
        filled = torch.jit.wait(written)
        if given is None:
            given = torch.zeros(1)
        return (more, size, total, torch.stack(items), points["a"].x, points["b"].y, given, filled + y, len(log),
                torch.jit.wait(itself), y)


class ForksThatRaise(nn.Module):
    def task(self, x: Tensor) -> Tensor:
        if bool(x.sum() < 0):
            raise ValueError("the sum is negative")
        return x * 2

    def ends(self, x: Tensor) -> Tensor:
        raise ValueError("never works")

    def forward(self, x: Tensor, wanted: bool) -> Tensor:
        bad = torch.jit.fork(self.task, -x)
        good = torch.jit.fork(self.task, x)
        ends = torch.jit.fork(self.ends, x)
        y = torch.jit.wait(good)
        if wanted:
            y = y + torch.jit.wait(bad)
        if bool(y.sum() > 1000):
            y = torch.jit.wait(ends)
        return y


class ForksWithState(nn.Module):
    """Tasks that change what the module keeps."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def count(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls

    def forward(self, x: Tensor) -> Tuple[Tensor, int]:
        futures = [torch.jit.fork(self.count, x) for _ in range(3)]
        total = x
        for future in futures:
            total = total + torch.jit.wait(future)
        return total, self.calls


class Prints(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        print("start", 1, 2.0, 0.1, 1e20, True, None, "a b")
        print(x, x.sum(), x.size(0), float(x.sum()), bool(x.sum() > 0))
        print([1, 2], (1, "s"), {"k": 1.5}, ["q"], [x[0, :2]])
        print(x[0], x.to(torch.int64)[:, :3], x[None] * 1000, x > 1, x[:0])
        print(x * 1e-3, x[:2].to(torch.float64) * 12345678.5, (x * 100).to(torch.int32).repeat(1, 14))
        print(1 / x, x[1:2] * 1e6, x[:1, :1] * 0, x.reshape(1, 2, 3, 1) - 1e-7)
        print()
        if bool(x.sum() > 0):
            print("positive")
        else:
            print("negative")
        return x


class Functional(nn.Module):
    """Operators that are made of others."""

    def forward(self, x: Tensor, y: Tensor) -> List[Tensor]:
        p, sign = torch.softmax(x, -1), torch.sign(y[:, 0])
        square = x[:, :2] + torch.eye(2)
        return [nn.functional.kl_div(torch.log(p), torch.relu(y), reduction="sum"),
                nn.functional.kl_div(torch.log(p), y, reduction="batchmean", log_target=True),
                nn.functional.poisson_nll_loss(x, y), nn.functional.poisson_nll_loss(p, y, log_input=False, reduction="none"),
                nn.functional.hinge_embedding_loss(x, torch.sign(y), margin=0.5),
                nn.functional.triplet_margin_loss(x, y, x * y), nn.functional.triplet_margin_loss(x, y, x * 2, swap=True, p=1.0),
                nn.functional.cosine_embedding_loss(x, y, sign, margin=0.1, reduction="none"),
                torch.linalg.matrix_power(square, 5), torch.linalg.matrix_power(square, -2), torch.linalg.matrix_power(square, 0),
                torch.trapezoid(x, dx=0.5), torch.trapz(y, dim=0),
                torch.special.entr(y - 0.5), torch.special.entr(torch.relu(y)), torch.special.ndtr(x)]


class FutureOut(nn.Module):
    def task(self, x: Tensor) -> Tensor:
        return x * 2

    def forward(self, x: Tensor) -> torch.jit.Future[Tensor]:
        return torch.jit.fork(self.task, x)


class WaitedTwice(nn.Module):
    def task(self, x: Tensor) -> List[Tensor]:
        return [x]

    def forward(self, x: Tensor) -> int:
        future = torch.jit.fork(self.task, x)
        torch.jit.wait(future).append(x)
        return len(torch.jit.wait(future))


class WrittenMeanwhile(nn.Module):
    def task(self, x: Tensor) -> Tensor:
        return x.view(-1)

    def forward(self, x: Tensor) -> Tensor:
        y = x * 2
        future = torch.jit.fork(self.task, y)
        y += 1
        return torch.jit.wait(future)


class Numbers(nn.Module):
    def forward(self, x: Tensor, k: int = 3) -> Tuple[Tensor, int, float]:
        n = int(x[0, 0])
        f = float(x.sum())
        total = 0
        for i in range(n):
            total += i * k
        y = x[:n] if n > 0 else x
        return y.to(torch.float64), total, f / 2


class Long(nn.Module):
    """More turns than are unrolled, with a list that grows."""

    def forward(self, x: Tensor) -> Tensor:
        outs: List[Tensor] = []
        h = torch.zeros(2)
        for i in range(x.size(0)):
            h = torch.tanh(h + x[i])
            if i % 3 == 0:
                outs.append(h)
        return torch.stack(outs)


class Grad(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            y = x.detach() * 2
        return y


class State(nn.Module):
    """Attributes of every kind that change from call to call."""

    cache: Optional[Tensor]
    history: List[Tensor]
    calls: int

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2))
        self.calls = 0
        self.cache = None
        self.history = []

    def forward(self, x: Tensor) -> Tuple[Tensor, int, Tensor, int]:
        self.total.add_(x.sum(0))
        self.calls += 1
        cache = self.cache
        grown = x if cache is None else torch.cat([cache, x], 0)
        self.cache = grown
        self.history.append(x)
        return self.total * 1, self.calls, grown * 2, len(self.history)

    @torch.jit.export
    def peek(self, x: Tensor) -> Tensor:
        return self.total + x


class Missing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.linalg.eig(x)[0]
        z = torch.linalg.eigvals(x)
        return torch.real(torch.linalg.eig(x + 1)[0]) + torch.real(y) + torch.real(z)


def flat(value):
    if value is None:
        return []
    if isinstance(value, dict):
        return [leaf for v in value.values() for leaf in flat(v)]
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in flat(v)]
    return [value]


def leaf_array(value):
    if isinstance(value, Tensor):
        return value.detach().numpy()
    return np.array(value, dtype={bool: np.bool_, int: np.int64, float: np.float64}[type(value)])


@torch.jit.script
def resampled(x: Tensor, size: Tensor) -> List[Tensor]:
    """A trace keeps torch.nn.functional.interpolate of a scripted function as one call; sizes come as tensors, in lists."""
    resize = torch.nn.functional.interpolate
    grown = torch.zeros(0, x.size(1), size, size)
    for i in range(x.size(0)):
        grown = torch.cat((grown, resize(x[i].unsqueeze(0), size=[int(size), int(size)], mode="bicubic", align_corners=False)))
    return [grown, resize(x, size=5), resize(x, scale_factor=2.5, mode="bilinear", align_corners=True),
            resize(x, scale_factor=[1.7, 0.6], recompute_scale_factor=True), resize(x, scale_factor=1.7, mode="nearest-exact"),
            resize(x, size=[3, 3], mode="bilinear", antialias=True)]


class Resampled(nn.Module):
    def forward(self, x: Tensor) -> List[Tensor]:
        return resampled(x, torch.scalar_tensor(x.shape[2] + 2, dtype=torch.int64))


def write(name, module, sets, how="script", dynamic=None, paths=None, rtol=1e-4, atol=1e-5):
    folder = os.path.join(HERE, name)
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(0)
    module = module.eval()
    program = torch.jit.script(module) if how.startswith("script") else torch.jit.trace(module, sets[0])
    if how.endswith("frozen"):
        program = torch.jit.freeze(program)
    program.save(os.path.join(folder, "model.pt"))
    described = []
    for number, arguments in enumerate(sets):
        suffix = "" if number == 0 else "." + chr(ord("a") + number)
        with torch.no_grad():
            outs = [leaf_array(v) for v in flat(program(*[a.clone() if isinstance(a, Tensor) else a for a in arguments]))]
        ins = [leaf_array(v) for v in flat(arguments)]
        sides = {}
        for kind, arrays in (("input", ins), ("output", outs)):
            sides[kind + "s"] = []
            for i, array in enumerate(arrays):
                file = f"{kind}_{i}{suffix}.npy"
                np.save(os.path.join(folder, file), array)
                sides[kind + "s"].append({"name": f"{kind}_{i}", "file": file, "dtype": str(array.dtype),
                                          "shape": list(array.shape)})
        described.append(sides)
    case = {"name": name, "format": "pt", "torch": torch.__version__.split("+")[0], "file": "model.pt",
            "rtol": rtol, "atol": atol, **described[0]}
    if len(sets) > 1:
        case["sets"] = described
    if dynamic:
        case["dynamic"] = dynamic
    if paths:
        case["arguments"] = paths
    with open(os.path.join(folder, "case.json"), "w", encoding="utf-8") as f:
        json.dump(case, f, indent=1)
        f.write("\n")


class Filled(nn.Module):
    """A list that as many turns fill as data decides; what follows needs its items' number of dimensions."""

    def forward(self, x: Tensor) -> Tensor:
        rows: List[Tensor] = []
        for row in x[x[:, 0] > 0]:
            rows.append(row * row.sum())
        if len(rows) > 0:
            found = torch.stack(rows)[:, None]
        else:
            found = x.new_empty((0, 1, 3))
        return found[..., 1:]


class Packed(nn.Module):
    """Sequences of several lengths, packed in any order; between the layers the packed rows are changed."""

    def __init__(self):
        super().__init__()
        self.first = nn.LSTM(3, 4, batch_first=True, bidirectional=True)
        self.second = nn.GRU(8, 3, 2)

    def forward(self, x: Tensor, lengths: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        rows, states = self.first(packed)
        rows = rnn.PackedSequence(rows.data * 2.0, rows.batch_sizes, rows.sorted_indices, rows.unsorted_indices)
        rows, last = self.second(rows)
        padded, found = rnn.pad_packed_sequence(rows, batch_first=True, padding_value=-1.0)
        return padded, found, states[1], last


class Projected(nn.Module):
    """LSTMs whose states are projected; over packed sequences, too."""

    def __init__(self):
        super().__init__()
        self.first = nn.LSTM(3, 5, 2, batch_first=True, bidirectional=True, proj_size=2)
        self.second = nn.LSTM(4, 3, bias=False, batch_first=True, proj_size=2)

    def forward(self, x: Tensor, lengths: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
        rows, states = self.first(rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
        padded, found = rnn.pad_packed_sequence(rows, batch_first=True)
        y, last = self.second(padded)
        return padded, y, states[1], last[0]


class Static(nn.Module):
    """What FX quantises: products, norms and activations of 8 bits, and what keeps a scale or has one of its own."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.instance = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(16), nn.InstanceNorm2d(8)
        self.hardswish, self.elu = nn.Hardswish(), nn.ELU()
        self.line, self.rows = nn.Linear(8, 6), nn.LayerNorm(8)

    def forward(self, x):
        x = self.first(x)
        gated = torch.sigmoid(x) * x
        line = F.leaky_relu(self.line(F.max_pool2d(x, 2).mean([2, 3])), 0.1)
        return (self.hardswish(x), gated, F.relu(self.norm(torch.cat([x, gated], 1))), self.elu(x), self.instance(x),
                self.rows(x), line + line * 0.5, torch.tanh(x) * -2.0, F.hardsigmoid(x))


def quantised_by_fx(module, x):
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx
    torch.manual_seed(0)
    prepared = prepare_fx(module.eval(), get_default_qconfig_mapping("x86"), (x,))
    with torch.no_grad():
        prepared(x)
    return convert_fx(prepared)


class Dynamic(nn.Module):
    """Layers whose weights have 8 bits, and which give their operands 7 when they run."""

    def __init__(self):
        super().__init__()
        self.memory = nn.LSTM(4, 6, 2, bidirectional=True)
        self.gates = nn.GRU(12, 5)
        self.last = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.gates(self.memory(x)[0])[0])


class Slices(nn.Module):
    """Slices with steps that go backwards, and past the ends."""

    def forward(self, x: Tensor) -> Tensor:
        n = [10, 11, 12, 13, 14]
        word = "".join(["ab", "cde"])
        found = n[::-1] + n[-2:0:-2] + n[9:-9:-3] + n[1:9:2] + n[3:1] + x.size()[::-1] + n[:-9:-1] + n[5::-1]
        for turned in [word[::-1], word[5:0:-2], word[::2], word[2:9]]:
            found.append(["edcba", "ec", "ace", "cde"].index(turned))
        return torch.tensor(found)


class Constants(nn.Module):
    """Numbers that a trace keeps as tensors without dimensions, of operands that are integers or have none themselves."""

    def forward(self, x: Tensor, n: Tensor) -> List[Tensor]:
        half, three = torch.tensor(0.5, dtype=torch.float64), torch.tensor(3)
        return [n / 255.0, n * 0.5, n + half, n - three, x[0, 0] * half, torch.maximum(x, half), n.remainder(three)]


class Empty(nn.Module):
    """Lists of nothing, and of tensors, that are compared."""

    def forward(self, x: Tensor) -> List[Tensor]:
        found = [x.sum().size() == x.size(), x.sum().size() != x.max().size(), [x.sum(), x.max()] == [x.sum(), x.max()],
                 [x.sum()] != [x.max()]]
        return [torch.tensor(n) for n in found]


class Heads(nn.Module):
    """Keys and values that have different numbers of heads, fewer than queries have."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)


class Edges(nn.Module):
    """Squares that overflow, vanish, or meet no number; a reduction into a tensor without dimensions."""

    def forward(self, x: Tensor, y: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        one, zero = x.new_ones(()), torch.zeros((), dtype=torch.int64)
        return (torch.hypot(x, y), torch.scatter_reduce(one, 0, zero, one * 2.0, "sum"),
                torch.scatter_reduce(one, 0, zero, one * 2.0, "mean", include_self=False))


class Ranks(nn.Module):
    """A way on which the rank is another one, and a size that constants decide by way of tensors."""

    def forward(self, x: Tensor) -> Tensor:
        pairs = int(torch.tensor(4.2).log2().round())
        if bool(x.sum() > 0):
            x = x.reshape(-1, pairs, 1)
        return x.flatten(1).t()


class Kept(nn.Module):
    """Buffers and lists that are written in place, by what assigns to them as well (+=), or not."""

    rows: List[Tensor]

    def __init__(self):
        super().__init__()
        self.register_buffer("buf", torch.zeros(2))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("shared", torch.zeros(2))
        self.register_buffer("held", self.shared)
        self.rows = []

    def forward(self, x: Tensor) -> Tensor:
        self.buf += x
        return self.buf * 2

    @torch.jit.export
    def counted(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.buf += x * self.calls
        return self.buf

    @torch.jit.export
    def listed(self, x: Tensor) -> Tensor:
        self.rows += [x]
        return torch.stack(self.rows).sum(0)

    @torch.jit.export
    def branched(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            self.buf += x
        return self.buf * 1

    @torch.jit.export
    def appended(self, x: Tensor) -> Tensor:
        rows: List[Tensor] = []
        for i in range(x.size(0)):
            rows.append(x[i] * 2)
        return torch.stack(rows)

    @torch.jit.export
    def replaced(self, x: Tensor) -> Tensor:
        self.buf.add_(x)
        self.buf = self.buf * 2
        return self.buf

    @torch.jit.export
    def replaced_elsewhere(self, x: Tensor) -> Tensor:
        self.shared.add_(x)
        self.shared = self.shared * 2
        return self.held


class KeptTraced(nn.Module):
    """The trace has a constant, whose storage has the number of the buffer's, in another list."""

    def __init__(self):
        super().__init__()
        self.register_buffer("buf", torch.zeros(2))

    def forward(self, x: Tensor) -> Tensor:
        self.buf += x
        return self.buf * 2


class Streaming(nn.Module):
    """Tensors that are empty until the first call, and axes that squeeze drops where only running can tell their size."""

    def __init__(self):
        super().__init__()
        self.wide, self.narrow = nn.Conv1d(1, 2, 6, 6, bias=False), nn.Conv1d(1, 2, 3, 3, bias=False)
        for conv in (self.wide, self.narrow):
            nn.init.ones_(conv.weight)
        self.reset()

    @torch.jit.export
    def reset(self):
        self.context, self.sums, self.last = torch.zeros(0), torch.zeros(0), 0

    def step(self, y: Tensor) -> Tensor:
        y = y.squeeze(-1)
        if y.dim() != 2:
            raise ValueError(f"a sum for each channel is expected, not {y.dim()} dimensions")
        if len(self.sums):
            y = y + self.sums[0]
        self.sums = torch.stack([y])
        return y

    def forward(self, x: Tensor, rate: int) -> Tensor:
        size, kept = (4, 2) if rate == 2 else (2, 1)
        if x.size(-1) != size:
            raise ValueError(f"{size} samples are expected, not {x.size(-1)}")
        if self.last and self.last != rate:
            self.reset()
        if not len(self.context):
            self.context = torch.zeros(x.size(0), kept)
        x = torch.cat([self.context, x], 1)
        if rate == 2:
            y = self.step(self.wide(x.unsqueeze(1)))
        elif rate == 1:
            y = self.step(self.narrow(x.unsqueeze(1)))
        else:
            raise ValueError("no such rate")
        self.context, self.last = x[:, -kept:], rate
        return y

    @torch.jit.export
    def open_rows(self, x: Tensor) -> Tensor:
        return x.squeeze(0) * 2

    @torch.jit.export
    def chosen_rows(self, x: Tensor) -> Tensor:
        return x[x[:, 0] > 0].squeeze(0) * 2

    @torch.jit.export
    def raises(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            raise ValueError("this way")
        else:
            raise ValueError("and the other one")


class Counter:
    def __init__(self, total: Tensor):
        self.total = total
        self.turns = 0


class Rows(nn.Module):
    """Rows and elements written in place in branches and loops inside of loops, and what is bound anew after it was written."""

    def forward(self, x: Tensor, n: int) -> List[Tensor]:
        y, z, h = x.clone(), x.clone(), x.clone()
        counter = Counter(torch.zeros(x.size(1)))
        for i in range(n):
            row = y[i % y.size(0)]
            if bool(row.sum() > 0):
                row.mul_(0.5)
            else:
                row[1:].add_(1)
                y[:, i % 2].sub_(1)
            k = 0
            while bool(y[i % y.size(0), 0] > 0) and k < 3:
                y[i % y.size(0)].sub_(1)
                k += 1
            for j in range(n):
                if bool(z[i, j] > 0):
                    z[i, j] = 0.0
                z[j, i] += 1.0
            h.mul_(2)
            h = h + 1
            counter.total = counter.total + row
            counter.turns += 1
        return [y, z, h, counter.total * counter.turns]


class Stretches(nn.Module):
    def forward(self, x: Tensor, lengths: Tensor, table: Tensor) -> List[Tensor]:
        found = [torch.segment_reduce(x, how, lengths=lengths, unsafe=True) for how in ["max", "mean", "min", "sum", "prod"]]
        found += [torch.segment_reduce(x, how, lengths=lengths, unsafe=True, initial=1.5) for how in ["max", "mean"]]
        offsets = torch.cat([torch.zeros_like(table[:, :1]), table.cumsum(1)], 1)
        return found + [torch.segment_reduce(x, "mean", lengths=table, axis=1), torch.segment_reduce(x, "sum", offsets=offsets, axis=1)]


class MayShare(nn.Module):
    """Whether `line` shows `y` depends on strides, which the program does not say."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.t() + 0
        line = y.t().reshape(-1)
        if bool(x.sum() > 0):
            y.add_(1)
        return line

    @torch.jit.export
    def loop(self, x: Tensor) -> Tensor:
        y = x.t() + 0
        line = y.t().reshape(-1)
        for i in range(int(x.sum())):
            y[i].add_(1)
        return line


def write_program(name, module):
    """A program alone, for the unit tests."""
    folder = os.path.join(HERE, "..", "..", "import", "torchscript")
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(0)
    torch.jit.script(module.eval()).save(os.path.join(folder, name + ".pt"))


def write_prints(name, module, x):
    """A program that prints, and what it prints for `x`."""
    write_program(name, module)
    path = os.path.join(HERE, "..", "..", "import", "torchscript", name)
    run = f"import torch; torch.jit.load({path + '.pt'!r})(torch.tensor({x.tolist()}))"
    with open(path + ".txt", "wb") as f:
        f.write(subprocess.run([sys.executable, "-c", run], stdout=subprocess.PIPE, check=True).stdout)


def main():
    write_prints("prints", Prints(), torch.arange(1.0, 7.0).reshape(2, 3) * 1.5)
    write_program("state", State())
    write_program("missing", Missing())
    write_program("ranks", Ranks())
    write_program("streaming", Streaming())
    write_program("kept", Kept())
    write_program("kept_traced", torch.jit.trace(KeptTraced(), torch.zeros(2), check_trace=False))
    write_program("forks_raise", ForksThatRaise())
    write_program("forks_state", ForksWithState())
    write_program("future_out", FutureOut())
    write_program("waited_twice", WaitedTwice())
    write_program("written_meanwhile", WrittenMeanwhile())
    write_program("may_share", MayShare())
    x = torch.arange(6.0).reshape(2, 3)
    row = {"input_0": {"0": "rows"}}
    write("branches", Branches(), [(x,), (-x,), (-x - 5,)])
    write("branches_optional", Branches(), [(x, torch.ones(3))])
    write("maybe_none", MaybeNone(), [(x,), (torch.rand(70, 3),)], dynamic=row)
    write("among", Among(), [(x, 8), (x, 16), (x, 17)])
    write("early_return", EarlyReturn(), [(x,), (x + 4,), (-x,)])
    write("breaks", Breaks(), [(x,), (x / 3,)])
    write("checks", Checks(), [(x,)])
    write("lists", Lists(), [([x, x + 1, x * 2],)], paths=[f"argument 0[{i}]" for i in range(3)])
    write("dicts", Dicts(), [(x,)])
    write("texts", Texts(), [(x,)])
    write("shared", Shared(), [(x,), (-x,)])
    write("classes", Classes(), [(x,)])
    write("named", Named(), [(x,)])
    write("nested", Nested(), [(torch.rand(2, 4),)])
    write("nested_frozen", Nested(), [(torch.rand(2, 4),)], how="script frozen")
    write("nested_traced", Nested(), [(torch.rand(2, 4),)], how="trace")
    write("forks", Forks(), [(x,)])
    write("forks_loops", ForksInLoops(), [(x,), (torch.rand(80, 3),)], dynamic=row)
    write("forks_all", ForksOfAll(), [(x,), (x - 2,)])
    write("functional", Functional(), [(torch.rand(2, 4) - 0.4, torch.rand(2, 4) - 0.2)])
    write("numbers", Numbers(), [(x + 1,), (x + 2,)])
    write("long", Long(), [(torch.rand(80, 2),), (torch.rand(7, 2),)], dynamic=row)
    write("filled", Filled(), [(x,), (x - 1,), (-x - 1,)])
    square = torch.rand(4, 4) - 0.4
    write("rows", Rows(), [(square, 3), (square, 0), (square - 0.2, 4)])
    stretches = torch.tensor([[0, 1, 2, 2], [2, 0, 3, 0], [3, 0, 2, 0], [1, 1, 1, 2], [0, 1, 2, 2], [5, 0, 0, 0]])
    write("stretches", Stretches(), [(torch.rand(6, 5, 2) + 0.5, torch.tensor([1, 0, 3, 0, 1]), stretches)])
    inf, nan = float("inf"), float("nan")
    write("edges", Edges(), [(torch.tensor([nan, 1, inf, 1e30, 3e-30, 0, 2]), torch.tensor([inf, 2, nan, 1e30, 4e-30, 0, nan]))])
    several = [(torch.rand(4, 5, 3), torch.tensor(lengths)) for lengths in ([2, 5, 1, 4], [3, 3, 2, 1])]
    write("packed", Packed(), several)
    write("packed_traced", Packed(), several, how="trace")
    write("projected", Projected(), several)
    quantised = torch.ao.quantization.quantize_dynamic(Dynamic(), {nn.LSTM, nn.GRU, nn.Linear}, torch.qint8)
    write("dynamic_8_bits", quantised, [(torch.randn(5, 2, 4),)])
    image = torch.randn(2, 3, 8, 8)
    write("static_8_bits", quantised_by_fx(Static(), image), [(image,)], how="trace", atol=0.06)  # two steps of a result
    write("slices", Slices(), [(x,)])
    write("empty", Empty(), [(x,)])
    write("heads", Heads(), [tuple(torch.randn(1, heads, 3, 2) for heads in (4, 2, 4))])
    write("constants", Constants(), [(x, torch.tensor([[3, 200]], dtype=torch.uint8))], how="trace")
    write("grad", Grad(), [(x,)])
    write("resampled", Resampled(), [(torch.rand(2, 3, 4, 5),)], how="trace")
    write("resampled_f64", Resampled(), [(torch.rand(1, 2, 17, 13, dtype=torch.float64),)], how="trace", rtol=1e-12, atol=1e-12)


if __name__ == "__main__":
    main()
