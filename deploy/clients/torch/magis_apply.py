#!/usr/bin/env python3
"""Runs a PyTorch training step by a plan of magisd: the same loss and gradients in less memory.

    import magis_apply
    step = magis_apply.load("plan.json")(step)   # then call step(...) as before

The plan is data, the JSON that magisd gives for a step captured by magis_capture.py (which must lie beside this file);
nothing in it is executed as code. At its first call the step is traced again, and refused unless it is the very one that
the plan was made for. Order, recomputation, copies to the host and back and rewrites are followed; plans that split
operators into parts are refused (ask for plans with techniques.fission = false). Random operators draw a fresh mask in
each call and repeat it when they are recomputed.
"""
import json
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


def _phantom(like, shape):
    """A tensor of that shape that holds one element: where only the shape counts."""
    return like.new_zeros(()).expand(shape)


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


def _reduce(function):
    def run(i, a, out):
        return function(i[0], a["axes"], bool(a.get("keepdims", 1)))
    return run


def _pool(a):
    strides, pads, dilations = _window(a, len(a["kernel_shape"]))
    return a["kernel_shape"], strides, pads, dilations, bool(a.get("ceil_mode"))


def _max_pool_grad(i, a, out):
    kernel, strides, pads, dilations, ceil = _pool(a)
    _, at = F.max_pool2d(i[1], kernel, strides, pads, dilations, ceil, return_indices=True)
    return aten.max_pool2d_with_indices_backward(i[0], i[1], kernel, strides, pads, dilations, ceil, at)


def _avg_pool(i, a, out):
    kernel, strides, pads, _, ceil = _pool(a)
    return F.avg_pool2d(i[0], kernel, strides, pads, ceil, bool(a.get("count_include_pad", 1)))


def _avg_pool_grad(i, a, out):
    kernel, strides, pads, _, ceil = _pool(a)
    return aten.avg_pool2d_backward(i[0], _phantom(i[0], out[0]), kernel, strides, pads, ceil,
                                    bool(a.get("count_include_pad", 1)), None)


def _resize(i, a, out):
    if a["mode"] == "nearest":
        return F.interpolate(i[0], size=a["spatial"], mode="nearest")
    return F.interpolate(i[0], size=a["spatial"], mode="bilinear" if i[0].dim() == 4 else "linear",
                         align_corners=a["coordinates"] == "align_corners")


def _resize_grad(i, a, out):
    corners = a["coordinates"] == "align_corners"
    if i[0].dim() != 4:
        raise PlanError("resizing is supported in two dimensions")
    if a["mode"] == "nearest":
        return aten.upsample_nearest2d_backward(i[0], list(i[0].shape[2:]), out[0], None, None)
    return aten.upsample_bilinear2d_backward(i[0], list(i[0].shape[2:]), out[0], corners, None, None)


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
    return grad.scatter_(1, at, (-scale * keep).unsqueeze(1).to(grad.dtype))


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
    for d in reversed(range(rank)):
        pads += [a["pads"][d], a["pads"][d + rank]]
    return F.pad(i[0], pads, a.get("mode", "constant"), a.get("value", 0))


def _gather(i, a, out):
    return i[0].index_select(a["axis"], i[1].flatten()).reshape(out[0])


def _scatter_add(i, a, out):
    axis, index = a["axis"], i[1].flatten()
    rows = i[0].reshape(out[0][:axis] + [index.numel()] + out[0][axis + 1:])
    return i[0].new_zeros(out[0]).index_add_(axis, index, rows)


def _clip(a):
    return max(a["min"], -float("inf")), min(a["max"], float("inf"))


def _clip_grad(i, a, out):
    least, most = _clip(a)
    return torch.where((i[1] > least) & (i[1] < most), i[0], torch.zeros_like(i[0]))


def _attention(i, a, out):
    scale = a["scale"] or i[0].shape[-1] ** -0.5
    scores = torch.matmul(i[0], i[1].transpose(-1, -2)) * scale
    if a.get("causal"):
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -float("inf"))
    lse = torch.logsumexp(scores, -1, True)
    return [torch.matmul((scores - lse).exp(), i[2]), lse]


