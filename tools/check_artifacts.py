#!/usr/bin/env python3
"""Compiles recorded models to .tdl and checks what the files answer: check_artifacts.py BUILD CORPUS [--only PART].

Each model is compiled as it is, and, where its sizes are open, for those that were recorded first (--specialise) too. Each file
is held against the recorded outputs without its machine code and with it (--trusted). Opening one compiles nothing that
compiling it has put into the user's cache. Ends with a count of files that were opened."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def run(treadle, *arguments):
    done = subprocess.run([treadle, *arguments], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def with_arguments(case):
    """The case with its inputs called by their places in a script's arguments, where these are lists."""
    if case["format"] != "pt":
        return case
    named = zip(case["inputs"], case.get("arguments", [given["name"] for given in case["inputs"]]))
    return {**case, "inputs": [{**given, "name": argument} for given, argument in named]}


def shapes_of(case):
    """TorchScript does not say what its inputs are: they are as the first set has them, open where the case says so."""
    if case["format"] != "pt":
        return []
    arguments = []
    for given in case["inputs"]:
        names = case.get("dynamic", {}).get(given["name"], {})
        dims = "x".join(names.get(str(i), str(size)) for i, size in enumerate(given["shape"]))
        dtype = given["dtype"].replace("float", "f").replace("int", "i")
        arguments += ["--shape", f"{given['name']}={dims}:{dtype}"]
    return arguments


def sizes_of(case):
    """The sizes that the first set has of what is open: {} where nothing is."""
    shapes = {given["name"]: given["shape"] for given in case["inputs"]}
    return {
        symbol: shapes[name][int(axis)] for name, axes in case.get("dynamic", {}).items() for axis, symbol in axes.items()
    }


def compile_to(treadle, folder, case, sizes, made):
    """The case with its model compiled, in a folder of its own; what the compiler said where there is none."""
    made.mkdir(parents=True)
    command = ["compile", str(folder / case["file"]), "-o", str(made / "net.tdl"), *shapes_of(case)]
    special = ["--specialise", " ".join(f"{name}={size}" for name, size in sizes.items())] if sizes else []
    status, text = run(treadle, *command, *special)
    own = re.search(r"there are: (.*)", text)
    if status and own and len(own[1].split(", ")) == len(sizes):  # a format that has names of its own
        named = " ".join(f"{name}={size}" for name, size in zip(own[1].split(", "), sizes.values()))
        status, text = run(treadle, *command, "--specialise", named)
    if status:
        return f"FAILED {made.parent.name}/{made.name}: {text.strip()}"
    for file in folder.glob("*.npy"):
        (made / file.name).symlink_to(file.resolve())
    (made / "case.json").write_text(json.dumps({**case, "file": "net.tdl"}))
    return None


def generated_code():
    """Files of generated code in the cache."""
    return {path.name for path in pathlib.Path(os.environ["TREADLE_CACHE"]).glob("*.so")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("corpus", type=pathlib.Path)
    parser.add_argument("--only", default="", metavar="PART")
    given = parser.parse_args()
    treadle = str((given.build / "treadle").resolve())
    passed = failed = 0
    folder = tempfile.TemporaryDirectory
    with folder() as top, folder() as cache, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
        os.environ["TREADLE_CACHE"] = cache  # of the user's, which is full at times, the oldest files go
        waiting = []
        for path in sorted(given.corpus.glob("*/case.json")):
            case = with_arguments(json.loads(path.read_text()))
            if given.only not in path.parent.name:
                continue
            ways = {"general": {}, "special": sizes_of(case)} if sizes_of(case) else {"general": {}}
            for way, sizes in ways.items():
                made = pathlib.Path(top) / way / path.parent.name
                waiting.append(workers.submit(compile_to, treadle, path.parent, case, sizes, made))
        for text in filter(None, (done.result() for done in waiting)):
            print(text)
            failed += 1
        known = generated_code()
        for trust in [], ["--trusted"]:
            _, text = run(treadle, "check", top, *trust)
            counts = re.search(r"^(\d+) passed, (\d+) failed", text, re.MULTILINE)
            print("with machine code:" if trust else "without machine code:")
            print(re.sub(rf"{re.escape(top)}/", "", text))
            passed += int(counts[1]) if counts else 0
            failed += int(counts[2]) if counts else 1
        again = generated_code() - known
        if again:
            print(f"FAILED {len(again)} files of code were compiled when plans were opened: {', '.join(sorted(again))}")
            failed += 1
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
