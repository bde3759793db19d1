"""Ranges for VTune and other profilers that speak ITT, under the names of torch.profiler.itt. Such a profiler starts the
process with INTEL_LIBITTNOTIFY64 set; without it, ranges cost next to nothing."""

import contextlib
import os

from . import _core

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


@contextlib.contextmanager
def range(msg, *args, **kwargs):
    """with itt.range("batch {}", i): ..."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
