"""Each operator's PyTorch function gives the numbers of its reference kernel; and plans with regions of every form, as
modules, those of their network. Left out, loudly, where there is no PyTorch (make deps-torch)."""
import json
import math
import os
import re
import subprocess
import sys
import tempfile

import libsteps  # has us run by a Python with torch
import torch

import libtorch
import magis_apply
from export_torch import CASES, compare, networks, run, settings
from libe2e import MAGISD, Tests

LARGEST = sys.float_info.max
HOME = tempfile.mkdtemp(prefix="magisd-operators-", dir=os.environ.get("MAGIS_TMP"))
TOOLS = os.path.join(os.environ.get("BUILD", os.path.dirname(MAGISD)), "tools")
LIBRARY = os.path.join(libsteps.HERE, "..", "..", "core", "export", "torch_ops.py")


def tensor(value):
    data = [float("nan") if x is None else x for x in value["data"]]  # JSON has no other word for it
    return torch.tensor(data, dtype=torch.float64).reshape(tuple(value["shape"])).to(libtorch.dtypes(torch)[value["dtype"]])


def wrong(got, want):
    """What differs, or None."""
    if list(got.shape) != want["shape"]:
        return "shape %r, not %r" % (list(got.shape), want["shape"])
    expected = torch.tensor([float("nan") if x is None else x for x in want["data"]], dtype=torch.float64)
    got = got.double().flatten()
    got = torch.where(got.isinf(), torch.full_like(got, float("nan")), got)
    same = torch.isclose(got, expected, rtol=1e-7, atol=1e-9, equal_nan=True)
    if bool(same.all()):
        return None
    at = int((~same).nonzero()[0])
    return "element %d is %r, not %r" % (at, float(got[at]), float(expected[at]))


def test_operators(t):
    seen, folder = set(), os.path.join(HOME, "operators")
    os.mkdir(folder)
    made = subprocess.run([os.path.join(TOOLS, "op_modules"), "1", folder], capture_output=True, text=True)
    t.check("every sample is computed", made.returncode == 0, made.stderr)
    for name in sorted((n for n in os.listdir(folder) if n.endswith(".py")), key=lambda n: int(n[:-3])):
        told = json.load(open(os.path.join(folder, name[:-3] + ".json")))
        module = libtorch.load(os.path.join(folder, name))
        module.DTYPE.update(libtorch.dtypes(torch))
        try:
            results = module.step({key: tensor(value) for key, value in told["inputs"].items()}, {})
        except Exception as error:
            t.check(told["sample"], False, "%s: %s" % (type(error).__name__, error))
            continue
        seen.add(told["op"])
        for key, want in told["outputs"].items():
            if told["seeded"]:
                t.equal("%s: %s" % (told["sample"], key), list(results[key].shape), want["shape"])
            else:
                t.check("%s: %s" % (told["sample"], key), wrong(results[key], want) is None, wrong(results[key], want))
    written = set(re.findall(r"^def op_(\w+?)_?\(", open(LIBRARY).read(), re.M))
    t.equal("functions without a sample", sorted(written - seen), [])


def test_kernels(t):
    """The interpreter of plans computes each operator that it knows as the reference does."""
    folder, seen = os.path.join(HOME, "operators"), set()
    magis_apply.DTYPES.update(libtorch.dtypes(torch))
    for name in sorted((n for n in os.listdir(folder) if n.endswith(".plan")), key=lambda n: int(n[:-5])):
        told = json.load(open(os.path.join(folder, name[:-5] + ".json")))
        program = json.load(open(os.path.join(folder, name)))["program"]
        op = program["graph"]["ops"][0]
        if told["op"] not in magis_apply.KERNELS or told["op"] == "bn_apply":  # whose samples have roots below zero
            continue
        operands = [tensor(told["inputs"][key]) for key in op["inputs"]]
        shapes = [program["shapes"][key] for key in op["outputs"]]
        try:
            results = magis_apply.KERNELS[told["op"]](operands, op.get("attrs", {}), shapes)
        except magis_apply.PlanError:
            continue  # of no captured step
        except Exception as error:
            t.check("kernel: " + told["sample"], False, "%s: %s" % (type(error).__name__, error))
            continue
        seen.add(told["op"])
        results = results if isinstance(results, (list, tuple)) else [results]
        for key, got in zip(op["outputs"], results):
            t.check("kernel: %s: %s" % (told["sample"], key), wrong(got, told["outputs"][key]) is None,
                    wrong(got, told["outputs"][key]))
    t.equal("kernels without a sample", sorted(set(magis_apply.KERNELS) - seen), ["bn_apply"])


def test_infinite_numbers(t):
    """What a plan says for infinity is infinity in every type, and the largest number of a narrow type is a number."""
    library = {"torch": torch, "F": torch.nn.functional, "DTYPE": libtorch.dtypes(torch)}
    exec(open(LIBRARY).read(), library)
    for name, dtype in (("f16", torch.float16), ("bf16", torch.bfloat16), ("f32", torch.float32), ("f64", torch.float64)):
        x, most = torch.ones(1, dtype=dtype), torch.finfo(dtype).max
        for value, want in ((LARGEST, math.inf), (-LARGEST, -math.inf), (2.5, 2.5), (most, math.inf if most == LARGEST else most)):
            padded = library["op_pad"](x, pads=[1, 1], mode="constant", value=value)
            t.equal("%s: pad by %r" % (name, value), padded.tolist(), [want, 1, want])
            filled = library["op_fill"](shape=(1,), to=name, value=value, device="cpu")
            t.equal("%s: fill with %r" % (name, value), filled.tolist(), [want])
        t.equal(name + ": no limit", library["limits_between"](x, -LARGEST, LARGEST), (-math.inf, math.inf))


def test_regions(t):
    """Slices, joins, sums and nested regions, of all forms that the model of plans allows."""
    known, seen = networks(), set()
    for seed, (name, variant, training) in enumerate(CASES[::3]):
        if name == "densenet121":
            continue  # joins more operands than cut_plans takes
        folder = tempfile.mkdtemp(dir=HOME)
        graph = os.path.join(folder, "graph.json")
        source = ["--set", settings(name, known[name], variant)] + (["--training", training] if training else [])
        t.check("%s: made" % name, run("zoo", name, *source, "-o", graph).returncode == 0)
        cut = subprocess.run([os.path.join(TOOLS, "cut_plans"), graph, str(seed + 1), "6", folder], capture_output=True,
                             text=True)
        if not t.check("%s: cut" % name, cut.returncode == 0, cut.stderr):
            continue
        fill = "normal" if name.startswith("bert") else "lcg"
        want = json.loads(run("run", graph, "--fill", fill, "--json").stdout)["outputs"]
        document = json.load(open(graph))
        filled = libtorch.fill(torch, document, fill)
        for number in range(6):
            plan, module = (os.path.join(folder, "%d.%s" % (number, kind)) for kind in ("json", "py"))
            seen |= {step["do"] for step in json.load(open(plan))["steps"]}
            answer = run("export", graph, plan, "--format", "torch", "-o", module)
            if t.check("%s: export %d" % (name, number), answer.returncode == 0, answer.stderr):
                compare(t, "%s %d" % (name, number), libtorch.run(torch, document, filled, module, 0), want)
    t.check("slices, joins and sums", {"slice", "join", "acc", "store", "load"} <= seen, seen)


if __name__ == "__main__":
    tests = Tests()
    tests.run(test_operators, test_kernels, test_infinite_numbers, test_regions)
    tests.end()
