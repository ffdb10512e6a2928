#!/usr/bin/env python3
"""Runs a PyTorch training step by a plan of magisd: the same loss and gradients in less memory.

    import magis_apply
    step = magis_apply.load("plan.json")(step)   # then call step(...) as before

The plan is data, the JSON that magisd gives for a step captured by magis_capture.py (which must lie beside this file);
nothing in it is executed as code. At its first call the step is traced again, and refused unless it is the very one that
the plan was made for. Order, recomputation, copies to the host and back, rewrites and regions that run in parts are
followed. Random operators draw a fresh mask in each call (in a region one for each part, so not the very numbers of the
unsplit step) and repeat it when they are recomputed.

What an optimizer computes with, its learning rate too, is part of the plan of a step that contains optimizer.step(). With
a scheduler leave both outside; the gradients are in .grad:

    optimizer.zero_grad(); loss = step(x, y); optimizer.step(); scheduler.step()
"""
import json
import math
import sys
import zlib

import torch
import torch.fx
import torch.nn.functional as F
import torch.utils._pytree as pytree

import magis_capture

aten = torch.ops.aten
DTYPES = {short: dtype for dtype, short in magis_capture.DTYPES.items()}


class PlanError(Exception):
    """Why a plan cannot be run; the message is meant to be read."""


# ---- operators: f(operands, attributes, shapes of the results) -> result or list of results ----

def _window(a, spatial):
    pads = a.get("pads", [0] * 2 * spatial)
    if pads[:spatial] != pads[spatial:]:
        raise PlanError("pads that differ at the two ends are not supported")
    return a.get("strides", [1] * spatial), pads[:spatial], a.get("dilations", [1] * spatial)


def _number(value, dtype):
    """As that type holds it: what is beyond its range, or the largest number of all, stands for infinity in a plan."""
    if not dtype.is_floating_point or abs(value) < min(torch.finfo(dtype).max, sys.float_info.max):
        return value
    held = abs(value) == torch.finfo(dtype).max < sys.float_info.max
    return value if held else math.copysign(math.inf, value)


def _phantom(like, shape):
    """A tensor of that shape that holds one element: where only the shape counts."""
    return like.new_zeros(()).expand(shape)


def _dense(tensor):
    """For kernels that do not look at strides (PyTorch 1.13: the result given to softmax's gradient)."""
    return tensor.contiguous()


def _convolve(i, a, transposed):
    strides, pads, dilations = _window(a, i[0].dim() - 2)
    bias = [extra for extra in i[2:] if extra.dim() == 1]
    result = torch.convolution(i[0], i[1], bias[0] if bias else None, strides, pads, dilations, transposed,
                               a.get("output_padding", [0] * len(strides)), a.get("group", 1))
    for extra in i[2:]:
        if extra.dim() > 1:
            result += extra
    return result


def _conv(i, a, out):
    return _convolve(i, a, False)


def _conv_transpose(i, a, out):
    return _convolve(i, a, True)


def _conv_grad(which):
    def run(i, a, out):
        strides, pads, dilations = _window(a, i[0].dim() - 2)
        x = _phantom(i[0], out[0]) if which == 0 else i[1]
        w = _phantom(i[0], out[0]) if which == 1 else i[1]
        result = aten.convolution_backward(i[0], x, w, None, strides, pads, dilations, False, [0] * len(strides),
                                           a.get("group", 1), [which == 0, which == 1, False])[which]
        return result if len(i) < 3 else result.add_(i[2])
    return run


def _product(i, a, out):
    x = i[0].transpose(-1, -2) if a.get("trans_a") else i[0]
    y = i[1].transpose(-1, -2) if a.get("trans_b") else i[1]
    alpha, beta = a.get("alpha", 1), a.get("beta", 1)
    if len(i) > 2 and x.dim() == 2 and y.dim() == 2:
        return torch.addmm(i[2], x, y, beta=beta, alpha=alpha)
    product = torch.matmul(x, y)
    product = product if alpha == 1 else product.mul_(alpha)
    return product if len(i) < 3 else product.add_(i[2], alpha=beta)


def _statistics(i, results):
    """Statistics in the shape that plans have them in."""
    shape = [1] * i[0].dim()
    shape[1] = i[0].shape[1]
    return [results[0], results[1].reshape(shape), results[2].reshape(shape)]


def _batch_norm(i, a, out):
    scale, shift = (i[1], i[2]) if len(i) > 1 else (None, None)
    return _statistics(i, torch.native_batch_norm(i[0], scale, shift, None, None, True, 0.0, a["epsilon"]))


def _batch_norm_grad(i, a, out):
    scale = i[4] if len(i) > 4 else None
    results = aten.native_batch_norm_backward(i[0], i[1], scale, None, None, i[2].flatten(), i[3].flatten(), True, 1e-5,
                                              [True, scale is not None, scale is not None])
    return list(results[:len(out)])


def _bn_apply(i, a, out):
    scale, shift = (i[3], i[4]) if len(i) > 3 else (None, None)
    return F.batch_norm(i[0], i[1].flatten(), i[2].flatten() ** -2, scale, shift, False, 0.0, 0.0)


def _stat_update(i, a, out):
    fresh = i[1].flatten()
    if a.get("variance"):
        n = a["count"]
        fresh = (fresh ** -2 - a["epsilon"]) * (n / max(n - 1, 1))
    return i[0] * (1 - a["momentum"]) + a["momentum"] * fresh


def _layer_norm(i, a, out):
    sizes = list(i[0].shape[a["axis"]:])
    return list(torch.native_layer_norm(i[0], sizes, i[1] if len(i) > 1 else None, i[2] if len(i) > 1 else None,
                                        a["epsilon"]))


def _layer_norm_grad(i, a, out):
    sizes, scale = list(i[1].shape[a["axis"]:]), i[4] if len(i) > 4 else None
    shift = None if scale is None else torch.zeros_like(scale)
    results = aten.native_layer_norm_backward(i[0], i[1], sizes, i[2], i[3], scale, shift,
                                              [True, scale is not None, scale is not None])
    return list(results[:len(out)])


def _rms_norm(i, a, out):
    x = i[0].float() if i[0].dtype in (torch.float16, torch.bfloat16) else i[0]
    rstd = torch.rsqrt((x * x).mean(list(range(a["axis"], x.dim())), True) + a["epsilon"])
    y = (x * rstd).to(i[0].dtype)
    return [y if len(i) < 2 else y * i[1], rstd]


def _rms_norm_grad(i, a, out):
    over, before = list(range(a["axis"], i[1].dim())), list(range(a["axis"]))
    normal = i[1] * i[2]
    dy = i[0] if len(i) < 4 else i[0] * i[3]
    dx = ((dy - normal * (dy * normal).mean(over, True)) * i[2]).to(i[1].dtype)
    if len(i) < 4:
        return [dx]
    dscale = i[0] * normal
    return [dx, (dscale.sum(before) if before else dscale).to(i[3].dtype)]


