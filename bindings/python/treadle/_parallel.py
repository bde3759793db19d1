"""How many threads compute, by the names that PyTorch has for it. Who decides: the argument of load, session or
torch.compile; else set_num_threads; else TREADLE_NUM_THREADS, OMP_NUM_THREADS or MKL_NUM_THREADS (these two at most what
there is); else affinity and the cgroup's quota."""

import os

from . import _core, _threads
from ._errors import BadArgument

_VARIABLES = ("TREADLE_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def _from_environment():
    """(threads, the variable that says so); (0, None): none does."""
    for name in _VARIABLES:
        text = os.environ.get(name, "").split(",")[0].strip()
        if text.isdecimal() and 1 <= int(text) <= 4096:
            count = int(text)
            return (count if name == _VARIABLES[0] else min(count, _threads.usable())), name
    return 0, None


def _allowed():
    """Threads of a session that nobody limits: what affinity and quota allow."""
    model = _core.load("builtin:layer:linear 512x512 out=512".encode())
    return _core.Session(model, 0, 0, None, None, 1).stats()["threads"]


def _count(threads):
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= 4096:
        raise BadArgument(f"{threads!r} threads: a number from 1 to 4096 is needed", "threads")
    return threads


def set_num_threads(threads):
    """Threads of the calls that come, of all models that were loaded without a number of their own."""
    _threads.set_default(_count(threads), None)


def set_num_interop_threads(threads):
    """The same for what a TorchScript model forks."""
    _threads.set_default(None, _count(threads))


def get_num_threads():
    return _threads.default_threads or _allowed()


def get_num_interop_threads():
    return _threads.default_interop or get_num_threads()


def parallel_info():
    """Text: the threads, who decides them, the CPUs of this process, and the variables that count."""
    own, variable = _from_environment()
    if _threads.default_threads == 0:
        why = "affinity and quota"
    else:
        why = variable if own == _threads.default_threads and not _threads.was_set else "set_num_threads"
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    lines = ["Treadle parallel information:",
             f"\ttreadle.get_num_threads() : {get_num_threads()}, by {why}",
             f"\ttreadle.get_num_interop_threads() : {get_num_interop_threads()}",
             f"\tCPUs of this process : {len(cpus)}: {','.join(map(str, cpus))}",
             "Environment variables:"]
    lines += [f"\t{name} : {os.environ.get(name, '[not set]')}" for name in _VARIABLES]
    return "\n".join(lines) + "\n"


_threads.default_threads = _from_environment()[0]
