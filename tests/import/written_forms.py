#!/usr/bin/env python3
"""Writes written_forms.inc: PyTorch's schemas of operators that write into an argument, in place or out=, and whose functional
overload src/import/aten/schemas.def has. Run with a Python that has PyTorch."""

import pathlib
import re

import torch

HERE = pathlib.Path(__file__).parent
ROW = re.compile(r'ATEN_ROW\("((aten::\w+?)(?:\.(\w+))?\()')


def main():
    table = (HERE / "../../src/import/aten/schemas.def").read_text()
    known = {name for _, name, _ in ROW.findall(table)}
    lines = set()
    for schema in torch._C._jit_get_all_schemas():
        written = [a for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
        if not schema.name.startswith("aten::") or not written or any("Dimname" in str(a.type) for a in schema.arguments):
            continue
        is_out = all(a.is_out for a in written)
        functional = schema.name if is_out else schema.name[:-1]
        if functional in known and (is_out or (schema.name.endswith("_") and not schema.name.endswith("__"))):
            lines.add(str(schema))
    text = "".join(f'"{re.sub(chr(34), chr(92) + chr(34), line)}",\n' for line in sorted(lines))
    (HERE / "written_forms.inc").write_text("/* Written by written_forms.py: PyTorch " + torch.__version__.split("+")[0] + " */\n" + text)


main()
