"""Operands with nothing in them: each axis of each operand, and of all, cut to no elements, and masks that choose nothing, from
.pt and .pt2, for every operator of op_db. What PyTorch refuses is passed over."""

import torch

import suite_calls
from suite_operators import samples_of

# PyTorch dies of some calls of these
DEADLY = frozenset(("_batch_norm_with_update", "_native_batch_norm_legit", "_segment_reduce", "linalg.lstsq", "native_batch_norm",
                    "nn.functional.embedding_bag", "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu"))


def cut(t, axis):
    return t.narrow(axis, 0, 0).clone() if axis < t.dim() else t


def emptied(tensors):
    """(what was done, tensors) of each way to leave something out."""
    for axis in range(max(t.dim() for t in tensors)):
        yield f"axis {axis} of all", [cut(t, axis) for t in tensors]
        for i, t in enumerate(tensors) if len(tensors) > 1 else ():
            if axis < t.dim():
                yield f"axis {axis} of {i}", [*tensors[:i], cut(t, axis), *tensors[i + 1:]]
    for i, t in enumerate(tensors):
        if t.dtype == torch.bool and len(tensors) > 1:
            for fill in (False, True):
                filled = torch.full_like(t, fill)
                yield f"{i} all {fill}", [*tensors[:i], filled, *tensors[i + 1:]]
                for k, other in enumerate(tensors):
                    if k != i and other.dim():
                        yield f"{i} all {fill}, {k} empty", [filled if n == i else cut(x, 0) if n == k else x for n, x in enumerate(tensors)]


def calls_of(op, options):
    calls = []
    runs = suite_calls.survives if op.name in DEADLY else suite_calls.runs
    dtype = torch.float32 if torch.float32 in op.dtypes else torch.int64
    for number, sample in enumerate(samples_of(op, dtype, options.samples) if dtype in op.dtypes else ()):
        call, tensors = suite_calls.of_sample(op, sample)
        if not tensors or any(t.layout != torch.strided for t in tensors):
            continue
        for how, given in emptied(tensors):
            if runs(call, given):
                calls.append((f"sample {number}, {how}", call, given))
    return calls


def run(options):
    return suite_calls.run("empty", calls_of, options)


def add_options(parser):
    suite_calls.add_options(parser, 8)
