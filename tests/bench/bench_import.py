"""Import of graphs of 100,000 nodes, as an ONNX model, as native JSON and as a captured PyTorch step: seconds of a
processor and the largest memory of the process."""
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "e2e"))
from libonnx import graph, model, node, tensor, value

NODES = 100000
BLOCKS = range(NODES // 4)  # of four nodes each, with names as exporters write them


def onnx():
    nodes, last = [], "x"
    for i in BLOCKS:
        name = "/encoder/layer.%d" % i
        nodes.append(node("MatMul", [last, "weight"], [name + "/MatMul_output_0"], name=name + "/dense/MatMul"))
        nodes.append(node("Add", [name + "/MatMul_output_0", "bias"], [name + "/Add_output_0"], name=name + "/dense/Add"))
        nodes.append(node("Relu", [name + "/Add_output_0"], [name + "/Relu_output_0"], name=name + "/act/Relu"))
        nodes.append(node("Add", [name + "/Relu_output_0", last], [name + "/Sum_output_0"], name=name + "/Add"))
        last = name + "/Sum_output_0"
    return model(graph(nodes, [value("x", ["batch", 64])], [value(last, ["batch", 64])],
                       [tensor("weight", [64, 64], [0.0] * 4096), tensor("bias", [64], [0.0] * 64)]))


def native():
    ops, last = [], "x"
    for i in BLOCKS:
        name = "encoder.layer.%d" % i
        for op, inputs, result in (("matmul", [last, "weight"], name + ".matmul"), ("add", [name + ".matmul", "bias"], name + ".add"),
                                   ("relu", [name + ".add"], name + ".relu"), ("add", [name + ".relu", last], name + ".sum")):
            ops.append({"name": result, "op": op, "inputs": inputs, "outputs": [result + ".out"], "module": name})
        ops[-4]["inputs"] = [last, "weight"]
        for k in (-3, -2, -1):
            ops[k]["inputs"] = [ops[k - 1]["outputs"][0]] + ops[k]["inputs"][1:]
        last = ops[-1]["outputs"][0]
    values = [{"name": name, "shape": shape, "dtype": "f32", "kind": kind}
              for name, shape, kind in (("x", [32, 64], "input"), ("weight", [64, 64], "weight"), ("bias", [64], "weight"))]
    return json.dumps({"format": "magis-graph/1", "name": "large", "values": values, "ops": ops, "outputs": [last]}).encode()


def captured():
    nodes = []

    def add(op, shape, **members):
        name = "%s_%d" % (op.split(".")[1] if "." in op else op, len(nodes))
        out = {"shape": shape, "dtype": "f32", "strides": [shape[-1], 1][2 - len(shape):], "offset": 0, "storage": len(nodes)}
        nodes.append({"name": name, "op": op, "out": out, **members})
        return {"node": name}

    def call(op, *args, module):
        return add(op, [32, 64], args=list(args), module=module)

    last = add("placeholder", [32, 64], kind="input", path="args.0")
    weight, bias = (add("placeholder", shape, kind="weight", path=path) for shape, path in (([64, 64], "w.w"), ([64], "w.b")))
    for i in BLOCKS:
        module = "encoder.layer.%d" % i
        product = call("aten.mm.default", last, weight, module=module)
        relu = call("aten.relu.default", call("aten.add.Tensor", product, bias, module=module), module=module)
        last = call("aten.add.Tensor", relu, last, module=module)
    return json.dumps({"digest": "0" * 64, "format": "magis-aten/1", "name": "large", "nodes": nodes,
                       "outputs": [dict(last, role="result")], "torch": "2"}).encode()


def measure(name, data, folder, *options):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(data)
    child = os.spawnv(os.P_NOWAIT, os.environ["MAGISD"], ["magisd", "import", path, "-o", os.path.join(folder, "out.json"), *options])
    _, status, usage = os.wait4(child, 0)
    if status:
        sys.exit("%s was not read" % name)
    print("%-14s %5.1f MB: read, normalised and written in %.2f s of a processor, at most %.0f MB of memory (to reach: 2 s, 500 MB)"
          % (name, len(data) / 1e6, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024), flush=True)


with tempfile.TemporaryDirectory() as work:
    measure("native.json", native(), work)
    measure("captured.json", captured(), work)
    measure("model.onnx", onnx(), work, "--symbols", "batch=32")
