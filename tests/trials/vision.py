"""A vision engineer: a photograph in the form that the model takes, a detector's lists, padding that PyTorch refuses."""

import numpy as np
from PIL import Image
import torch
import torchvision

from trial import answer, check, finish, refuses, step, treadle as run
import treadle

rng = np.random.default_rng(0)
Image.fromarray(rng.integers(0, 255, (60, 90, 3), "u1")).save("photo.png")
pixels = torchvision.transforms.functional.pil_to_tensor(Image.open("photo.png").convert("RGB"))


def output(model, *words, name):
    run("run", model, *words, "--output", "out")
    return np.load(f"out/{name}.npy")


with step("a network of other sizes than 224"):
    net = torchvision.models.mobilenet_v3_small(weights=None).eval()
    torch.onnx.export(net, (torch.zeros(1, 3, 96, 96),), "net.onnx", dynamo=False, input_names=["x"], output_names=["y"])
    transform = torchvision.transforms.Compose([
        torchvision.transforms.Resize(round(96 * 256 / 224)), torchvision.transforms.CenterCrop(96),
        torchvision.transforms.ToTensor(), torchvision.transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
    with torch.no_grad():
        want = net(transform(Image.open("photo.png").convert("RGB"))[None]).numpy()
    check("agrees with torchvision", np.allclose(output("net.onnx", "--input", "photo.png", name="y"), want, atol=1e-4))
    raw = torchvision.transforms.functional.resize(pixels, [96, 96], antialias=True)
    with torch.no_grad():
        want = net(raw[None] / 255).numpy()
    got = output("net.onnx", "--input", "photo.png", "--preprocess", "raw", name="y")
    check("raw agrees, but for half a grey level", np.allclose(got, want, atol=5e-2), np.abs(got - want).max())
    check("five classes", len(answer("run", "net.onnx", "--input", "photo.png", "--top", "5")["outputs"][0]["top"][0]) == 5)


class Detector(torch.nn.Module):
    def forward(self, images: list[torch.Tensor]):
        return [image.mean((1, 2)) for image in images]


with step("a detector takes a list of [C,H,W]"):
    torch.jit.script(Detector()).save("detector.pt")
    words = ["--input", "images=photo.png", "--shape", "images=3xhxw", "--preprocess", "raw"]
    got = answer("run", "detector.pt", *words)["outputs"]
    mean = pixels.float().mean((1, 2)) / 255
    values = got[0].get("first") or got[0]["items"][0]["first"]
    check("the photograph at its own size", np.allclose(values, mean, atol=1e-5), got)
    run("run", "detector.pt", *words, "--shape", "pictures=3x8x8", status=2)
run("run", "net.onnx", "--shape", "image=1x3x96x96", status=2)
missing = run("run", "net.onnx", "--input", "nowhere.png", status=3)
check("a picture that is not there is named", "nowhere.png" in missing.stderr, missing.stderr)

with step("bytes, channels last"):
    with open("bytes.tdir", "w") as file:
        file.write('tdir 1\ninput %0 "x": u8[1, h, w, 3]\n%1 = aten::bitwise_not(%0)\noutput "y" %1\n')
    got = output("bytes.tdir", "--input", "photo.png", "--preprocess", "raw", name="y")
    check("every byte", np.array_equal(255 - got[0], np.asarray(Image.open("photo.png"))))

with step("reflection wider than its input"):
    pad = torch.jit.trace(torch.nn.ReflectionPad2d(2), torch.zeros(1, 1, 8, 8))
    model = treadle.load(pad, [("f32", (1, 1, "h", "w"))])
    x = torch.arange(64.).reshape(1, 1, 8, 8)
    check("as PyTorch", torch.equal(model(x), pad(x)))
    refuses("as PyTorch refuses", treadle.BadArgument, "", lambda: model(torch.zeros(1, 1, 2, 2)))
finish()
