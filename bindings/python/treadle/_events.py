"""Runs and their steps as ranges, for who listens: torch.profiler and torch's emit_itt, by record-function events as those of
PyTorch's own operators, or treadle.itt.emit."""

import sys

emitting = []  # of treadle.itt: makes a range of a name; the last one counts


def listener():
    """Makes a range of a name; None: nobody listens."""
    profiler = sys.modules.get("torch.autograd.profiler")
    if profiler is not None and profiler._is_profiler_enabled:
        return sys.modules["torch"]._C._profiler._RecordFunctionFast
    return emitting[-1] if emitting else None


def _name(name, op, kernel):
    """The user's layer first, then what it became."""
    name = name[5:] if name.startswith("node ") else name
    made = ", ".join(filter(None, (op, kernel if kernel != op else "")))
    return f"{name}: {made}" if name and made else name or made


def told(make, model, session, run):
    """What `run` gives, in a range of the inference, in which each part of a step that the caller computes is one."""
    names = model._step_names
    if names is None:
        names = model._step_names = [_name(*row) for row in session.steps()]
    open_ranges = []

    def begin(step):
        made = make(names[step])
        made.__enter__()
        open_ranges.append(made)

    def end():
        if open_ranges:
            open_ranges.pop().__exit__(None, None, None)

    whole = make(f"treadle::{model.name}")
    whole.__enter__()
    watched = session.watch(begin, end)
    try:
        return run()
    finally:
        if watched:
            session.watch(None, None)
        while open_ranges:  # of a run that failed
            end()
        whole.__exit__(None, None, None)