def _group_norm(i, a, out):
    n, c = i[0].shape[:2]
    scale, shift = (i[1], i[2]) if len(i) > 1 else (None, None)
    y, mean, rstd = torch.native_group_norm(i[0].contiguous(), scale, shift, n, c, i[0][0, 0].numel(), a["num_groups"],
                                            a["epsilon"])
    return [y, mean.reshape(out[1]), rstd.reshape(out[2])]


def _group_norm_grad(i, a, out):
    (n, c), groups, scale = i[1].shape[:2], a["num_groups"], i[4] if len(i) > 4 else None
    results = aten.native_group_norm_backward(
        i[0].contiguous(), i[1].contiguous(), i[2].reshape(n, groups), i[3].reshape(n, groups), scale, n, c,
        i[1][0, 0].numel(), groups, [True, scale is not None, scale is not None])
    return list(results[:len(out)])


def _reduce_prod(i, a, out):
    result = i[0]
    for axis in a["axes"]:
        result = result.prod(axis, True)
    return result.reshape(out[0])


def _depth_to_space(i, a, out):
    """Mode CRD is pixel_shuffle; DCR has the places within a block before the channels."""
    (n, c, h, w), b = i[0].shape, a["blocksize"]
    if a["mode"] == "CRD":
        return F.pixel_shuffle(i[0], b)
    return i[0].reshape(n, b, b, c // (b * b), h, w).permute(0, 3, 4, 1, 5, 2).reshape(out[0])


def _space_to_depth(i, a, out):
    (n, c, h, w), b = i[0].shape, a["blocksize"]
    if a["mode"] == "CRD":
        return F.pixel_unshuffle(i[0], b)
    return i[0].reshape(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4).reshape(out[0])


def _cumsum(i, a, out):
    x = i[0].flip(a["axis"]) if a.get("reverse") else i[0]
    y = x.cumsum(a["axis"]) - x if a.get("exclusive") else x.cumsum(a["axis"])
    return y.flip(a["axis"]) if a.get("reverse") else y


def _hard_sigmoid_grad(i, a, out):
    if (a["alpha"], a["beta"]) == (1 / 6, 0.5):
        return aten.hardsigmoid_backward(i[0], i[1])
    t = i[1] * a["alpha"] + a["beta"]
    return (i[0] * a["alpha"]).masked_fill_((t <= 0) | (t >= 1), 0)


def _reduce(function):
    def run(i, a, out):
        return function(i[0], a["axes"], bool(a.get("keepdims", 1)))
    return run


def _pool(a):
    strides, pads, dilations = _window(a, len(a["kernel_shape"]))
    return a["kernel_shape"], strides, pads, dilations, bool(a.get("ceil_mode"))


def _by_size(name, x):
    """torch's function of that name for as many spatial dimensions as x has, two or three."""
    if x.dim() not in (4, 5):
        raise PlanError("pooling is supported over two or three dimensions")
    return getattr(aten, name % (x.dim() - 2))


def _max_pool(i, a, out):
    return _by_size("max_pool%dd_with_indices", i[0])(i[0], *_pool(a))[0]


def _max_pool_grad(i, a, out):
    at = _by_size("max_pool%dd_with_indices", i[1])(i[1], *_pool(a))[1]
    return _by_size("max_pool%dd_with_indices_backward", i[1])(i[0], i[1], *_pool(a), at)


def _avg_pool(i, a, out):
    kernel, strides, pads, dilations, ceil = _pool(a)
    if any(d != 1 for d in dilations):
        raise PlanError("averages of windows with holes are not supported")
    return _by_size("avg_pool%dd", i[0])(i[0], kernel, strides, pads, ceil, bool(a.get("count_include_pad", 1)))


def _avg_pool_grad(i, a, out):
    kernel, strides, pads, _, ceil = _pool(a)
    return _by_size("avg_pool%dd_backward", i[0])(i[0], _phantom(i[0], out[0]), kernel, strides, pads, ceil,
                                                  bool(a.get("count_include_pad", 1)), None)


def _how_resized(a, spatial):
    """torch's name for it, and the arguments behind the sizes."""
    places = {"nearest": ("asymmetric",), "linear": ("half_pixel", "align_corners"), "cubic": ("half_pixel", "align_corners")}
    if (a["mode"] == "cubic" and (spatial != 2 or a["cubic_coeff_a"] != -0.75) or a.get("antialias") or a.get("exclude_outside")
            or a["coordinates"] not in places[a["mode"]] or a["mode"] == "nearest" and a["nearest_mode"] != "floor"):
        raise PlanError("resizing is supported as PyTorch's upsample_nearest, linear and bicubic do it")
    kind = {"nearest": ("nearest",) * 3, "linear": ("linear", "bilinear", "trilinear"), "cubic": ("bicubic",) * 3}
    scales = [a.get(key) or None for key in ("scales_d", "scales_h", "scales_w")[3 - spatial:]]
    name = "upsample_%s%dd" % (kind[a["mode"]][spatial - 1], spatial)
    return name, [a["coordinates"] == "align_corners"] * (a["mode"] != "nearest") + scales


def _resize(i, a, out):
    name, rest = _how_resized(a, i[0].dim() - 2)
    return getattr(aten, name)(i[0], a["spatial"], *rest)


def _resize_grad(i, a, out):
    name, rest = _how_resized(a, i[0].dim() - 2)
    return getattr(aten, name + "_backward")(i[0], list(i[0].shape[2:]), out[0], *rest)


def _nll(i, a, out):
    ignored = a["ignore_index"]
    loss = F.nll_loss(i[0], i[1], reduction="sum", ignore_index=ignored)
    return loss / (a["divisor"] or (i[1] != ignored).sum())


def _nll_grad(i, a, out):
    ignored = a["ignore_index"]
    scale = i[0] / (a["divisor"] or (i[2] != ignored).sum())
    grad = torch.zeros_like(i[1])
    keep = i[2] != ignored
    at = torch.where(keep, i[2], torch.zeros_like(i[2])).unsqueeze(1)
    return grad.scatter_(1, at, torch.where(keep, -scale, torch.zeros_like(scale)).unsqueeze(1).to(grad.dtype))


def _at(a, shape):
    box = [slice(None)] * len(shape)
    for axis, start, end, step in zip(a["axes"], a["starts"], a["ends"], a["steps"]):
        box[axis] = slice(start, end, step)
    return tuple(box)


def _slice_grad(i, a, out):
    whole = i[0].new_zeros(out[0])
    whole[_at(a, out[0])] = i[0]
    return whole


def _pad(i, a, out):
    rank, pads = i[0].dim(), []
    if a.get("mode", "constant") != "constant":
        raise PlanError("pads are supported if they are constant")
    for d in reversed(range(rank)):
        pads += [a["pads"][d], a["pads"][d + rank]]
    return F.pad(i[0], pads, "constant", _number(a.get("value", 0), i[0].dtype))


def _from_start(index, size):
    """Indices below 0 count from the end."""
    index = index.flatten()
    return torch.where(index < 0, index + size, index)


def _gather(i, a, out):
    return i[0].index_select(a["axis"], _from_start(i[1], i[0].shape[a["axis"]])).reshape(out[0])


def _scatter_add(i, a, out):
    axis, index = a["axis"], _from_start(i[1], out[0][a["axis"]])
    rows = i[0].reshape(out[0][:axis] + [index.numel()] + out[0][axis + 1:])
    return i[0].new_zeros(out[0]).index_add_(axis, index, rows)


def _clip(a, x):
    """The limits as a tensor's type can hold them."""
    if not x.dtype.is_floating_point:
        held = torch.iinfo(x.dtype)
        return math.ceil(max(a["min"], held.min)), math.floor(min(a["max"], held.max))
    return _number(a["min"], x.dtype), _number(a["max"], x.dtype)


def _clip_grad(i, a, out):
    least, most = _clip(a, i[1])
    return torch.where((i[1] > least) & (i[1] < most), i[0], torch.zeros_like(i[0]))


def _check_attention(q, k, mask):
    if mask or q.shape[:-2] != k.shape[:-2]:
        raise PlanError("attention is supported without a mask, and with as many heads of keys as of queries")


def _attention(i, a, out):
    _check_attention(i[0], i[1], i[3:])
    scale = a["scale"] or i[0].shape[-1] ** -0.5
    scores = torch.matmul(i[0], i[1].transpose(-1, -2)) * scale
    if a.get("causal"):
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -float("inf"))
    lse = torch.logsumexp(scores, -1, True)
    return [torch.matmul((scores - lse).exp(), i[2]), lse]


