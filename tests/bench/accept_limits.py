"""What a limit buys: by evaluations, never by seconds, a search that is told its limit against one that is not.

    accept_limits.py [NETWORK ...]

Each figure is a mean over seeds: the peak within 1.10 times the latency (share of the original's), and the latency
(times the original's) within a share of the memory. Ends with 1 where knowing the limit made the answer worse."""
import json
import os
import subprocess
import sys

LATENCY = 1.10
NETWORKS = {  # evaluations, share of the original's peak
    "resnet50": (60000, 0.15),
    "unet": (60000, 0.3),
    "vit-base-16": (120000, 0.12),
    "bert-base": (200000, 0.15),
}
SEEDS = (1, 2, 3)


def front(network, evaluations, seed, limit):
    command = [os.environ["MAGISD"], "optimize", "zoo:" + network, "--training", "loss=mse,optimizer=sgd",
               "--evaluations", str(evaluations), "--seed", str(seed), "--json"] + limit
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)["pareto"]


def peak(points, latency):
    return min(p["memory_ratio"] for p in points if p["latency_ratio"] <= latency * (1 + 1e-9))


def latency(points, memory):
    return min((p["latency_ratio"] for p in points if p["memory_ratio"] <= memory * (1 + 1e-9)), default=float("inf"))


def mean(figures):
    return sum(figures) / len(figures)


def main():
    worse = 0
    print("%-14s %34s %34s" % ("", "peak at latency <= %.2f" % LATENCY, "latency at a share of the peak"))
    print("%-14s %17s %16s %17s %16s" % ("", "no limit", "limit", "no limit", "limit"))
    for network in sys.argv[1:] or NETWORKS:
        evaluations, share = NETWORKS[network]
        free, by_latency, by_memory = ([front(network, evaluations, seed, limit) for seed in SEEDS] for limit in
                                       ([], ["--latency-ratio", str(LATENCY)], ["--memory-ratio", str(share)]))
        peaks = [mean([peak(points, LATENCY) for points in fronts]) for fronts in (free, by_latency)]
        times = [mean([latency(points, share) for points in fronts]) for fronts in (free, by_memory)]
        worse += (peaks[1] > peaks[0]) + (times[1] > times[0])
        print("%-14s %17.4f %16.4f %10.4f at %.2f %15.4f" % (network, *peaks, times[0], share, times[1]), flush=True)
    return 1 if worse else 0


sys.exit(main())
