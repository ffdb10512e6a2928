"""ONNX models through the command line and over HTTP: import, optimize, run, refusals."""
import gzip
import json
import os
import subprocess
import tempfile

from libe2e import Daemon, MAGISD, Tests
from libonnx import BOOL, INT64, field, function, graph, mlp, model, node, tensor, value

home = tempfile.mkdtemp(prefix="magisd-onnx-", dir=os.environ.get("MAGIS_TMP"))


def path(name, data=None):
    full = os.path.join(home, name)
    if data is not None:
        with open(full, "wb") as file:
            file.write(data)
    return full


def run(*arguments):
    return subprocess.run([MAGISD, *arguments], capture_output=True, text=True, timeout=300)


def outputs(file, *arguments):
    """name -> first 8 values; what was said on stderr where it failed."""
    answer = run("run", file, "--json", *arguments)
    return json.loads(answer.stdout)["outputs"] if answer.returncode == 0 else answer


def test_round(t):
    file = path("mlp.onnx", mlp())
    native = path("mlp.json")
    t.equal("import", run("import", file, "-o", native, "--symbols", "batch=64").returncode, 0)
    g = json.load(open(native))
    kinds = {v["name"]: (v["kind"], v["shape"]) for v in g["values"]}
    t.equal("kinds and shapes", kinds, {"x": ("input", [64, 8]), "w0": ("weight", [8, 16]), "b0": ("weight", [16]),
                                        "w1": ("weight", [16, 4])})
    t.equal("operators", [(op["op"], op["module"]) for op in g["ops"]],
            [("gemm", "fc0"), ("relu", "act"), ("matmul", "fc1")])
    plan = path("plan.json")
    answer = run("optimize", file, "--symbols", "batch=4096", "--training", "loss=mse,optimizer=sgd", "--evaluations", "50",
                 "--json", "-o", plan)
    t.check("optimize a training step", answer.returncode == 0 and json.loads(answer.stdout)["checked"]["rejected"] == 0,
            answer)
    answer = run("optimize", file, "--symbols", "batch=4096", "--evaluations", "50", "--json", "-o", plan)
    t.check("optimize", answer.returncode == 0, answer)
    result = outputs(file, plan, "--symbols", "batch=4096")
    t.check("the plan computes the same", result["y"]["error"] < 1e-9, result)
    t.equal("digest of file and import", json.loads(run("run", native, "--json").stdout)["digest"],
            json.loads(run("run", file, "--json", "--symbols", "batch=64").stdout)["digest"])


def test_numbers(t):
    """x is 0 everywhere: what comes out is b0 through the rest."""
    result = outputs(path("mlp.onnx", mlp()), "--symbols", "batch=2", "--fill", "zeros")
    t.equal("initialisers are used", result["y"]["head"], [2.0] * 8)
    t.equal("dims", result["y"]["dims"], [2, 4])


def test_symbols(t):
    answer = run("import", path("mlp.onnx", mlp()))
    t.check("open symbols are named", answer.returncode == 2 and "batch" in answer.stderr, answer)
    file = path("open.onnx", model(graph([node("Relu", ["x"], ["y"])], [value("x", [None, "n", 3])], [value("y", [])])))
    answer = run("import", file)
    t.check("a dimension without name", answer.returncode == 2 and "x.0" in answer.stderr and "n" in answer.stderr, answer)
    t.equal("bound by place and name", outputs(file, "--symbols", "x.0=2,n=5")["y"]["dims"], [2, 5, 3])
    for given, wanted in (("batch=64,foo=3", '"foo"; it has batch'), ("x.7=3,batch=64", '"x.7"')):
        answer = run("import", path("mlp.onnx", mlp()), "--symbols", given)
        t.check("no such symbol: " + given, answer.returncode == 2 and wanted in answer.stderr, answer)
    t.equal("a zoo network has none", run("optimize", "zoo:mlp", "--symbols", "n=1").returncode, 2)