def _attention_grad(i, a, out):
    dy, q, k, v, y, lse = i[:6]
    scale = a["scale"] or q.shape[-1] ** -0.5
    scores = torch.matmul(q, k.transpose(-1, -2)) * scale
    if a.get("causal"):
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -float("inf"))
    p = (scores - lse).exp()
    ds = p * (torch.matmul(dy, v.transpose(-1, -2)) - (dy * y).sum(-1, True)) * scale
    return [torch.matmul(ds, k), torch.matmul(ds.transpose(-1, -2), q), torch.matmul(p.transpose(-1, -2), dy)]


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
    "softplus": lambda i, a, out: F.softplus(i[0]), "clip": lambda i, a, out: i[0].clamp(*_clip(a)),
    "silu": lambda i, a, out: F.silu(i[0]), "hard_swish": lambda i, a, out: F.hardswish(i[0]),
    "relu_grad": lambda i, a, out: aten.threshold_backward(i[0], i[1], 0),
    "leaky_relu_grad": lambda i, a, out: aten.leaky_relu_backward(i[0], i[1], a["alpha"], False),
    "elu_grad": lambda i, a, out: aten.elu_backward(i[0], a["alpha"], 1, 1, True, i[1]),
    "sigmoid_grad": lambda i, a, out: aten.sigmoid_backward(i[0], i[1]),
    "tanh_grad": lambda i, a, out: aten.tanh_backward(i[0], i[1]),
    "silu_grad": lambda i, a, out: aten.silu_backward(i[0], i[1]),
    "gelu_grad": lambda i, a, out: aten.gelu_backward(i[0], i[1], approximate=a["approximate"]),
    "hard_swish_grad": lambda i, a, out: aten.hardswish_backward(i[0], i[1]),
    "hard_sigmoid_grad": lambda i, a, out: aten.hardsigmoid_backward(i[0], i[1]),
    "softplus_grad": lambda i, a, out: aten.softplus_backward(i[0], i[1], 1, 20), "clip_grad": _clip_grad,
    "dropout_grad": lambda i, a, out: i[0] * i[1] / (1 - a["ratio"]),
    "reduce_sum": _reduce(torch.sum), "reduce_max": _reduce(torch.amax), "reduce_min": _reduce(torch.amin),
    "reduce_mean": lambda i, a, out: torch.sum(i[0], a["axes"], bool(a.get("keepdims", 1))) / a["divisor"],
    "arg_max": lambda i, a, out: i[0].argmax(a["axis"], bool(a["keepdims"])),
    "cumsum": lambda i, a, out: i[0].cumsum(a["axis"]),
    "softmax": lambda i, a, out: i[0].softmax(a["axis"]), "log_softmax": lambda i, a, out: i[0].log_softmax(a["axis"]),
    "softmax_grad": lambda i, a, out: aten._softmax_backward_data(i[0], i[1], a["axis"], i[1].dtype),
    "log_softmax_grad": lambda i, a, out: aten._log_softmax_backward_data(i[0], i[1], a["axis"], i[1].dtype),
    "nll_loss": _nll, "nll_loss_grad": _nll_grad, "layer_norm": _layer_norm, "layer_norm_grad": _layer_norm_grad,
    "batch_norm": _batch_norm, "batch_norm_grad": _batch_norm_grad, "bn_apply": _bn_apply, "stat_update": _stat_update,
    "batch_norm_inference": lambda i, a, out: F.batch_norm(i[0], i[3], i[4], i[1], i[2], False, 0.0, a["epsilon"]),
    "max_pool": lambda i, a, out: F.max_pool2d(i[0], *_pool(a)), "max_pool_grad": _max_pool_grad,
    "avg_pool": _avg_pool, "avg_pool_grad": _avg_pool_grad,
    "global_avg_pool": lambda i, a, out: i[0].mean(tuple(range(2, i[0].dim())), True),
    "global_avg_pool_grad": lambda i, a, out: (i[0] / (out[0][2] * out[0][3])).expand(out[0]).contiguous(),
    "resize": _resize, "resize_grad": _resize_grad, "slice_grad": _slice_grad, "pad": _pad,
    "concat": lambda i, a, out: torch.cat(i, a["axis"]), "tile": lambda i, a, out: i[0].repeat(a["repeats"]),
    "gather": _gather, "scatter_add": _scatter_add, "attention": _attention, "attention_grad": _attention_grad,
    "sgd": lambda i, a, out: i[0] - a["lr"] * (i[1] + a["weight_decay"] * i[0]), "assign": lambda i, a, out: i[1],
    # views that the plan had to make dense
    "reshape": lambda i, a, out: i[0].reshape(out[0]), "transpose": lambda i, a, out: i[0].permute(a["perm"]),
    "squeeze": lambda i, a, out: i[0].reshape(out[0]), "unsqueeze": lambda i, a, out: i[0].reshape(out[0]),
    "expand": lambda i, a, out: i[0].expand(out[0]), "slice": lambda i, a, out: i[0][_at(a, out[0])],
}
for _name, _torch_name in (
        ("add", "add"), ("sub", "sub"), ("mul", "mul"), ("div", "div"), ("pow", "pow"), ("max", "maximum"),
        ("min", "minimum"), ("equal", "eq"), ("not_equal", "ne"), ("greater", "gt"), ("greater_or_equal", "ge"),
        ("less", "lt"), ("less_or_equal", "le"), ("logical_and", "logical_and"), ("logical_or", "logical_or"),
        ("neg", "neg"), ("abs", "abs"), ("sign", "sgn"), ("floor", "floor"), ("ceil", "ceil"), ("round", "round"),
        ("logical_not", "logical_not"), ("exp", "exp"), ("log", "log"), ("sqrt", "sqrt"), ("rsqrt", "rsqrt"),
        ("reciprocal", "reciprocal"), ("erf", "erf"), ("sin", "sin"), ("cos", "cos"), ("tanh", "tanh"),
        ("sigmoid", "sigmoid"), ("relu", "relu")):
    KERNELS[_name] = lambda i, a, out, f=getattr(torch, _torch_name): f(*i)
