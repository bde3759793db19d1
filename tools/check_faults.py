#!/usr/bin/env python3
"""Puts faults into real models and has them found: check_faults.py BUILD CORPUS [--only PART].

Each fault is put into the kernel of one node of a recorded model, an operator and a way to go wrong, or into what one graph
pass makes. `treadle compare` must name the node, `treadle bisect` the kernel or the pass, with a command that shows that without
it all is well. Ends with a count of faults."""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# Case, operator as it is called after the passes, mode.
KERNELS = [
    ("bert-onnx-ts17", "td::linear", "wrong"),
    ("bert-onnx-ts17", "aten::native_layer_norm", "nan"),
    ("squeezenet-onnx-dynamo18", "td::conv", "nan"),
    ("squeezenet-onnx-dynamo18", "td::max_pool", "crash"),
    ("mobilenetv2-pt2-torch26", "td::depthwise_conv", "wrong"),
    ("gpt2-onnx-ts13", "td::attention", "crash"),
    ("bilstm-pt2-static", "td::lstm_packed", "wrong"),
    ("resnet-onnx-ts11", "td::conv", "crash"),
    ("unet-onnx-ts13", "td::conv", "wrong"),
    ("crnn-onnx-openwidth-ts16", "td::linear", "nan"),
    ("vit-onnx-dynamo23", "td::add_layer_norm", "nan"),
    ("vit-pt2-static", "td::attention", "nan"),
    ("mixer-onnx-ts14", "aten::native_layer_norm", "nan"),
    ("distilbert-pt-traced", "td::linear", "wrong"),
    ("mobilenetv3-onnx-ts13", "aten::mul", "crash"),
    ("swin-onnx-dynamo18", "aten::add", "compile"),
    ("convnext-onnx-dynamo18", "aten::native_layer_norm", "hang"),
    ("bilstm-pt2-static", "aten::_log_softmax", "type"),
    ("ghostnet-onnx-ts12", "td::depthwise_conv", "crash"),
    ("poolformer-pt-scripted", "aten::mul", "wrong"),
]
# Case, pass, mode.
PASSES = [
    ("bert-onnx-ts17", "attention", "nan"),
    ("bert-onnx-ts17", "epilogue", "nan"),
    ("bert-onnx-ts17", "merge_linear", "crash"),
    ("squeezenet-onnx-dynamo18", "channels_last", "wrong"),
    ("squeezenet-onnx-dynamo18", "epilogue", "wrong"),
    ("vit-onnx-dynamo23", "add_norm", "nan"),
    ("gpt2-onnx-ts13", "activation", "wrong"),
    ("gpt2-onnx-ts13", "fuse", "nan"),
]
SECONDS = {"hang": "3"}


class Case:
    """A recorded model: `given` its inputs, and of what `shapes` they are, as arguments of the command."""

    def __init__(self, corpus, name):
        folder = corpus / name
        case = json.loads((folder / "case.json").read_text())
        path = str(folder / case["file"])
        self.given, self.shapes = [path], [path]
        for i in case["inputs"]:
            self.given += ["--input", str(folder / i["file"])]
            dtype = i["dtype"].replace("float", "f").replace("int", "i")
            if case["format"] == "pt":
                self.shapes += ["--shape", f"{i['name']}={'x'.join(map(str, i['shape']))}:{dtype}"]


class Failure(Exception):
    pass


class Tool:
    def __init__(self, build, folder):
        self.treadle, self.folder = str((build / "treadle").resolve()), folder

    def run(self, *arguments):
        done = subprocess.run([self.treadle, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=300)
        return done.returncode, done.stdout + done.stderr


def nodes_of(tool, case, op):
    """The names of the nodes of an operator, each with all that it stands for, in the order they run."""
    status, text = tool.run("inspect", *case.shapes, "--stage", "passes", "--disable-passes", "fuse")
    if status:
        raise Failure(text)
    lines = [line for line in text.splitlines() if f" = {op}(" in line]
    found = [re.findall(r'"(?:node )?([^"]*?)(?: \([^"]*)?"', line.rsplit("  # ", 1)[1]) for line in lines if "  # " in line]
    if not found:
        raise Failure(f"no {op} is in the graph")
    return found


def limit(mode):
    """What never ends is waited for; what ends may take its time on a busy machine."""
    return ["--time-limit", SECONDS.get(mode, "100")]


def find_node(tool, case, fault, mode, names):
    status, text = tool.run("compare", *case.given, "--inject", fault, *limit(mode))
    if status == 0:
        raise Failure("compare sees nothing")
    said = text.split("first node that differs")[-1]
    if names and not any(name in said for name in names):
        raise Failure(f"compare does not name {' or '.join(names)}:\n{text}")


def bisect(tool, case, fault, mode, wanted):
    """The one kernel or pass that bisect names; its command shows that without it the outputs agree."""
    status, text = tool.run("bisect", *case.given, "--inject", fault, *limit(mode))
    found = re.search(rf"^{wanted} (\S+): without it", text, re.MULTILINE)
    if status != 1 or not found or "," in found[1]:
        raise Failure(f"bisect names no single {wanted}:\n{text}")
    option = {"kernel": "--disable-kernels", "pass": "--disable-passes"}[wanted]
    status, after = tool.run("compare", *case.given, "--inject", fault, option, found[1])
    if status:
        raise Failure(f"without {wanted} {found[1]} the outputs differ:\n{after}")
    return found[1], text


def check_kernel(tool, case, op, mode):
    nodes = nodes_of(tool, case, op)
    names = nodes[len(nodes) // 2]
    fault = f"{op}:{mode}@{names[0]}"
    find_node(tool, case, fault, mode, names)
    kernel, _ = bisect(tool, case, fault, mode, "kernel")
    return f"{names[0]}: {kernel}"


def check_pass(tool, case, name, mode):
    fault = f"pass={name}:{mode}"
    find_node(tool, case, fault, mode, None)
    found, text = bisect(tool, case, fault, mode, "pass")
    if found != name:
        raise Failure(f"bisect names {found}:\n{text}")
    return found


def check_row(tool, corpus, check, case, what, mode):
    """One line of the report, and whether the fault was found."""
    title = f"{case} {what}:{mode}"
    try:
        return f"{title}: {check(tool, Case(corpus, case), what, mode)}", True
    except Failure as failure:
        return f"FAILED {title}: {failure}", False


def main():
    build, corpus = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    rows = [(check_kernel, *row) for row in KERNELS] + [(check_pass, *row) for row in PASSES]
    rows = [row for row in rows if only in "{1} {2}:{3}".format(*row)]
    passed = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
        tool = Tool(build, folder)
        for line, found in workers.map(lambda row: check_row(tool, corpus, *row), rows):
            print(line, flush=True)
            passed += found
    print(f"{passed} passed, {len(rows) - passed} failed")
    return passed < len(rows)


sys.exit(main())
