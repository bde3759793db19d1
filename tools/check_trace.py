#!/usr/bin/env python3
"""Reads traces of profiles as viewers do: check_trace.py TRACE.json...

Slices of a thread must nest, one wholly within another or beside it; each has a name, a category of PyTorch's traces, a time and a
length; counters have numbers. Names, categories, keys and their types are those of tests/profile/torch_trace.json, which
torch.profiler wrote (an event of each kind of it). Where Perfetto's trace processor is there (TRACE_PROCESSOR, trace_processor_shell on
the search path, or PERFETTO_PAGE and node for tools/trace_processor.cjs), it must find as many slices, with the same sum, on as many
threads, and no errors. Ends with a count of checks."""
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

CATEGORIES = {"cpu_op", "user_annotation", "kernel", "cpu_instant_event", "Trace"}
TORCH = pathlib.Path(__file__).parent.parent / "tests/profile/torch_trace.json"
NS = 1e-3  # in microseconds: times are whole nanoseconds


def slices_of(events):
    return [event for event in events if event.get("ph") == "X"]


def nesting_problems(path, slices):
    threads = collections.defaultdict(list)
    for event in slices:
        threads[event["pid"], event["tid"]].append((event["ts"], -event["dur"], event["name"]))
    for thread, parts in threads.items():
        open_until = []
        for begin, length, name in sorted(parts):
            end = begin - length
            while open_until and open_until[-1][0] <= begin + NS / 2:
                open_until.pop()
            if open_until and end > open_until[-1][0] + NS / 2:
                yield f"{path}: thread {thread}: {name} at {begin} us ends behind {open_until[-1][1]}, in which it began"
                return
            open_until.append((end, name))


def form_problems(path, events):
    for event in events:
        kind = event.get("ph")
        if kind == "X" and not (event.get("name") and event.get("cat") in CATEGORIES and event["ts"] >= 0 and event["dur"] >= 0):
            yield f"{path}: a slice without name, category, time or length: {event}"
        elif kind == "X" and event["cat"] == "cpu_op" and "Kernel" in event["args"] and not isinstance(event["args"].get("cpu"), int):
            yield f"{path}: a part of a step that does not say on which CPU: {event}"
        elif kind == "C" and not all(isinstance(value, (int, float)) for value in event["args"].values()):
            yield f"{path}: a counter without numbers: {event}"
        elif kind not in ("X", "C", "M", "i"):
            yield f"{path}: an event of kind {kind}"
        else:
            continue
        return


def kind_of(event):
    name = event["name"] if event["ph"] == "M" else event["name"].split("#")[0].split("::")[0]
    return event["ph"], event.get("cat"), name if event["ph"] == "M" or "ProfilerStep" in name else ""


def shape_of(value):
    """Numbers are alike, and lists of what is alike."""
    if isinstance(value, list):
        return ["list", *sorted({str(shape_of(item)) for item in value if item != []})]
    return "number" if isinstance(value, (int, float)) else type(value).__name__


def likeness_problems(path, trace, model):
    """What both have must be alike; of what PyTorch always writes nothing may be missing, but for ids of its own."""
    theirs = {kind_of(event): event for event in model["traceEvents"]}
    own = {"trace_id", "host_name", "record_shapes", "with_modules"}
    for key in model:
        if key not in own and shape_of(trace.get(key))[0] != shape_of(model[key])[0]:
            yield f"{path}: {key} is missing or no {shape_of(model[key])}"
    seen = set()
    for event in trace["traceEvents"]:
        kind = kind_of(event)
        if kind in seen or kind not in theirs:
            continue
        seen.add(kind)
        their = theirs[kind]
        for key in their:
            if key not in ("pid", "tid", "args") and shape_of(event.get(key)) != shape_of(their[key]):
                yield f"{path}: {kind}: {key} is missing or no {shape_of(their[key])}"
        if kind[0] == "M" and set(event["args"]) != set(their["args"]):
            yield f"{path}: {kind} says {set(event['args'])}, not {set(their['args'])}"
        for key, value in event.get("args", {}).items():
            if key in their["args"] and shape_of(value) != shape_of(their["args"][key]) and [] not in (value, their["args"][key]):
                yield f"{path}: {kind}: {key} is {value}, PyTorch's is {their['args'][key]}"
    for kind in theirs:
        if kind not in seen and kind[1] != "Trace" and kind[2] != "process_sort_index":
            yield f"{path}: no event of kind {kind}"


def find_processor():
    """Perfetto's own command, or what its page runs (tools/trace_processor.cjs); None: there is neither."""
    named = os.environ.get("TRACE_PROCESSOR") or shutil.which("trace_processor_shell")
    page = os.environ.get("PERFETTO_PAGE") and shutil.which("node")
    return named or (str(pathlib.Path(__file__).parent / "trace_processor.cjs") if page else None)


QUERY = """select count(*), sum(dur), count(distinct track_id), (select count(*) from counter),
(select count(*) from stats where severity in ('error', 'data_loss') and value > 0) from slice;
"""


def ask_processor(processor, query, path):
    """The rows of the query, below the names of its columns; a RuntimeError where the file does not open."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(query)
        file.flush()
        done = subprocess.run([processor, "-q", file.name, path], capture_output=True, text=True, timeout=300)
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        raise RuntimeError(f"{path}: {processor}: {done.stderr.strip()[-300:]}")
    return [json.loads(f"[{line.strip('[]')}]") for line in lines[1:]]


def processor_problems(path, events, processor):
    """What the trace processor makes of the file: as many slices, as long together, on as many threads; no errors."""
    slices = slices_of(events)
    try:
        found = ask_processor(processor, QUERY, path)[-1]
    except RuntimeError as error:
        return [str(error)]
    mine = [len(slices), sum(event["dur"] for event in slices) * 1e3, len({(event["pid"], event["tid"]) for event in slices}),
            sum(event["ph"] == "C" for event in events), 0]
    off = [abs(a - b) > (1e-6 * b + len(slices) if i == 1 else 0) for i, (a, b) in enumerate(zip(found, mine))]
    words = ["slices", "ns", "threads", "counts", "errors"]
    return [f"{path}: the trace processor finds {a:.0f} {word}, not {b:.0f}" for a, b, word, bad in zip(found, mine, words, off) if bad]


def main():
    processor = find_processor()
    if not processor:
        print("skipped: Perfetto's trace processor, which is not there (TRACE_PROCESSOR or PERFETTO_PAGE names it)")
    passed = failed = 0
    model = json.loads(TORCH.read_text())
    for path in sys.argv[1:]:
        trace = json.load(open(path))
        events = trace["traceEvents"]
        slices = slices_of(events)
        checks = [list(form_problems(path, events)), list(nesting_problems(path, slices)), list(likeness_problems(path, trace, model))]
        if processor:
            checks.append(processor_problems(path, events, processor))
        for problems in checks:
            for problem in problems:
                print("FAILED", problem)
            passed, failed = passed + (not problems), failed + bool(problems)
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
