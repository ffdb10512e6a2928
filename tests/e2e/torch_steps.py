"""PyTorch steps captured live, planned, and run by their plans: the same loss and gradients. Left out, loudly, where
there is no PyTorch (make deps-torch)."""
import functools
import os
import re
import subprocess
import sys

from libsteps import TMP, Residual, Transformer, compare, plans_of, step_of
from libe2e import Daemon, Tests

import torch
import torch.nn as nn
import torch.nn.functional as F

import magis_apply
import magis_capture


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
        t.check("with what to do", "return the loss itself, and call .item() outside" in str(error), error)


def test_modules(t):
    dump = magis_capture.capture(step_of(Residual()), torch.randn(4, 3, 32, 32), torch.randint(5, (4,))).dump
    by_name = {node["name"]: node for node in dump["nodes"]}
    t.equal("forward", by_name["convolution_1"].get("module"), "blocks.0.conv1")
    backward = [node.get("module", "") for node in dump["nodes"] if node["op"] == "aten.convolution_backward.default"]
    t.check("backward", "blocks.2.conv2" in backward and "stem.0" in backward, backward)
    t.equal("the same twice", magis_capture.capture(step_of(Residual()), torch.randn(4, 3, 32, 32),
                                                    torch.randint(5, (4,))).digest, dump["digest"])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.qkv, self.head = nn.Embedding(11, 16), nn.Linear(16, 48), nn.Linear(16, 5)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.qkv(self.embed(x)).chunk(3, -1))
        return self.head(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2).mean(1))


def test_attention(t):
    """What torch has had as one call since 2.0."""
    if not hasattr(F, "scaled_dot_product_attention"):
        print("!!!!! SKIPPED: torch %s HAS NO scaled_dot_product_attention (2.0 has) !!!!!" % torch.__version__)
        return
    check_network(t, "attention", Attention(), (torch.randint(11, (64, 6)), torch.randint(5, (64,))))


MASK, SHIFTS = torch.ones(6, 6).triu(1).bool(), {"up": torch.randn(16)}


class Masked(nn.Module):
    """Reads tensors by name: in its forward function, and in a method that it calls."""

    def __init__(self):
        super().__init__()
        self.embed, self.attention, self.head = nn.Embedding(11, 16), nn.MultiheadAttention(16, 2), nn.Linear(16, 5)

    def attend(self, x):
        return self.attention(x, x, x, attn_mask=MASK, need_weights=False)[0]

    def forward(self, x):
        return self.head((self.attend(self.embed(x).transpose(0, 1)) + SHIFTS["up"]).mean(0))


def test_read_by_modules(t):
    data, held = (torch.randint(11, (32, 6)), torch.randint(5, (32,))), (MASK, SHIFTS["up"])
    captured, _ = check_network(t, "by name", nn.Sequential(Masked()), data)
    inputs = [node["path"] for node in captured.dump["nodes"] if node.get("kind") == "input"]
    t.equal("what modules read by name is an input", sorted(inputs), ["MASK", "SHIFTS.up", "input.0", "input.1"])
    t.check("and stands where it stood", MASK is held[0] and SHIFTS["up"] is held[1])


class Strange:
    """Answers no question about itself."""
    __slots__ = ()

    def __getattr__(self, name):
        raise RuntimeError("no " + name)

    def __call__(self, x):
        return x * 2


STRANGE = Strange()


def written(text):
    """A function that says no module of its own, as those made of text do."""
    made = {"STRANGE": STRANGE, "SHIFTS": SHIFTS, "__name__": None}
    exec(text, made)
    return made["forward"]


class Written(nn.Linear):
    forward = written("def forward(self, x):\n    return STRANGE(x @ self.weight.t()) + self.shifted(1)")

    @property
    def shifted(self):
        return lambda factor: self.bias * factor


class Nameless(nn.Linear):
    """Its module is no word, and its forward function says that it wraps what is no function."""
    __module__ = None

    def forward(self, x):
        return F.linear(x, self.weight, self.bias)
    forward.__wrapped__ = functools.partial(forward)


