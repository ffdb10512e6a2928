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

STEPS = 7  # of radam the first five differ from the others
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
    "nadam": lambda p: torch.optim.NAdam(p, 0.01, weight_decay=0.01),
    "nadam, tensors at once": lambda p: torch.optim.NAdam(p, 0.01, foreach=True),
    "radam": lambda p: torch.optim.RAdam(p, 0.01, weight_decay=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.01, momentum=0.9),
}


COLD = ("sgd", "nesterov", "adam", "adam, tensors at once", "adamw", "adamw, amsgrad", "adagrad", "nadam", "radam")


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
    numbers = Training(lambda p: torch.optim.ASGD(p, 0.01))
    refused(t, "counters that are read as numbers are named by line", "torch_optimizers.py:",
            lambda: magis_capture.capture(numbers.step, *DATA))
    training = Training(OPTIMIZERS["momentum"])
    planned = magis_apply.load(plans_of(magis_capture.capture(training.step, *DATA, name="step").dump)[1][0])(training.step)
    planned(*DATA)
    training.optimizer.param_groups[0]["lr"] = 0.01
    refused(t, "another learning rate", "settings have changed", lambda: planned(*DATA))
    refused(t, "and the way out", "scheduler outside of the captured step", lambda: planned(*DATA))


def trained(training, step, scheduled):
    """What is left after some steps whose optimizer and scheduler are outside of them, from the same beginning."""
    training.optimizer.param_groups[0]["lr"] = 0.1
    scheduler = torch.optim.lr_scheduler.StepLR(training.optimizer, 1, 0.5)

    def whole(x, y):
        training.optimizer.zero_grad(set_to_none=True)
        loss = step(x, y)
        training.optimizer.step()
        if scheduled:
            scheduler.step()
        return loss
    return training.run(whole)


def test_schedulers(t):
    """A plan of a step without its optimizer leaves the gradients to that, whatever its learning rate has become."""
    training = Training(OPTIMIZERS["momentum"])

    def step(x, y):
        loss = F.cross_entropy(training.model(x), y)
        loss.backward()
        return loss
    planned = magis_apply.load(plans_of(magis_capture.capture(step, *DATA, name="step").dump)[1][0])(step)
    training.begin[1]["param_groups"][0].pop("initial_lr", None)
    want, got = trained(training, step, True), trained(training, planned, True)
    t.check("the same with a scheduler", all(torch.allclose(got[key], want[key], atol=1e-6) for key in want))
    constant = trained(training, planned, False)
    t.check("which changes what is learnt", any(not torch.allclose(got[key], constant[key], atol=1e-6) for key in want))


def test_clipped_gradients(t):
    """clip_grad_norm_ limits on one side only, and what is no limit stays none in every type."""
    training = Training(OPTIMIZERS["sgd"])

    def step(x, y):
        training.optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(training.model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(training.model.parameters(), 0.1)
        training.optimizer.step()
        return loss
    plan = magis_apply.load(plans_of(magis_capture.capture(step, *DATA, name="step").dump)[1][0])
    t.check("a clip is there", any(op["op"] == "clip" for op in plan.program["ops"]), [op["op"] for op in plan.program["ops"]])
    want, got = training.run(step), training.run(plan(step))
    t.check("the same with clipped gradients", all(torch.allclose(got[key], want[key], atol=1e-6) for key in want))
    for dtype, values in ((torch.float32, [-float("inf"), -2.0, 3.0]), (torch.bfloat16, [-float("inf"), 0.5, 3.0]),
                          (torch.float64, [-float("inf"), 0.5, 3.0]), (torch.int32, [-2 ** 31, 0, 3])):
        x = torch.tensor(values, dtype=dtype)
        clipped = magis_apply.KERNELS["clip"]([x], {"min": -1.7976931348623157e308, "max": 1.0}, [[3]])
        t.check("%s: one side only" % dtype, clipped.dtype == dtype and torch.equal(clipped, torch.where(x > 1, torch.ones_like(x), x)),
                clipped)


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


def test_two_names(t):
    """An optimizer that is reached under two names steps once."""
    training = Training(OPTIMIZERS["momentum"])
    trainer = {"optimizer": training.optimizer}

    def step(x, y):
        return trainer and training.step(x, y)
    captured = magis_capture.capture(step, *DATA, name="step")
    t.equal("listed once", len(captured.state.optimizers), 1)
    want = training.run(training.step)
    got = training.run(magis_apply.load(plans_of(captured.dump)[1][0])(step))
    t.check("the same under two names", all(torch.allclose(got[key], want[key], atol=1e-6) for key in want))


tests = Tests()
tests.run(test_optimizers, test_refusals, test_schedulers, test_clipped_gradients, test_surroundings,
          test_two_names)
tests.end()
