"""Calls of PyTorch with arguments of every kind, captured, planned and run: what a rule of the table does not hold for
stays the call that it was. Left out, loudly, where there is no PyTorch (make deps-torch)."""
import json
import os

from libcalls import check_call, exported, opaque_in, table
from libsteps import compare, cut_plans_of, plans_of, state_of
from libe2e import Tests

import torch
import torch.nn as nn
import torch.nn.functional as F

import magis_apply
import magis_capture


def test_table(t):
    """Its arguments are those of torch's schemas, in their order; values that must be left alone are the defaults."""
    seen = 0
    for name, overload, words in table():
        names, fixed = [word.strip("~").split("=")[0] for word in words], dict(w.split("=") for w in words if "=" in w)
        for called in (name, name + "_"):
            for schema in torch._C._jit_get_schemas_for_operator("aten::" + called):
                if (schema.overload_name or "default") != overload:
                    continue
                seen += 1
                t.equal("%s.%s" % (called, overload), names, [argument.name for argument in schema.arguments])
                for argument in schema.arguments:
                    if argument.name in fixed and argument.has_default_value():
                        default = argument.default_value
                        t.equal("%s.%s: %s" % (called, overload, argument.name), fixed[argument.name],
                                "null" if default is None else "%g" % default)
    t.check("schemas were seen", seen > 150, seen)


X, I, WIDE = torch.randn(8, 8), torch.tensor([0, -1, 2, 7]), torch.randn(1, 2, 5, 5)


def image(w, x):
    return (x @ w).view(1, 1, 8, 8)


def assigned(h):
    h = h * 1
    h[h < 0] = 0.25
    return h


def put(h, index):
    h = h * 1
    h.index_put_((index,), torch.ones(8))
    return h


def test_arguments(t):
    whole = X.mul(3).long()
    check_call(t, "round", lambda w, x: torch.round(x * 10) * w, X, known=True)
    check_call(t, "round decimals", lambda w, x: torch.round(x * 10, decimals=1) * w, X)
    check_call(t, "not of integers", lambda w, x: (~x).float() * w, whole, known=True)
    check_call(t, "not of truths", lambda w, x: (~(x > 0)).float() * w, X, known=True)
    check_call(t, "logical not of integers", lambda w, x: torch.logical_not(x).float() * w, whole, known=True)
    check_call(t, "and, or, xor", lambda w, x: ((x & 3) | (x ^ x.abs())).float() * w, whole)
    check_call(t, "softplus threshold", lambda w, x: F.softplus(x @ w, 1, 0.5), X)
    check_call(t, "softplus", lambda w, x: F.softplus(x @ w), X, known=True)
    check_call(t, "cosine of integers", lambda w, x: (torch.cos(x) + torch.sin(x) + torch.exp(x)) * w, whole, known=True)
    check_call(t, "power of integers", lambda w, x: (x ** 2 + x.abs() ** 0.5) * w, whole)
    check_call(t, "integers and a fraction", lambda w, x: ((x > 0.5).float() + (x.eq(1)).float()) * w, whole, known=True)
    check_call(t, "truths and a number", lambda w, x: ((x > 0).eq(2).float() + ((x > 0) + True).float()) * w, X)
    check_call(t, "not a number", lambda w, x: torch.nan_to_num(w.masked_fill(x > 0, float("nan")), 7.0), X)
    check_call(t, "infinite factor", lambda w, x: torch.nan_to_num((w.detach() * x).double() * float("inf"), 1.0, 2.0, 3.0), X)
    check_call(t, "divided to whole numbers", lambda w, x: torch.div(x, 2, rounding_mode="floor") * w, X)
    check_call(t, "maximum of two", lambda w, x: torch.max(x @ w, x), X, known=True)
    check_call(t, "largest and where", lambda w, x: torch.cat([(x @ w).max(1)[0], (x @ w).max(1)[1].float()]), X)
    check_call(t, "unpooled", lambda w, x: F.max_unpool2d(*F.max_pool2d(image(w, x), 2, return_indices=True), 2), X)
    check_call(t, "pooled without a batch", lambda w, x: F.max_pool2d(image(w, x)[0], 2), X)
    check_call(t, "given a probability each", lambda w, x: torch.bernoulli((x > 0).float()) * w, X)


def test_sizes(t):
    for mode in ("nearest", "bilinear"):
        for scale in (2, 1.5, 0.7, (0.5, 1.3)):
            check_call(t, "%s by %s" % (mode, scale), lambda w, x: F.interpolate(image(w, x), scale_factor=scale, mode=mode), X,
                       known=scale == 2 or mode == "bilinear")
    check_call(t, "corners", lambda w, x: F.interpolate(image(w, x), scale_factor=1.5, mode="bilinear", align_corners=True), X,
               known=True)
    check_call(t, "module", lambda w, x: nn.Upsample(scale_factor=1.5, mode="bilinear")(image(w, x)), X, known=True)
    check_call(t, "linear", lambda w, x: F.interpolate((x @ w)[None], scale_factor=1.5, mode="linear"), X, known=True)
    check_call(t, "nearest of one dimension", lambda w, x: F.interpolate((x @ w)[None], size=12), X, known=True)
    check_call(t, "nearest, rounded", lambda w, x: F.interpolate((x @ w).view(1, 2, 32)[..., :14], size=18), X)


