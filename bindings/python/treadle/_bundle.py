"""TORCHDYNAMO_REPRO_AFTER=aot: a graph of torch.compile that fails, or differs from PyTorch, as a folder that shows it: to
`treadle compare`, `bisect` and `minify` as a graph with its inputs, to people who have PyTorch as a program (treadle.repro).

Levels are PyTorch's (TORCHDYNAMO_REPRO_LEVEL): 1 a graph that fails leaves its program, 2 and more one that makes itself
smaller; 3 each call leaves it before it runs, for what crashes; 4 results that differ leave it, too."""

import base64
import ctypes
import io
import os
import platform
import shlex
import zlib

import torch

from . import _core
from ._debug import dump_into
from ._errors import Error

_NPY = {"float64": "<f8", "float32": "<f4", "float16": "<f2", "int64": "<i8", "int32": "<i4", "int16": "<i2", "int8": "|i1",
        "uint64": "<u8", "uint32": "<u4", "uint16": "<u2", "uint8": "|u1", "bool": "|b1"}
_OF_COMMAND = {"backend": "backends", "disabled_passes": "disable-passes", "isa": "isa", "math": "math", "threads": "threads", "inject": "inject"}
STATIC = "static_"  # how names of placeholders begin that stand for parameters
NONE = "; TORCHDYNAMO_REPRO_AFTER leaves no bundle of it, as a graph that cannot be written down has none"
_EMBEDDED = 48 << 10  # bytes of tensors that stand in the program itself


def level():
    """0: nobody asks for bundles of such graphs."""
    config = torch._dynamo.config
    return config.repro_level if config.repro_after == "aot" else 0


def folder_of(number):
    from torch._dynamo.utils import get_debug_dir
    return os.path.join(get_debug_dir(), "minifier", "treadle", f"graph_{number}")


# ---- does it differ? ----


def widened(module, args):
    """What the graph gives in f64; None: PyTorch cannot say."""
    from copy import deepcopy

    from torch._dynamo.debug_utils import cast_to_fp64
    try:
        module, args = cast_to_fp64(deepcopy(module), list(args))
        return module(*args)
    except Exception:  # operators that know no f64, numbers made in another type
        return None


def difference(module, args, got, want):
    """How the results of a graph differ from PyTorch's, in words; None: they do not, by the rule of PyTorch's minifier (beyond
    its tolerance, and more than twice as far from f64 as PyTorch's own are)."""
    from torch._dynamo.utils import same
    exact, tolerance = widened(module, args), torch._dynamo.config.repro_tolerance
    for i, (x, y) in enumerate(zip(got, want)):
        if not isinstance(y, torch.Tensor) or not isinstance(x, torch.Tensor):
            if x != y:
                return f"result {i} is {x!r}, not {y!r}"
            continue
        if x.shape != y.shape or x.dtype != y.dtype:
            return f"result {i} is {x.dtype} {tuple(x.shape)}, not {y.dtype} {tuple(y.shape)}"
        if not same(y, x, None if exact is None else exact[i], tol=tolerance, equal_nan=True, log_error=lambda *words: None):
            apart = (x.double() - y.double()).abs() if not y.is_complex() else (x - y).abs()
            return f"result {i} differs by up to {apart.max().item():.3g}"
    return None


# ---- what both kinds of readers need ----


def write_npy(path, value):
    """A tensor or number as a file that numpy, and every command of treadle, reads."""
    value = torch.as_tensor(value).detach()
    if value.is_complex():
        value = torch.view_as_real(value.resolve_conj())
    code = _NPY.get(str(value.dtype).rpartition(".")[2])
    value = (value if code else value.float()).contiguous().resolve_neg()
    head = f"{{'descr': '{code or '<f4'}', 'fortran_order': False, 'shape': {tuple(value.shape)}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode())
        if value.numel():
            file.write(ctypes.string_at(value.data_ptr(), value.numel() * value.element_size()))


def _write_graph(folder, compiled, args):
    """The graph and its inputs: (what the README says of them, options of a command that takes them; None: there is no graph)."""
    from ._torch import _loaded
    write = dump_into(folder, "torch.compile", {"cc": None})
    options = {"backend": "eager", "dump": lambda name, data: write(name, data) if name in ("graph.tdir", "graph.weights") else None}
    weights = dict(compiled.constants, **{f"static.{i}": args[i] for i in compiled.static})
    try:
        model = _loaded(compiled.text, weights, options, "a graph", (1, 1))
    except Error as why:
        return f"There is no `graph.tdir`, since even eager cannot have the graph: {why}.\n", None
    os.makedirs(os.path.join(folder, "inputs"), exist_ok=True)
    given = [a for i, a in enumerate(args) if i not in compiled.static]
    words = []
    for value, info in zip(given, model.inputs):
        name = "".join(c if c.isalnum() or c in "_.-" else "_" for c in info.name)
        write_npy(os.path.join(folder, "inputs", name + ".npy"), value)
        words += ["--input", f"{info.name}=inputs/{name}.npy"]
    return ("- `graph.tdir`: the graph as text, with `graph.weights`; `inputs/`: a file for each input. `treadle compare`, `bisect` and\n"
            "  `minify` take them as `run.sh` does.\n"), words


def _command(options, words):
    given = []
    for key, option in _OF_COMMAND.items():
        value = options.get(key)
        if value is not None:
            given += ["--" + option, f"eager,{value}" if key == "backend" else ",".join(value) if isinstance(value, (list, tuple)) else str(value)]
    return '"${TREADLE:-treadle}" "${1:-compare}" graph.tdir ' + " ".join(shlex.quote(word) for word in words + given)


