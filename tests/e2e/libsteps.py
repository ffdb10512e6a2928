"""Training steps in PyTorch for the tests that capture, plan and run them. Who imports this is run again by the Python that
PYTHON names, or where its own has no PyTorch by Debian's, and ends, loudly, where there is none (make deps-torch)."""
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "deploy", "clients", "torch"))
sys.path.insert(0, HERE)


def run_again_by(python):
    found = shutil.which(python)
    if found and subprocess.run([found, "-c", "import torch"], capture_output=True).returncode == 0:
        os.execv(found, [found, os.path.abspath(sys.argv[0])])


if "PYTHON" in os.environ:
    run_again_by(os.environ.pop("PYTHON"))
try:
    import torch
except ImportError:
    if os.path.realpath(sys.executable) != os.path.realpath("/usr/bin/python3"):
        run_again_by("/usr/bin/python3")
    print("!!!!! NO PYTORCH HERE: ITS TESTS WERE LEFT OUT (make deps-torch) !!!!!\n1 passed, 0 failed")
    sys.exit(0)

import torch.nn as nn
import torch.nn.functional as F

import magis_apply
import magis_capture
from libe2e import MAGISD

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


class Grouped(nn.Module):
    """No batch norm: the batch can be cut."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.pair = nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.Conv2d(8, 8, 3, padding=1, groups=2)
        self.up, self.down, self.head = nn.ConvTranspose2d(8, 8, 2, 2), nn.Conv2d(8, 16, 2, 2), nn.Linear(16, 5)

    def forward(self, x):
        x = F.avg_pool2d(F.gelu(self.pair(F.silu(self.norm(self.first(x))))), 2)
        x = self.down(F.elu(self.up(F.max_pool2d(F.leaky_relu(x), 2))))
        return self.head(x.mean((2, 3)))


class Deep(nn.Module):
    """Far more activations than weights."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Dropout(dropout), nn.LayerNorm(64),
                                                    nn.Linear(64, 16)) for _ in range(3)])
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        return self.head(self.layers(x).mean(1))


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
    """The answer, and the plans of the front, smallest first."""
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


def cut_plans_of(dump, seed, count):
    """Plans with regions grown at random, of all forms that the model of plans allows."""
    path, folder = os.path.join(TMP, "step.json"), os.path.join(TMP, "cuts")
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    json.dump(dump, open(path, "w"))
    tool = os.path.join(os.environ.get("BUILD", os.path.dirname(MAGISD)), "tools", "cut_plans")
    run = subprocess.run([tool, path, str(seed), str(count), folder], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return [os.path.join(folder, "%d.json" % i) for i in range(count)]


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
