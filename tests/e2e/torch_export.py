"""Plans of captured PyTorch steps, exported as modules: run by what their tables say, the same loss, gradients, weights
and buffers as the step. Left out, loudly, where there is no PyTorch (make deps-torch)."""
import importlib.util
import json
import os
import subprocess

from libsteps import MAGISD, TMP, Grouped, Residual, Transformer, plans_of, state_of, step_of
from libe2e import Tests

import torch
import torch.nn as nn
import torch.nn.functional as F

import magis_capture


LIBRARY = torch.library.Library("magistest", "DEF")


def export(plan, name):
    path = os.path.join(TMP, name + ".py")
    run = subprocess.run([MAGISD, "export", os.path.join(TMP, "step.json"), plan, "--format", "torch", "-o", path],
                         capture_output=True, text=True)
    return run, path


def load(path):
    spec = importlib.util.spec_from_file_location("exported", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def given(module, model, data):
    """The tensors that the module's tables ask for."""
    held = dict(model.named_parameters())
    held.update(model.named_buffers())
    inputs = {name: data[int(of.split(".")[1])] for name, of in module.INPUTS.items()}
    return inputs, {name: held[of].detach().clone() for name, of in module.WEIGHTS.items()}


def check_module(t, name, model, data, step, path):
    module, before = load(path), state_of(model)
    inputs, weights = given(module, model, data)
    model.zero_grad()
    want = step(*data)
    got = module.step(inputs, weights, graph=module.GRAPH)
    found = {part: got[key] for key, of in module.OUTPUTS.items() for part in of.split(", ")}
    t.check(name + ": loss", torch.allclose(found["result"], want, atol=1e-5), (found["result"], want))
    gradients = {key: p.grad for key, p in model.named_parameters() if p.grad is not None}
    t.equal(name + ": whose the gradients are", {of for of in found if of.startswith("grad of ")},
            {"grad of " + key for key in gradients})
    worst = max((float((found["grad of " + key] - grad).abs().max()), key) for key, grad in gradients.items())
    t.check(name + ": gradients", worst[0] < 1e-4, worst)
    after = state_of(model)
    worst = max((float((weights[key].double() - after[of].double()).abs().max()), of) for key, of in module.WEIGHTS.items())
    t.check(name + ": what is left in weights and buffers", worst[0] < 1e-4, worst)
    model.load_state_dict(before)


def check_network(t, name, model, data, *options):
    step = step_of(model)
    paths = plans_of(magis_capture.capture(step, *data, name=name).dump, *options)[1]
    for number, plan in enumerate(dict.fromkeys((paths[0], paths[len(paths) // 2], paths[-1], "original"))):
        run, path = export(plan, "exported")
        if t.check("%s: exported %d" % (name, number), run.returncode == 0, run.stderr):
            check_module(t, "%s, plan %d" % (name, number), model, data, step, path)


def pictures(count):
    return torch.randn(count, 3, 32, 32), torch.randint(5, (count,))


def test_networks(t):
    small = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(900, 5))
    check_network(t, "small", small, pictures(8))
    check_network(t, "residual", Residual(), pictures(8))
    check_network(t, "grouped", Grouped(), pictures(16))
    check_network(t, "transformer", Transformer(), (torch.randint(11, (8, 6)), torch.randint(5, (8,))))


class Distant(nn.Module):
    """Calls what the graph does not know: it stays a call."""

    def __init__(self, call):
        super().__init__()
        self.first, self.head, self.call = nn.Linear(6, 8), nn.Linear(8, 5), call

    def forward(self, x):
        return self.head(self.call(F.gelu(self.first(x))))


def test_unknown_calls(t):
    data = torch.randn(16, 6), torch.randint(5, (16,))
    check_network(t, "renorm", Distant(lambda h: torch.renorm(h, 2, 0, 1.5)), data, "--no-fission")
    check_network(t, "median", Distant(lambda h: h * torch.median(h, 1, keepdim=True)[0]), data, "--no-fission")

    check_network(t, "written", Distant(lambda h: h * (h.detach() + 1).xlogy_(2.0)), data, "--no-fission")
    LIBRARY.define("twice(Tensor x) -> Tensor")
    for key in ("CPU", "Meta"):
        LIBRARY.impl("twice", lambda x: x * 2, key)
    model = nn.Sequential(Distant(lambda h: h * torch.ops.magistest.twice(h.detach())))
    plans_of(magis_capture.capture(step_of(model), *data).dump, "--no-fission")
    run, _ = export("original", "refused")
    t.check("what cannot be written is named, with its module", run.returncode and
            "magistest.twice.default (\"twice\" of module 0)" in run.stderr, run.stderr)


tests = Tests()
tests.run(test_networks, test_unknown_calls)
tests.end()
