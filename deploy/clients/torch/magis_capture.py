#!/usr/bin/env python3
"""Captures a PyTorch training step as a graph of ATen calls (magis-aten/1) and asks magisd what it needs.

    python magis_capture.py train.py:step -o step.json
    python magis_capture.py train.py:step --fits 24GB --url http://127.0.0.1:8080

`step` is a function of train.py that does one step: forward, loss, backward, and the optimizer if it likes. Its
modules, optimizers and tensors are found among its arguments, its closure and the globals it names. Where it takes
arguments, train.py says with which: a function `example_inputs()` that returns them, or a tuple of that name.

The step is traced on fake tensors: nothing is computed, and no memory of its size is needed. One file, and torch
(1.13 or later) is all it wants. In a program: magis_capture.capture(step, *args).dump.
"""
import argparse
import contextlib
import gzip
import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import re
import sys
import traceback
import types
import urllib.error
import urllib.request
import warnings

try:
    import torch
    import torch.fx
    import torch.utils._pytree as pytree
    from torch._subclasses import FakeTensor
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.utils._mode_utils import no_dispatch
except ImportError as lacking:
    if __name__ != "__main__":
        raise
    sys.exit("magis_capture: %s has no PyTorch 1.13 or later (%s): start this file with the Python that trains, or "
             "install torch for this one" % (sys.executable, lacking))

URL = "http://127.0.0.1:8080"  # magisd fills in its own address when it hands this file out

DTYPES = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
    torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool",
}
for _name, _short in (("float8_e4m3fn", "f8e4m3"), ("float8_e5m2", "f8e5m2"), ("uint16", "u16"), ("uint32", "u32"),
                      ("uint64", "u64")):
    if hasattr(torch, _name):
        DTYPES[getattr(torch, _name)] = _short


# settings of optimizers under which their steps can be traced: one tensor after the other, step counters as tensors
TRACEABLE = {"foreach": False, "fused": False, "differentiable": True}
OPTIM = {name: importlib.import_module("torch.optim." + name) for name in ("adam", "adamw", "adagrad", "adamax", "nadam", "radam")}
MODULE_TABLES = frozenset(vars(torch.nn.Module()))  # parameters, buffers, submodules, hooks
# count their steps and compute nothing with the number
COUNTS_ONLY = (torch.optim.RMSprop, torch.optim.Adadelta)


class CaptureError(Exception):
    """What could not be traced, and where: the message is meant to be read."""


# ---- what a step touches: modules, optimizers, tensors ----

def _adamw(*tensors, lr, weight_decay, **rest):
    """AdamW of torch 1.13, which reads its step counters as numbers: the decay, then the step of Adam."""
    for parameter in tensors[0]:
        parameter.mul_(1 - lr * weight_decay)
    OPTIM["adam"].adam(*tensors, lr=lr, weight_decay=0, **dict(rest, foreach=False, capturable=False, differentiable=True))


# Optimizers that read their step counters as numbers, with them as tensors; in double precision, as those are.

def _descended(parameter, gradient, weight_decay, maximize):
    gradient = -gradient if maximize else gradient
    return gradient.add(parameter, alpha=weight_decay) if weight_decay else gradient


def _adagrad(parameters, gradients, sums, steps, *unused, lr, weight_decay, lr_decay, eps, maximize=False, **rest):
    for parameter, gradient, total, step in zip(parameters, gradients, sums, steps):
        step += 1
        gradient = _descended(parameter, gradient, weight_decay, maximize)
        total.addcmul_(gradient, gradient)
        step_size = lr / (1 + (step - 1) * lr_decay) if lr_decay else lr
        parameter.sub_(step_size * gradient / (total.sqrt() + eps))


def _adamax(parameters, gradients, means, norms, steps, *unused, beta1, beta2, lr, weight_decay, eps, maximize=False,
            **rest):
    for parameter, gradient, mean, norm, step in zip(parameters, gradients, means, norms, steps):
        step += 1
        gradient = _descended(parameter, gradient, weight_decay, maximize)
        mean.mul_(beta1).add_(gradient, alpha=1 - beta1)
        norm.copy_(torch.maximum(norm * beta2, gradient.abs() + eps))
        parameter.sub_(lr / (1 - torch.pow(beta1, step.double())) * mean / norm)


def _decayed(parameter, gradient, lr, weight_decay, decoupled_weight_decay=False, maximize=False, **rest):
    """The gradient, with the decay in it or taken from the parameter."""
    if decoupled_weight_decay:
        parameter.mul_(1 - lr * weight_decay)
    return _descended(parameter, gradient, 0 if decoupled_weight_decay else weight_decay, maximize)


def _moments(mean, square, gradient, beta1, beta2):
    mean.mul_(beta1).add_(gradient, alpha=1 - beta1)
    square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)


def _nadam(parameters, gradients, means, squares, products, steps, *unused, beta1, beta2, lr, weight_decay, momentum_decay,
           eps, **rest):
    old = "differentiable" not in inspect.signature(OPTIM["nadam"].NAdam).parameters
    twice = old and not rest.get("foreach")  # torch 1.13 has a factor twice, unless it takes tensors at once
    for parameter, gradient, mean, square, product, step in zip(parameters, gradients, means, squares, products, steps):
        step += 1
        gradient = _decayed(parameter, gradient, lr, weight_decay, **rest)
        count = step.double()
        mu = beta1 * (1 - 0.5 * torch.pow(0.96, count * momentum_decay))
        following = beta1 * (1 - 0.5 * torch.pow(0.96, (count + 1) * momentum_decay))
        product *= mu
        _moments(mean, square, gradient, beta1, beta2)
        norm = (square / (1 - torch.pow(beta2, count))).sqrt() + eps
        parameter.sub_(lr * (1 - mu) / (1 - product.double()) * gradient / norm)
        product = product.double() * following * (mu if twice else 1)
        parameter.sub_(lr * following / (1 - product) * mean / norm)


def _radam(parameters, gradients, means, squares, steps, *unused, beta1, beta2, lr, weight_decay, eps, **rest):
    for parameter, gradient, mean, square, step in zip(parameters, gradients, means, squares, steps):
        step += 1
        gradient = _decayed(parameter, gradient, lr, weight_decay, **rest)
        count, most = step.double(), 2 / (1 - beta2) - 1
        _moments(mean, square, gradient, beta1, beta2)
        power = torch.pow(beta2, count)
        length = most - 2 * count * power / (1 - power)
        share = torch.clamp((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length), min=0)
        rectified = torch.sqrt(share * (1 - power)) / (square.sqrt() + eps)
        rate = torch.where(length > 5, rectified, torch.ones_like(rectified))
        parameter.sub_(lr / (1 - torch.pow(beta1, count)) * mean * rate)


@contextlib.contextmanager
def _traceable_functions():
    """In the place of functions of torch.optim that cannot be traced, others that compute the same."""
    ours = {"adagrad": _adagrad, "adamax": _adamax, "nadam": _nadam, "radam": _radam}
    if "differentiable" not in inspect.signature(OPTIM["adamw"].adamw).parameters:
        ours["adamw"] = _adamw
    theirs = {name: getattr(OPTIM[name], name) for name in ours}
    try:
        for name, function in ours.items():
            setattr(OPTIM[name], name, function)
        yield
    finally:
        for name, function in theirs.items():
            setattr(OPTIM[name], name, function)


