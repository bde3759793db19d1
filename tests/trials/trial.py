"""What the trials written in Python share. tools/trials.sh sets TREADLE (the installed command), PREFIX and TOP; the package
is the installed one, and the working folder is empty and the trial's own."""

import json
import os
import subprocess
import sys
import traceback
import warnings

warnings.filterwarnings("ignore")  # of PyTorch, about its older formats
TREADLE = os.environ["TREADLE"]
TOP = os.environ["TOP"]
PREFIX = os.environ["PREFIX"]
_counts = [0, 0]


def check(what, good, *more):
    """Counts; `more` is shown where it is not good."""
    _counts[0 if good else 1] += 1
    if not good:
        print("FAILED", what, *more)


def step(what):
    """with step("..."): an exception inside is a failure."""
    class Step:
        def __enter__(self):
            return self

        def __exit__(self, kind, value, trace):
            check(what, kind is None, "".join(traceback.format_exception(kind, value, trace)[-3:]) if kind else "")
            return True
    return Step()


def refuses(what, kind, text, call):
    """The call raises, and says the text."""
    try:
        call()
    except kind as error:
        check(what, text in str(error), "it says:", error)
        return
    except Exception as error:  # noqa: BLE001
        check(what, False, "it raises", type(error).__name__, error)
        return
    check(what, False, "nothing is raised")


def treadle(*arguments, status=0):
    """The command's output and errors."""
    run = subprocess.run([TREADLE, *map(str, arguments)], capture_output=True, text=True)
    check(" ".join(map(str, arguments)), run.returncode == status, f"status {run.returncode}:", run.stderr[:500])
    return run


def answer(*arguments, status=0):
    """What it prints with --json."""
    text = treadle(*arguments, "--json", status=status).stdout
    try:
        return json.loads(text)
    except ValueError:
        check("JSON of " + " ".join(map(str, arguments)), False, text[:200])
        return {}


def finish():
    print(f"{_counts[0]} passed, {_counts[1]} failed")
    sys.exit(_counts[1] > 0)
