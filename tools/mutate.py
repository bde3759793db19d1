#!/usr/bin/env python3
"""mutate.py [--near] [--room ROOM] [--only GLOB]... [N] [SECONDS] [SEED] -- ./dev mutate: faults put into the sources,
one at a time, and held against the release tests and the recorded models. What no test notices is printed with its file
and line: it is equivalent, or wants a test.

A room is chosen by how many places it has for a fault, then the place: a comparison, a sign, a truth value, a
negation, a connective, a constant. One seed gives the same faults in the same tree. All is done in a copy,
build-mutate/tree. The test of the file comes first, then those of its room, then the others; the first that fails, and
fails twice, ends it. What changes no byte of the library, or does not compile, is not counted. --near: the room's tests
alone, about a minute a fault instead of eight; what they do not notice may be noticed by another room's. --room: faults
in src/ROOM alone, or in apps/NAME, as --room apps/serve. --only: in files alone whose path a GLOB matches: '*amx*'."""

import argparse
import collections
import fnmatch
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

CORPUS = pathlib.Path(os.environ.get("TREADLE_CORPUS", "../shared/corpus")).resolve()
TREE = pathlib.Path("build-mutate/tree")
PROGRAMS = ["treadle", "treadle-launch", "treadle-quantize", "treadle-serve", "treadle-sweep"]
SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-", "-": "+",
         "+=": "-=", "-=": "+=", "true": "false", "false": "true"}
# what is skipped comes first: cases that operators are tested with, comments, texts, preprocessor lines
TOKENS = re.compile(r"""(?P<skip>^static\ bool\ \w+\((?:const\ )?ir_case\ \*.*?^\}"""
                    r"""|^static\ const\ (?:struct\ )?\w*case\w*\b.*?^\};"""
                    r"""|/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|^[ \t]*\#(?:\\\n|[^\n])*)"""
                    r"""|(?P<swap>(?<=[ ])(?:<=?|>=?|==|!=|&&|\|\||\+=?|-=?)(?=[ ])|\b(?:true|false)\b)"""
                    r"""|(?P<not>(?<=[( ])!(?=\w))|(?P<number>(?<=[\[( ])\d+(?=[\]);, ]))""", re.S | re.M | re.X)
BESIDE = {"kernels": ["ops"]}  # rooms whose tests are a room's, too: kernels are run on the cases of operators
CHECKS = {"serve": ["workflows", "sequences", "grpc", "handlers"]}  # of a room's tests those that are programs in tools/
Fault = collections.namedtuple("Fault", "path at old new")


def faults_of(path):
    for token in TOKENS.finditer(path.read_text()):
        old = token[0]
        if token["swap"]:
            yield Fault(path, token.start(), old, SWAPS[old])
        elif token["not"]:
            yield Fault(path, token.start(), old, "")
        elif token["number"]:
            yield Fault(path, token.start(), old, str(int(old) + 1))


