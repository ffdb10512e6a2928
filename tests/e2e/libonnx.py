"""Writes ONNX files field by field (the wire format of protocol buffers), so that tests need no package for it."""
import struct

FLOAT, UINT8, INT8, INT32, INT64, BOOL = 1, 2, 3, 6, 7, 9


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    """An integer, a float, a text, bytes or a list of these."""
    if isinstance(value, (list, tuple)):
        return b"".join(field(number, part) for part in value)
    if isinstance(value, bool) or isinstance(value, int):
        return varint(number << 3) + varint(int(value))
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def tensor(name, dims, values, kind=None):
    kind = kind or (FLOAT if any(isinstance(value, float) for value in values) else INT64)
    code = {FLOAT: "f", INT64: "q", INT32: "i", UINT8: "B", INT8: "b", BOOL: "?"}[kind]
    raw = struct.pack("<%d%s" % (len(values), code), *values)
    return field(1, list(dims)) + field(2, kind) + field(8, name) + field(9, raw)


def attribute(name, value):
    if isinstance(value, bytes):  # a tensor
        return field(1, name) + field(5, value) + field(20, 4)
    if isinstance(value, dict):  # a graph
        return field(1, name) + field(6, value["graph"]) + field(20, 5)
    if isinstance(value, float):
        return field(1, name) + field(2, value) + field(20, 1)
    if isinstance(value, int):
        return field(1, name) + field(3, value) + field(20, 2)
    if isinstance(value, str):
        return field(1, name) + field(4, value) + field(20, 3)
    if value and isinstance(value[0], float):
        return field(1, name) + field(7, value) + field(20, 6)
    return field(1, name) + field(8, value) + field(20, 7)


def node(op_type, inputs, outputs, name="", domain="", **attributes):
    return (field(1, inputs) + field(2, outputs) + field(3, name) + field(4, op_type) +
            field(5, [attribute(key, value) for key, value in attributes.items()]) + field(7, domain))


def value(name, dims, kind=FLOAT):
    """dims: sizes, names of symbols, or None for a dimension that nothing is said about."""
    parts = [field(1, size) if isinstance(size, int) else field(2, size) if size else b"" for size in dims]
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, field(1, parts))))


def graph(nodes, inputs, outputs, initializers=(), values=(), name="g"):
    return (field(1, list(nodes)) + field(2, name) + field(5, list(initializers)) + field(11, list(inputs)) +
            field(12, list(outputs)) + field(13, list(values)))


def function(name, domain, inputs, outputs, nodes, attributes=(), opset=18):
    return (field(1, name) + field(4, inputs) + field(5, outputs) + field(6, list(attributes)) + field(7, list(nodes)) +
            field(9, field(1, "") + field(2, opset)) + field(10, domain))


def model(body, opset=18, functions=(), domains=()):
    opsets = [field(1, "") + field(2, opset)] if opset else []
    opsets += [field(1, domain) + field(2, 1) for domain in domains]
    return field(1, 8) + field(7, body) + field(8, opsets) + field(25, list(functions))


def mlp(batch="batch", hidden=16):
    weights = [0.01 * (i % 7) - 0.02 for i in range(8 * hidden)]
    return model(graph(
        [node("Gemm", ["x", "w0", "b0"], ["h"], name="/fc0/Gemm", transB=0), node("Relu", ["h"], ["a"], name="/act/Relu"),
         node("MatMul", ["a", "w1"], ["y"], name="/fc1/MatMul")],
        [value("x", [batch, 8])], [value("y", [batch, 4])],
        [tensor("w0", [8, hidden], weights), tensor("b0", [hidden], [0.5] * hidden),
         tensor("w1", [hidden, 4], [0.25] * (hidden * 4))]))
