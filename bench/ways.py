#!/usr/bin/env python3
"""One model in each of its forms: how long it takes to load, to run the first time, and warm.

    python bench/ways.py FOLDER [--models MODULE.py] [--cpu N] [--threads N] [--rounds N] [NAME...]

NAME is a key of MODULE.build, which gives a module and example arguments (default: models.py of ../shared/peers); FOLDER holds
NAME.onnx, and is where NAME.pt (traced), NAME.scripted.pt, NAME.frozen.pt and NAME.pt2 are written if they are not there. Each
form runs in a process of its own; all are asked in turn for short bursts. `compile` is torch.compile(backend="treadle"), `empty`
the same with a graph that computes nothing: what PyTorch itself takes for a call. `inductor` and `torchscript` are PyTorch's own:
torch.compile with frozen weights, and NAME.frozen.pt after optimize_for_inference. Needs torch, and treadle where Python finds it.
"""
import argparse
import importlib.util
import os
import pathlib
import statistics
import subprocess
import sys
import time

FILES = {"onnx": ".onnx", "traced": ".pt", "scripted": ".scripted.pt", "frozen": ".frozen.pt", "pt2": ".pt2"}
WAYS = [*FILES, "compile", "empty", "inductor", "torchscript"]


def build(options, name):
    spec = importlib.util.spec_from_file_location("models", options.models)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.build(name)


def write_forms(options, name):
    """The files that are not there yet; a form that PyTorch does not make of the model is left out."""
    import torch
    folder = pathlib.Path(options.folder)
    writers = {
        "traced": lambda model, args, path: torch.jit.trace(model, args, strict=False, check_trace=False).save(path),
        "scripted": lambda model, args, path: torch.jit.script(model).save(path),
        "frozen": lambda model, args, path: torch.jit.freeze(torch.jit.trace(model, args, strict=False)).save(path),
        "pt2": lambda model, args, path: torch.export.save(torch.export.export(model, args), path)}
    missing = [way for way in writers if not (folder / (name + FILES[way])).exists()]
    model, args = build(options, name) if missing else (None, None)
    for way in missing:
        try:
            writers[way](model, args, str(folder / (name + FILES[way])))
        except Exception as error:
            print(f"{name}: no {way}: {' '.join(str(error).split())[:120]}", file=sys.stderr)


# ---- one form, in a process of its own ----


def prepared(options, way, name):
    """(what runs once, load and compile ms)"""
    import numpy as np
    inputs = []
    while os.path.exists(path := f"{options.folder}/{name}.input_{len(inputs)}.npy"):
        inputs.append(np.load(path))
    import treadle
    if way in FILES:
        examples = inputs if FILES[way].endswith(".pt") else None
        start = time.perf_counter()
        model = treadle.load(f"{options.folder}/{name}{FILES[way]}", examples, threads=options.threads)
        loaded = (time.perf_counter() - start) * 1e3
        return lambda: model(*inputs), loaded
    import torch
    torch.set_num_threads(options.threads)
    tensors = [torch.from_numpy(a) for a in inputs]
    start = time.perf_counter()
    module = TORCH[way](options, name)
    loaded = (time.perf_counter() - start) * 1e3 if way == "torchscript" else 0.0

    def call():
        with torch.inference_mode():
            return module(*tensors)
    return call, loaded


def with_treadle(options, name):
    import torch
    return torch.compile(build(options, name)[0], backend="treadle", options={"threads": options.threads})


def with_nothing(options, name):
    import torch

    def nothing(graph, examples):
        with torch.no_grad():
            ready = list(graph(*(torch.zeros(e.shape, dtype=e.dtype) if isinstance(e, torch.Tensor) else e for e in examples)))
        return lambda *args: ready
    return torch.compile(build(options, name)[0], backend=nothing)


def with_inductor(options, name):
    import torch
    import torch._inductor.config
    torch._inductor.config.freezing = True
    return torch.compile(build(options, name)[0])


def with_torchscript(options, name):
    import torch
    return torch.jit.optimize_for_inference(torch.jit.load(f"{options.folder}/{name}.frozen.pt"))


TORCH = {"compile": with_treadle, "empty": with_nothing, "inductor": with_inductor, "torchscript": with_torchscript}


def serve(options, way, name):
    call, loaded = prepared(options, way, name)
    start = time.perf_counter()
    call()
    print(loaded, (time.perf_counter() - start) * 1e3, flush=True)
    for line in sys.stdin:
        times, end = [], time.perf_counter() + float(line)
        while time.perf_counter() < end or len(times) < 3:
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        print(min(times) * 1e3, statistics.median(times) * 1e3, flush=True)


# ---- all of them ----


class Worker:
    def __init__(self, options, way, name):
        command = [sys.executable, __file__, options.folder, "--models", options.models, "--threads", str(options.threads),
                   "--way", way, name]
        if options.cpu:
            command = ["taskset", "-c", options.cpu] + command
        self.way = way
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.load, self.first = map(float, self.process.stdout.readline().split())
        self.bests, self.medians = [], []

    def burst(self, seconds):
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        best, median = map(float, self.process.stdout.readline().split())
        self.bests.append(best)
        self.medians.append(median)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(options, name):
    """Loads are measured several times, the shortest counts; the last workers stay for the warm runs."""
    write_forms(options, name)
    there = [way for way in options.ways.split(",")
             if way not in FILES or os.path.exists(f"{options.folder}/{name}{FILES[way]}")]
    loads = {way: [] for way in there}
    for _ in range(options.loads):
        workers = {}
        for way in there:
            worker = Worker(options, way, name)
            loads[way].append((worker.load, worker.first))
            workers[way] = worker
            if len(loads[way]) < options.loads:
                worker.close()
    for _ in range(options.rounds):
        for worker in workers.values():
            worker.burst(options.burst)
    print(f"\n{name}\n{'':10}{'load ms':>9}{'first ms':>10}{'warm ms':>10}{'of onnx':>9}")
    base = statistics.median(workers[there[0]].medians)
    for way, worker in workers.items():
        warm = statistics.median(worker.medians)
        print(f"{way:10}{min(l for l, _ in loads[way]):9.1f}{min(f for _, f in loads[way]):10.1f}{warm:10.3f}{warm / base:9.3f}",
              flush=True)
        worker.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*", default=["resnet50", "mobilenet_v2", "bert_base", "mobilebert"])
    parser.add_argument("--models", default="../shared/peers/models.py")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--way", help="be the process of this form")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cpu", help="as taskset takes it")
    parser.add_argument("--loads", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--burst", type=float, default=0.3)
    options = parser.parse_intermixed_args()
    for name in options.names:
        if options.way:
            serve(options, options.way, name)
        else:
            measure(options, name)


if __name__ == "__main__":
    main()
