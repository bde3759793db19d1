"""The archive's model, computed by the server's process. Tensors of torch, arrays of numpy, or nested lists of numbers go
in, and the same kind comes out. A TorchScript file that the server cannot compute is computed by torch, where that is
installed."""
import array
import ctypes
import importlib.util
import os
import sys

_channel = None


class Unsupported(RuntimeError):
    """The server cannot compute the model."""


class Cancelled(BaseException):
    """Nobody waits for the reply any more; no Exception, so that handlers do not take it for an error of their own."""


_NAMES = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "i8": "int8", "i16": "int16",
          "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
          "c64": "complex64", "c128": "complex128"}


def connect(channel):
    global _channel
    _channel = channel


def give_parts(told, parts):
    """A part of each reply of the batch that is computed: what is told of it, and its bytes."""
    _channel.give_parts(told, parts)


def _is_torch(value):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _is_numpy(value):
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def _shape_of(value):
    shape = []
    while isinstance(value, (list, tuple)):
        shape.append(len(value))
        if not value:
            break
        value = value[0]
    return shape


def _flat(value, depth, shape):
    if depth == len(shape):
        return [value]
    if not isinstance(value, (list, tuple)) or len(value) != shape[depth]:
        raise ValueError("the lists of a tensor differ in length")
    return [number for item in value for number in _flat(item, depth + 1, shape)]


def _packed(value):
    """(element type, shape, bytes)."""
    if _is_torch(value):
        value = value.detach().cpu().contiguous()
        return str(value.dtype).partition(".")[2], list(value.shape), \
            ctypes.string_at(value.data_ptr(), value.numel() * value.element_size())
    if _is_numpy(value):
        return value.dtype.name, list(value.shape), value.tobytes()
    shape = _shape_of(value)
    flat = _flat(value, 0, shape)
    if flat and all(isinstance(number, bool) for number in flat):
        return "bool", shape, bytes(flat)
    if all(isinstance(number, int) for number in flat):
        return "int64", shape, array.array("q", flat).tobytes()
    return "float32", shape, array.array("f", flat).tobytes()


def _nested(flat, shape):
    if not shape:
        return flat[0]
    step = len(flat) // shape[0] if shape[0] else 0
    return [_nested(flat[i * step:(i + 1) * step], shape[1:]) for i in range(shape[0])]


def _unpacked(output, data, like):
    name, shape = _NAMES.get(output["dtype"], output["dtype"]), output["shape"]
    if _is_torch(like):
        torch = sys.modules["torch"]
        kind = getattr(torch, name)
        return torch.frombuffer(bytearray(data), dtype=kind).reshape(shape) if len(data) else torch.empty(shape, dtype=kind)
    if _is_numpy(like):
        numpy = sys.modules["numpy"]
        return numpy.frombuffer(bytearray(data), dtype=name).reshape(shape)
    codes = {"float32": "f", "float64": "d", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "bool": "B"}
    if name not in codes:
        raise TypeError(f"outputs of {name} need numpy or torch in the handler")
    flat = array.array(codes[name], bytes(data)).tolist()
    return _nested([bool(x) for x in flat] if name == "bool" else flat, shape)


class Model:
    """Called as a module: tensors in order, or by the names of the model's inputs; one output, or a tuple."""

    def __init__(self, path=""):
        self._path = path
        self._by_torch = None

    def __call__(self, *args, **named):
        if self._by_torch:
            return self._by_torch(*args, **named)
        try:
            return self._compute(*args, **named)
        except Unsupported as error:
            if not self._path.endswith((".pt", ".pth")) or importlib.util.find_spec("torch") is None:
                raise
            import torch
            self._by_torch = torch.jit.load(self._path, map_location="cpu").eval()
            print(f"torch computes {os.path.basename(self._path)}, since the server cannot: {error}", file=sys.stderr)
        return self._by_torch(*args, **named)

    def _compute(self, *args, **named):
        given = [(None, value) for value in args] + list(named.items())
        if not given:
            raise TypeError("a model is called with tensors")
        inputs, parts = [], []
        for name, value in given:
            dtype, shape, data = _packed(value)
            inputs.append({"dtype": dtype, "shape": shape, "bytes": len(data), **({"name": name} if name else {})})
            parts.append(data)
        outputs = tuple(_unpacked(output, data, given[0][1]) for output, data in _channel.run(inputs, parts))
        return outputs[0] if len(outputs) == 1 else outputs

    def forward(self, *args, **named):
        return self(*args, **named)

    def eval(self):
        return self

    def to(self, *args, **named):
        return self

    def parameters(self):
        return iter(())
