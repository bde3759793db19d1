"""PyTorch's samples of its operators (op_db) through the backend of torch.compile: which there are, which agree.

Each sample becomes a graph as torch.compile would give it; what PyTorch itself does not run, or leaves open (random numbers,
contents of new memory), is passed over. The table of docs/operators.md is written by --write."""

import collections
import json
import pathlib
import re
import warnings

import torch

import suite_children
import suite_skips
from treadle import _torch

BEGIN, END = "<!-- samples: written by ./dev test-python ops --write -->", "<!-- end of samples -->"


def say(*words):
    print(*words, flush=True)


def reason_of(texts):
    text = texts[0].partition("runs on PyTorch: ")[2]
    return re.sub(r"^model: |node [^ ]* |\([^)]*call[^)]*\)", "", text)[:160]


def differ(got, want, tolerance):
    """Why the two do not agree; None: they do."""
    got, want = torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(want)
    if len(got) != len(want):
        return f"{len(got)} results instead of {len(want)}"
    for a, b in zip(got, want):
        if not isinstance(b, torch.Tensor):
            continue
        try:
            near = tolerance or (1e-5 if b.is_floating_point() or b.is_complex() else 0)  # functions of integers give floats
            torch.testing.assert_close(a, b, rtol=near, atol=near, equal_nan=True, check_stride=False)
        except AssertionError as error:
            return " ".join(str(error).split())[:160]
    return None


def nearer(call, tensors, got, want):
    """Are the results nowhere as far from those of f64 as PyTorch's furthest is? Sums of short types are f32's here."""
    try:
        exact = call(*[t.double() if t.is_floating_point() else t for t in tensors])
    except Exception:  # some operators are of short types alone
        return False

    def away(results):
        return [(a.double() - x.double()).abs() for a, x in zip(results, exact)]

    return len(got) == len(exact) and all(a.shape == x.shape for a, x in zip(got, exact)) and \
        all(bool((mine.max() <= theirs.max()) and (mine.mean() <= theirs.mean())) for mine, theirs in zip(away(got), away(want)) if mine.numel())


SHORT = frozenset(("f16", "bf16"))
DTYPES = {"f32": (torch.float32, "native", 1e-4), "i64": (torch.int64, "native", 0), "bool": (torch.bool, "native", 0),
          "f64": (torch.float64, "eager", 1e-6), "f16": (torch.float16, "eager", 2e-2), "bf16": (torch.bfloat16, "eager", 4e-2)}


# what PyTorch leaves open: contents of new memory, the order of equal elements
UNDEFINED = frozenset(("empty_like", "new_empty", "empty", "empty_permuted", "empty_strided", "new_empty_strided", "argsort", "kthvalue",
                       "mode", "topk"))
FIRST = frozenset(("sort", "msort"))  # values, and positions among which those of equal elements are open
SIGNS = frozenset(("linalg.eigh", "linalg.svd", "svd"))  # vectors whose signs are open


def run_sample(op, sample, dtype_name):
    """"passed", "nearer" (to f64 than PyTorch), "skipped", or ("missing" or "wrong", why)."""
    dtype, backend, tolerance = DTYPES[dtype_name]
    from torch.fx.experimental.proxy_tensor import make_fx
    leaves, spec = torch.utils._pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    at = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    tensors = [leaves[i].detach() for i in at]
    if any(t.is_complex() or t.layout != torch.strided for t in tensors) or not at:
        return "skipped"

    def call(*given):
        flat = list(leaves)
        for i, t in zip(at, given):
            flat[i] = t
        value, args, named = torch.utils._pytree.tree_unflatten(flat, spec)
        results = op(value, *args, **named)
        if op.name in SIGNS:  # as PyTorch's own tests take them
            results = sample.output_process_fn_grad(results)
        results = torch.utils._pytree.tree_leaves(results)[:1 if op.name in FIRST else None]
        return [t for t in results if isinstance(t, torch.Tensor)]

    try:
        want, again = call(*[t.clone() for t in tensors]), call(*[t.clone() for t in tensors])
        module = make_fx(torch.func.functionalize(call), tracing_mode="fake")(*[t.clone() for t in tensors])
    except Exception:  # PyTorch itself does not, or not as a graph
        return "skipped"
    drawn = any(torch.Tag.nondeterministic_seeded in getattr(n.target, "tags", ()) for n in module.graph.nodes)
    if drawn or op.name in UNDEFINED or not want or differ(again, want, 0) or any(t.is_complex() for t in want):
        return "skipped"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            got = _torch._inference({"backend": backend, "threads": 1}, [])(module, tensors)(list(tensors))
        except Exception as error:
            return "wrong", f"{type(error).__name__}: {' '.join(str(error).split())[:140]}"
    why = [str(w.message) for w in caught if issubclass(w.category, _torch.Fallback)]
    if why:
        return "missing", reason_of(why)
    problem = differ(got, want, tolerance)
    if problem and dtype_name in SHORT and nearer(call, tensors, got, want):
        return "nearer"
    return ("wrong", problem) if problem else "passed"


def samples_of(op, dtype, limit):
    found = []
    try:
        for sample in op.sample_inputs("cpu", dtype, requires_grad=False):
            found.append(sample)
            if len(found) == limit:
                break
    except Exception:  # some need another package
        pass
    return found


