"""Plans as PyTorch modules: tiny networks of the zoo, planned with every kind of move, run by torch in double precision,
give the numbers of the reference executor. Left out loudly where there is no torch."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

from libe2e import MAGISD, Tests

home = tempfile.mkdtemp(prefix="magisd-export-", dir=os.environ.get("MAGIS_TMP"))
here = os.path.dirname(os.path.abspath(__file__))

DEVICE = {"name": "small", "sm_count": 82, "peak_flops": {"f32": 1e9}, "mem_bw": 1e8, "launch_s": 1e-6,
          "link_bw_d2h": 1e8, "link_bw_h2d": 1e8, "link_latency_s": 1e-7, "memory_bytes": 1 << 30, "align": 8,
          "reserve_bytes": 0}
TINY = dict(batch=5, image=32, seq_len=4, layers=2, hidden=8, heads=2, kv_heads=1, ffn=6, patch=4, vocabulary=7,
            classes=3, filters=2, cells=1, length=6, rows=4, columns=6, size=24, neighbours=2, nodes=6, experts=2,
            every=1, width=0.03, dropout=0)
TINY["in"] = 5
SPECIAL = {"mlp": {"layers": 3, "batch": 11}, "unet": {"image": 16}, "unet++": {"image": 16}, "unet3+": {"image": 16},
           "nasnet-like": {"image": 8}, "lstm": {"cells": "unrolled"}, "vit-base-16": {"image": 8}}
# network, variant, training
CASES = [
    ("mlp", "real", "loss=cross_entropy,optimizer=adamw"), ("mlp", "paper", "loss=squared,optimizer=momentum"),
    ("resnet18", "real", "loss=cross_entropy,optimizer=sgd"), ("resnet50", "paper", "loss=mse,optimizer=none"),
    ("bert-base", "real", "loss=mse,optimizer=adam"), ("bert-base", "paper", "loss=squared,optimizer=sgd"),
    ("gpt-neo-125m", "real", "loss=cross_entropy,optimizer=sgd"), ("llama-7b", "real", "loss=cross_entropy,optimizer=adamw"),
    ("vit-base-16", "real", "loss=mse,optimizer=adam"), ("unet", "real", "loss=mse,optimizer=sgd"),
    ("unet++", "paper", "loss=squared,optimizer=sgd"), ("unet3+", "real", "loss=sum,optimizer=sgd"),
    ("densenet121", "real", "loss=mse,optimizer=sgd"), ("vgg16", "paper", "loss=mse,optimizer=sgd"),
    ("randwire", "real", "loss=mse,optimizer=momentum"), ("nasnet-like", "paper", "loss=squared,optimizer=adam"),
    ("random-dag", None, "loss=squared,optimizer=sgd"), ("figure2", None, None), ("figure6", None, None),
]
ATTENTION = ("bert-base", "gpt-neo-125m")


def run(*arguments):
    return subprocess.run([MAGISD, *arguments], capture_output=True, text=True, timeout=300)


def find_torch():
    """A Python with torch, or None."""
    for python in (os.environ.get("PYTHON"), sys.executable, "/usr/bin/python3"):
        found = shutil.which(python or "")
        if found and subprocess.run([found, "-c", "import torch"], capture_output=True).returncode == 0:
            return found
    return None


def networks():
    listed = json.loads(run("zoo", "--json").stdout)["networks"]
    return {n["name"]: [p["name"] for p in n["parameters"]] for n in listed}


def settings(name, parameters, variant, **more):
    chosen = dict(TINY, **SPECIAL.get(name, {}), **more)
    if variant:
        chosen["variant"] = variant
    return ",".join("%s=%s" % (p, chosen[p]) for p in parameters if p in chosen)


def kinds(plan):
    """What steps a plan has, and whether a region's parts differ."""
    p = json.load(open(plan))
    uneven = any(r["length"] % (len(r["bounds"]) - 1) for r in p["regions"])
    return {s["do"] for s in p["steps"]} | ({"uneven"} if uneven else set())


