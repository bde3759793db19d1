"""A language engineer: open lengths by name, variants in a saved plan, EmbeddingBag, a decoder that keeps its state."""

import time

import numpy as np
import torch

from trial import answer, check, finish, refuses, step, treadle as run
import treadle


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(100, 32)
        self.layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)

    def forward(self, ids):
        return self.layer(self.words(ids)).mean(1)


torch.manual_seed(0)
net = Encoder().eval()
ids = torch.arange(2 * 12).reshape(2, 12)
batch, seq = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("seq", min=2, max=128)
torch.onnx.export(net, (ids,), "enc.onnx", dynamo=True, dynamic_shapes=({0: batch, 1: seq},), verbose=False)

with step("sizes by the names of dimensions"):
    names = [d for d in answer("info", "enc.onnx")["model"]["inputs"][0]["shape"] if isinstance(d, str)]
    got = answer("run", "enc.onnx", *[word for name, size in zip(names, (3, 24)) for word in ("--shape", f"{name}={size}")])
    check("three rows", got["outputs"][0]["shape"] == [3, 32], got["outputs"])
run("run", "enc.onnx", "--shape", "lenght=24", status=2)

with step("a saved plan with variants, trusted and not"):
    sizes = f"{names[0]}=1 {names[1]}=16"
    run("compile", "enc.onnx", "-o", "enc.tdl", "--specialise", sizes)
    results = []
    for words in ((), ("--trusted",)):
        for model in ("enc.onnx", "enc.tdl"):
            if model == "enc.onnx" and words:
                continue
            folder = f"out{len(results)}"
            run("run", model, *words, "--shape", f"{names[0]}=1", "--shape", f"{names[1]}=16", "--output", folder)
            results.append(np.load(f"{folder}/{answer('info', model)['model']['outputs'][0]['name']}.npy"))
    check("all alike", all(np.allclose(results[0], r, atol=1e-5) for r in results))

with step("against PyTorch"):
    with torch.no_grad():
        want = net(ids)
    check("from ONNX", torch.allclose(treadle.load("enc.onnx")(ids), want, atol=1e-5))
    check("from a module", torch.allclose(treadle.load(net, (ids,))(ids), want, atol=1e-5))

with step("EmbeddingBag grows as its work does"):
    bag = treadle.load(torch.jit.script(torch.nn.EmbeddingBag(1000, 16).eval()),
                       [("i64", ("n",)), ("i64", ("bags",))])
    times = []
    for n in (2048, 8192, 32768):
        words, offsets = torch.randint(1000, (4 * n,)), torch.arange(n) * 4
        bag(words, offsets)
        best = 1e9
        for _ in range(5):
            start = time.perf_counter()
            bag(words, offsets)
            best = min(best, time.perf_counter() - start)
        times.append(best)
    check("sixteen times the bags take far from 256 times as long", times[2] < 100 * times[0], times)


class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x):
        self.seen = self.seen + x.sum()
        return x + self.seen


with step("state is kept, reset, and each session's own"):
    model = treadle.load(torch.jit.script(Decoder()), [("f32", (1,))])
    one = torch.ones(1)
    first = [float(model(one)) for _ in range(3)]
    model.reset()
    again = [float(model(one)) for _ in range(3)]
    check("three steps, twice", first == again == [2, 3, 4], first, again)
    check("a session begins anew", float(model.session()(one)) == 2)
refuses("a word that is no number", treadle.BadArgument, "", lambda: treadle.load("enc.onnx")(["hello"]))
finish()
