"""PyTorch's samples of its operators (op_db) from files: .pt, traced and scripted, and .pt2 that is not decomposed.

Each sample is a module of one call, saved, loaded and run; `inplace` and `out` take the forms that write, also into views (a
slice of a transposed tensor), `mixed` gives operands of different types. What PyTorch itself does not run, save or leave open is
passed over."""

import collections
import json
import pathlib
import re
import tempfile
import warnings

import torch

import suite_children
import suite_skips
import treadle
from suite_operators import FIRST, SIGNS, UNDEFINED, differ, name_of, samples_of, say

OTHERS = {torch.float32: torch.float64, torch.int64: torch.float32}  # what a second operand becomes in `mixed`


def tolerance_of(t):
    """Functions of integers give floats."""
    return 1e-6 if t.dtype == torch.float64 else 1e-4 if t.is_floating_point() or t.is_complex() else 0


class Call(torch.nn.Module):
    """The operator with a sample's arguments, of which tensors are given."""

    def __init__(self, op, sample, form):
        super().__init__()
        self.leaves, self.spec = torch.utils._pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.at = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = [self.leaves[i].detach() for i in self.at]
        self.form = form
        self.op = op.inplace_variant if form == "inplace" else op.op
        self.first = op.name in FIRST
        self.process = sample.output_process_fn_grad if op.name in SIGNS else None

    def forward(self, *given):
        flat = list(self.leaves)
        for i, t in zip(self.at, given):
            flat[i] = t
        value, args, named = torch.utils._pytree.tree_unflatten(flat, self.spec)
        if self.form == "inplace":  # into a transposed view of a larger tensor
            whole = torch.stack([value + 0, value + 0]).transpose(0, -1)
            shown = whole.select(-1, 1).movedim(0, -1) if value.dim() else whole[1]
            self.op(shown, *args, **named)
            return [shown, whole]
        if self.form == "out":
            wide = [torch.zeros((2, *t.shape), dtype=t.dtype) for t in self.results]
            shown = [w[1] for w in wide]
            self.op(value, *args, **named, out=shown[0] if len(shown) == 1 else tuple(shown))
            return wide
        results = self.op(value, *args, **named)
        if self.process:
            results = self.process(results)
        results = torch.utils._pytree.tree_leaves(results)[:1 if self.first else None]
        return [t for t in results if isinstance(t, torch.Tensor)]


def traced(module, tensors, path):
    torch.jit.save(torch.jit.trace(module, tensors, check_trace=False), path)


def scripted(module, tensors, path):
    """The operator by its name, as a script calls it: arguments that are no tensors are written into the source."""
    names = iter(f"x{i}" for i in range(len(tensors)))
    spelled = [next(names) if isinstance(leaf, torch.Tensor) else repr(leaf) for leaf in module.leaves]
    value, args, named = torch.utils._pytree.tree_unflatten(spelled, module.spec)

    def spell(tree):
        if isinstance(tree, (list, tuple)):
            return "[" + ", ".join(map(spell, tree)) + "]"
        return tree

    arguments = [spell(v) for v in (value, *args)] + [f"{key}={spell(v)}" for key, v in named.items()]
    name = module.op.__name__
    space = next(s for s in ("torch", "torch.nn.functional", "torch.linalg", "torch.special", "torch.fft")
                 if getattr(eval(s), name, None) is module.op)
    call = f"{space}.{name}({', '.join(arguments)})"
    given = ", ".join(f"x{i}: Tensor" for i in range(len(tensors)))
    script = torch.jit.CompilationUnit(f"def forward({given}):\n    return {call}\n").forward
    torch.jit.save(script, path)


def exported(module, tensors, path):
    torch.export.save(torch.export.export(module, tensors), path)


WAYS = {"traced": (traced, ".pt"), "scripted": (scripted, ".pt"), "exported": (exported, ".pt2")}
FORMS = ("plain", "inplace", "out", "mixed")


def mixed_tensors(tensors):
    """The second and later operands in another type; None: there are none."""
    changed = [t.to(OTHERS[t.dtype]) if i and t.dtype in OTHERS else t for i, t in enumerate(tensors)]
    return changed if any(a.dtype != b.dtype for a, b in zip(changed, tensors)) else None