IN_PLACE = {"relu": torch.relu_, "sigmoid": torch.sigmoid_, "hard_swish": lambda x: F.hardswish(x, True),
            "silu": lambda x: F.silu(x, True)}


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

class _Run:
    def __init__(self, plan, captured, given, seed):
        self.plan, self.captured, self.seed = plan, captured, seed
        self.program = plan.program
        self.instances = plan.document["instances"]
        self.tensors = {}  # instance -> tensor
        self.of_storage = {}  # storage -> instances alive in it
        self.host = _Host()
        self.given = given  # value -> tensor
        self.final = {}  # value -> tensor, of outputs
        self.device = next(iter(given.values())).device if given else torch.device("cpu")
        for index, instance in enumerate(self.instances):
            if instance["made_by"] is None and "view" not in instance:
                self.put(index, given[instance["value"]])

    def put(self, index, tensor):
        self.tensors[index] = tensor
        self.of_storage.setdefault(self.instances[index]["storage"], set()).add(index)

    def get(self, index):
        view = self.instances[index].get("view")
        if view is None:
            self.host.arrived(index, self.tensors[index])
            return self.tensors[index]
        base = self.get(view["of"])
        shape = self.instances[index].get("shape", self.plan.shape[self.instances[index]["value"]])
        return base.as_strided(shape, view["strides"], base.storage_offset() + view["offset"])

    def drop_storage(self, storage, but=None):
        for index in self.of_storage.pop(storage, set()):
            if index != but:
                self.tensors.pop(index, None)

    def random(self, op):
        generator = torch.Generator(self.device)
        return generator.manual_seed(zlib.crc32(("%d %s %s" % (self.seed, op["attrs"].get("seed"), op["name"])).encode()))

    def evaluate(self, op, operands, shapes):
        kind, attrs = op["op"], op.get("attrs", {})
        if kind == "dropout":
            keep = torch.rand(operands[0].shape, generator=self.random(op), device=operands[0].device) >= attrs["ratio"]
            return [operands[0] * keep / (1 - attrs["ratio"]), keep]
        if kind == "fill":
            return torch.full(shapes[0], attrs["value"], dtype=DTYPES[attrs["to"]], device=self.device)
        if kind == "iota":
            return (torch.arange(attrs["size"], device=self.device) * attrs["delta"] + attrs["start"]).to(DTYPES[attrs["to"]])
        if kind == "opaque":
            return self.call(op, operands)
        if kind not in KERNELS:
            raise PlanError("the operator '%s' (%s) is not known here" % (op["name"], attrs.get("target", kind)))
        return KERNELS[kind](operands, attrs, shapes)

    def call(self, op, operands):
        """A call that magisd does not know, as it was captured, on the operands of the plan."""
        node = self.captured.nodes.get(op["name"])
        if node is None or magis_capture._writes(node.target):
            raise PlanError("the call '%s' (%s) cannot be repeated" % (op["name"], op["attrs"].get("target")))
        rest = iter(operands)
        args = torch.fx.node.map_arg(node.args, lambda unused: next(rest, None))
        kwargs = torch.fx.node.map_arg(node.kwargs, lambda unused: next(rest, None))
        return node.target(*args, **kwargs)

    def compute(self, step):
        op = self.plan.ops[step["op"]]
        operands = [self.get(index) for index in step["in"]]
        shapes = [self.plan.shape[name] for name in op["outputs"]]
        outs = [index for index in step["out"] if "view" not in self.instances[index]]
        storage = self.instances[outs[0]]["storage"] if outs else None
        old = [self.tensors[i] for i in self.of_storage.get(storage, ()) if i in self.tensors]
        if old and op["op"] in IN_PLACE and len(operands) == 1 and operands[0].is_contiguous():
            results = IN_PLACE[op["op"]](operands[0]).view(shapes[0])
        else:
            results = self.evaluate(op, operands, shapes)
        results = list(results) if isinstance(results, (list, tuple)) else [results]
        named = dict(zip(op["outputs"], results))
        for index in outs:
            value = self.instances[index]["value"]
            result = named[value].contiguous()
            if old and index == outs[0]:
                resident = self.plan.updates.get(value)
                if resident is not None:
                    result = self.given[resident].copy_(result)
                self.drop_storage(storage)
            self.put(index, result)

    def run(self):
        for step in self.plan.document["steps"]:
            kind = step["do"]
            if kind == "compute":
                self.compute(step)
            elif kind == "free":
                self.drop_storage(self.instances[step["of"]]["storage"])
            elif kind == "store":
                self.host.store(self.instances[step["of"]]["value"], self.get(step["of"]))
            elif kind == "load":
                index = step["out"][0]
                self.put(index, self.host.load(self.instances[index]["value"], index, self.device))
        alive = {}
        for index, instance in enumerate(self.instances):
            root = instance["view"]["of"] if "view" in instance else index
            if root in self.tensors:
                alive[instance["value"]] = index
        return [self.value(name, alive) for name in self.program["outputs"]]

    def value(self, name, alive):
        """The last tensor of a value; views that no operator reads have no instance."""
        if name in alive:
            return self.get(alive[name])
        op = self.plan.maker[name]
        operands = [self.value(operand, alive) for operand in op["inputs"]]
        results = self.evaluate(op, operands, [self.plan.shape[output] for output in op["outputs"]])
        return results[op["outputs"].index(name)] if isinstance(results, list) else results


