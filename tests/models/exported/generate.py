#!/usr/bin/env python3
"""Writes the cases of this folder: programs of torch.export with what it leaves in, their inputs, and what PyTorch gives.

Run with a Python that has PyTorch; the cases are kept in the repository, so that nothing needs it afterwards.
"""
import inspect
import json
import os

import numpy as np
import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))


class Mask(nn.Module):
    """Who may look at whom, as a function of four positions that four levels of vmap spread out."""

    def forward(self, x):
        def mask(batch, head, query, key):
            return (key <= query) & (x[batch, key] > 0) | (query == head)

        spread = mask
        for dims in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)):
            spread = torch.vmap(spread, in_dims=dims)
        n = x.shape[1]
        return spread(torch.arange(x.shape[0]), torch.arange(3), torch.arange(n), torch.arange(n))


class Rows(nn.Module):
    """Operators that have to be called row by row, several results, axes that are moved on the way in."""

    def forward(self, x, y):
        def one(a, b):
            most, at = a.max(-1)
            return (a * b.sum()).cumsum(0) + a.softmax(-1), most + at, b.reshape(1, 5).expand(2, 5).double() @ b.unsqueeze(1).double()

        return torch.vmap(one, in_dims=(0, 1))(x, y)


CASES = {"vmap_mask": (Mask, (torch.tensor([[1.0, -1, 2, 0], [0, 3, 1, -2]]),)),
         "vmap_rows": (Rows, (torch.linspace(-1, 2, 12).reshape(3, 4), torch.linspace(3, -2, 15).reshape(5, 3)))}


def write(name, model, inputs):
    folder = os.path.join(HERE, name)
    os.makedirs(folder, exist_ok=True)
    program = torch.export.export(model, inputs)
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # names this machine's folders
    torch.export.save(program, os.path.join(folder, "model.pt2"))
    outputs = torch.utils._pytree.tree_leaves(model(*inputs))
    case = {"name": name, "format": "pt2", "torch": torch.__version__.split("+")[0], "file": "model.pt2", "rtol": 1e-5}
    case["atol"] = 1e-6
    names = {"input": list(inspect.signature(model.forward).parameters), "output": [f"output_{i}" for i in range(len(outputs))]}
    for kind, values in (("input", inputs), ("output", outputs)):
        case[kind + "s"] = []
        for label, v in zip(names[kind], values):
            np.save(os.path.join(folder, label + ".npy"), v.numpy())
            case[kind + "s"].append({"name": label, "file": label + ".npy", "dtype": str(v.dtype)[6:], "shape": list(v.shape)})
    with open(os.path.join(folder, "case.json"), "w", encoding="utf-8") as f:
        json.dump(case, f, indent=1)
        f.write("\n")


for name, (kind, inputs) in CASES.items():
    write(name, kind(), inputs)
