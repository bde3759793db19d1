#!/usr/bin/env python3
"""The walls between the rooms of src/, as the table of docs/design.md section 2 draws them: check_layers.py [BUILD].

From the text: a room includes only the rooms that its row allows, never another room's private header (`_priv.h`), and has
a header of its own name and a README, at most 15 lines of which say what it holds; how it works comes under a second
heading, in at most 100 lines. A room of FOLDERS is reached by its header and theirs alone, which have their names; a
folder includes what stands beside all of them, and those that come before it. Apps use base, sys, fmt and apps/common,
none another's files; apps/common uses no app, and has no name of the command line; examples use the public header alone.
From the objects of the release build in BUILD: a room needs symbols only of rooms that its row allows (so a plan runs from
base, sys, kernels, plan and runtime alone), names what it exports with its prefix, and has no writable data; the shared
library exports td_* and nothing else. Ends with a count of checks."""
import pathlib
import re
import subprocess
import sys

SRC = pathlib.Path("src")
README_LINES, README_HOW_LINES = 15, 100
# What a plan needs to run: no compiler, no front end inside.
RUN_ROOMS = {"base", "sys", "kernels", "plan", "runtime"}
# Prefixes of exported symbols where they are not the room's own name. td_ is the public interface.
PREFIXES = {
    "base": ["base_", "td_"],
    "kernels": ["kern_"],
    "import": ["import_", "onnx_", "builtin_", "aten_", "pt2_", "ts_"],
    "api": ["api_", "td_"],
    "profile": ["prof_"],
    "runtime": ["run_"],
}
# The public header of a room where it is not <room>/<room>.h.
HEADERS = {"api": pathlib.Path("include/treadle/treadle.h")}
# Folders of a room, lowest first.
FOLDERS = {"kernels": ["simd", "loops", "rows", "data", "products"]}


class Report:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, what, problems):
        for problem in problems:
            print(f"FAILED {what}: {problem}")
        self.failed += bool(problems)
        self.passed += not problems


def read_table():
    """Room -> the rooms that it may include, itself excluded."""
    rooms = {}
    section = pathlib.Path("docs/design.md").read_text().split("\n## ")[2]
    for line in section.splitlines():
        row = re.match(r"\| `(\w+)` \|.*\| ([^|]+) \|$", line)
        if not row:
            continue
        allowed = re.sub(r"\(.*?\)", "", row[2]).split()
        rooms[row[1]] = set(rooms) if allowed == ["all", "above"] else set(allowed) - {"libc"}
    unknown = set().union(*rooms.values()) - set(rooms)
    if not rooms or unknown:
        sys.exit(f"docs/design.md: the table of rooms is missing or names no rooms: {unknown}")
    return rooms


