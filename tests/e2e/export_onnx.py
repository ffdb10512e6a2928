"""Plans as ONNX models through the command line and over HTTP: what comes back computes the same."""
import json
import os
import subprocess
import tempfile

from libe2e import Daemon, MAGISD, Tests
from libonnx import mlp

home = tempfile.mkdtemp(prefix="magisd-export-onnx-", dir=os.environ.get("MAGIS_TMP"))
DEVICE = {"name": "small", "sm_count": 82, "peak_flops": {"f32": 1e9}, "mem_bw": 1e8, "launch_s": 1e-6,
          "link_bw_d2h": 1e8, "link_bw_h2d": 1e8, "link_latency_s": 1e-7, "memory_bytes": 1 << 30, "align": 8,
          "reserve_bytes": 0}


def path(name, data=None):
    full = os.path.join(home, name)
    if data is not None:
        with open(full, "wb") as file:
            file.write(data if isinstance(data, bytes) else json.dumps(data).encode())
    return full


def run(*arguments):
    return subprocess.run([MAGISD, *arguments], capture_output=True, text=True, timeout=300)


def outputs(*arguments):
    answer = run("run", *arguments, "--fill", "lcg", "--json")
    return json.loads(answer.stdout)["outputs"] if answer.returncode == 0 else answer


def same(got, want):
    """Heads and sums of all outputs, to single precision."""
    if not isinstance(got, dict) or sorted(got) != sorted(want):
        return False
    return all(abs(a - b) <= 1e-5 * (1 + want[n]["l2"]) for n in want
               for a, b in zip(got[n]["head"] + [got[n]["l2"]], want[n]["head"] + [want[n]["l2"]]))


def plans_of(t, label, file, *options):
    folder = tempfile.mkdtemp(dir=home)
    answer = run("optimize", file, *options, "--device", path("device.json", DEVICE), "--all-plans", folder, "--evaluations",
                 "200", "--json")
    t.check(label + ": optimize", answer.returncode == 0, answer.stderr)
    return sorted(os.path.join(folder, p) for p in os.listdir(folder))


def test_file(t):
    """From an ONNX file: its weights are in the new one."""
    file, symbols = path("mlp.onnx", mlp()), ("--symbols", "batch=64")
    want, parts = outputs(file, *symbols), 0
    for number, plan in enumerate(["original"] + plans_of(t, "mlp", file, *symbols, "--no-swap")):
        new = path("planned%d.onnx" % number)
        answer = run("export", file, plan, *symbols, "--format", "onnx", "-o", new)
        if t.check("export " + plan, answer.returncode == 0, answer.stderr):
            t.check("the same numbers: " + plan, same(outputs(new), want), outputs(new))
            parts += b"Concat" in open(new, "rb").read()
    t.check("some plan has parts", parts > 0)
    native, new = path("mlp.json"), path("bare.onnx")
    run("import", file, *symbols, "-o", native)
    run("export", native, "original", "--format", "onnx", "-o", new)
    again = json.loads(run("import", new, "-o", "-").stdout)
    t.equal("without contents weights are inputs", {v["name"]: v["kind"] for v in again["values"]},
            {n: "input" for n in ("x", "w0", "b0", "w1")})


def test_refusals(t):
    file, symbols = path("mlp.onnx", mlp()), ("--symbols", "batch=64")
    native = path("step.json")
    run("import", file, *symbols, "--training", "loss=mse,optimizer=sgd", "-o", native)
    answer = run("export", native, "original", "--format", "onnx")
    t.check("updates and gradients are listed", answer.returncode == 4 and "the update of 'w" in answer.stderr and
            "relu_grad" in answer.stderr and not answer.stdout, answer)
    plan = next((p for p in plans_of(t, "step", native)
                 if any(s["do"] == "store" for s in json.load(open(p))["steps"])), None)
    t.check("a plan that swaps", plan)
    answer = run("export", native, plan or "original", "--format", "onnx")
    t.check("swaps are listed", answer.returncode == 4 and "the swap of " in answer.stderr, answer)


def test_daemon(t):
    graph = json.loads(run("import", path("mlp.onnx", mlp()), "--symbols", "batch=64", "-o", "-").stdout)
    for training in ({}, {"training": {"loss": "mse", "optimizer": "sgd"}}):
        body = {"graph": graph, "device": DEVICE, "budget": {"evaluations": 50}, "techniques": {"swap": False}, **training}
        job = daemon.post("/optimize", body, Prefer="wait=60").json
        answer = daemon.get("/jobs/%s/plans/best?format=onnx" % job["id"])
        if training:
            t.equal("of a training step", (answer.status, answer.problem), (422, "unsupported"))
            t.check("its reasons", "update" in answer.json["detail"], answer.json)
            continue
        t.equal("over HTTP", (answer.status, answer.headers["Content-Type"]), (200, "application/octet-stream"))
        t.check("as a file", ".onnx" in answer.headers["Content-Disposition"], answer.headers)
        t.check("which is read again", isinstance(outputs(path("got.onnx", answer.data)), dict))


if __name__ == "__main__":
    tests = Tests()
    daemon = Daemon()
    tests.run(test_file, test_refusals, test_daemon)
    tests.equal("the daemon stops", daemon.close(), 0)
    tests.end()