def run_sample(op, sample, form, way, folder):
    """"passed", "skipped", or ("refused" or "wrong", why)."""
    module = Call(op, sample, form)
    if not module.tensors or (form == "out" and op.name in SIGNS) or any(t.layout != torch.strided for t in module.tensors):
        return "skipped"
    tensors = mixed_tensors(module.tensors) if form == "mixed" else module.tensors
    save, ending = WAYS[way]
    path = str(pathlib.Path(folder) / ("model" + ending))
    try:
        if form == "out":
            module.results = [t.resolve_conj() for t in Call(op, sample, "plain")(*[t.clone() for t in tensors])]
        want, again = (module(*[t.clone() for t in tensors]) for _ in range(2))
        save(module, tuple(t.clone() for t in tensors), path)
        opened = torch.export.load(path).module() if way == "exported" else torch.jit.load(path)
        back = opened(*[t.clone() for t in tensors])
        if differ(back, want, tolerance_of(want[0])):  # some traces lose what is written
            return "skipped"
    except Exception:  # PyTorch itself does not, or not as a program
        return "skipped"
    if op.name in UNDEFINED or not want or differ(again, want, 0):  # random numbers, too
        return "skipped"
    try:
        got = treadle.load(path, example_inputs=tuple(tensors), backend="eager", threads=1)(*tensors)
    except treadle.Unsupported as error:
        return "refused", " ".join(str(error).split(": ", 1)[-1].split())[:160]
    except Exception as error:
        return "wrong", f"{type(error).__name__}: {' '.join(str(error).split())[-200:]}"
    problem = differ([torch.as_tensor(t) for t in torch.utils._pytree.tree_leaves(list(got) if isinstance(got, (tuple, list, treadle.Outputs)) else got)],
                     want, tolerance_of(want[0]))
    return ("wrong", problem) if problem else "passed"


def has_form(op, form, way):
    if way == "scripted" and form in ("inplace", "out"):  # a script calls the operator itself
        return False
    return {"plain": True, "mixed": True, "inplace": op.inplace_variant is not None, "out": op.supports_out}[form]


def run_operator(op, form, way, limit, dtype=torch.float32):
    warnings.simplefilter("ignore")
    counts, reasons = collections.Counter(), collections.Counter()
    if has_form(op, form, way):
        dtype = dtype if dtype in op.dtypes else torch.int64
        torch.manual_seed(0)
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            for sample in samples_of(op, dtype, limit) if dtype in op.dtypes else ():
                outcome = run_sample(op, sample, form, way, folder)
                if isinstance(outcome, tuple):
                    reasons[outcome[1]] += 1
                    outcome = outcome[0]
                counts[outcome] += 1
    return {**{kind: counts[kind] for kind in ("passed", "wrong", "refused")}, "reasons": reasons.most_common(3)}


def run(options):
    from torch.testing._internal.common_methods_invocations import op_db
    torch.set_num_threads(1)
    ops = {name_of(op): op for op in sorted(op_db, key=name_of) if not options.only or re.search(options.only, name_of(op))}
    items = [(name, form, way) for name in ops for form in options.forms.split(",") for way in options.ways.split(",")]
    path = pathlib.Path(options.results)
    path.parent.mkdir(parents=True, exist_ok=True)
    sums = collections.defaultdict(collections.Counter)
    outcomes = {"passed": [], "failed": []}
    with path.open("w") as out:
        work = suite_children.each(items, lambda i: run_operator(ops[i[0]], i[1], i[2], options.samples), options.limit)
        for (name, form, way), row, took in work:
            if isinstance(row, suite_children.Failed):
                row = {"passed": 0, "wrong": 1, "refused": 0, "reasons": [(str(row), 1)]}
            sums[form, way].update({kind: row[kind] for kind in ("passed", "wrong", "refused")})
            out.write(json.dumps({"operator": name, "form": form, "way": way, **row, "seconds": round(took, 2)}) + "\n")
            out.flush()
            bad = row["wrong"] + row["refused"]
            if bad or row["passed"]:
                outcomes["failed" if bad else "passed"].append(f"{name} {form} {way}")
            if bad:
                say(f"{name:36} {form:8} {way:9} {row['passed']:3} passed {row['wrong']:3} wrong {row['refused']:3} refused: "
                    f"{row['reasons'][0][0]}")
    for (form, way), row in sums.items():
        say(f"{form:8} {way:9} {row['passed']:5} agree, {row['wrong']} do not, {row['refused']} are refused")
    return 0 if not suite_skips.judge("files", outcomes["failed"], outcomes["passed"], say) else 1


def add_options(parser):
    parser.add_argument("--samples", type=int, default=2, help="of one operator, form and way, at most")
    parser.add_argument("--forms", default=",".join(FORMS))
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--only", default="", help="a pattern of names")
    parser.add_argument("--limit", type=float, default=120, help="seconds of a CPU for one operator, form and way")
    parser.add_argument("--results", default="build/python/files.jsonl")
