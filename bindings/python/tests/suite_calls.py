"""Many small calls saved as one program, .pt (traced) or .pt2 (not decomposed), and run: each result against PyTorch's.

One program per few hundred calls costs what one call would; only where the whole is refused does each call get a program."""

import collections
import json
import multiprocessing
import os
import pathlib
import re
import tempfile
import warnings

import torch

import suite_children
import suite_skips
import treadle
from suite_operators import FIRST, SIGNS, UNDEFINED, differ, name_of, nearer, say


class Calls(torch.nn.Module):
    """calls: of (name, function of tensors that gives a list of them, tensors)."""

    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def forward(self, *given):
        given = iter(given)
        return [t for _, call, tensors in self.calls for t in call(*[next(given) for _ in tensors])]


def traced(module, tensors, path):
    torch.jit.save(torch.jit.trace(module, tensors, check_trace=False), path)


def exported(module, tensors, path):
    torch.export.save(torch.export.export(module, tensors), path)


WAYS = {"traced": (traced, ".pt"), "exported": (exported, ".pt2")}
TOLERANCES = {torch.float64: 1e-6, torch.float16: 2e-2, torch.bfloat16: 4e-2}


def tolerance_of(t):
    return TOLERANCES.get(t.dtype, 1e-4 if t.is_floating_point() or t.is_complex() else 0)


def _run(calls, way, folder, backend):
    """Verdict of each call: None (agrees), or (kind, why). Raises treadle.Unsupported and what PyTorch raises."""
    module = Calls(calls)
    tensors = tuple(t for _, _, given in calls for t in given)
    save, ending = WAYS[way]
    path = str(pathlib.Path(folder) / ("model" + ending))
    save(module, tuple(t.clone() for t in tensors), path)
    opened = torch.export.load(path).module() if way == "exported" else torch.jit.load(path)
    want = iter(opened(*[t.clone() for t in tensors]))
    got = treadle.load(path, example_inputs=tensors, backend=backend, threads=1)(*tensors)
    got = iter([torch.as_tensor(t) for t in got] if isinstance(got, (tuple, list, treadle.Outputs)) else [torch.as_tensor(got)])
    verdicts = []
    for _, call, given in calls:
        direct = call(*[t.clone() for t in given])
        ours, saved = [next(got) for _ in direct], [next(want) for _ in direct]
        if differ(saved, direct, 0):  # the program is not the call, or random
            verdicts.append(("left", "differs in PyTorch"))
            continue
        near = max((tolerance_of(t) for t in given if t.is_floating_point()), default=0)  # steps may be rounded to a short type
        why = next(filter(None, (differ([a], [b], max(tolerance_of(b), near)) for a, b in zip(ours, saved))), None)
        verdicts.append(("wrong", why) if why and not nearer(call, given, ours, saved) else None)
    return verdicts


def judge(calls, way, folder, backend="eager"):
    """[(name, None or (kind, why))] of each: wrong, refused, or left (what PyTorch itself does not save)."""
    warnings.simplefilter("ignore")
    if not calls:
        return []
    try:
        return list(zip((name for name, _, _ in calls), _run(calls, way, folder, backend)))
    except Exception as error:
        if len(calls) > 1:
            first = judge(calls[:1], way, folder, backend)
            if first[0][1] and first[0][1][0] == "refused":  # an operator that is not there at all
                return first + [(name, first[0][1]) for name, _, _ in calls[1:]]
            half = (len(calls) + 1) // 2
            return first + judge(calls[1:half], way, folder, backend) + judge(calls[half:], way, folder, backend)
        text = " ".join(str(error).split(": ", 1)[-1].split())
        if isinstance(error, treadle.Unsupported):
            verdict = "refused", text[:160]
        elif isinstance(error, treadle.Error):
            verdict = "wrong", text[-200:]
        else:
            verdict = "left", f"{type(error).__name__}: {text[:100]}"
        return [(calls[0][0], verdict)]


