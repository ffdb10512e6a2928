# Operators of magisd by public PyTorch calls (torch 1.13 and later), one function op_NAME for each line of
# core/graph/ops.def that can be exported. Whoever exports a plan gets a copy of those functions that it needs, and of
# the functions that these call; nothing else of this file.
#
# Operands stand first, in the table's order; every attribute follows by its name. Dense operands give dense results
# that share no memory with them. op_NAME_ computes in place on its first operand.

# ---- what a plan does beside computing ----


def device_of(inputs, weights):
    for x in list(inputs.values()) + list(weights.values()):
        return x.device
    return torch.device("cpu")


def fits(x, name, shape, dtype):
    if tuple(x.shape) != shape or x.dtype != DTYPE[dtype]:
        raise ValueError("%r must be %s of shape %s" % (name, DTYPE[dtype], shape))
    return x


def taken(tensors, name, shape, dtype, device):
    """An input; taken out of the caller's dict, so that its memory ends where the plan says."""
    return fits(tensors.pop(name), name, shape, dtype).detach().to(device).contiguous()


def held(tensors, name, shape, dtype):
    """A weight, state or constant: updated where it lies."""
    x = fits(tensors[name], name, shape, dtype)
    if not x.is_contiguous():
        raise ValueError("%r must be contiguous" % name)
    return x.detach()


def dense(out):
    return tuple(x.contiguous() for x in out) if isinstance(out, tuple) else out.contiguous()


def copied(x):
    return x.clone(memory_format=torch.contiguous_format)


def side_stream(device, direction):
    key = (device, direction)
    if key not in STREAMS:
        STREAMS[key] = torch.cuda.Stream(device)
    return STREAMS[key]


def store(x, into=None):
    """Begins copying x to the host: the copy, and what to wait for before x may end."""
    if x.device.type != "cuda":
        return ((copied(x) if into is None else into.copy_(x)), None), None
    host = torch.empty(x.shape, dtype=x.dtype, pin_memory=True) if into is None else into
    stream = side_stream(x.device, "out")
    stream.wait_stream(torch.cuda.current_stream(x.device))
    with torch.cuda.stream(stream):
        host.copy_(x, non_blocking=True)
        done = stream.record_event()
    return (host, done), done


def load(parked, device):
    """Begins copying back: the tensor, and what to wait for before it is read."""
    host, stored = parked
    if device.type != "cuda":
        return copied(host), None
    x = torch.empty(host.shape, dtype=host.dtype, device=device)
    stream = side_stream(x.device, "in")
    stream.wait_stream(torch.cuda.current_stream(x.device))
    if stored is not None:
        stream.wait_event(stored)
    with torch.cuda.stream(stream):
        x.copy_(host, non_blocking=True)
        return x, stream.record_event()


def wait(event):
    if event is not None:
        event.wait()


def finish(device):
    """What is at home on the host is there when step() ends."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def accumulate(total, part, how, *, first):
    if first:
        return total.copy_(part)
    if how == "sum":
        return total.add_(part)
    if how == "prod":
        return total.mul_(part)
    return total.copy_(torch.maximum(total, part) if how == "max" else torch.minimum(total, part))


# ---- what several operators need ----


def wide(x):
    """Statistics of narrow numbers are kept in single precision."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def pull(function, dy, *operands):
    """Gradients of function's result to its operands, for the incoming gradient dy."""
    with torch.enable_grad():
        leaves = [x.detach().requires_grad_() for x in operands]
        grads = torch.autograd.grad(function(*leaves), leaves, dy)
    return grads[0].contiguous() if len(grads) == 1 else tuple(g.contiguous() for g in grads)


def same_pads(pads):
    half = len(pads) // 2
    return pads[:half] == pads[half:]


def padded(x, pads, value=0.0):
    """x with pads (all begins, then all ends) around its last dimensions."""
    if not any(pads):
        return x
    half = len(pads) // 2
    flat = []
    for d in reversed(range(half)):
        flat += [pads[d], pads[half + d]]
    return F.pad(x, flat, value=value)


def by_rank(rank, functions):
    return functions[rank - 3]


def wrapped(index, size):
    index = index.long()
    return torch.where(index < 0, index + size, index)


def channels(p, x):
    """A parameter for each channel, shaped to broadcast over x."""
    return p.reshape((1, -1) + (1,) * (x.dim() - 2))


# ---- random numbers: a generator for each part of each operator, so that a recomputation repeats them ----


def mixed(*numbers):
    state = 0x9E3779B97F4A7C15
    for n in numbers:
        state = ((state ^ (int(n) & 0xFFFFFFFFFFFFFFFF)) * 0xBF58476D1CE4E5B9 + 0x94D049BB133111EB) % (1 << 64)
        state ^= state >> 31
    return state >> 1


def drawn(kind, shape, *, dtype, device, draw):
    """draw: numbers that name the draw, then the shape and origin of a whole draw that this is a box of, or None."""
    names, whole, origin = draw
    generator = torch.Generator(device=device).manual_seed(mixed(*names))
    out = kind(whole or shape, generator=generator, dtype=dtype, device=device)
    for d, lo in enumerate(origin or ()):
        out = out.narrow(d, lo, shape[d])
    return out.contiguous()


def meant(argument, operands, device):
    """An argument of a captured call: operands by number, dtypes by name."""
    if isinstance(argument, list):
        return [meant(part, operands, device) for part in argument]
    if not isinstance(argument, dict):
        return argument
    if "in" in argument:
        return operands[argument["in"]]
    return DTYPE[argument["dtype"]] if "dtype" in argument else float(argument["float"])


def memory(x):
    return (x.untyped_storage() if hasattr(x, "untyped_storage") else x.storage()).data_ptr()


def call_aten(function, arguments, operands, count, device, draw=None):
    """A call as it was captured: its results, and what it wrote to, dense, none in the memory of an operand."""
    listed, named, written = json.loads(arguments)
    listed = meant(listed, operands, device)
    for at in written:
        listed[at] = copied(listed[at])
    named = {key: device if key == "device" else meant(part, operands, device) for key, part in named.items()}
    with torch.random.fork_rng(enabled=draw is not None):
        if draw is not None:
            torch.manual_seed(mixed(*draw[0]))
        results = function(*listed, **named)
    results = tuple(results) if isinstance(results, (list, tuple)) else (results,)
    results = tuple(torch.empty((), device=device) if x is None else x for x in results)  # not asked for
    results = results[:count - len(written)] + tuple(listed[at] for at in written)
    given = {memory(x) for x in operands}
    results = tuple(copied(x) if memory(x) in given or not x.is_contiguous() else x for x in results)
    return results if count > 1 else results[0]


def op_dropout(x, *, ratio, seed, draw):
    real = torch.float64 if x.dtype == torch.float64 else torch.float32
    mask = drawn(torch.rand, tuple(x.shape), dtype=real, device=x.device, draw=draw) >= ratio
    return x * mask / (1 - ratio), mask


def op_dropout_grad(dy, mask, *, ratio):
    return dy * mask / (1 - ratio)


def op_random_normal(*, shape, to, mean, scale, seed, draw, device):
    return drawn(torch.randn, shape, dtype=DTYPE[to], device=device, draw=draw) * scale + mean


def op_random_uniform(*, shape, to, low, high, seed, draw, device):
    return drawn(torch.rand, shape, dtype=DTYPE[to], device=device, draw=draw) * (high - low) + low


