#!/usr/bin/env python3
"""Writes met_types.inc: of each operator of src/import/aten/schemas.def that takes more than one tensor, the type of its result for
every pair of types that PyTorch takes, the second of every rank and of rank 0. Run with a Python that has PyTorch."""

import pathlib
import re
import warnings

import torch

HERE = pathlib.Path(__file__).parent
ROW = re.compile(r'ATEN_ROW\("(aten::\w+?)(?:\.(\w+))?\(')
TYPES = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64)
LETTERS = "bBcsilhefd"  # as TYPES; '-': PyTorch refuses, '?': no tensor, or of another type
ATOMS = {"Tensor": None, "int": 1, "float": 1.0, "bool": False, "number": 1, "str": "none"}


def tensors_of(schema):
    return sum({"Tensor": 1, "List[Tensor]": 2}.get(str(a.type), 0) for a in schema.arguments)


def argument(a, tensors, second):
    kind = str(a.type)
    if a.has_default_value() or kind.startswith("Optional"):
        return a.default_value
    if kind == "List[Tensor]":
        return [next(tensors, second), second]
    if kind.startswith("List["):
        return [ATOMS[kind[5:-1]]] * 2
    return next(tensors, second) if kind == "Tensor" else ATOMS[kind]


def letter(call, schema, first, second):
    tensors = iter([torch.ones((2, 2), dtype=first)])
    try:
        given = [argument(a, tensors, second) for a in schema.arguments]
        named = {a.name: v for a, v in zip(schema.arguments, given) if a.kwarg_only}
        result = call(*[v for a, v in zip(schema.arguments, given) if not a.kwarg_only], **named)
    except Exception:
        return "-"
    result = result[0] if isinstance(result, (tuple, list)) and result else result
    return LETTERS[TYPES.index(result.dtype)] if isinstance(result, torch.Tensor) and result.dtype in TYPES else "?"


def main():
    warnings.simplefilter("ignore")
    table = (HERE / "../../src/import/aten/schemas.def").read_text()
    known = dict.fromkeys((name, overload) for name, overload in ROW.findall(table))
    schemas = {(s.name, s.overload_name): s for s in torch._C._jit_get_all_schemas()}
    patterns, rows = {}, []
    for name, overload in known:
        s = schemas.get((name, overload))
        if s is None or tensors_of(s) < 2 or any(a.alias_info and a.alias_info.is_write for a in s.arguments):
            continue
        call = getattr(getattr(torch.ops.aten, name[6:], None), overload or "default", None)
        if call is None:
            continue
        line = ["".join(letter(call, s, a, torch.ones(shape, dtype=b)) for a in TYPES for b in TYPES) for shape in ((2, 2), ())]
        if set("".join(line)) - set("-?"):
            rows.append((str(s), *(patterns.setdefault(p, len(patterns)) for p in line)))
    text = "/* Written by met_types.py: PyTorch " + torch.__version__.split("+")[0] + " */\n#ifdef PATTERN\n"
    text += "".join(f'PATTERN("{p}")\n' for p in patterns) + "#else\n"
    text += "".join(f'ROW("{s.replace(chr(34), chr(92) + chr(34))}", {a}, {b})\n' for s, a, b in rows) + "#endif\n"
    (HERE / "met_types.inc").write_text(text)
    print(len(rows), "operators,", len(patterns), "patterns")


main()