def _zeros(*keys):
    return lambda tensor: {key: torch.zeros_like(tensor, memory_format=torch.preserve_format) for key in keys}


def _adam_state(group):
    step = torch.zeros((1,)) if group.get("capturable") else torch.tensor(0.0)
    make = _zeros("exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if group["amsgrad"] else []))
    return lambda tensor: dict(make(tensor), step=step.clone().to(tensor.device if group.get("capturable") else "cpu"))


def _nadam_state(group):
    make = _zeros("exp_avg", "exp_avg_sq")
    return lambda tensor: dict(step=torch.tensor(0.0), mu_product=torch.tensor(1.0), **make(tensor))


def _radam_state(group):
    make = _zeros("exp_avg", "exp_avg_sq")
    return lambda tensor: dict(make(tensor), step=torch.tensor(0.0))


def _sgd_state(group):
    """A first step copies the gradient into the buffer: what a buffer of zeros gives, unless gradients are damped."""
    return _zeros("momentum_buffer") if group["momentum"] and not group["dampening"] else None


FIRST_STATE = {torch.optim.Adam: _adam_state, torch.optim.AdamW: _adam_state, torch.optim.NAdam: _nadam_state,
               torch.optim.RAdam: _radam_state, torch.optim.SGD: _sgd_state}


def _begin(optimizer):
    """Makes the state that the optimizer's first step would make, so that the step need not have run before."""
    for group in optimizer.param_groups:
        make = FIRST_STATE[type(optimizer)](group) if type(optimizer) in FIRST_STATE else None
        for tensor in group["params"]:
            if make and tensor.requires_grad and not any(v is not None for v in optimizer.state.get(tensor, {}).values()):
                optimizer.state[tensor].update(make(tensor.detach()))


def _read(thing, name):
    """An attribute; None where there is none, and of objects that answer with an error."""
    try:
        return getattr(thing, name, None)
    except Exception:
        return None


def _is_torch(thing):
    """Is the class or function torch's own? Some say no module, or none in words."""
    module = _read(thing, "__module__")
    return isinstance(module, str) and module.split(".")[0] == "torch"


def _unwrapped(function):
    """What a decorator was put around, where that is a function."""
    inside = _read(function, "__wrapped__")
    return inside if isinstance(inside, types.FunctionType) else function


def _names_in(code):
    names = set(code.co_names) | set(code.co_freevars)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_in(constant)
    return names


class _Cell:
    """A variable of an enclosing function, as a table of one entry."""

    def __init__(self, cell):
        self.cell = cell

    def __getitem__(self, key):
        return self.cell.cell_contents

    def __setitem__(self, key, value):
        self.cell.cell_contents = value


class _Parts:
    """The parts of a tuple: the table that holds it gets another tuple."""

    def __init__(self, table, key):
        self.table, self.key = table, key

    def __getitem__(self, index):
        return self.table[self.key][index]

    def __setitem__(self, index, value):
        whole = self.table[self.key]
        parts = whole[:index] + (value,) + whole[index + 1:]
        self.table[self.key] = whole._make(parts) if hasattr(whole, "_make") else parts


def _surroundings(function, seen=None):
    """(name, table, key) of all that a function can reach by name, which table[key] is: closure, globals, `self`,
    functions it calls."""
    seen = set() if seen is None else seen
    if isinstance(function, types.MethodType):
        yield "self", {"self": function.__self__}, "self"
        function = function.__func__
    function = _unwrapped(function)
    if not isinstance(function, types.FunctionType) or function.__code__ in seen:
        return
    code = function.__code__
    seen.add(code)
    found = {}
    for name, cell in zip(code.co_freevars, function.__closure__ or ()):
        with contextlib.suppress(ValueError):  # an empty cell
            cell.cell_contents
            found[name] = _Cell(cell)
    for name in sorted(_names_in(code)):
        if name in function.__globals__:
            found.setdefault(name, function.__globals__)
    for name, table in found.items():
        value = table[name]
        if isinstance(value, (types.FunctionType, types.MethodType)) and value.__module__ == function.__module__:
            yield from _surroundings(value, seen)
        else:
            yield name, table, name


def _forwards(module, seen):
    """The same for the forward functions of modules whose classes are not torch's own, and the methods that those name."""
    for kind in dict.fromkeys(type(part) for part in module.modules()):
        names = [] if _is_torch(kind) else ["forward"]
        for name in names:  # grows
            method = _read(kind, name)
            if isinstance(method, types.FunctionType) and not _is_torch(method):
                method = _unwrapped(method)
                yield from _surroundings(method, seen)
                names += sorted(_names_in(method.__code__) - set(names))


class _State:
    """Every tensor that a step reads from outside, each with a place: how to get it and how to put another there."""

    def __init__(self, step, args):
        self.places = []  # (kind, path, get, put)
        self.modules = {}  # id -> path
        self.roots = []
        self.optimizers = []
        self.stepped = set()  # names of those whose step() a trace has called
        self._seen = {}
        self._paths = set()
        tensors = []
        leaves, self.arg_spec = pytree.tree_flatten(args)
        seen = set()
        todo = [("", leaves, i) for i in range(len(leaves))] + list(_surroundings(step, seen))
        for name, table, key in todo:  # grows
            for name, table, key in self._inside(name, table, key):
                thing = table[key]
                if isinstance(thing, torch.nn.Module):
                    self._add_module(name, thing)
                    todo += _forwards(thing, seen)
                elif isinstance(thing, torch.optim.Optimizer):
                    if all(thing is not other for _, other in self.optimizers):
                        self.optimizers.append((name, thing))
                elif isinstance(thing, torch.Tensor):
                    tensors.append((name, thing, table, key))
        for name, optimizer in self.optimizers:
            _begin(optimizer)
            self._add_optimizer(name, optimizer)
        self.leaves = list(leaves)
        for i, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                self._add("input", "input.%d" % i, leaf, lambda i=i: self.leaves[i],
                          lambda value, i=i: self.leaves.__setitem__(i, value))
        for name, tensor, table, key in tensors:
            self._add("weight" if tensor.requires_grad else "input", name, tensor, lambda table=table, key=key: table[key],
                      lambda value, table=table, key=key: table.__setitem__(key, value))
        self._add_attributes()

    @staticmethod
    def _inside(name, table, key):
        thing = table[key]
        if isinstance(thing, tuple) and len(thing) < 64:
            return [("%s.%d" % (name, i), _Parts(table, key), i) for i in range(len(thing))]
        if isinstance(thing, list) and len(thing) < 64:
            return [("%s.%d" % (name, i), thing, i) for i in range(len(thing))]
        if isinstance(thing, dict) and len(thing) < 64:
            return [("%s.%s" % (name, part), thing, part) for part in thing]
        plain = not _is_torch(type(thing)) and type(thing).__module__ != "builtins"
        plain = plain and isinstance(_read(thing, "__dict__"), dict)
        if plain and not isinstance(thing, (torch.nn.Module, torch.optim.Optimizer, type, types.ModuleType)):
            return [("%s.%s" % (name, part), vars(thing), part) for part in vars(thing)]
        return [(name, table, key)]

    def _add(self, kind, path, tensor, get, put):
        if id(tensor) in self._seen:
            self._seen[id(tensor)][4].append(put)
            return
        while path in self._paths:  # files may use a name for different tensors
            path += "_"
        self._paths.add(path)
        place = (kind, path, tensor, get, [put])
        self._seen[id(tensor)] = place
        self.places.append(place)

    def _add_module(self, name, module):
        if id(module) in self.modules:
            return
        prefix = "" if not any(path == "" for path in self.modules.values()) else name + "."
        self.roots.append(module)
        for path, part in module.named_modules():
            self.modules.setdefault(id(part), (prefix + path).strip("."))
            for kind, table in (("weight", part._parameters), ("buffer", part._buffers)):
                for key, tensor in table.items():
                    if tensor is not None:
                        self._add(kind, ".".join(filter(None, (prefix + path, key))), tensor,
                                  lambda table=table, key=key: table[key],
                                  lambda value, table=table, key=key: table.__setitem__(key, value))

    def _add_attributes(self):
        """Tensors in other attributes of modules: more places of their weights, which recurrent ones keep in a list too,
        and what is no buffer."""
        todo = [(self.modules[id(part)], vars(part), key) for root in self.roots for part in root.modules()
                for key in vars(part) if key not in MODULE_TABLES]
        walked = set()
        for path, table, key in todo:  # grows
            thing, path = table[key], ("%s.%s" % (path, key)).strip(".")
            if isinstance(thing, torch.Tensor) and (id(thing) in self._seen or thing.is_leaf):
                self._add("weight" if thing.requires_grad else "input", path, thing,
                          lambda table=table, key=key: table[key],
                          lambda value, table=table, key=key: table.__setitem__(key, value))
            elif isinstance(thing, (list, dict)) and id(thing) not in walked:
                walked.add(id(thing))
                todo += [(path, thing, part) for part in (thing if isinstance(thing, dict) else range(len(thing)))]
            elif isinstance(thing, tuple):
                todo += [(path, _Parts(table, key), part) for part in range(len(thing))]

    def _add_optimizer(self, name, optimizer):
        for group in optimizer.param_groups:
            params = group["params"]
            for i, tensor in enumerate(params):
                path = self._seen[id(tensor)][1] if id(tensor) in self._seen else "%s.%d" % (name, i)
                self._add("weight", path, tensor, lambda params=params, i=i: params[i],
                          lambda value, params=params, i=i: params.__setitem__(i, value))
                for key, state in optimizer.state.get(tensor, {}).items():
                    if isinstance(state, torch.Tensor):
                        table = optimizer.state[tensor]
                        self._add("state", "%s.%s" % (path, key), state, lambda table=table, key=key: table[key],
                                  lambda value, table=table, key=key: table.__setitem__(key, value))

    def settings(self):
        """What optimizers that step compute with beside tensors: learning rates and the like, numbers in a trace."""
        return [[{key: float(value) if isinstance(value, torch.Tensor) else value for key, value in group.items()
                  if key != "params"} for group in optimizer.param_groups]
                for name, optimizer in self.optimizers if name in self.stepped]

    @contextlib.contextmanager
    def _noting_steps(self):
        theirs = [(optimizer, "step" in vars(optimizer), optimizer.step) for _, optimizer in self.optimizers]

        def noted(name, step):
            def call(*args, **kwargs):
                self.stepped.add(name)
                return step(*args, **kwargs)
            return call
        for (name, optimizer), (_, _, step) in zip(self.optimizers, theirs):
            optimizer.step = noted(name, step)
        try:
            yield
        finally:
            for optimizer, own, step in theirs:
                if own:  # as schedulers put there
                    optimizer.step = step
                else:
                    del optimizer.step

    def counts(self):
        """{(optimizer, number of the tensor, key): value} of optimizer state that is no tensor."""
        return {(name, i, key): value for name, optimizer in self.optimizers
                for i, state in enumerate(optimizer.state.values()) for key, value in state.items()
                if isinstance(value, (int, float)) and not isinstance(value, bool)}

    def count_on(self, counts):
        """Puts those numbers where a step leaves them."""
        for name, optimizer in self.optimizers:
            for i, state in enumerate(optimizer.state.values()):
                state.update({key: value for (of, at, key), value in counts.items() if (of, at) == (name, i)})

    @contextlib.contextmanager
    def replaced(self, values):
        """The step sees `values` in the places of its tensors, and optimizers that can be traced: tensor by tensor, with
        their step counters as tensors."""
        before = [place[3]() for place in self.places]
        states = [{tensor: dict(state) for tensor, state in optimizer.state.items()} for _, optimizer in self.optimizers]
        groups = [[dict(group) for group in optimizer.param_groups] for _, optimizer in self.optimizers]
        swap = {id(old): new for old, new in zip(before, values)}
        try:
            for place, value in zip(self.places, values):
                for put in place[4]:
                    put(value)
            for _, optimizer in self.optimizers:
                old = dict(optimizer.state)
                optimizer.state.clear()
                optimizer.state.update({swap.get(id(key), key): state for key, state in old.items()})
                for group in optimizer.param_groups:
                    group.update({key: value for key, value in TRACEABLE.items() if key in group and not (
                        key == "foreach" and isinstance(optimizer, torch.optim.NAdam))})  # ours must know
            with _traceable_functions(), self._noting_steps():
                yield
            for (_, optimizer), state in zip(self.optimizers, states):
                self._check_left(optimizer, list(state.values()))
        finally:
            for place, value in zip(self.places, before):
                for put in place[4]:
                    put(value)
            for (_, optimizer), state, group in zip(self.optimizers, states, groups):
                for now, then in zip(optimizer.param_groups, group):
                    now.update({key: value for key, value in then.items() if key in TRACEABLE})
                old = list(optimizer.state.values())
                optimizer.state.clear()
                for i, (tensor, entries) in enumerate(state.items()):
                    table = old[i] if i < len(old) else {}  # the very dicts: places point into them
                    table.clear()
                    table.update(entries)
                    optimizer.state[tensor] = table

    @staticmethod
    def _check_left(optimizer, before):
        """State that a step makes, or keeps as plain numbers, a plan of it would lose or freeze."""
        after, kind = list(optimizer.state.values()), type(optimizer).__name__
        before += [{}] * (len(after) - len(before))
        made = any(value is not None and then.get(key) is None
                   for now, then in zip(after, before) for key, value in now.items())
        if made:
            raise CaptureError("%s makes its state in its first step: let the step run once before it is captured" % kind)
        frozen = sorted({key for now, then in zip(after, before) for key, value in now.items()
                         if isinstance(value, (int, float)) and value != then.get(key)})
        if frozen and not isinstance(optimizer, COUNTS_ONLY):
            raise CaptureError("%s keeps '%s' as a plain number, which a plan would freeze" % (kind, frozen[0]))


# ---- which module and which pass a call belongs to ----

class _Stamps:
    """Marks every node with its module's path and its pass while the step is traced. Backward calls take the module
    of the forward call whose gradient they are: the autograd nodes made inside a module are remembered, and each tells
    when it has run."""

    def __init__(self, modules):
        self.modules = modules
        self.stack = []
        self.owner = {}  # autograd node -> module path
        self.pending = []  # nodes of the backward pass that no autograd node has claimed yet
        self.backward = False
        self.zeroed = False
        self.last = None  # node

    def noted(self):
        """A traced tensor as its call made it: calls like transpose_ change it later."""
        value = self.last.meta.get("val") if self.last is not None else None
        if isinstance(value, torch.Tensor):
            self.last.meta["magis_layout"] = [[int(d) for d in value.shape], [int(s) for s in value.stride()],
                                              int(value.storage_offset())]

    def created(self, node):
        self.noted()
        self.last = node
        node.meta["magis_pass"] = "backward" if self.backward else "forward"
        node.meta["magis_module"] = self.stack[-1] if self.stack else ""
        if self.backward:
            self.pending.append(node)

    def _claim(self, path):
        for node in self.pending:
            node.meta["magis_module"] = path
        self.pending = []

    def own(self, outputs, path):
        todo = [t.grad_fn for t in pytree.tree_flatten(outputs)[0] if isinstance(t, torch.Tensor) and t.grad_fn is not None]
        while todo:
            function = todo.pop()
            if function in self.owner:
                continue
            self.owner[function] = path
            function.register_hook(lambda *unused: self._claim(path))
            todo.extend(f for f, _ in function.next_functions if f is not None)

    def entering(self, module, inputs):
        self.stack.append(self.modules.get(id(module), self.stack[-1] if self.stack else ""))

    def leaving(self, module, inputs, outputs):
        path = self.stack.pop() if self.stack else ""
        if torch.is_grad_enabled():
            self.own(outputs, path)

    @contextlib.contextmanager
    def watching(self):
        stamps = self
        create = torch.fx.Graph.create_node
        backward, grad = torch.autograd.backward, torch.autograd.grad
        zero = torch.optim.Optimizer.zero_grad, torch.nn.Module.zero_grad

        def create_node(graph, *args, **kwargs):
            node = create(graph, *args, **kwargs)
            stamps.created(node)
            return node

        def in_backward(function):
            def call(tensors, *args, **kwargs):
                stamps.own(tensors, "")
                before, stamps.backward = stamps.backward, True
                try:
                    return function(tensors, *args, **kwargs)
                finally:
                    stamps.backward = before
                    stamps._claim("")
            return call

        def zeroing(function):
            def call(*args, **kwargs):
                stamps.zeroed = True
                return function(*args, **kwargs)
            return call

        hooks = [torch.nn.modules.module.register_module_forward_pre_hook(self.entering),
                 torch.nn.modules.module.register_module_forward_hook(self.leaving)]
        torch.fx.Graph.create_node = create_node
        torch.autograd.backward, torch.autograd.grad = in_backward(backward), in_backward(grad)
        torch.optim.Optimizer.zero_grad, torch.nn.Module.zero_grad = zeroing(zero[0]), zeroing(zero[1])
        try:
            yield
        finally:
            torch.fx.Graph.create_node = create
            torch.autograd.backward, torch.autograd.grad = backward, grad
            torch.optim.Optimizer.zero_grad, torch.nn.Module.zero_grad = zero
            for hook in hooks:
                hook.remove()


# ---- shapes that old versions of torch could tell only by computing ----

def _convolution_backward(grad, value, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups,
                          mask):
    return (torch.empty_like(value) if mask[0] else None, torch.empty_like(weight) if mask[1] else None,
            grad.new_empty([grad.shape[1]]) if mask[2] else None)


def _nll_loss2d_forward(value, target, weight, reduction, ignore_index):
    return value.new_empty(target.shape if reduction == 0 else []), value.new_empty([])


def _register_shapes():
    """Where torch says that they lack (2.x has them all)."""
    has_kernel = getattr(torch._C, "_dispatch_has_kernel_for_dispatch_key", None)
    if has_kernel is None:
        return None
    library = torch.library.Library("aten", "IMPL")
    for name, function in (("convolution_backward", _convolution_backward), ("nll_loss2d_forward", _nll_loss2d_forward)):
        if not has_kernel("aten::" + name, "Meta"):
            library.impl(name, function, "Meta")
    return library


_LIBRARY = _register_shapes()  # kept: what it registers lives as long


def _smoothed_cross_entropy(logits, target, weight, reduction, ignored, smoothing):
    """As torch computes it where targets are classes, without the tensors that it makes inside."""
    axis = 0 if logits.dim() == 1 else 1
    logs, classes = logits.log_softmax(axis), logits.shape[axis]
    skipped = target == ignored
    weights = logs if weight is None else logs * weight.view([-1] + [1] * (logits.dim() - 1 - axis))
    each = -weights.sum(axis).masked_fill(skipped, 0.0)
    if reduction == 1:
        counted = torch.logical_not(skipped).to(logs.dtype)
        if weight is not None:
            counted = counted * weight.index_select(0, target.masked_fill(skipped, 0).reshape(-1)).reshape(target.shape)
        each = each.sum() / counted.sum()
    elif reduction == 2:
        each = each.sum()
    how = ("none", "mean", "sum")[reduction]
    hard = torch.nn.functional.nll_loss(logs, target, weight, ignore_index=ignored, reduction=how)
    return (1 - smoothing) * hard + (smoothing / classes) * each


@contextlib.contextmanager
def _traceable_losses():
    """torch 1.13 writes a real tensor among the traced ones where labels are smoothed, and fails in Huber's gradient, which
    is that of a smooth l1 but for a factor."""
    theirs, huber = torch._C._nn.cross_entropy_loss, torch._C._nn.huber_loss

    def ours(logits, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
        if label_smoothing and not target.is_floating_point():
            return _smoothed_cross_entropy(logits, target, weight, reduction, ignore_index, label_smoothing)
        return theirs(logits, target, weight, reduction, ignore_index, label_smoothing)
    torch._C._nn.cross_entropy_loss = ours
    torch._C._nn.huber_loss = lambda y, t, how=1, delta=1.0: delta * torch._C._nn.smooth_l1_loss(y, t, how, delta)
    try:
        yield
    finally:
        torch._C._nn.cross_entropy_loss, torch._C._nn.huber_loss = theirs, huber


@contextlib.contextmanager
def _traceable_checkpoints():
    """torch's own checkpoints of 1.13 stumble over plain numbers in a trace: ours are in their place."""
    utils, name = importlib.import_module("torch.utils.checkpoint"), "_checkpoint_without_reentrant"
    theirs = getattr(utils, name, None)
    old = theirs is not None and list(inspect.signature(theirs).parameters) == ["function", "preserve_rng_state", "args", "kwargs"]
    if old:
        setattr(utils, name, lambda function, preserve=True, *args, **kwargs: _recomputed(function, *args, **kwargs))
    try:
        yield
    finally:
        if old:
            setattr(utils, name, theirs)


# ---- tracing ----

def _where(error):
    """file:line of the innermost frame that is not torch's, and of the innermost in the user's own files."""
    inside = os.path.dirname(os.path.abspath(torch.__file__))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if not os.path.abspath(frame.filename).startswith(inside) and frame.filename != __file__ and
              os.path.exists(frame.filename)]
    return frames[-1] if frames else None


NO_CUDA = ("This machine has no GPU, and the capture needs none: write device = \"cuda\" if torch.cuda.is_available() else "
           "\"cpu\", and use it wherever the file says \"cuda\" or .cuda()")


def _failure(what, error):
    """A CaptureError: what failed, on which line of the user's, and what to do about it where that is known."""
    frame = _where(error)
    place = "%s:%d: in %s: %s" % (frame.filename, frame.lineno, frame.name, frame.line) if frame else "unknown place"
    if isinstance(error, SyntaxError) and error.filename:
        place = "%s:%d" % (error.filename, error.lineno or 0)
    words, advice = str(error).split("\n")[0], ""
    if frame and ".item()" in frame.line:
        advice = "\n  A trace has no numbers: return the loss itself, and call .item() outside of the step"
    elif not torch.cuda.is_available() and re.search("cuda|nvidia", words, re.I):
        advice = "\n  " + NO_CUDA
    return CaptureError("%s: %s\n  %s: %s%s" % (what, place, type(error).__name__, words, advice))


@contextlib.contextmanager
def _autocast_noticed():
    """Without a GPU torch turns autocast for one off, and only warns: the step would be captured in full precision."""
    told = []
    with warnings.catch_warnings():
        theirs = warnings.showwarning

        def show(message, *args, **kwargs):
            theirs(message, *args, **kwargs)
            words = str(message)
            if "CUDA is not available" in words and ("device_type" in words or "autocast" in words) and not told:
                told.append(words)
                print("magis_capture: autocast for \"cuda\" is off here: the step is captured in full precision, which needs "
                      "more.\n  %s; torch.autocast(device, dtype=torch.bfloat16)" % NO_CUDA, file=sys.stderr)
        warnings.showwarning = show
        yield


class Capture:
    """A traced step. dump: the document; module: the FX graph; places: where its inputs live."""

    def __init__(self, state, module, stamps, result):
        self.state = state
        self.module = module
        self.nodes = {node.name: node for node in module.graph.nodes}
        self.zeroes_gradients = stamps.zeroed
        self.result = result  # (spec, leaves: index into outputs or a plain value)
        self.gradients = []
        self.settings = []  # of optimizers, as they were traced with
        self.counts = {}  # how far a step moves the numbers that optimizers count with
        self.dump = None

    @property
    def digest(self):
        return self.dump["digest"]


def capture(step, *args, name=None):
    """Traces step(*args) and returns a Capture."""
    state = _State(step, args)
    stamps = _Stamps(state.modules)
    inputs = [place[3]() for place in state.places]
    result = {"counts": state.counts()}

    def traced(*values):
        values = [value.detach().requires_grad_(old.requires_grad) if old.requires_grad else value
                  for value, old in zip(values, inputs)]
        with state.replaced(values):
            out = step(*pytree.tree_unflatten(state.leaves, state.arg_spec))
            result["steps"] = {at: value - result["counts"][at] for at, value in state.counts().items()
                               if at in result["counts"]}
        leaves, result["spec"] = pytree.tree_flatten(out)
        result["leaves"] = [("tensor", None) if isinstance(leaf, torch.Tensor) else ("plain", leaf) for leaf in leaves]
        result["gradients"] = [i for i, value in enumerate(values) if value.is_leaf and value.grad is not None]
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        return tensors + [values[i].grad for i in result["gradients"]]

    grads = [(tensor, tensor.grad) for tensor in inputs if tensor.is_leaf and tensor.grad is not None]
    for tensor, _ in grads:
        tensor.grad = None
    try:
        with stamps.watching(), _traceable_losses(), _traceable_checkpoints(), torch.enable_grad():
            module = make_fx(traced, tracing_mode="fake")(*inputs)
    except CaptureError:
        raise
    except Exception as error:
        raise _failure("cannot trace this call", error) from error
    finally:
        for tensor, grad in grads:
            tensor.grad = grad
    out = Capture(state, module, stamps, (result["spec"], result["leaves"]))
    out.gradients, out.settings, out.counts = result["gradients"], state.settings(), result["steps"]
    out.dump = _dump(out, name or _read(step, "__name__") or "step")
    return out


# ---- the document ----

class _Storages:
    def __init__(self):
        self.number = {}

    def of(self, tensor):
        storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
        return self.number.setdefault(storage._cdata, len(self.number))


def _tensor_entry(tensor, storages, layout=None):
    if tensor.dtype not in DTYPES:
        raise CaptureError("tensors of %s are not supported" % tensor.dtype)
    shape, strides, offset = layout or (tensor.shape, tensor.stride(), tensor.storage_offset())
    return {"shape": [int(d) for d in shape], "dtype": DTYPES[tensor.dtype], "strides": [int(s) for s in strides],
            "offset": int(offset), "storage": storages.of(tensor)}


def _argument(value):
    if isinstance(value, torch.fx.Node):
        return {"node": value.name}
    if isinstance(value, (list, tuple)):
        return [_argument(part) for part in value]
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else {"float": str(value)}
    if isinstance(value, torch.dtype):
        return {"dtype": DTYPES.get(value, str(value))}
    return {"other": str(value)}


def _outputs_of(node, module, storages):
    if node.op == "get_attr":
        return _tensor_entry(getattr(module, node.target), storages)
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return _tensor_entry(value, storages, node.meta.get("magis_layout"))
    return None


def _writes(target):
    """Positions of the arguments that a call writes to, by its schema; batch norm's statistics, which older schemas
    do not mark, included."""
    schema = getattr(target, "_schema", None)
    if schema is None:
        return []
    marked = [i for i, a in enumerate(schema.arguments) if a.alias_info is not None and a.alias_info.is_write]
    if not marked and schema.name in ("aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm"):
        marked = [3, 4]
    return marked


def _constant(tensor):
    return tensor.tolist() if tensor.numel() <= 64 and not tensor.is_complex() else None


def _dump(captured, name):
    """The FX nodes as they are. Results of calls with several results stand with their `getitem` nodes."""
    storages, nodes, places = _Storages(), [], iter(captured.state.places)
    for node in captured.module.graph.nodes:
        if node.op == "output":
            continue
        entry = {"name": node.name}
        if node.op == "placeholder":
            place = next(places)
            entry.update(op="placeholder", kind=place[0], path=place[1])
        elif node.op == "get_attr":
            tensor = getattr(captured.module, node.target)
            entry.update(op="constant", value=_constant(tensor))
        else:
            target = node.target
            known = isinstance(target, torch._ops.OpOverload)
            entry.update(op=str(target) if known else getattr(target, "__name__", str(target)),
                         args=_argument(node.args))
            if node.kwargs:
                entry["kwargs"] = {key: _argument(value) for key, value in node.kwargs.items()}
            writes = _writes(target)
            if writes:
                entry["writes"] = writes
            if node.meta.get("magis_module"):
                entry["module"] = node.meta["magis_module"]
            if node.meta.get("magis_pass") == "backward":
                entry["backward"] = True
        out = _outputs_of(node, captured.module, storages)
        if out is not None:
            entry["out"] = out
        nodes.append(entry)
    dump = {"format": "magis-aten/1", "name": name, "nodes": nodes, "outputs": _output_entries(captured)}
    text = json.dumps(dump, sort_keys=True, separators=(",", ":"))
    dump["digest"] = hashlib.sha256(text.encode()).hexdigest()
    dump["torch"] = torch.__version__
    return dump


def _output_entries(captured):
    output = [node for node in captured.module.graph.nodes if node.op == "output"][0]
    gradients = len(captured.gradients)
    entries, returned = [], output.args[0]
    for i, value in enumerate(returned):
        if not isinstance(value, torch.fx.Node):
            continue
        at = i - (len(returned) - gradients)
        entry = {"node": value.name, "role": "result" if at < 0 else "gradient"}
        if at >= 0:
            entry["of"] = captured.state.places[captured.gradients[at]][1]
        entries.append(entry)
    return entries


# ---- asking magisd ----

class ServerError(Exception):
    """What the server said, or why it was not reached."""


class _Server:
    def __init__(self, url, token=None):
        self.url, self.token = url.rstrip("/"), token

    def ask(self, method, path, body=None, timeout=900):
        headers = {"Accept": "application/json"}
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        data = None
        if body is not None:
            headers.update({"Content-Type": "application/json", "Content-Encoding": "gzip"})
            data = gzip.compress(json.dumps(body).encode())
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            with contextlib.suppress(ValueError):
                problem = json.loads(text)
                text = "%s %s" % (problem.get("pointer", ""), problem.get("detail") or problem.get("title", ""))
            token = " (--token, or MAGISD_TOKEN)" if error.code == 401 else ""
            raise ServerError("the server refused (%d): %s%s" % (error.code, text.strip(), token)) from error
        except OSError as error:
            raise ServerError("cannot reach %s: %s; is \"magisd serve\" running there?" % (self.url, error)) from error

    def estimate(self, dump, device):
        return self.ask("POST", "/estimate", {"graph": dump, "device": device})

    def plan(self, dump, device, limit, seconds):
        """(point, plan, job) for the limit, or the nearest to it that was found."""
        job = self.ask("POST", "/optimize?wait=300", {
            "graph": dump, "device": device, "limit": limit, "budget": {"seconds": seconds}, "name": dump["name"],
            "baselines": []})
        if job["state"] != "succeeded":
            raise ServerError("the search has not ended: %s/jobs/%s" % (self.url, job["id"]))
        front = self.ask("GET", "/jobs/%s/pareto" % job["id"])["pareto"]
        best = self.ask("GET", "/jobs/%s" % job["id"])["best"]["plan"]
        point = [p for p in front if p["plan"] == best][0]
        return point, self.ask("GET", "/jobs/%s/plans/%s" % (job["id"], best)), job["id"]


def _bytes(text):
    """"24GB" in bytes."""
    units = {"K": 10**3, "M": 10**6, "G": 10**9, "KI": 2**10, "MI": 2**20, "GI": 2**30}
    number = text.upper().rstrip("B")
    unit = number.lstrip("0123456789.")
    if unit not in units or not number[:len(number) - len(unit)]:
        raise argparse.ArgumentTypeError("'%s' is no size: a number with its unit, KB, MB, GB, KiB, MiB or GiB" % text)
    return int(float(number[:len(number) - len(unit)]) * units[unit])


def _seconds(text):
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError("more than 0 seconds")
    return value


def _write(path, document):
    text = json.dumps(document, separators=(",", ":")).encode()
    try:
        with open(path, "wb") as file:
            file.write(gzip.compress(text) if path.endswith(".gz") else text)
    except OSError as error:
        raise CaptureError("cannot write %s: %s" % (path, error.strerror)) from error


def _shown(size):
    return "%.2f GB" % (size / 1e9) if size >= 1e9 else "%.0f MB" % (size / 1e6)


def _module_name(path):
    """A module's path, and that it is one where numbers alone do not tell."""
    return "module " + path if path.replace(".", "").isdigit() else path


def _holders(estimate):
    """[(module path, bytes)] of what is alive at the peak, largest first."""
    held = {}
    for value in estimate["hot"]:
        path = value.get("module") or "(%s)" % value.get("kind", "step")
        path = ".".join(path.split(".")[:3])
        held[path] = held.get(path, 0) + value["bytes"]
    return sorted(held.items(), key=lambda pair: -pair[1])


@contextlib.contextmanager
def _micro_batch(captured, parts):
    """The first of `parts` along dimension 0 of the inputs that have the batch in it stands in their places, and the
    arguments made of it are given; None where the batch is too small."""
    state = captured.state
    inputs = [place for place in state.places if place[0] == "input" and place[2].dim()]
    size = inputs[0][2].shape[0] if inputs else 0
    if size < parts:
        yield None
        return
    batched = [place for place in inputs if place[2].shape[0] == size]
    try:
        for _, _, tensor, _, puts in batched:
            for put in puts:
                put(tensor[:size // parts])
        yield pytree.tree_unflatten(state.leaves, state.arg_spec)
    finally:
        for _, _, tensor, _, puts in batched:
            for put in puts:
                put(tensor)


def _blocks(captured):
    """Paths of modules worth a checkpoint: the members of the sequences and lists that hold the most calls."""
    counts = {}
    for node in captured.dump["nodes"]:
        path = node.get("module", "")
        for depth in range(1, path.count(".") + 2):
            prefix = ".".join(path.split(".")[:depth])
            counts[prefix] = counts.get(prefix, 0) + 1
    found = {}
    for kind, path, *_ in captured.state.places:
        parts = path.split(".")
        for depth, part in enumerate(parts[:-1]):
            if part.isdigit():
                found.setdefault(".".join(parts[:depth + 1]), counts.get(".".join(parts[:depth + 1]), 0))
    top = {path: n for path, n in found.items() if n > 4 and not any(path.startswith(other + ".") and found[other] > 4
                                                                     for other in found)}
    return sorted(top)


def _recomputed(function, *args, **kwargs):
    """What a checkpoint without reentry comes to in a trace: of all that autograd saves only numbers are kept, and the
    first that is asked for calls the function again. (With torch's own, 1.13 stumbles over plain numbers among it.)"""
    kept, again = [], []

    def keep(tensor):
        kept.append(None)
        return len(kept) - 1

    def keep_again(tensor):
        if tensor.dim() == 0 and not isinstance(tensor, FakeTensor):  # a number in disguise, which cannot be traced
            with no_dispatch():
                number = tensor.item()
            tensor = torch.full((), number, dtype=tensor.dtype)
        again.append(tensor)

    def find(number):
        if not again:
            with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep_again, lambda unused: None):
                function(*args, **kwargs)
        return again[number]

    with torch.autograd.graph.saved_tensors_hooks(keep, find):
        return function(*args, **kwargs)


@contextlib.contextmanager
def _checkpointed(captured, paths):
    """Those modules recompute what is inside them."""
    wanted, changed = set(paths), []
    for module in {id(m): m for m in _modules(captured)}.values():
        if captured.state.modules.get(id(module)) in wanted:
            forward = module.forward
            module.forward = lambda *args, forward=forward, **kwargs: _recomputed(forward, *args, **kwargs)
            changed.append(module)
    try:
        yield
    finally:
        for module in changed:
            del module.forward


def _modules(captured):
    for thing in captured.state.roots:
        yield from thing.modules()


def _advise(step, args, captured, server, options):
    estimate = server.estimate(captured.dump, options.device)
    reserve, peak = estimate["reserve_bytes"], estimate["original"]["arena_bytes"]
    size = peak + reserve
    print("%s on %s needs %s of the card: %s at the peak of the step, %s for context and libraries. %.1f ms a step." % (
        captured.dump["name"], options.device, _shown(size), _shown(peak), _shown(reserve),
        1e3 * estimate["original"]["latency_s"]))
    print("Every size from here on is of the card, context and libraries included; times are modelled.")
    print("\nWho holds it:")
    holders = _holders(estimate)[:10] + [("(context and libraries)", reserve)]
    for path, held in sorted(holders, key=lambda pair: -pair[1]):
        if held < size / 2000:
            continue
        print("  %5.1f %%  %-10s %s" % (100 * held / max(1, size), _shown(held), _module_name(path)))
    print("\nNot counted: communication buffers, the allocator's slack, what other code keeps.")
    if estimate["unsupported"]:
        print("Calls that the server does not know, which run as they are: they are not cut, and their time is a guess: " +
              ", ".join("%s (%d)" % (entry["operator"], entry["count"]) for entry in estimate["unsupported"]))
    if size <= options.fits:
        return _advise_room(captured, server, options, estimate)
    return _advise_remedies(step, args, captured, server, options, estimate)


def _advise_room(captured, server, options, estimate):
    """It fits; what a plan would free, for a larger batch or model."""
    size = estimate["original"]["arena_bytes"] + estimate["reserve_bytes"]
    print("\nIt fits %s as it is, and leaves %s: nothing has to be done." % (
        _shown(options.fits), _shown(options.fits - size)))
    print("\nWhat gives more room, for a larger batch or model, at 10 % more time at most:")
    try:
        point, plan, job = server.plan(captured.dump, options.device, {"latency_ratio": 1.10}, options.seconds)
    except ServerError as error:
        print("  not tried (%s)" % error)
        return 0
    if point["arena_bytes"] + estimate["reserve_bytes"] < size:
        _show_plan("", point, plan, job, server, options, estimate)
    else:
        print("  no smaller plan was found in %g s" % options.seconds)
    return 0


def _advise_remedies(step, args, captured, server, options, estimate):
    """All remedies; 0 where one of them fits, else 3."""
    size = estimate["original"]["arena_bytes"] + estimate["reserve_bytes"]
    if options.fits <= estimate["reserve_bytes"]:
        print("\nContext and libraries alone take %s: nothing done to the step makes it fit %s. Exit status 3." % (
            _shown(estimate["reserve_bytes"]), _shown(options.fits)))
        return 3
    print("\nIt does not fit %s: %s too much. Remedies, least effort first:" % (
        _shown(options.fits), _shown(size - options.fits)))
    found = [remedy(step, args, captured, server, options, estimate)
             for remedy in (_advise_microbatch, _advise_checkpoint, _advise_plan)]
    fitting = [(ratio, i) for i, (needs, ratio) in enumerate(found, 1) if needs and needs <= options.fits]
    if fitting:
        ratio, i = min(fitting)
        print("\nFastest that fits: %d (%s), time x %.2f" % (i, REMEDIES[i - 1], ratio))
        return 0
    least = min(needs for needs, _ in found + [(size, 1)] if needs)
    print("\nNo remedy that was tried fits %s: the smallest needs %s. Exit status 3." % (_shown(options.fits), _shown(least)))
    print("Combine them, search longer (--seconds), or make batch or model smaller.")
    return 3


REMEDIES = ("micro-batches", "checkpoints", "the plan")


def _verdict(size, options):
    return "fits" if size <= options.fits else "does not fit"


# Each returns the bytes on the card that it came to, None where it could not be tried, and its time as a multiple of the
# step's; and says what to paste only where that helps.

def _norms(modules):
    """Batch norm among them that goes by the batch that it sees."""
    return [part for part in modules if isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and (
        part.training or part.running_mean is None)]


def _advise_microbatch(step, args, captured, server, options, whole):
    for parts in (2, 4, 8, 16):
        with _micro_batch(captured, parts) as cut:
            if cut is None:
                break
            part = capture(step, *cut, name=captured.dump["name"])
        estimate = server.estimate(part.dump, options.device)
        size = estimate["original"]["arena_bytes"] + estimate["reserve_bytes"]
        if size <= options.fits or parts == 16:
            ratio = parts * estimate["original"]["latency_s"] / whole["original"]["latency_s"]
            print("  1. %d micro-batches: %s, time x %.2f; %s" % (parts, _shown(size), ratio, _verdict(size, options)))
            if size <= options.fits:
                print("     Divide the loss by %d and step the optimizer once%s." % (
                    parts, "; batch norm then sees smaller batches" if _norms(_modules(captured)) else ""))
            return size, ratio
    print("  1. micro-batches: the batch cannot be cut further")
    return None, 0


MOST_BLOCKS = 24  # that are tried one by one


def _with_checkpoints(step, args, captured, server, options, paths):
    """(bytes on the card, seconds) of the step with those modules checkpointed."""
    with _checkpointed(captured, paths):
        again = capture(step, *args, name=captured.dump["name"])
    estimate = server.estimate(again.dump, options.device)
    return estimate["original"]["arena_bytes"] + estimate["reserve_bytes"], estimate["original"]["latency_s"]


def _ranked_blocks(estimate, captured):
    """Blocks that hold anything at the peak, those that hold most first."""
    held = {path: 0 for path in _blocks(captured)}
    for value in estimate["hot"]:
        for path in held:
            if (value.get("module", "") + ".").startswith(path + "."):
                held[path] += value["bytes"]
    return sorted((path for path in held if held[path]), key=lambda path: -held[path])


def _advise_checkpoint(step, args, captured, server, options, estimate):
    """Each block by itself, and how many of them are needed, the best first."""
    whole, seconds = estimate["original"]["arena_bytes"] + estimate["reserve_bytes"], estimate["original"]["latency_s"]
    paths = _ranked_blocks(estimate, captured)[:MOST_BLOCKS]
    try:
        if not paths:
            raise CaptureError("no sequence of modules was found")
        alone = {path: _with_checkpoints(step, args, captured, server, options, [path]) for path in paths}
        paths.sort(key=lambda path: (alone[path][0] - whole) / max(alone[path][1] - seconds, 1e-4 * seconds))
        few, many = 0, len(paths)  # fewer do not fit; many are the least that fit, or all
        found = {many: _with_checkpoints(step, args, captured, server, options, paths)}
        while found[len(paths)][0] <= options.fits and many - few > 1:
            middle = (few + many) // 2
            found[middle] = _with_checkpoints(step, args, captured, server, options, paths[:middle])
            few, many = (few, middle) if found[middle][0] <= options.fits else (middle, many)
    except (CaptureError, ServerError) as error:
        print("  2. checkpoint modules: not tried (%s)" % str(error).split("\n")[0])
        return None, 0
    if min(size for size, _ in list(found.values()) + list(alone.values())) > 0.999 * whole:
        print("  2. checkpoint modules: checkpointing gains nothing here")
        return None, 0
    size, time = found[many]
    print("  2. checkpoint %d module%s: %s, time x %.2f; %s. Each by itself:" % (
        many, "" if many == 1 else "s", _shown(size), time / seconds, _verdict(size, options)))
    for i, path in enumerate(paths):
        print("       %-9s time x %.3f  %s%s" % (_shown(alone[path][0]), alone[path][1] / seconds, _module_name(path),
                                               "" if i < many else "  (not needed)"))
    if size <= options.fits:
        _show_checkpoints(captured, paths[:many])
    return size, time / seconds


PLAIN_CHECKPOINT = """\
from torch.utils.checkpoint import checkpoint
def again(block):
    block.forward = lambda *a, f=block.forward, **k: checkpoint(f, *a, use_reentrant=False, **k)
"""
# Run twice, batch norm would update its running statistics twice: the second time it works on copies of them.
NORM_CHECKPOINT = """\
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint
def again(block):
    forward, norms = block.forward, [part for part in block.modules() if isinstance(part, _BatchNorm)]
    def call(*args, **kwargs):
        calls = []
        def run(*args, **kwargs):
            kept = [dict(norm._buffers) for norm in norms]
            if calls:  # once more: running statistics stay as the first time left them
                for norm in norms:
                    norm._buffers.update({key: b if b is None else b.clone() for key, b in norm._buffers.items()})
            calls.append(1)
            try:
                return forward(*args, **kwargs)
            finally:
                for norm, buffers in zip(norms, kept):
                    norm._buffers.update(buffers)
        return checkpoint(run, *args, use_reentrant=False, **kwargs)
    block.forward = call
"""


def _show_checkpoints(captured, paths):
    """The lines to paste."""
    blocks = [m for m in _modules(captured) if captured.state.modules.get(id(m)) in set(paths)]
    norms = _norms(part for block in blocks for part in block.modules())
    print("     Lines to paste after the model is made%s:" % (
        " (a checkpoint alone updates the running statistics\n     of batch norm twice a step; these lines do it once)"
        if norms else ""))
    for line in (NORM_CHECKPOINT if norms else PLAIN_CHECKPOINT).splitlines():
        print("       " + line)
    for path in paths:
        print("       again(model.get_submodule(%s))" % json.dumps(path))


def _show_plan(number, point, plan, job, server, options, estimate):
    """What the plan needs, and where it fits how to apply it; its bytes on the card."""
    size = point["arena_bytes"] + estimate["reserve_bytes"]
    print("  %sa plan (%s, host %s): %s, time x %.2f; %s" % (
        number, ", ".join(point["techniques"]) or "as it is", _shown(point["host_bytes"]), _shown(size),
        point["latency_s"] / estimate["original"]["latency_s"], _verdict(size, options)))
    if size <= options.fits:
        _write(options.plan, plan)
        print("     It lies in %s; magis_apply.py is at %s/clients/magis_apply.py. To apply it:" % (options.plan, server.url))
        print("       import magis_apply")
        print("       step = magis_apply.load(%s)(step)" % json.dumps(options.plan))
    print("     All plans that were found: %s/ui/#/jobs/%s" % (server.url, job))
    return size


def _advise_plan(step, args, captured, server, options, estimate):
    point, plan, job = server.plan(captured.dump, options.device, {"memory_bytes": options.fits}, options.seconds)
    size = _show_plan("3. ", point, plan, job, server, options, estimate)
    return size, point["latency_s"] / estimate["original"]["latency_s"]


# ---- the command line ----

def _load(target):
    path, _, name = target.rpartition(":")
    if not path:
        raise CaptureError("name the step as FILE.py:FUNCTION")
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
    if spec is None or not os.path.exists(path):
        raise CaptureError("there is no file %s" % path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except SystemExit as error:
        raise CaptureError("%s ends the program while it is loaded: let it do that, and its training, under "
                           "if __name__ == \"__main__\"" % path) from error
    except Exception as error:
        raise _failure("%s cannot be loaded" % path, error) from error
    step, inputs = getattr(module, name, None), getattr(module, "example_inputs", ())
    if not callable(step) or inspect.iscoroutinefunction(step) or inspect.isgeneratorfunction(step):
        raise CaptureError("%s has no function '%s' that does a step when it is called" % (path, name))
    try:
        inputs = inputs() if callable(inputs) else inputs
    except Exception as error:
        raise _failure("example_inputs() fails", error) from error
    inputs = tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)
    try:
        inspect.signature(step).bind(*inputs)
    except (TypeError, ValueError) as error:
        raise CaptureError("%s() does not take what example_inputs gives (%s): let a function example_inputs() in %s return "
                           "its arguments as a tuple" % (name, error, path)) from error
    return step, inputs


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description="Captures a PyTorch training step and says how to make it fit.",
        epilog="Exit status: 0 done, and with --fits it fits or a remedy does; 2 it could not be captured, or the server "
               "said no; 3 with --fits: no remedy that was tried fits.")
    parser.add_argument("step", help="FILE.py:FUNCTION; its arguments come from example_inputs in the same file")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the captured step there (.json or .json.gz)")
    parser.add_argument("--fits", type=_bytes, metavar="SIZE", help="memory of the card: 24GB")
    parser.add_argument("--url", default=os.environ.get("MAGISD_URL", URL), help="magisd's address (%(default)s)")
    parser.add_argument("--token", default=os.environ.get("MAGISD_TOKEN"), help="where the server wants one")
    parser.add_argument("--device", default="rtx3090", help="device profile (%(default)s)")
    parser.add_argument("--seconds", type=_seconds, default=30, help="search time (%(default)s)")
    parser.add_argument("--plan", default="plan.json", metavar="FILE", help="where the plan goes (%(default)s)")
    options = parser.parse_args(arguments)
    try:
        with _autocast_noticed():
            step, args = _load(options.step)
            captured = capture(step, *args, name=os.path.splitext(os.path.basename(options.step.rpartition(":")[0]))[0])
        if not any(node["op"] not in ("placeholder", "constant") for node in captured.dump["nodes"]):
            raise CaptureError("the step computes nothing with tensors")
        print("captured %d calls, digest %s" % (len(captured.dump["nodes"]), captured.digest[:16]))
        if options.output:
            _write(options.output, captured.dump)
        if not options.output and not options.fits:
            print("Nothing was kept: --fits SIZE (of the card, such as --fits 24GB) says how to make it fit, -o FILE.json "
                  "writes the captured step.")
        return _advise(step, args, captured, _Server(options.url, options.token), options) if options.fits else 0
    except (CaptureError, ServerError) as error:
        print("magis_capture: %s" % error, file=sys.stderr)
        return 2


def _main():
    """main(), for a reader of the output that may leave."""
    try:
        status = main()
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(_main())
