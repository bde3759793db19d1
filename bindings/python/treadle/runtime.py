"""Cores for models, by the names of IPEX's runtime extension.

    from treadle import runtime
    pool = runtime.CPUPool([0, 1, 2, 3])
    task = runtime.Task(model, pool)              # calls in their order, on the pool's cores
    future = task(x)
    y = future.result()                           # or future.get()
    many = runtime.MultiStreamModule(model, num_streams=2, cpu_pool=pool)
    y = many(batch)                               # each stream has a part of the batch; weights are shared
"""

import contextlib
import os
import queue
import threading
from concurrent.futures import Future

from . import _core
from ._convert import Kinds
from ._errors import BadArgument
from ._model import Model, Outputs

__all__ = ["AUTO", "CPUPool", "MultiStreamModule", "MultiStreamModuleHint", "Task", "pin"]

AUTO = "AUTO"


class CPUPool:
    """CPUs by number; without any, those that this process may use. CPUs that it may not use are an error."""

    def __init__(self, core_ids=None, node_id=None):
        allowed = os.sched_getaffinity(0)
        if core_ids is not None and node_id is not None:
            raise BadArgument("a CPUPool has core_ids or a node_id, not both", "core_ids")
        if node_id is not None:
            core_ids = sorted(_core.find_cpus(f"node {int(node_id)}"))
        self.core_ids = sorted(allowed) if core_ids is None else list(dict.fromkeys(core_ids))
        refused = [c for c in self.core_ids if c not in allowed]
        if refused or not self.core_ids:
            raise BadArgument(f"CPUs {refused or 'of this pool: there are none'} cannot be used; allowed are {sorted(allowed)}",
                              "core_ids")

    def __len__(self):
        return len(self.core_ids)

    def split(self, parts):
        """As many pools; the first have one CPU more where it does not come out even."""
        each, more = divmod(len(self), parts)
        starts = [i * each + min(i, more) for i in range(parts + 1)]
        return [CPUPool(self.core_ids[a:b]) for a, b in zip(starts, starts[1:])]

    def __repr__(self):
        return f"CPUPool({self.core_ids})"


@contextlib.contextmanager
def pin(cpu_pool):
    """Within it the calling thread, and threads of sessions made there, stay on the pool's CPUs. Also a decorator."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpu_pool.core_ids)
    try:
        yield cpu_pool
    finally:
        os.sched_setaffinity(0, before)


class _Result(Future):
    def get(self):
        """IPEX's name of result()."""
        return self.result()


class Task:
    """Calls of a model, one after the other in the order they were made, on a thread and cores of their own. A call gives
    a future; an exception of the call is that of its result."""

    def __init__(self, model, cpu_pool=None):
        self.cpu_pool = cpu_pool or CPUPool()
        self._calls = queue.SimpleQueue()
        self._stopped = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, args=(model,), name="treadle.Task", daemon=True)
        self._thread.start()

    def _work(self, model):
        run = model
        with pin(self.cpu_pool):
            if hasattr(model, "session"):
                run = model.session(threads=len(self.cpu_pool))
            for call in iter(self._calls.get, None):
                self._answer(run, *call)

    @staticmethod
    def _answer(run, future, args, named):
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(run(*args, **named))
        except BaseException as error:  # whatever it is, it is the caller's
            future.set_exception(error)

    def __call__(self, *args, **named):
        future = _Result()
        with self._lock:
            if self._stopped:
                raise BadArgument("this Task was stopped: it takes no more calls")
            self._calls.put((future, args, named))
        return future

    def run_sync(self, *args, **named):
        return self(*args, **named).result()

    def stop(self):
        """Waits for the calls so far, and takes no more."""
        with self._lock:
            if not self._stopped:
                self._stopped = True
                self._calls.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.stop()


class MultiStreamModuleHint:
    """Along which axis each argument is split: a number for each, None for what all streams get whole."""

    def __init__(self, *args, **named):
        self.args, self.named = args, named


def _slice(value, axis, start, stop):
    return value[(slice(None),) * axis + (slice(start, stop),)]


def _join(parts, axis):
    if type(parts[0]).__module__.startswith("torch"):
        import torch
        return torch.cat(parts, dim=axis)
    import numpy
    return numpy.concatenate([numpy.asarray(p) for p in parts], axis=axis)


def _dense(value):
    """What streams can be given parts of without a copy of each."""
    kind = type(value).__module__.partition(".")[0]
    if kind == "torch":
        return value.contiguous()
    if kind == "numpy" and not value.flags.c_contiguous:
        return value.copy(order="C")
    return value


