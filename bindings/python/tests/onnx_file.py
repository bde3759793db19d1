"""ONNX files for tests: just enough of the protobuf wire format."""

import struct

FLOAT, INT64, BOOL, DOUBLE = 1, 7, 9, 11


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def value_info(name, element, dims):
    shape = b"".join(field(1, field(1, d) if isinstance(d, int) else field(2, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, element) + field(2, shape)))


def floats(name, dims, values):
    return b"".join(field(1, d) for d in dims) + field(2, FLOAT) + field(8, name) + field(9, struct.pack(f"<{len(values)}f", *values))


def node(op, inputs, outputs, **ints):
    attrs = b"".join(field(5, field(1, name) + field(3, value) + field(20, 2)) for name, value in ints.items())
    return b"".join(field(1, i) for i in inputs.split()) + b"".join(field(2, o) for o in outputs.split()) \
        + field(3, f"{op.lower()}_{outputs.split()[0]}") + field(4, op) + attrs


def model(nodes, inputs, outputs, constants=()):
    graph = b"".join(field(1, n) for n in nodes) + field(2, "test") + b"".join(field(5, c) for c in constants) \
        + b"".join(field(11, i) for i in inputs) + b"".join(field(12, o) for o in outputs)
    return field(1, 8) + field(8, field(2, 17)) + field(7, graph)


def two_outputs():
    """y = relu(x) + [1, 2, 3], z = transpose(y); x: f32[batch, 3]."""
    return model([node("Relu", "x", "a"), node("Add", "a w", "y"), node("Transpose", "y", "z")],
                 [value_info("x", FLOAT, ["batch", 3])],
                 [value_info("y", FLOAT, ["batch", 3]), value_info("z", FLOAT, [3, "batch"])], [floats("w", [3], [1, 2, 3])])


def found():
    """The indices of what is not zero: i64[2, n], n by the data."""
    return model([node("NonZero", "x", "y")], [value_info("x", FLOAT, ["n", "m"])], [value_info("y", INT64, [2, "k"])])


def add(element=FLOAT):
    """c = a + b, of any shape."""
    return model([node("Add", "a b", "c")], [value_info("a", element, ["n"]), value_info("b", element, ["n"])],
                 [value_info("c", element, ["n"])])