def test_by_index(t):
    check_call(t, "rows from the end", lambda w, x, i: (x @ w)[i], X, I, known=True)
    check_call(t, "columns from the end", lambda w, x, i: (x @ w)[:, i], X, I, known=True)
    check_call(t, "assigned where", lambda w, x: assigned(x @ w), X, known=True)
    check_call(t, "put in place", lambda w, x, i: put(x @ w, i), X, I)


class Frozen(nn.Module):
    """Batch norms by their running statistics: one that learns, one without a scale."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3),
                                    nn.BatchNorm2d(8, affine=False), nn.Tanh())
        self.head = nn.Linear(8, 5)
        for norm in (self.layers[1], self.layers[4]):
            norm.running_mean.uniform_()
            norm.running_var.uniform_(0.5, 2)
        self.eval()

    def forward(self, x):
        return self.head(self.layers(x).mean((2, 3)))


def test_frozen_norms(t):
    model, data = Frozen(), (torch.randn(6, 3, 8, 8), torch.randint(5, (6,)))

    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss
    dump = magis_capture.capture(step, *data, name="frozen").dump
    paths = plans_of(dump)[1]
    t.equal("frozen: known", opaque_in(paths[0]), [])
    for path in paths[::4] + cut_plans_of(dump, 3, 4):
        compare(t, "frozen, " + os.path.basename(path), model, data, step, None, path)
    plans_of(dump)
    exported(t, "frozen", step, model, dump, paths[0], data)


def labels(kind, shape):
    y = torch.randint(5, shape)
    if kind == "some":
        y.view(-1)[1::3] = -100
        y.view(-1)[:7] = -100
    return y.fill_(-100) if kind == "all" else y


def check_ignored(t, name, model, data, loss, cuts):
    def step(x, y):
        result = loss(model(x), y)
        result.backward()
        return result
    dump = magis_capture.capture(step, *data, name="ignored").dump
    paths = plans_of(dump)[1]
    for path in [paths[0]] + cuts(dump):
        for kind in ("none", "some", "all"):
            given = data[0], labels(kind, data[1].shape)
            before, want = state_of(model), step(*given).detach()
            if bool(want.isnan()):
                for parameter in model.parameters():
                    parameter.grad = None
                got = magis_apply.load(path)(step)(*given)
                t.check("%s, %s labels ignored: no number" % (name, kind), bool(got.isnan()), got)
                t.check("%s, %s: gradients are zero" % (name, kind),
                        all(float(p.grad.abs().max()) == 0 for p in model.parameters()))
                model.load_state_dict(before)
            else:
                compare(t, "%s, %s labels ignored, %s" % (name, kind, os.path.basename(path)), model, given, step, None, path)
    plans_of(dump)
    exported(t, name, step, model, dump, paths[0], (data[0], labels("some", data[1].shape)))
    return paths


def test_ignored_labels(t):
    """Labels of -100, torch's default, count neither in the loss nor in what it is divided by; whole and in parts."""
    deep = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 5))
    data = torch.randn(256, 6), torch.randint(5, (256,))
    paths = check_ignored(t, "mean", deep, data, F.cross_entropy, lambda dump: cut_plans_of(dump, 2, 5))
    cut = {step["do"] for path in paths for step in json.load(open(path))["steps"]}
    t.check("the search cuts the batch of such a loss", "acc" in cut, cut)
    total = lambda y, labels: F.cross_entropy(y, labels, reduction="sum") / 100
    check_ignored(t, "sum", deep, data, total, lambda dump: [])
    other = lambda y, labels: F.cross_entropy(y, labels.clamp(min=0), ignore_index=3)
    check_ignored(t, "another index", deep, data, other, lambda dump: [])
    smooth = lambda y, labels: F.cross_entropy(y, labels, label_smoothing=0.1)
    check_ignored(t, "smoothed", deep, data, smooth, lambda dump: cut_plans_of(dump, 6, 3))
    pixels = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 5, 1))
    check_ignored(t, "pixels", pixels, (torch.randn(4, 3, 8, 8), torch.randint(5, (4, 6, 6))), F.cross_entropy,
                  lambda dump: cut_plans_of(dump, 4, 3))


if __name__ == "__main__":
    tests = Tests()
    tests.run(test_table, test_arguments, test_sizes, test_by_index, test_frozen_norms, test_ignored_labels)
    tests.end()
