"""PyTorch in: ExportedProgram, Module and ScriptModule for treadle.load, and the torch.compile backend "treadle".

Dynamo gives graphs, AOTAutograd makes them functional (what they write in place is written back around them), _program
says them in the words of torch.export, and the library compiles that. Parameters are shared with the module. Graphs that
cannot be had run on PyTorch, with one warning each that says why."""

import collections
import contextlib
import functools
import io
import itertools
import os
import sys
import threading
import types
import warnings
from collections.abc import Mapping

import torch
from torch._subclasses.fake_tensor import FakeTensor

from . import _bundle, _core
from ._around import around, drawn_graph, placed_graph, put_back, real_graph, token_positions, with_draws, with_tokens
from ._convert import has_keys, nest_parts, nest_shape, torch_tensor_view, types_of
from ._debug import dump_into
from ._errors import BadArgument, Error, Unsupported
from ._events import listener, told
from ._model import Model, Outputs
from ._options import FallbackGraph, check, compiler_and_cache, known_only, passes, thread_count
from ._program import CannotSay, of_exported, of_graph


class Fallback(UserWarning):
    """A graph runs on PyTorch."""


_fallbacks = collections.deque(maxlen=1000)


_OF_FILES = frozenset(("format", "method", "seed", "trusted", "weights"))  # what a graph in memory has no use for


def _loaded(program, weights, options, name, threads):
    """`threads`: (those of a step, those that run forks), as Model takes them."""
    held = [(key, torch_tensor_view(tensor.detach(), key, torch, True)) for key, tensor in weights.items()]
    known = {key: value for key, value in options.items() if key == "dump" or key in _core.options and key not in _OF_FILES}
    return Model(_core.load_graph(program, held, **known), name, *threads)


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
        """Arguments as the module's forward takes them, or flat, by the names of `inputs`; results as the module gives them."""
        from torch.utils import _pytree as pytree
        try:
            flat, spec = pytree.tree_flatten((args, named))
        except Exception:  # what pytree does not know is one value
            flat, spec = None, None
        if spec is None or spec != self._in_spec:
            flat = self._reordered(args, named)
        if flat is None:
            results = super().__call__(*args, out=out, **named)
        else:
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


class ScriptedModel(Model):
    """A model from a ScriptModule: arguments are nested as the examples were, or flat."""

    def _nest(self, example_inputs):
        self._shape = None
        if not isinstance(example_inputs, Mapping) and not has_keys(example_inputs):
            args = example_inputs if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
            if len(nest_parts(args)) == len(self.inputs) and all(v.kind == "tensor" for v in self.inputs):
                self._shape = nest_shape(tuple(args))
        return self

    def __call__(self, *args, out=None, **named):
        if self._shape is not None and not named and nest_shape(args) == self._shape:
            args = nest_parts(args)
        return super().__call__(*args, out=out, **named)


def _written_out(program, why):
    """The program with the operators that `why` names decomposed by PyTorch; None: it does not."""
    every = torch.export.default_decompositions()
    used = {n.target for n in program.graph.nodes if isinstance(n.target, torch._ops.OpOverload) and n.target._schema.name in why}
    table = {op: every[op] for op in used if op in every}
    return program.run_decompositions(table) if table else None


def load_exported(program, options, threads):
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass
    if any(is_traceable_wrapper_subclass(tensor) for tensor in program.state_dict.values()):  # torchao's weights
        program = program.run_decompositions({})
    try:
        return _load_exported(program, options, threads)
    except Unsupported as why:
        simpler = _written_out(program, why.text)
        if simpler is None:
            raise
    return _load_exported(simpler, options, threads)


def _load_exported(program, options, threads):
    try:
        text, weights = of_exported(program)
    except CannotSay as why:
        raise BadArgument(f"the exported program has {why}, which Treadle does not know") from None
    name = type(program).__name__
    model = _loaded(text, weights, options, name, threads)
    model.__class__ = ExportedModel
    return model._nest(program)


def _only_dictionary(source, example_inputs, method):
    """A mapping whose keys are no names of arguments is the only argument."""
    function = getattr(source, method or "forward", source)
    names = {argument.name for argument in function.schema.arguments} if hasattr(function, "schema") else set()
    given = isinstance(example_inputs, Mapping) and names and not names.issuperset(example_inputs)
    return (example_inputs,) if given else example_inputs


