"""Captured PyTorch steps run part by part (regions of plans): the same loss, gradients and updates, and the peak that the
plan says. Left out, loudly, where there is no PyTorch (make deps-torch)."""
import json
import os
import re

from libsteps import HERE, TMP, Deep, Grouped, Residual, Transformer, compare, cut_plans_of, plans_of, step_of
from libe2e import Tests

import torch
import torch.nn as nn

import magis_apply
import magis_capture

# a slow processor beside a fast memory: cutting costs little
DEVICE = {"name": "small", "sm_count": 82, "peak_flops": {"f32": 1e9}, "mem_bw": 1e8, "launch_s": 1e-6,
          "link_bw_d2h": 1e8, "link_bw_h2d": 1e8, "link_latency_s": 1e-7, "memory_bytes": 1 << 30, "align": 64,
          "reserve_bytes": 0}


def kinds_of(path):
    """What a plan has: kinds of steps, "in region: KIND" for copies there, nested regions, parts that differ, repeats."""
    plan = json.load(open(path))
    kinds, depth, ran = set(), 0, set()
    for step in plan["steps"]:
        depth += (step["do"] == "begin") - (step["do"] == "end")
        kinds.add(("in region: " if depth and step["do"] in ("store", "load") else "") + step["do"])
        if step["do"] == "compute":
            kinds |= {"in region: repeat" if depth else "repeat"} if step["op"] in ran else set()
            ran.add(step["op"])
    kinds |= {"nested"} if any(region["parent"] for region in plan["regions"]) else set()
    return kinds | ({"uneven"} if any(r["length"] % (len(r["bounds"]) - 1) for r in plan["regions"]) else set())


def device_file():
    path = os.path.join(TMP, "device.json")
    json.dump(DEVICE, open(path, "w"))
    return path


def networks():
    deep = Deep()
    yield "transformer", Transformer(), (torch.randint(11, (7, 6)), torch.randint(5, (7,))), None
    yield "grouped", Grouped(), (torch.randn(5, 3, 16, 16), torch.randint(5, (5,))), None
    yield "residual", Residual(), (torch.randn(4, 3, 32, 32), torch.randint(5, (4,))), None
    yield "deep", deep, (torch.randn(9, 7, 16), torch.randint(5, (9,))), torch.optim.SGD(deep.parameters(), 0.1)


def test_random_regions(t):
    """Of every form that the model allows."""
    seen = set()
    for seed, (name, model, data, optimizer) in enumerate(networks()):
        step = step_of(model, optimizer)
        captured = magis_capture.capture(step, *data, name=name)
        for path in cut_plans_of(captured.dump, seed + 1, 8):
            seen |= kinds_of(path)
            compare(t, "%s, %s" % (name, os.path.basename(path)), model, data, step, captured, path)
    for kind in ("slice", "join", "acc", "nested", "in region: store", "in region: load"):
        t.check("some plan has: " + kind, kind in seen, seen)


def test_searched_regions(t):
    """Those that the search chooses; with recomputation and copies inside the parts."""
    seen, model = set(), Deep()
    data = torch.randn(33, 7, 16), torch.randint(5, (33,))
    step = step_of(model, torch.optim.SGD(model.parameters(), 0.1))
    captured = magis_capture.capture(step, *data, name="deep")
    for options in (["--no-swap", "--no-remat"], []):
        for path in plans_of(captured.dump, "--device", device_file(), *options)[1][::3]:
            seen |= kinds_of(path)
            compare(t, "deep%s, %s" % ("".join(options), os.path.basename(path)), model, data, step, captured, path)
    for kind in ("acc", "nested", "uneven", "in region: store", "in region: load", "in region: repeat"):
        t.check("some searched plan has: " + kind, kind in seen, seen)


def peak_of(function):
    """The most bytes that PyTorch's allocator has handed out at a time."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        function()
    live = peak = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    return peak


def test_peak(t):
    """What the allocator hands out falls as far as the plan says."""
    model, data = Deep(), (torch.randn(256, 7, 16), torch.randint(5, (256,)))
    step = step_of(model)
    captured = magis_capture.capture(step, *data, name="deep")
    paths = plans_of(captured.dump, "--device", device_file(), "--no-swap")[1]

    def clear():
        for parameter in model.parameters():
            parameter.grad = None
    step(*data)
    clear()
    eager = peak_of(lambda: step(*data))
    for path in (paths[0], paths[len(paths) // 2]):
        plan, planned = json.load(open(path)), magis_apply.load(path)(step)
        given = sum(plan["storages"][i["storage"]]["bytes"] for i in plan["instances"]
                    if i["made_by"] is None and "view" not in i)
        planned(*data)  # traces
        clear()
        measured, told = peak_of(lambda: planned(*data)), plan["figures"]["peak_bytes"] - given
        clear()
        print("peak beside what was given: %d bytes eager, %d by the plan, %d told" % (eager, measured, told))
        t.check("the peak is the plan's", 0.9 * told < measured < 1.3 * told, (eager, measured, told))
        t.check("and well under the eager one's", measured < 0.5 * eager, (eager, measured, told))
    t.check("the smallest takes a tenth", told > 0 and peak_of(lambda: magis_apply.load(paths[0])(step)(*data)) < eager / 5)


def test_dropout(t):
    """Masks are drawn part by part, from the caller's seed."""
    torch.manual_seed(3)
    model, data = nn.Sequential(nn.Linear(8, 64), nn.Dropout(0.5), nn.Linear(64, 5)), (torch.randn(40, 8),
                                                                                       torch.randint(5, (40,)))
    step = step_of(model)
    captured = magis_capture.capture(step, *data, name="dropout")
    for path in cut_plans_of(captured.dump, 5, 8):
        losses = set()
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            losses.add(float(magis_apply.load(path)(step)(*data)))
        t.equal("seeds decide: " + os.path.basename(path), len(losses), 2)


def test_every_operator_is_known(t):
    """Whatever a captured call becomes can be run."""
    table = open(os.path.join(HERE, "..", "..", "core", "formats", "aten.def")).read()
    made = {name.lower() for name in re.findall(r'^ATEN\("[^"]+", "[^"]+", \w+, (\w+),', table, re.M)}
    inline = {"dropout", "fill", "iota", "eye", "bernoulli", "random_normal", "random_uniform"}  # need more than operands
    t.check("the table was read", len(made) > 80, len(made))
    t.equal("operators without a kernel", sorted(made - set(magis_apply.KERNELS) - inline), [])


tests = Tests()
tests.run(test_every_operator_is_known, test_random_regions, test_searched_regions, test_peak, test_dropout)
tests.end()
