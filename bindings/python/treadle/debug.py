"""What is wrong in a model: docs/debugging.md.

    from treadle import debug
    print(debug.compare(net, net, (x,)))        # a module on Treadle, held against PyTorch
    print(debug.bisect("net.onnx", (x,)))       # the pass or kernel that is wrong
    print(debug.minify("net.onnx", (x,), "small"))  # the smallest graph that still fails

The searches are the library's, as those of `treadle compare`, `bisect` and `minify`; here are the runs."""

import collections
import json
import os
import shutil
import signal
import sys
import time

from . import _core
from ._convert import Kinds, nest_parts
from ._errors import BadArgument, Error, Unsupported
from ._model import Model, load

__all__ = ["Bisection", "Comparison", "Difference", "Minified", "bisect", "compare", "minify"]

Difference = collections.namedtuple("Difference", "name verdict fails max_abs max_rel ulp cosine elements failed")
Difference.__doc__ = """The difference of two values. `verdict`: "same", "rounding", "differs", "not finite", "other type"; `failed`:
elements outside the tolerance."""
Bisection = collections.namedtuple("Bisection", "passes kernels trials")
Bisection.__doc__ = """The pass (none or one) and the kernels that are wrong, and how many runs it took."""
Minified = collections.namedtuple("Minified", "path nodes failure inputs")
Minified.__doc__ = """The smallest graph: its file, how many nodes it has, how it fails, and its inputs by name."""


class Comparison:
    """`differs`: do outputs differ by more than rounding? `outputs`, `nodes` (where asked for): a Difference each; `first`: the
    first node that differs from eager; `fused`: it does so only where nodes are fused; `module`: the first module of the
    reference whose result is not eager's; `recorded_differs`: the backends agree, the reference has other results."""

    def __init__(self, found):
        self.differs = found["differs"]
        self.fused = found["fused"]
        self.recorded_differs = found["recorded_differs"]
        self.outputs = tuple(Difference(**row) for row in found["outputs"])
        self.nodes = tuple(Difference(**row) for row in found["nodes"])
        self.first = found["first"] and Difference(**found["first"])
        self.module = None

    def __str__(self):
        head = f"{'':11} {'max abs':>10} {'max rel':>10} {'ulp':>10} {'cosine':>12} {'failed':>12}  "
        lines = [head + "output", *map(_line, self.outputs)]
        if self.nodes:
            lines += [head + "node", *map(_line, self.nodes)]
        if self.first:
            how = "which differs only when nodes are fused" if self.fused else "with every node's result kept"
            lines += [f"first node that differs, {how}:", _line(self.first)]
        if self.recorded_differs:
            lines.append("the backends agree, and differ from the reference" + (f"; first in its module {self.module}" if self.module else ""))
        return "\n".join(lines)


def _line(d):
    return f"{d.verdict:11} {d.max_abs:10.3g} {d.max_rel:10.3g} {d.ulp:10.3g} {d.cosine:12.9f} {d.failed:12}  {d.name}"


# ---- runs ----