def includes(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
        if found:
            yield number, found[1] == "<", found[2]


def folder_problem(path, room, name):
    """What is wrong with `path`, of `room`, including `name`, where that is in a room of FOLDERS. None: nothing."""
    target, _, inner = name.partition("/")
    if target not in FOLDERS:
        return None
    if room != target:
        public = [f"{target}.h"] + [f"{folder}/{folder}.h" for folder in FOLDERS[target]]
        return None if inner in public or inner.endswith(".def") else "is not a public header"
    own, other = (FOLDERS[target].index(file.parts[0]) if len(file.parts) > 1 else -1
                  for file in (path.relative_to(SRC / room), pathlib.Path(inner)))
    return "is of a folder above" if other > own else None


def include_problems(folder, room, allowed, rooms):
    for path in sorted(folder.rglob("*.[chi]*")):
        for number, system, name in includes(path):
            target = name.split("/")[0]
            at = f"{path}:{number}"
            if system:
                if (SRC / name).is_file():
                    yield f"{at}: <{name}> should be in quotes"
            elif "/" not in name:
                if room and path.suffix != ".cpp":  # which see no folder of ours: only headers beside them
                    yield f'{at}: "{name}" should name its room'
            elif target != room and target not in allowed:
                yield f'{at}: may not include "{name}"'
            elif target != room and name.endswith("_priv.h"):
                yield f'{at}: "{name}" is private to {target}'
            elif folder_problem(path, room, name):
                yield f'{at}: "{name}" {folder_problem(path, room, name)}'


def app_problems(folder):
    """Headers without a room are beside the file; .inc files are generated. What programs share knows no command line."""
    for path in sorted(folder.rglob("*.[ch]")):
        for number, system, name in includes(path):
            if not system and "/" not in name and not name.endswith(".inc") and not (path.parent / name).is_file():
                yield f'{path}:{number}: "{name}" is not in its folder'
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if folder.name == "common" and re.search(r"\b(cli|CLI)_", line):
                yield f"{path}:{number}: names what is the command line's"


def room_problems(room):
    folder = SRC / room
    header = HEADERS.get(room, folder / f"{room}.h")
    if not header.is_file():
        yield f"{header} is missing"
    readme = folder / "README.md"
    if not readme.is_file():
        yield f"{readme} is missing"
    else:
        what, _, how = readme.read_text().partition("\n## ")
        for text, most, part in ((what, README_LINES, "what it holds"), (how, README_HOW_LINES, "how it works")):
            if len(text.splitlines()) > most:
                yield f"{readme} has more than {most} lines of {part}"


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def symbols_of(objects):
    """(defined, undefined) names of external linkage in the objects of one room; the mark of static probes (sys/probe.h) is none."""
    defined, undefined = set(), set()
    for line in run("nm", "--extern-only", *map(str, objects)).splitlines():
        found = re.match(r"[0-9a-f ]{16} ([A-Za-z]) (\S+)$", line)
        if found and found[2] != "_.stapsdt.base":
            (undefined if found[1] in "Uw" else defined).add(found[2])
    return defined, undefined - defined


def writable_data(objects):
    for line in run("objdump", "-t", *map(str, objects)).splitlines():
        found = re.match(r"[0-9a-f]{16} .{7} (\S+)\s+[0-9a-f]+ (?:\.\w+ )?(\S+)$", line)
        if not found or found[1] == found[2]:
            continue
        section = found[1]
        if section == "*COM*" or re.match(r"\.(data|bss|tdata|tbss)", section) and not section.startswith(".data.rel.ro"):
            yield f"{found[2]} is writable ({section})"


def check_objects(report, rooms, build):
    objects = {room: [] for room in rooms}
    for root in sorted((build / "CMakeFiles").glob("treadle_*.dir/src")):
        for path in sorted(root.rglob("*.o")):
            room = path.relative_to(root).parts[0]
            source = SRC / str(path.relative_to(root))[:-2]
            if room in objects and source.is_file():
                objects[room].append(path)
    symbols = {room: symbols_of(paths) for room, paths in objects.items() if paths}
    owner = {name: room for room, (defined, _) in symbols.items() for name in defined}
    for room, (defined, undefined) in symbols.items():
        allowed = rooms[room] | {room}
        report.check(f"{room} needs", [
            f"{name} of {owner[name]}" for name in sorted(undefined) if name in owner and owner[name] not in allowed])
        prefixes = tuple(PREFIXES.get(room, [room + "_"]))
        report.check(f"{room} exports", [
            f"{name} does not begin with {' or '.join(prefixes)}" for name in sorted(defined)
            if not name.startswith(prefixes)])
        report.check(f"{room} data", list(writable_data(objects[room])))
    outside = [f"{room} needs {name} of {owner[name]}" for room in sorted(RUN_ROOMS & set(symbols))
               for name in sorted(symbols[room][1]) if owner.get(name, room) not in RUN_ROOMS]
    report.check("a plan runs alone", outside)
    exported = run("nm", "-D", "--defined-only", str(build / "libtreadle.so")).split("\n")
    names = [line.split()[2].split("@")[0] for line in exported if len(line.split()) == 3 and line.split()[1] != "A"]
    report.check("the shared library exports", [name for name in names if not name.startswith("td_")] or
                 ([] if names else ["nothing"]))


def main():
    rooms = read_table()
    report = Report()
    for folder in sorted(path for path in SRC.iterdir() if path.is_dir()):
        room = folder.name
        if room not in rooms:
            report.check(room, ["not a room of docs/design.md"])
            continue
        report.check(f"{room} includes", list(include_problems(folder, room, rooms[room], rooms)))
        report.check(room, list(room_problems(room)))
    report.check("examples includes", list(include_problems(pathlib.Path("examples"), None, set(), rooms)))
    for folder in sorted(path for path in pathlib.Path("apps").iterdir() if path.is_dir()):
        allowed = {"base", "sys", "fmt", "common", folder.name}
        report.check(f"{folder} includes", list(include_problems(folder, None, allowed, rooms)))
        report.check(f"{folder} is alone", list(app_problems(folder)))
    if len(sys.argv) > 1:
        check_objects(report, rooms, pathlib.Path(sys.argv[1]))
    print(f"{report.passed} passed, {report.failed} failed")
    return report.failed != 0


sys.exit(main())
