"""Whole models on Treadle and on PyTorch: torchvision's, and a folder's zoo.py.

Random weights of a fixed seed; images as small as the architecture takes. What a model was seen to do stands in a file, one
line of JSON per way in, so that a run that was cut short goes on where it was."""

import copy
import functools
import inspect
import json
import pathlib
import re
import sys
import warnings

import torch

import suite_children
import suite_skips
import treadle
from treadle import _torch

SMALL = 96  # pixels: the deepest map of a network that divides by 32 has 3 by 3
TOLERANCE = 1e-3  # of the largest value of a result


def say(*words):
    print(*words, flush=True)


# ---- which there are ----


def _classification_size(name):
    """Options of the constructor, and the side of the image."""
    if name.startswith("vit_"):
        side = int(name.split("_")[2]) * 6
        return {"image_size": side}, side
    fixed = {"inception_v3": 139, "maxvit_t": 224, "alexnet": 128}
    return {}, fixed.get(name, SMALL)


def torchvision_models():
    import torchvision
    there = torchvision.models
    for name in there.list_models(module=there):
        options, side = _classification_size(name)
        yield name, lambda name=name, options=options, side=side: (
            there.get_model(name, weights=None, **options), (torch.randn(1, 3, side, side),))
    for name in there.list_models(module=there.segmentation):
        yield name, lambda name=name: (there.get_model(name, weights=None, weights_backbone=None), (torch.randn(1, 3, 128, 128),))
    for name in there.list_models(module=there.video):
        shape = (1, 3, 16, 224, 224) if name.startswith("mvit") or name == "s3d" else (1, 3, 8, 64, 64)
        yield name, lambda name=name, shape=shape: (there.get_model(name, weights=None), (torch.randn(shape),))


def zoo_models(folder, taken):
    """Those of zoo.py in `folder` that are not torchvision's own under the same name."""
    if not (pathlib.Path(folder) / "zoo.py").exists():
        say(f"no zoo.py in {folder}: its families are left out")
        return
    sys.path.insert(0, str(folder))
    import zoo
    for name, build in zoo.ZOO.items():
        if name not in taken:
            yield name, build


def every_model(folder):
    found = dict(torchvision_models())
    found.update(zoo_models(folder, found))
    return found


# ---- ways in ----


def traced(module, args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script = torch.jit.trace(module, args, strict=False, check_trace=False)
    return lambda **how: treadle.load(script, args, **how)(*args)


def scripted(module, args):
    script = torch.jit.script(module)
    return lambda **how: treadle.load(script, args, **how)(*args)


def exported(module, args):
    program = torch.export.export(module, args)
    return lambda **how: treadle.load(program, **how)(*args)


def open_batch(module, args):
    more = tuple(torch.cat([x, x]) for x in args)  # 1 would be taken for a size that stays
    batch = torch.export.Dim("batch")
    shapes = tuple({0: batch} for _ in more)
    variadic = any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(module.forward).parameters.values())
    program = torch.export.export(module, more, dynamic_shapes=(shapes,) if variadic else shapes)
    return lambda **how: treadle.load(program, **how)(*args)


def compiled(module, args):
    torch._dynamo.reset()
    warnings.simplefilter("error", _torch.Fallback)
    return lambda **how: torch.compile(module, backend="treadle", options=how)(*args)


WAYS = {"traced": traced, "scripted": scripted, "exported": exported, "open batch": open_batch, "compiled": compiled}


def tensors_of(value):
    """The tensors of what a model gives, however they are held."""
    if isinstance(value, treadle.Outputs):
        value = tuple(value)
    return [t for t in torch.utils._pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]


