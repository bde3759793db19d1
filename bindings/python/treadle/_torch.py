"""PyTorch in: ExportedProgram, Module and ScriptModule for treadle.load, and the torch.compile backend "treadle".

Dynamo gives graphs, AOTAutograd makes them functional (what they write in place is written back around them), _program
says them in the words of torch.export, and the library compiles that. Parameters are shared with the module. Graphs that
cannot be had run on PyTorch, with one warning each that says why."""

import io
import threading
import warnings

import torch
from torch._subclasses.fake_tensor import FakeTensor

from . import _core
from ._convert import torch_tensor_view
from ._errors import BadArgument, Error, Unsupported
from ._model import Model, Outputs
from ._program import CannotSay, of_exported, of_graph


class Fallback(UserWarning):
    """A graph runs on PyTorch."""


def _loaded(program, weights, options, name, threads):
    held = [(key, torch_tensor_view(tensor.detach(), key, torch, True)) for key, tensor in weights.items()]
    known = {key: options.get(key) for key in ("backend", "math", "isa", "disabled_passes")}
    return Model(_core.load_graph(program, held, **known), name, threads)


# ---- treadle.load ----


class ExportedModel(Model):
    """A model from an ExportedProgram: arguments and results are nested as the program's are."""

    def _nest(self, program):
        entry = program.module_call_graph[0].signature
        self._in_spec, self._out_spec = entry.in_spec, entry.out_spec
        self._in_names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
        self._results = [getattr(spec.arg, "value", None) if not hasattr(spec.arg, "name") or "Constant" in type(spec.arg).__name__
                         else _TAKE for spec in program.graph_signature.output_specs if spec.kind.name == "USER_OUTPUT"]
        return self

    def __call__(self, *args, out=None, **named):
        """Arguments as the module's forward takes them, or flat, by the names of `inputs`."""
        from torch.utils import _pytree as pytree
        try:
            flat, spec = pytree.tree_flatten((args, named))
        except Exception:  # what pytree does not know is one value
            flat, spec = None, None
        if spec is None or spec != self._in_spec:
            reordered = self._reordered(args, named)
            if reordered is None:
                return super().__call__(*args, out=out, **named)
            flat = reordered
        given = {name: value for name, value in zip(self._in_names, flat) if name in self._input_at}
        results = super().__call__(out=out, **given)
        results = list(results) if isinstance(results, Outputs) else [results]
        rest = iter(results)
        values = [next(rest) if r is _TAKE else r for r in self._results]
        return pytree.tree_unflatten(values, self._out_spec) if out is None else (results[0] if len(results) == 1 else results)

    def _reordered(self, args, named):
        """Keyword arguments in another order than at export."""
        from torch.utils import _pytree as pytree
        children = self._in_spec.children() if hasattr(self._in_spec, "children") else self._in_spec.children_specs
        names = list(children[1].context or [])
        if set(names) != set(named):
            return None
        flat, spec = pytree.tree_flatten((args, {name: named[name] for name in names}))
        return flat if spec == self._in_spec else None


_TAKE = object()


def load_exported(program, options, threads):
    try:
        text, weights = of_exported(program)
    except CannotSay as why:
        raise BadArgument(f"the exported program has {why}, which Treadle does not know") from None
    name = type(program).__name__
    model = _loaded(text, weights, options, name, threads)
    model.__class__ = ExportedModel
    return model._nest(program)


def _specs(example_inputs):
    """The types of inputs, which TorchScript does not say."""
    from ._convert import _torch_dtypes
    from torch.utils import _pytree as pytree
    if example_inputs is None:
        return None
    return [(_torch_dtypes(torch)[x.dtype], tuple(x.shape)) for x in pytree.tree_leaves(tuple(example_inputs))
            if isinstance(x, torch.Tensor)]


def load(source, example_inputs, options, threads):
    """What torch has, as a Model; None where it is no such thing."""
    if isinstance(source, torch.export.ExportedProgram):
        return load_exported(source, options, threads)
    if isinstance(source, torch.jit.ScriptModule):
        memory = io.BytesIO()
        torch.jit.save(source, memory)  # one copy of the weights, which the model then keeps and reads in place
        return Model(_core.load(memory.getbuffer(), True, inputs=_specs(example_inputs), **options), "ScriptModule", threads)
    if not isinstance(source, torch.nn.Module):
        return None
    if example_inputs is None:
        raise BadArgument("a module needs example_inputs: load(module, (x, ...))")
    with torch.no_grad():
        program = torch.export.export(source.eval(), tuple(example_inputs))
    return load_exported(program, options, threads)


# ---- torch.compile ----


def _warn(why, what="a graph"):
    warnings.warn(f"treadle: {what} runs on PyTorch: {why}", Fallback, stacklevel=3)


def _taken_apart(module, why):
    """The graph with the operators that `why` names as PyTorch's own decompositions have them; None: there are none."""
    from torch._decomp import core_aten_decompositions, decomposition_table
    from torch.fx.experimental.proxy_tensor import make_fx
    used = {n.target for n in module.graph.nodes if n.op == "call_function"}
    every = {**decomposition_table, **core_aten_decompositions()}
    table = {op: every[op] for op in used if op in every and op._schema.name in why}
    values = [n.meta.get("val") for n in module.graph.nodes if n.op == "placeholder"]
    modes = [v.fake_mode for v in values if isinstance(v, FakeTensor)]
    if not table or not modes:
        return None
    try:
        with modes[0], torch.no_grad():
            return make_fx(lambda *args: torch.fx.Interpreter(module).run(*args), decomposition_table=table)(*values)
    except Exception:  # whatever PyTorch finds wrong with it, the graph runs as it is
        return None


