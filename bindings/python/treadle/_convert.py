"""What callers have, as something the core sees memory of; and the core's arrays, as what callers have."""

import array
import sys
from collections.abc import Mapping

from . import _core
from ._errors import BadArgument

_TYPECODES = {"f64": "d", "f32": "f", "i64": "q", "i32": "i", "i16": "h", "i8": "b", "u64": "Q", "u32": "I", "u16": "H",
              "u8": "B", "bool": "B"}


def _torch_dtypes(torch, _known={}):
    if not _known:
        names = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
                 "int16": "i16", "int8": "i8", "uint64": "u64", "uint32": "u32", "uint16": "u16", "uint8": "u8", "bool": "bool",
                 "float8_e4m3fn": "f8e4m3fn", "float8_e4m3fnuz": "f8e4m3fnuz", "float8_e5m2": "f8e5m2",
                 "float8_e5m2fnuz": "f8e5m2fnuz"}
        _known.update({getattr(torch, long): short for long, short in names.items() if hasattr(torch, long)})
    return _known


_PARTS = {"c64": "f32", "c128": "f64"}


def complex_of(part):
    """"c64" of "f32": the type of complex numbers whose parts have that type."""
    return {dtype: name for name, dtype in _PARTS.items()}.get(part, part)


def spec_of(dtype, dims):
    """(dtype, dims, is it complex) of an input as the core takes it: complex numbers have an axis for their parts."""
    part = _PARTS.get(dtype)
    return (dtype, tuple(dims), False) if part is None else (part, (*dims, 2), True)


def complex_name(array):
    """"c64" or "c128" of what holds complex numbers, of torch or numpy; None: it does not."""
    name = str(getattr(array, "dtype", "")).rpartition(".")[2]
    return {"complex64": "c64", "complex128": "c128"}.get(name)