def varied(plans):
    """At most five: those that add most kinds of steps, then the largest."""
    left, chosen, seen = {p: kinds(p) for p in sorted(plans)}, [], set()
    while left and len(chosen) < 5:
        best = max(left, key=lambda p: (len(left[p] - seen), os.path.getsize(p)))
        seen |= left.pop(best)
        chosen.append(best)
    return chosen


class Job:
    """A network with its plans and their modules."""

    def __init__(self, t, label, source, options, seed=0):
        self.label, self.seed = label, seed
        self.fill = "normal" if source[0].startswith("bert") else "lcg"  # of two token types lcg would name a third
        folder = tempfile.mkdtemp(dir=home)
        self.graph, self.folder, self.modules = os.path.join(folder, "graph.json"), folder, []
        answer = run("zoo", source[0], *source[1], "-o", self.graph)
        t.check(label + ": zoo", answer.returncode == 0, answer.stderr)
        device = os.path.join(home, "device.json")
        with open(device, "w") as file:
            json.dump(DEVICE, file)
        plans = os.path.join(folder, "plans")
        os.mkdir(plans)
        answer = run("optimize", self.graph, "--device", device, "--all-plans", plans, "--json", *options)
        t.check(label + ": optimize", answer.returncode == 0, answer.stderr)
        for number, plan in enumerate(["original"] + varied([os.path.join(plans, p) for p in os.listdir(plans)])):
            module = os.path.join(folder, "plan%d.py" % number)
            answer = run("export", self.graph, plan, "--format", "torch", "-o", module)
            if t.check("%s: export %s" % (label, plan), answer.returncode == 0, answer.stderr):
                self.modules.append(module)

    def reference(self):
        return json.loads(run("run", self.graph, "--fill", self.fill, "--json").stdout)["outputs"]


def same(got, want):
    """Of two summaries; what differs, or None."""
    scale = max(1e-300, want["l2"])
    count = 1
    for n in want["dims"]:
        count *= n
    if got["dims"] != want["dims"]:
        return "dims %r, not %r" % (got["dims"], want["dims"])
    for key in ("sum", "l2", "min", "max"):
        if abs(got[key] - want[key]) > 1e-9 * scale * max(1, count if key == "sum" else 1) + 1e-12:
            return "%s %r, not %r" % (key, got[key], want[key])
    for a, b in zip(got["head"], want["head"]):
        if abs(a - b) > 1e-9 * scale + 1e-12:
            return "head %r, not %r" % (got["head"], want["head"])
    return None


def run_modules(t, python, jobs):
    """For each module of each job its answer; checks that it is one."""
    asked, answered = os.path.join(home, "jobs.json"), os.path.join(home, "answers.json")
    with open(asked, "w") as file:
        json.dump([{"graph": j.graph, "modules": j.modules, "seed": j.seed, "fill": j.fill} for j in jobs], file)
    done = subprocess.run([python, os.path.join(here, "libtorch.py"), asked, answered], capture_output=True, text=True)
    if not t.check("torch runs", done.returncode == 0, done.stderr[-2000:]):
        return {}
    answers = iter(json.load(open(answered)))
    return {module: next(answers) for j in jobs for module in j.modules}


def compare(t, label, answer, want):
    if not t.check(label + " runs", "error" not in answer, answer.get("error")):
        return
    t.equal(label + ": names", sorted(answer["results"]), sorted(want))
    for name in want:
        if name in answer["results"]:
            wrong = same(answer["results"][name], want[name])
            t.check("%s: %s" % (label, name), wrong is None, wrong)