def _attention_grad(i, a, out):
    dy, q, k, v, y, lse = i[:6]
    _check_attention(q, k, i[6:])
    scale = a["scale"] or q.shape[-1] ** -0.5
    scores = torch.matmul(q, k.transpose(-1, -2)) * scale
    if a.get("causal"):
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -float("inf"))
    p = (scores - lse).exp()
    ds = p * (torch.matmul(dy, v.transpose(-1, -2)) - (dy * y).sum(-1, True)) * scale
    return [torch.matmul(ds, k), torch.matmul(ds.transpose(-1, -2), q), torch.matmul(p.transpose(-1, -2), dy)]


COMBINED = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _scatter_elements(i, a, out):
    if a["reduction"] == "none":
        return i[0].scatter(a["axis"], i[1], i[2])
    return i[0].scatter_reduce(a["axis"], i[1], i[2], COMBINED[a["reduction"]])


def _places(x, index, a):
    """Numbers of the slices that the indices mean, among all of x; and the elements of a slice."""
    count, batch = index.shape[-1], a.get("batch_dims", 0)
    number = torch.arange(math.prod(x.shape[:batch]), device=x.device)
    number = number.reshape(list(x.shape[:batch]) + [1] * (index.dim() - 1 - batch)).expand(index.shape[:-1])
    outside = torch.zeros_like(number, dtype=torch.bool)
    for column, size in enumerate(x.shape[batch:batch + count]):
        part = index[..., column]
        outside = outside | (part < -size) | (part >= size)
        number = number * size + torch.where(part < 0, part + size, part)
    if not outside.is_cuda and bool(outside.any()):
        raise IndexError("an index is out of range")
    number = torch.where(outside, math.prod(x.shape[:batch + count]), number)  # devices refuse it without being waited for
    return number.flatten(), math.prod(x.shape[batch + count:])


def _gather_nd(i, a, out):
    number, size = _places(i[0], i[1], a)
    return i[0].reshape(-1, size).index_select(0, number).reshape(out[0])


def _scatter_nd(i, a, out):
    number, size = _places(i[0], i[1], a)
    index, whole, part = number.unsqueeze(1).expand(-1, size), i[0].reshape(-1, size), i[2].reshape(-1, size)
    if a["reduction"] == "none":
        return whole.scatter(0, index, part).reshape(out[0])
    return whole.scatter_reduce(0, index, part, COMBINED[a["reduction"]]).reshape(out[0])


def _top_k(i, a, out):
    values, indices = torch.sort(i[0], dim=a["axis"], descending=bool(a["largest"]), stable=True)
    return [values.narrow(a["axis"], 0, a["k"]), indices.narrow(a["axis"], 0, a["k"])]


def _arg(function):
    def run(i, a, out):
        if a["select_last_index"]:
            raise PlanError("the last of equal elements is not supported, only the first")
        return function(i[0], a["axis"], bool(a["keepdims"]))
    return run


def _columns(i, a, out):
    if i[0].dim() != 4:
        raise PlanError("windows as columns are supported over two dimensions")
    return aten.im2col(i[0], a["kernel_shape"], a["dilations"], a["pads"][:2], a["strides"])


def _images(i, a, out):
    return aten.col2im(i[0], a["spatial"], a["kernel_shape"], a["dilations"], a["pads"][:2], a["strides"])


def _grid_sample(i, a, out):
    names = {"linear": "bilinear", "nearest": "nearest", "cubic": "bicubic"}
    return F.grid_sample(i[0], i[1], names[a["mode"]], a["padding"], bool(a["align_corners"]))


def _shrink(i, a, out):
    x, zero = i[0], torch.zeros_like(i[0])
    return torch.where(x > a["lambd"], x - a["bias"], torch.where(x < -a["lambd"], x + a["bias"], zero))


def _squares(i, a, out):
    return (i[0] - i[1]) ** 2


