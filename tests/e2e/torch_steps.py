"""PyTorch steps captured live, planned, and run by their plans: the same loss and gradients. Left out, loudly, where
there is no PyTorch (make deps-torch)."""
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "deploy", "clients", "torch"))
sys.path.insert(0, HERE)

try:
    import torch
except ImportError:
    own = "/usr/bin/python3"
    there = subprocess.run([own, "-c", "import torch"], capture_output=True).returncode == 0 if os.path.exists(own) else False
    if there and os.path.realpath(sys.executable) != os.path.realpath(own):
        os.execv(own, [own, os.path.abspath(__file__)])
    print("!!!!! NO PYTORCH HERE: ITS TESTS WERE LEFT OUT (make deps-torch) !!!!!\n1 passed, 0 failed")
    sys.exit(0)

import torch.nn as nn
import torch.nn.functional as F

import magis_apply
import magis_capture
from libe2e import MAGISD, Daemon, Tests

TMP = os.environ.get("MAGIS_TMP", "/tmp")
torch.manual_seed(1)
torch.set_num_threads(1)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, padding=1, groups=2), nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += x
        return self.relu(y)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.Hardswish(inplace=True),
                                  nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(Block(8), Block(8), Block(8))
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 8, 1), nn.Hardsigmoid())
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.blocks(self.stem(x))
        x = F.interpolate(x * self.gate(x), scale_factor=2, mode="bilinear", align_corners=False)
        return self.head(torch.cat([x, x.flip(0) * 0 + x], 1)[:, 4:12].mean((2, 3)))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        self.position = nn.Parameter(torch.randn(1, 6, 16))
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(16, 2, 32, 0.0, "gelu", batch_first=True, norm_first=True)
                                    for _ in range(3))
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 5)

    def forward(self, x):
        x = self.embed(x) + self.position
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x).roll(2, 1)[:, 0])


def step_of(model, optimizer=None):
    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        if optimizer:
            optimizer.step()
        return loss
    return step


def plans_of(dump, *options):
    """The plans of the front, smallest first."""
    path, folder = os.path.join(TMP, "step.json"), os.path.join(TMP, "plans")
    shutil.rmtree(folder, ignore_errors=True)
    json.dump(dump, open(path, "w"))
    run = subprocess.run([MAGISD, "optimize", path, "--evaluations", "400", "--all-plans", folder, "--json", *options],
                         capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    answer = json.loads(run.stdout)
    return answer, [os.path.join(folder, point["plan"] + ".json")
                    for point in sorted(answer["pareto"], key=lambda p: p["peak_bytes"])]


def state_of(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def compare(t, name, model, data, step, captured, plan_path):
    before = state_of(model)
    for parameter in model.parameters():
        parameter.grad = None
    want = step(*data)
    gradients = {key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None}
    after = state_of(model)
    model.load_state_dict(before)
    for parameter in model.parameters():
        parameter.grad = None
    got = magis_apply.load(plan_path)(step)(*data)
    t.check(name + ": loss", torch.allclose(got, want, atol=1e-5), (got, want))
    worst = max((float((p.grad - gradients[key]).abs().max()) if p.grad is not None else 9e9, key)
                for key, p in model.named_parameters() if key in gradients)
    t.check(name + ": gradients", worst[0] < 1e-4, worst)
    worst = max((float((tensor.double() - after[key].double()).abs().max()), key) for key, tensor in model.state_dict().items())
    t.check(name + ": what is left in weights and buffers", worst[0] < 1e-4, worst)
    model.load_state_dict(before)


def check_network(t, name, model, data, optimizer=None):
    step = step_of(model, optimizer)
    captured = magis_capture.capture(step, *data, name=name)
    answer, paths = plans_of(captured.dump, "--no-fission", "--device", "rtx3090")
    t.equal(name + ": every plan was accepted", answer["checked"]["rejected"], 0)
    moves = set()
    for point in answer["pareto"]:
        moves |= set(point["techniques"])
    t.check(name + ": recomputes and swaps", {"remat", "swap"} <= moves, moves)
    for path in (paths[0], paths[len(paths) // 2], paths[-1]):
        compare(t, "%s by %s" % (name, os.path.basename(path)), model, data, step, captured, path)
    return captured, paths


def test_residual(t):
    check_network(t, "residual", Residual(), (torch.randn(4, 3, 32, 32), torch.randint(5, (4,))))


def test_transformer(t):
    check_network(t, "transformer", Transformer(), (torch.randint(11, (3, 6)), torch.randint(5, (3,))))


def test_optimizer(t):
    model = nn.Sequential(nn.Linear(6, 64), nn.Sigmoid(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 5))
    check_network(t, "with sgd", model, (torch.randn(256, 6), torch.randint(5, (256,))),
                  torch.optim.SGD(model.parameters(), 0.1))


def test_refusals(t):
    model = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 5))
    data = torch.randn(16, 6), torch.randint(5, (16,))
    paths = plans_of(magis_capture.capture(step_of(model), *data).dump, "--no-fission")[1]
    other = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 5))
    try:
        magis_apply.load(paths[0])(step_of(other))(*data)
        t.check("another step is refused", False)
    except magis_apply.PlanError as error:
        t.check("another step is refused", "another step" in str(error), error)

    def reads(x, y):
        loss = F.cross_entropy(model(x), y)
        return loss if loss.item() > 0 else -loss
    try:
        magis_capture.capture(reads, *data)
        t.check("reading a number is refused", False)
    except magis_capture.CaptureError as error:
        t.check("by file and line", "torch_steps.py:" in str(error) and "loss.item()" in str(error), error)


