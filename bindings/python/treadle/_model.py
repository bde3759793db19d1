"""Models and sessions."""

import collections
import os
import sys
import threading
import time

from . import _core
from ._convert import Kinds, by_path, complex_of, spread, types_of
from ._debug import dump_into
from ._errors import BadArgument
from ._events import listener, told
from ._options import FIELDS, compiler_and_cache, known_only, passes, sizes, thread_count
from ._tables import inputs_of, is_table
from . import _threads
from ._threads import shared_pool


class Value(collections.namedtuple("Value", "name kind dtype shape has_default is_complex")):
    """An input, output or state: `shape` holds ints, names of open dimensions, and None for open ones without a name; it
    is None where not even the rank is fixed. Of an output of complex numbers dtype and shape are those of their parts, which
    lie along the last dimension, of 2."""

    __slots__ = ()

    def __str__(self):
        dims = self.shape[:-1] if self.is_complex else self.shape
        shape = "..." if dims is None else ", ".join("?" if d is None else str(d) for d in dims)
        dtype = complex_of(self.dtype) if self.is_complex else self.dtype
        of = f"{dtype}[{shape}]" if dtype else "values"
        return f"{self.name}: {of if self.kind == 'tensor' else f'{self.kind} of {of}'}"


class Outputs(tuple):
    """The outputs of a call, by position or by name."""

    def __new__(cls, values, names):
        self = super().__new__(cls, values)
        self.names = names
        return self

    def __getitem__(self, key):
        if isinstance(key, str):
            try:
                return super().__getitem__(self.names.index(key))
            except ValueError:
                raise KeyError(f"there is no output called {key}; there are: {', '.join(self.names)}") from None
        return super().__getitem__(key)

    def _asdict(self):
        return dict(zip(self.names, self))

    def __repr__(self):
        return "Outputs(" + ", ".join(f"{name}={value!r}" for name, value in zip(self.names, self)) + ")"

    def __reduce__(self):
        return Outputs, (tuple(self), self.names)


def _print(text):
    sys.stdout.write(text)


def _values(rows):
    return tuple(Value(*row) for row in rows)


class _Callable:
    """What models and sessions share: arguments in, outputs out. `_run(inputs, outs)` is theirs."""

    __slots__ = ()

    def _take(self, model, args, named, kinds):
        inputs = model.inputs
        if len(args) == 1 and is_table(args[0]):
            args, named = (), {**inputs_of(args[0], inputs), **named}
        args, named = by_path(args, named, inputs)
        if args and len(args) < len(inputs):
            args = spread(args, inputs)
        if len(args) > len(inputs):
            raise BadArgument(f"{len(args)} inputs were given; the model takes {len(inputs)}: "
                              + ", ".join(v.name for v in inputs))
        given = [kinds.take(value, info) for value, info in zip(args, inputs)]
        given += [None] * (len(inputs) - len(args))
        for name, value in named.items():
            at = model._input_at.get(name)
            if at is None:
                raise BadArgument(f"there is no input called {name}; there are: "
                                  + ", ".join(v.name for v in inputs), name)
            if at < len(args):
                raise BadArgument(f"input {name} was given twice, as argument {at} and by name", name)
            given[at] = kinds.take(value, inputs[at])
        return tuple(given)

    def _outs(self, model, out, kinds):
        if out is None:
            return None
        outputs = model.outputs
        if isinstance(out, dict):
            unknown = [name for name in out if name not in model._output_at]
            if unknown:
                raise BadArgument(f"there is no output called {unknown[0]}; there are: "
                                  + ", ".join(v.name for v in outputs), unknown[0])
            out = [out.get(v.name) for v in outputs]
        elif not isinstance(out, (list, tuple)):
            out = [out]
        if len(out) != len(outputs):
            raise BadArgument(f"out: {len(out)} arrays were given; the model has {len(outputs)} outputs")
        return tuple(None if o is None else kinds.array(o, v.name, True) for o, v in zip(out, outputs))

    def _call(self, model, args, named, out):
        kinds = Kinds()
        given = self._take(model, args, named, kinds)
        outs = self._outs(model, out, kinds)
        results = self._run(given, outs)
        if outs is not None:
            own = out if isinstance(out, (list, tuple)) else [out.get(v.name) for v in model.outputs] \
                if isinstance(out, dict) else [out]
            results = [kinds.give(r, v) if o is None else o for r, o, v in zip(results, own, model.outputs)]
        else:
            results = [kinds.give(r, v) for r, v in zip(results, model.outputs)]
        return results[0] if len(results) == 1 else Outputs(results, model._output_names)