KERNELS = {
    "matmul": _product, "gemm": _product, "conv": _conv, "conv_transpose": _conv_transpose,
    "conv_grad_input": _conv_grad(0), "conv_grad_weight": _conv_grad(1),
    "squared_error": _squares, "squared_error_grad": lambda i, a, out: 2 * i[0] * (i[1] - i[2]),
    "affine": lambda i, a, out: i[0] * a["alpha"] + a["beta"] if a["beta"] else i[0] * a["alpha"],
    "where": lambda i, a, out: torch.where(i[0], i[1], i[2]),
    "cast": lambda i, a, out: i[0].to(DTYPES[a["to"]], copy=True), "copy": lambda i, a, out: i[0].clone(),
    "leaky_relu": lambda i, a, out: F.leaky_relu(i[0], a["alpha"]), "elu": lambda i, a, out: F.elu(i[0], a["alpha"]),
    "gelu": lambda i, a, out: F.gelu(i[0], approximate=a["approximate"]),
    "hard_sigmoid": lambda i, a, out: (i[0] * a["alpha"] + a["beta"]).clamp_(0, 1),
    "softplus": lambda i, a, out: F.softplus(i[0]), "clip": lambda i, a, out: i[0].clamp(*_clip(a, i[0])),
    "silu": lambda i, a, out: F.silu(i[0]), "hard_swish": lambda i, a, out: F.hardswish(i[0]),
    "relu_grad": lambda i, a, out: aten.threshold_backward(i[0], i[1], 0),
    "leaky_relu_grad": lambda i, a, out: aten.leaky_relu_backward(i[0], i[1], a["alpha"], False),
    "elu_grad": lambda i, a, out: aten.elu_backward(i[0], a["alpha"], 1, 1, True, i[1]),
    "sigmoid_grad": lambda i, a, out: aten.sigmoid_backward(i[0], i[1]),
    "tanh_grad": lambda i, a, out: aten.tanh_backward(i[0], i[1]),
    "silu_grad": lambda i, a, out: aten.silu_backward(i[0], i[1]),
    "gelu_grad": lambda i, a, out: aten.gelu_backward(i[0], i[1], approximate=a["approximate"]),
    "hard_swish_grad": lambda i, a, out: aten.hardswish_backward(i[0], i[1]),
    "hard_sigmoid_grad": _hard_sigmoid_grad,
    "softplus_grad": lambda i, a, out: aten.softplus_backward(i[0], i[1], 1, 20), "clip_grad": _clip_grad,
    "dropout_grad": lambda i, a, out: i[0] * i[1] / (1 - a["ratio"]),
    "reduce_sum": _reduce(torch.sum), "reduce_max": _reduce(torch.amax), "reduce_min": _reduce(torch.amin),
    "reduce_mean": lambda i, a, out: torch.sum(i[0], a["axes"], bool(a.get("keepdims", 1))) / a["divisor"],
    "reduce_prod": _reduce_prod,
    "arg_max": _arg(torch.argmax),
    "cumsum": _cumsum,
    "softmax": lambda i, a, out: i[0].softmax(a["axis"]), "log_softmax": lambda i, a, out: i[0].log_softmax(a["axis"]),
    "softmax_grad": lambda i, a, out: aten._softmax_backward_data(i[0], _dense(i[1]), a["axis"], i[1].dtype),
    "log_softmax_grad": lambda i, a, out: aten._log_softmax_backward_data(i[0], _dense(i[1]), a["axis"], i[1].dtype),
    "nll_loss": _nll, "nll_loss_grad": _nll_grad, "layer_norm": _layer_norm, "layer_norm_grad": _layer_norm_grad,
    "group_norm": _group_norm, "group_norm_grad": _group_norm_grad,
    "batch_norm": _batch_norm, "batch_norm_grad": _batch_norm_grad, "bn_apply": _bn_apply, "stat_update": _stat_update,
    "batch_norm_inference": lambda i, a, out: F.batch_norm(i[0], i[3], i[4], i[1], i[2], False, 0.0, a["epsilon"]),
    "max_pool": _max_pool, "max_pool_grad": _max_pool_grad,
    "avg_pool": _avg_pool, "avg_pool_grad": _avg_pool_grad,
    "global_avg_pool": lambda i, a, out: i[0].mean(tuple(range(2, i[0].dim())), True),
    "global_avg_pool_grad": lambda i, a, out: (i[0] / math.prod(out[0][2:])).expand(out[0]).contiguous(),
    "resize": _resize, "resize_grad": _resize_grad, "slice_grad": _slice_grad, "pad": _pad,
    "concat": lambda i, a, out: torch.cat(i, a["axis"]), "tile": lambda i, a, out: i[0].repeat(a["repeats"]),
    "gather": _gather, "scatter_add": _scatter_add, "attention": _attention, "attention_grad": _attention_grad,
    "gather_elements": lambda i, a, out: i[0].gather(a["axis"], i[1].long()), "scatter_elements": _scatter_elements,
    "gather_nd": _gather_nd, "scatter_nd": _scatter_nd, "top_k": _top_k, "reverse": lambda i, a, out: i[0].flip(a["axes"]), "im2col": _columns, "col2im": _images,
    "trilu": lambda i, a, out: (torch.triu if a["upper"] else torch.tril)(i[0], a["diagonal"]),
    "grid_sample": _grid_sample, "space_to_depth": _space_to_depth,
    "adaptive_avg_pool": lambda i, a, out: _by_size("_adaptive_avg_pool%dd", i[0])(i[0], a["spatial"]),
    "adaptive_avg_pool_grad":
        lambda i, a, out: _by_size("_adaptive_avg_pool%dd_backward", i[0])(i[0], i[0].new_empty(out[0])),
    "mod": lambda i, a, out: torch.fmod(*i) if a["fmod"] else torch.remainder(*i),
    "prelu": lambda i, a, out: torch.where(i[0] > 0, i[0], i[0] * i[1]),
    "prelu_grad": lambda i, a, out: torch.where(i[1] > 0, i[0], i[0] * i[2]),
    "shrink": _shrink, "shrink_grad": lambda i, a, out: i[0].masked_fill(i[1].abs() <= a["lambd"], 0),
    "selu": lambda i, a, out: aten.elu(i[0], a["alpha"], a["gamma"]),
    "selu_grad": lambda i, a, out: aten.elu_backward(i[0], a["alpha"], a["gamma"], 1, True, i[1]),
    "celu": lambda i, a, out: F.celu(i[0], a["alpha"]), "mish": lambda i, a, out: F.mish(i[0]),
    "celu_grad": lambda i, a, out: torch.where(i[1] > 0, i[0], i[0] * (i[1] / a["alpha"] + 1)),
    "mish_grad": lambda i, a, out: aten.mish_backward(i[0], i[1]),
    "arg_min": _arg(torch.argmin),
    "reduce_log_sum_exp": _reduce(torch.logsumexp),
    "reduce_l1": lambda i, a, out: torch.linalg.vector_norm(i[0], 1, a["axes"], bool(a["keepdims"])),
    "reduce_l2": lambda i, a, out: torch.linalg.vector_norm(i[0], 2, a["axes"], bool(a["keepdims"])),
    "reduce_sum_square": lambda i, a, out: (i[0] * i[0]).sum(a["axes"], bool(a["keepdims"])),
    "roll": lambda i, a, out: i[0].roll(a["shifts"], a["axes"]), "det": lambda i, a, out: torch.linalg.det(i[0]),
    "rms_norm": _rms_norm, "rms_norm_grad": _rms_norm_grad,
    "sgd": lambda i, a, out: i[0] - a["lr"] * (i[1] + a["weight_decay"] * i[0]), "assign": lambda i, a, out: i[1],
    # views that the plan had to make dense
    "reshape": lambda i, a, out: i[0].reshape(out[0]), "transpose": lambda i, a, out: i[0].permute(a["perm"]),
    "squeeze": lambda i, a, out: i[0].reshape(out[0]), "unsqueeze": lambda i, a, out: i[0].reshape(out[0]),
    "expand": lambda i, a, out: i[0].expand(out[0]), "slice": lambda i, a, out: i[0][_at(a, out[0])],
    "split": lambda i, a, out: list(i[0].split(a["split"], a["axis"])), "depth_to_space": _depth_to_space,
}
KERNELS["floor_div"] = lambda i, a, out: torch.div(i[0], i[1], rounding_mode="floor")
KERNELS["is_nan"] = lambda i, a, out: i[0].isnan()
KERNELS["is_inf"] = lambda i, a, out: i[0].isinf()
UNSIGNED = (aten.embedding.default, aten.index_select.default)
RANDOM = ("dropout", "random_normal", "random_uniform", "bernoulli")
COMBINERS = {"sum": torch.add, "prod": torch.mul, "max": torch.maximum, "min": torch.minimum}
# f(operands, attributes, which of them takes the result)
IN_PLACE = {
    "relu": lambda i, a, at: i[0].relu_(), "hard_swish": lambda i, a, at: F.hardswish(i[0], True),
    "silu": lambda i, a, at: F.silu(i[0], True), "affine": lambda i, a, at: i[0].mul_(a["alpha"]).add_(a["beta"]),
    "relu_grad": lambda i, a, at: aten.threshold_backward.grad_input(i[0], i[1], 0, grad_input=i[at]),
    "sigmoid_grad": lambda i, a, at: aten.sigmoid_backward.grad_input(i[0], i[1], grad_input=i[at]),
    "tanh_grad": lambda i, a, at: aten.tanh_backward.grad_input(i[0], i[1], grad_input=i[at]),
}
for _name, _torch_name in (
        ("add", "add"), ("sub", "sub"), ("mul", "mul"), ("div", "div"), ("pow", "pow"), ("max", "maximum"),
        ("min", "minimum"), ("equal", "eq"), ("not_equal", "ne"), ("greater", "gt"), ("greater_or_equal", "ge"),
        ("less", "lt"), ("less_or_equal", "le"), ("logical_and", "logical_and"), ("logical_or", "logical_or"),
        ("bitwise_and", "bitwise_and"), ("bitwise_or", "bitwise_or"), ("bitwise_xor", "bitwise_xor"), ("bitwise_not", "bitwise_not"),
        ("neg", "neg"), ("abs", "abs"), ("sign", "sgn"), ("floor", "floor"), ("ceil", "ceil"), ("round", "round"),
        ("logical_not", "logical_not"), ("exp", "exp"), ("log", "log"), ("sqrt", "sqrt"), ("rsqrt", "rsqrt"),
        ("reciprocal", "reciprocal"), ("erf", "erf"), ("sin", "sin"), ("cos", "cos"), ("tanh", "tanh"),
        ("logical_xor", "logical_xor"), ("atan2", "atan2"), ("trunc", "trunc"),
        ("tan", "tan"), ("asin", "asin"), ("acos", "acos"), ("atan", "atan"), ("sinh", "sinh"), ("cosh", "cosh"),
        ("asinh", "asinh"), ("acosh", "acosh"), ("atanh", "atanh"), ("expm1", "expm1"), ("log1p", "log1p"),
        ("log2", "log2"), ("log10", "log10"),
        ("sigmoid", "sigmoid"), ("relu", "relu")):
    KERNELS[_name] = lambda i, a, out, f=getattr(torch, _torch_name): f(*i)
    if _name != "relu":
        IN_PLACE[_name] = lambda i, a, at, f=getattr(torch, _torch_name): f(*i, out=i[at])


