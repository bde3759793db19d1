"""Every pair of types that an operator takes: one operand in one type, the others in another, from .pt and .pt2.

Of each operator of op_db the first sample of two operands, of three, and so on; each operand but the first in turn, as it is and
as one element of no dimensions, which promotes less. What PyTorch refuses is passed over."""

import torch

import suite_calls
from suite_operators import samples_of

TYPES = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
         torch.float64)


def short(dtype):
    return str(dtype).partition(".")[2]


def with_operands(op, limit):
    """A sample of each number of operands, as a call and its tensors."""
    seen = {}
    dtype = torch.float32 if torch.float32 in op.dtypes else torch.int64
    for sample in samples_of(op, dtype, limit) if dtype in op.dtypes else ():
        call, tensors = suite_calls.of_sample(op, sample)
        if len(tensors) > 1 and all(t.layout == torch.strided and t.numel() for t in tensors):
            seen.setdefault(len(tensors), (call, tensors))
    return seen.values()


def calls_of(op, options):
    calls = []
    for call, tensors in with_operands(op, options.samples):
        for at, point, a, b in ((at, point, a, b) for at in range(1, len(tensors)) for point in (False, True) for a in TYPES for b in TYPES):
            values = [t if t.dtype == torch.bool else t.abs() for t in tensors] if torch.uint8 in (a, b) else tensors  # what becomes of others is open
            given = [t if t.dtype == torch.bool else t.to(a) for t in values]
            given[at] = values[at].flatten()[0].to(b) if point else values[at].to(b)
            if suite_calls.runs(call, given):
                calls.append((f"{short(a)} {short(b)}{' point' if point else ''} at {at} of {len(tensors)}", call, given))
    return calls


def run(options):
    return suite_calls.run("types", calls_of, options)


def add_options(parser):
    suite_calls.add_options(parser, 12)