class _Compiled:
    """One graph. Its parameters become constants of the model at the first call, and are looked at at each: a module
    whose weights were changed gets its model anew."""

    def __init__(self, module, static, options):
        self.module = self.program = module
        self.static = frozenset(static)
        self.options = options
        self.threads = int(options.pop("threads", 0) or 0)
        self.model = None
        self.broken = False
        self.held = ()
        self.lock = threading.Lock()
        self.text, self.constants = of_graph(module, self.static)
        output = next(n for n in module.graph.nodes if n.op == "output").args[0]
        self.results = [_result_kind(v) for v in output]
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        self.users = [i for i, n in enumerate(placeholders) if i not in self.static or not _is_tensor(n)]
        self.static_tensors = [i for i, n in enumerate(placeholders) if i in self.static and _is_tensor(n)]
        self.numbers = {i: _NUMBERS[type(n.meta["val"])] for i, n in enumerate(placeholders)
                        if type(n.meta.get("val")) in _NUMBERS}

    def state(self, args):
        return tuple((args[i].data_ptr(), args[i]._version) for i in self.static_tensors)

    def build(self, args):
        for _ in range(4):
            weights = dict(self.constants)
            weights.update((f"static.{i}", args[i]) for i in self.static_tensors)
            try:
                self.model = _loaded(self.text, weights, self.options, "torch.compile", self.threads)
                self.held = self.state(args)
                return
            except Unsupported as why:
                simpler = _taken_apart(self.program, why.text)
                if simpler is None:
                    raise
                self.program = simpler
                self.text, self.constants = of_graph(simpler, self.static)
        self.model = _loaded(self.text, weights, self.options, "torch.compile", self.threads)

    def check(self, args):
        if self.model is not None and (not self.static_tensors or self.held == self.state(args)):
            return True
        with self.lock:
            try:
                self.build(args)
            except (Error, CannotSay) as error:
                self.broken = True
                _warn(str(error))
                return False
        return True

    def __call__(self, *args):
        if self.broken or not self.check(args):
            return self.module(*args)
        model = self.model
        given = []
        for i in self.users:
            value = args[i]
            if i in self.numbers:
                given.append(_number(value, self.numbers[i]))
            else:
                given.append(torch_tensor_view(value.detach() if value.requires_grad else value, "an input", torch))
        out = iter(model._run(tuple(given), None))
        return [_result(next(out), kind) if kind is not None else None for kind in self.results]


_NUMBERS = {torch.SymInt: "i64", int: "i64", torch.SymFloat: "f64", float: "f64", torch.SymBool: "bool", bool: "bool"}


def _number(value, dtype):
    from ._convert import from_numbers
    return from_numbers(value, dtype, "a number")


def _is_tensor(node):
    return isinstance(node.meta.get("val"), torch.Tensor)


def _result_kind(value):
    """How a result becomes Python's: None for none, "tensor", or a number."""
    if value is None:
        return None
    kept = value.meta.get("val") if isinstance(value, torch.fx.Node) else value
    return "tensor" if isinstance(kept, torch.Tensor) else "number"


def _result(array, kind):
    return torch.from_dlpack(array) if kind == "tensor" else array.tolist()


def _static_positions(module, example_inputs):
    """Which placeholders of AOTAutograd's graph are parameters and buffers."""
    context = torch._guards.TracingContext.try_get()
    metadata = getattr(context, "fw_metadata", None)
    found = getattr(metadata, "static_input_indices", None)
    return list(found or [])


def _inference(options):
    def compile_graph(module, example_inputs):
        if not any(n.op == "call_function" for n in module.graph.nodes):
            return module  # nothing to compute
        try:
            compiled = _Compiled(module, _static_positions(module, example_inputs), dict(options))
        except (CannotSay, Error) as why:
            _warn(f"it has {why}")
            return module
        return compiled
    return compile_graph


def _training(module, example_inputs):
    _warn("it is for training; call the model under torch.no_grad() or torch.inference_mode()")
    return module


_OPTIONS = frozenset(("backend", "math", "isa", "disabled_passes", "threads"))


def backend(module, example_inputs, *, options=None, mode=None, **more):
    """The backend of torch.compile: torch.compile(model, backend="treadle", options={"threads": 2, "math": "exact"})."""
    options = dict(options or {}, **more)
    unknown = set(options) - _OPTIONS
    if unknown:
        raise BadArgument(f"treadle has no option {sorted(unknown)[0]}; there are: {', '.join(sorted(_OPTIONS))}")
    from torch._dynamo.backends.common import aot_autograd
    compiler = aot_autograd(fw_compiler=_training_boxed, bw_compiler=_boxed(lambda module, inputs: module),
                            inference_compiler=_boxed(_inference(options)))
    return compiler(module, example_inputs)


def _boxed(compile_graph):
    from functorch.compile import make_boxed_func

    def compile_boxed(module, example_inputs):
        return make_boxed_func(compile_graph(module, example_inputs))
    return compile_boxed


def _training_boxed(module, example_inputs):
    return _boxed(_training)(module, example_inputs)


# ---- treadle.optimize ----


class Optimized(torch.nn.Module):
    """A module whose forward runs on Treadle, for inference."""

    def __init__(self, module, options):
        super().__init__()
        self.module = module
        self.compiled = torch.compile(module, backend=lambda m, x: backend(m, x, options=options))

    def forward(self, *args, **named):
        with torch.no_grad():
            return self.compiled(*args, **named)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)


def optimize(module, example_inputs, **options):
    """`module`, set to eval, as one whose forward runs on Treadle; compiled for `example_inputs` at once."""
    if not isinstance(example_inputs, (tuple, list)):
        example_inputs = (example_inputs,)
    optimized = Optimized(module.eval(), options)
    optimized(*example_inputs)
    return optimized
