"""PyTorch's own test/inductor/test_torchinductor.py, with its compiler replaced by this backend.

The file is not here: it comes from PyTorch's repository, at the version of the torch that runs (--file). Its tests compile
through a name of that module, `compile_fx`, which is set to the backend; gradients are off, for Treadle is for inference.
Tests of what Inductor makes (its kernels, text, counters) say nothing of the backend; those of its ahead-of-time
compiler (aoti) are not run."""

import collections
import importlib.util
import json
import pathlib
import re
import sys
import unittest
import warnings

import torch

import suite_children
import suite_skips
from treadle import _torch

INTERNAL = re.compile(r"run_and_get_\w*code|run_and_get_kernels|metrics\.|FileCheck|compile_fx_inner|lowering\.|assertGeneratedKernel|"
                      r"_inductor\.compile\b|aoti|inductor_config|config\.patch|_dynamo\.optimize\(\)|generated_kernel_count|"
                      r"assert_no_indirect_indexing|inductor_prims")
MISSING = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")


def say(*words):
    print(*words, flush=True)


def load(path):
    """The test module; names that this version of torch does not have do nothing, as decorators."""
    for _ in range(50):
        spec = importlib.util.spec_from_file_location("test_torchinductor", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        try:
            spec.loader.exec_module(module)
            return module
        except ImportError as error:
            name = MISSING.search(str(error))
            if name is None:
                raise
            setattr(sys.modules[name[2]], name[1], lambda test: test)
    raise SystemExit(f"{path}: of a version of torch too far from {torch.__version__}")


class Calls:
    """The backend, and what it was asked."""

    def __init__(self):
        self.graphs = 0

    def __call__(self, module, example_inputs, *_, **__):
        self.graphs += 1
        return _torch.backend(module, example_inputs)


def test_class(module, calls):
    class TreadleTests(module.TestCase):
        common = module.check_model
        device = "cpu"

    compile_with = torch.compile

    def retargeted(model=None, *, backend="inductor", mode=None, options=None, **more):
        return compile_with(model, backend=calls if backend == "inductor" else backend, **more)

    module.compile_fx = calls
    torch.compile = retargeted
    module.copy_tests(module.CommonTemplate, TreadleTests, "cpu")
    return TreadleTests


def outcome_of(result):
    """(outcome, why)"""
    if result.skipped:
        return "skipped", result.skipped[0][1]
    found = result.failures + result.errors
    if found:
        lines = [line for line in found[0][1].strip().splitlines() if line.strip()]
        at = next((i for i, line in enumerate(lines) if re.match(r"\S*(Error|Exception|Unsupported|Failed)\b", line)), len(lines) - 1)
        return "failed", " ".join(lines[at:at + 3])[:400]
    return "passed", ""


def source_of(path, name):
    """The text of a test, whatever stands around it."""
    found = re.search(rf"^    def {re.escape(name.removesuffix('_cpu'))}\(.*?(?=^    (?:def|@)|^\S|\Z)", path.read_text(), re.M | re.S)
    return found[0] if found else ""


def run_test(kind, calls, name, path):
    calls.graphs = 0
    result = unittest.TestResult()
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", _torch.Fallback)
        kind(name).run(result)
    outcome, why = outcome_of(result)
    fallbacks = [str(w.message) for w in caught if issubclass(w.category, _torch.Fallback)]
    internal = bool(INTERNAL.search(source_of(path, name)))
    return {"outcome": outcome, "why": why, "graphs": calls.graphs, "fallbacks": fallbacks[:3], "internal": internal}


PASS, ELSEWHERE, FAIL = "pass on Treadle", "pass, with a graph that ran on PyTorch", "fail"


def kind_of(row):
    """What a row is counted as."""
    if row["outcome"] == "skipped":
        return "skipped by the file itself"
    if not row["graphs"] or (row["internal"] and row["outcome"] == "failed"):
        return "about Inductor itself, or no graph reached the backend"
    if row["outcome"] == "passed":
        return ELSEWHERE if row["fallbacks"] else PASS
    return FAIL


def reason_of(text):
    text = text.partition("runs on PyTorch: ")[2] or text
    return re.sub(r"\d+", "N", re.sub(r"^model: |node [^ ]* |\([^)]*call[^)]*\)", "", text))[:110]


def report(rows):
    kinds = collections.Counter(kind_of(row) for row in rows)
    for kind, count in kinds.most_common():
        say(f"{count:5} {kind}")
    fallbacks = collections.Counter(reason_of(row["fallbacks"][0]) for row in rows if row["fallbacks"])
    for reason, count in fallbacks.most_common(40):
        say(f"  on PyTorch {count:4}: {reason}")
    for row in rows:
        if kind_of(row) == FAIL:
            say(f"  fails {row['test']}: {row['why'][:200]}")
    return kinds


def run(options):
    if not options.file:
        say("inductor: give --file test_torchinductor.py, from PyTorch's repository (test/inductor); left out")
        return 0
    calls = Calls()
    kind = test_class(load(options.file), calls)
    names = [n for n in unittest.TestLoader().getTestCaseNames(kind) if re.search(options.only, n) and "aoti" not in n]
    path = pathlib.Path(options.results)
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [row for line in (path.read_text().splitlines() if path.exists() and not options.again else ())
            if (row := json.loads(line))["test"] in names]
    there = {row["test"] for row in rows}
    missing = [name for name in names if name not in there]
    torch.set_num_threads(1)
    with path.open("w" if options.again else "a") as out:
        for name, row, took in suite_children.each(missing, lambda name: run_test(kind, calls, name, pathlib.Path(options.file)), options.limit):
            if isinstance(row, suite_children.Failed):
                row = {"outcome": "failed", "why": str(row), "graphs": 1, "fallbacks": [], "internal": False}
            rows.append({"test": name, **row, "seconds": round(took, 2)})
            out.write(json.dumps(rows[-1]) + "\n")
            out.flush()
    kinds = report(rows)
    not_ours = [row["test"] for row in rows if kind_of(row) in (FAIL, ELSEWHERE)]
    wrong = suite_skips.judge("inductor", not_ours, [row["test"] for row in rows if kind_of(row) == PASS], say)
    say(f"{len(rows)} tests, {kinds[FAIL]} failed, {wrong} of all unexpectedly; {sum(row['seconds'] for row in rows):.0f} s of a CPU")
    return 1 if wrong else 0


def add_options(parser):
    parser.add_argument("--file", default="", help="test_torchinductor.py")
    parser.add_argument("--only", default="", help="a pattern of names")
    parser.add_argument("--limit", type=float, default=120, help="seconds of a CPU for one test")
    parser.add_argument("--results", default="build/python/inductor.jsonl")
    parser.add_argument("--again", action="store_true", help="forget what the results say")