def _environment():
    lines = [f"treadle {_core.version}, torch {torch.__version__}, Python {platform.python_version()}", f"system {platform.platform()}"]
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines += [line.strip() for line in file if line.startswith(("model name", "flags"))][:2]
    except OSError:
        pass
    return "\n".join(lines) + "\n"


# ---- the program ----


def lifted(module, static, args):
    """The graph with its tensors, which are attributes of it, as arguments behind the others, and names that say which arguments
    are parameters: (module, arguments)."""
    from copy import deepcopy
    module, args = deepcopy(module), list(args)
    places = [n for n in module.graph.nodes if n.op == "placeholder"]
    held = [n for n in module.graph.nodes if n.op == "get_attr" and isinstance(getattr(module, n.target, None), torch.Tensor)]
    for i in static:
        places[i]._rename(f"{STATIC}{i}")
        places[i].target = places[i].name
    for node in held:
        args.append(getattr(module, node.target).detach())
        with module.graph.inserting_after(places[-1] if places else None):
            place = module.graph.placeholder(f"{STATIC}{len(places)}")
        place.meta = dict(node.meta)
        places.append(place)
        node.replace_all_uses_with(place)
        module.graph.erase_node(node)
    module.recompile()
    return module, args


def _class_text(module, name, indent=""):
    lines = [f"class {name}(torch.nn.Module):"]
    subs = {node.target for node in module.graph.nodes if node.op == "get_attr"}
    for sub in sorted(subs):
        lines += ["    " + line for line in _class_text(getattr(module, sub), f"_{sub}").splitlines()] + [f"    {sub} = property(lambda self: self._{sub}())", ""]
    lines += ["    " + line for line in module.code.strip().splitlines()]
    return "\n".join(indent + line if line else line for line in lines)


def _tensors_text(args, path):
    """How the program comes to its arguments: those that are few stand in it, others in a file beside it."""
    memory = io.BytesIO()
    torch.save([a.detach().clone() if isinstance(a, torch.Tensor) else a for a in args], memory)
    packed = base64.b64encode(zlib.compress(memory.getvalue(), 9)).decode()
    if len(packed) <= _EMBEDDED:
        lines = "\n".join(f"    {packed[i:i + 100]!r}" for i in range(0, len(packed), 100))
        return f"ARGUMENTS = (\n{lines})"
    with open(os.path.splitext(path)[0] + ".pt", "wb") as file:
        file.write(memory.getvalue())
    return f"ARGUMENTS = {os.path.basename(os.path.splitext(path)[0] + '.pt')!r}  # which lies beside this program"


def write_program(path, module, args, told, search):
    """A program that shows the failure (`told`: its kind, what was said, the options); `search`: it makes itself smaller first.
    Arguments may be texts, expressions that make them."""
    count = sum(n.op == "call_function" for n in module.graph.nodes)
    made = None if any(not isinstance(a, str) for a in args) else "ARGUMENTS = [" + ", ".join(args) + "]"
    text = f'''"""A graph of {count} operators that {told["text"]}, on Treadle as torch.compile's backend.

    python {os.path.basename(path)} run       shows it (status 1: it is still there)
    python {os.path.basename(path)} minify    writes the smallest graph that fails the same way, to repro.py{"; so does no argument" if search else ""}
"""
import torch
from math import inf, nan
from torch import device

TOLD = {told!r}


{_class_text(module, "Graph")}


torch.manual_seed(0)
{made or _tensors_text(args, path)}

if __name__ == "__main__":
    from treadle.repro import main
    main(__file__, Graph(), ARGUMENTS, TOLD, {"minify" if search else "run"!r})
'''
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


# ---- all of it ----


def write(compiled, args, kind, text):
    """The bundle of a graph that fails with these arguments; `kind`: "error", "wrong", or "crash" of one that may. Returns the
    folder."""
    folder = folder_of(compiled.number)
    os.makedirs(folder, exist_ok=True)
    options = {key: compiled.given[key] for key in (*_OF_COMMAND, "cc") if compiled.given.get(key) is not None}
    about, words = _write_graph(folder, compiled, args)
    script = level() > 1
    name = "minifier_launcher.py" if script else "repro.py"
    dynamic = any(isinstance(n.meta.get("val"), torch.SymInt) for n in compiled.placeholders)
    module, values = lifted(compiled.module, compiled.static, args)
    told = {"kind": kind, "text": " ".join(text.split()), "options": options, "dynamic": dynamic}
    write_program(os.path.join(folder, name), module, values, told, script)
    if words is not None:
        with open(os.path.join(folder, "run.sh"), "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\n# TREADLE says which program to use, the first argument what it does: compare, bisect, minify.\n'
                       f'cd "$(dirname "$0")" || exit 1\n{_command(options, words)}\n')
        os.chmod(file.name, 0o755)
    with open(os.path.join(folder, "environment.txt"), "w", encoding="utf-8") as file:
        file.write(_environment())
    with open(os.path.join(folder, "README.md"), "w", encoding="utf-8") as file:
        file.write(f"# A graph of torch.compile that {told['text']}\n\n{about}- `{name}`: the same for who has PyTorch: `python {name}`"
                   + (" makes the smallest program that\n  fails the same way, `repro.py`.\n" if script else " shows the failure.\n")
                   + "- `environment.txt`: where it was seen.\n")
    return folder
