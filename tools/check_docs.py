#!/usr/bin/env python3
"""Compares the documents with the program: check_docs.py BUILD [--write].

README.md's table of what works and the lists of docs/operators.md must be what `treadle info --json` says; --write puts it
there. Links to files and headings must lead somewhere. Every sub-command stands in the manual. The commands of the pages that walk through a
case are run, those of other tools where these can be used, and what docs/debugging.md shows of them is what they print, numbers
and names of instruction sets aside. Ends with a count of checks."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

README = pathlib.Path("README.md")
WALKS = [pathlib.Path("docs/profiling.md"), pathlib.Path("docs/quantization.md")]  # every command in them is run
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


def anchors(page):
    """Headings as links name them: in small letters, a dash for a blank, without marks."""
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            for title in re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)}


def check_links():
    problems = []
    for page in [README, pathlib.Path("CONTRIBUTING.md"), *sorted(pathlib.Path("docs").rglob("*.md"))]:
        for target, place in re.findall(r"\]\(([^)#]*)(?:#([^)]+))?\)", page.read_text()):
            file = page.parent / target if target else page
            if "://" in target:
                continue
            if not file.exists():
                problems.append(f"{page}: {target} does not exist")
            elif place and place not in anchors(file):
                problems.append(f"{page}: {target} has no heading #{place}")
    return problems


def check_manual(treadle, build):
    manual = (build / "treadle.1").read_text().replace("\\-", "-")
    usage = subprocess.run([treadle, "help"], check=True, capture_output=True, text=True).stdout
    commands = re.findall(r"^  ([a-z-]+) ", usage, re.MULTILINE)
    problems = [f"the manual does not have `treadle {name}`" for name in commands if name not in manual]
    return problems or ([] if commands else ["`treadle help` lists no sub-commands"])


# What other tools need to be asked at all: where this fails, what a page has them do must fail, too.
PROBES = {"perf": "perf record -o probe.data -e cpu-clock true && perf inject -j -i probe.data -o named.data",
          "gdb": "gdb --version", "readelf": "readelf --version"}


def blocks_of(page):
    """(kind, tool or file, text) of the page's blocks."""
    return [(kind, more, body) for kind, more, body in
            re.findall(r"^```(\S+)(?: (\S+))?\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)]


def inline_commands(page):
    """`treadle COMMAND ...` within sentences; a command alone is asked for its help."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for command in dict.fromkeys(re.findall(r"`(treadle [a-z][^`]*)`", text)):
        yield command if len(command.split()) > 2 else f"treadle help {command.split()[1]}"


def run(command, folder, build):
    environment = {**os.environ, "PATH": f"{build.resolve()}{os.pathsep}{os.environ['PATH']}", "XDG_CACHE_HOME": folder, "HOME": folder}
    return subprocess.run(["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, errors="replace")


def run_block(page, tool, body, folder, build, compared):
    """Commands of a block, one after the other: what is wrong, and what could not be asked. Those of another tool must fail
    where it is not, or may not look."""
    problems, skips = [], []
    probe = run(PROBES[tool], folder, build) if tool else None
    for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", body, re.MULTILINE):
        done = run(command, folder, build)
        if probe and probe.returncode != 0:
            skips.append(f"{page}: `{command}`: {tool} cannot be used here: {probe.stderr.strip()[-120:]}")
            if done.returncode == 0:
                problems.append(f"{page}: `{command}` passes, though {tool} cannot be used here: mend PROBES")
        elif not compared and done.returncode != 0:
            problems.append(f"{page}: `{command}` exits {done.returncode}: {done.stderr.strip()}")
        elif compared or tool:
            problems += check_shown(page, command, shown.splitlines(), (done.stdout + done.stderr).splitlines())
    return problems, skips


def check_commands(page, build, compared):
    """Runs a page's commands as a reader would, one after the other, in a folder of their own, with the files of its blocks
    of text. `compared`: what it shows of them is held against what they print; else they must succeed."""
    problems, skips = [], []
    with tempfile.TemporaryDirectory() as folder:
        for kind, more, body in blocks_of(page):
            if kind == "text" and more:
                pathlib.Path(folder, more).write_text(body)
            if kind != "console":
                continue
            wrong, left_out = run_block(page, more, body, folder, build, compared)
            problems += wrong
            skips += left_out
        for command in inline_commands(page):
            done = run(command, folder, build)
            if done.returncode != 0:
                problems.append(f"{page}: `{command}` exits {done.returncode}: {done.stderr.strip()}")
    for skip in skips:
        print("skipped:", skip)
    return problems


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


def main():
    build = pathlib.Path(sys.argv[1])
    treadle = build / "treadle"
    passed = failed = 0
    pages = [check_commands(page, build, page == DEBUGGING) for page in (*WALKS, DEBUGGING)]
    for problems in (check_table(treadle, "--write" in sys.argv), check_links(), check_manual(treadle, build), *pages):
        for problem in problems:
            print("FAILED", problem)
        passed, failed = passed + (not problems), failed + bool(problems)
    print(f"{passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