def test_zoo(t, python):
    known = networks()
    jobs = []
    for name, variant, training in CASES:
        source = ["--set", settings(name, known[name], variant)] + (["--training", training] if training else [])
        jobs.append(Job(t, "%s %s" % (name, variant), (name, source), ["--evaluations", "150"]))
    for name in ATTENTION:
        source = ["--set", settings(name, known[name], "real", attention="fused"), "--training", "loss=mse,optimizer=sgd"]
        jobs.append(Job(t, name + " fused", (name, source), ["--evaluations", "60"]))
    answers = run_modules(t, python, jobs)
    text = ""
    for job in jobs:
        want = job.reference()
        for module in job.modules if answers else []:
            compare(t, "%s %s" % (job.label, os.path.basename(module)), answers[module], want)
            text += open(module).read().split("def step(")[1]
    moves = {"a region": "    def part0(p", "its loop": "    part0(p0)", "a second extent": "    def part1(p",
             "an accumulation": "accumulate(", "a result in parts": ".copy_(",
             "a store": " = store(", "a load": " = load(", "an update in place": "op_sgd_(", "a view": ".permute(",
             "an end": "    del v"}
    for what, sign in moves.items():
        t.check("some plan has " + what, sign in text)


def test_random(t, python):
    """Unsplit plans draw what the original draws, with recomputation too; seeds matter."""
    known = networks()["bert-base"]
    source = ("bert-base", ["--set", settings("bert-base", known, "real", dropout=0.3), "--training",
                            "loss=squared,optimizer=sgd"])
    options = ["--evaluations", "150", "--no-fission", "--no-rewrite", "--no-swap"]
    jobs = [Job(t, "dropout", source, options, seed=1), Job(t, "dropout", source, options, seed=2),
            Job(t, "dropout in parts", source, ["--evaluations", "150"], seed=1)]
    answers = run_modules(t, python, jobs)
    first, second, parts = ([answers[m] for m in j.modules] for j in jobs)
    for answer in first[1:]:
        compare(t, "dropout", answer, first[0]["results"])
    t.check("another seed draws others", first[0]["results"] != second[0]["results"])
    for answer in parts:
        t.check("dropout in parts runs", "error" not in answer, answer)
    repeated = any(open(m).read().count("op_dropout(") > open(jobs[0].modules[0]).read().count("op_dropout(")
                   for m in jobs[0].modules)
    t.check("some plan draws again", repeated)


def test_refusals(t, python):
    source = ["--set", settings("mlp", networks()["mlp"], "real"), "--training", "loss=mse,optimizer=sgd"]
    job = Job(t, "mlp", ("mlp", source), ["--evaluations", "10"])
    script = ("import sys; sys.path.insert(0, %r); import libtorch, torch, json\n"
              "m = libtorch.load(%r); g = json.load(open(%r)); i, w = libtorch.fill(torch, g)\n"
              "for change in (dict(graph='0' * 64), {}):\n"
              "    try:\n        m.step(dict(i), dict(w), **change); print('ran')\n"
              "    except ValueError as e: print(e)\n" % (here, job.modules[0], job.graph))
    lines = subprocess.run([python, "-c", script], capture_output=True, text=True).stdout.splitlines()
    t.check("another graph is refused", lines[:1] == ["this plan is for another graph"], lines)
    t.check("tensors of another dtype are refused", len(lines) == 2 and "must be torch.float32" in lines[1], lines)
    answer = run("export", job.graph, "original", "--format", "tarot")
    t.check("an unknown format is refused", answer.returncode == 2 and "torch" in answer.stderr, answer)
    opaque = os.path.join(home, "opaque.json")
    with open(opaque, "w") as file:
        json.dump({"format": "magis-graph/1", "name": "o", "values": [
            {"name": "x", "shape": [4], "dtype": "f32", "kind": "input"},
            {"name": "y", "shape": [4], "dtype": "f32"}],
            "ops": [{"name": "o", "op": "opaque", "inputs": ["x"], "outputs": ["y"], "attrs": {"flops": 1}}],
            "outputs": ["y"]}, file)
    answer = run("export", opaque, "original", "--format", "torch")
    t.check("an operator without a function is named", answer.returncode == 4 and "opaque" in answer.stderr, answer)


if __name__ == "__main__":
    tests = Tests()
    torch_python = find_torch()
    if torch_python:
        tests.run(lambda t: test_refusals(t, torch_python), lambda t: test_random(t, torch_python),
                  lambda t: test_zoo(t, torch_python))
    else:
        print("SKIPPED: no torch (make deps-torch); modules for PyTorch are not tested")
        tests.check("magisd export runs", run("export", "--help").returncode == 0)
    tests.end()