# ---- copies to the host and back ----

class _Host:
    """Copies beside the computation where there are CUDA streams, plainly elsewhere."""

    def __init__(self):
        self.parked = {}  # value -> (copy, event)
        self.streams = {}
        self.arriving = {}  # instance -> event

    def _stream(self, device, way):
        key = (device, way)
        if key not in self.streams:
            self.streams[key] = torch.cuda.Stream(device)
        return self.streams[key]

    def store(self, value, tensor):
        if not tensor.is_cuda:
            self.parked[value] = (tensor.clone(), None)
            return
        stream = self._stream(tensor.device, "out")
        stream.wait_stream(torch.cuda.current_stream(tensor.device))
        with torch.cuda.stream(stream):
            copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            copy.copy_(tensor, non_blocking=True)
            tensor.record_stream(stream)
            self.parked[value] = (copy, stream.record_event())

    def load(self, value, instance, device):
        copy, event = self.parked[value]
        if device.type != "cuda":
            return copy.clone()
        stream = self._stream(device, "in")
        if event is not None:
            stream.wait_event(event)
        with torch.cuda.stream(stream):
            tensor = copy.to(device, non_blocking=True)
            self.arriving[instance] = stream.record_event()
        return tensor

    def arrived(self, instance, tensor):
        event = self.arriving.pop(instance, None)
        if event is not None:
            current = torch.cuda.current_stream(tensor.device)
            current.wait_event(event)
            tensor.record_stream(current)


# ---- the interpreter ----

def _bounds(length, parts, part):
    """Where a part of a region begins and ends: the first ones are one longer where it does not divide."""
    small, larger = divmod(length, parts)
    lo = part * small + min(part, larger)
    return lo, lo + small + (part < larger)


def _memory(tensor):
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    return storage.data_ptr()


def _view(op, slot, tensor, attrs, shape):
    """A view operator on its operand; `shape` is its result's."""
    kind = op["op"]
    if kind == "transpose":
        return tensor.permute(attrs["perm"])
    if kind == "expand":
        return tensor.expand(shape)
    if kind == "slice":
        return tensor[_at(attrs, tensor.shape)]
    if kind == "split":
        axis = attrs["axis"]
        return tensor.narrow(axis, sum(attrs["split"][:slot]), shape[axis])
    return tensor.view(shape)


class _Held:
    """What an instance holds: a box of its value, from `lo` on, cut by the first `depth` open regions."""

    def __init__(self, tensor, lo, depth):
        self.tensor, self.lo, self.depth = tensor, lo, depth

    def part(self, lo, shape):
        tensor = self.tensor
        for d, extent in enumerate(shape):
            if extent != tensor.shape[d]:
                tensor = tensor.narrow(d, lo[d] - self.lo[d], extent)
        return tensor