def test_forms(t):
    """Forms of opset 18 and later, shapes worked out while the file is read, functions, branches."""
    x = [value("x", [2, 6])]

    def head(nodes, initializers=(), opset=18, inputs=x, **more):
        result = outputs(path("form.onnx", model(graph(nodes, inputs, [value("y", [])], initializers), opset=opset, **more)),
                         "--fill", "lcg")
        return (result["y"]["dims"], result["y"]["head"]) if isinstance(result, dict) else result

    whole = head([node("Identity", ["x"], ["y"])])[1]
    t.equal("Split by num_outputs", head([node("Split", ["x"], ["y", "z", "w", "v"], axis=1, num_outputs=4)]),
            ([2, 2], whole[0:2] + whole[6:8]))
    t.equal("ReduceSum with axes as operand", head(
        [node("ReduceSum", ["x", "a"], ["s"], keepdims=0), node("Shape", ["s"], ["y"])], [tensor("a", [1], [-1])]),
        ([1], [2.0]))
    t.equal("ReduceMax with axes as attribute", head([node("ReduceMax", ["x"], ["m"], axes=[1], keepdims=1),
                                                      node("Shape", ["m"], ["y"])], opset=13), ([2], [2.0, 1.0]))
    t.equal("nothing reduced", head([node("ReduceSum", ["x"], ["y"], noop_with_empty_axes=1)]), ([2, 6], whole))
    t.equal("shape arithmetic", head(
        [node("Shape", ["x"], ["s"]), node("Gather", ["s", "one"], ["c"]), node("Div", ["c", "two"], ["h"]),
         node("Unsqueeze", ["h", "zero"], ["u"]), node("Concat", ["u", "open"], ["t"], axis=0),
         node("Reshape", ["x", "t"], ["r"]), node("Shape", ["r"], ["y"])],
        [tensor("one", [], [1]), tensor("two", [], [2]), tensor("zero", [1], [0]), tensor("open", [1], [-1])]), ([2], [3.0, 4.0]))
    t.equal("slice backwards", head([node("Slice", ["x", "s", "e", "a", "b"], ["y"])],
                                    [tensor("s", [1], [-1]), tensor("e", [1], [-100]), tensor("a", [1], [1]),
                                     tensor("b", [1], [-2])])[1][:3], [whole[5], whole[3], whole[1]])
    double = function("Twice", "local", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])])
    scale = function("Scale", "local", ["a"], ["b"], [
        node("Twice", ["a"], ["c"], domain="local"), field(1, ["c"]) + field(2, ["b"]) + field(4, "LeakyRelu") +
        field(5, field(1, "alpha") + field(21, "slope") + field(20, 1))], ["slope"])
    t.equal("functions within functions, attributes passed on", head(
        [node("Scale", ["x"], ["y"], domain="local", slope=1.0)], functions=[double, scale], domains=["local"]),
        ([2, 6], [2 * v for v in whole]))
    branch = {"graph": graph([node("Neg", ["x"], ["p"])], [], [value("p", [2, 6])])}
    other = {"graph": graph([node("Abs", ["x"], ["q"])], [], [value("q", [2, 6])])}
    t.equal("a branch whose condition is known", head(
        [node("If", ["c"], ["y"], then_branch=branch, else_branch=other)], [tensor("c", [], [True], BOOL)]),
        ([2, 6], [-v for v in whole]))
    rounds = {"graph": graph([node("Add", ["v", "x"], ["w"]), node("Identity", ["k"], ["m"])],
                             [value("i", [], INT64), value("k", [], BOOL), value("v", [2, 6])],
                             [value("m", [], BOOL), value("w", [2, 6]), value("w", [2, 6])])}
    t.equal("a loop whose rounds are known", head(
        [node("Loop", ["n", "", "x"], ["z", "all"], body=rounds), node("Shape", ["all"], ["s"]),
         node("Sub", ["z", "x"], ["y"])], [tensor("n", [], [3])])[0], [2, 6])
    t.equal("no opset at all", head([node("Relu", ["x"], ["y"])], opset=0)[0], [2, 6])