def test_odd_objects(t):
    model, x, y = nn.Sequential(Written(6, 64), Nameless(64, 5)), torch.randn(16, 6), torch.randint(5, (16,))
    step = step_of(model)
    captured = magis_capture.capture(step, x, y)
    compare(t, "odd objects", model, (x, y), step, captured, plans_of(captured.dump)[1][0])
    captured = magis_capture.capture(STRANGE, x)
    t.equal("a step that is an odd object", [node["op"] for node in captured.dump["nodes"]], ["placeholder", "aten.mul.Tensor"])


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.embed, self.cells = nn.Embedding(11, 8), kind(8, 6, **options)
        self.head = nn.Linear(self.cells.hidden_size * (2 if self.cells.bidirectional else 1), 5)

    def forward(self, x):
        return self.head(self.cells(self.embed(x))[0].mean(1))


def test_recurrent(t):
    data = torch.randint(11, (8, 4)), torch.randint(5, (8,))
    for kind, options in ((nn.LSTM, {"num_layers": 2, "bidirectional": True}), (nn.GRU, {"num_layers": 2}),
                          (nn.RNN, {"bidirectional": True})):
        model = nn.Sequential(Recurrent(kind, batch_first=True, **options))
        step = step_of(model, torch.optim.SGD(model.parameters(), 0.1))
        held = [id(tensor) for tensor in model.parameters()]
        captured, name = magis_capture.capture(step, *data, name="recurrent"), kind.__name__ + str(options)
        cells = [part for part in model.modules() if isinstance(part, nn.RNNBase)][0]
        t.check(name + ": its weights are where they were",
                {id(tensor) for tensor in cells._flat_weights} <= set(held), name)
        paths = plans_of(captured.dump, "--no-fission")[1]
        for path in (paths[0], paths[-1]):
            compare(t, name, model, data, step, captured, path)


class Tabled(nn.Linear):
    """Keeps its weight a second time, in a tuple in a dict, and a tensor that is no buffer."""

    def __init__(self, width):
        super().__init__(width, width)
        self.table = {"weights": (self.weight, None)}
        self.table["itself"] = self.table
        self.scale = [torch.rand(width) + 1]

    def forward(self, x):
        return x @ self.table["weights"][0] * self.scale[0] + self.bias


def test_tensors_in_attributes(t):
    model, x, y = nn.Sequential(Tabled(6), nn.Tanh(), nn.Linear(6, 5)), torch.randn(64, 6), torch.randint(5, (64,))
    weight, scale, step = model[0].weight, model[0].scale[0], step_of(model)
    captured = magis_capture.capture(step, x, y, name="tabled")
    t.check("tables hold what they held", model[0].table["weights"][0] is weight and model[0].scale[0] is scale)
    inputs = [node["path"] for node in captured.dump["nodes"] if node.get("kind") == "input"]
    t.equal("a tensor that is no buffer is an input", sorted(inputs), ["0.scale.0", "input.0", "input.1"])
    compare(t, "tabled", model, (x, y), step, captured, plans_of(captured.dump)[1][0])


class Assigning(nn.Module):
    """Writes to a part of its activations."""

    def __init__(self, assign):
        super().__init__()
        self.first, self.head, self.assign = nn.Linear(6, 8), nn.Linear(8, 5), assign

    def forward(self, x):
        h = F.gelu(self.first(x))
        kept = h.view(-1)
        h = self.assign(h)
        return self.head(h if h is not None else kept.view(-1, 8))


def assign_zero(h):
    h[:, 0] = 0


def add_to_row(h):
    h[0].add_(1)


def scale_columns(h):
    h[:, 1:3].mul_(2)


def scale_steps(h):
    h[1::2, ::3].mul_(2)


def scale_turned(h):
    h.t()[2:6, 1:].view(4, 1, -1).mul_(3)


def scale_cube(h):
    h.view(4, 4, 2, 4)[1:3, :, 1].transpose(0, 1)[:, :, 2:].exp_()


def scale_diagonal(h):
    h.diagonal().mul_(2)


def add_by_strides(h):
    h.as_strided((3, 3), (17, 5), 2).add_(1)


def sum_windows(h):
    return h.unfold(1, 4, 1).sum(2).repeat(1, 2)[:, :8] * h


def test_writing_to_parts(t):
    data = torch.randn(16, 6), torch.randint(5, (16,))
    for assign in (assign_zero, add_to_row, scale_columns, scale_steps, scale_turned, scale_cube, scale_diagonal,
                   add_by_strides, sum_windows):
        model = Assigning(assign)
        step, name = step_of(model), assign.__name__
        captured = magis_capture.capture(step, *data, name=name)
        answer, paths = plans_of(captured.dump)
        compare(t, name, model, data, step, captured, paths[0])