class _Run:
    """Runs the list of steps once; the body of a region once for each of its parts."""

    def __init__(self, plan, captured, given, seed):
        self.plan, self.captured, self.seed = plan, captured, seed
        self.steps, self.instances = plan.document["steps"], plan.document["instances"]
        self.held = {}  # instance -> _Held
        self.open = []  # (region, part), outermost first
        self.host = _Host()
        self.parked = {}  # value -> (lo, depth) of its host copy
        self.given = given  # value -> tensor
        self.device = next(iter(given.values())).device if given else torch.device("cpu")
        for index, instance in enumerate(self.instances):
            if instance["made_by"] is None and "view" not in instance:
                tensor = given[instance["value"]]
                self.held[index] = _Held(tensor, [0] * tensor.dim(), 0)

    # -- where things lie --

    def cuts(self, name, depth):
        """{axis: (lo, hi)} of an operator in the first `depth` open regions."""
        cuts = {}
        for region, part in self.open[:depth]:
            if name in region.member:
                axis, scale = region.member[name]
                lo, hi = cuts[axis] if axis in cuts else (0, self.plan.cuts[name]["axes"][axis]["length"])
                begin, end = _bounds((hi - lo) // scale, region.parts, part)
                cuts[axis] = lo + begin * scale, lo + end * scale
        return cuts

    def box(self, op, way, slot, depth):
        """(lo, shape) of an operand ("in") or result ("out")."""
        shape = list(self.plan.shape[op["inputs" if way == "in" else "outputs"][slot]])
        lo = [0] * len(shape)
        for axis, (begin, end) in self.cuts(op["name"], depth).items():
            use = self.plan.cuts[op["name"]]["axes"][axis][way][slot]
            if use is not None:
                lo[use[0]], shape[use[0]] = begin * use[1], (end - begin) * use[1]
        return lo, shape

    def attrs(self, op, depth):
        """The attributes of a part of an operator."""
        attrs, cuts = op.get("attrs", {}), self.cuts(op["name"], depth)
        if not cuts:
            return attrs
        if op["op"] == "opaque":
            raise PlanError("the call '%s' (%s) cannot be split" % (op["name"], attrs.get("target")))
        extents = {axis: hi - lo for axis, (lo, hi) in cuts.items()}
        for form in self.plan.cuts[op["name"]]["forms"]:
            if form["extents"] == extents:
                attrs = dict(attrs, **form["attrs"])
        if op["op"] == "iota":
            lo = self.box(op, "out", 0, depth)[0][0]
            attrs = dict(attrs, start=op["attrs"]["start"] + lo * attrs["delta"])
        return attrs

    def root(self, index):
        view = self.instances[index].get("view")
        return index if view is None else view["of"]

    def resolve(self, index):
        """What an instance holds; of a view, by its operators, cut as its base is."""
        root = self.root(index)
        held = self.held[root]
        self.host.arrived(root, held.tensor)
        for op, slot in self.plan.chain(index):
            tensor = held.part(*self.box(op, "in", 0, held.depth))
            lo, shape = self.box(op, "out", slot, held.depth)
            held = _Held(_view(op, slot, tensor, self.attrs(op, held.depth), shape), lo, held.depth)
        return held

    def of_region(self, index):
        """Was it allocated by the begin of a region, as one of its outputs?"""
        made_by = self.instances[index]["made_by"]
        return made_by is not None and self.steps[made_by]["do"] == "begin"

    # -- computing --

    def random(self, op, lo):
        generator = torch.Generator(self.device)
        draw = "%d %s %s %s" % (self.seed, op["attrs"].get("seed"), op["name"], lo)
        return generator.manual_seed(zlib.crc32(draw.encode()))

    def drawn(self, op, lo, shape, kind, dtype=None):
        """Random numbers, part by part; as a whole, where they are drawn again in other parts."""
        whole = self.plan.shape[op["outputs"][0]] if op["name"] in self.plan.drawn_whole else shape
        origin = lo if whole is shape else [0] * len(lo)
        numbers = kind(whole, generator=self.random(op, origin), device=self.device, dtype=dtype)
        return _Held(numbers, origin, 0).part(lo, shape)

    def draw(self, op, attrs, lo, shape):
        if op["op"] == "random_normal":
            return self.drawn(op, lo, shape, torch.randn, DTYPES[attrs["to"]]) * attrs["scale"] + attrs["mean"]
        numbers = self.drawn(op, lo, shape, torch.rand, DTYPES[attrs["to"]])
        return numbers * (attrs["high"] - attrs["low"]) + attrs["low"]

    def mask(self, op, ratio, lo, shape):
        """What a dropout keeps."""
        return self.drawn(op, lo, shape, torch.rand) >= ratio

    def evaluate(self, op, operands, boxes, depth=0):
        kind, attrs, shapes = op["op"], self.attrs(op, depth), [shape for _, shape in boxes]
        if kind == "dropout":
            keep = self.mask(op, attrs["ratio"], *boxes[0])
            return [operands[0] * keep / (1 - attrs["ratio"]), keep]
        if kind == "fill":
            dtype = DTYPES[attrs["to"]]
            return torch.full(shapes[0], _number(attrs["value"], dtype), dtype=dtype, device=self.device)
        if kind in ("random_normal", "random_uniform"):
            return self.draw(op, attrs, *boxes[0])
        if kind == "bernoulli":
            drawn = self.drawn(op, *boxes[0], torch.rand, operands[0].dtype) < operands[0]
            return drawn.to(DTYPES[attrs["to"]] if attrs["to"] else operands[0].dtype)
        if kind == "eye":
            rows, columns = (torch.arange(n, device=self.device) for n in shapes[0])
            return (columns == rows.unsqueeze(1) + attrs["diagonal"]).to(DTYPES[attrs["to"]])
        if kind == "iota":
            real = torch.arange(attrs["size"], dtype=torch.float64, device=self.device) * attrs["delta"] + attrs["start"]
            return real.to(DTYPES[attrs["to"]])
        if kind == "opaque":
            return self.call(op, operands)
        if kind == "gather":
            self.check_rows(op, operands[1])
        if kind not in KERNELS:
            raise PlanError("the operator '%s' (%s) is not known here" % (op["name"], attrs.get("target", kind)))
        return KERNELS[kind](operands, attrs, shapes)

    def call(self, op, operands):
        """A call that magisd does not know, as it was captured, on the operands of the plan. What it writes to is copied
        before; the copies are the last of the results."""
        node = self.captured.nodes.get(op["name"])
        if node is None:
            raise PlanError("the call '%s' (%s) cannot be repeated" % (op["name"], op["attrs"].get("target")))
        rest = iter(operands)
        args = list(torch.fx.node.map_arg(node.args, lambda unused: next(rest)))
        kwargs = torch.fx.node.map_arg(node.kwargs, lambda unused: next(rest))
        written = [at for at in magis_capture._writes(node.target) if at < len(args) and isinstance(args[at], torch.Tensor)]
        for at in written:
            args[at] = args[at].clone()
        results = node.target(*args, **kwargs)
        results = list(results) if isinstance(results, (list, tuple)) else [results]
        results = [self.not_made(self.plan.shape[name]) if result is None or (result.numel() == 0 and 0 not in self.plan.shape[name])
                   else result for name, result in zip(op["outputs"], results)]
        return results if not written else results[:len(op["outputs"]) - len(written)] + [args[at] for at in written]

    def check_rows(self, op, index):
        """Calls that do not count from the end. Devices are not waited for."""
        node = self.captured.nodes.get(op["name"])
        if node is not None and node.target in UNSIGNED and not index.is_cuda and bool((index < 0).any()):
            raise IndexError("an index of '%s' is below 0" % op["name"])

    def not_made(self, shape):
        """In the place of a result that the call leaves out, because nobody asks for it or the mode makes none."""
        return torch.full(shape, math.nan, device=self.device)

    def compute(self, step):
        op, depth = self.plan.ops[step["op"]], len(self.open)
        operands = [self.resolve(index).part(*self.box(op, "in", slot, depth)) for slot, index in enumerate(step["in"])]
        boxes = [self.box(op, "out", slot, depth) for slot in range(len(op["outputs"]))]
        if step["out"]:
            storage = self.instances[step["out"][0]]["storage"]
            for slot, index in enumerate(step["in"]):
                if self.instances[index]["storage"] == storage:
                    return self.compute_in_place(op, operands, boxes, slot, index, step["out"][0])
        results = self.evaluate(op, operands, boxes, depth)
        results = list(results) if isinstance(results, (list, tuple)) else [results]
        for index, result, (lo, shape) in zip(step["out"], results, boxes):
            if self.of_region(index):
                self.held[index].part(lo, shape).copy_(result)
            else:
                result = result.contiguous()
                if any(_memory(result) == _memory(operand) for operand in operands):
                    result = result.clone()
                self.held[index] = _Held(result, lo, depth)
        return None

    def compute_in_place(self, op, operands, boxes, slot, old, new):
        """The result takes an operand's place. What others hold too (weights, states, what was made outside of this
        part) is overwritten; else a new tensor may follow the old one."""
        depth, root, held = len(self.open), self.root(old), self.resolve(old)
        stays = self.instances[root]["made_by"] is None or self.held[root].depth < depth
        function = IN_PLACE.get(op["op"])
        if function and list(operands[slot].shape) == boxes[0][1]:
            function(operands, self.attrs(op, depth), slot)
        else:
            result = self.evaluate(op, operands, boxes, depth)
            result = result[0] if isinstance(result, (list, tuple)) else result
            if stays:
                operands[slot].copy_(result)
            else:
                held = _Held(result.contiguous(), boxes[0][0], depth)
        self.held[new] = held
        if not (stays and depth):  # else the other parts still read the old version of their slices
            del self.held[root]

    # -- the other steps --

    def store(self, index):
        held, value = self.resolve(index), self.instances[index]["value"]
        self.parked[value] = held.lo, len(self.open)
        self.host.store(value, held.tensor)

    def load(self, index):
        value = self.instances[index]["value"]
        self.held[index] = _Held(self.host.load(value, index, self.device), self.parked[value][0], len(self.open))

    def slice(self, at):
        source, = self.steps[at]["in"]
        result, = self.steps[at]["out"]
        box = self.box(*self.plan.reader(at, result), len(self.open))
        copy = self.resolve(source).part(*box).clone(memory_format=torch.contiguous_format)
        self.held[result] = _Held(copy, box[0], len(self.open))

    def join(self, step, combine):
        part = self.resolve(step["in"][0])
        target = self.held[step["in"][1]].part(part.lo, part.tensor.shape)
        how = self.combiner(step["in"][1]) if combine else None
        if how is None:
            target.copy_(part.tensor)
        else:
            COMBINERS[how](target, part.tensor, out=target)

    def combiner(self, buffer):
        """How this part adds to an output that lacks the region's axis; None: it is the first to write there."""
        value = self.instances[buffer]["value"]
        op = self.plan.maker[value]
        outermost = self.plan.region[self.steps[self.instances[buffer]["made_by"]]["region"]]
        inside, how, first = False, None, True
        for region, part in self.open:
            inside = inside or region is outermost
            if not inside or op["name"] not in region.member:
                continue
            axis = self.plan.cuts[op["name"]]["axes"][region.member[op["name"]][0]]
            if axis["out"][op["outputs"].index(value)] is None:
                how, first = axis["combiner"], first and part == 0
        return None if first else how

    def begin(self, step):
        for index in step.get("out", ()):
            value = self.instances[index]["value"]
            op = self.plan.maker[value]
            lo, shape = self.box(op, "out", op["outputs"].index(value), len(self.open))
            tensor = torch.empty(shape, dtype=DTYPES[self.plan.dtype[value]], device=self.device)
            self.held[index] = _Held(tensor, lo, len(self.open))

    def region(self, at):
        """All parts of the region that begins there; returns its last step."""
        region, end = self.plan.region[self.steps[at]["region"]], self.plan.end[at]
        self.begin(self.steps[at])
        for part in range(region.parts):
            self.open.append((region, part))
            self.walk(at + 1, end)
            for value in [v for v, (_, depth) in self.parked.items() if depth >= len(self.open)]:
                del self.parked[value], self.host.parked[value]
            self.open.pop()
        return end

    def walk(self, at, end):
        while at < end:
            step = self.steps[at]
            kind = step["do"]
            if kind == "compute":
                self.compute(step)
            elif kind == "free":
                del self.held[step["of"]]
            elif kind == "store":
                self.store(step["of"])
            elif kind == "load":
                self.load(step["out"][0])
            elif kind == "slice":
                self.slice(at)
            elif kind in ("join", "acc"):
                self.join(step, kind == "acc")
            elif kind == "begin":
                at = self.region(at)
            else:
                raise PlanError("a step '%s' is not known here" % kind)
            at += 1

    def run(self):
        self.walk(0, len(self.steps))
        alive = {}
        for index, held in self.held.items():
            value = self.instances[index]["value"]
            if list(held.tensor.shape) == self.plan.shape[value]:
                self.host.arrived(index, held.tensor)
                alive[value] = held.tensor
        for value, weight in self.plan.updates.items():
            fresh = self.value(value, alive)
            if _memory(fresh) != _memory(self.given[weight]):
                self.given[weight].copy_(fresh)
        return [self.value(name, alive) for name in self.plan.program["outputs"]]

    def value(self, name, alive):
        """The last tensor of a value; views that no operator reads have no instance."""
        if name in alive or name not in self.plan.maker:
            return alive[name] if name in alive else self.given[name]
        op = self.plan.maker[name]
        operands = [self.value(operand, alive) for operand in op["inputs"]]
        boxes = [([0] * len(self.plan.shape[output]), self.plan.shape[output]) for output in op["outputs"]]
        results = self.evaluate(op, operands, boxes)
        return results[op["outputs"].index(name)] if isinstance(results, list) else results


class _Region:
    def __init__(self, document):
        self.parts = len(document["bounds"]) - 1
        self.member = {use["op"]: (use["axis"], use["scale"]) for use in document["ops"]}


class Plan:
    """A plan as magisd gives it; calling it with a step gives the step that follows the plan."""

    def __init__(self, document):
        if document.get("format") != "magis-plan/1" or "cuts" not in document.get("program", {}):
            raise PlanError("this is no plan of a captured step: get it by magisd optimize -o, or from "
                            "/jobs/{id}/plans/{plan}")
        self.program = program = document["program"]["graph"]
        self.document = document
        self.source = program["source"]
        self.ops = {op["name"]: op for op in program["ops"]}
        self.maker = {output: op for op in program["ops"] for output in op["outputs"]}
        self.shape, self.dtype, self.cuts = (document["program"][key] for key in ("shapes", "dtypes", "cuts"))
        self.kind = {value["name"]: value["kind"] for value in program["values"] if "kind" in value}
        self.updates = {update["value"]: update["weight"] for update in program["updates"]}
        self.region = {region["id"]: _Region(region) for region in document["regions"]}
        self.end = {}  # step that begins a region -> its end
        self.chains, self.readers = {}, {}
        self._survey()

    def _survey(self):
        """Where regions end, and which random operators are drawn under different cuts."""
        begun, drawn, self.drawn_whole = [], {}, set()
        for at, step in enumerate(self.document["steps"]):
            if step["do"] == "begin":
                begun.append(at)
            elif step["do"] == "end":
                self.end[begun.pop()] = at
            elif step["do"] == "compute" and self.ops[step["op"]]["op"] in RANDOM:
                around = [self.region[self.document["steps"][b]["region"]] for b in begun]
                cuts = [(region.member[step["op"]], region.parts) for region in around if step["op"] in region.member]
                if drawn.setdefault(step["op"], cuts) != cuts:
                    self.drawn_whole.add(step["op"])

    def chain(self, index):
        """[(operator, result)] that make a view from its base, in order."""
        if index not in self.chains:
            instances, chain = self.document["instances"], []
            value, view = instances[index]["value"], instances[index].get("view")
            base = value if view is None else instances[view["of"]]["value"]
            while value != base:
                op = self.maker[value]
                chain.append((op, op["outputs"].index(value)))
                value = op["inputs"][0]
            self.chains[index] = chain[::-1]
        return self.chains[index]

    def reader(self, at, instance):
        """(operator, "in", operand) that first reads what the slice at that step makes, or a view of it."""
        if at not in self.readers:
            for step in self.document["steps"][at + 1:]:
                for slot, read in enumerate(step.get("in", ()) if step["do"] == "compute" else ()):
                    if read == instance:
                        self.readers[at] = self.ops[step["op"]], "in", slot
                    elif self.document["instances"][read].get("view", {}).get("of") == instance:
                        self.readers[at] = self.chain(read)[0][0], "in", 0
                    if at in self.readers:
                        return self.readers[at]
        return self.readers[at]

    def __call__(self, step):
        state = {}

        def planned(*args):
            if "captured" not in state:
                state["captured"] = self._capture(step, args)
            captured = state["captured"]
            if captured.state.settings() != captured.settings:
                raise PlanError("an optimizer's settings have changed since the step was captured (by a scheduler of its "
                                "learning rate?); they are part of the plan. Leave optimizer.step() and the scheduler "
                                "outside of the captured step, which leaves its gradients in .grad; or capture it again")
            return self._run(captured, args)
        return planned

    def _capture(self, step, args):
        captured = magis_capture.capture(step, *args, name=self.program["name"])
        if captured.digest != self.source:
            raise PlanError("the plan was made for another step: model, shapes, code or version of torch have changed; "
                            "capture it again")
        if len(self.program["outputs"]) != len(captured.dump["outputs"]):
            raise PlanError("the step returns one tensor in two places, or changes its inputs")
        return captured

    def _given(self, captured, args):
        leaves, spec = pytree.tree_flatten(args)
        if spec != captured.state.arg_spec:
            raise PlanError("the arguments have another structure than those that were captured")
        captured.state.leaves = list(leaves)
        given, places = {}, iter(captured.state.places)
        for node in captured.dump["nodes"]:
            if node["op"] not in ("placeholder", "constant"):
                continue
            tensor = next(places)[3]() if node["op"] == "placeholder" else getattr(captured.module, node["name"])
            name = node["path"] if node.get("path") in self.kind else node["name"]
            if name not in self.kind:
                continue
            if list(tensor.shape) != self.shape[name]:
                raise PlanError("'%s' has shape %s, captured was %s" % (name, list(tensor.shape), self.shape[name]))
            given[name] = tensor.detach()
            if not given[name].is_contiguous():
                if name in self.updates.values():
                    raise PlanError("'%s' is updated but not contiguous" % name)
                given[name] = given[name].contiguous()
        return given

    def _run(self, captured, args):
        with torch.no_grad():
            seed = int(torch.randint(2 ** 31, ()))
            outputs = _Run(self, captured, self._given(captured, args), seed).run()
        counted = captured.state.counts()
        captured.state.count_on({at: counted[at] + by for at, by in captured.counts.items() if at in counted})
        count = len(outputs) - len(captured.gradients)
        shared = [_memory(tensor) for tensor in outputs + [place[3]() for place in captured.state.places]]
        for place, gradient in zip(captured.gradients, outputs[count:]):
            tensor = captured.state.places[place][3]()
            gradient = gradient.to(tensor.dtype).reshape(tensor.shape)
            if tensor.grad is not None and not captured.zeroes_gradients:
                tensor.grad += gradient
            else:
                tensor.grad = gradient.clone() if shared.count(_memory(gradient)) > 1 else gradient
        spec, leaves = captured.result
        results = iter(outputs[:count])
        return pytree.tree_unflatten([next(results) if kind == "tensor" else leaf for kind, leaf in leaves], spec)


def load(path):
    """The plan in a file, or an open document (a dict)."""
    if isinstance(path, dict):
        return Plan(path)
    with open(path) as file:
        return Plan(json.load(file))
