#!/usr/bin/env python3
"""Counts what the design wants less of, and fails where there is more than the ceilings below: lower them with each step.

Operator names in string literals, and compared as strings, per room that knows operators by id or by their descriptors'
fields alone (those that are left in kernels are texts of messages); names of kernel levels outside the list of levels;
lines over 120 columns in documents, READMEs included (tables, code and words that nothing can break aside); source
files over 700 lines; functions of more than 8 parameters; home-made words for what the field has a word for, in
comments and identifiers; passes without a test that has the text before and after them. Ends with a count of checks."""
import pathlib
import re
import subprocess
import sys

OPERATOR_NAMES = {"passes": 0, "fuse": 0, "lower": 0, "compile": 0, "codegen": 0, "plan": 0, "kernels": 8, "runtime": 0}
LEVEL_NAMES = {"src": 7, "apps": 0, "include": 0}
LONG_LINES_OF_A_PAGE = 0
# Inner loops of kernels and references, to which a struct would be dearer than registers.
MANY_PARAMETERS = {
    "multiply_rows": 15, "where_row": 10, "run_rows": 9, "transform_panel": 9, "multiply_run": 9}
# Home-made words, and those of the field.
HOME_MADE_WORDS = {
    "turned": "transposed, rotated or flipped", "told apart": "distinguished", "stands alone": "unfused", "in turns": "interleaved",
    "makes way": "is replaced", "picked": "gathered"}
COLUMNS, LINES, PARAMETERS = 120, 700, 8
C_FOLDERS = ["src", "include", "apps", "bindings", "tests", "examples"]


def read(path):
    return path.read_text().splitlines()


def code_of(path):
    """The text without comments; strings stay."""
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", path.read_text(), flags=re.S)


def sources(folder):
    return sorted(path for path in pathlib.Path(folder).rglob("*") if path.suffix in (".c", ".h", ".def"))


def count_operator_names():
    for room in OPERATOR_NAMES:
        yield f"operator names in src/{room}", sum(
            len(re.findall(r'"(?:aten|td|prim)::[A-Za-z0-9_.]*"|str\w*cmp\([^;]*op->name', code_of(path))) for path in sources(f"src/{room}")), OPERATOR_NAMES[room]


def count_level_names():
    for folder in LEVEL_NAMES:
        yield f"level names in {folder}", sum(
            len(re.findall(r'"(?:vector|avx2|avx512)"|KERN_LEVEL_\w+', code_of(path))) for path in sources(folder)), LEVEL_NAMES[folder]


def prose(path):
    """(number, line) of a document outside of tables and code; what is indented in an item of a list is no code."""
    code = item = False
    for number, line in enumerate(read(path), 1):
        if line.lstrip().startswith("```"):
            code = not code
            continue
        if re.match(r" *(?:[-*+]|\d+\.) ", line):
            item = True
        elif line and not line.startswith(" "):
            item = False
        if not code and (item or not line.startswith("    ")) and not line.lstrip().startswith("|"):
            yield number, line


def is_too_long(line):
    """A word that nothing can break, such as a link, may be as long as it is."""
    return len(line) > COLUMNS and " " in re.sub(r"^ *(?:[-*+#>]+|\d+\.) +", "", line).strip()


def count_long_lines():
    listed = subprocess.run(["git", "ls-files", "-z", "--", "*.md"], check=True, stdout=subprocess.PIPE, text=True).stdout
    for path in filter(None, listed.split("\0")):
        long = [number for number, line in prose(pathlib.Path(path)) if is_too_long(line)]
        yield f"lines over {COLUMNS} columns in {path}" + "".join(f", line {n}" for n in long), len(long), LONG_LINES_OF_A_PAGE


def count_long_files():
    for folder in C_FOLDERS:
        for path in sources(folder):
            if path.suffix != ".def" and (lines := len(read(path))) > LINES:
                yield f"lines of {path}", lines, LINES


def functions(path):
    """(name, number of parameters) of the functions that a file defines, as clang-format lays them out."""
    text = re.sub(r"^#(?:.*\\\n)*.*$", "", code_of(path), flags=re.M)
    for found in re.finditer(r"^[A-Za-z_][\w \*]*[ \*](\w+)\(([^;{}]*?)\) \{$", text, flags=re.M):
        depth, count = 0, 1
        for c in found[2]:
            depth += (c == "(") - (c == ")")
            count += c == "," and depth == 0
        yield found[1], count


def count_parameters():
    for folder in C_FOLDERS:
        for path in sources(folder):
            for name, count in functions(path):
                if count > PARAMETERS:
                    yield f"parameters of {path}: {name}", count, MANY_PARAMETERS.get(name, PARAMETERS)


def count_home_made_words():
    words = re.compile(r"(?<![A-Za-z])(?:" + "|".join(word.replace(" ", r"\s+(?:\*\s+)?") for word in HOME_MADE_WORDS) + r")(?![A-Za-z])")
    for room in sorted(path for path in pathlib.Path("src").iterdir() if path.is_dir()):
        found = [word for path in sources(room) for word in words.findall(path.read_text())]
        advice = "".join(f", {word}: say {better}" for word, better in HOME_MADE_WORDS.items() if word in found)
        yield f"home-made words in {room}{advice}", len(found), 0
        yield f"names that are `worth` in {room}", sum(
            len(re.findall(r"(?<![A-Za-z])worth(?![A-Za-z])", re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', code_of(path)))) for path in sources(room)), 0


def count_passes_without_text():
    """Tests by text name the pass among the first arguments of expect_change and its relatives (tests/passes/change.h)."""
    tested = set()
    for path in sources("tests/passes") + sources("tests/fuse"):
        text = path.read_text()
        for call in re.finditer(r"\bexpect_(?:change|loops)\w*\(", text):
            tested |= set(re.findall(r'"(\w+)"', text[call.end():call.end() + 200]))
    names = re.findall(r"^PASS\((\w+)", pathlib.Path("src/passes/passes.def").read_text(), flags=re.M)
    yield "passes without a test by text" + "".join(f", {name}" for name in names if name not in tested), len(set(names) - tested), 0


def main():
    passed = failed = 0
    for count in (count_operator_names, count_level_names, count_long_lines, count_long_files, count_parameters,
                  count_home_made_words, count_passes_without_text):
        for what, found, most in count():
            if found > most:
                print(f"FAILED {what}: {found}; {most} are allowed")
            elif found < most:
                print(f"{what}: {found}; lower the ceiling from {most}")
            passed, failed = passed + (found <= most), failed + (found > most)
    print(f"{passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
