"""Work on many items in child processes: what crashes or hangs costs its item, and the rest goes on."""

import multiprocessing
import time


class Failed(Exception):
    """The child died of an item, or was not done with it in time."""


def _work_through(items, work, tell):
    for item in items:
        tell.send(work(item))


def each(items, work, seconds):
    """Yields (item, work(item) or Failed, seconds taken), in order. One child at a time works through the items, as a fork of
    this process; after one that died, or that took more than `seconds` for an item, another goes on with the next."""
    left = list(items)
    while left:
        here, there = multiprocessing.Pipe(False)
        child = multiprocessing.get_context("fork").Process(target=_work_through, args=(left, work, there))
        child.start()
        there.close()
        failed = False
        while left and not failed:
            begin = time.monotonic()
            try:
                result = here.recv() if here.poll(seconds) else Failed(f"not done after {seconds:.0f} s")
            except EOFError:
                child.join()
                result = Failed(f"the process died ({child.exitcode})")
            failed = isinstance(result, Failed)
            yield left.pop(0), result, time.monotonic() - begin
        child.kill()
        child.join()
        here.close()
