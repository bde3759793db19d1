"""Work on many items in child processes: what crashes or hangs costs its item, and the rest goes on."""

import multiprocessing
import time

PATIENCE = 20  # how much longer than its time on a CPU an item may take on the clock, on a machine that others use, too


class Failed(Exception):
    """The child died of an item, or was not done with it in time."""


def _work_through(items, work, tell):
    for item in items:
        tell.send(work(item))


def _cpu_seconds(child):
    """Of all its threads (clock_getcpuclockid of Linux); 0: it is gone."""
    try:
        return time.clock_gettime((~child.pid << 3) | 2)
    except OSError:
        return 0


def _result(child, here, begin, seconds):
    end = time.monotonic() + PATIENCE * seconds
    while not here.poll(1):
        if _cpu_seconds(child) - begin > seconds or time.monotonic() > end:
            return Failed(f"not done after {seconds:.0f} s of a CPU")
    try:
        return here.recv()
    except EOFError:
        child.join()
        return Failed(f"the process died ({child.exitcode})")


def each(items, work, seconds):
    """Yields (item, work(item) or Failed, seconds of a CPU taken), in order. One child at a time works through the items, as
    a fork of this process; after one that died, or that took more than `seconds` for an item, another goes on with the next."""
    left = list(items)
    while left:
        here, there = multiprocessing.Pipe(False)
        child = multiprocessing.get_context("fork").Process(target=_work_through, args=(left, work, there))
        child.start()
        there.close()
        failed = False
        while left and not failed:
            begin = _cpu_seconds(child)
            result = _result(child, here, begin, seconds)
            failed = isinstance(result, Failed)
            yield left.pop(0), result, max(_cpu_seconds(child) - begin, 0)
        child.kill()
        child.join()
        here.close()