def brief(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def apart(got, want):
    """Why the results of a model are not PyTorch's; None: they are."""
    if len(got) != len(want):
        return f"{len(got)} results instead of {len(want)}"
    for a, b in zip(got, want):
        if a.shape != b.shape:
            return f"shape {tuple(a.shape)} instead of {tuple(b.shape)}"
        a, b = a.double(), b.double()
        error = float((a - b).abs().max()) / (float(b.abs().max()) or 1.0)
        if not error < TOLERANCE:
            return f"differs by {error:.1e} of the largest value"
    return None


def away(results, exact):
    """How far from f64: the root of the mean square, of each result."""
    return [float((a.double() - x).square().mean().sqrt()) for a, x in zip(results, exact)]


# Deep networks of random weights make the last digits of f32 large: then what counts is PyTorch's own distance from f64.
# With plain sums (math="exact") ours may be twice as far, for sums may be taken in any order; Winograd's transforms round
# once more. A convolution of 155 whose weights are those of bf16 comes out 3.4 times as far, a kernel of 3x3 that is zero
# 5 times (resnet152).
TIMES = {"exact": 2.0, "default": 3.0}


def as_near(module, args, run, want):
    """Are the results as near to those of f64 as PyTorch's own are?"""
    wide = copy.deepcopy(module).double()
    exact = tensors_of(wide(*[a.double() if a.is_floating_point() else a for a in args]))
    theirs = away(want, exact)
    return all(mine <= times * other
               for math, times in TIMES.items() for mine, other in zip(away(tensors_of(run(math=math)), exact), theirs))


def try_way(way, module, args, want):
    """(outcome, why): "agrees"; "absent", where PyTorch itself does not make such a program; "fails"."""
    with torch.no_grad():
        try:
            run = WAYS[way](module, args)
        except Exception as error:
            return "absent", brief(error)
        try:
            got = tensors_of(run())
        except Exception as error:
            return "fails", brief(error)
        why = apart(got, want)
        if why and why.startswith("differs") and as_near(module, args, run, want):
            return "agrees", why + ", as f32 does from f64"
    return ("fails", why) if why else ("agrees", "")


def condition(module, args):
    """Values of ordinary size all the way: norms take their statistics from the input, nothing that was made zero stays."""
    for parameter in module.parameters():
        if not bool(parameter.any()):
            torch.nn.init.normal_(parameter, std=0.02)
    norms = [m for m in module.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    try:
        with torch.no_grad():
            module(*args)
    except ValueError:  # one value per channel has no statistics
        pass
    return module.eval()


@functools.lru_cache(maxsize=1)
def built(build):
    """The module, its example arguments and PyTorch's results, for all ways that follow one another."""
    torch.manual_seed(0)
    module, args = build()
    module = condition(module.eval(), args)
    with torch.no_grad():
        return module, args, tensors_of(module(*args))


def try_model(build, way):
    """What try_way says; in a process of its own."""
    try:
        module, args, want = built(build)
    except Exception as error:  # another version of a package may not have it
        return "absent", "cannot be built here: " + brief(error)
    return try_way(way, module, args, want)


# ---- the table ----


def read_results(path):
    rows = {}
    if path.exists():
        for line in path.read_text().splitlines():
            row = json.loads(line)
            rows.setdefault(row["model"], {})[row["way"]] = row
    return rows


def table(rows, ways):
    marks = {"agrees": "yes", "absent": "-", "fails": "NO"}
    say(f"{'model':32}" + "".join(f"{way:>12}" for way in ways))
    counts = {"agrees": 0, "absent": 0, "fails": 0}
    for name, row in rows.items():
        say(f"{name:32}" + "".join(f"{marks[row[way]['outcome']] if way in row else '':>12}" for way in ways))
        for way in ways:
            if way in row:
                counts[row[way]["outcome"]] += 1
    for outcome, title in (("fails", "What does not agree:"), ("absent", "What PyTorch itself does not make:")):
        found = [(name, way, row[way]["why"]) for name, row in rows.items() for way in ways
                 if way in row and row[way]["outcome"] == outcome]
        if found:
            say(title)
        for name, way, why in found:
            say(f"    {name} {way}: {why[:160]}")
    return counts


def run(options):
    warnings.simplefilter("ignore")
    ways = options.ways.split(",")
    path = pathlib.Path(options.results)
    path.parent.mkdir(parents=True, exist_ok=True)
    before = {} if options.again else read_results(path)
    every = every_model(options.zoo)
    names = [name for name in every if not options.only or re.search(options.only, name)]
    for package in ("timm", "transformers"):  # once, before the forks
        try:
            __import__(package)
        except ImportError:
            pass
    rows = {name: {way: row for way, row in before.get(name, {}).items() if row["outcome"] != "fails" and way in ways}
            for name in names}
    missing = [(name, way) for name in names for way in ways if way not in rows[name]]
    torch.set_num_threads(1)
    with path.open("w" if options.again else "a") as out:
        for (name, way), said, took in suite_children.each(missing, lambda item: try_model(every[item[0]], item[1]), options.limit):
            outcome, why = ("fails", str(said)) if isinstance(said, suite_children.Failed) else said
            rows[name][way] = {"model": name, "way": way, "outcome": outcome, "why": why, "seconds": round(took, 2)}
            out.write(json.dumps(rows[name][way]) + "\n")
            out.flush()
            say(f"{name:32} {way:10} {outcome:6} {why}")
    counts = table(rows, ways)
    tried = counts["agrees"] + counts["fails"]
    share = counts["agrees"] / max(tried, 1)
    outcomes = {kind: [f"{name} {way}" for name, row in rows.items() for way in row if row[way]["outcome"] == kind]
                for kind in ("fails", "agrees")}
    wrong = suite_skips.judge("models", outcomes["fails"], outcomes["agrees"], say)
    took = sum(row[way]["seconds"] for row in rows.values() for way in row)
    say(f"{len(rows)} models; {counts['agrees']} of {tried} ways in agree ({100 * share:.1f} %), {counts['absent']} are not there; "
        f"{took:.0f} s of a CPU")
    return 0 if share >= 0.98 and not wrong else 1


def add_options(parser):
    parser.add_argument("--ways", default="traced,scripted,exported,open batch")
    parser.add_argument("--only", default="", help="a pattern of names")
    parser.add_argument("--zoo", default="../shared/peers", help="a folder with zoo.py")
    parser.add_argument("--limit", type=float, default=600, help="seconds of a CPU for one way of a model")
    parser.add_argument("--results", default="build/python/models.jsonl")
    parser.add_argument("--again", action="store_true", help="forget what the results say")