def load(source, example_inputs, options, threads):
    """What torch has, as a Model; None where it is no such thing."""
    if isinstance(source, torch.export.ExportedProgram):
        return load_exported(source, options, threads)
    if isinstance(source, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        memory = io.BytesIO()
        example_inputs = _only_dictionary(source, example_inputs, options["method"])
        torch.jit.save(source, memory)  # one copy of the weights, which the model then keeps and reads in place
        model = _core.load(memory.getbuffer(), True, inputs=types_of(example_inputs), **options)
        return ScriptedModel(model, type(source).__name__, *threads)._nest(example_inputs)
    if not isinstance(source, torch.nn.Module):
        return None
    return load_exported(exported(source, example_inputs), options, threads)


def exported(module, example_inputs):
    """The module's forward as an ExportedProgram."""
    args, named = _arguments(example_inputs)
    with torch.no_grad():
        return torch.export.export(module.eval(), args, named)


def _arguments(example_inputs):
    """(positional arguments, keyword arguments) of a call, tensors in the place of numpy's arrays: a mapping has keyword
    arguments, a tuple or list positional ones, anything else is the only one."""
    from torch.utils import _pytree as pytree
    if example_inputs is None:
        raise BadArgument("a module needs example_inputs: load(module, (x, ...)), or load(module, {\"x\": x}) for keyword arguments",
                          "example_inputs")
    if isinstance(example_inputs, Mapping):
        args, named = (), dict(example_inputs)
        wrong = next((key for key in named if not isinstance(key, str)), None)
        if wrong is not None:
            raise BadArgument(f"example_inputs: the key {wrong!r} is no name of an argument", "example_inputs")
    else:
        args, named = (tuple(example_inputs) if isinstance(example_inputs, (tuple, list)) else (example_inputs,)), {}
    return pytree.tree_map_with_path(_argument, (args, named))


def _argument(path, value):
    if isinstance(value, (torch.Tensor, bool, int, float, complex)) or value is None:
        return value
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return torch.as_tensor(value)
    which = (f"argument {path[1].idx}" if hasattr(path[1], "idx") else f"argument {path[1].key}") + "".join(map(str, path[2:]))
    raise BadArgument(f"example_inputs: {which} is {value!r:.60}; a tensor, a number, or a nest of those is needed. What else the "
                      "module takes is set before, for instance by functools.partial", which)


# ---- torch.compile ----


def _warn(why, module):
    """Says that PyTorch runs the graph, and why; treadle.fallbacks() says it again."""
    calls = [n for n in module.graph.nodes if n.op == "call_function"]
    places = (line.strip() for n in calls for line in reversed((n.meta.get("stack_trace") or "").splitlines()) if "File " in line)
    operators = collections.Counter(str(n.target) for n in calls)
    _fallbacks.append(FallbackGraph(why, next(places, ""), dict(operators)))
    warnings.warn(f"treadle: a graph runs on PyTorch: {why}", Fallback, stacklevel=3)


def fallbacks():
    """Graphs that PyTorch runs since the process began, the newest 1000."""
    return list(_fallbacks)


def _taken_apart(module, why):
    """The graph with the operators that `why` names decomposed by PyTorch itself; None: it does not."""
    from torch._decomp import core_aten_decompositions, decomposition_table
    used = {n.target for n in module.graph.nodes if isinstance(n.target, torch._ops.OpOverload) and n.target._schema.name in why}
    bodies = _written_in_python(used)
    if bodies:
        return _traced_anew(module, torch.func.functionalize(_Speller(module, bodies).run), {})
    every = {**decomposition_table, **core_aten_decompositions()}
    table = {op: every[op] for op in used if op in every}
    return _traced_anew(module, torch.fx.Interpreter(module).run, table) if table else None


def _written_in_python(used):
    """The bodies of operators that PyTorch itself defines in Python. Into others nobody looks: they may do what no graph says."""
    from torch._library.custom_ops import OPDEFS
    bodies = {op: OPDEFS[op._schema.name]._init_fn for op in used if op._schema.name in OPDEFS}
    return {op: body for op, body in bodies.items() if body.__module__.startswith("torch.")}


class _Speller(torch.fx.Interpreter):
    """Runs a graph with functions in the place of some operators."""

    def __init__(self, module, bodies):
        super().__init__(module)
        self.bodies = bodies

    def call_function(self, target, args, kwargs):
        return super().call_function(self.bodies.get(target, target), args, kwargs)


def _traced_anew(module, run, table):
    """What `run` makes of the graph, with operators as `table` has them; None: PyTorch does not trace it."""
    from torch.fx.experimental.proxy_tensor import make_fx
    values = [n.meta.get("val") for n in module.graph.nodes if n.op == "placeholder"]
    modes = [v.fake_mode for v in values if isinstance(v, FakeTensor)]
    if not modes:
        return None
    try:
        with modes[0], torch.no_grad():
            return make_fx(lambda *args: run(*args), decomposition_table=table)(*values)
    except Exception:  # whatever PyTorch finds wrong with it, the graph runs as it is
        return None


def _spelled_out(module):
    """The graph with flex_attention as the products, softmax and masks that it means, and dropout in training as the numbers
    drawn, compared and multiplied."""
    from torch._decomp import decomposition_table
    from torch._higher_order_ops.flex_attention import flex_attention, math_attention
    dropout = torch.ops.aten.native_dropout.default
    if not any(n.target in (flex_attention, dropout) for n in module.graph.nodes):
        return module
    return _traced_anew(module, _Speller(module, {flex_attention: math_attention}).run, {dropout: decomposition_table[dropout]}) or module


_graph_numbers = itertools.count()


def _debug_folder(asked, number):
    """Where the graph's files go: into the folder of the options, or beside PyTorch's own with TORCH_COMPILE_DEBUG=1; None:
    nowhere."""
    if asked is not None:
        return os.path.join(os.fspath(asked), f"graph_{number}")
    if os.environ.get("TORCH_COMPILE_DEBUG") != "1":
        return None
    from torch._dynamo.utils import get_debug_dir
    return os.path.join(get_debug_dir(), "treadle", f"graph_{number}")


class _Compiled:
    """One graph. Its parameters become constants of the model at the first call, and are looked at at each: a module
    whose weights were changed gets its model anew."""

    def __init__(self, module, static, options):
        self.module = self.program = module
        self.given = dict(options)
        self.options = options
        self.follows = options.get("threads") is None  # PyTorch's number, as it is at each call
        self.threads = thread_count(options.pop("threads", None), "threads")
        interop = options.pop("interop_threads", None)
        self.interop = torch.get_num_interop_threads() if interop is None else thread_count(interop, "interop_threads")
        self.number = next(_graph_numbers)
        self.model = None
        self.broken = False
        self.lock = threading.Lock()
        output = next(n for n in module.graph.nodes if n.op == "output").args[0]
        self.results = tuple(_result_kind(v) for v in output)
        self.placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        self.static = ()
        self.say(static)

    def say(self, static):
        """Writes the graph down, with the placeholders at positions `static` for parameters."""
        self.static = tuple(i for i in static if _is_tensor(self.placeholders[i]))
        self.text, self.constants = of_graph(self.program, frozenset(self.static))
        kinds = [_NUMBERS.get(type(n.meta.get("val"))) for n in self.placeholders]
        users = tuple((i, kind) for i, kind in enumerate(kinds) if i not in self.static)
        self.bound = _core.Bound(torch.Tensor.__dlpack_c_exchange_api__, self.static, users, self.results)

    def refuse(self, args):
        """What a graph cannot be given, though PyTorch made it for such arguments."""
        if any(isinstance(a, torch.Tensor) and (a.is_neg() or a.is_conj()) for a in args):
            raise CannotSay("an argument that is stored negated or conjugated")
        if any(args[i].is_inference() for i in self.static):  # PyTorch does not count what is written to these
            self.say(tuple(i for i in self.static if not args[i].is_inference()))

    def build(self, args):
        self.refuse(args)
        for _ in range(4):
            try:
                self.load(args)
                return
            except Unsupported as why:
                simpler = _taken_apart(self.program, why.text)
                if simpler is None:
                    raise
                self.program = simpler
                self.say(self.static)
        self.load(args)

    def load(self, args):
        weights = dict(self.constants)
        weights.update((f"static.{i}", args[i]) for i in self.static)
        threads = torch.get_num_threads() if self.follows else self.threads
        folder = _debug_folder(self.options.get("debug_dir"), self.number)
        options = dict(self.options, dump=dump_into(folder, "torch.compile", self.options)) if folder else self.options
        self.model = _loaded(self.text, weights, options, "torch.compile", (threads, self.interop))
        if self.options.get("verbose"):
            print(self.model, file=sys.stderr)
        self.bound.hold(args)

    def check(self, args):
        if self.model is not None and self.bound.holds(args):
            return True
        with self.lock:
            try:
                if self.model is None or not self.bound.holds(args):
                    self.build(args)
            except (Error, CannotSay) as error:
                self.broken = True
                _warn(str(error) + self.left(args, "error", f"fails: {error}"), self.module)
                return False
        return True

    def left(self, args, kind, text):
        """What a failure leaves behind, as the end of a warning: nothing, where nobody asked for it."""
        return ""

    def __call__(self, args):
        if self.broken or not self.check(args):
            return self.module(*args)
        return self.run(args)

    def compute(self, args):
        """Results by Treadle alone: what fails is raised."""
        self.build(args)
        return self.run(args)

    def run(self, args):
        model = self.model
        if self.follows and torch.get_num_threads() != model.threads:
            model._set_threads(torch.get_num_threads())
        idle = model._here()
        session = model._take_session(idle)
        make = listener()
        try:
            if make is not None:
                return told(make, model, session, lambda: self.bound.run(session, args))
            return self.bound.run(session, args)
        finally:
            idle.sessions.append(session)


class _Watched(_Compiled):
    """A graph under TORCHDYNAMO_REPRO_AFTER=aot: _bundle."""

    def left(self, args, kind, text):
        return f"; what shows it is in {_bundle.write(self, args, kind, text)}"

    def __call__(self, args):
        if self.broken:
            return self.module(*args)
        level = _bundle.level()
        kept = [a.detach().clone() if isinstance(a, torch.Tensor) else a for a in args]
        if level == 3:
            _bundle.write(self, kept, "crash", "may crash")
        try:
            results = super().__call__(args)
        except Error as error:
            error.text += self.left(kept, "error", f"fails: {error}")
            raise type(error)(error.text, error.name, error.offset) from None
        if level != 4 or self.broken:
            return results
        want = self.module(*kept)
        text = _bundle.difference(self.module, kept, results, want)
        if text is None:
            return results
        self.broken = True
        _warn(text + self.left(kept, "wrong", f"is wrong: {text}"), self.module)
        return want


_NUMBERS = {torch.SymInt: "i64", int: "i64", torch.SymFloat: "f64", float: "f64", torch.SymBool: "bool", bool: "bool"}


def _is_tensor(node):
    return isinstance(node.meta.get("val"), torch.Tensor)


def _result_kind(value):
    """How a result becomes Python's: None for none, "tensor", or "number"."""
    if value is None:
        return None
    kept = value.meta.get("val") if isinstance(value, torch.fx.Node) else value
    return "tensor" if isinstance(kept, torch.Tensor) else "number"


def _static_positions(module, example_inputs):
    """Which placeholders of AOTAutograd's graph are parameters and buffers."""
    context = torch._guards.TracingContext.try_get()
    metadata = getattr(context, "fw_metadata", None)
    found = getattr(metadata, "static_input_indices", None)
    return list(found or [])


def _inference(options, graphs):
    def compile_graph(module, example_inputs):
        if not any(n.op == "call_function" for n in module.graph.nodes):
            return _boxed(module)  # nothing to compute
        real = real_graph(module)
        if real is not None:
            run = compile_graph(real[0], example_inputs)
            return around(run, real[1], real[2])
        module = _spelled_out(module)
        drawn = drawn_graph(module)
        if drawn is not None:
            return with_draws(compile_graph(drawn[0], example_inputs), drawn[1])
        placed = placed_graph(module)
        if placed is not None:
            return put_back(compile_graph(placed[0], example_inputs), placed[1], placed[2])
        try:
            compiled = (_Watched if _bundle.level() else _Compiled)(module, _static_positions(module, example_inputs), dict(options))
            graphs.append(compiled)
        except (CannotSay, Error) as why:
            _warn(f"it has {why}" + _bundle.NONE * bool(_bundle.level()), module)
            return _boxed(module)

        def run(args):  # a list, as AOTAutograd passes it where _boxed_call is set
            return compiled(args)
        run._boxed_call = True
        tokens = token_positions(module)
        return with_tokens(run, tokens) if tokens else run
    return compile_graph


def _training(module, example_inputs):
    _warn("its parameters ask for gradients, and somebody may call backward; call it under torch.no_grad(), or compile it with "
          "options={\"inference\": True}", module)
    return _boxed(module)


def _boxed(module):
    from functorch.compile import make_boxed_func
    return make_boxed_func(module)


_OPTIONS = frozenset(("backend", "cc", "math", "precision", "isa", "disabled_passes", "threads", "interop_threads", "inference", "debug_dir", "verbose",
                      "inject"))


def _checked(options, what):
    """The options, none of which is unknown or has a value that no graph can be compiled with."""
    known_only(options, _OPTIONS, what)
    if not isinstance(options.get("inference", False), bool):
        raise BadArgument(f"inference is {options['inference']!r}; there are: True, False", "inference")
    check(options)
    return options


def _compile(module, example_inputs, options, graphs):
    """What AOTAutograd makes of Dynamo's graph; `graphs` is called for each that Treadle runs."""
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        raise BadArgument(f"torch.compile on Treadle needs PyTorch 2.10 or later; this is {torch.__version__}")
    from torch._dynamo.backends.common import aot_autograd
    options = dict(options, **compiler_and_cache(options.get("cc")), disabled_passes=passes(options.get("disabled_passes")))
    inference = options.pop("inference", False)
    compiler = aot_autograd(fw_compiler=_training, bw_compiler=lambda module, inputs: _boxed(module),
                            inference_compiler=_inference(options, graphs))
    with torch.no_grad() if inference else contextlib.nullcontext():
        return compiler(module, example_inputs)


class _Backend:
    """The backend of torch.compile: torch.compile(model, backend="treadle", options={"threads": 2, "math": "exact"})."""

    __name__ = "treadle"

    def __call__(self, module, example_inputs, *, options=None, mode=None, name=None, **more):
        options = _checked(dict(options or {}, **more), "the backend treadle")
        asker = sys._getframe(1).f_locals.get("self")  # PyTorch's object of this call of torch.compile
        graphs = []
        if isinstance(asker, torch._TorchCompileWrapper):
            graphs = asker.__dict__.setdefault("treadle_graphs", graphs)
        return _compile(module, example_inputs, options, graphs)

    @property
    def _dynamo_backend_init(self):
        """PyTorch asks for this hook while torch.compile is being called, through an object that has the options: the time
        to refuse them. (Where it does not, by older versions, they are refused at the first call.)"""
        asker = sys._getframe(1).f_locals.get("self")
        options = getattr(asker, "kwargs", {}).get("options") or {}
        _checked(dict(options), "the backend treadle")


backend = _Backend()


def _graphs_of(compiled):
    """The graphs of what torch.compile or treadle.optimize gave; None: it is neither."""
    if isinstance(compiled, Optimized):
        return compiled.treadle_graphs
    context = getattr(compiled, "dynamo_ctx", None)
    if context is None:  # of a function: the one that its wrapper calls
        cells = zip(getattr(getattr(compiled, "__code__", None), "co_freevars", ()), getattr(compiled, "__closure__", None) or ())
        context = next((cell.cell_contents for name, cell in cells if name == "self"), None)
    callback = getattr(context, "callback", None)
    if callback is None:
        return None
    return getattr(torch._dynamo.eval_frame.innermost_backend(callback), "treadle_graphs", [])


def models(compiled):
    """The Models of what torch.compile or treadle.optimize gave, in the order in which graphs were compiled."""
    graphs = _graphs_of(compiled)
    if graphs is None:
        raise BadArgument(f"{compiled!r:.60} is nothing that torch.compile or treadle.optimize gave", "compiled")
    return [graph.model for graph in graphs if graph.model is not None]


# ---- treadle.optimize ----


_numbers = itertools.count()


def _call_of(module):
    """A function that calls the module, with code of its own: PyTorch keeps what it compiles, and its guards, by code."""
    def call(*args, **named):
        return module(*args, **named)
    code = call.__code__.replace(co_name=f"call_{next(_numbers)}")
    return types.FunctionType(code, call.__globals__, code.co_name, None, call.__closure__)


def _guards_of_arguments(entries):
    """What does not look at the module: that is taken to stay as it is, but for its weights, which each call looks at."""
    return [not entry.name.startswith("L['module']") for entry in entries]


class Optimized(torch.nn.Module):
    """A module whose forward runs on Treadle, for inference."""

    def __init__(self, module, options, args, named):
        super().__init__()
        self.module = module
        self.treadle_graphs = []
        own = functools.partial(torch.compile, backend=lambda m, x: _compile(m, x, options, self.treadle_graphs))
        self.compiled = own(_call_of(module), fullgraph=True, options={"guard_filter_fn": _guards_of_arguments})
        try:
            self(*args, **named)
        except torch._dynamo.exc.TorchDynamoException:  # in several graphs, each of which must know its modules
            self.compiled = own(module)
            self(*args, **named)

    def forward(self, *args, **named):
        with torch.no_grad():
            return self.compiled(*args, **named)

    def plan_text(self):
        """The steps of each graph in their order, and where each value lies in memory."""
        return "\n".join(model.plan_text() for model in models(self))

    def __repr__(self):
        return "\n".join(["Optimized " + type(self.module).__name__, *map(str, models(self))])

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)


def optimize(module, example_inputs, **options):
    """`module`, set to eval, as one whose forward runs on Treadle, for inference whatever PyTorch's grad mode is; compiled at
    once for `example_inputs`: a tuple of arguments, a mapping of keyword arguments, or the only argument. Its attributes are
    taken to stay as they are then; its weights may be written and replaced by others of the same sizes."""
    args, named = _arguments(example_inputs)
    return Optimized(module.eval(), dict(_checked(options, "optimize"), inference=True), args, named)