class Session(_Callable):
    """One caller's working memory over a model: call it like the model. One thread at a time; state that the model keeps
    from call to call is this session's own. A call that takes longer than `timeout` seconds raises TimedOut between two
    steps; None: there is no limit."""

    def __init__(self, model, threads=None, spin_us=0, state=None, print=None, interop_threads=None, timeout=None):
        self.model = model
        self.timeout = timeout
        own = threads or spin_us or interop_threads
        threads = model.threads if threads is None else thread_count(threads, "threads")
        interop = model.interop_threads if interop_threads is None else thread_count(interop_threads, "interop_threads")
        self._pool = None if own else shared_pool(threads, interop)
        self._core = _core.Session(model._core, threads or _threads.default_threads, spin_us,
                                   None if own else self._pool.core, print or _print, interop or _threads.default_interop)
        for name, value in (state or {}).items():
            self.set_state(name, value)

    def __call__(self, *args, out=None, **named):
        return self._call(self.model, args, named, out)

    def _run(self, given, outs):
        make = listener()
        if make is not None:
            return told(make, self.model, self._core, lambda: self._core.run(given, outs, self.timeout or 0))
        return self._core.run(given, outs, self.timeout or 0)

    def cancel(self):
        """Ends the call that another thread has under way, before its next step: it raises Cancelled."""
        self._core.cancel()

    @property
    def stats(self):
        """Memory, runs and threads."""
        return self._core.stats()

    @property
    def state(self):
        """The values of the model's states in this session, by name (copies)."""
        return {v.name: self._core.state(i) for i, v in enumerate(self.model.states)}

    def set_state(self, name, value):
        """Gives a state a value, which is copied."""
        for i, v in enumerate(self.model.states):
            if v.name == name:
                self._core.set_state(i, Kinds().take(value, v))
                return
        raise BadArgument(f"there is no state called {name}; there are: "
                          + (", ".join(v.name for v in self.model.states) or "none"), name)

    def reset(self):
        """All state as before the first run."""
        self._core.reset()

    def __repr__(self):
        return f"<treadle.Session of {self.model.name}>"


class _Idle:
    """The sessions of one process that no call is using, and the threads they share."""

    def __init__(self, threads, interop_threads):
        self.process = os.getpid()
        self.turn = _threads.turn
        self.pool = shared_pool(threads, interop_threads)
        self.sessions = []


