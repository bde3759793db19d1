#!/usr/bin/env python3
"""Do profiles add up? check_sums.py BUILD [MODEL...] [--threads N,...]

Each model (default: all that are built in) is profiled on 1 and on 2 threads. What the caller's thread computed in all rows, what it
waited, and what lies between steps must be the run, within 1 %; so must the rows by operator, kernel, class, module and origin be
those by node. Of the trace, the slices of runs must be the runs, those of steps on the caller's thread the rows, and no step may
lie outside of its run. Where Perfetto's trace processor is there (see check_trace.py), it must open the trace without an error,
and its sums of the slices of each operator on the caller's thread must be those of the rows. Ends with a count of checks."""
import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

import check_trace

TOLERANCE = 0.01
EXACT = "trace processor"  # reads the numbers that the table has
GROUPS = ["node", "op", "kernel", "class", "module", "origin"]


def built_in(treadle):
    info = json.loads(subprocess.run([treadle, "info", "--json"], check=True, capture_output=True, text=True).stdout)
    return [f"builtin:{name}" for name in info["builtins"]]


def off(value, of):
    return abs(value - of) / of


def check_rows(profile):
    """Rows and what is between them against the run."""
    rows = sum(row["self_ns"] for row in profile["rows"]) * 1e-6
    return off(rows + profile["wait_ms"] + profile["between_ms"], profile["run_ms"])


def compare_trace(profile, trace, runs):
    """Slices against rows and runs; the trace was made in the same run of the program as the profile."""
    slices = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
    whole = [event for event in slices if event["cat"] == "user_annotation"]
    if len(whole) != runs:
        return 1.0
    steps = [event for event in slices if event["cat"] == "cpu_op" and event["tid"] == whole[0]["tid"]]
    inside = all(any(run["ts"] - 0.001 <= step["ts"] and step["ts"] + step["dur"] <= run["ts"] + run["dur"] + 0.002 for run in whole)
                 for step in steps[:: max(1, len(steps) // 2000)])
    rows = sum(row["self_ns"] for row in profile["rows"]) * 1e-3
    return max(off(sum(event["dur"] for event in steps), rows), off(sum(event["dur"] for event in whole), profile["run_ms"] * 1e3),
               0.0 if inside else 1.0)


# Per operator: the caller's thread is the one that the runs are on.
SUMS = """select slice.name, sum(slice.dur) from slice join thread_track on slice.track_id = thread_track.id
where slice.category = 'cpu_op' and thread_track.utid in (select thread_track.utid from slice join thread_track on
slice.track_id = thread_track.id where slice.category = 'user_annotation') group by slice.name;
"""


def ask_sums(profile, path, processor):
    """How far the trace processor's sums are off those of a table by operator, as a share of all."""
    found = collections.Counter(dict(check_trace.ask_processor(processor, SUMS, path)))
    rows = collections.Counter()
    for row in profile["rows"]:
        rows[row["name"].strip("()")] += row["self_ns"]
    return sum(abs(found[op] - rows[op]) for op in found | rows) / max(1, sum(rows.values()))


def profile_of(treadle, model, threads, group, trace, runs):
    command = [treadle, "profile", model, "--threads", str(threads), "--runs", str(runs), "--group-by", group, "--json", "--no-limits"]
    if trace:
        command += ["--trace", trace, "--records", "200000"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def check_model(treadle, model, threads, runs):
    processor = check_trace.find_processor()
    worst = {"trace": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "trace.json")
        for group in GROUPS:
            profile = profile_of(treadle, model, threads, group, path if group == "op" else None, runs)
            worst[group] = check_rows(profile)
            if group == "op":
                trace = json.load(open(path))
                worst["trace"] = compare_trace(profile, trace, runs)
                if processor:
                    problems = check_trace.processor_problems(path, trace["traceEvents"], processor)
                    worst[EXACT] = 1.0 if problems else ask_sums(profile, path, processor)
                    print("".join(f"{model}: {problem}\n" for problem in problems), end="")
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    treadle = options.build / "treadle"
    passed = failed = 0
    for model in options.models or built_in(treadle):
        for threads in map(int, options.threads.split(",")):
            worst = check_model(treadle, model, threads, options.runs)
            bad = {what: value for what, value in worst.items() if value > (0 if what == EXACT else TOLERANCE)}
            for what, value in bad.items():
                print(f"FAILED {model} on {threads} threads: {what} is off by {100 * value:.3f} %")
            print(f"{model} on {threads}: rows off by {100 * max(worst[g] for g in GROUPS):.4f} %, trace by {100 * worst['trace']:.4f} %",
                  *[f"in the trace processor by {100 * off:.4f} %" for what, off in worst.items() if what == EXACT], flush=True)
            passed, failed = passed + len(worst) - len(bad), failed + len(bad)
    print(f"{passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
