"""Calls of PyTorch as steps of one parameter, for tests that capture, plan and run them; and the table of calls that have
a rule."""
import json
import os
import re
import subprocess

from libsteps import HERE, TMP, compare, plans_of
from libe2e import MAGISD

import torch
import torch.nn as nn

import libtorch
import magis_apply
import magis_capture

TABLE = os.path.join(HERE, "..", "..", "core", "formats", "aten.def")


def table():
    """(name, overload, [words of the arguments]) of each line."""
    text = open(TABLE).read()
    short = dict(re.findall(r"^#define (\w+) (.*)$", text, re.M))
    short["MADE_LIKE"] = short["MADE_LIKE"].replace("MADE", short["MADE"], 1)
    for name, overloads, rest in re.findall(r'^ATEN\("(\w+)", "([^"]+)", \w+, \w+,\s+([^)]*)\)$', text, re.M):
        pieces = re.findall(r'"([^"]*)"|(\w+)', rest)
        words = "".join(piece or "".join(re.findall(r'"([^"]*)"', short[macro])) for piece, macro in pieces).split()
        for overload in overloads.split():
            yield name, overload, words


class Called(nn.Module):
    """A function of a weight and the data; its loss tells every element apart."""

    def __init__(self, function):
        super().__init__()
        self.w, self.function = nn.Parameter(torch.randn(8, 8)), function

    def forward(self, *data):
        y = self.function(self.w, *data)
        return (y * (torch.arange(y.numel(), dtype=y.dtype) * 0.01 + 0.5).view(y.shape)).sum() + 0 * self.w.sum()


def opaque_in(plan):
    return [op["name"] for op in json.load(open(plan))["program"]["graph"]["ops"] if op["op"] == "opaque"]


def module_of(t, name, model, dump, plan, data):
    """The plan as a module, and what it is given: the tensors that the captured step reads."""
    path = os.path.join(TMP, "exported.py")
    made = subprocess.run([MAGISD, "export", os.path.join(TMP, "step.json"), plan, "--format", "torch", "-o", path],
                          capture_output=True, text=True)
    if not t.check(name + ": exported", made.returncode == 0, made.stderr):
        return None, {}, {}
    module, held = libtorch.load(path), dict(model.named_parameters(), **dict(model.named_buffers()))
    inputs, weights = {}, {}
    for node in dump["nodes"]:
        if node["op"] == "placeholder":
            kind, key = inputs if node["kind"] == "input" else weights, node["path"]
            tensor = data[int(key.split(".")[1])] if node["kind"] == "input" else held[key]
            kind[key if "." in key else node["name"]] = tensor.detach().clone()
    return module, inputs, weights


def exported(t, name, step, model, dump, plan, data):
    """The plan as a module gives the loss and the gradients."""
    module, inputs, weights = module_of(t, name, model, dump, plan, data)
    if not module:
        return
    out = list(module.step(inputs, weights, graph=module.GRAPH).values())
    for parameter in model.parameters():
        parameter.grad = None
    want = step(*data).detach()
    t.check(name + ": loss of the module", torch.allclose(out[0], want, atol=1e-4, rtol=1e-5, equal_nan=True), (out[0], want))
    for key, parameter in model.named_parameters():
        same = [value for value in out if value.shape == parameter.shape]
        t.check(name + ": gradients of the module", any(torch.allclose(value, parameter.grad, atol=1e-4) for value in same), key)


def referred(t, name, model, step, data):
    """The reference executor computes what PyTorch does, of the same numbers in double precision."""
    model = model.double()
    data = [x.double() if x.is_floating_point() else x for x in data]
    paths = [os.path.join(TMP, key + ".json") for key in ("step", "graph")]
    json.dump(magis_capture.capture(step, *data, name="call").dump, open(paths[0], "w"))
    made = subprocess.run([MAGISD, "import", *paths[:1], "-o", paths[1]], capture_output=True, text=True)
    run = subprocess.run([MAGISD, "run", paths[1], "--fill", "lcg", "--json"], capture_output=True, text=True)
    if not t.check(name + ": run", made.returncode == run.returncode == 0, made.stderr + run.stderr):
        return
    inputs, weights = libtorch.fill(torch, json.load(open(paths[1])))
    with torch.no_grad():
        model.w.copy_(next(iter(weights.values())))
    data = [inputs.get("input.%d" % i, x) for i, x in enumerate(data)]
    model.w.grad = None
    want = [step(*data).detach(), model.w.grad]
    for got, tensor in zip(json.loads(run.stdout)["outputs"].values(), want):
        told = libtorch.summary(tensor)
        wrong = [key for key in ("sum", "l2", "min", "max") if not abs(got[key] - told[key]) <= 1e-7 * (1 + told["l2"])]
        wrong += [i for i, (a, b) in enumerate(zip(got["head"], told["head"])) if not abs(a - b) <= 1e-7 * (1 + told["l2"])]
        t.check(name + ": as the reference computes it", got["dims"] == told["dims"] and not wrong, (wrong, got, told))


def check_call(t, name, function, *data, known=False, reference=False):
    """A step of the call gives by its plan what it gives without; the dump."""
    model = Called(function)

    def step(*data):
        loss = model(*data)
        loss.backward()
        return loss
    dump = magis_capture.capture(step, *data, name="call").dump
    plan = plans_of(dump)[1][0]
    compare(t, name, model, data, step, None, plan)
    if known:
        t.equal(name + ": known", opaque_in(plan), [])
        exported(t, name, step, model, dump, plan, data)
    if reference:
        referred(t, name, model, step, data)
    return dump


def check_edge(t, name, function, *data, reference=True, known=True):
    """At values where definitions part: the gradient of the weight, by that name, by plan, module and reference. All
    three stand for what PyTorch gives. `known`: no call may stay as it was; None: some may."""
    model = Called(function)

    def step(*data):
        loss = model(*data)
        loss.backward()
        return loss
    step(*data)
    want, model.w.grad = model.w.grad, None
    dump = magis_capture.capture(step, *data, name="call").dump
    plan = plans_of(dump)[1][0]
    model.w.grad = None
    magis_apply.load(plan)(step)(*data)
    t.check(name + ": by plan", torch.allclose(model.w.grad, want, rtol=1e-5, atol=1e-5), (model.w.grad, want))
    opaque = opaque_in(plan)
    if known is not None:
        t.equal(name + ": known", not opaque, known)
    module, inputs, weights = module_of(t, name, model, dump, plan, data)
    if module:
        out = list(module.step(inputs, weights, graph=module.GRAPH).values())
        named = [value for value, output in zip(out, dump["outputs"]) if output.get("of") == "w" or str(output.get("of")).endswith(".w")]
        t.check(name + ": by the module", len(named) == 1 and torch.allclose(named[0], want, rtol=1e-5, atol=1e-5), (named, want))
    if reference and not opaque:
        referred(t, name, model, step, data)
    return dump
