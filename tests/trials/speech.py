"""A speech engineer: sounds of the model's rate and of another, a model that is told the rate, streaming by chunks."""

import wave

import numpy as np
import torch

from trial import answer, check, finish, step, treadle as run
import treadle

rate = 16000
sound = (np.sin(np.arange(rate) * 0.05) * 20000).astype("<i2")


def write(path, rate):
    with wave.open(path, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(sound.tobytes())


write("16k.wav", 16000)
write("8k.wav", 8000)


class Detector(torch.nn.Module):
    """Told the rate, as detectors of voices are; keeps what it heard."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(1, 4, 25, stride=10)
        self.register_buffer("heard", torch.zeros(1))

    def forward(self, x, sr: int):
        if sr != 16000:
            raise ValueError("16000 only")
        level = self.conv(x[None, None]).relu().mean()
        self.heard = 0.9 * self.heard + level
        return self.heard


torch.manual_seed(1)
net = torch.jit.script(Detector().eval())
net.save("vad.pt")
samples = torch.from_numpy(sound.astype("f4") / 32768)
want = []
with torch.no_grad():
    for chunk in samples.split(4000):
        want.append(float(net(chunk, 16000)))

with step("a sound of the rate that the model is told"):
    words = ["--shape", "x=n", "--input", "sr=:i64:16000"]
    got = answer("run", "vad.pt", "--input", "x=16k.wav", *words)["outputs"][0]
    check("one number", got["shape"] == [1] and got["first"][0] > 0, got)
    other = run("run", "vad.pt", "--input", "x=8k.wav", *words, status=2)
    check("another rate is named", "16000" in other.stderr and "8000" in other.stderr, other.stderr)

with step("chunks of one stream, and a reset"):
    model = treadle.load("vad.pt", [("f32", ("n",)), ("i64", ())])
    for _ in range(2):
        got = [float(model(chunk, 16000)) for chunk in samples.split(4000)]
        check("as PyTorch", np.allclose(got, want, rtol=1e-5), got, want)
        model.reset()
    streams = [model.session(), model.session()]
    got = [[float(s(chunk, 16000)) for s in streams] for chunk in samples.split(4000)]
    check("two streams do not hear each other", np.allclose(got, np.array(want)[:, None], rtol=1e-5), got)

with step("a plain model says which rate it was given"):
    torch.onnx.export(torch.nn.Conv1d(1, 2, 5).eval(), (torch.zeros(1, 1, 800),), "plain.onnx", dynamo=False, input_names=["x"],
                      output_names=["y"], dynamic_axes={"x": {2: "samples"}})
    got = run("run", "plain.onnx", "--input", "8k.wav")
    check("[1,channels,samples]", "f32[1,2,15996]" in got.stdout, got.stdout)
    check("the rate", "8000 samples a second" in got.stderr, got.stderr)
finish()