def runs(call, tensors):
    """Does PyTorch take this, with results that are tensors?"""
    try:
        results, again = (call(*[t.clone() for t in tensors]) for _ in range(2))
    except Exception:
        return False
    return bool(results) and not differ(again, results, 0) and all(t.layout == torch.strided and not t.is_complex() for t in results)


def traces(call, tensors):
    from torch._subclasses.fake_tensor import FakeTensorMode
    try:
        with FakeTensorMode() as mode:
            return all(isinstance(t, torch.Tensor) for t in call(*map(mode.from_tensor, tensors)))
    except Exception:
        return False


def survives(call, tensors):
    """The same, tried in a process of its own: PyTorch dies of some."""
    child = multiprocessing.get_context("fork").Process(target=lambda: os._exit(0 if runs(call, tensors) else 1))
    child.start()
    child.join()
    return child.exitcode == 0


def of_sample(op, sample):
    """A sample as (function of its tensors, its tensors)."""
    leaves, spec = torch.utils._pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    at = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def call(*given):
        flat = list(leaves)
        for i, t in zip(at, given):
            flat[i] = t
        value, args, named = torch.utils._pytree.tree_unflatten(flat, spec)
        results = torch.utils._pytree.tree_leaves(op.op(value, *args, **named))
        return [t for t in results if isinstance(t, torch.Tensor)][:1 if op.name in FIRST else None]
    return call, [leaves[i].detach() for i in at]


def run_operator(op, calls_of, way, options):
    counts, bad = collections.Counter(), []
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        calls = calls_of(op, options)
        if way == "exported":  # what its meta functions refuse would have the others tried one by one
            calls = [(name, call, tensors) for name, call, tensors in calls if traces(call, tensors)]
        for name, verdict in judge(calls, way, folder, options.backend):
            counts[verdict[0] if verdict else "passed"] += 1
            if verdict and verdict[0] != "left":
                bad.append((name, *verdict))
    return {**{kind: counts[kind] for kind in ("passed", "wrong", "refused", "left")}, "bad": bad}


def run(part, calls_of, options):
    """calls_of(operator, options): the calls of one operator of op_db."""
    from torch.testing._internal.common_methods_invocations import op_db
    torch.set_num_threads(1)
    ops = {name_of(op): op for op in sorted(op_db, key=name_of)
           if not (op.name in UNDEFINED or op.name in SIGNS) and re.search(options.only, name_of(op))}
    items = [(name, way) for name in ops for way in options.ways.split(",")]
    path = pathlib.Path(options.results or f"build/python/{part}.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    sums = collections.defaultdict(collections.Counter)
    outcomes = {"passed": [], "failed": []}
    with path.open("w") as out:
        for (name, way), row, took in suite_children.each(items, lambda i: run_operator(ops[i[0]], calls_of, i[1], options), options.limit):
            if isinstance(row, suite_children.Failed):
                row = {"passed": 0, "wrong": 1, "refused": 0, "left": 0, "bad": [("all", "wrong", str(row))]}
            sums[way].update({kind: row[kind] for kind in ("passed", "wrong", "refused", "left")})
            out.write(json.dumps({"operator": name, "way": way, **row, "seconds": round(took, 2)}) + "\n")
            out.flush()
            failed = row["wrong"] + row["refused"]
            if failed or row["passed"]:
                outcomes["failed" if failed else "passed"].append(f"{name} {way}")
            if failed:
                say(f"{name:36} {way:9} {row['passed']:4} passed {row['wrong']:3} wrong {row['refused']:3} refused: {row['bad'][0]}")
    for way, row in sums.items():
        say(f"{way:9} {row['passed']:6} agree, {row['wrong']} do not, {row['refused']} are refused; {row['left']} PyTorch does not save")
    return 0 if not suite_skips.judge(part, outcomes["failed"], outcomes["passed"], say) else 1


def add_options(parser, samples):
    parser.add_argument("--samples", type=int, default=samples, help="of one operator that are looked at")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--only", default="", help="a pattern of names")
    parser.add_argument("--limit", type=float, default=300, help="seconds of a CPU for one operator and way")
    parser.add_argument("--results", default="")