def op_bernoulli(x, *, to, seed, draw):
    real = drawn(torch.rand, tuple(x.shape), dtype=torch.float32, device=x.device, draw=draw)
    return (real < x).to(DTYPE[to] if to else x.dtype)


# ---- contractions ----


def op_matmul(a, b, c=None, *, trans_a, trans_b, alpha):
    a = a.transpose(-1, -2) if trans_a else a
    b = b.transpose(-1, -2) if trans_b else b
    if c is not None and a.dim() == 2 and b.dim() == 2:
        return torch.addmm(c, a, b, alpha=alpha)
    y = torch.matmul(a, b)
    y = y.mul_(alpha) if alpha != 1 else y
    return (y if c is None else y.add_(c)).contiguous()


def op_gemm(a, b, c=None, *, alpha, beta, trans_a, trans_b):
    a = a.transpose(-1, -2) if trans_a else a
    b = b.transpose(-1, -2) if trans_b else b
    if c is None:
        return torch.matmul(a, b) * alpha
    return torch.addmm(c, a, b, alpha=alpha, beta=beta)


def added(y, operands):
    """Operands of one dimension are added channel by channel, others element by element."""
    for c in operands:
        y = y.add_(channels(c, y) if c.dim() == 1 else c)
    return y.contiguous()


