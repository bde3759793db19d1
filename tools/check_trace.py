#!/usr/bin/env python3
"""Reads traces of profiles as viewers do: check_trace.py TRACE.json...

Slices of a thread must nest, one wholly within another or beside it; each has a name, a category of PyTorch's traces, a time and a
length; counters have numbers. Where Perfetto's trace processor is there (TRACE_PROCESSOR, or trace_processor_shell on the search
path), it must find as many slices, with the same sum. Ends with a count of checks."""
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile

CATEGORIES = {"cpu_op", "user_annotation", "kernel", "cpu_instant_event", "Trace"}
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
        elif kind == "C" and not all(isinstance(value, (int, float)) for value in event["args"].values()):
            yield f"{path}: a counter without numbers: {event}"
        elif kind not in ("X", "C", "M", "i"):
            yield f"{path}: an event of kind {kind}"
        else:
            continue
        return


def processor_problems(path, slices, processor):
    """What the trace processor makes of the file: as many slices, as long together."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as query:
        query.write("select count(*), sum(dur) from slice;\n")
        query.flush()
        done = subprocess.run([processor, "-q", query.name, path], capture_output=True, text=True, timeout=120)
    last = done.stdout.strip().splitlines()[-1:] if done.returncode == 0 else []
    if not last:
        return [f"{path}: {processor}: {done.stderr.strip()[-300:]}"]
    count, total = (float(word) for word in last[0].replace('"', "").split(","))
    mine = sum(event["dur"] for event in slices) * 1e3
    same = count == len(slices) and abs(total - mine) <= 1e-6 * mine + len(slices)
    return [] if same else [f"{path}: {processor} finds {count:.0f} slices of {total:.0f} ns, not {len(slices)} of {mine:.0f}"]


def main():
    processor = os.environ.get("TRACE_PROCESSOR") or shutil.which("trace_processor_shell")
    if not processor:
        print("skipped: Perfetto's trace processor, which is not there (TRACE_PROCESSOR names it)")
    passed = failed = 0
    for path in sys.argv[1:]:
        events = json.load(open(path))["traceEvents"]
        slices = slices_of(events)
        checks = [list(form_problems(path, events)), list(nesting_problems(path, slices))]
        if processor:
            checks.append(processor_problems(path, slices, processor))
        for problems in checks:
            for problem in problems:
                print("FAILED", problem)
            passed, failed = passed + (not problems), failed + bool(problems)
    print(f"{passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
