"""Ranges for VTune and other profilers that speak ITT, under the names of torch.profiler.itt. Such a profiler starts the
process with INTEL_LIBITTNOTIFY64 set; without it, ranges cost next to nothing."""

import contextlib
import os

from . import _core
from ._events import emitting

_path = os.environ.get("INTEL_LIBITTNOTIFY64")
_collector = _core.Collector(_path) if _path else None


def is_available():
    """Is there a collector?"""
    return _collector is not None


def range_push(msg):
    """A range begins, on this thread."""
    if _collector:
        _collector.push(msg)


def range_pop():
    """The range that began last on this thread ends."""
    if _collector:
        _collector.pop()


def mark(msg):
    """A moment."""
    if _collector:
        _collector.mark(msg)


def pause():
    """The collector collects no more, until resume."""
    if _collector:
        _collector.pause()


def resume():
    """It collects again."""
    if _collector:
        _collector.resume()


@contextlib.contextmanager
def emit():
    """While it lasts, each inference is a range, on any thread, and in it each layer on the caller's: the user's name first, the
    operator and the kernel behind it. torch.profiler.emit_itt() does so, too, and for PyTorch's operators."""
    make = _Range if _collector else None
    if make:
        emitting.append(make)
    try:
        yield
    finally:
        if make:
            emitting.remove(make)


class _Range:
    __slots__ = ("name",)

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        _collector.push(self.name)

    def __exit__(self, kind, value, trace):
        _collector.pop()


@contextlib.contextmanager
def range(msg, *args, **kwargs):
    """with itt.range("batch {}", i): ..."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