class Model(_Callable):
    """A compiled model. Immutable, and may be called from any number of threads at once: each call takes a session that
    is free, or makes one. All models of a process that ask for as many threads share one pool of them: calls at the
    same time each have their own thread and a share of the others."""

    def __init__(self, core, name, threads=0, interop_threads=0):
        self._core = core
        self.name = name
        self.threads = threads
        self.interop_threads = interop_threads
        self.inputs = _values(core.inputs())
        self.outputs = _values(core.outputs())
        self.states = _values(core.states())
        self._input_at = {v.name: i for i, v in enumerate(self.inputs)}
        self._output_at = {v.name: i for i, v in enumerate(self.outputs)}
        self._output_names = tuple(v.name for v in self.outputs)
        self._step_names = None
        self._how = None  # arguments of load by which another process gets the same
        self._idle = None
        self._lock = threading.Lock()
        self._executor = None

    # ---- calls ----

    def __call__(self, *args, out=None, **named):
        """Inputs in their order or by name; arrays are read where they are. Returns the output, or Outputs where there
        are several: torch tensors where torch tensors came in, numpy arrays where these did, else treadle.Array.
        `out`: an array, or one or None for each output (a sequence or dict), to be written to and returned."""
        return self._call(self, args, named, out)

    def _here(self):
        idle = self._idle
        if idle is None or idle.process != os.getpid() or (idle.turn != _threads.turn and not self.states):
            with self._fresh_lock():
                idle = self._idle
                if idle is None or idle.process != os.getpid() or (idle.turn != _threads.turn and not self.states):
                    idle = self._idle = _Idle(self.threads, self.interop_threads)
        return idle

    def _fresh_lock(self):
        idle = self._idle
        if idle is not None and idle.process != os.getpid():
            self._lock = threading.Lock()  # in the child of a fork the old one may be held for ever
            self._executor = None
        return self._lock

    def _run(self, given, outs):
        if self.states:
            return self._run_state(self._here(), given, outs)
        idle = self._here()
        session = self._take_session(idle)
        make = listener()
        try:
            if make is not None:
                return told(make, self, session, lambda: session.run(given, outs))
            return session.run(given, outs)
        finally:
            idle.sessions.append(session)

    def _take_session(self, idle):
        """A session for one call of a model without states; put among the idle ones after it."""
        try:
            return idle.sessions.pop()
        except IndexError:
            return self._new_session(idle)

    def _set_threads(self, threads):
        """Other threads for the calls that come; those under way keep theirs."""
        self.threads = threads
        self._idle = None

    def _new_session(self, idle):
        return _core.Session(self._core, 0, 0, idle.pool.core, _print)

    def _run_state(self, idle, given, outs):
        with self._lock:  # calls go on from one state: one after the other
            if not idle.sessions:
                idle.sessions.append(self._new_session(idle))
            session, make = idle.sessions[0], listener()
            if make is not None:
                return told(make, self, session, lambda: session.run(given, outs))
            return session.run(given, outs)

    def _idle_session(self):
        """The session that calls take while no others run beside them."""
        idle = self._here()
        if not idle.sessions:
            idle.sessions.append(self._new_session(idle))
        return idle.sessions[0 if self.states else -1]

    def run_async(self, *args, out=None, **named):
        """The same on another thread: a concurrent.futures.Future (asyncio.wrap_future makes it awaitable)."""
        from concurrent.futures import ThreadPoolExecutor
        self._here()
        with self._fresh_lock():
            if self._executor is None:
                self._executor = ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="treadle")
        return self._executor.submit(self.__call__, *args, out=out, **named)

    def session(self, threads=None, spin_us=0, state=None, print=None, interop_threads=None, timeout=None):
        """A session. With a number of `threads`, `spin_us` or `interop_threads` (for what the model forks) it has threads of
        its own, as many at most; else it shares those that calls of models have (0: of all that the machine allows; None:
        as at load). `state`: values for states by name, `print`: called with what the model prints (None: it goes to
        sys.stdout), `timeout`: seconds that a call may take."""
        return Session(self, threads, spin_us, state, print, interop_threads, timeout)

    def reset(self):
        """All state as before the first call."""
        if self.states:
            with self._lock:
                for session in self._here().sessions:
                    session.reset()

    def save(self, path):
        """A .tdl file: plan and packed weights, which load opens in milliseconds. (With machine code of fused loops, and for
        several instruction sets: treadle.compile.)"""
        _core.save([self._core], os.fsencode(path))

    def __reduce__(self):
        if self._how is None:
            raise BadArgument("only a model that was loaded from a file can be pickled, by its path: save it, and load that", self.name)
        return _load_again, self._how

    # ---- looks ----

    @property
    def stats(self):
        """What loading cost, and what the model holds."""
        return self._core.stats()

    def text(self, stage="plan", format="text"):
        """The graph ("imported", "passes") or plan as text, "dot" or "json"."""
        return self._core.print(stage, format)

    def plan_text(self):
        """The steps in their order, and where each value lies in memory."""
        return self.text("plan")

    def bench(self, *args, min_time=1.0, warmup=3, threads=None, **named):
        """Warm latency of calls with these inputs, or with zeros where the model's sizes are fixed: a Bench, in ms."""
        session = self.session(threads=threads)
        if not args and not named:
            args = tuple(self._zeros(v) for v in self.inputs if not v.has_default)
        given = self._take(self, args, named, Kinds())
        first = time.perf_counter()
        session._core.run(given)
        first = (time.perf_counter() - first) * 1e3
        for _ in range(warmup):
            session._core.run(given)
        times, end = [], time.perf_counter() + min_time
        while not times or time.perf_counter() < end:
            start = time.perf_counter()
            session._core.run(given)
            times.append((time.perf_counter() - start) * 1e3)
        return Bench(self, times, first, session.stats)

    def _zeros(self, value):
        if value.kind != "tensor" or value.shape is None or not all(isinstance(d, int) for d in value.shape):
            raise BadArgument(f"the sizes of input {value} are open: give bench its inputs", value.name)
        return _core.zeros(value.dtype, value.shape)

    def __repr__(self):
        return f"<treadle.Model {self.name}: {len(self.inputs)} in, {len(self.outputs)} out>"

    def __str__(self):
        s = self.stats
        lines = [f"Model {self.name} ({s['backend']}: {s['nodes']} nodes, {s['steps']} steps)"]
        for title, values in (("inputs", self.inputs), ("outputs", self.outputs), ("state", self.states)):
            for i, v in enumerate(values):
                lines.append(f"  {title if i == 0 else '':8}{v}{' (has a default)' if v.has_default else ''}")
        lines.append(f"  weights {s['weights_bytes'] / 1e6:.1f} MB, of these {s['copied_bytes'] / 1e6:.1f} MB packed or copied"
                     + (f"; {s['gflop']:.2f} GFLOP a run" if s["gflop"] else ""))
        lines.append(f"  ready in {s['load_ms'] + s['compile_ms']:.0f} ms: read {s['load_ms']:.0f}, compiled "
                     f"{s['compile_ms']:.0f}")
        return "\n".join(lines)