def nest_parts(value):
    """The arrays and numbers of an argument in order, be it a tuple, a list or a mapping of them; None is left out."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if value is None:
        return []
    if isinstance(value, list) or isinstance(value, tuple) and not _is_type(value):
        return [part for item in value for part in nest_parts(item)]
    return [value]


def nest_shape(value):
    """How lists, tuples and mappings stand in one another: equal for arguments that are nested alike."""
    if isinstance(value, Mapping):
        return {key: nest_shape(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and not _is_type(value):
        return [nest_shape(item) for item in value]
    return value is None


def _is_type(value):
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)


def _type_of(value, name):
    """(dtype, dims, is it complex) of an array, a number, or what is such a type."""
    if _is_type(value):
        return spec_of(value[0], (d.encode() if isinstance(d, str) else d for d in value[1]))
    for kind, dtype in ((bool, "bool"), (int, "i64"), (float, "f64")):
        if isinstance(value, kind):
            return spec_of(dtype, ())
    if complex_name(value):
        return spec_of(complex_name(value), value.shape)
    return (*_core.type_of(Kinds().array(value, name)), False)


def has_keys(value):
    """Is it a dictionary, or does one stand in it?"""
    return isinstance(value, Mapping) or isinstance(value, (list, tuple)) and any(map(has_keys, value))


def parts_by_path(path, value):
    """(path, part) of each array and number of an argument: "batch['x'][0]"."""
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or "]" in key:
                raise BadArgument(f"{path}: the key {key!r} is no text that a path can hold", path)
        return [pair for key, item in value.items() for pair in parts_by_path(f"{path}['{key}']", item)]
    if isinstance(value, list) or isinstance(value, tuple) and not _is_type(value):
        return [pair for i, item in enumerate(value) for pair in parts_by_path(f"{path}[{i}]", item)]
    return [] if value is None else [(path, value)]


def types_of(example_inputs):
    """What the core is told of inputs whose file does not say their types: of arguments in order, or of a mapping by name. Those
    among which are dictionaries are told by paths."""
    if example_inputs is None:
        return None
    named = isinstance(example_inputs, Mapping)
    if not named and not isinstance(example_inputs, (list, tuple)):
        example_inputs = (example_inputs,)
    arguments = example_inputs.items() if named else [(f"argument {i}", value) for i, value in enumerate(example_inputs)]
    if any(has_keys(value) for _, value in arguments):
        return [(*_type_of(part, path), path.encode(), True) for name, value in arguments for path, part in parts_by_path(name, value)]
    if named:
        return [(*_type_of(value, name), name.encode()) for name, value in arguments]
    return [_type_of(value, f"example input {i}") for i, value in enumerate(nest_parts(list(example_inputs)))]


def spread(args, inputs):
    """Arguments that are tuples, lists or dicts of arrays, part by part, where the inputs are that."""
    parts = []
    for value in args:
        inner = nest_parts(value) if isinstance(value, (list, tuple, Mapping)) else [value]
        parts += [value] if all(isinstance(part, (bool, int, float)) for part in inner) else inner
    return parts if len(parts) <= len(inputs) and not any(info.kind == "list" for info in inputs) else args


def by_path(args, named, inputs):
    """Arguments among which are dictionaries, as inputs by their names, where these are paths."""
    if not any(map(has_keys, (*args, *named.values()))) or not any("['" in info.name for info in inputs):
        return args, named
    order = dict.fromkeys(info.name.partition("[")[0] for info in inputs)
    pairs = (*zip(order, args), *named.items())
    return (), {path: part for name, value in pairs for path, part in parts_by_path(name, value)}


def torch_tensor_view(tensor, name, torch, readonly=False):
    """The memory of a torch tensor, which stays alive with the view."""
    if tensor.is_complex():  # parts along a last axis of 2
        tensor = torch.view_as_real(tensor.resolve_conj().resolve_neg())
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        raise BadArgument(f"{name}: a {tensor.layout} tensor on {tensor.device}; a dense one on the CPU is needed", name)
    dtype = _torch_dtypes(torch).get(tensor.dtype)
    if dtype is None:
        raise BadArgument(f"{name}: elements of type {tensor.dtype} are not supported", name)
    if tensor.is_neg() or tensor.is_conj():
        tensor = tensor.resolve_conj().resolve_neg()
    return _core.view(tensor.data_ptr(), dtype, tensor.shape, tensor.stride(), tensor, readonly)


def _flatten(value, shape, depth, flat, name):
    if depth == len(shape):
        if isinstance(value, (list, tuple)):
            raise BadArgument(f"{name}: the nested lists are not of equal lengths", name)
        flat.append(value)
        return
    if not isinstance(value, (list, tuple)) or len(value) != shape[depth]:
        raise BadArgument(f"{name}: the nested lists are not of equal lengths", name)
    for item in value:
        _flatten(item, shape, depth + 1, flat, name)


def from_numbers(value, dtype, name):
    """A number, or nested lists of numbers, as an array of `dtype`."""
    code = _TYPECODES.get(dtype)
    if code is None:
        raise BadArgument(f"{name}: Python's numbers cannot become {dtype or 'this'}; give an array", name)
    shape, inner = [], value
    while isinstance(inner, (list, tuple)):
        shape.append(len(inner))
        inner = inner[0] if inner else None
    flat = []
    _flatten(value, shape, 0, flat, name)
    try:
        elements = array.array(code, flat)
    except (TypeError, OverflowError) as error:
        raise BadArgument(f"{name}: {error}; the model takes {dtype}", name) from error
    return _core.view(elements.buffer_info()[0], dtype, shape, None, elements, False)


class Kinds:
    """Sees what the arrays of a call are, so that its results become the same: torch, numpy, or None."""

    __slots__ = ("kind",)

    def __init__(self):
        self.kind = None

    def take(self, value, info):
        """`value` for the input `info`, as the core takes it."""
        if value is None:
            return None
        if isinstance(value, (bool, int, float)):
            return from_numbers(value, info.dtype, info.name)
        if isinstance(value, (list, tuple)):
            if info.kind == "list":
                return [self.take(item, info) for item in value]
            return from_numbers(value, info.dtype, info.name)
        return self.array(value, info.name)

    def array(self, value, name, written=False):
        """`value` as the core sees its memory; `written`: it takes an output."""
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            self.kind = "torch"
            return torch_tensor_view(value, name, torch)
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
            self.kind = self.kind or "numpy"
            if value.dtype.kind == "c":  # as torch_tensor_view has them
                if value.ndim and value.flags.c_contiguous:
                    return value.view(value.real.dtype).reshape(*value.shape, 2)
                if written:
                    raise BadArgument(f"{name}: a dense array of a dimension or more is needed", name)
                return numpy.stack((value.real, value.imag), -1)
        return value

    def give(self, value, info):
        """The output `info` of the core, of the kind that was seen."""
        if self.kind is None or value is None:
            return value
        if isinstance(value, list):
            return [self.give(item, info) for item in value]
        if not isinstance(value, _core.Array):
            return value  # the caller's own memory
        if self.kind == "torch":
            torch = sys.modules["torch"]
            tensor = torch.from_dlpack(value)
            return torch.view_as_complex(tensor) if info.is_complex else tensor
        if value.dtype not in _NUMPY_HAS:
            return value
        array = sys.modules["numpy"].asarray(value)
        return array.view("c16" if value.dtype == "f64" else "c8")[..., 0] if info.is_complex and value.dtype != "f16" else array


_NUMPY_HAS = frozenset(("f64", "f32", "f16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "bool"))
