"""Import of an ONNX model of 100,000 nodes: seconds and the largest memory of the process."""
import os
import resource
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "e2e"))
from libonnx import graph, model, node, tensor, value

NODES = 100000


def layers():
    """Blocks of four nodes with names as exporters write them."""
    nodes, last = [], "x"
    for i in range(NODES // 4):
        name = "/encoder/layer.%d" % i
        nodes.append(node("MatMul", [last, "weight"], [name + "/MatMul_output_0"], name=name + "/dense/MatMul"))
        nodes.append(node("Add", [name + "/MatMul_output_0", "bias"], [name + "/Add_output_0"], name=name + "/dense/Add"))
        nodes.append(node("Relu", [name + "/Add_output_0"], [name + "/Relu_output_0"], name=name + "/act/Relu"))
        nodes.append(node("Add", [name + "/Relu_output_0", last], [name + "/Sum_output_0"], name=name + "/Add"))
        last = name + "/Sum_output_0"
    return nodes, last


nodes, last = layers()
data = model(graph(nodes, [value("x", ["batch", 64])], [value(last, ["batch", 64])],
                   [tensor("weight", [64, 64], [0.0] * 4096), tensor("bias", [64], [0.0] * 64)]))
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "large.onnx")
    with open(path, "wb") as file:
        file.write(data)
    begin = time.monotonic()
    subprocess.run([os.environ["MAGISD"], "import", path, "--symbols", "batch=32", "-o", os.path.join(folder, "out.json")],
                   check=True)
    seconds = time.monotonic() - begin
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print("%d nodes, %.1f MB: read, normalised and written in %.2f s (%.2f s of a processor), at most %.0f MB of memory "
      "(to reach: 2 s, 500 MB)"
      % (len(nodes), len(data) / 1e6, seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024))
