"""Advice for training scripts, followed: lines of format=checkpoint and of magis_capture.py, pasted, need less memory and
leave what the step left; what the client says of remedies, of files that it cannot load, and of servers."""
import json
import os
import re
import subprocess
import sys

from libsteps import MAGISD, TMP, state_of, step_of
from libe2e import Daemon, Tests

import torch
import torch.nn as nn
import torch.nn.functional as F

import magis_capture

CLIENT = magis_capture.__file__

class Bottle(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c)
        self.conv2, self.bn2 = nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(x + self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.layer1 = nn.Sequential(*[Bottle(16) for _ in range(4)])
        self.layer2 = nn.Sequential(nn.Conv2d(16, 32, 3, 2, 1), *[Bottle(32) for _ in range(3)])
        self.fc = nn.Linear(32, 10)

    def forward(self, x):
        return self.fc(self.layer2(self.layer1(self.stem(x))).mean((2, 3)))


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj, self.fc1, self.fc2 = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        q, k, v = self.qkv(self.ln1(x)).view(*x.shape[:2], 3, 4, -1).permute(2, 0, 3, 1, 4)
        a = torch.softmax(q @ k.transpose(-1, -2) / 8, -1) @ v
        x = x + self.proj(a.transpose(1, 2).reshape(x.shape))
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(100, 64)
        self.h = nn.ModuleList(Block(64) for _ in range(5))
        self.ln, self.head = nn.LayerNorm(64), nn.Linear(64, 100)

    def forward(self, x):
        x = self.wte(x)
        for block in self.h:
            x = block(x)
        return self.head(self.ln(x)).transpose(1, 2)


# ---- lines of format=checkpoint ----

PICTURES = torch.randn(16, 3, 32, 32), torch.randint(10, (16,))


def planned(model, data, *options):
    """(peak of the step, lines to paste) for a plan of it."""
    step, plan = (os.path.join(TMP, name) for name in ("advice.json", "advice.plan.json"))
    json.dump(magis_capture.capture(step_of(model), *data, name="step").dump, open(step, "w"))
    run = subprocess.run([MAGISD, "optimize", step, "--memory-ratio", "0.6", "--evaluations", "2000", "--seed", "1", "-o", plan,
                          "--json", *options], capture_output=True, text=True)
    text = subprocess.run([MAGISD, "export", step, plan, "--format", "checkpoint"], capture_output=True, text=True).stdout
    return json.loads(run.stdout)["original"]["peak_bytes"], text


def left_by(model, data):
    """What a step computes and leaves."""
    model.zero_grad()
    loss = step_of(model)(*data)
    return {"loss": loss.detach(), **{"grad of " + name: p.grad for name, p in model.named_parameters()}, **state_of(model)}


def check_same(t, name, model, data, paste):
    """The same step before and after `paste`, from the same state."""
    before = state_of(model)
    want = left_by(model, data)
    model.load_state_dict(before)
    paste()
    got = left_by(model, data)
    worst = max((float((got[key].double() - want[key].double()).abs().max()), key) for key in want)
    t.equal(name + ": the same tensors", set(got), set(want))
    t.check(name + ": loss, gradients, running statistics", worst[0] < 1e-5, worst)


def test_lines(t):
    tokens = torch.randint(100, (8, 64)), torch.randint(100, (8, 64))
    for name, make, data in (("residual", ResNet, PICTURES), ("transformer", GPT, tokens)):
        model = make()
        first, text = planned(model, data, "--no-swap")
        named = json.loads(json.loads(re.search(r"^RECOMPUTE = json.loads\((.*)\)$", text, re.M).group(1)))
        t.check(name + ": blocks are named", named and all(re.fullmatch(r"(layer\d|h)\.\d", path) for path in named), named)
        t.equal(name + ": batch norm is minded", "_BatchNorm" in text, make is ResNet)
        check_same(t, name, model, data, lambda: exec(text, {"model": model}))
        second, _ = planned(model, data, "--no-swap")
        t.check(name + ": needs less with the lines", second < 0.9 * first, (first, second))
        dropped = int(re.search(r"they drop (\d+)$", text, re.M).group(1))
        t.check(name + ": by what the text says", 0.5 * dropped < first - second < 1.05 * dropped, (dropped, first, second))


def test_no_lines(t):
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.Tanh(), nn.Flatten(),
                          nn.Linear(8192, 10))
    _, text = planned(model, PICTURES)
    t.check("no line is better than one for nothing", "There are no lines to paste" in text and "import" not in text, text)


# ---- the client ----

