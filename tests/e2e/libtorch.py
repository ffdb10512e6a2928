"""Runs exported PyTorch modules in double precision: libtorch.py JOBS.json RESULTS.json, under a Python that has torch.

JOBS is a list of {"graph": file of a native graph, "modules": [files], "seed": of step(), "fill": normal or lcg}; the
result has for each module the summary of every output and updated value, by name, as `magisd run --json` prints them,
or an error. Tensors hold what `magisd run --fill FILL` draws for seed 1."""
import importlib.util
import json
import math
import sys

MASK = (1 << 64) - 1


def rotate(x, n):
    return (x << n | x >> (64 - n)) & MASK


class Random:
    """xoshiro256** from a splitmix64 seed, as core/base/digest.c."""

    def __init__(self, seed):
        self.s = []
        for _ in range(4):
            seed = (seed + 0x9E3779B97F4A7C15) & MASK
            z = seed
            z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
            z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
            self.s.append(z ^ z >> 31)

    def next(self):
        s = self.s
        result = rotate(s[1] * 5 & MASK, 7) * 9 & MASK
        t = s[1] << 17 & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotate(s[3], 45)
        return result

    def unit(self):
        return (self.next() >> 11) * 2.0 ** -53

    def normal(self):
        u, v = 1 - self.unit(), self.unit()
        return math.sqrt(-2 * math.log(u)) * math.cos(6.283185307179586 * v)


REAL = ("f64", "f32", "f16", "bf16")


def number(value, rng, i, lcg):
    if value["kind"] == "input" and lcg:
        if value["dtype"] in REAL:
            return ((i * 1103515245 + 12345) & 0x7FFFFFFF) / 2147483648.0 - 0.5
        return i % 2 if value["dtype"] == "bool" else 7 * i % 256 if value["dtype"] == "u8" else i % 3
    if value["dtype"] not in REAL:
        return rng.next() * 2 >> 64
    x = rng.normal()
    return abs(x) if value["kind"] == "state" else x


def dtypes(torch):
    real = {name: torch.float64 for name in REAL}
    return dict(real, i64=torch.int64, i32=torch.int32, i16=torch.int16, i8=torch.int8, u8=torch.uint8,
                bool=torch.bool)


def fill(torch, graph, how="lcg"):
    """(inputs, weights) by name."""
    inputs, weights, rng = {}, {}, Random(1)
    for value in graph["values"]:
        if value.get("kind", "computed") == "computed":
            continue
        data = [number(value, rng, i, how == "lcg") for i in range(math.prod(value["shape"]))]
        tensor = torch.tensor(data, dtype=dtypes(torch)[value["dtype"]]).reshape(tuple(value["shape"]))
        (inputs if value["kind"] == "input" else weights)[value["name"]] = tensor
    return inputs, weights


def summary(tensor):
    x = tensor.double().flatten()
    return {"dims": list(tensor.shape), "sum": x.sum().item(), "l2": x.norm().item(),
            "min": x.min().item() if x.numel() else 0, "max": x.max().item() if x.numel() else 0,
            "head": x[:8].tolist()}


def load(path):
    spec = importlib.util.spec_from_file_location("plan", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(torch, graph, filled, path, seed):
    module = load(path)
    module.DTYPE.update(dtypes(torch))
    inputs, weights = ({k: v.clone() for k, v in part.items()} for part in filled)
    given = len(inputs)
    outputs = module.step(inputs, weights, seed=seed, graph=module.GRAPH)
    results = {name: summary(x) for name, x in outputs.items()}
    for update in graph.get("updates", []):
        results[update["value"]] = summary(weights[update["weight"]])
    return {"results": results, "taken": given - len(inputs)}


def main():
    import torch
    torch.set_num_threads(1)
    answers = []
    for job in json.load(open(sys.argv[1])):
        graph = json.load(open(job["graph"]))
        filled = fill(torch, graph, job["fill"])
        for path in job["modules"]:
            try:
                answers.append(run(torch, graph, filled, path, job["seed"]))
            except Exception as error:
                answers.append({"error": "%s: %s" % (type(error).__name__, error)})
    with open(sys.argv[2], "w") as file:
        json.dump(answers, file)


if __name__ == "__main__":
    main()