class _Subject:
    """A model that is loaded in several ways, and the inputs of its runs."""

    def __init__(self, model, inputs, example_inputs, options):
        if isinstance(model, Model):
            if model._how is None:
                raise BadArgument("a Model can be loaded again only if it came from a file: give what it was loaded from", model.name)
            model, example_inputs, options = model._how[0], model._how[1], {**model._how[2], **options}
        self.args, self.named = ((), inputs) if isinstance(inputs, dict) else (tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,), {})
        self.source, self.options, self.example = model, options, example_inputs
        self._read_torch(inputs)
        self.backend = options.get("backend")
        shape = self.load(backend="eager", inject=None)
        self.values = self._given(shape)
        self.names = [v.name for v in shape.inputs]
        self.outputs = [v.name for v in shape.outputs]
        self.kept = {}

    def _read_torch(self, inputs):
        torch = sys.modules.get("torch")
        if torch is None or isinstance(self.source, (str, os.PathLike)):
            return
        if isinstance(self.source, torch.nn.Module) and self.example is None:
            self.example = inputs
        if isinstance(self.source, torch.nn.Module) and not isinstance(self.source, torch.jit.ScriptModule):
            from ._torch import exported  # once, for all runs
            self.source = exported(self.source, self.example)

    def load(self, **ways):
        return load(self.source, self.example, **{**self.options, **ways})

    def _given(self, model):
        """The inputs as the model takes them, flat."""
        args, named = self.args, self.named
        if hasattr(model, "_in_names"):  # of an exported program: nested as its arguments are
            from torch.utils import _pytree as pytree
            flat, spec = pytree.tree_flatten((args, named))
            if spec == model._in_spec:
                args, named = (), {name: value for name, value in zip(model._in_names, flat) if name in model._input_at}
        return model._take(model, args, named, Kinds())

    def run(self, side, taps=None, float64=False, alone=False, inputs=None, own=0, **ways):
        """[(name, value), ...] of the outputs: what the library's searches ask for."""
        kept = self.kept.get((side, taps)) if inputs is None and not ways else None
        if kept is not None:
            return kept
        if side != "judged":
            ways = {**ways, "backend": "eager", "inject": None}
        model = self.load(**{**ways, "taps": taps, "float64": float64, "tapped_inputs": alone})
        return _compute(model, self._feed(model, inputs or [], own), self.options.get("threads", 0))

    def _feed(self, model, inputs, own):
        mine, tapped = dict(inputs[:own]), dict(inputs[own:])
        given = [mine.get(v.name, old) for v, old in zip(model.inputs, self.values)]
        for v in model.inputs[len(given):]:
            if v.name not in tapped:
                raise Unsupported("the run has no such result", v.name)
            given.append(tapped[v.name])
        return tuple(given)

    def keep_expected(self):
        """Eager's outputs, once, for all runs that come."""
        self.kept["expected", None] = self.run("expected")
        return self.kept["expected", None]

    def inputs(self):
        return [(name, value) for name, value in zip(self.names, self.values) if value is not None]

    def recorded(self, reference):
        """The outputs of a module or callable, by the names of the model's."""
        if reference is None:
            return None
        results = nest_parts(_call(reference, self.args, self.named))
        if len(results) != len(self.outputs):
            raise BadArgument(f"the reference has {len(results)} results, the model {len(self.outputs)}: {', '.join(self.outputs)}")
        return [(name, _dense(value, name)) for name, value in zip(self.outputs, results)]


def _compute(model, given, threads):
    results = _core.Session(model._core, threads).run(given)
    return [(v.name, r) for v, r in zip(model.outputs, results)]


def _call(reference, args, named):
    torch = sys.modules.get("torch")
    if torch is None:
        return reference(*args, **named)
    with torch.no_grad():
        return reference(*args, **named)


def _dense(value, name):
    """An array whose elements stand side by side, as the core sees it."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach()
        value = (torch.view_as_real(value.resolve_conj()) if value.is_complex() else value).contiguous()
    elif numpy is not None and isinstance(value, numpy.ndarray):
        value = numpy.ascontiguousarray(value) if value.ndim else value
    return Kinds().array(value, name)


# ---- compare ----


def compare(model, reference=None, inputs=(), *, rtol=1e-3, atol=1e-4, nodes=False, example_inputs=None, **options):
    """Runs the model on `inputs` (a tuple, or a dict by name) and on eager, and holds its outputs against `reference`: a
    torch.nn.Module or any callable of the same arguments; None: eager alone. Where the backends differ, `first` is the first
    node that does; where they agree and a module has other results, `module` is the first of its submodules that has.

    model     what treadle.load takes, with its `options` and `example_inputs`, or a Model that was loaded from a file
    rtol, atol  differences up to atol + rtol * |expected| pass; beyond them it is judged whether they are rounding
    nodes     a Difference for each node, too"""
    subject = _Subject(model, inputs, example_inputs, options)
    subject.keep_expected()
    recorded = subject.recorded(reference)
    found = Comparison(_core.compare(subject.run, subject.inputs(), recorded, rtol, atol, nodes))
    if found.recorded_differs and hasattr(reference, "named_modules"):
        found.module = _first_module(subject, reference, rtol, atol)
    return found


def _first_module(subject, reference, rtol, atol):
    """The first submodule, in the order in which they end, whose result is not that of eager's last node in it."""
    torch, seen = sys.modules["torch"], []
    hooks = [module.register_forward_hook(lambda module, args, result, path=path: seen.append((path, result)))
             for path, module in reference.named_modules() if path]
    try:
        _call(reference, subject.args, subject.named)
    finally:
        for hook in hooks:
            hook.remove()
    calls = collections.Counter(path for path, _ in seen)
    last = {}
    for name, value in subject.run("eager", "*"):
        parts = name.partition("#")[0].split(".")
        last.update((".".join(parts[:n]), value) for n in range(1, len(parts) + 1))
    for path, result in seen:
        mine = last.get(path)
        if calls[path] != 1 or not isinstance(result, torch.Tensor) or not isinstance(mine, _core.Array) or mine.shape != tuple(result.shape):
            continue
        if not torch.allclose(torch.from_dlpack(mine), result, rtol, atol, equal_nan=True):
            return path
    return None


