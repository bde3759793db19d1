"""Threads that compute: one pool for all models of the process that ask for as many, on the CPUs that the caller may use."""

import os
import threading
import weakref

from . import _core

default_threads = default_interop = 0  # of models that say no number: set_num_threads; 0: what the machine allows
was_set = False
turn = 0  # counts the changes of these
_lock = threading.Lock()
_pools = weakref.WeakValueDictionary()


class Pool:
    """A pool that lives as long as a model that uses it."""

    __slots__ = ("core", "__weakref__")

    def __init__(self, threads, interop_threads):
        self.core = _core.Pool(threads, 0, interop_threads)


def _cpus():
    return frozenset(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1))


def usable():
    """CPUs that this process may run on."""
    return len(_cpus())


def set_default(threads, interop_threads):
    global default_threads, default_interop, turn, was_set
    default_threads, was_set = (threads, True) if threads is not None else (default_threads, was_set)
    default_interop = default_interop if interop_threads is None else interop_threads
    turn += 1


def shared_pool(threads, interop_threads=0):
    """That of this process with so many threads; 0: what the machine allows."""
    global _lock
    threads, interop_threads = threads or default_threads, interop_threads or default_interop
    cpus = _cpus()  # of runtime.pin, where it is in force
    key = (os.getpid(), cpus, 0 if threads == len(cpus) else threads, 0 if interop_threads == len(cpus) else interop_threads)
    pool = _pools.get(key)
    if pool is None:
        with _lock:
            pool = _pools.get(key)
            if pool is None:
                pool = _pools[key] = Pool(*key[2:])
    return pool


def _forget_lock():
    global _lock
    _lock = threading.Lock()  # in the child of a fork the old one may be held for ever


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_lock)