class MultiStreamModule:
    """A model whose batch is split over streams of cores that work at the same time on the same weights. `num_streams`
    AUTO: as many as pays for the size of the batch, by a model of the gain from more threads per sample or as tune has
    measured; more than cores are cut to these. The first streams get one sample more where it does not come out even; a
    batch smaller than the streams uses as many as it has samples. `concat_output` False: a list of results;
    `output_concat_axis`: along which they are joined, or a sequence of one for each output.

    Of a treadle.Model that is split and joined along axis 0 each stream writes where its results belong; other callables
    and other axes run in a Task for each stream, AUTO being one for each core, and their results are concatenated."""

    def __init__(self, model, num_streams=AUTO, cpu_pool=None, concat_output=True, input_split_hint=None, output_concat_axis=0):
        pool = cpu_pool or CPUPool()
        streams = len(pool) if num_streams == AUTO else num_streams
        if isinstance(streams, bool) or not isinstance(streams, int) or streams < 1:
            raise BadArgument(f"num_streams is {num_streams!r}; it takes a number or AUTO", "num_streams")
        self.num_streams = min(streams, len(pool))
        self.concat_output = concat_output
        self._model, self._pool, self._asked = model, pool, 0 if num_streams == AUTO else self.num_streams
        self._hint, self._axis = input_split_hint, output_concat_axis
        self._lock = threading.Lock()
        self._tasks, self._streams, self._stopped = None, None, False
        self._joins = concat_output and isinstance(model, Model) and not model.states and self._along_rows()
        if self._joins:
            self._open_streams()

    # ---- a treadle.Model along axis 0 ----

    def _along_rows(self):
        axes = self._axis if isinstance(self._axis, (tuple, list)) else [self._axis]
        hint = self._hint or MultiStreamModuleHint()
        return all(axis == 0 for axis in axes) and all(a in (0, None) for a in (*hint.args, *hint.named.values()))

    def _whole(self):
        hint = self._hint or MultiStreamModuleHint()
        at = [i for i, axis in enumerate(hint.args) if axis is None]
        at += [self._model._input_at[name] for name, axis in hint.named.items() if axis is None and name in self._model._input_at]
        return sum(1 << i for i in at)

    def _open_streams(self):
        pool = _core.Pool(0, 0, 0, ",".join(map(str, self._pool.core_ids)))
        self._streams = _core.Streams(self._model._core, pool, self._asked, self._whole())
        self._process = os.getpid()

    def _on_cores(self):
        """The caller computes the first stream's part."""
        return contextlib.nullcontext() if set(self._pool.core_ids) == os.sched_getaffinity(0) else pin(self._pool)

    def _over_streams(self, args, named, run):
        """The result; None: only running can tell the sizes of some output."""
        self._axes(args, named)
        kinds, model = Kinds(), self._model
        given = model._take(model, [_dense(v) for v in args], {n: _dense(v) for n, v in named.items()}, kinds)
        if self._process != os.getpid():  # a child of fork has none of the threads, and perhaps the lock
            self._lock = threading.Lock()
            self._open_streams()
        with self._lock, self._on_cores():
            self._check_open()
            results = run(self._streams)(given)
        if results is None:
            return None
        results = [kinds.give(r, v) for r, v in zip(results, model.outputs)]
        return results[0] if len(results) == 1 else Outputs(results, model._output_names)

    def tune(self, *args, **named):
        """Runs the batch over 1, 2, 4, ... streams a few times and keeps what is fastest for its size, where their number is
        AUTO; gives the results."""
        return self._call(args, named, lambda streams: streams.tune)

    def streams_of(self, samples):
        """How many streams such a batch uses."""
        return self._streams.count(samples) if self._streams else max(1, min(self.num_streams, samples))

    # ---- anything, along any axis ----

    def _axes(self, args, named):
        hint = self._hint
        if hint is None:
            return [0] * len(args), {name: 0 for name in named}
        if len(hint.args) != len(args) or set(hint.named) != set(named):
            raise BadArgument(f"the hint is for {len(hint.args)} arguments and {sorted(hint.named)}; "
                              f"{len(args)} and {sorted(named)} were given", "input_split_hint")
        return hint.args, hint.named

    def _parts(self, args, named):
        axes, named_axes = self._axes(args, named)
        split = [(v, a) for v, a in zip(args, axes) if a is not None]
        split += [(v, named_axes[n]) for n, v in named.items() if named_axes[n] is not None]
        sizes = {v.shape[a] for v, a in split}
        if len(sizes) != 1:
            raise BadArgument(f"arguments of one batch are needed; there are sizes {sorted(sizes)}", "input_split_hint")
        size = sizes.pop()
        streams = max(1, min(self.num_streams, size))
        each, more = divmod(size, streams)
        for i in range(streams):
            start = i * each + min(i, more)
            stop = start + each + (i < more)
            yield ([v if a is None else _slice(v, a, start, stop) for v, a in zip(args, axes)],
                   {n: v if named_axes[n] is None else _slice(v, named_axes[n], start, stop) for n, v in named.items()})

    def _over_tasks(self, args, named):
        with self._lock:
            self._check_open()
            if self._tasks is None:
                self._tasks = [Task(self._model, part) for part in self._pool.split(self.num_streams)]
        futures = [task(*a, **n) for task, (a, n) in zip(self._tasks, self._parts(args, named))]
        results = [f.result() for f in futures]
        if not self.concat_output:
            return results
        if isinstance(results[0], tuple):
            axes = self._axis if isinstance(self._axis, (tuple, list)) else [self._axis] * len(results[0])
            return tuple(_join(list(parts), axis) for parts, axis in zip(zip(*results), axes))
        return _join(results, self._axis) if len(results) > 1 else results[0]

    def _check_open(self):
        if self._stopped:
            raise BadArgument("this MultiStreamModule was stopped: it takes no more calls")

    def _call(self, args, named, run):
        result = self._over_streams(args, named, run) if self._joins else None
        return self._over_tasks(args, named) if result is None else result

    def __call__(self, *args, **named):
        return self._call(args, named, lambda streams: streams.run)

    def stop(self):
        """Waits for the calls so far, and takes no more."""
        with self._lock:
            self._stopped = True
            self._streams = None
            for task in self._tasks or ():
                task.stop()