# ---- processes of their own ----


def _apart(work, seconds):
    """What work() gives, as JSON has it, from a child of this process; {"signal": N} or {"late": True} where it does not end well."""
    from_child, to = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            os.write(to, json.dumps(work()).encode()[:60000])
        finally:
            os._exit(0)
    os.close(to)
    end = time.monotonic() + seconds
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(from_child)
            return {"late": True}
        time.sleep(0.002)
    with os.fdopen(from_child, "rb") as file:
        text = file.read()
    return json.loads(text) if text else {"signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0}


def _limit(start, seconds):
    """Seconds that a run may take: ten times what eager did, and some more for compilers."""
    return seconds if seconds is not None else 10 * (time.monotonic() - start) + 15


# ---- bisect ----


def bisect(model, inputs=(), reference=None, *, rtol=1e-3, atol=1e-4, seconds=None, example_inputs=None, **options):
    """The pass and the kernels that make the model's outputs differ from eager's, or from the reference's, as a Bisection; None:
    they do not. Each run has a process of its own, for `seconds`: one that crashes or does not end differs, too. Arguments are
    those of compare. Threads of other libraries do not follow into those processes, so `reference` is called here."""
    start = time.monotonic()
    subject = _Subject(model, inputs, example_inputs, options)
    subject.keep_expected()
    recorded, given = subject.recorded(reference), subject.inputs()
    limit = _limit(start, seconds)

    def judge(passes, kernels):
        run = lambda side, *way: subject.run(side, *way, **({"disabled_passes": passes, "disabled_kernels": kernels} if side == "judged" else {}))
        try:
            return {"differs": _core.compare(run, given, recorded, rtol, atol, False)["differs"]}
        except Error:
            return {"differs": True}

    def differs(passes, kernels):
        return _apart(lambda: judge(passes, kernels), limit).get("differs", True)

    passes, kernels = json.loads(_core.capabilities())["passes"], _apart(lambda: _kernels(subject), limit)
    kernels = kernels if isinstance(kernels, list) else json.loads(_core.capabilities())["kernels"]
    off = options.get("disabled_passes")
    off = off if off is None or isinstance(off, str) else ",".join(off)
    found = _core.bisect(differs, ",".join(passes), ",".join(kernels), off, options.get("disabled_kernels"))
    return found and Bisection(tuple(filter(None, found[:1])), tuple(filter(None, found[1].split(","))), found[2])


def _kernels(subject):
    """Those that the model uses."""
    steps = _core.Session(subject.load()._core, 1).steps()
    return list(dict.fromkeys(kernel for _, op, kernel in steps if kernel and kernel != op))


# ---- minify ----


class _Candidates:
    """Graphs by their numbers, and their values, in a folder; parts of the one that is open are judged."""

    def __init__(self, folder, fails, tell):
        self.folder, self.judge, self.tell_user = folder, fails, tell
        self.graphs, self.seen = [], {}
        self.failure = None  # of the smallest so far

    def path(self, number):
        return os.path.join(self.folder, f"graph{number}.tdir")

    def add(self, model, cut, values):
        path = self.path(len(self.graphs))
        self.write(model, cut, path)
        self.graphs.append((path, values))

    def write(self, model, cut, path):
        """(text, how many nodes are kept): FILE.tdir, and FILE.tdir.weights where it has some."""
        text, weights, count, kept = model._core.save_graph(os.path.basename(path) + ".weights", cut)
        for name, data in ((path, text), (path + ".weights", weights)):
            if os.path.exists(name):
                os.unlink(name)  # a model that has it mapped keeps it
            if data or name == path:
                with open(name, "wb") as file:
                    file.write(data)
        return text, count

    def open(self, number):
        path, values = self.graphs[number]
        self.model, self.values, self.seen = load(path, backend="eager"), values, {}
        count = self.model._core.save_graph("", None)[2]
        inputs = [(v.name, v.dtype, v.shape) for v in self.model.inputs if v.shape is not None and None not in v.shape]
        inputs = [(name, dtype, tuple(d if isinstance(d, int) else -1 for d in dims)) for name, dtype, dims in inputs]
        return count, inputs, [(name, *_core.type_of(value)) for name, value in values.items() if isinstance(value, _core.Array)]

    def cut_values(self, cut):
        return {name: _core.cut_value(value, cut) if isinstance(value, _core.Array) else value for name, value in self.values.items()}

    def fails(self, cut):
        path = os.path.join(self.folder, "candidate.tdir")
        try:
            text, _ = self.write(self.model, cut, path)
        except Error:
            return None  # no such part can be made
        if self.seen.get(text) is False:
            return None
        failure = self.judge(path, self.cut_values(cut))
        self.seen[text] = failure is not None
        self.failure = failure or self.failure
        return None if failure is None else failure[1]

    def settle(self, cut, number):
        self.add(self.model, cut, self.cut_values(cut))

    def tell(self, strategy, granularity, before, after):
        if self.tell_user:
            self.tell_user(f"{strategy:24} granularity {granularity:<5} {before:5} -> {after:<5} nodes")


def _values_of(model, values):
    return {v.name: values[v.name] for v in model.inputs if v.name in values and not v.has_default}


def _failure(path, values, options, rtol, atol):
    """["how", first wrong output or ""], or None: the graph is right. Raises where eager cannot run it."""
    eager = load(path, backend="eager")
    given = _values_of(eager, values)
    subject = _Subject(path, given, None, options)
    subject.keep_expected()
    try:
        found = _core.compare(subject.run, subject.inputs(), None, rtol, atol, False)
    except Error as why:
        words = "".join(c for c in why.text.split("'")[0].split('"')[0] if not c.isdigit())
        return [f"{type(why).__name__}: {words[:80]}", ""]
    wrong = next((row for row in found["outputs"] if row["fails"]), None)
    return wrong and ["other type" if wrong["verdict"] == "other type" else "wrong", wrong["name"]]


def minify(model, inputs=(), folder="minified", *, fails=None, rtol=1e-3, atol=1e-4, seconds=None, tell=None, example_inputs=None,
           **options):
    """The smallest graph that still fails as the model does on these inputs, in a folder of its own: a Minified.

    fails     a callable of the path of a graph, which treadle.load takes, and of its inputs by name: is it one that fails? By
              default the graph is run with the `options` on those inputs, in a process of its own, and held against eager; the
              failure is an exception, a signal, outputs that are wrong, or that it does not end within `seconds`
    tell      called with a line for each step, print for instance
    """
    start = time.monotonic()
    subject = _Subject(model, inputs, example_inputs, options)
    kept = dict(subject.inputs())
    kept.update((name, value) for name, value in subject.run("eager", "*"))
    own = {name: value if isinstance(value, list) else _core.cut_value(value, None) for name, value in kept.items() if value is not None}
    options = {key: value for key, value in subject.options.items() if key not in ("format", "method", "seed", "trusted", "weights")}
    limit, wanted = _limit(start, seconds), []

    def judged(path, values):
        if fails is not None:
            return ["fails", ""] if fails(path, _values_of(load(path, backend="eager"), values)) else None
        found = _apart(lambda: {"failure": _child_failure(path, values, options, rtol, atol)}, limit)
        found = found["failure"] if "failure" in found else ["does not end", ""] if "late" in found else [f"signal {found['signal']}", ""]
        return found if found and found[0] != "no graph" and (not wanted or found[0] == wanted[0]) else None

    work = os.path.join(folder, "work")
    os.makedirs(work, exist_ok=True)
    candidates = _Candidates(work, judged, tell)
    candidates.add(subject.load(backend="eager", inject=None), None, own)
    failure = judged(candidates.path(0), own)
    if failure is None:
        shutil.rmtree(work)
        raise BadArgument("the model is right: there is nothing to make smaller; rtol and atol say how close outputs must be")
    wanted.append(failure[0])
    candidates.failure = failure
    number, nodes = _core.minify(candidates.open, candidates.fails, candidates.settle, candidates.tell, failure[1])
    path, values = candidates.graphs[number]
    small = os.path.join(folder, "graph.tdir")
    last = load(path, backend="eager")
    candidates.write(last, None, small)
    shutil.rmtree(work)
    return Minified(small, nodes, candidates.failure[0], _values_of(last, values))


def _child_failure(path, values, options, rtol, atol):
    try:
        return _failure(path, values, options, rtol, atol)
    except Error as why:  # eager itself does not run it
        return ["no graph", str(why)]
