#!/usr/bin/env python3
"""Compares the documents with the program: check_docs.py BUILD [--write].

README.md's table of what works and the lists of docs/operators.md must be what `treadle info --json` says; --write puts it
there. Links to files must lead somewhere. Every sub-command stands in the manual. The commands of the pages that walk through a
case are run, and what docs/debugging.md shows of them is what they print, numbers and names of instruction sets aside. Ends
with a count of checks."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

README = pathlib.Path("README.md")
WALKS = [pathlib.Path("docs/profiling.md")]  # every command in them is run
DEBUGGING = pathlib.Path("docs/debugging.md")  # and what it shows of them is held against what they print
OPERATORS = pathlib.Path("docs/operators.md")
BEGIN = "<!-- what works: written by tools/check_docs.py --write -->\n"
END = "<!-- end of what works -->\n"
# Lists of names in the JSON, and what a reader calls them.
ROWS = [
    ("formats", "model formats"),
    ("builtins", "built-in architectures (`builtin:NAME`)"),
    ("backends", "backends"),
    ("passes", "graph passes"),
    ("onnx_operators", "ONNX operators"),
    ("torch_operators", "PyTorch's operators"),
    ("operators", "operators of the graph"),
]


def find(value, key):
    """The list under `key`, wherever it stands in the JSON."""
    if isinstance(value, dict):
        if isinstance(value.get(key), list):
            return value[key]
        for inner in value.values():
            found = find(inner, key)
            if found is not None:
                return found
    return None


def code(names):
    return " ".join(f"`{name}`" for name in names)


def table(info):
    """One row a list: the short ones in full, the operators as a count and a link."""
    lines = ["| what | how many | which |", "|---|---|---|"]
    for key, title in ROWS:
        names = find(info, key) or []
        which = code(names) if len(names) < 20 else f"[docs/operators.md]({OPERATORS})"
        lines.append(f"| {title} | {len(names)} | {which} |")
    return "\n".join(lines) + "\n"


def wrapped(names):
    lines = [""]
    for name in names:
        if len(lines[-1]) + len(name) > 110:
            lines.append("")
        lines[-1] += f"`{name}` "
    return "\n".join(line.rstrip() for line in lines) + "\n"


def lists(info):
    onnx = find(info, "onnx_operators")
    plain = [name for name in onnx if "." not in name]
    text = f"## ONNX, the default domain ({len(plain)})\n\n{wrapped(plain)}"
    for domain in sorted({name.rsplit(".", 1)[0] for name in onnx if "." in name}):
        names = [name.rsplit(".", 1)[1] for name in onnx if name.rsplit(".", 1)[0] == domain]
        text += f"\n## ONNX, {domain} ({len(names)})\n\n{wrapped(names)}"
    torch = find(info, "torch_operators")
    for library in sorted({name.split("::")[0] for name in torch}):
        names = [name.split("::")[1] for name in torch if name.split("::")[0] == library]
        text += f"\n## PyTorch, {library} ({len(names)})\n\n{wrapped(names)}"
    own = find(info, "operators")
    return text + f"\n## Operators of the graph ({len(own)})\n\n{wrapped(own)}"


def check_part(page, new, write):
    text = page.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        return [f"{page}: the marks around what works are missing"]
    before, rest = text.split(BEGIN)
    old, after = rest.split(END)
    if write:
        page.write_text(before + BEGIN + new + END + after)
    elif old != new:
        return [f"{page}: what works differs from `treadle info`; run: tools/check_docs.py {sys.argv[1]} --write"]
    return []


def check_table(treadle, write):
    info = json.loads(subprocess.run([treadle, "info", "--json"], check=True, capture_output=True, text=True).stdout)
    return check_part(README, table(info), write) + check_part(OPERATORS, lists(info), write)


def check_links():
    problems = []
    for page in [README, pathlib.Path("CONTRIBUTING.md"), *sorted(pathlib.Path("docs").glob("*.md"))]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target and not (page.parent / target).exists():
                problems.append(f"{page}: {target} does not exist")
    return problems


def check_manual(treadle, build):
    manual = (build / "treadle.1").read_text().replace("\\-", "-")
    usage = subprocess.run([treadle, "help"], check=True, capture_output=True, text=True).stdout
    commands = re.findall(r"^  ([a-z-]+) ", usage, re.MULTILINE)
    problems = [f"the manual does not have `treadle {name}`" for name in commands if name not in manual]
    return problems or ([] if commands else ["`treadle help` lists no sub-commands"])


def commands_of(page):
    """The lines after "$ " in blocks of ```console."""
    blocks = re.findall(r"^```console\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def check_commands(page, build):
    """Runs a page's commands as a reader would, one after the other, in a folder of their own."""
    path = f"{build.resolve()}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        for command in commands_of(page):
            done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True,
                                  env={**os.environ, "PATH": path})
            if done.returncode != 0:
                return [f"{page}: `{command}` exits {done.returncode}: {done.stderr.strip()}"]
    return []


def pattern(line):
    """A line of output as a regular expression: any numbers, any width of blanks, any instruction set."""
    parts = re.split(r"(_(?:scalar|vector|avx2|avx512)|[-+]?\d[\d.]*(?:e[-+]?\d+)?|\s+)", line.rstrip())
    loose = {"_": r"_\w+", " ": r"\s+"}
    return re.compile("".join(
        re.escape(part) if i % 2 == 0 else loose.get(part[0] if part[0] == "_" else " " if part.isspace() else "", r"[-+\d.e]+")
        for i, part in enumerate(parts)))


def check_shown(page, command, shown, printed):
    """The lines that a page shows stand in this order in what was printed; after "..." others may come between."""
    at = 0
    for line in shown:
        if line.strip() == "...":
            continue
        while at < len(printed) and not pattern(line).fullmatch(printed[at].rstrip()):
            at += 1
        if at == len(printed):
            return [f"{page}: `{command}` does not print {line!r}; it prints:\n" + "\n".join(printed)]
        at += 1
    return []


def check_output(page, build):
    """Runs the commands of a page's ```console blocks in a folder of their own, with the files of its ```text blocks."""
    problems = []
    path = f"{build.resolve()}:{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PATH": path, "XDG_CACHE_HOME": folder}
        for kind, body in re.findall(r"^```(\S+(?: \S+)?)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
            if kind.startswith("text "):
                pathlib.Path(folder, kind.split()[1]).write_text(body)
            if kind != "console":
                continue
            for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", body, re.MULTILINE):
                ran = subprocess.run(["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True)
                problems += check_shown(page, command, shown.splitlines(), (ran.stdout + ran.stderr).splitlines())
    return problems


def main():
    build = pathlib.Path(sys.argv[1])
    treadle = build / "treadle"
    passed = failed = 0
    pages = [check_commands(page, build) for page in WALKS if page.exists()]
    for problems in (check_table(treadle, "--write" in sys.argv), check_links(), check_manual(treadle, build), *pages,
                     check_output(DEBUGGING, build)):
        for problem in problems:
            print("FAILED", problem)
        passed, failed = passed + (not problems), failed + bool(problems)
    print(f"{passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
