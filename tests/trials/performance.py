"""A performance engineer: nothing is compiled twice, C is as fast as the command, work and time grow alike, ratios in one run."""

import os
import pathlib
import subprocess
import time

import numpy as np
import torch

from trial import PREFIX, TOP, answer, check, finish, step, treadle as run
import treadle

os.environ["XDG_CACHE_HOME"] = os.path.abspath("cache")
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 8), torch.nn.Softmax(-1))
torch.onnx.export(net.eval(), (torch.zeros(4, 64),), "net.onnx", dynamo=False, input_names=["x"], output_names=["y"],
                  dynamic_axes={"x": {0: "rows"}})


def objects():
    return sorted(p.name for p in pathlib.Path("cache").rglob("*.so"))


with step("the first open of a saved plan compiles nothing that compile has compiled"):
    made = answer("compile", "net.onnx", "-o", "net.tdl")
    check("a size", made["bytes"] == os.path.getsize("net.tdl"), made)
    before = objects()
    check("there is generated code", len(before) > 0)
    run("run", "net.tdl")
    check("nothing new", objects() == before, before, objects())
    run("run", "net.onnx")
    check("nor from the model itself", objects() == before, before, objects())

with step("a C program of the installed library is as fast as the command"):
    env = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(next(pathlib.Path(PREFIX).rglob("treadle.pc"))))
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "treadle"], env=env, capture_output=True, text=True).stdout.split()
    subprocess.run(["cc", "-O1", f"{TOP}/tests/trials/timed.c", *flags, "-o", "timed"], check=True)
    env["LD_LIBRARY_PATH"] = os.path.dirname(next(pathlib.Path(PREFIX).rglob("libtreadle.so")))
    ratios = []
    for _ in range(3):
        ours = float(subprocess.run(["./timed", "builtin:mobilenet_v2"], env=env, capture_output=True, text=True, check=True).stdout)
        theirs = answer("bench", "builtin:mobilenet_v2", "--threads", "1", "--min-time", "0.5")["latency_ms"]["min"]
        ratios.append(ours / theirs)
    check("within a half", min(ratios) < 1.5, ratios)

with step("a profile adds up"):
    got = answer("bench", "net.onnx", "--layers", "--shape", "rows=64", "--min-time", "0.2")
    check("layers", len(got["layers"]) > 0 and got["latency_ms"]["min"] > 0, got)

with step("a loop that appends grows as its turns do"):
    class Append(torch.nn.Module):
        def forward(self, x):
            parts = []
            for i in range(x.size(0)):
                parts.append(x[i] * 2)
            return torch.stack(parts)
    model, times = treadle.load(torch.jit.script(Append()), [("f32", ("n", 4))], threads=1), []
    for n in (1024, 4096, 16384):
        x = np.ones((n, 4), "f4")
        model(x)
        best = 1e9
        for _ in range(3):
            start = time.perf_counter()
            model(x)
            best = min(best, time.perf_counter() - start)
        times.append(best)
    check("sixteen times the turns take far from 256 times as long", times[2] < 100 * times[0], times)
finish()
