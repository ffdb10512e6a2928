"""Every call that has a rule gives by plans, by exported modules and in the reference executor what PyTorch gives. Left
out, loudly, where there is no PyTorch (make deps-torch)."""
from libcalls import Called, check_call, check_edge, module_of, table
from libsteps import plans_of
from libe2e import Tests

import torch
import torch.nn.functional as F

import magis_apply
import magis_capture

aten = torch.ops.aten
X, I = torch.randn(8, 8), torch.randint(3, (8, 8))
SEEN = set()  # calls that the cases made


def image(w, x):
    return (x @ w).view(1, 1, 8, 8)


def volume(w, x):
    return (x @ w).view(1, 1, 4, 4, 4)


def known(t, name, function, *data, reference=True):
    try:
        dump = check_call(t, name, function, *data, known=True, reference=reference)
    except Exception as error:
        t.check(name, False, "%s: %s" % (type(error).__name__, error))
        return
    SEEN.update(node["op"] for node in dump["nodes"])


def test_elementwise(t):
    known(t, "trigonometry", lambda w, x: torch.tan(w) + torch.atan(w) + torch.sinh(w) + torch.cosh(w) + torch.asinh(w), X)
    known(t, "arcs", lambda w, x: torch.asin(w.tanh() * 0.9) + torch.acos(w.tanh() * 0.9) + torch.atanh(w.tanh() * 0.9), X)
    known(t, "logarithms", lambda w, x: torch.log1p(w.abs()) + torch.log2(w.abs() + 1) + torch.log10(w.abs() + 1), X)
    known(t, "acosh, expm1, trunc", lambda w, x: torch.acosh(w.abs() + 2) + torch.expm1(w) + torch.trunc(w * 3), X)
    known(t, "numbers that are none", lambda w, x: (torch.isnan(x) | torch.isinf(1 / x.floor()) | torch.isfinite(x)).float() * w,
          X, reference=False)
    known(t, "remainders", lambda w, x: torch.remainder(x @ w, 0.7) + torch.remainder(x, w) + torch.fmod(x @ w, -0.7), X)
    known(t, "remainders of negative numbers", lambda w, x: torch.fmod(x, w) + torch.remainder(x @ w, -0.3), X)
    known(t, "whole quotients", lambda w, x: torch.floor_divide(x, w.detach()) * w + torch.floor_divide(x, 0.3), X)
    known(t, "quotients rounded", lambda w, x: torch.div(x, w, rounding_mode="floor") + torch.div(x, w, rounding_mode="trunc"), X)
    known(t, "quotients of whole numbers", lambda w, i: (torch.remainder(i, 2) + i // 2) * w, I)
    known(t, "atan2, xor", lambda w, x: torch.atan2(w, x) * torch.logical_xor(x > 0, w > 0), X)
    known(t, "xlogy", lambda w, x: torch.xlogy(F.relu(x), w.exp()) + torch.xlogy(w.abs(), x.abs() + 1), X)
    known(t, "product with a vector", lambda w, x: w.mv(x[0]) + torch.dot(w[0], x[1]), X)


def test_activations(t):
    known(t, "mish", lambda w, x: F.mish(x @ w), X)
    known(t, "elu", lambda w, x: F.elu(x @ w, 0.5) + F.elu((x + w) * 1, 0.7, inplace=True), X)
    known(t, "selu, celu", lambda w, x: F.selu(x @ w) + F.celu(x @ w, 0.7) + F.celu(w), X)
    known(t, "shrink", lambda w, x: F.softshrink(w) + F.hardshrink(w, 0.3) + F.tanhshrink(w), X)
    known(t, "logsigmoid", lambda w, x: F.logsigmoid(3 * (x @ w)), X)
    known(t, "glu", lambda w, x: F.glu(x @ w) @ F.glu(x @ w, 0), X)
    known(t, "prelu of channels", lambda w, x: F.prelu(x, w[0]) + F.prelu(w, x[0]), X)
    known(t, "prelu of images", lambda w, x: F.prelu((x @ w).view(2, 8, 4), w[1]), X)
    known(t, "prelu", lambda w, x: F.prelu(x @ w, w[0, :1]), X)


def test_reductions(t):
    known(t, "logsumexp", lambda w, x: torch.logsumexp(x @ w, 1) + torch.logsumexp(w, (0, 1)), X)
    known(t, "largest", lambda w, x: (x @ w).max(1)[0] + (x @ w).min(0, keepdim=True)[0], X)
    known(t, "place of the largest", lambda w, x: (x.max(0)[1] + x.min(1)[1] + x.argmin(1) + x.argmax() + x.argmin()) * w, X)
    known(t, "variance", lambda w, x: w.var(1) + w.std(0, unbiased=False) + (x @ w).var(), X)
    known(t, "variance and mean", lambda w, x: torch.var_mean(w, 1, keepdim=True)[0] * torch.std_mean(x @ w, (0, 1))[1], X)
    known(t, "both of them", lambda w, x: sum(torch.var_mean(x @ w, 0)) + sum(torch.std_mean(w, 1, unbiased=False)), X)
    known(t, "norms", lambda w, x: w.norm() + w.norm(1) + w.norm(2, 1) + torch.linalg.vector_norm(x @ w, 1, 0), X)
    known(t, "norms without an end", lambda w, x: w.norm(float("inf")) + torch.linalg.vector_norm(w, -float("inf"), 1), X)
    known(t, "normalised", lambda w, x: F.normalize(x @ w, dim=1) + F.cosine_similarity(w, x), X)
    check_call(t, "norm of another power", lambda w, x: w.norm(3), X)


def test_by_index(t):
    known(t, "gather", lambda w, x, i: (x @ w).gather(1, i) + torch.take_along_dim(w, i, 0), X, I)
    known(t, "gather less", lambda w, x, i: (x @ w).gather(0, i[:5, :3]), X, I)
    known(t, "scatter", lambda w, x: torch.zeros(8, 8, dtype=x.dtype).scatter(0, x.argsort(0), x @ w), X)
    known(t, "scatter a number", lambda w, x: (x @ w).scatter(1, x.argsort(1)[:, :3], 0.5), X)
    known(t, "scatter and combine", lambda w, x, i: (x.scatter(0, i, x, reduce="add") + x.scatter(
        1, i[:, :2], 1.5, reduce="multiply")) * w, X, I)
    known(t, "scatter_add", lambda w, x, i: (w * 1).scatter_add(0, i[:6], x), X, I)
    known(t, "scatter_add in place", lambda w, x, i: (w * 1).scatter_add_(1, i, x @ w), X, I)
    known(t, "scatter_reduce", lambda w, x, i: (w * 1).scatter_reduce(0, i, x, "amax") + (w * 1).scatter_reduce(
        1, i, x, "amin") + (w * 1).scatter_reduce(0, i, x @ w, "sum"), X, I)
    check_call(t, "scatter_reduce to means", lambda w, x, i: (w * 1).scatter_reduce(0, i, x, "mean", include_self=False), X, I)
    known(t, "index_add", lambda w, x, i: (w * 1).index_add(0, i[0], x @ w, alpha=0.5).index_select(1, i[1]), X, I)
    known(t, "indices of several dimensions", lambda w, x, i: (x @ w)[i[0], i[1]] + w[torch.arange(8), i[2]] + w[i[:3, None], i[
        0]].sum() + (x @ w).view(2, 4, 2, 4)[i[0, :3] % 2, i[1, :3] - 1].sum(), X, I)
    known(t, "put at indices", lambda w, x, i: aten.index_put(w, [torch.arange(8), i[1]], x[0]) + aten.index_put(
        w, [i[0, :, None], i[1]], x @ w, True), X, I)
    known(t, "topk", lambda w, x: (x @ w).topk(3)[0] + (x @ w).topk(3, 1, False)[0], X)
    known(t, "places of topk", lambda w, x: w.gather(0, x.topk(2, 0)[1]), X)
    known(t, "sort", lambda w, x: (x @ w).sort(0)[0] + (x @ w).sort(descending=True)[0] + torch.sort(w, stable=True)[0], X)
    known(t, "argsort", lambda w, x: x.argsort(1) * w + w[torch.sort(x[0], stable=True, descending=True)[1]], X)
    known(t, "triangles", lambda w, x: (x @ w).tril(1) + (x @ w).triu() + (w * 1).tril_(-2), X)
    known(t, "turned", lambda w, x: (x @ w).flip(0, 1) + torch.fliplr(w), X)
    known(t, "rolled", lambda w, x: (x @ w).roll(3) + w.roll((1, -2), (0, 1)) + w.roll(-9, 1), X)
    known(t, "eye", lambda w, x: torch.eye(8, dtype=x.dtype) * w + torch.eye(8, 3, dtype=x.dtype) @ torch.eye(
        3, 8, dtype=x.dtype) * w, X)


def test_pooling_and_resampling(t):
    known(t, "windows as columns", lambda w, x: F.unfold(image(w, x), 3, 1, 1, 2) * 2, X)
    known(t, "columns as an image", lambda w, x: F.fold((x @ w).reshape(1, 4, 16), (5, 5), 2), X)
    known(t, "columns that are wider", lambda w, x: F.fold(F.unfold(
        x.view(1, 1, 8, 8), (2, 3), padding=1), (8, 8), (2, 3), padding=1).view(8, 8) * w, X)
    known(t, "adaptive pool", lambda w, x: F.adaptive_avg_pool2d(image(w, x), (3, 2)) + F.adaptive_avg_pool2d(image(w, x), (1, 2)),
          X)
    known(t, "adaptive pool of a volume", lambda w, x: F.adaptive_avg_pool3d(volume(w, x), 3), X)
    known(t, "adaptive pool of a row", lambda w, x: F.adaptive_avg_pool1d((x @ w)[None], 3), X)
    known(t, "pools of a volume", lambda w, x: F.max_pool3d(volume(w, x), 2) + F.avg_pool3d(volume(w, x), 2), X)
    known(t, "padded pools of a volume", lambda w, x: F.max_pool3d(volume(w, x), 3, 2, 1) + F.avg_pool3d(
        volume(w, x), 3, 2, 1, count_include_pad=False), X)
    for mode in ("bicubic", "bilinear"):
        for how in ({"scale_factor": 1.5}, {"size": (5, 11)}, {"size": 12, "align_corners": True}):
            known(t, "%s %r" % (mode, how), lambda w, x: F.interpolate(image(w, x), mode=mode, **how), X)
    known(t, "trilinear", lambda w, x: F.interpolate(volume(w, x), scale_factor=1.5, mode="trilinear"), X)
    known(t, "nearest in a volume", lambda w, x: F.interpolate(volume(w, x), scale_factor=2), X)
    known(t, "nearest in an image", lambda w, x: F.interpolate(image(w, x), scale_factor=2), X)
    known(t, "nearest in a row", lambda w, x: F.interpolate((x @ w)[None], scale_factor=2), X)
    known(t, "linear in a row", lambda w, x: F.interpolate((x @ w)[None], size=12, mode="linear"), X)
    known(t, "pixels", lambda w, x: F.pixel_unshuffle(F.pixel_shuffle((x @ w).view(1, 4, 4, 4), 2) * w, 4), X)


def test_sampling(t):
    """Its gradient has no operator, and stays a call."""
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (False, True):
                dump = check_call(t, "sampled: %s, %s, %s" % (mode, padding, corners), lambda w, x: F.grid_sample(
                    x.view(1, 1, 8, 8), (x * 1.6).view(1, 4, 8, 2), mode, padding, corners) * w.view(1, 2, 4, 8),
                                  X, known=True, reference=True)
                SEEN.update(node["op"] for node in dump["nodes"])
    check_call(t, "sampled: where to is learnt", lambda w, x: F.grid_sample(x.view(1, 1, 8, 8), w.view(1, 4, 8, 2)), X)
    known(t, "sampled in a volume", lambda w, x: F.grid_sample(
        x.view(1, 1, 4, 4, 4), (x * 1.6)[:6].reshape(1, 2, 2, 4, 3)) * w[0].view(1, 1, 2, 1, 4), X)


def test_losses(t):
    for how in ("mean", "sum", "none"):
        known(t, "smooth_l1, " + how, lambda w, x: F.smooth_l1_loss(w, x, reduction=how, beta=0.7), X)
        known(t, "huber, " + how, lambda w, x: F.huber_loss(x @ w, x, reduction=how, delta=0.7), X)
        known(t, "binary, " + how, lambda w, x: F.binary_cross_entropy((x @ w).sigmoid(), x.sigmoid(), reduction=how), X)
        known(t, "binary of logits, " + how, lambda w, x: F.binary_cross_entropy_with_logits(
            x @ w, x.sigmoid(), pos_weight=x[0].exp(), weight=x[1].exp(), reduction=how), X)
        known(t, "l1, " + how, lambda w, x: F.l1_loss(w, x, reduction=how), X)
    known(t, "binary with weights", lambda w, x: F.binary_cross_entropy(w.sigmoid(), x.sigmoid(), x.exp()), X)
    known(t, "divergence", lambda w, x: F.kl_div(w.log_softmax(1), x.softmax(1), reduction="batchmean") + F.kl_div(
        w.log_softmax(1), x.log_softmax(1), log_target=True, reduction="sum"), X)
    check_call(t, "smooth_l1 without a bend", lambda w, x: F.smooth_l1_loss(w, x, beta=0.0), X)


def drawn(function):
    """The numbers that the step of a plan draws: the gradient of what they are multiplied with. And what they are by."""
    w = torch.nn.Parameter(torch.ones(200, 200))

    def step():
        loss = (function(w.detach()) * w).sum()
        loss.backward()
        return loss
    dump = magis_capture.capture(step, name="call").dump
    SEEN.update(node["op"] for node in dump["nodes"])
    plan = magis_apply.load(plans_of(dump)[1][0])
    plan(step)()
    first, w.grad = w.grad, None
    plan(step)()
    return first, w.grad, [op["op"] for op in plan.program["ops"]]


def test_random_numbers(t):
    """Each has its distribution and is drawn anew in each step."""
    cases = {
        "randn": (lambda w: torch.randn(200, 200), 0, 1, None), "randn_like": (torch.randn_like, 0, 1, None),
        "normal_": (lambda w: torch.empty(200, 200).normal_(3, 2), 3, 2, None),
        "normal": (lambda w: torch.normal(1.0, 0.5, (200, 200)), 1, 0.5, None),
        "rand": (lambda w: torch.rand(200, 200), 0.5, 12 ** -0.5, (0, 1)), "rand_like": (torch.rand_like, 0.5, 12 ** -0.5, (0, 1)),
        "uniform_": (lambda w: torch.empty(200, 200).uniform_(-2, 4), 1, 6 * 12 ** -0.5, (-2, 4)),
        "bernoulli": (lambda w: torch.bernoulli(w * 0.3), 0.3, 0.21 ** 0.5, (0, 1)),
    }
    for name, (function, mean, deviation, ends) in cases.items():
        torch.manual_seed(0)
        first, second, ops = drawn(function)
        t.check(name + ": known", "opaque" not in ops, ops)
        t.check(name + ": mean", abs(float(first.mean()) - mean) < 0.02 * (1 + deviation), float(first.mean()))
        t.check(name + ": deviation", abs(float(first.std()) - deviation) < 0.02 * (1 + deviation), float(first.std()))
        t.check(name + ": ends", ends is None or ends[0] <= float(first.min()) and float(first.max()) <= ends[1])
        t.check(name + ": anew", not torch.equal(first, second))


def filled(w, x):
    """What makes a tensor of one number, and what only makes it."""
    h = torch.full((8, 8), 2.0, dtype=w.dtype) + torch.full_like(w, 0.5) + w.new_full((8, 8), 3) + w.new_ones((8, 8))
    h = h + torch.ones(8, dtype=w.dtype) + aten.fill.Tensor(w, x[0, 0]) + aten.fill.Scalar(w, 2)
    h += w.new_empty((8, 8)).zero_() + torch.empty_strided((8, 8), (8, 1), dtype=w.dtype).fill_(1)
    h += torch.scalar_tensor(4, dtype=w.dtype) + w.new_empty_strided((8, 8), (8, 1)).copy_(x) + torch.zeros_like(w)
    return h * w + torch.tensor(0.25, dtype=w.dtype)


def cut(w, x):
    """Every call that cuts a tensor, and those that join."""
    h = x @ w
    pieces = [*h.split(3), *h.split([5, 3]), *h.chunk(2), *torch.unsafe_split(h, 4), *torch.unsafe_chunk(h, 2),
              *torch.unsafe_split_with_sizes(h, [2, 6])]
    pieces += aten.split.sizes(h, [1, 7]) if hasattr(aten.split, "sizes") else []
    return torch.cat([piece * (i + 1) for i, piece in enumerate(pieces)]) + torch.stack(h.unbind(1)).sum(0)


def test_others(t):
    known(t, "round", lambda w, x: (torch.round(x * 3) + torch.ceil(x * 3) + torch.floor(x * 3) + torch.sign(x)) * w, X)
    known(t, "functions", lambda w, x: torch.log(w.exp() + 1) + torch.erf(w) + torch.sin(w) + torch.cos(w) + torch.rsqrt(
        w * w + 1) + torch.sqrt(w * w + 1) + torch.reciprocal(w.exp()) - torch.neg(w).sigmoid().tanh(), X)
    known(t, "truths", lambda w, x: (torch.logical_not(x) | (~(x > 0) & (w > 0)) ^ (torch.logical_or(x, w) == torch.logical_and(
        x > 0, w < x))) * w, X)
    known(t, "bits", lambda w, i: (((i & 3) | i.flip(0)) ^ (i | i.flip(1))) * w, I)
    known(t, "bits of integers", lambda w, i: (~i) * w, I)
    known(t, "comparisons", lambda w, x: ((x != w) | (x > w) | (x >= w)) * ((x < w) | (x <= w) | (x < 0.3) | (x >= 0) | (
        x <= 0) | (x != 0) | (x == w)) * w, X)
    known(t, "activations", lambda w, x: F.silu(x @ w) + F.hardswish(x @ w) + F.leaky_relu(x @ w, 0.2) + F.gelu(
        x @ w) + F.gelu(w, approximate="tanh") + F.relu(x @ w), X)
    known(t, "activations in parts", lambda w, x: F.hardsigmoid(x @ w) + F.softplus(w) + F.hardtanh(x @ w) + F.relu6(w), X)
    known(t, "limits", lambda w, x: w.clamp(-0.3, 0.4) + w.clamp(max=0.1) + w.clamp(min=-0.1) + aten.clamp_max(w, 0.2), X)
    known(t, "sums", lambda w, x: aten.rsub.Tensor(w, x, alpha=2) + aten.rsub.Scalar(w, 1) + torch.add(w, x, alpha=3) + torch.sub(
        w, 1), X)
    known(t, "quotients", lambda w, x: torch.div(w, 3, rounding_mode=None) + torch.div(x, 3, rounding_mode="floor") * w + w / 7, X)
    known(t, "powers", lambda w, x: torch.pow(x.abs() + 1, w) + torch.pow(2, w) + w ** 3 + w ** 2 + (w * w + 1) ** 0.5 + (w * w + 1).pow_(x), X)
    known(t, "largest of two", lambda w, x: torch.maximum(w, x) + torch.minimum(w, x) + torch.max(w, x) + torch.min(w, x), X)
    known(t, "combinations", lambda w, x: torch.addcmul(w, x, w, value=0.3) + torch.addcdiv(w, x, w.exp()) + torch.lerp(w, x, 0.3), X)
    known(t, "chosen", lambda w, x: torch.where(x > 0, w, x) + aten.where.ScalarOther(x > 0, w, 1.0) + aten.where.ScalarSelf(
        x > 0, 2.0, w) + aten.where.Scalar(x > 0, 1.0, 3.0) + w.masked_fill(x > 0, x[0, 0].detach()) + w.masked_fill(x < 0, 2), X)
    known(t, "filled", filled, X)
    known(t, "counted", lambda w, x: (torch.arange(8) + torch.arange(1, 9) + torch.arange(8, 0, -1)) * w, X)
    known(t, "reductions", lambda w, x: w.amax(1) + w.amin(0) + w.max() + w.min() + w.cumsum(1) + w.mean() + w.mean(1) + w.sum(
        0) + aten.norm.Scalar(w, 2), X)
    known(t, "products", lambda w, x: x.prod() * w + x.prod(1) * w, X)
    known(t, "rows", lambda w, x: F.softmax(x @ w, 1) + F.log_softmax(x @ w, 0), X)
    known(t, "cut and joined", cut, X)
    known(t, "filled up and repeated", lambda w, x: F.pad(w, (1, 2, 0, 3)).repeat(2, 1) * F.pad(w, (-1, 4, 3, 0)).repeat(2, 1), X)
    known(t, "rows by index", lambda w, x, i: F.embedding(i, w) @ w + w[i[0]].sum(), X, I)
    known(t, "put by index", lambda w, x, i: aten.index_put(w, [i[0]], x @ w, True) + aten._index_put_impl_(
        w * 1, [i[1]], x, True), X, I)
    known(t, "matrices", lambda w, x: torch.bmm(x.view(2, 4, 8), w.view(2, 8, 4)) @ torch.baddbmm(
        x.view(2, 4, 8), w.view(2, 4, 8), w.view(2, 8, 4) @ x.view(2, 4, 8), beta=0.5, alpha=2), X)
    known(t, "matrix and more", lambda w, x: torch.addmm(x, x, w, beta=0.5, alpha=2) + torch.det(x / 4) * w, X)
    known(t, "convolved", lambda w, x: F.conv2d(image(w, x), w.view(1, 1, 8, 8)[:, :, :3, :3], x[0, :1], padding=1) + F.conv_transpose2d(
        image(w, x), w.view(1, 1, 8, 8)[:, :, :3, :3], padding=1), X)
    known(t, "normalised rows", lambda w, x: F.layer_norm(x @ w, (8,), w[0], w[1]) + F.group_norm(
        (x @ w).view(2, 4, 8), 2, w[0, :4], w[1, :4]).view(8, 8), X)
    known(t, "normalised batches", lambda w, x: F.batch_norm(x @ w, None, None, w[0], w[1], True) + F.batch_norm(
        w, x[0].clone(), x[1].abs() + 1, w[0], w[1]), X)
    known(t, "pools", lambda w, x: F.max_pool2d(image(w, x), 3, 2, 1) + F.avg_pool2d(image(w, x), 3, 2, 1) + F.max_pool1d(
        (x @ w)[None], 2).sum(), X)
    known(t, "losses", lambda w, x, i: F.nll_loss(w.log_softmax(1), i[0]) + F.cross_entropy(image(w, x).expand(
        1, 3, 8, 8), i[None]) + F.mse_loss(w, x) + F.mse_loss(w, x, reduction="none"), X, I)


def test_resizing_by_sizes(t):
    """The calls that later versions make: sizes, and scales for each dimension."""
    shapes = {"nearest1d": ([16], ()), "nearest2d": ([16, 16], ()), "nearest3d": ([8, 8, 8], ()), "linear1d": ([13], (False,)),
              "bilinear2d": ([5, 13], (True,)), "bicubic2d": ([5, 13], (False,)), "trilinear3d": ([5, 7, 3], (False,))}
    given = {"1": (1, 8, 8), "2": (1, 1, 8, 8), "3": (1, 1, 4, 4, 4)}
    for name, (sizes, more) in shapes.items():
        call = getattr(aten, "upsample_" + name).default
        known(t, name, lambda w, x: call((x @ w).view(given[name[-2]]), sizes, *more), X)


def test_dropped(t):
    """What is dropped is drawn anew, and its gradient by the same draw."""
    for name, function in (("native_dropout", lambda w: torch.native_dropout(w, 0.25, True)[0]),
                           ("bernoulli_", lambda w: torch.empty(200, 200).bernoulli_(0.75) * w / 0.75),
                           ("bernoulli", lambda w: aten.bernoulli.p(w, 0.75) * w / 0.75)):
        w = torch.nn.Parameter(torch.ones(200, 200))

        def step():
            loss = function(w).sum()
            loss.backward()
            return loss
        dump = magis_capture.capture(step, name="call").dump
        SEEN.update(node["op"] for node in dump["nodes"])
        loss = magis_apply.load(plans_of(dump)[1][0])(step)()
        kept = (w.grad - 1 / 0.75).abs() < 1e-5
        t.check(name + ": kept or dropped", bool((kept | (w.grad == 0)).all()))
        t.check(name + ": three in four", abs(float(kept.float().mean()) - 0.75) < 0.02, float(kept.float().mean()))
        t.check(name + ": the loss by the same draw", abs(float(loss - w.grad.sum())) < 1, (loss, w.grad.sum()))


def edge(t, name, function, *data, **how):
    """Values at which definitions part."""
    try:
        check_edge(t, name, function, *data, **how)
    except Exception as error:
        t.check(name, False, "%s: %s" % (type(error).__name__, error))


def at(w, points):
    """w with those values, whatever it holds."""
    return w - w.detach() + points.to(w.dtype)


def full(value, dtype=None, shape=(8, 8)):
    return torch.full(shape, value, dtype=dtype)


def same(a, b, w):
    return (a == b) * w


def test_ends_of_ranges(t):
    edge(t, "hardtanh at its ends", lambda w: F.hardtanh(at(w, torch.arange(8) - 4), -3, 2))
    edge(t, "relu6 at its ends", lambda w: F.relu6(at(w, torch.arange(8))))
    edge(t, "clamp at its ends", lambda w: at(w, torch.arange(8) - 4).clamp(-3, 2))
    edge(t, "limits that cross", lambda w: torch.arange(8.0).clamp(3, 1) * w)
    edge(t, "zero-norm of a number", lambda w: full(3.0, shape=()).norm(0) * w, known=False)
    edge(t, "quotients by a number", lambda w: torch.floor((torch.arange(1, 65).view(8, 8) * 49.0) / 49) * w)
    edge(t, "quotients by nothing", lambda w: ((torch.arange(8) - 4.0) / 0).clamp(-2, 2).nan_to_num(1) * w, known=None)
    edge(t, "quotients in no mode", lambda w: torch.floor(torch.div(torch.arange(8) * 49.0, 49, rounding_mode=None)) * w)


def test_whole_numbers(t):
    edge(t, "truths added", lambda w: ((torch.arange(8) > 2) + (torch.arange(8) < 6)) * w)
    edge(t, "largest truth", lambda w: ((torch.arange(64).view(8, 8) % 5 == 1).max(1)[1] + (torch.arange(64).view(
        8, 8) % 3 > 0).min(1)[1]) * w)
    edge(t, "numbers beyond 2^53", lambda w: (torch.arange(8) + (2 ** 53 + 1) - 2 ** 53) * w, known=False)
    edge(t, "factors beyond 2^53", lambda w: (torch.arange(8) * (2 ** 53 + 1) - torch.arange(8) * 2 ** 53) * w, known=False)
    edge(t, "counted by halves", lambda w: torch.arange(0, 8, 1.5, dtype=torch.int64) * w, known=False)
    edge(t, "counted by tenths", lambda w: (torch.arange(0, 0.8, 0.1, dtype=torch.float64) * 1e7).to(w.dtype) * w * 1e-7)
    edge(t, "divided in place by more than fits", lambda w: full(200, torch.uint8).floor_divide_(full(300, torch.int64)) * w,
         known=None)  # by a name of its own in PyTorch 1.13
    edge(t, "remainder in place", lambda w: full(200, torch.uint8).remainder_(full(300, torch.int64)) * w)
    edge(t, "narrow divided in place", lambda w: full(2048.0, torch.float16).div_(full(1e5)).to(w.dtype) * w * 50, reference=False)
    edge(t, "added in place to less", lambda w: full(3, torch.uint8).add_(full(5, torch.int64), alpha=300) * w, known=None)


def test_promotion(t):
    """In which type numbers are compared."""
    edge(t, "a tensor outranks a scalar", lambda w: same(full(0.1, torch.float32), full(0.1, torch.float64, ()), w))
    edge(t, "a wide scalar of another kind", lambda w: same(torch.arange(8), full(2.5, torch.float64, ()), w))
    edge(t, "signed and unsigned", lambda w: same(full(200, torch.uint8), full(-56, torch.int8), w))
    edge(t, "two narrow ones", lambda w: same(full(1.0009765625, torch.float16), full(1.0, torch.bfloat16), w), reference=False)
    edge(t, "whole and real numbers", lambda w: same(torch.arange(8) + 2 ** 24, 2.0 ** 24, w), reference=False)
    edge(t, "whole numbers raised to a real one", lambda w: torch.float_power(torch.arange(8), 2.0).to(w.dtype) * w, known=None)
    edge(t, "whole numbers and a fraction", lambda w: (torch.arange(8) < 2.5) * w)
    edge(t, "truths and a number", lambda w: ((torch.arange(8) > 3) < 2) * w)
    edge(t, "truths and numbers", lambda w: same(torch.arange(8) > 3, torch.arange(8), w))
    edge(t, "integers of two widths", lambda w: same(full(257, torch.int32), full(1, torch.int8), w))
    edge(t, "a wide integer without dimension", lambda w: same(full(1, torch.int8), full(257, torch.int64, ()), w), known=None)
    edge(t, "in place", lambda w: full(1.0).eq_(full(1.0 + 1e-12, torch.float64)) * w, reference=False)


def test_batch_norms_in_part(t):
    for name, scale, shift in (("scale", True, False), ("shift", False, True), ("neither", False, False)):
        for training in (True, False):
            edge(t, "batch norm with %s, training %s" % (name, training), lambda w, x: F.batch_norm(
                x * w, torch.arange(8.0, dtype=w.dtype), torch.arange(1, 9, dtype=w.dtype), w[0] if scale else None,
                w[1] if shift else None, training), X)
    edge(t, "a call that leaves out a result", lambda w, x: F.batch_norm((x * w).bfloat16(), torch.zeros(8), torch.ones(8), w[0], w[
        1], False).to(w.dtype), X, known=False)


def raised(function, *arguments):
    try:
        function(*arguments)
    except Exception as error:
        return type(error).__name__
    return None


def stepped(model):
    def step(i):
        loss = model(i)
        loss.backward()
        return loss
    return step


def test_out_of_range(t):
    """An index beyond its dimension is an error, though the element that it would reach lies within the tensor."""
    for name, function in (("read", lambda w, i: (w * 1)[i[0], i[1]]), ("written", lambda w, i: aten.index_put(w * 1, [i[0], i[1]], w[0]))):
        model = Called(function)
        step = stepped(model)
        dump = magis_capture.capture(step, I, name="call").dump
        plan = plans_of(dump)[1][0]
        planned = magis_apply.load(plan)(step)
        for place in (8, -9):
            beyond = I.clone()
            beyond[1, 3] = place
            t.equal("%s at %d: by plan" % (name, place), raised(planned, beyond), "IndexError")
            module, inputs, weights = module_of(t, name, model, dump, plan, [beyond])
            t.equal("%s at %d: by the module" % (name, place), raised(module.step, inputs, weights), "IndexError")
        t.equal(name + " within: by plan", raised(planned, I), None)
    for name, function in (("embedding", lambda w, i: F.embedding(i, w)), ("index_select", lambda w, i: w.index_select(1, i[0]))):
        step = stepped(Called(function))
        planned = magis_apply.load(plans_of(magis_capture.capture(step, I, name="call").dump)[1][0])(step)
        t.equal(name + " of a negative index: by plan", raised(planned, -1 - I), "IndexError")
        t.equal(name + " of others: by plan", raised(planned, I), None)


# what no step of PyTorch 1.13 makes on the host, and why not or who tests it then
ELSEWHERE = {
    "contiguous": "a clone, or nothing, before it is traced", "bernoulli.p": "traced as filling in place",
    "bitwise_and.Scalar": "traced as tensors", "div.Scalar_mode": "traced as tensors", "floor_divide.Scalar": "traced as tensors",
    "where.ScalarOther": "traced as tensors", "where.ScalarSelf": "traced as tensors", "where.Scalar": "traced as tensors",
    "max.other": "traced as maximum", "min.other": "traced as minimum", "split.sizes": "traced as split_with_sizes",
    "chunk": "traced as split", "unsafe_chunk": "traced as unsafe_split", "silu_backward": "taken apart: test_formats_aten",
    "bitwise_or.Scalar": "cannot be traced", "bitwise_xor.Scalar": "cannot be traced",
    "huber_loss": "test_formats_aten", "huber_loss_backward": "test_formats_aten", "mish_backward": "test_formats_aten",
    "cudnn_batch_norm": "on devices", "cudnn_batch_norm_backward": "on devices",
    "_scaled_dot_product_flash_attention": "on devices", "_scaled_dot_product_efficient_attention": "on devices",
    "_scaled_dot_product_flash_attention_backward": "on devices",
    "_scaled_dot_product_efficient_attention_backward": "on devices",
}


def test_all_are_called(t):
    """The cases above make every call of the table that there is in this PyTorch."""
    made = {op[5:] for op in SEEN if op.startswith("aten.")}
    for name, overload, _ in table():
        here = [called + "." + overload for called in (name, name + "_") if any(
            (schema.overload_name or "default") == overload for schema in torch._C._jit_get_schemas_for_operator("aten::" + called))]
        if here and name not in ELSEWHERE and here[0] not in ELSEWHERE:
            t.check("%s.%s: executed" % (name, overload), made & set(here), here)


if __name__ == "__main__":
    tests = Tests()
    tests.run(test_elementwise, test_activations, test_reductions, test_by_index, test_pooling_and_resampling, test_sampling,
              test_losses, test_random_numbers, test_others, test_resizing_by_sizes, test_dropped, test_ends_of_ranges,
              test_whole_numbers, test_promotion, test_batch_norms_in_part, test_out_of_range, test_all_are_called)
    tests.end()
