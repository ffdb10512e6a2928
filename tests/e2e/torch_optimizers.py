"""Steps with optimizers, captured and run by their plans: parameters, optimizer state and step counters are those of the
plain step, over several steps. Left out, loudly, where there is no PyTorch (make deps-torch)."""
import copy
from typing import NamedTuple

from libsteps import plans_of
from libe2e import Tests

import torch
import torch.nn as nn
import torch.nn.functional as F

import magis_apply
import magis_capture

STEPS = 3
DATA = torch.randn(64, 6), torch.randint(5, (64,))


class Training:
    def __init__(self, make, warm=True):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 5))
        self.optimizer = optimizer = make(self.model.parameters())
        model = self.model

        def step(x, y):
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss
        self.step = step
        if warm:
            step(*DATA)
        self.begin = copy.deepcopy((model.state_dict(), optimizer.state_dict()))

    def run(self, step):
        """Everything that is left after some steps, from the same beginning."""
        with torch.no_grad():
            for key, tensor in self.model.state_dict().items():
                tensor.copy_(self.begin[0][key])
        self.optimizer.load_state_dict(copy.deepcopy(self.begin[1]))
        left = {"loss %d" % i: step(*DATA).detach().clone() for i in range(STEPS)}
        for i, parameter in enumerate(self.model.parameters()):
            left["%d" % i] = parameter.detach().clone()
            for key, value in self.optimizer.state[parameter].items():
                if value is not None:
                    left["%d.%s" % (i, key)] = torch.as_tensor(value).clone()
        return left


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.01),
    "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, dampening=0.1),
    "nesterov": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, foreach=True),
    "adam": lambda p: torch.optim.Adam(p, 0.01, weight_decay=0.01),
    "adam, tensors at once": lambda p: torch.optim.Adam(p, 0.01, foreach=True),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01, foreach=False),
    "adamw, amsgrad": lambda p: torch.optim.AdamW(p, 0.01, amsgrad=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, 0.01, weight_decay=0.01),
    "adagrad, slowing down": lambda p: torch.optim.Adagrad(p, 0.01, lr_decay=0.1),
    "adadelta": lambda p: torch.optim.Adadelta(p, weight_decay=0.01),
    "adamax": lambda p: torch.optim.Adamax(p, 0.01, weight_decay=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.01, momentum=0.9),
}


COLD = ("sgd", "nesterov", "adam", "adam, tensors at once", "adamw", "adamw, amsgrad", "adagrad")


def test_optimizers(t):
    for name, warm in [(name, True) for name in OPTIMIZERS] + [(name, False) for name in COLD]:
        training = Training(OPTIMIZERS[name], warm)
        name += "" if warm else ", before its first step"
        captured = magis_capture.capture(training.step, *DATA, name="step")
        tensors = sum(isinstance(value, torch.Tensor) for state in training.optimizer.state.values()
                      for value in state.values())
        dump = captured.dump["nodes"]
        t.equal(name + ": states", sum(node.get("kind") == "state" for node in dump), tensors)
        answer, paths = plans_of(captured.dump, "--device", "rtx3090")
        want = training.run(training.step)
        plan = magis_apply.load(paths[0])
        t.equal(name + ": unknown calls", [op["name"] for op in plan.program["ops"] if op["op"] == "opaque"], [])
        got = training.run(plan(training.step))
        t.equal(name + ": what is left", sorted(got), sorted(want))
        worst = max(((float((got[key].double() - want[key].double()).abs().max() / (1 + want[key].double().abs().max())), key)
                     for key in want if key in got))
        t.check(name + ": the same after %d steps" % STEPS, worst[0] < 1e-5, worst)
        steps = [key for key in want if key.endswith(".step")]
        t.check(name + ": steps are counted", all(got[key] == STEPS + warm for key in steps), [got[key] for key in steps])


def refused(t, what, words, function):
    try:
        function()
        t.check(what, False, "was not refused")
    except (magis_capture.CaptureError, magis_apply.PlanError) as error:
        t.check(what, words in str(error), error)


def test_refusals(t):
    for name in ("momentum", "rmsprop"):
        cold = Training(OPTIMIZERS[name], warm=False)
        refused(t, name + ": state that is not there yet", "let the step run once",
                lambda: magis_capture.capture(cold.step, *DATA))
        t.check(name + ": nothing is left of that",
                not any(cold.optimizer.state.values()) and not cold.optimizer.param_groups[0]["differentiable"])
    numbers = Training(lambda p: torch.optim.RAdam(p, 0.01))
    refused(t, "counters that are read as numbers are named by line", "torch_optimizers.py:",
            lambda: magis_capture.capture(numbers.step, *DATA))
    training = Training(OPTIMIZERS["momentum"])
    planned = magis_apply.load(plans_of(magis_capture.capture(training.step, *DATA, name="step").dump)[1][0])(training.step)
    planned(*DATA)
    training.optimizer.param_groups[0]["lr"] = 0.01
    refused(t, "another learning rate", "settings have changed", lambda: planned(*DATA))


class Batch(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


HELD = {"x": DATA[0]}
LISTED, NAMED = [DATA[1]], Batch(*DATA)


def test_surroundings(t):
    """Tensors that a step reads by name are its inputs, wherever they are held; what held them is as it was."""
    training, (x, y) = Training(OPTIMIZERS["sgd"]), DATA
    pair = (x, y)
    steps = {
        "globals": (lambda: training.step(DATA[0], LISTED[0]), 2),
        "a dictionary": (lambda: training.step(HELD["x"], y), 2),
        "a closure": (lambda: training.step(x, y), 2),
        "a tuple": (lambda: training.step(*pair), 2),
        "a named tuple": (lambda: training.step(NAMED.x, NAMED.y), 2),
    }
    for name, (step, count) in steps.items():
        dump = magis_capture.capture(step, name="step").dump
        inputs = [node for node in dump["nodes"] if node.get("kind") == "input"]
        t.equal(name + ": inputs", len(inputs), count)
        t.check(name + ": held as before", pair[0] is x and HELD["x"] is x and LISTED[0] is y and NAMED.x is x and DATA[1] is y)
        planned = magis_apply.load(plans_of(dump)[1][0])(step)
        want, got = training.run(lambda *unused: step()), training.run(lambda *unused: planned())
        t.check(name + ": the same by plan", all(torch.allclose(got[key], want[key], atol=1e-6) for key in want))


tests = Tests()
tests.run(test_optimizers, test_refusals, test_surroundings)
tests.end()