def run(command, seconds):
    """Does it end well in time?"""
    try:
        done = subprocess.run(command, cwd=TREE, timeout=seconds, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace")
        return done.returncode == 0, done.stdout
    except subprocess.TimeoutExpired:
        return False, "too slow"


def shell(command, seconds=1800):
    return run(["sh", "-c", ". tools/common.sh; " + command], seconds)


def code(targets):
    """The code of the library, or of the programs, without what debuggers read."""
    files = ["libtreadle.a" if target == "treadle_static" else target for target in targets]
    for file in files:
        subprocess.run(["objcopy", "--strip-debug", f"build/{file}", "build/plain"], cwd=TREE, check=True)
        yield (TREE / "build/plain").read_bytes()


def copy_tree():
    TREE.mkdir(parents=True, exist_ok=True)
    files = subprocess.run(["git", "ls-files"], check=True, stdout=subprocess.PIPE, text=True).stdout.split("\n")
    for old in (path for top in TREE.iterdir() if top.name != "build" for path in top.rglob("*")):
        if old.is_file() and str(old.relative_to(TREE)) not in files:
            old.unlink()  # of an earlier run: CMake would compile it
    for name in filter(None, files):
        source, target = pathlib.Path(name), TREE / name
        if not source.is_file() or (target.is_file() and target.read_bytes() == source.read_bytes()):
            continue  # what did not change is not compiled again
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


TEST = "ctest --test-dir build --timeout 300 --repeat until-pass:2 -j2 --stop-on-failure"


def build_and_run(tests):
    return f"cmake --build build --target {' '.join(tests)} && {TEST} -R '^({'|'.join(tests)})(_[0-9]+)?$'"


def noticed(path, room, near_alone):
    """What notices the fault that is in the tree; None: nothing does."""
    near = [test.stem for of in [room, *BESIDE.get(room, [])] for test in sorted((TREE / "tests" / of).glob("test_*.c"))]
    own = f"test_{path.stem}"
    steps = [(own, build_and_run([own]))] if own in near else []
    steps += [(f"tests of {room}", build_and_run(near))] if near else []
    steps += [(f"check_{name}", f"cmake --build build && /usr/bin/python3 tools/check_{name}.py build")
              for name in CHECKS.get(room, [])]
    if not (near and near_alone):
        steps += [("another test", f"cmake --build build && {TEST}"),
                  ("ONNX's cases", "check_onnx build native && check_onnx build eager"),
                  ("recorded models", f"[ ! -d '{CORPUS}' ] || {{ corpus='{CORPUS}'; check_corpus build native; }}")]
    for name, command in steps:
        fine, output = shell(command)
        if not fine:
            failed = re.search(r"\d+ - (\S+) \((?:Failed|Timeout|SEGFAULT|Subprocess aborted|ILLEGAL)", output)
            return failed[1] if failed else name
    return None


def main(options):
    end = time.time() + options.seconds
    top = pathlib.Path(options.room if options.room.startswith("apps/") else f"src/{options.room}")
    targets = ["treadle_static"] if top.parts[0] == "src" else PROGRAMS
    if not top.is_dir():
        sys.exit(f"mutate: there is no {top}; name a folder of src, as docs/design.md lists them, or of apps")
    copy_tree()
    fine, output = shell("configure release && cmake --build build")
    if not fine:
        sys.exit(output[-2000:] + "\nmutate: the tree does not build")
    before = list(code(targets))
    rooms = collections.defaultdict(list)
    files = sorted([*(TREE / top).rglob("*.c"), *(TREE / top).rglob("*_priv.h")])
    for path in files:
        if any(fnmatch.fnmatch(str(path.relative_to(TREE)), glob) for glob in options.only or "*"):
            rooms[path.relative_to(TREE).parts[1]] += faults_of(path)
    if not rooms:
        sys.exit(f"mutate: no file of {top} matches {options.only}; give a glob of its path, as '*amx*'")
    chance = random.Random(options.seed)
    found = survived = 0
    while found + survived < options.count and time.time() < end:
        room = chance.choices(list(rooms), [len(all_of) for all_of in rooms.values()])[0]
        fault = chance.choice(rooms[room])
        text = fault.path.read_text()
        line = text.count("\n", 0, fault.at) + 1
        where = f"{fault.path.relative_to(TREE)}:{line}: {fault.old!r} -> {fault.new!r}"
        try:
            fault.path.write_text(text[:fault.at] + fault.new + text[fault.at + len(fault.old):])
            fine, _ = shell(f"cmake --build build --target {' '.join(targets)}")
            if not fine or list(code(targets)) == before:
                print(f"no fault  {where}", flush=True)
                continue
            by = noticed(fault.path, room, options.near)
        finally:
            fault.path.write_text(text)
        found += by is not None
        survived += by is None
        print(f"{'found     ' if by else 'SURVIVED  '}{where}" + (f"  by {by}" if by else ""), flush=True)
    print(f"{found} passed, {survived} failed")
    return survived > 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage="./dev mutate [--near] [--room ROOM] [--only GLOB]... [N] [SECONDS] [SEED]")
    parser.add_argument("--near", action="store_true", help="run the tests of the fault's own room alone")
    parser.add_argument("--room", default="", help="put faults into src/ROOM alone, or into apps/ROOM")
    parser.add_argument("--only", action="append", metavar="GLOB",
                        help="put faults into files alone whose path a GLOB matches")
    for name, default in (("count", 20), ("seconds", 3600), ("seed", 1)):
        parser.add_argument(name, type=int, nargs="?", default=default)
    sys.exit(main(parser.parse_args()))