def test_smoothed_labels(t):
    model, x, y = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 5)), torch.randn(64, 6), torch.randint(5, (64,))

    def step(x, y):
        loss = F.cross_entropy(model(x), y, label_smoothing=0.1, ignore_index=3)
        loss.backward()
        return loss
    captured = magis_capture.capture(step, x, y, name="smoothed")
    compare(t, "smoothed", model, (x, y), step, captured, plans_of(captured.dump)[1][0])
    for shape in ((64, 5), (8, 5, 3), (5,)):
        logits, target = torch.randn(shape), torch.randint(5, shape[:1] + shape[2:] if len(shape) > 1 else ())
        for weight in (None, torch.rand(5) + 0.1):
            for how in ("none", "mean", "sum"):
                want = F.cross_entropy(logits, target, weight, reduction=how, label_smoothing=0.2)
                with magis_capture._traceable_losses():
                    got = F.cross_entropy(logits, target, weight, reduction=how, label_smoothing=0.2)
                t.check("smoothed %s %s%s" % (shape, how, "" if weight is None else ", weighted"),
                        torch.allclose(got, want, atol=1e-6), (got, want))


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


BY_NAME = """
import torch, torch.nn as nn, torch.nn.functional as F
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)
    def forward(self, x):
        return x + self.down(F.gelu(self.up(x) / 4.0))
model = nn.Sequential(*[Block() for _ in range(4)], nn.Linear(256, 5))
optimizer = torch.optim.AdamW(model.parameters())
x, y = torch.randn(8192, 256), torch.zeros(8192, dtype=torch.long)
def step():
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss
"""


def check_advice_by_name(t, script, plan):
    """A step that takes no arguments and has not run: its batch is cut where it lies, its blocks divide by a number."""
    train = os.path.join(TMP, "by_name.py")
    open(train, "w").write(BY_NAME)
    run = subprocess.run([sys.executable, script, train + ":step", "--fits", "900MB", "--seconds", "3", "--plan", plan],
                         capture_output=True, text=True)
    t.check("inputs read by name are cut", re.search(r"^  1\. \d+ micro-batches: ", run.stdout, re.M), run.stdout + run.stderr)
    t.check("blocks with numbers in them are checkpointed", re.search(r"^  2\. checkpoint \d+ modules: ", run.stdout, re.M),
            run.stdout + run.stderr)


def check_sizes(t, script, train):
    run = subprocess.run([sys.executable, script, train + ":step", "--fits", "10MB"], capture_output=True, text=True)
    t.check("less than libraries take is said in words", run.returncode == 3 and "Context and libraries alone take" in run.stdout
            and "Remedies" not in run.stdout and not run.stderr, run.stdout + run.stderr)
    run = subprocess.run([sys.executable, script, train + ":step", "--fits", "24"], capture_output=True, text=True)
    t.check("a size needs its unit", run.returncode == 2 and "a number with its unit" in run.stderr, run.stderr)


NO_GAIN = """
import torch, torch.nn as nn
model = nn.Sequential(*[nn.Sequential(nn.Linear(3000, 3000), nn.Tanh(), nn.Tanh(), nn.Tanh()) for _ in range(4)])
def step(x):
    loss = model(x).erfinv().sum()
    loss.backward()
    return loss
example_inputs = torch.randn(1, 3000)
"""


def check_gains_nothing(t, script):
    """Blocks whose weights outweigh all that they keep; and a call that is not known."""
    path = os.path.join(TMP, "no_gain.py")
    open(path, "w").write(NO_GAIN)
    run = subprocess.run([sys.executable, script, path + ":step", "--fits", "900MB", "--seconds", "1", "--plan",
                          os.path.join(TMP, "no_gain.json")], capture_output=True, text=True)
    t.check("no checkpoint is praised that gains nothing", "gains nothing here" in run.stdout, run.stdout + run.stderr)
    t.check("what becomes of unknown calls is told", re.search("run as they are: .*a guess: .*erfinv", run.stdout), run.stdout)


ODD = """
import sys, torch
def add():
    return torch.ones(2) + 1
def nothing():
    return 3
async def later():
    return torch.ones(2) + 1
number = 5
if "leave" in sys.argv[-1]:
    sys.exit(0)
"""


