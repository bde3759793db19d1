#!/usr/bin/env python3
"""Size limits of CONTRIBUTING.md: files below 800 lines, functions of at most 80 lines, lines of at most 120 columns.

A function is what stands between a line that begins in column 0 and ends with `{`, and the next `}` in column 0: that is
how clang-format lays them out. Ends with a count of files."""
import pathlib
import re
import subprocess
import sys

FILE_LINES, FUNCTION_LINES, COLUMNS = 800, 80, 120
FOLDERS = ["src", "include", "apps", "bindings", "tests", "examples"]


def problems(path):
    lines = path.read_text().splitlines()
    if len(lines) >= FILE_LINES:
        yield f"{path}: {len(lines)} lines; below {FILE_LINES} are allowed"
    start = None
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS:
            yield f"{path}:{number}: {len(line)} columns; {COLUMNS} are allowed"
        if re.match(r"[A-Za-z_ ].*\)\s*\{$", line):
            start = number
        elif line.startswith("}") and start:
            if number - start + 1 > FUNCTION_LINES:
                yield f"{path}:{start}: a function of {number - start + 1} lines; {FUNCTION_LINES} are allowed"
            start = None


def sources():
    """What git tracks, and what is new and not ignored; of a source package without git, every file."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", *FOLDERS], capture_output=True,
                            text=True, check=False)
    names = listed.stdout.split("\n") if listed.returncode == 0 else map(
        str, [path for folder in FOLDERS for path in pathlib.Path(folder).rglob("*")])
    return sorted({pathlib.Path(name) for name in names if re.search(r"\.[ch]$", name) and pathlib.Path(name).is_file()})


def main():
    passed = failed = 0
    for path in sources():
        found = list(problems(path))
        for line in found:
            print("FAILED", line)
        passed, failed = passed + (not found), failed + bool(found)
    print(f"{passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
