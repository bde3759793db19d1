"""Tables as inputs: DataFrames of pandas and polars, tables and batches of Arrow."""

import sys

from ._errors import BadArgument


_NUMPY = {"f64": "f8", "f32": "f4", "f16": "f2", "i64": "i8", "i32": "i4", "i16": "i2", "i8": "i1", "u64": "u8", "u32": "u4",
          "u16": "u2", "u8": "u1", "bool": "?"}


def is_table(value):
    kind = type(value)
    if not hasattr(kind, "__dataframe__") and not hasattr(kind, "__arrow_c_stream__"):
        return False
    return hasattr(kind, "column_names") or hasattr(kind, "columns")  # a column alone is none


def _names(table):
    names = getattr(table, "column_names", None)
    return [str(name) for name in (table.columns if names is None else names)]


def _as(values, dtype, name):
    """A column as a model takes it: of another type where no value of its kind is lost."""
    numpy = sys.modules["numpy"]
    wanted = _NUMPY.get(dtype)
    if values.dtype.kind not in "biuf" or wanted is None:
        raise BadArgument(f"column {name} holds {values.dtype}; the model takes {dtype}", name)
    if not numpy.can_cast(values.dtype, wanted, "same_kind"):
        raise BadArgument(f"column {name} holds {values.dtype}, which does not become {dtype} by itself: convert it "
                          "(of whole numbers, missing ones make floats)", name)
    return values.astype(wanted, copy=False)


def _column(table, name, info):
    column = table[name]
    try:
        values = column.to_numpy(zero_copy_only=False)  # Arrow's arrays
    except TypeError:
        values = column.to_numpy()
    values = _as(values, info.dtype, name)
    rank = 1 if info.shape is None else len(info.shape)
    if rank not in (1, 2):
        raise BadArgument(f"column {name} is one number a row; the model takes {info}", name)
    return values.reshape(-1, 1) if rank == 2 else values


def inputs_of(table, inputs):
    """{name: array} for a model's inputs: each a column of its name; or else the columns side by side are the only one."""
    import numpy
    names, known = _names(table), {v.name: v for v in inputs}
    if any(name in known for name in names):
        missing = [v.name for v in inputs if v.name not in names and not v.has_default]
        if missing:
            raise BadArgument(f"the table has no column {missing[0]}; it has: {', '.join(names)}", missing[0])
        return {name: _column(table, name, known[name]) for name in names if name in known}
    if len(inputs) != 1:
        raise BadArgument(f"no column of the table is called as an input is; columns: {', '.join(names)}; inputs: {', '.join(known)}")
    only = inputs[0]
    wide = only.shape[1] if only.shape is not None and len(only.shape) == 2 else None
    if only.shape is not None and (len(only.shape) != 2 or isinstance(wide, int) and wide != len(names)):
        raise BadArgument(f"the table has {len(names)} columns ({', '.join(names)}); the model takes {only}", only.name)
    row = only._replace(shape=(None,))
    columns = [_column(table, name, row) for name in (names if hasattr(table, "column_names") else list(table.columns))]
    return {only.name: numpy.stack(columns, 1)}