SCRIPT = """
import torch, torch.nn as nn, torch.nn.functional as F
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Conv2d(16, 16, 3, padding=1), %s, nn.Conv2d(16, 16, 3, padding=1)
    def forward(self, x):
        return x + self.b(F.gelu(self.norm(self.a(x))))
model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), *[Block() for _ in range(5)])
def step(x):
    loss = model(x).square().mean()
    loss.backward()
    return loss
def example_inputs():
    return torch.randn(64, 3, 64, 64),
"""


def client(*arguments, **more):
    return subprocess.run([sys.executable, CLIENT, *arguments], capture_output=True, text=True, cwd=TMP, **more)


def write(name, text):
    path = os.path.join(TMP, name)
    open(path, "w").write(text)
    return path


def check_remedies(t, url, norm):
    name = "with batch norm" if norm else "without"
    train = write("norms.py", SCRIPT % ("nn.BatchNorm2d(16)" if norm else "nn.Identity()"))
    run = client(train + ":step", "--fits", "1000MB", "--seconds", "2", "--url", url)
    t.equal(name + ": remedies", run.returncode, 0)
    t.equal(name + ": smaller batches are minded", "batch norm then sees smaller" in run.stdout, norm)
    t.equal(name + ": statistics are minded", "updates the running statistics" in run.stdout, norm)
    times = {int(n): float(x) for n, x in re.findall(r"^  (\d)\. .*, time x ([0-9.]+); fits", run.stdout, re.M)}
    fastest = re.search(r"^Fastest that fits: (\d) \(.*\), time x ([0-9.]+)$", run.stdout, re.M)
    t.check(name + ": the fastest is named", fastest and float(fastest.group(2)) == min(times.values()) ==
            times[int(fastest.group(1))], run.stdout)
    lines = run.stdout[run.stdout.index("     Lines to paste"):run.stdout.index("  3. ")].splitlines()
    lines = "\n".join(line[7:] for line in lines if line.startswith("       "))
    scope = {}
    exec(open(train).read(), scope)
    data = torch.randn(2, 3, 8, 8), torch.randint(16, (2,))
    check_same(t, name, Pooled(scope["model"]), data, lambda: exec(lines, scope))


class Pooled(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).mean((2, 3))


def test_remedies(t):
    daemon = Daemon()
    try:
        for norm in (True, False):
            check_remedies(t, "http://" + daemon.address, norm)
        token = subprocess.run([MAGISD, "token", "add", "me", "--role", "submit", "--data", daemon.data], capture_output=True)
        t.equal("a token is made", token.returncode, 0)
        run = client(os.path.join(TMP, "norms.py:step"), "--fits", "1GB", "--url", "http://" + daemon.address)
        t.check("how to give a token", run.returncode == 2 and "(--token, or MAGISD_TOKEN)" in run.stderr, run.stderr)
    finally:
        daemon.stop()


LOADED = "import torch\nmodel = torch.nn.Linear(4, 4)\n"
STEP = "def step():\n    return model(torch.ones(2, 4)).sum()\n"
BROKEN = {  # name: (script, line, words)
    "moved": (LOADED + "model.cuda()\n", 3, "torch.cuda.is_available()"),
    "data": (LOADED + STEP + "def example_inputs():\n    return torch.ones(2, device='cuda'),\n", 6, "torch.cuda.is_available()"),
    "inside": (LOADED + "def step():\n    return model(torch.ones(2, 4).cuda()).sum()\n", 4, "torch.cuda.is_available()"),
    "name": (LOADED + "modle.train()\n", 3, "NameError"),
    "syntax": (LOADED + "def step(:\n", 3, "SyntaxError"),
}


def test_files(t):
    for name, (text, line, words) in BROKEN.items():
        path = write("broken_%s.py" % name, text)
        run = client(path + ":step", env=dict(os.environ, CUDA_VISIBLE_DEVICES=""))
        t.check("a broken file: " + name, run.returncode == 2 and "%s:%d" % (path, line) in run.stderr and words in run.stderr
                and "Traceback" not in run.stderr, run.stderr)
    cast = write("cast.py", LOADED + "def step():\n    with torch.autocast('cuda'):\n        return model(torch.ones(2, 4)).sum()\n")
    run = client(cast + ":step", env=dict(os.environ, CUDA_VISIBLE_DEVICES=""))
    t.check("autocast that is off is told", run.returncode == 0 and "in full precision" in run.stderr, run.stderr)


def test_reader_that_leaves(t):
    path = write("plain.py", LOADED + STEP)
    read, end = os.pipe()
    os.close(read)
    run = subprocess.run([sys.executable, CLIENT, path + ":step"], stdout=end, stderr=subprocess.PIPE, text=True)
    os.close(end)
    t.equal("no word about it", (run.returncode, run.stderr), (1, ""))


tests = Tests()
tests.run(test_lines, test_no_lines, test_remedies, test_files, test_reader_that_leaves)
tests.end()