class Plan:
    """A plan as magisd gives it; calling it with a step gives the step that follows the plan."""

    def __init__(self, document):
        if document.get("format") != "magis-plan/1" or "program" not in document:
            raise PlanError("this is no plan of a captured step: get it by magisd optimize -o, or from "
                            "/jobs/{id}/plans/{plan}")
        if document["regions"]:
            raise PlanError("this plan splits operators into parts; ask for one with techniques.fission = false "
                            "(--no-fission)")
        self.program = program = document["program"]["graph"]
        self.document = document
        self.source = program["source"]
        self.ops = {op["name"]: op for op in program["ops"]}
        self.maker = {output: op for op in program["ops"] for output in op["outputs"]}
        self.shape = document["program"]["shapes"]
        self.kind = {value["name"]: value["kind"] for value in program["values"] if "kind" in value}
        self.updates = {update["value"]: update["weight"] for update in program["updates"]}

    def __call__(self, step):
        state = {}

        def planned(*args):
            if "captured" not in state:
                state["captured"] = self._capture(step, args)
            return self._run(state["captured"], args)
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
        count = len(outputs) - len(captured.gradients)
        for place, gradient in zip(captured.gradients, outputs[count:]):
            tensor = captured.state.places[place][3]()
            gradient = gradient.to(tensor.dtype).reshape(tensor.shape)
            if tensor.grad is None or captured.zeroes_gradients:
                tensor.grad = gradient.clone()
            else:
                tensor.grad += gradient
        spec, leaves = captured.result
        results = iter(outputs[:count])
        return pytree.tree_unflatten([next(results) if kind == "tensor" else leaf for kind, leaf in leaves], spec)


def load(path):
    """The plan in a file, or an open document (a dict)."""
    if isinstance(path, dict):
        return Plan(path)
    with open(path) as file:
        return Plan(json.load(file))
