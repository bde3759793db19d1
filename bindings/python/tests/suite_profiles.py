"""Profiles of the built-in models on 1, 2 and 3 threads: no figure breaks what it means."""

import json
import pathlib
import subprocess

SOURCES = pathlib.Path(__file__).resolve().parents[3] / "src/import/builtin/builtin.def"
SLACK = 1.0005  # figures are written with six digits


def broken(profile, threads):
    """What is wrong with the figures of a profile, in words."""
    rows, run_ns = profile["rows"], profile["run_ms"] * 1e6
    for row in rows:
        for what, holds in (("self <= total", row["self_ns"] <= row["ns"]), ("total <= run", row["ns"] <= run_ns * SLACK),
                            ("self <= busy", row["self_ns"] <= row["busy_ns"] * SLACK),
                            ("busy <= threads", row["busy_ns"] <= threads * row["ns"] * SLACK),
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
    parser.add_argument("--batch", default="", help="sizes of the batch, separated by commas; default that of the model")


def run(options):
    from treadle.__main__ import command
    names = [line[len("BUILTIN("):-1] for line in SOURCES.read_text().splitlines() if line.startswith("BUILTIN(")]
    failed = count = 0
    for name in (n for n in names if options.only in n):
        for threads in (1, 2, 3):
            for batch in options.batch.split(","):
                words = ["--batch", batch] if batch else []
                made = subprocess.run([command(), "profile", f"builtin:{name}", "--threads", str(threads), "--runs", "3", "--no-limits", "--json",
                                       *words], capture_output=True, text=True)
                wrong = list(broken(json.loads(made.stdout), threads)) if made.returncode == 0 else [made.stderr]
                count, failed = count + 1, failed + bool(wrong)
                for words in wrong[:3]:
                    print(f"{name}, {threads} threads{', batch ' + batch if batch else ''}: {words}")
    print(f"{count - failed} passed, {failed} failed")
    return failed != 0
