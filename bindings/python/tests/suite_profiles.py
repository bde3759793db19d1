"""Profiles of the built-in and of recorded models, with branches, loops and forks, on 1, 2 and 3 threads: no figure breaks what
it means."""

import json
import os
import pathlib
import subprocess

TOP = pathlib.Path(__file__).resolve().parents[3]
SOURCES = TOP / "src/import/builtin/builtin.def"
RECORDED = [TOP / "tests/models", pathlib.Path(os.environ.get("TREADLE_CORPUS", TOP / "../shared/corpus"))]
SLACK = 1.0005  # figures are written with six digits


def broken(profile, threads):
    """What is wrong with the figures of a profile, in words."""
    rows, run_ns = profile["rows"], profile["run_ms"] * 1e6
    for row in rows:
        for what, holds in (("self <= total", row["self_ns"] <= row["ns"]), ("total <= run", row["ns"] <= run_ns * SLACK),
                            ("self <= busy", row["self_ns"] <= row["busy_ns"] * SLACK),
                            ("busy <= threads", row["threads_busy"] <= threads),
                            ("busy <= threads of the run", row["busy_ns"] <= threads * run_ns * SLACK),
                            ("least <= mean", row["least_ns"] * profile["runs"] <= row["ns"] * SLACK),
                            ("calls of each run", row["calls"] > 0 and row["calls"] % profile["runs"] == 0)):
            if not holds:
                yield f"{row['name']}: {what}: {row}"
    sums = {key: sum(row[key] for row in rows) for key in ("self_ns", "ns", "busy_ns")}
    rest = profile["self_ms"] + profile["wait_ms"] + profile["between_ms"]
    for what, holds in (("rows' self times are the caller's", abs(sums["self_ns"] - profile["self_ms"] * 1e6) <= 1e3),
                        ("rows' times are that of steps", abs(sums["ns"] - profile["step_ms"] * 1e6) <= 1e3),
                        ("steps <= run", profile["step_ms"] <= profile["run_ms"] * SLACK),
                        ("busy <= threads", sums["busy_ns"] <= threads * run_ns * SLACK),
                        ("self, waiting and rest are the run", abs(rest - profile["run_ms"]) <= 1e-5),
                        ("nothing is negative", all(profile[key] >= 0 for key in ("wait_ms", "single_ms", "late_ms", "early_ms")))):
        if not holds:
            yield f"{what}: {({key: value for key, value in profile.items() if key != 'rows'})}"


def add_options(parser):
    parser.add_argument("--only", default="", help="models whose names have this in them")
    parser.add_argument("--batch", default="", help="sizes of the batch of built-in models, separated by commas; default their own")
    parser.add_argument("--models", choices=("builtin", "recorded", "all"), default="all")


def recorded():
    """(name, words of the command) of the models that stand with inputs in tests/models and, where there is one, in the corpus."""
    for case in sorted(path for folder in RECORDED for path in folder.rglob("case.json")):
        told = json.loads(case.read_text())
        given = (told.get("sets") or [told])[0]["inputs"]
        words = [str(case.parent / told["file"])]
        for value in given:
            words += ["--input", str(case.parent / value["file"])]
        yield case.parent.name, words


def builtin(batches):
    for line in SOURCES.read_text().splitlines():
        if line.startswith("BUILTIN("):
            name = line[len("BUILTIN("):-1]
            for batch in batches:
                yield name + (f" of {batch}" if batch else ""), [f"builtin:{name}", *(["--batch", batch] if batch else [])]


def run(options):
    from treadle.__main__ import command
    made = list(builtin(options.batch.split(","))) if options.models != "recorded" else []
    made += recorded() if options.models != "builtin" else []
    failed = count = 0
    for name, words in (m for m in made if options.only in m[0]):
        for threads in (1, 2, 3):
            got = subprocess.run([command(), "profile", *words, "--threads", str(threads), "--runs", "3", "--no-limits", "--json"],
                                 capture_output=True, text=True)
            wrong = list(broken(json.loads(got.stdout), threads)) if got.returncode == 0 else [got.stderr]
            count, failed = count + 1, failed + bool(wrong)
            for what in wrong[:3]:
                print(f"{name}, {threads} threads: {what}")
    print(f"{count - failed} passed, {failed} failed")
    return failed != 0