def check_odd_scripts(t, script):
    odd, folder = os.path.join(TMP, "odd.py"), os.path.join(TMP, "nobody", "step.json")
    open(odd, "w").write(ODD)
    for what, words in (([":nothing"], "computes nothing"), ([":later"], "no function 'later'"), ([":number"], "no function"),
                        ([":add", "-o", folder], "cannot write " + folder), ([":add", "-o", "leave"], "ends the program"),
                        ([":add", "--seconds", "0"], "more than 0 seconds")):
        run = subprocess.run([sys.executable, script, odd + what[0]] + what[1:], capture_output=True, text=True, cwd=TMP)
        t.check("odd: " + " ".join(what[:2]), run.returncode == 2 and words in run.stderr and "Traceback" not in run.stderr,
                run.stderr)


def test_fits(t):
    daemon = Daemon()
    try:
        script, train, plan = (os.path.join(TMP, name) for name in ("magis_capture.py", "train.py", "plan.json"))
        open(script, "wb").write(daemon.get("/clients/magis_capture.py").text.encode())
        open(train, "w").write(TRAIN)
        t.check("the script names its server", "URL = \"http://%s\"" % daemon.address in open(script).read())
        run = subprocess.run([sys.executable, script, train + ":step", "--fits", "1200MB", "--seconds", "20", "--plan", plan],
                             capture_output=True, text=True)
        out = run.stdout
        t.equal("it fits in the end", run.returncode, 0)
        for text in ("at the peak", "Who holds it", "context and libraries included", "Not counted", "micro-batches", "checkpoint", "magis_apply.load"):
            t.check("says: " + text, text in out, out + run.stderr)
        alone = re.findall(r"^       ([0-9.]+ [GM]B) +time x ([0-9.]+)  module (\S+)", out, re.M)
        t.check("each module has a line", len(alone) >= 6 and {path for _, _, path in alone} >= {"0", "5"}, out)
        pasted = re.findall(r'^       again\(model.get_submodule\("([^"]+)"\)\)$', out, re.M)
        t.check("and those that are needed a line to paste", 0 < len(pasted) <= len(alone), out)
        pasting = out[out.index("       from torch."):out.index("  3. ")]
        code = open(train).read() + "".join(line[7:] + "\n" for line in pasting.splitlines())
        open(train, "w").write(code)
        run = subprocess.run([sys.executable, script, train + ":step", "--fits", "24GB", "--seconds", "5", "--plan", plan],
                             capture_output=True, text=True)
        t.check("pasted lines run", run.returncode == 0 and "It fits" in run.stdout, run.stdout + run.stderr)
        t.check("more room is offered", "nothing has to be done" in run.stdout and "What gives more room" in run.stdout, run.stdout)
        magis_apply.load(plan)
        run = subprocess.run([sys.executable, script, train + ":step", "--fits", "810MB", "--seconds", "2"], cwd=TMP,
                             capture_output=True, text=True)
        t.check("what does not fit has its own status, and says so", run.returncode == 3 and "Exit status 3" in run.stdout, run.stdout)
        t.check("and nothing to paste", "again(" not in run.stdout and "magis_apply.load" not in run.stdout, run.stdout)
        check_advice_by_name(t, script, plan)
        check_sizes(t, script, train)
        check_gains_nothing(t, script)
        told = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True).stdout
        t.check("the help tells what 3 means", "3 with --fits" in " ".join(told.split()), told)
        run = subprocess.run([sys.executable, script, train + ":nobody"], capture_output=True, text=True)
        t.check("no such step", run.returncode == 2 and "no function" in run.stderr, run.stderr)
        check_odd_scripts(t, script)
        without = os.path.join(TMP, "without.py")
        open(without, "w").write(TRAIN[:TRAIN.index("def example_inputs")])
        run = subprocess.run([sys.executable, script, without + ":step"], capture_output=True, text=True)
        t.check("no example_inputs", run.returncode == 2 and "example_inputs()" in run.stderr and "'x'" in run.stderr, run.stderr)
    finally:
        daemon.stop()


tests = Tests()
tests.run(test_modules, test_residual, test_transformer, test_optimizer, test_attention, test_read_by_modules,
          test_recurrent, test_tensors_in_attributes,
          test_writing_to_parts, test_odd_objects, test_smoothed_labels, test_refusals, test_fits)
tests.end()