def op_conv(x, w, *more, group, strides, pads, dilations):
    convolve = by_rank(x.dim(), (F.conv1d, F.conv2d, F.conv3d))
    bias = more[0] if more and more[0].dim() == 1 else None
    padding = pads[:len(pads) // 2] if same_pads(pads) else 0
    x = x if same_pads(pads) else padded(x, pads)
    y = convolve(x, w, bias, stride=strides, padding=padding, dilation=dilations, groups=group)
    return added(y, more[1:] if bias is not None else more)


def unpadded_transpose(dy, w, spatial, group, strides, pads, dilations):
    """The transposed convolution, cut or filled up to the sizes `spatial`."""
    convolve = by_rank(dy.dim(), (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d))
    half = len(strides)
    kernel = w.shape[2:]
    extra = [spatial[d] + 2 * pads[d] - (dy.shape[2 + d] - 1) * strides[d] - dilations[d] * (kernel[d] - 1) - 1
             for d in range(half)]
    if same_pads(pads) and all(0 <= extra[d] < max(strides[d], dilations[d]) for d in range(half)):
        return convolve(dy, w, stride=strides, padding=pads[:half], output_padding=extra, groups=group,
                        dilation=dilations)
    y = convolve(dy, w, stride=strides, groups=group, dilation=dilations)
    fill = [0] * half + [max(0, spatial[d] + pads[d] - y.shape[2 + d]) for d in range(half)]
    y = padded(y, fill)
    for d in range(half):
        y = y.narrow(2 + d, pads[d], spatial[d])
    return y.contiguous()


def op_conv_transpose(x, w, *more, group, strides, pads, dilations, output_padding):
    half = len(strides)
    spatial = [(x.shape[2 + d] - 1) * strides[d] + dilations[d] * (w.shape[2 + d] - 1) + 1 + output_padding[d]
               - pads[d] - pads[half + d] for d in range(half)]
    return added(unpadded_transpose(x, w, spatial, group, strides, pads, dilations), more)


def op_conv_grad_input(dy, w, *more, spatial, group, strides, pads, dilations):
    return added(unpadded_transpose(dy, w, spatial, group, strides, pads, dilations), more)


def op_conv_grad_weight(dy, x, *, kernel_shape, group, strides, pads, dilations):
    weight_of = by_rank(x.dim(), (torch.nn.grad.conv1d_weight, torch.nn.grad.conv2d_weight,
                                  torch.nn.grad.conv3d_weight))
    size = (dy.shape[1], x.shape[1] // group) + tuple(kernel_shape)
    padding = pads[:len(pads) // 2] if same_pads(pads) else (0,) * len(strides)
    x = x if same_pads(pads) else padded(x, pads)
    return weight_of(x, size, dy, stride=strides, padding=padding, dilation=dilations, groups=group).contiguous()


def op_einsum(*operands, equation):
    return torch.einsum(equation, *operands).contiguous()


def op_det(x):
    return torch.linalg.det(x)


# ---- elementwise, two operands ----


def op_add(a, b):
    return a + b


def op_add_(a, b):
    return a.add_(b)


def op_sub(a, b):
    return a - b


def op_sub_(a, b):
    return a.sub_(b)


def op_mul(a, b):
    return a * b


def op_mul_(a, b):
    return a.mul_(b)


def op_div(a, b):
    return torch.div(a, b, rounding_mode=None if a.is_floating_point() else "trunc")


def op_pow(a, b):
    return torch.pow(a, b)


def op_max(a, b):
    return torch.maximum(a, b)


def op_min(a, b):
    return torch.minimum(a, b)


def op_mod(a, b, *, fmod):
    return torch.fmod(a, b) if fmod else torch.remainder(a, b)


def op_floor_div(a, b):
    return torch.div(a, b, rounding_mode="floor")


def op_atan2(a, b):
    return torch.atan2(a, b)


def op_prelu(x, slope):
    return torch.where(x > 0, x, x * slope)


def op_prelu_grad(dy, x, slope):
    return torch.where(x > 0, dy, dy * slope)


def op_equal(a, b):
    return a == b


def op_not_equal(a, b):
    return a != b


def op_greater(a, b):
    return a > b


def op_greater_or_equal(a, b):
    return a >= b


def op_less(a, b):
    return a < b


def op_less_or_equal(a, b):
    return a <= b


def op_logical_and(a, b):
    return torch.logical_and(a, b)


def op_logical_or(a, b):
    return torch.logical_or(a, b)


def op_logical_xor(a, b):
    return torch.logical_xor(a, b)


def op_bitwise_and(a, b):
    return torch.bitwise_and(a, b)


def op_bitwise_or(a, b):
    return torch.bitwise_or(a, b)


def op_bitwise_xor(a, b):
    return torch.bitwise_xor(a, b)


def op_bitwise_not(x):
    return torch.bitwise_not(x)


def op_where(condition, a, b):
    return torch.where(condition, a, b)


def op_squared_error(y, t):
    return (y - t).square_()


def op_squared_error_grad(dloss, y, t):
    return (y - t).mul_(dloss).mul_(2)


# ---- elementwise, one operand ----


def op_affine(x, *, alpha, beta):
    return x * alpha + beta if beta else x * alpha


def op_affine_(x, *, alpha, beta):
    return x.mul_(alpha).add_(beta) if beta else x.mul_(alpha)


def op_neg(x):
    return -x


def op_abs(x):
    return torch.abs(x)


def op_sign(x):
    return torch.sign(x)


def op_floor(x):
    return torch.floor(x)


def op_ceil(x):
    return torch.ceil(x)


def op_round(x):
    return torch.round(x)


def op_trunc(x):
    return torch.trunc(x)


def op_logical_not(x):
    return torch.logical_not(x)


def op_is_nan(x):
    return torch.isnan(x)


def op_is_inf(x, *, detect_negative, detect_positive):
    return torch.isinf(x) & ((x > 0) & bool(detect_positive) | (x < 0) & bool(detect_negative))


def op_exp(x):
    return torch.exp(x)


def op_log(x):
    return torch.log(x)


def op_sqrt(x):
    return torch.sqrt(x)


def op_rsqrt(x):
    return torch.rsqrt(x)


def op_reciprocal(x):
    return torch.reciprocal(x)


def op_erf(x):
    return torch.erf(x)


def op_sin(x):
    return torch.sin(x)


def op_cos(x):
    return torch.cos(x)


def op_tan(x):
    return torch.tan(x)


def op_asin(x):
    return torch.asin(x)


def op_acos(x):
    return torch.acos(x)


def op_atan(x):
    return torch.atan(x)


def op_sinh(x):
    return torch.sinh(x)


def op_cosh(x):
    return torch.cosh(x)


def op_asinh(x):
    return torch.asinh(x)


def op_acosh(x):
    return torch.acosh(x)


def op_atanh(x):
    return torch.atanh(x)


def op_expm1(x):
    return torch.expm1(x)


def op_log1p(x):
    return torch.log1p(x)


def op_log2(x):
    return torch.log2(x)


def op_log10(x):
    return torch.log10(x)


def op_tanh(x):
    return torch.tanh(x)


def op_tanh_(x):
    return x.tanh_()


def op_sigmoid(x):
    return torch.sigmoid(x)


def op_sigmoid_(x):
    return x.sigmoid_()


def op_relu(x):
    return torch.relu(x)


def op_relu_(x):
    return x.relu_()


def op_leaky_relu(x, *, alpha):
    return torch.where(x > 0, x, x * alpha)


def op_elu(x, *, alpha):
    return F.elu(x, alpha)


def op_silu(x):
    return F.silu(x)


def op_gelu(x, *, approximate):
    return F.gelu(x, approximate=approximate)


def op_hard_swish(x):
    return (x + 3).clamp_(0, 6).mul_(x).div_(6)


def op_hard_sigmoid(x, *, alpha, beta):
    return (x * alpha + beta).clamp_(0, 1)


def op_softplus(x):
    return torch.where(x > 30, x, torch.log1p(torch.exp(x.clamp(max=30))))


def op_softsign(x):
    return F.softsign(x)


def op_selu(x, *, alpha, gamma):
    return gamma * torch.where(x > 0, x, alpha * torch.expm1(x))


def op_celu(x, *, alpha):
    return torch.where(x > 0, x, alpha * torch.expm1(x / alpha))


def op_mish(x):
    return x * torch.tanh(op_softplus(x))


def op_thresholded_relu(x, *, alpha):
    return torch.where(x > alpha, x, torch.zeros_like(x))


def op_shrink(x, *, bias, lambd):
    zero = torch.zeros_like(x)
    return torch.where(x > lambd, x - bias, torch.where(x < -lambd, x + bias, zero))


def op_clip(x, *, min, max):
    lo, hi = limits_between(x, min, max)
    return torch.clamp(x, lo, hi)


def held_as(value, dtype):
    """As that type holds it: what is beyond its range, or the largest number of all, stands for infinity in a plan."""
    if not dtype.is_floating_point:
        return value
    if abs(value) <= torch.finfo(dtype).max and abs(value) < torch.finfo(torch.float64).max:
        return value
    return float("inf") if value > 0 else -float("inf")


def limits_between(x, lo, hi):
    """The limits as the type of x can hold them: beyond its range there is none."""
    if x.is_floating_point():
        return held_as(lo, x.dtype), held_as(hi, x.dtype)
    info = torch.iinfo(x.dtype)
    return max(lo, info.min), min(hi, info.max)


def op_cast(x, *, to):
    return x.to(DTYPE[to], copy=True)


def op_copy(x):
    return x.clone(memory_format=torch.contiguous_format)


# ---- gradients of elementwise operators ----


def op_relu_grad(dy, y):
    return dy.masked_fill(y <= 0, 0)


def op_relu_grad_(dy, y):
    return dy.masked_fill_(y <= 0, 0)


def op_leaky_relu_grad(dy, y, *, alpha):
    return torch.where(y > 0, dy, dy * alpha)


def op_elu_grad(dy, y, *, alpha):
    return torch.where(y > 0, dy, dy * (y + alpha))


def op_sigmoid_grad(dy, y):
    return dy * y * (1 - y)


def op_tanh_grad(dy, y):
    return dy * (1 - y * y)


def op_erf_grad(dy, x):
    return torch.exp(-x * x).mul_(dy).mul_(2 / math.sqrt(math.pi))


def op_silu_grad(dy, x):
    s = torch.sigmoid(x)
    return dy * s * (1 + x * (1 - s))


def op_gelu_grad(dy, x, *, approximate):
    if approximate == "tanh":
        c = math.sqrt(2 / math.pi)
        t = torch.tanh(c * (x + 0.044715 * x * x * x))
        return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x))
    density = torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return dy * (0.5 * (1 + torch.erf(x * math.sqrt(0.5))) + x * density)


def op_hard_swish_grad(dy, x):
    slope = torch.where(x >= 3, torch.ones_like(x), (2 * x + 3) / 6)
    return (dy * slope).masked_fill_(x <= -3, 0)


def op_hard_sigmoid_grad(dy, x, *, alpha, beta):
    t = x * alpha + beta
    return (dy * alpha).masked_fill_((t <= 0) | (t >= 1), 0)


def op_softplus_grad(dy, x):
    return dy * torch.sigmoid(x)


def op_softsign_grad(dy, x):
    return dy / (1 + torch.abs(x)).square_()


def op_selu_grad(dy, y, *, alpha, gamma):
    return dy * torch.where(y > 0, torch.full_like(y, gamma), y + alpha * gamma)


def op_celu_grad(dy, y, *, alpha):
    return torch.where(y > 0, dy, dy * (y / alpha + 1))


def op_mish_grad(dy, x):
    t = torch.tanh(op_softplus(x))
    return dy * (t + x * torch.sigmoid(x) * (1 - t * t))


def op_thresholded_relu_grad(dy, x, *, alpha):
    return dy.masked_fill(x <= alpha, 0)


def op_shrink_grad(dy, x, *, lambd):
    return dy.masked_fill(torch.abs(x) <= lambd, 0)


def op_clip_grad(dy, x, *, min, max):
    lo, hi = limits_between(x, min, max)
    return dy.masked_fill((x <= lo) | (x >= hi), 0)


# ---- reductions ----


def op_reduce_sum(x, *, axes, keepdims):
    return x.sum(axes, keepdim=bool(keepdims), dtype=x.dtype) if axes else x.clone()


def op_reduce_mean(x, *, axes, keepdims, divisor):
    return op_reduce_sum(x, axes=axes, keepdims=keepdims) / divisor


def op_reduce_max(x, *, axes, keepdims):
    return x.amax(axes, keepdim=bool(keepdims)) if axes else x.clone()


def op_reduce_min(x, *, axes, keepdims):
    return x.amin(axes, keepdim=bool(keepdims)) if axes else x.clone()


def op_reduce_prod(x, *, axes, keepdims):
    for d in sorted(axes, reverse=True):
        x = x.prod(d, keepdim=bool(keepdims), dtype=x.dtype)
    return x if axes else x.clone()


def op_reduce_l1(x, *, axes, keepdims):
    return op_reduce_sum(torch.abs(x), axes=axes, keepdims=keepdims)


def op_reduce_l2(x, *, axes, keepdims):
    return torch.sqrt(op_reduce_sum(x * x, axes=axes, keepdims=keepdims))


def op_reduce_sum_square(x, *, axes, keepdims):
    return op_reduce_sum(x * x, axes=axes, keepdims=keepdims)


def op_reduce_log_sum(x, *, axes, keepdims):
    return torch.log(op_reduce_sum(x, axes=axes, keepdims=keepdims))


def op_reduce_log_sum_exp(x, *, axes, keepdims):
    return torch.logsumexp(x, axes, keepdim=bool(keepdims)) if axes else x.clone()


def place_of(x, best, axis, keepdims, last):
    size = x.shape[axis]
    place = torch.arange(size, device=x.device).reshape((-1,) + (1,) * (x.dim() - 1 - axis))
    where = torch.where(x == best, place, torch.full_like(place, -1 if last else size))
    return where.amax(axis, keepdim=bool(keepdims)) if last else where.amin(axis, keepdim=bool(keepdims))


def op_arg_max(x, *, axis, keepdims, select_last_index):
    return place_of(x, x.amax(axis, keepdim=True), axis, keepdims, select_last_index)


def op_arg_min(x, *, axis, keepdims, select_last_index):
    return place_of(x, x.amin(axis, keepdim=True), axis, keepdims, select_last_index)


def op_cumsum(x, *, axis, exclusive, reverse):
    y = x.flip(axis) if reverse else x
    y = torch.cumsum(y, axis, dtype=x.dtype)
    y = y.flip(axis) if reverse else y
    return y - x if exclusive else y


def op_softmax(x, *, axis):
    return torch.softmax(x, axis)


def op_log_softmax(x, *, axis):
    return torch.log_softmax(x, axis)


def op_hard_max(x, *, axis):
    first = place_of(x, x.amax(axis, keepdim=True), axis, True, False)
    return torch.zeros_like(x).scatter_(axis, first, 1)


def op_lp_norm(x, *, axis, p):
    return x / torch.linalg.vector_norm(x, p, axis, keepdim=True)


def op_softmax_grad(dy, y, *, axis):
    t = dy * y
    return t - y * t.sum(axis, keepdim=True)


def op_log_softmax_grad(dy, y, *, axis):
    return dy - torch.exp(y) * dy.sum(axis, keepdim=True)


def loss_divisor(target, divisor, ignore_index):
    return divisor if divisor else (target != ignore_index).sum()


def op_cross_entropy(x, target, *, divisor, ignore_index):
    loss = F.cross_entropy(x, target.long(), ignore_index=ignore_index, reduction="sum")
    return loss / loss_divisor(target, divisor, ignore_index)


def op_nll_loss(x, target, *, divisor, ignore_index):
    loss = F.nll_loss(x, target.long(), ignore_index=ignore_index, reduction="sum")
    return loss / loss_divisor(target, divisor, ignore_index)


def op_nll_loss_grad(dloss, x, target, *, divisor, ignore_index):
    ignored = (target == ignore_index).unsqueeze(1)
    scale = dloss / loss_divisor(target, divisor, ignore_index)
    index = target.long().unsqueeze(1).masked_fill(ignored, 0)
    hits = torch.zeros_like(x).scatter_(1, index, -1)
    return hits.masked_fill_(ignored, 0).mul_(scale)


def op_cross_entropy_grad(dloss, x, target, *, divisor, ignore_index):
    ignored = (target == ignore_index).unsqueeze(1)
    scale = dloss / loss_divisor(target, divisor, ignore_index)
    index = target.long().unsqueeze(1).masked_fill(ignored, 0)
    out = torch.softmax(x, 1)
    out.scatter_add_(1, index, torch.full_like(index, -1, dtype=x.dtype))
    return out.masked_fill_(ignored, 0).mul_(scale)


# ---- normalisation ----


def statistics(x, dims, epsilon):
    variance, mean = torch.var_mean(wide(x), dims, unbiased=False, keepdim=True)
    return mean, torch.rsqrt(variance + epsilon)


def rows_from(x, axis):
    return tuple(range(axis, x.dim()))


def norm_grad(dy, x, mean, rstd, scale, dims):
    """dx, and what dscale sums: dy times the normalised x."""
    xh = (wide(x) - mean) * rstd if mean is not None else wide(x) * rstd
    t = wide(dy) if scale is None else wide(dy) * scale
    dx = t - xh * (t * xh).mean(dims, keepdim=True)
    if mean is not None:
        dx = dx - t.mean(dims, keepdim=True)
    return dx.mul_(rstd).to(x.dtype).contiguous(), wide(dy) * xh


def summed(t, scale, dims):
    return (t.sum(dims) if dims else t).reshape(scale.shape).to(scale.dtype).contiguous()


def op_layer_norm(x, scale=None, shift=None, *, axis, epsilon):
    mean, rstd = statistics(x, rows_from(x, axis), epsilon)
    return F.layer_norm(x, x.shape[axis:], scale, shift, epsilon), mean, rstd


def op_layer_norm_grad(dy, x, mean, rstd, scale=None, *, axis):
    dx, product = norm_grad(dy, x, mean, rstd, scale, rows_from(x, axis))
    if scale is None:
        return dx
    outer = tuple(range(axis))
    return dx, summed(product, scale, outer), summed(wide(dy), scale, outer)


def op_rms_norm(x, scale=None, *, axis, epsilon):
    rstd = torch.rsqrt(wide(x).square().mean(rows_from(x, axis), keepdim=True) + epsilon)
    y = (wide(x) * rstd).to(x.dtype)
    return (y if scale is None else y * scale), rstd


def op_rms_norm_grad(dy, x, rstd, scale=None, *, axis):
    dx, product = norm_grad(dy, x, None, rstd, scale, rows_from(x, axis))
    return dx if scale is None else (dx, summed(product, scale, tuple(range(axis))))


def but_channels(x):
    return (0,) + tuple(range(2, x.dim()))


def op_batch_norm(x, scale=None, shift=None, *, epsilon):
    mean, rstd = statistics(x, but_channels(x), epsilon)
    more = () if scale is None else (scale, shift)
    return op_bn_apply(x, mean, rstd, *more), mean, rstd


def op_batch_norm_grad(dy, x, mean, rstd, scale=None):
    wide_scale = None if scale is None else channels(scale, x)
    dx, product = norm_grad(dy, x, mean, rstd, wide_scale, but_channels(x))
    if scale is None:
        return dx
    return dx, summed(product, scale, but_channels(x)), summed(wide(dy), scale, but_channels(x))


def op_bn_apply(x, mean, rstd, scale=None, shift=None):
    y = (wide(x) - mean) * rstd
    y = y if scale is None else torch.addcmul(channels(shift, x).to(y.dtype), y, channels(scale, x).to(y.dtype))
    return y.to(x.dtype)


def op_batch_norm_inference(x, scale, shift, mean, variance, *, epsilon):
    return F.batch_norm(x, mean, variance, scale, shift, False, 0.0, epsilon)


def op_stat_update(buffer, statistic, *, momentum, variance, epsilon, count):
    return op_stat_update_(buffer.clone(), statistic, momentum=momentum, variance=variance, epsilon=epsilon,
                           count=count)


def op_stat_update_(buffer, statistic, *, momentum, variance, epsilon, count):
    s = statistic.reshape(buffer.shape)
    s = (1 / (s * s) - epsilon) * count / (count - 1) if variance else s
    return buffer.mul_(1 - momentum).add_(s.to(buffer.dtype) * momentum)


def grouped(x, groups):
    return x.reshape((x.shape[0], groups, -1))


def op_group_norm(x, scale=None, shift=None, *, num_groups, epsilon):
    kept = (x.shape[0], num_groups) + (1,) * (x.dim() - 2)
    mean, rstd = statistics(grouped(x, num_groups), (2,), epsilon)
    y = F.group_norm(x, num_groups, scale, shift, epsilon).contiguous()
    return y, mean.reshape(kept), rstd.reshape(kept)


def op_group_norm_grad(dy, x, mean, rstd, scale=None, *, num_groups):
    kept = (x.shape[0], num_groups, 1)
    t = dy if scale is None else dy * channels(scale, x)
    dx, _ = norm_grad(grouped(t, num_groups), grouped(x, num_groups), mean.reshape(kept), rstd.reshape(kept), None,
                      (2,))
    dx = dx.reshape(x.shape)
    if scale is None:
        return dx
    xh = ((wide(grouped(x, num_groups)) - mean.reshape(kept)) * rstd.reshape(kept)).reshape(x.shape)
    return dx, summed(wide(dy) * xh, scale, but_channels(x)), summed(wide(dy), scale, but_channels(x))


def op_instance_norm(x, scale=None, shift=None, *, epsilon):
    return op_group_norm(x, scale, shift, num_groups=x.shape[1], epsilon=epsilon)


def op_instance_norm_grad(dy, x, mean, rstd, scale=None):
    return op_group_norm_grad(dy, x, mean, rstd, scale, num_groups=x.shape[1])


def neighbour_sums(t, before, after):
    """Sums over `before` channels below to `after` channels above each channel."""
    rest = (0, 0) * (t.dim() - 2)
    return F.pad(t, rest + (before, after)).unfold(1, before + after + 1, 1).sum(-1)


def lrn_scale(x, size, alpha, bias):
    return bias + alpha / size * neighbour_sums(x * x, (size - 1) // 2, size // 2)


def op_lrn(x, *, size, alpha, beta, bias):
    return x * lrn_scale(x, size, alpha, bias) ** -beta


def op_lrn_grad(dy, x, *, size, alpha, beta, bias):
    s = lrn_scale(x, size, alpha, bias)
    reached = neighbour_sums(dy * x * s ** (-beta - 1), size // 2, (size - 1) // 2)
    return dy * s ** -beta - 2 * alpha * beta / size * x * reached


def op_mean_variance_norm(x, *, axes, epsilon):
    variance, mean = torch.var_mean(x, axes, unbiased=False, keepdim=True)
    return (x - mean) / (torch.sqrt(variance) + epsilon)


# ---- pooling ----


def pool_sizes(x, kernel_shape, strides, pads, dilations, ceil_mode):
    """Sizes of the result, and pads at the ends that its last windows need."""
    half = len(kernel_shape)
    sizes, ends = [], []
    for d in range(half):
        reach, begin = dilations[d] * (kernel_shape[d] - 1) + 1, x.shape[2 + d] + pads[d]
        room = begin + pads[half + d] - reach
        out = (room + (strides[d] - 1 if ceil_mode else 0)) // strides[d] + 1
        out = out - 1 if ceil_mode and (out - 1) * strides[d] >= begin else out
        sizes.append(out)
        ends.append(max(0, (out - 1) * strides[d] + reach - begin))
    return sizes, ends


def windows(x, kernel_shape, strides, dilations, sizes):
    """Views of the windows of a padded x: [n, c, result sizes..., window...]."""
    for d, kernel in enumerate(kernel_shape):
        x = x.unfold(2 + d, dilations[d] * (kernel - 1) + 1, strides[d])
        x = x.narrow(2 + d, 0, sizes[d])[..., ::dilations[d]]
    return x


def op_max_pool(x, *, kernel_shape, strides, pads, dilations, ceil_mode):
    return largest(x, kernel_shape, strides, pads, dilations, ceil_mode)[0]


def largest(x, kernel_shape, strides, pads, dilations, ceil_mode):
    """Largest elements of windows, their places in the padded plane, and the padded sizes."""
    half = len(kernel_shape)
    sizes, ends = pool_sizes(x, kernel_shape, strides, pads, dilations, ceil_mode)
    p = padded(x, list(pads[:half]) + ends, -math.inf)
    pool = by_rank(x.dim(), (F.max_pool1d, F.max_pool2d, F.max_pool3d))
    y, at = pool(p, kernel_shape, strides, 0, dilations, return_indices=True)
    for d in range(half):
        y, at = y.narrow(2 + d, 0, sizes[d]), at.narrow(2 + d, 0, sizes[d])
    return y.contiguous(), at, p.shape[2:]


def op_max_pool_grad(dy, x, *, kernel_shape, strides, pads, dilations, ceil_mode):
    half = len(kernel_shape)
    _, at, sizes = largest(x, kernel_shape, strides, pads, dilations, ceil_mode)
    dx = x.new_zeros(x.shape[:2] + (math.prod(sizes),))
    dx.scatter_add_(2, at.flatten(2), dy.flatten(2))
    dx = dx.reshape(x.shape[:2] + tuple(sizes))
    for d in range(half):
        dx = dx.narrow(2 + d, pads[d], x.shape[2 + d])
    return dx.contiguous()


def op_max_pool_indices(x, *, kernel_shape, strides, pads, dilations, ceil_mode, storage_order):
    half = len(kernel_shape)
    y, at, sizes = largest(x, kernel_shape, strides, pads, dilations, ceil_mode)
    place, step = torch.zeros_like(at), 1
    for d in (range(half) if storage_order else reversed(range(half))):
        inner = math.prod(sizes[d + 1:])
        place += (at // inner % sizes[d] - pads[d]) * step
        step *= x.shape[2 + d]
    plane = torch.arange(x.shape[0] * x.shape[1], device=x.device).reshape(x.shape[:2] + (1,) * half)
    return y, (place + plane * step).contiguous()


def op_max_unpool(x, indices, *, spatial):
    y = x.new_zeros(x.shape[0] * x.shape[1] * math.prod(spatial))
    return y.scatter_(0, indices.flatten(), x.flatten()).reshape(x.shape[:2] + tuple(spatial))


def window_counts(x, kernel_shape, strides, pads, dilations, sizes, ends, include_pad):
    half = len(kernel_shape)
    ones = torch.ones((1, 1) + tuple(x.shape[2:]), dtype=x.dtype, device=x.device)
    own = list(pads) if include_pad else [0] * (2 * half)
    ones = padded(ones, own, 1.0)
    rest = [pads[d] - own[d] for d in range(half)] + [max(0, ends[d] - own[half + d]) for d in range(half)]
    return windows(padded(ones, rest), kernel_shape, strides, dilations, sizes).sum(tuple(range(-half, 0)))


def op_avg_pool(x, *, kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad):
    half = len(kernel_shape)
    if same_pads(pads) and not ceil_mode and all(d == 1 for d in dilations):
        pool = by_rank(x.dim(), (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d))
        if all(2 * pads[d] <= kernel_shape[d] for d in range(half)):
            return pool(x, kernel_shape, strides, pads[:half], False, bool(count_include_pad)).contiguous()
    sizes, ends = pool_sizes(x, kernel_shape, strides, pads, dilations, ceil_mode)
    p = padded(x, list(pads[:half]) + ends)
    total = windows(p, kernel_shape, strides, dilations, sizes).sum(tuple(range(-half, 0)))
    counts = window_counts(x, kernel_shape, strides, pads, dilations, sizes, ends, count_include_pad)
    return (total / counts).contiguous()


def op_avg_pool_grad(dy, *, spatial, kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad):
    def forward(x):
        return op_avg_pool(x, kernel_shape=kernel_shape, strides=strides, pads=pads, dilations=dilations,
                           ceil_mode=ceil_mode, count_include_pad=count_include_pad)

    return pull(forward, dy, dy.new_zeros(dy.shape[:2] + tuple(spatial)))


def op_lp_pool(x, *, kernel_shape, strides, pads, dilations, ceil_mode, p):
    half = len(kernel_shape)
    sizes, ends = pool_sizes(x, kernel_shape, strides, pads, dilations, ceil_mode)
    powers = padded(torch.abs(x) ** p, list(pads[:half]) + ends)
    total = windows(powers, kernel_shape, strides, dilations, sizes).sum(tuple(range(-half, 0)))
    return (total ** (1 / p)).contiguous()


def op_adaptive_avg_pool(x, *, spatial):
    pool = by_rank(x.dim(), (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d))
    return pool(x, tuple(spatial)).contiguous()


def op_adaptive_avg_pool_grad(dy, *, spatial):
    sizes = tuple(dy.shape[2:])
    return pull(lambda x: op_adaptive_avg_pool(x, spatial=sizes), dy, dy.new_zeros(dy.shape[:2] + tuple(spatial)))


def op_global_avg_pool(x):
    return x.mean(tuple(range(2, x.dim())), keepdim=True)


def op_global_max_pool(x):
    return x.amax(tuple(range(2, x.dim())), keepdim=True)


def op_global_avg_pool_grad(dy, *, spatial):
    return (dy / math.prod(spatial)).expand(dy.shape[:2] + tuple(spatial)).contiguous()


def op_global_max_pool_grad(dy, x):
    flat = x.flatten(2)
    first = place_of(flat, flat.amax(2, keepdim=True), 2, True, False)
    return torch.zeros_like(flat).scatter_(2, first, dy.flatten(2)).reshape(x.shape)


# ---- resizing: a matrix of weights for each dimension ----


def source_positions(coordinates, size, out, scale):
    i = torch.arange(out, dtype=torch.float64)
    middle = (i + 0.5) / scale - 0.5
    if coordinates == "half_pixel":
        return middle
    if coordinates == "pytorch_half_pixel":
        return middle if out > 1 else i * 0
    if coordinates == "half_pixel_symmetric":
        return middle + size / 2 * (1 - out / (scale * size))
    if coordinates == "tf_half_pixel_for_nn":
        return middle + 0.5
    if coordinates == "align_corners":
        return i * (size - 1) / (scale * size - 1) if out > 1 else i * 0
    return i / scale


def nearest_of(mode, x):
    if mode == "floor":
        return torch.floor(x)
    if mode == "ceil":
        return torch.ceil(x)
    return torch.ceil(x - 0.5) if mode == "round_prefer_floor" else torch.floor(x + 0.5)


def filter_weights(distance, cubic, a):
    x = torch.abs(distance)
    if not cubic:
        return torch.clamp(1 - x, min=0)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return torch.where(x <= 1, near, torch.where(x < 2, far, torch.zeros_like(x)))


def resize_matrix(size, out, scale, mode, coordinates, nearest_mode, cubic_coeff_a, exclude_outside, antialias):
    """[out, size]: how much of each element goes into each result."""
    scale = scale if scale > 0 else out / size
    x = source_positions(coordinates, size, out, scale)
    matrix = torch.zeros(out, size, dtype=torch.float64)
    if mode == "nearest":
        at = nearest_of(nearest_mode, x).long().clamp(0, size - 1)
        return matrix.scatter_(1, at.unsqueeze(1), 1)
    squeeze = scale if antialias and scale < 1 else 1
    reach = math.ceil((2 if mode == "cubic" else 1) / squeeze)
    taps = torch.floor(x).unsqueeze(1) + torch.arange(1 - reach, reach + 1)
    weights = filter_weights((taps - x.unsqueeze(1)) * squeeze, mode == "cubic", cubic_coeff_a)
    weights = weights / weights.sum(1, keepdim=True)
    if exclude_outside:
        weights = weights.masked_fill((taps < 0) | (taps >= size), 0)
        weights = weights / weights.sum(1, keepdim=True)
    return matrix.scatter_add_(1, taps.long().clamp(0, size - 1), weights)


def resampled(x, sizes, transposed, scales, **how):
    for d, (to, scale) in enumerate(zip(sizes, scales)):
        size = x.shape[2 + d]
        m = resize_matrix(to, size, scale, **how).t() if transposed else resize_matrix(size, to, scale, **how)
        if to != size or scale > 0:
            x = torch.matmul(x.movedim(2 + d, -1), m.t().to(x)).movedim(-1, 2 + d)
    return x.contiguous()


def op_resize(x, *, spatial, mode, coordinates, nearest_mode, cubic_coeff_a, exclude_outside, antialias, scales_d,
              scales_h, scales_w):
    scales = (scales_d, scales_h, scales_w)[3 - len(spatial):]
    whole = all(size % x.shape[2 + d] == 0 for d, size in enumerate(spatial))
    if mode == "nearest" and coordinates == "asymmetric" and nearest_mode == "floor" and whole and not any(scales):
        return F.interpolate(x, tuple(spatial), mode="nearest").contiguous()
    return resampled(x, spatial, False, scales, mode=mode, coordinates=coordinates, nearest_mode=nearest_mode,
                     cubic_coeff_a=cubic_coeff_a, exclude_outside=exclude_outside, antialias=antialias)


def op_resize_grad(dy, *, spatial, mode, coordinates, nearest_mode, cubic_coeff_a, exclude_outside, antialias,
                   scales_d, scales_h, scales_w):
    scales = (scales_d, scales_h, scales_w)[3 - len(spatial):]
    return resampled(dy, spatial, True, scales, mode=mode, coordinates=coordinates, nearest_mode=nearest_mode,
                     cubic_coeff_a=cubic_coeff_a, exclude_outside=exclude_outside, antialias=antialias)


def op_grid_sample(x, grid, *, mode, padding, align_corners):
    names = {"linear": "bilinear", "nearest": "nearest", "cubic": "bicubic"}
    return F.grid_sample(x, grid, names[mode], padding, bool(align_corners))


# ---- movement ----


def op_reshape(x, *, shape, allowzero):
    return x.reshape(shape).clone()


def op_squeeze(x, *, axes):
    kept = [n for d, n in enumerate(x.shape) if d not in axes]
    return x.reshape(kept).clone()


def op_unsqueeze(x, *, axes):
    for d in sorted(axes):
        x = x.unsqueeze(d)
    return x.clone()


def op_flatten(x, *, axis):
    return x.reshape((math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))).clone()


def op_expand(x, *, shape):
    return x.expand(shape).clone(memory_format=torch.contiguous_format)


def op_transpose(x, *, perm):
    return x.permute(perm).clone(memory_format=torch.contiguous_format)


def sliced(starts, ends, steps):
    return tuple(slice(a, b, c) for a, b, c in zip(starts, ends, steps))


def op_slice(x, *, starts, ends, axes, steps):
    return x[sliced(starts, ends, steps)].clone(memory_format=torch.contiguous_format)


def op_slice_grad(dy, *, shape, starts, ends, axes, steps):
    dx = dy.new_zeros(shape)
    dx[sliced(starts, ends, steps)] = dy
    return dx


def op_split(x, *, axis, split):
    pieces = tuple(p.clone(memory_format=torch.contiguous_format) for p in x.split(list(split), axis))
    return pieces if len(pieces) > 1 else pieces[0]


def op_concat(*parts, axis):
    return torch.cat(parts, axis)


def op_pad(x, *, pads, mode, value):
    if mode == "constant":
        return padded(x, pads, held_as(value, x.dtype)) if any(pads) else x.clone()
    half = len(pads) // 2
    for d in range(half):
        size = x.shape[d]
        at = torch.arange(-pads[d], size + pads[half + d], device=x.device)
        if mode == "reflect":
            at = torch.where(at < 0, -at, torch.where(at >= size, 2 * (size - 1) - at, at))
        x = x.index_select(d, at.clamp(0, size - 1))
    return x


def op_tile(x, *, repeats):
    return x.repeat(repeats)


def op_gather(x, indices, *, axis):
    shape = x.shape[:axis] + indices.shape + x.shape[axis + 1:]
    return x.index_select(axis, wrapped(indices, x.shape[axis]).flatten()).reshape(shape)


def op_scatter_add(updates, indices, *, axis, size):
    before, after = updates.shape[:axis], updates.shape[axis + indices.dim():]
    rows = updates.reshape(before + (indices.numel(),) + after)
    return rows.new_zeros(before + (size,) + after).index_add_(axis, wrapped(indices, size).flatten(), rows)


def op_gather_elements(x, indices, *, axis):
    return torch.gather(x, axis, wrapped(indices, x.shape[axis]))


def scattered(x, axis, index, updates, reduction):
    if reduction == "none":
        return x.scatter(axis, index, updates)
    names = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
    return x.scatter_reduce(axis, index, updates, names[reduction])


def op_scatter_elements(x, indices, updates, *, axis, reduction):
    return scattered(x, axis, wrapped(indices, x.shape[axis]), updates, reduction)


def slice_numbers(x, indices, batch_dims):
    """Numbers of the slices that the indices mean, among all of x; and the elements of a slice."""
    count = indices.shape[-1]
    sizes = x.shape[batch_dims:batch_dims + count]
    batches = math.prod(x.shape[:batch_dims])
    number = torch.arange(batches, device=x.device).reshape(x.shape[:batch_dims] + (1,) * (
        indices.dim() - 1 - batch_dims))
    number = number.expand(indices.shape[:-1])
    outside = torch.zeros_like(number, dtype=torch.bool)
    for c, size in enumerate(sizes):
        outside = outside | (indices[..., c] < -size) | (indices[..., c] >= size)
        number = number * size + wrapped(indices[..., c], size)
    if not outside.is_cuda and bool(outside.any()):
        raise IndexError("an index is out of range")
    number = torch.where(outside, batches * math.prod(sizes), number)  # devices refuse it without being waited for
    return number.flatten(), math.prod(x.shape[batch_dims + count:])


def op_gather_nd(x, indices, *, batch_dims):
    number, size = slice_numbers(x, indices, batch_dims)
    shape = indices.shape[:-1] + x.shape[batch_dims + indices.shape[-1]:]
    return x.reshape((-1, size)).index_select(0, number).reshape(shape)


def op_scatter_nd(x, indices, updates, *, batch_dims, reduction):
    number, size = slice_numbers(x, indices, batch_dims)
    index = number.unsqueeze(1).expand(-1, size)
    out = scattered(x.reshape((-1, size)), 0, index, updates.reshape((-1, size)), reduction)
    return out.reshape(x.shape)


def op_one_hot(indices, values, *, depth, axis):
    at = wrapped(indices, depth).unsqueeze(axis)
    place = torch.arange(depth, device=indices.device).reshape((-1,) + (1,) * (at.dim() - 1 - axis))
    return torch.where(at == place, values[1], values[0])


def op_top_k(x, *, k, axis, largest, sorted):
    values, indices = torch.sort(x, dim=axis, descending=bool(largest), stable=True)
    return values.narrow(axis, 0, k).contiguous(), indices.narrow(axis, 0, k).contiguous()


def op_trilu(x, *, upper, diagonal):
    return torch.triu(x, diagonal) if upper else torch.tril(x, diagonal)


def op_reverse(x, *, axes):
    return x.flip(axes)


def op_roll(x, *, shifts, axes):
    return torch.roll(x, shifts, axes)


def op_reverse_sequence(x, lengths, *, batch_axis, time_axis):
    x = x.movedim((batch_axis, time_axis), (0, 1))
    t = torch.arange(x.shape[1], device=x.device).unsqueeze(0)
    length = lengths.long().unsqueeze(1)
    at = torch.where(t < length, length - 1 - t, t).reshape(x.shape[:2] + (1,) * (x.dim() - 2)).expand(x.shape)
    return torch.gather(x, 1, at).movedim((0, 1), (batch_axis, time_axis)).contiguous()


def op_depth_to_space(x, *, blocksize, mode):
    n, c, h, w = x.shape
    b = blocksize
    if mode == "CRD":
        return F.pixel_shuffle(x, b)
    y = x.reshape((n, b, b, c // (b * b), h, w)).permute((0, 3, 4, 1, 5, 2))
    return y.reshape((n, c // (b * b), h * b, w * b))


def op_space_to_depth(x, *, blocksize, mode):
    n, c, h, w = x.shape
    b = blocksize
    if mode == "CRD":
        return F.pixel_unshuffle(x, b)
    y = x.reshape((n, c, h // b, b, w // b, b)).permute((0, 3, 5, 1, 2, 4))
    return y.reshape((n, c * b * b, h // b, w // b))


def column_view(x, kernel_shape, strides, pads, dilations):
    half = len(kernel_shape)
    sizes, ends = pool_sizes(x, kernel_shape, strides, pads, dilations, False)
    w = windows(padded(x, list(pads[:half]) + ends), kernel_shape, strides, dilations, sizes)
    order = (0, 1) + tuple(range(2 + half, 2 + 2 * half)) + tuple(range(2, 2 + half))
    return w.permute(order).reshape((x.shape[0], x.shape[1] * math.prod(kernel_shape), math.prod(sizes)))


def op_im2col(x, *, kernel_shape, strides, pads, dilations):
    return column_view(x, kernel_shape, strides, pads, dilations).contiguous()


def op_col2im(x, *, spatial, kernel_shape, strides, pads, dilations):
    image = x.new_zeros((x.shape[0], x.shape[1] // math.prod(kernel_shape)) + tuple(spatial))
    return pull(lambda y: column_view(y, kernel_shape, strides, pads, dilations), x, image)


def op_fill(*, shape, to, value, device):
    return torch.full(shape, held_as(value, DTYPE[to]), dtype=DTYPE[to], device=device)


def op_iota(*, size, to, start, delta, device):
    real = torch.arange(size, dtype=torch.float64, device=device) * delta + start
    return real.to(DTYPE[to])


def op_eye(*, shape, to, diagonal, device):
    column = torch.arange(shape[1], device=device).unsqueeze(0)
    row = torch.arange(shape[0], device=device).unsqueeze(1)
    return (column - row == diagonal).to(DTYPE[to])


# ---- attention and recurrent layers ----


def attention_scores(q, k, scale, causal, mask):
    s = torch.matmul(q * (scale or q.shape[-1] ** -0.5), k.transpose(-1, -2))
    if mask is not None:
        s = s + mask
    if causal:
        later = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1)
        s = s.masked_fill_(later, -math.inf)
    return s


def shared_heads(q, k):
    """Query heads that share one key head."""
    return q.shape[-3] // k.shape[-3]


def op_attention(q, k, v, mask=None, *, scale, causal):
    share = shared_heads(q, k)
    k, v = k.repeat_interleave(share, -3), v.repeat_interleave(share, -3)
    s = attention_scores(wide(q), wide(k), scale, causal, mask)
    lse = torch.logsumexp(s, -1, keepdim=True)
    return torch.matmul(torch.exp(s - lse).to(v.dtype), v).contiguous(), lse


def op_attention_grad(dy, q, k, v, y, lse, mask=None, *, scale, causal):
    share = shared_heads(q, k)
    keys, values = k.repeat_interleave(share, -3), v.repeat_interleave(share, -3)
    p = torch.exp(attention_scores(wide(q), wide(keys), scale, causal, mask) - lse).to(q.dtype)
    dv = torch.matmul(p.transpose(-1, -2), dy)
    dp = torch.matmul(dy, values.transpose(-1, -2))
    ds = p * (dp - (dy * y).sum(-1, keepdim=True)) * (scale or q.shape[-1] ** -0.5)
    dq, dk = torch.matmul(ds, keys), torch.matmul(ds.transpose(-1, -2), q)
    heads = k.shape[:-3] + (k.shape[-3], share)
    dk, dv = dk.reshape(heads + dk.shape[-2:]).sum(-3), dv.reshape(heads + dv.shape[-2:]).sum(-3)
    return dq.contiguous(), dk.contiguous(), dv.contiguous()


def recurrent(x, w, r, b, state, memory, hidden_size, reverse, step):
    """Calls step(input part, recurrent weights and bias, state, memory) for each time."""
    seq, n, _ = x.shape
    gates = w.shape[1]
    state = x.new_zeros((n, hidden_size)) if state is None else state[0]
    memory = torch.zeros_like(state) if memory is None else memory[0]
    bias = x.new_zeros(2 * gates) if b is None else b[0]
    y = x.new_empty((seq, 1, n, hidden_size))
    for t in (reversed(range(seq)) if reverse else range(seq)):
        part = torch.addmm(bias[:gates], x[t], w[0].t())
        state, memory = step(part, r[0], bias[gates:], state, memory)
        y[t, 0] = state
    return y, state.unsqueeze(0).clone(), memory.unsqueeze(0).clone()


def op_lstm(x, w, r, b=None, h0=None, c0=None, p=None, *, hidden_size, reverse):
    def step(part, r, bias, state, memory):
        i, o, f, c = (part + torch.addmm(bias, state, r.t())).chunk(4, 1)
        pi, po, pf = (0, 0, 0) if p is None else p[0].chunk(3)
        new = torch.sigmoid(f + pf * memory) * memory + torch.sigmoid(i + pi * memory) * torch.tanh(c)
        return torch.sigmoid(o + po * new) * torch.tanh(new), new

    return recurrent(x, w, r, b, h0, c0, hidden_size, reverse, step)


def op_gru(x, w, r, b=None, h0=None, *, hidden_size, reverse, linear_before_reset):
    h = hidden_size

    def step(part, r, bias, state, memory):
        z, s = torch.sigmoid(part[:, :2 * h] + torch.addmm(bias[:2 * h], state, r[:2 * h].t())).chunk(2, 1)
        if linear_before_reset:
            new = s * torch.addmm(bias[2 * h:], state, r[2 * h:].t())
        else:
            new = torch.addmm(bias[2 * h:], s * state, r[2 * h:].t())
        return (1 - z) * torch.tanh(part[:, 2 * h:] + new) + z * state, memory

    return recurrent(x, w, r, b, h0, None, hidden_size, reverse, step)[:2]


def op_rnn(x, w, r, b=None, h0=None, *, hidden_size, reverse, activation):
    act = torch.relu if activation == "relu" else torch.tanh

    def step(part, r, bias, state, memory):
        return act(part + torch.addmm(bias, state, r.t())), memory

    return recurrent(x, w, r, b, h0, None, hidden_size, reverse, step)[:2]


# ---- quantized numbers ----


def saturated(x, dtype):
    info = torch.iinfo(dtype)
    return torch.round(x).clamp(info.min, info.max).to(dtype)


def along(p, x, axis):
    return p.double() if p.numel() == 1 else p.double().reshape((-1,) + (1,) * (x.dim() - 1 - axis))


def op_quantize_linear(x, scale, zero=None, *, axis, to):
    y = torch.round(x.double() / along(scale, x, axis))
    return saturated(y if zero is None else y + along(zero, x, axis), DTYPE[to])


def op_dequantize_linear(x, scale, zero=None, *, axis):
    y = x.double() if zero is None else x.double() - along(zero, x, axis)
    return (y * along(scale, x, axis)).to(scale.dtype)


def op_matmul_integer(a, b, za=None, zb=None):
    a = a.double() if za is None else a.double() - along(za, a, a.dim() - 2)
    b = b.double() if zb is None else b.double() - along(zb, b, b.dim() - 1)
    return torch.matmul(a, b).to(torch.int32)


def op_conv_integer(x, w, zx=None, zw=None, *, group, strides, pads, dilations):
    x = x.double() if zx is None else x.double() - along(zx, x, 0)
    w = w.double() if zw is None else w.double() - along(zw, w, 0)
    return op_conv(x, w, group=group, strides=strides, pads=pads, dilations=dilations).to(torch.int32)


# ---- updates of weights and states, in place ----


def op_assign(w, x):
    return x.clone(memory_format=torch.contiguous_format)


def op_assign_(w, x):
    return w.copy_(x)


def op_sgd(w, g, *, lr, weight_decay):
    return op_sgd_(w.clone(), g, lr=lr, weight_decay=weight_decay)


def op_sgd_(w, g, *, lr, weight_decay):
    return w.mul_(1 - lr * weight_decay).add_(g, alpha=-lr) if weight_decay else w.add_(g, alpha=-lr)


def op_momentum(v, g, *, momentum):
    return op_momentum_(v.clone(), g, momentum=momentum)


def op_momentum_(v, g, *, momentum):
    return v.mul_(momentum).add_(g)


def op_moment(m, g, *, beta, power):
    return op_moment_(m.clone(), g, beta=beta, power=power)


def op_moment_(m, g, *, beta, power):
    m.mul_(beta)
    return m.addcmul_(g, g, value=1 - beta) if power == 2 else m.add_(g, alpha=1 - beta)


def op_adam(w, m, v, *, lr, beta1, beta2, epsilon, step):
    return op_adam_(w.clone(), m, v, lr=lr, beta1=beta1, beta2=beta2, epsilon=epsilon, step=step)


def op_adam_(w, m, v, *, lr, beta1, beta2, epsilon, step):
    root = (v / (1 - beta2 ** step)).sqrt_().add_(epsilon)
    return w.addcdiv_(m, root, value=-lr / (1 - beta1 ** step))


def op_adamw(w, m, v, *, lr, beta1, beta2, epsilon, step, weight_decay):
    return op_adamw_(w.clone(), m, v, lr=lr, beta1=beta1, beta2=beta2, epsilon=epsilon, step=step,
                     weight_decay=weight_decay)


def op_adamw_(w, m, v, *, lr, beta1, beta2, epsilon, step, weight_decay):
    w.mul_(1 - lr * weight_decay)
    return op_adam_(w, m, v, lr=lr, beta1=beta1, beta2=beta2, epsilon=epsilon, step=step)