def run_operator(op, dtype_name, limit):
    """Counts of samples that passed, are wrong, or miss something, and why."""
    warnings.simplefilter("ignore")
    dtype = DTYPES[dtype_name][0]
    counts, reasons = collections.Counter(), collections.Counter()
    if dtype in op.dtypes:
        torch.manual_seed(0)
        for sample in samples_of(op, dtype, limit):
            outcome = run_sample(op, sample, dtype_name)
            if isinstance(outcome, tuple):
                reasons[outcome[1]] += 1
                outcome = outcome[0]
            counts[outcome] += 1
    return {"passed": counts["passed"] + counts["nearer"], "nearer": counts["nearer"], "wrong": counts["wrong"],
            "missing": counts["missing"], "reasons": reasons.most_common(3)}


def name_of(op):
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def tried(row):
    return row["passed"] + row["wrong"] + row["missing"]


def run(options):
    from torch.testing._internal.common_methods_invocations import op_db
    dtypes = options.dtypes.split(",")
    ops = {name_of(op): op for op in sorted(op_db, key=name_of) if not options.only or re.search(options.only, name_of(op))}
    torch.set_num_threads(1)
    path = pathlib.Path(options.results)
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = {} if options.again else read_results(path)
    with path.open("w" if options.again else "a") as out:
        items = [(name, dtype) for name in ops for dtype in dtypes if dtype not in rows.get(name, {})]
        work = suite_children.each(items, lambda item: run_operator(ops[item[0]], item[1], options.samples), options.limit)
        for (name, dtype), row, took in work:
            if isinstance(row, suite_children.Failed):
                row = {"passed": 0, "nearer": 0, "wrong": 1, "missing": 0, "reasons": [(str(row), 1)]}
            rows.setdefault(name, {})[dtype] = row = {**row, "seconds": round(took, 2)}
            out.write(json.dumps({"operator": name, "dtype": dtype, **row}) + "\n")
            out.flush()
            if row["wrong"] or row["missing"]:
                say(f"{name:36} {dtype:5}" + " ".join(f"{row[k]:3} {k}" for k in ("passed", "wrong", "missing")) +
                    f": {row['reasons'][0][0]}")
    chosen = {name: {dtype: rows[name][dtype] for dtype in dtypes if dtype in rows[name]} for name in ops}
    say(f"{sum(row['seconds'] for types in chosen.values() for row in types.values()):.0f} s of a CPU")
    return report(chosen, options)


def read_results(path):
    """{operator: {type: row}} of a run that was cut short."""
    rows = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        row = json.loads(line)
        rows.setdefault(row.pop("operator"), {})[row.pop("dtype")] = row
    return rows


def unexpected(rows):
    """How many operators and types miss samples without a reason, or have one and miss none."""
    names = {good: [f"{name} {dtype}" for name, types in rows.items() for dtype, row in types.items()
                    if tried(row) and (row["passed"] == tried(row)) == good] for good in (False, True)}
    return suite_skips.judge("ops", names[False], names[True], say)


def report(rows, options):
    rows = {name: kept for name, types in rows.items() if (kept := {dtype: row for dtype, row in types.items() if tried(row)})}
    have = {name: row for name, row in rows.items() if any(t["passed"] or t["wrong"] for t in row.values())}
    sums = {key: sum(t[key] for row in have.values() for t in row.values()) for key in ("passed", "wrong", "missing")}
    total = sum(sums.values())
    share = sums["passed"] / max(total, 1)
    say(f"{len(rows)} operators of op_db, Treadle has {len(have)}; of their {total} samples {sums['passed']} agree "
        f"({100 * share:.1f} %), {sums['wrong']} do not, {sums['missing']} need something that is not there")
    say(f"{sum(row['nearer'] for types in have.values() for row in types.values())} of those that agree differ from PyTorch by more than "
        "the type's tolerance, and are nearer to f64")
    wrong = unexpected(rows)
    if options.write:
        write(options.write, rows, have, total, share)
    return 0 if share >= 0.95 and not wrong else 1


def write(path, rows, have, total, share):
    dtypes = list(DTYPES)
    lines = [BEGIN, "## Samples of PyTorch's operators", "",
             f"PyTorch {torch.__version__.partition('+')[0]}'s `op_db` through the backend of `torch.compile`: samples that agree with "
             f"PyTorch of those that were run; `-`: PyTorch has none. f32, i64 and bool on `native`, the others on `eager`. Of the {total} "
             f"samples of {len(have)} operators that Treadle has {100 * share:.1f} % agree; the {len(rows) - len(have)} at the end run on "
             f"PyTorch.", "", "| operator | " + " | ".join(dtypes) + " |", "|---|" + "---|" * len(dtypes)]
    for name, row in have.items():
        cells = [f"{row[dtype]['passed']}/{tried(row[dtype])}" if dtype in row else "-" for dtype in dtypes]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += ["", "Not there: " + " ".join(f"`{name}`" for name in rows if name not in have), END]
    page = pathlib.Path(path)
    text = page.read_text()
    if BEGIN in text:
        text = text[:text.index(BEGIN)] + text[text.index(END) + len(END):].lstrip("\n")
    page.write_text(text.rstrip("\n") + "\n\n" + "\n".join(lines) + "\n")


def add_options(parser):
    parser.add_argument("--samples", type=int, default=20, help="of one operator and type, at most")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--only", default="", help="a pattern of names")
    parser.add_argument("--write", default="", help="a page to write the table into")
    parser.add_argument("--limit", type=float, default=120, help="seconds of a CPU for one operator and type")
    parser.add_argument("--results", default="build/python/operators.jsonl")
    parser.add_argument("--again", action="store_true", help="forget what the results say")
