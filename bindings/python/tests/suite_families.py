"""One model of every family that transformers, timm, torchvision, diffusers, torch_geometric and monai build, tiny and with
random weights, from files: .pt, traced; .pt2, exported and not decomposed; .onnx, exported with every size open that can be.
Held against PyTorch.

What a library or PyTorch itself does not build, run or save is passed over, and says why in the results. A family that does
not agree has its line in suite.skips."""

import collections
import json
import pathlib
import re
import tempfile
import warnings

import onnxruntime
import torch

import family_builders
import suite_children
import suite_skips
import treadle
from suite_models import apart, brief, say, tensors_of

BEGIN, END = "<!-- families: begin -->", "<!-- families: end -->"


class Plain(torch.nn.Module):
    """A model as a function of tensors, which gives the tensors of its results."""

    def __init__(self, model, names, fixed):
        super().__init__()
        self.model, self.names, self.fixed = model, names, fixed

    def forward(self, *given):
        result = self.model(**dict(zip(self.names, given)), **self.fixed) if self.names else self.model(*given, **self.fixed)
        seen, kept = set(), []
        for t in torch.utils._pytree.tree_leaves(result):
            if isinstance(t, torch.Tensor) and id(t) not in seen:
                seen.add(id(t))
                kept.append(t)
        return kept


def traced(module, args, path):
    torch.jit.save(torch.jit.trace(module, args, strict=False, check_trace=False), path)
    return torch.jit.load(path)


def exported(module, args, path):
    torch.export.save(torch.export.export(module, args, strict=False), path)
    return torch.export.load(path).module()


def onnx_exported(module, args, path):
    """ONNX Runtime on the file: what it does not run, or does otherwise than PyTorch, is the exporter's."""
    open_sizes = tuple({axis: torch.export.Dim.AUTO for axis in range(a.dim())} for a in args)
    torch.onnx.export(module, args, path, dynamo=True, dynamic_shapes=(open_sizes,), external_data=False, verbose=False)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    if len(names) != len(args):
        raise ValueError(f"the file takes {len(names)} inputs, the model {len(args)}")
    return lambda *given: [torch.from_numpy(r) for r in session.run(None, {n: g.numpy() for n, g in zip(names, given)})]


WAYS = {"traced": (traced, ".pt"), "exported": (exported, ".pt2"), "onnx": (onnx_exported, ".onnx")}


def fill_zeros(model):
    """What was made zero stays so else: experts with equal scores, whose order PyTorch leaves open."""
    for parameter in model.parameters():
        if parameter.is_floating_point() and not bool(parameter.any()):
            torch.nn.init.normal_(parameter, std=0.02)


def larger(module, program, args):
    """The same arguments twice, side by side along each axis that PyTorch and the exported program can both do."""
    for axis in range(max(a.dim() for a in args)):
        more = [torch.cat([a, a], axis) if axis < a.dim() else a for a in args]
        try:
            if not apart(tensors_of(program(*more)), tensors_of(module(*more))):
                yield more
        except Exception:  # it has no such sizes
            continue


def try_family(build, way, backend):
    """(outcome, why): "agrees", "fails", or "absent" where a library or PyTorch itself does not make the program."""
    warnings.simplefilter("ignore")
    save, ending = WAYS[way]
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path = str(pathlib.Path(folder) / ("model" + ending))
        try:
            made = build()
            fill_zeros(made.model)
            module, args = Plain(made.model.eval(), made.names, made.fixed), made.args
            first, want = (tensors_of(module(*args)) for _ in range(2))
            program = save(module, args, path)
            theirs = tensors_of(program(*args))
        except Exception as error:
            return "absent", brief(error)
        if not want or apart(first, want) or apart(theirs, want):
            return "absent", "random results, or a program of PyTorch's that gives others than the model"
        try:
            examples = {} if way == "onnx" else {"example_inputs": args}
            ours = treadle.load(path, backend=backend, threads=1, **examples)
            why = apart(tensors_of(ours(*args)), want)
            for more in () if why or way != "onnx" else larger(module, program, args):
                why = why or apart(tensors_of(ours(*more)), tensors_of(module(*more)))
        except Exception as error:
            return "fails", brief(error)
    return ("fails", why) if why else ("agrees", "")


def read_results(path):
    lines = path.read_text().splitlines() if path.exists() else ()
    return {(row["library"], row["family"], row["way"]): row for row in map(json.loads, lines)}


def report(rows, options):
    sums = collections.defaultdict(collections.Counter)
    names = collections.defaultdict(list)
    for (library, family, way), row in rows.items():
        sums[library, way][row["outcome"]] += 1
        names[row["outcome"]].append(f"{library}/{family} {way}")
    lines = ["| library | way | agree | do not | PyTorch does not make |", "|---|---|---|---|---|"]
    for (library, way), row in sorted(sums.items()):
        lines.append(f"| {library} | {way} | {row['agrees']} | {row['fails']} | {row['absent']} |")
    agree, failed = len(names["agrees"]), len(names["fails"])
    share = agree / max(agree + failed, 1)
    say("\n".join(lines))
    say(f"{agree} of {agree + failed} agree ({100 * share:.1f} %)")
    if options.write:
        write(options.write, lines, rows, share)
    return 0 if share >= 0.98 and not suite_skips.judge("families", names["fails"], names["agrees"], say) else 1


def write(path, lines, rows, share):
    bad = [f"- {library}/{family} ({way}): {row['why'][:60]}" for (library, family, way), row in sorted(rows.items())
           if row["outcome"] == "fails"]
    text = "\n".join([BEGIN, *lines, "", f"{100 * share:.1f} % agree. Those that do not:", "", *bad, END])
    page = pathlib.Path(path)
    whole = page.read_text()
    if BEGIN not in whole:
        raise SystemExit(f"{path} has no place for the table")
    page.write_text(whole[:whole.index(BEGIN)] + text + whole[whole.index(END) + len(END):])


def run(options):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    path = pathlib.Path(options.results)
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = {} if options.again else read_results(path)
    every = {(library, family): build for library in options.libraries.split(",")
             for family, build in family_builders.LIBRARIES[library]()
             if not options.only or re.search(options.only, family)}
    items = [(library, family, way) for library, family in every for way in options.ways.split(",")]
    missing = [i for i in items if rows.get(i, {"outcome": "fails"})["outcome"] == "fails"]
    with path.open("w" if options.again else "a") as out:
        work = suite_children.each(missing, lambda i: try_family(every[i[:2]], i[2], options.backend), options.limit)
        for item, said, took in work:
            outcome, why = ("fails", str(said)) if isinstance(said, suite_children.Failed) else said
            rows[item] = dict(zip(("library", "family", "way"), item), outcome=outcome, why=why, seconds=round(took, 2))
            out.write(json.dumps(rows[item]) + "\n")
            out.flush()
            say(f"{item[0]:16} {item[1]:32} {item[2]:9} {outcome:6} {why[:200]}")
    return report({i: rows[i] for i in items if i in rows}, options)


def add_options(parser):
    parser.add_argument("--libraries", default=",".join(family_builders.LIBRARIES))
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--only", default="", help="a pattern of families")
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--limit", type=float, default=300, help="seconds of a CPU for one family and way")
    parser.add_argument("--results", default="build/python/families.jsonl")
    parser.add_argument("--again", action="store_true", help="forget what the results say")
    parser.add_argument("--write", default="", help="a page to write the table into")