class Bench:
    """Latencies in ms: mean, min, p50, p90, p99, first; `times` has all."""

    def __init__(self, model, times, first, stats):
        ordered = sorted(times)
        self.times = times
        self.first = first
        self.mean = sum(times) / len(times)
        self.min = ordered[0]
        self.p50, self.p90, self.p99 = (ordered[min(len(ordered) - 1, int(len(ordered) * q))] for q in (0.5, 0.9, 0.99))
        self.runs = len(times)
        self.threads = stats["threads"]
        self.arena_bytes = stats["arena_bytes"]
        self._name = model.name

    def __repr__(self):
        return (f"{self._name}: p50 {self.p50:.3f} ms, mean {self.mean:.3f}, min {self.min:.3f}, p90 {self.p90:.3f}, "
                f"p99 {self.p99:.3f}; first {self.first:.3f}; {self.runs} runs, {self.threads} threads, "
                f"arena {self.arena_bytes / 1e6:.1f} MB")


def _load_again(source, example_inputs, options):
    return load(source, example_inputs, **options)


def load(source, example_inputs=None, *, backend=None, math=None, isa=None, threads=0, interop_threads=0, weights=None,
         disabled_passes=None, format=None, seed=0, method=None, specialise=None, cc=None, trusted=False, precision=None,
         debug_dir=None, verbose=False, inject=None, **fields):
    """Loads a model: a path, "builtin:NAME", or the file's bytes (any object with the buffer protocol, which is kept and
    not copied).

    backend   "native" (default), "aot_eager", "eager"
    math      "exact", "default", "fast": how sums may round
    precision "bf16", "f16": weights of products are stored so; "int8": products with weights of 4 and 8 bits quantise
              their other operand; None: all as the model has it
    isa       the widest instruction set: "scalar", "vector", "avx2", "avx512"
    threads   at most, for each call; 0: what the machine allows
    interop_threads   that run what a TorchScript model forks, the caller's included; 0: as `threads`
    weights   a state_dict file for a builtin model
    method    of a TorchScript module; None: forward
    specialise  sizes of open dimensions that get faster variants: {"batch": (1, 8), "seq": 128}, or "batch=1,8 seq=128"
    cc        the C compiler that makes machine code of fused loops, kept in the user's cache folder ($TREADLE_CACHE); None:
              the first of cc, gcc and clang on the search path, "none": loops are interpreted

    trusted   machine code in a .tdl is loaded: the file is as trusted as this program
    debug_dir a folder for what the model becomes on its way: docs/debugging.md
    verbose   prints, on standard error, what was loaded
    inject    a fault to be found, "neg:wrong", in builds with tests: docs/debugging.md
    Other fields of td_load_options (treadle.h) are taken by their names, too: tiered, strict, taps, alone, ...

    example_inputs  types and sizes for files that do not say them (TorchScript): the arguments of a call, or for each
              ("f32", (1, 3, None, "width")), None and names being open; or these by the names of inputs: {"x": array}. Of
              an ONNX file such a dict tells the inputs from weights that old exporters list among them

    Where torch is loaded, `source` may be an ExportedProgram, a Module with `example_inputs` (a tuple), which is exported,
    or a ScriptModule or ScriptFunction with `example_inputs`, which say the types that it does not.
    """
    known_only(fields, FIELDS.union(load.__kwdefaults__), "load")
    threads, interop = thread_count(threads, "threads"), thread_count(interop_threads, "interop_threads")
    options = {"backend": backend, "math": math, "isa": isa, "weights": weights and os.fspath(weights),
               "disabled_passes": passes(disabled_passes), "format": format, "seed": seed, "method": method,
               "specialise": sizes(specialise), "precision": precision, "inject": inject, **fields, **compiler_and_cache(cc)}
    is_path = isinstance(source, (str, os.PathLike))
    if debug_dir is not None:
        options["dump"] = dump_into(debug_dir, os.fspath(source) if is_path else type(source).__name__, options)
    model = _load_torch(source, example_inputs, options, (threads, interop))
    if model is None:
        name = os.fsdecode(source) if is_path else f"{memoryview(source).nbytes} bytes"
        model = Model(load_core(source, example_inputs, dict(options, trusted=trusted)), name, threads, interop)
    if is_path:
        given = {"backend": backend, "math": math, "isa": isa, "threads": threads, "interop_threads": interop, "weights": weights,
                 "disabled_passes": disabled_passes, "format": format, "seed": seed, "method": method, "specialise": specialise,
                 "cc": cc, "trusted": trusted, "precision": precision, **fields}
        model._how = (os.fsdecode(source), example_inputs, given)
    if verbose:
        print(model, file=sys.stderr)
    return model


