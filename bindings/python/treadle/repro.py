"""Programs that show what is wrong with a graph of torch.compile on Treadle: what _bundle.write leaves calls main.

Candidates run in children of this process, which may crash: so it computes on one thread, and nothing is left behind. The search
is PyTorch's (functorch.compile.minifier); a candidate counts where it fails the same way."""

import base64
import difflib
import io
import json
import os
import signal
import sys
import time
import zlib

import torch

from ._bundle import STATIC, difference, write_program
from ._errors import Error
from ._options import compiler_and_cache, passes

_SECONDS = 60  # that a candidate may take
_ALIKE = 0.5  # how similar the texts of two errors must be, as PyTorch's minifier has it


def _arguments(given, program):
    """What the program holds, or what lies beside it."""
    if isinstance(given, (list, tuple)):
        return list(given)
    if given.endswith(".pt"):
        return torch.load(os.path.join(os.path.dirname(os.path.abspath(program)), given), weights_only=True)
    return torch.load(io.BytesIO(zlib.decompress(base64.b64decode(given))), weights_only=True)


def traced(module, args, dynamic):
    """The module as a graph whose values have types; parameters are told by their names."""
    from torch.fx.experimental.proxy_tensor import make_fx
    with torch.no_grad():
        made = make_fx(module, tracing_mode="symbolic" if dynamic else "fake")(*args)
    names = [n.target for n in made.graph.nodes if n.op == "placeholder"]
    return made, [i for i, name in enumerate(names) if name.startswith(STATIC)]


def _compute(module, args, told):
    """{"kind", "text"} of what becomes of the graph."""
    from ._torch import CannotSay, _Compiled
    options = dict(told["options"], **compiler_and_cache(told["options"].get("cc")))
    options["disabled_passes"] = passes(options.get("disabled_passes"))
    with torch.no_grad():
        want = module(*args)
        try:
            made, static = traced(module, args, told["dynamic"])
            got = _Compiled(made, static, options).compute(list(args))
        except (Error, CannotSay) as why:
            return {"kind": "error", "text": str(why)}
        text = difference(made, args, got, want)
    return {"kind": "wrong", "text": text} if text else {"kind": "right", "text": ""}


def _child(module, args, told, to):
    """Writes what becomes of the graph to a pipe; never returns."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        verdict = _compute(module, args, told)
    except BaseException as error:  # the candidate is no graph that PyTorch itself can run
        verdict = {"kind": "no graph", "text": f"{type(error).__name__}: {error}"}
    os.write(to, json.dumps(verdict).encode()[:60000])
    os._exit(0)


def verdict(module, args, told):
    """What becomes of the graph, found out by a child of this process."""
    from_child, to = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(from_child)
        _child(module, args, told, to)
    os.close(to)
    end, status = time.monotonic() + _SECONDS, 0
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(from_child)
            return {"kind": "hang", "text": f"does not end within {_SECONDS} s"}
        time.sleep(0.002)
    with os.fdopen(from_child, "rb") as file:
        text = file.read()
    if text:
        return json.loads(text)
    return {"kind": "crash", "text": "crashes"}


def same_way(found, told):
    """Does it fail as what was told did? Of what "crash" was told before it ran, nobody knows how."""
    kind = found["kind"]
    if kind in ("right", "no graph"):
        return False
    if told["kind"] == "crash" and told["text"].startswith("may"):
        return True
    if kind != told["kind"]:
        return False
    return kind != "error" or difflib.SequenceMatcher(None, found["text"], told["text"]).ratio() > _ALIKE


def _made_anew(module, args, told):
    """Arguments as expressions that make others alike, where it fails with those too; else as they are."""
    texts = []
    for a in args:
        if isinstance(a, (bool, int, float)):
            texts.append(repr(a))
        elif isinstance(a, torch.Tensor) and a.is_contiguous() and a.dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
            texts.append(f"torch.randn({tuple(a.shape)}, dtype={a.dtype})")
        else:
            return args
    torch.manual_seed(0)
    values = [eval(text, {"torch": torch}) for text in texts]  # our own texts
    return texts if same_way(verdict(module, values, told), told) else args


def minify(program, module, args, told):
    from functorch.compile import minifier
    found = verdict(module, args, told)
    if not same_way(found, told):
        print(f"nothing to make smaller: {_words(found)}, where a graph that {told['text']} is looked for")
        return 2
    told = dict(told, kind=found["kind"], text=_words(found))
    made, _ = traced(module, args, told["dynamic"])
    path = os.path.join(os.path.dirname(os.path.abspath(program)), "repro.py")
    fails = lambda candidate, inputs: same_way(verdict(candidate, inputs, told), told)
    small, inputs = minifier(made, args, fails, dump_state=lambda *state: None, skip_offload=True)
    small = torch.fx.GraphModule(made, small) if isinstance(small, torch.fx.Graph) else small
    told["text"] = _words(verdict(small, inputs, told))
    write_program(path, small, _made_anew(small, inputs, told), told, False)
    print(f"{sum(n.op == 'call_function' for n in small.graph.nodes)} operators are left: {path}")
    return 0


def _words(found):
    return {"right": "is right", "error": f"fails: {found['text']}", "wrong": f"is wrong: {found['text']}", "no graph":
            f"PyTorch cannot run: {found['text']}"}.get(found["kind"], found["text"])


def main(program, module, given, told, what):
    """Runs the program's graph, or makes it smaller, as the command line says; ends the process, with status 1 where it fails."""
    torch.set_num_threads(1)  # before there are any: children inherit none
    torch._dynamo.config.repro_after = None
    what = sys.argv[1] if len(sys.argv) > 1 else what
    if what not in ("run", "minify"):
        sys.exit(f"{program}: {what} is neither run nor minify")
    args = _arguments(given, program)
    if what == "minify":
        sys.exit(minify(program, module, args, told))
    found = verdict(module, args, told)
    print(f"the graph {_words(found)}")
    sys.exit(found["kind"] != "right")