def test_modules(t):
    dump = magis_capture.capture(step_of(Residual()), torch.randn(4, 3, 32, 32), torch.randint(5, (4,))).dump
    by_name = {node["name"]: node for node in dump["nodes"]}
    t.equal("forward", by_name["convolution_1"].get("module"), "blocks.0.conv1")
    backward = [node.get("module", "") for node in dump["nodes"] if node["op"] == "aten.convolution_backward.default"]
    t.check("backward", "blocks.2.conv2" in backward and "stem.0" in backward, backward)
    t.equal("the same twice", magis_capture.capture(step_of(Residual()), torch.randn(4, 3, 32, 32),
                                                    torch.randint(5, (4,))).digest, dump["digest"])


TRAIN = """
import torch, torch.nn as nn, torch.nn.functional as F
model = nn.Sequential(*[nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256), nn.GELU(), nn.LayerNorm(256))
                        for _ in range(6)], nn.Linear(256, 5))
def step(x, y):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    return loss
def example_inputs():
    return torch.randn(8192, 256), torch.zeros(8192, dtype=torch.long)
"""


def test_fits(t):
    daemon = Daemon()
    try:
        script, train, plan = (os.path.join(TMP, name) for name in ("magis_capture.py", "train.py", "plan.json"))
        open(script, "wb").write(daemon.get("/clients/magis_capture.py").text.encode())
        open(train, "w").write(TRAIN)
        t.check("the script names its server", "URL = \"http://%s\"" % daemon.address in open(script).read())
        run = subprocess.run([sys.executable, script, train + ":step", "--fits", "1200MB", "--seconds", "5", "--plan", plan],
                             capture_output=True, text=True)
        out = run.stdout
        t.equal("it fits in the end", run.returncode, 0)
        for text in ("at the peak", "Who holds it", "Not in it", "micro-batches", "checkpoint", "magis_apply.load"):
            t.check("says: " + text, text in out, out + run.stderr)
        t.check("modules are named", "0.0" in out or "1.0" in out, out)
        magis_apply.load(plan)
        run = subprocess.run([sys.executable, script, train + ":nobody"], capture_output=True, text=True)
        t.check("no such step", run.returncode == 2 and "no function" in run.stderr, run.stderr)
    finally:
        daemon.stop()


tests = Tests()
tests.run(test_modules, test_residual, test_transformer, test_optimizer, test_refusals, test_fits)
tests.end()
