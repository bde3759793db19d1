#!/usr/bin/env python3
"""Writes the cases of this folder: models that make complex numbers inside, as TorchScript and as torch.export has
them, their inputs, and what PyTorch gives for them.

Run with a Python that has PyTorch; the cases are kept in the repository, so that nothing needs it afterwards.
"""
import inspect
import json
import math
import os
import warnings

import numpy as np
import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
warnings.filterwarnings("ignore")


def real(*values):
    return tuple(torch.view_as_real(v.resolve_conj()) for v in values)


class Rotary(nn.Module):
    """Positions as rotations, in a buffer of complex numbers."""

    def __init__(self):
        super().__init__()
        angles = torch.outer(torch.arange(12).float(), 1 / 10000 ** (torch.arange(0, 8, 2) / 8))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x):
        pairs = torch.view_as_complex(x.reshape(x.shape[0], x.shape[1], x.shape[2], -1, 2))
        turns = self.turns[: x.shape[1]].view(1, x.shape[1], 1, pairs.shape[-1])
        return torch.view_as_real(pairs * turns).flatten(3).type_as(x)


class SpectralConv(nn.Module):
    """A layer of a Fourier neural operator: low frequencies times complex weights."""

    def __init__(self):
        super().__init__()
        self.low = nn.Parameter(torch.rand(2, 3, 3, 3, dtype=torch.cfloat))
        self.high = nn.Parameter(torch.rand(2, 3, 3, 3, dtype=torch.cfloat))

    def forward(self, x):
        f = torch.fft.rfft2(x)
        y = torch.zeros(x.shape[0], 3, x.size(-2), x.size(-1) // 2 + 1, dtype=torch.cfloat)
        y[:, :, :3, :3] = torch.einsum("bixy,ioxy->boxy", f[:, :, :3, :3], self.low)
        y[:, :, -3:, :3] = torch.einsum("bixy,ioxy->boxy", f[:, :, -3:, :3], self.high)
        return torch.fft.irfft2(y, s=(x.size(-2), x.size(-1)))


class StateSpace(nn.Module):
    """The kernel of a diagonal state space (S4D), and its convolution in Fourier space."""

    def __init__(self):
        super().__init__()
        self.c = nn.Parameter(torch.randn(4, 6, 2))
        self.step = nn.Parameter(torch.rand(4) - 2)
        self.decay = nn.Parameter(torch.rand(4, 6) - 1)
        self.turn = nn.Parameter(math.pi * torch.arange(6).repeat(4, 1).float())

    def forward(self, u):
        n = u.size(-1)
        a = -torch.exp(self.decay) + 1j * self.turn
        da = a * torch.exp(self.step).unsqueeze(-1)
        c = torch.view_as_complex(self.c) * (torch.exp(da) - 1.0) / a
        kernel = 2 * torch.einsum("hn,hnl->hl", c, torch.exp(da.unsqueeze(-1) * torch.arange(n))).real
        product = torch.fft.rfft(u, n=2 * n) * torch.fft.rfft(kernel, n=2 * n)
        return torch.fft.irfft(product, n=2 * n)[..., :n]


class Arithmetic(nn.Module):
    def forward(self, a, b):
        x, y = torch.complex(a, b), torch.complex(b, a + 2)
        return real(x / y, x - y * 2.0, 1.0 / y, x.conj() * y + (1 + 2j), x * a, a - x, x**3, (x + 4) ** 0.3, -x) + (
            x == y,
            x.abs(),
            torch.angle(x + 5),
        )


class Functions(nn.Module):
    def forward(self, a, b):
        x = torch.complex(a, b)
        return real(
            torch.sqrt(x), torch.log(x + 3), torch.exp(x), torch.sin(x), torch.cos(x), torch.tanh(x), torch.sgn(x)
        ) + real(torch.sigmoid(x), torch.square(x), torch.reciprocal(x), torch.sinh(x), torch.cosh(x), torch.rsqrt(x))


class Sums(nn.Module):
    def forward(self, a, b):
        x = torch.complex(a, b)
        sums = real(x.sum(-1), x.mean(0), x.sum(), torch.cumsum(x, 1), x.mean(dim=(0, 1), keepdim=True))
        return sums + (x.norm(), torch.linalg.vector_norm(x, dim=1))


class Products(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(5, 3, dtype=torch.cfloat)

    def forward(self, a, b):
        x, y = torch.complex(a, a * 2), torch.complex(b, -b)
        batch = torch.stack([x, x.conj()])
        return real(x @ y, x @ b.to(torch.cfloat), x.mH, x.t(), torch.einsum("ij,jk->ki", x, y)) + real(
            self.line(x), torch.matmul(x, y[:, 0]), torch.bmm(batch, batch.mT), torch.outer(x[0], y[0])
        )


class Views(nn.Module):
    def forward(self, a):
        x = torch.complex(a, a * 2)
        y = x.clone()
        y[:, 0] = x[:, 1]
        y[:, 1, 2:] = 3
        return (
            real(x.permute(2, 0, 1), x[:, 1:3], x[..., 0], x.reshape(-1, 5), torch.cat([x, y], -1), x.flip(-1))
            + real(torch.stack([x, x], 1), torch.roll(x, 1, -1), x.repeat(1, 2, 1), y, x.chunk(2, 1)[1])
            + real(x[:, [0, 2]], torch.where(a > 0, x, y), nn.functional.pad(x, (1, 2)), x.masked_fill(a > 0, 2))
            + real(torch.zeros_like(x), torch.ones(5, dtype=torch.cfloat) * x[0, 0], torch.fft.fftshift(x, dim=-1))
            + (x.real + x.imag,)
        )


class Transforms(nn.Module):
    def forward(self, a):
        f = torch.fft.fft(a, dim=1, norm="ortho")
        return real(f, torch.fft.ifft(f), torch.fft.rfftn(a, dim=(1, 2)), torch.fft.fft2(a, s=(6, 9)), torch.fft.rfft(a, n=7)) + (
            torch.fft.irfft(f, n=11),
            torch.fft.irfft(f, n=6),
            torch.fft.irfftn(f, s=(5, 8)),
        )


class Frames(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))

    def forward(self, x):
        f = torch.stft(x, 32, 8, window=self.window, return_complex=True)
        return f.abs(), torch.istft(f * torch.sigmoid(f.abs()), 32, 8, window=self.window, length=120)


def shape(*dims):
    return torch.randn(*dims)


CASES = {
    "rotary": (Rotary, [shape(2, 7, 3, 8)], True),
    "spectral_conv": (SpectralConv, [shape(2, 2, 8, 9)], True),
    "state_space": (StateSpace, [shape(2, 4, 16)], True),
    "arithmetic": (Arithmetic, [shape(3, 4), shape(3, 4)], True),
    "functions": (Functions, [shape(3, 4), shape(3, 4)], False),
    "sums": (Sums, [shape(3, 4), shape(3, 4)], False),
    "products": (Products, [shape(3, 5), shape(5, 5)], True),
    "views": (Views, [shape(3, 4, 5)], True),
    "transforms": (Transforms, [shape(2, 5, 8)], False),
    "frames": (Frames, [shape(2, 120)], False),
}


def write(folder, form, file, inputs, outputs, names):
    case = {"name": folder, "format": form, "torch": torch.__version__.split("+")[0], "file": file, "rtol": 1e-4}
    case["atol"] = 1e-5
    for kind, values in (("input", inputs), ("output", outputs)):
        case[kind + "s"] = []
        for i, v in enumerate(values):
            name = names[i] if kind == "input" else f"output_{i}"
            np.save(os.path.join(HERE, folder, name + ".npy"), v.numpy())
            entry = {"name": name, "file": name + ".npy", "dtype": str(v.dtype)[6:], "shape": list(v.shape)}
            case[kind + "s"].append(entry)
    with open(os.path.join(HERE, folder, "case.json"), "w", encoding="utf-8") as f:
        json.dump(case, f, indent=1)
        f.write("\n")


def main():
    for name, (kind, inputs, exported) in CASES.items():
        torch.manual_seed(1)
        model = kind().eval()
        with torch.no_grad():
            outputs = model(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        os.makedirs(os.path.join(HERE, name), exist_ok=True)
        torch.jit.trace(model, tuple(inputs)).save(os.path.join(HERE, name, "model.pt"))
        write(name, "pt", "model.pt", inputs, outputs, ["input_0", "input_1"])
        if not exported:
            continue
        folder = name + "_exported"
        os.makedirs(os.path.join(HERE, folder), exist_ok=True)
        torch.export.save(torch.export.export(model, tuple(inputs)), os.path.join(HERE, folder, "model.pt2"))
        write(folder, "pt2", "model.pt2", inputs, outputs, list(inspect.signature(model.forward).parameters))


torch.manual_seed(0)
main()
