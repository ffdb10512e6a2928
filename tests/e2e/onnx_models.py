"""ONNX models that nobody here wrote, against the figures that ONNX Runtime gives for them: a folder holds *.onnx and
reference.jsonl (for each model: dims, sum, L2 norm, extremes and first values of each output, or the error with which
that runtime refuses it; of half precision, their bits as whole numbers). The reference executor gives these figures, and a plan of each model is accepted, executes and
gives the same; or the refusal says all that is in the way. Small models are in tests/data/onnx; MAGIS_ONNX_MODELS names
another folder, from which also large ones are run. MAGIS_FILTER_MODEL picks models by a part of their names."""
import json
import math
import os
import struct
import subprocess
import tempfile

from libe2e import MAGISD, Tests

SMALL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "onnx")
FOLDER = os.environ.get("MAGIS_ONNX_MODELS", SMALL)
ONLY = os.environ.get("MAGIS_FILTER_MODEL", "")
home = tempfile.mkdtemp(prefix="magisd-onnx-models-", dir=os.environ.get("MAGIS_TMP"))

# What is refused, and the words that must be in the reason.
REFUSED = {
    "odd_loop": ["Loop", "known only at run time"],  # its rounds depend on an input
    "odd_overridable_initializer": ["F2", "string"],
    "odd_unbounded_dds": ["Range", "known only at run time"],  # its size depends on an input
    "trt_attention_head": ["mm1", "do not multiply"],  # so says that runtime too
}


def run(*arguments):
    return subprocess.run([MAGISD, *arguments], capture_output=True, text=True, timeout=1200)


def symbols_of(model):
    """Sizes of the dimensions that the file leaves open, as the figures were made with."""
    pairs = ["%s.%d=%d" % (name, d, given["dims"][d]) for name, given in model.get("inputs", {}).items()
             for d, declared in enumerate(given["declared"]) if not isinstance(declared, int)]
    return ["--symbols", ",".join(pairs)] if pairs else []


def tolerance(model):
    kinds = {v["type"] for v in [*model.get("inputs", {}).values(), *(model.get("outputs") or {}).values()]}
    return 2e-2 if "float16" in kinds else 2e-4


def half(bits):
    return struct.unpack("<e", struct.pack("<H", int(bits)))[0]


def in_numbers(want):
    """Figures of bits as figures of numbers; the norm of the bits says nothing of theirs."""
    if want["type"] != "float16":
        return want
    return {**want, "l2": None, "min": half(want["min"]), "max": half(want["max"]), "head": list(map(half, want["head"]))}


def difference(got, want, most):
    """What differs, or None. Each element may be off by a share `most` of the largest, and by what single precision
    loses where a small number comes out of a sum with one (a sigmoid of -18)."""
    if list(got["dims"]) != list(want["dims"]):
        return "dims %r, must be %r" % (got["dims"], want["dims"])
    if got["nan"] != want.get("nan", 0):
        return "%d not numbers, must be %d" % (got["nan"], want.get("nan", 0))
    scale, lost = max(abs(want["min"] or 0), abs(want["max"] or 0)), 1.2e-7
    for key, count in (("l2", math.prod(want["dims"])), ("min", 1), ("max", 1)):
        bound = most * max(scale, abs(want[key] or 0)) + lost * math.sqrt(count)
        if want[key] is not None and abs(got[key] - want[key]) > bound:
            return "%s %.9g, must be %.9g" % (key, got[key], want[key])
    for a, b in zip(got["head"], want["head"]):
        if b is not None and abs(a - b) > most * scale + lost:
            return "begins %r, must begin %r" % (got["head"], want["head"])
    return None


def plan_of(path, options):
    plan = os.path.join(home, os.path.basename(path) + ".json")
    answer = run("optimize", path, *options, "--evaluations", "30", "--json", "-o", plan)
    if answer.returncode not in (0, 3):
        return None, answer.stderr.strip()
    report = json.loads(answer.stdout)
    return plan, "%d operators, peak %.2f" % (report["graph"]["operators"], report["best"]["memory_ratio"] or 1)


def judge(t, model):
    """A line of the table: name, outcome, remarks."""
    name, path = model["model"], os.path.join(FOLDER, model["model"] + ".onnx")
    options = symbols_of(model)
    plan, remark = plan_of(path, options)
    if not plan:
        words = REFUSED.get(name)
        t.check("%s is taken in" % name, words is not None, remark)
        t.check("%s: the reason is whole" % name, all(w in remark for w in words or []), remark)
        return name, "refused", remark
    t.check("%s is refused no longer" % name, name not in REFUSED)
    answer = run("run", path, plan, *options, "--fill", "lcg", "--json")
    if not t.check("%s runs" % name, answer.returncode == 0, answer.stderr):
        return name, "fails", answer.stderr.strip()
    got = json.loads(answer.stdout)["outputs"]
    wrong = [n for n, o in got.items() if not o["error"] <= 1e-6]
    t.check("%s: the plan computes the same" % name, not wrong, {n: got[n]["error"] for n in wrong})
    differences = {n: difference(got[n], in_numbers(want), tolerance(model)) if n in got else "is missing"
                   for n, want in (model.get("outputs") or {}).items()}
    differences = {n: d for n, d in differences.items() if d}
    t.check("%s: the figures of ONNX Runtime" % name, not differences, differences)
    figures = "differs" if differences else "equal" if model.get("outputs") else "no figures"
    return name, figures, remark


def test_models(t):
    models = [json.loads(line) for line in open(os.path.join(FOLDER, "reference.jsonl"))]
    for model in models:
        if ONLY in model["model"]:
            print("%-40s %-10s %s" % judge(t, model), flush=True)


if __name__ == "__main__":
    tests = Tests()
    if FOLDER == SMALL:
        print("SKIPPED: MAGIS_ONNX_MODELS names no folder; only the small models of tests/data/onnx are run")
    tests.run(test_models)
    tests.end()
