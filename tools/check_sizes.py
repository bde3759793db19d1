#!/usr/bin/env python3
"""Size limits of CONTRIBUTING.md: files below 800 lines, functions of at most 80 lines, lines of at most 120 columns.

A function is what stands between a line that begins in column 0 and ends with `{`, and the next `}` in column 0: that is
how clang-format lays them out. Ends with a count of files."""
import pathlib
import re
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


def main():
    passed = failed = 0
    for folder in FOLDERS:
        for path in sorted(pathlib.Path(folder).rglob("*.[ch]")):
            found = list(problems(path))
            for line in found:
                print("FAILED", line)
            passed, failed = passed + (not found), failed + bool(found)
    print(f"{passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