def load_core(source, example_inputs, options):
    """The core's model of a file, or of its bytes."""
    inputs = types_of(example_inputs)
    if isinstance(source, (str, os.PathLike)):
        return _core.load(os.fsencode(source), inputs=inputs, **options)
    return _core.load(source, True, inputs=inputs, **options)


def _load_torch(source, example_inputs, options, threads):
    """What torch has, as a Model; None: it is no such thing."""
    if isinstance(source, (str, os.PathLike)) or "torch" not in sys.modules:
        return None
    from . import _torch
    return _torch.load(source, example_inputs, options, threads)


def compile(source, path, example_inputs=None, *, isa=None, **options):
    """Compiles a model, as load takes it, to a .tdl file at `path`, with machine code of its fused loops, which
    load(path, trusted=True) uses. `isa`: a name, or several, such as this CPU lacks among them ("avx2", "avx512"): the file has
    a variant for each, and a CPU gets the best that it can run. `options`: those of load that shape the plan."""
    known_only(options, ("backend", "math", "precision", "weights", "disabled_passes", "format", "seed", "method", "specialise", "state", "cc"), "compile")
    shaped = dict(options, weights=options.get("weights") and os.fspath(options["weights"]), for_file=True,
                  disabled_passes=passes(options.get("disabled_passes")), specialise=sizes(options.get("specialise")))
    shaped.update(compiler_and_cache(options.get("cc")))
    made = []
    for name in (isa,) if isa is None or isinstance(isa, str) else isa:
        model = _load_torch(source, example_inputs, dict(shaped, isa=name), (0, 0))
        made.append(model._core if model else load_core(source, example_inputs, dict(shaped, isa=name)))
    _core.save(made, os.fsencode(path))