def test_refusals(t):
    """Everything that is not supported in one answer, with counts; exit code 4."""
    nodes = [node("Fancy", ["x"], ["a"], domain="com.example"), node("Fancy", ["a"], ["b"], domain="com.example"),
             node("NonMaxSuppression", ["x", "x"], ["c"]), node("Fancy", ["x"], ["d"], domain="com.example"),
             node("Concat", ["b", "c", "d"], ["y"], axis=0)]
    answer = run("import", path("bad.onnx", model(graph(nodes, [value("x", [1, 4, 4])], [value("y", ["n", 3])]))))
    t.equal("exit code", answer.returncode, 4)
    t.check("listed with counts", "com.example.Fancy x2" in answer.stderr and "NonMaxSuppression x1" in answer.stderr, answer)
    declared = model(graph(nodes[:2] + [node("Relu", ["b"], ["y"])], [value("x", [4])], [value("y", [4])],
                           values=[value("a", [4]), value("b", [4])]))
    native = path("opaque.json")
    t.equal("declared results make it opaque", run("import", path("declared.onnx", declared), "-o", native).returncode, 0)
    t.equal("opaque operators", [op["attrs"].get("target") for op in json.load(open(native))["ops"][:2]],
            ["com.example.Fancy"] * 2)
    cycle = model(graph([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"])], [value("x", [2])], [value("b", [2])]))
    for name, data, words in (("cycle", cycle, "cycle"), ("cut off", mlp()[:-7], "cut off"), ("no ONNX", b"\x7fELF" + bytes(60), "no ONNX"),
                              ("old", model(graph([], [], []), opset=6), "older than 7")):
        answer = run("import", path("bad.onnx", data))
        t.check(name, answer.returncode in (2, 4) and words in answer.stderr, answer)


def multipart(parts, boundary="x1y2"):
    body = b"".join(b"--%s\r\nContent-Disposition: form-data; name=\"%s\"; filename=\"name=f\"\r\nContent-Type: text/plain\r\n\r\n%s\r\n"
                    % (boundary.encode(), name.encode(), data) for name, data in parts)
    return body + b"--%s--\r\n" % boundary.encode(), "multipart/form-data; boundary=" + boundary


def test_post(t):
    """Models over HTTP: raw, compressed, as a form; members of the request in the query."""
    daemon = Daemon("--intakes", "1")
    try:
        model_file = mlp()
        query = "?symbols.batch=2048&limit.memory_ratio=0.9&budget.evaluations=40&labels.branch=7&training.loss=mse&wait=60"
        answer = daemon.request("POST", "/optimize" + query, model_file, {"Content-Type": "application/onnx"}, timeout=90)
        job = answer.json
        t.check("raw", answer.status == 200 and job["state"] == "succeeded", answer.text)
        request = daemon.get("/jobs/%s/request" % job["id"]).json
        t.equal("members from the query", (request["symbols"], request["limit"]["memory_ratio"], request["labels"],
                                           request["training"]["loss"]), ({"batch": 2048}, 0.9, {"branch": "7"}, "mse"))
        for name, headers, body in (
                ("octets", {"Content-Type": "application/octet-stream"}, model_file),
                ("gzip", {"Content-Type": "application/onnx", "Content-Encoding": "gzip"}, gzip.compress(model_file))):
            answer = daemon.request("POST", "/estimate?symbols.batch=2048", body, headers)
            t.check(name, answer.status == 200 and answer.json["graph"]["operators"] == 3, answer.text)
        wish = json.dumps({"symbols": {"batch": 2048}, "training": {"loss": "sum"}}).encode()
        body, kind = multipart([("request", wish), ("graph", model_file)])
        answer = daemon.request("POST", "/estimate", body, {"Content-Type": kind})
        t.check("form", answer.status == 200 and answer.json["graph"]["operators"] > 5, answer.text)
        native = run("import", path("mlp.onnx", model_file), "--symbols", "batch=2048").stdout.encode()
        body, kind = multipart([("graph", native)])
        other = daemon.request("POST", "/estimate", body, {"Content-Type": kind})
        t.check("form with a JSON graph", other.status == 200 and other.json["graph"]["operators"] == 3, other.text)
        for name, target, body, headers, status, words in (
                ("open symbols", "/estimate", model_file, {"Content-Type": "application/onnx"}, 422, "batch"),
                ("unknown member", "/estimate?nonsense=1", model_file, {"Content-Type": "application/onnx"}, 422, "nonsense"),
                ("unknown parameter of JSON", "/estimate?nonsense=1", b"{}", {}, 400, "nonsense"),
                ("no model", "/estimate", b"\x7fELF" + bytes(60), {"Content-Type": "application/onnx"}, 422, "no ONNX"),
                ("no gzip", "/estimate", model_file, {"Content-Type": "application/onnx", "Content-Encoding": "gzip"}, 422, "damaged"),
                ("a bomb", "/estimate", gzip.compress(field(20, bytes(64 << 20)), 9),
                 {"Content-Type": "application/onnx", "Content-Encoding": "gzip"}, 422, "damaged"),
                ("a picture", "/estimate", b"x", {"Content-Type": "image/png"}, 415, "application/onnx"),
                ("form without a graph", "/estimate", *multipart([("request", b"{}")]), 422, "graph"),
                ("form with another part", "/estimate", *multipart([("model", b"{}")]), 422, "model"),
                ("form cut off", "/estimate", multipart([("graph", model_file)])[0][:-40], {"Content-Type": "multipart/form-data; boundary=x1y2"}, 422, "graph"),
                ("form without a boundary", "/estimate", b"--x", {"Content-Type": "multipart/form-data"}, 422, "boundary")):
            headers = {"Content-Type": headers} if isinstance(headers, str) else headers
            answer = daemon.request("POST", target, body, headers)
            t.check(name, answer.status == status and words in answer.text, (answer.status, answer.text))
        unknown = model(graph([node("Fancy", ["x"], ["y"], domain="com.example")], [value("x", [4])], [value("y", [4])]))
        answer = daemon.request("POST", "/estimate", unknown, {"Content-Type": "application/onnx"})
        listed = [(one["operator"], one["count"]) for one in answer.json.get("unsupported", [])]
        t.equal("opaque operators are listed", listed, [("com.example.Fancy", 1)])
    finally:
        daemon.close()


tests = Tests()
tests.run(test_round, test_numbers, test_symbols, test_forms, test_refusals, test_post)
tests.end()
