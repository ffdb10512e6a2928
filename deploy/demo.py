"""See demo.sh."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

SECONDS = float(os.environ.get("MAGISD_DEMO_SECONDS", "20"))
REQUEST = {
    "name": "demo: BERT, one training step",
    "labels": {"from": "demo"},
    "zoo": {"model": "bert-base", "batch": 32, "seq_len": 512, "variant": "paper"},
    "training": {"loss": "squared", "optimizer": "sgd"},
    "device": "rtx3090",
    "budget": {"seconds": SECONDS, "seed": 1},
}


def free_port(wanted):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
            return wanted
        except OSError:
            return 0


class Daemon:
    def __init__(self, program, home):
        address = os.path.join(home, "address")
        self.log = open(os.path.join(home, "log"), "w+")
        self.process = subprocess.Popen(
            [program, "serve", "--listen", "127.0.0.1:%d" % free_port(8080), "--data", os.path.join(home, "data"),
             "--port-file", address], stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        while not os.path.exists(address):
            if self.process.poll() is not None:
                sys.exit("The daemon did not start:\n" + open(self.log.name).read())
            time.sleep(0.02)
        self.url = "http://" + open(address).read().strip()

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            sys.exit("%s: %s" % (path, error.read().decode()))

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait()


def size(count):
    return "%.2f GB" % (count / 1e9) if count >= 1e8 else "%.1f MB" % (count / 1e6)


def show_need(estimate):
    original = estimate["original"]
    print("%s (the paper's variant), batch %d, %d tokens each: %d operators" % (
        estimate["graph"]["name"], REQUEST["zoo"]["batch"], REQUEST["zoo"]["seq_len"],
        estimate["graph"]["operators"]))
    print("One training step on a %s needs %s and takes %.3f s (modelled)." % (
        estimate["device"], size(original["peak_bytes"]), original["latency_s"]))
    print("What holds the memory at its peak:")
    for group in estimate["hot_groups"][:8]:
        print("  %10s  %s%s" % (size(group["bytes"]), group["name"],
                                "  (%d of them)" % group["count"] if group["count"] > 1 else ""))
    print("No plan can need less than %s: %s." % (
        size(estimate["lower_bound_bytes"]), estimate["lower_bound_operator"] or "what must be there at once"))


def follow(daemon, job):
    wide = 32
    live = sys.stdout.isatty()
    while True:
        now = daemon.ask("/jobs/" + job)
        progress = now["progress"]
        ended = now["state"] in ("succeeded", "failed", "cancelled")
        full = wide if ended else min(wide, int(progress["fraction"] * wide))
        line = "[%s%s] %8d states tried, %4.0f s%s" % (
            "#" * full, "." * (wide - full), progress["evaluations"], progress["elapsed_s"],
            ", best so far %s" % size(now["best"]["peak_bytes"]) if now["best"] else "")
        if live:
            print("\r%-78s" % line, end="\n" if ended else "", flush=True)
        elif ended:
            print(line)
        if ended:
            return now
        time.sleep(0.25)


def smallest(points, ratio):
    fitting = [point for point in points if point["latency_ratio"] <= ratio + 1e-9]
    return min(fitting, key=lambda point: point["peak_bytes"]) if fitting else None


def means(timeline):
    words = []
    for region in timeline["regions"][:2]:
        words.append("%d operators in %d parts" % (region["operators"], region["parts"]))
    more = len(timeline["regions"]) - 2
    if more > 0:
        words.append("%d more split region%s" % (more, "s" if more > 1 else ""))
    if timeline["recomputed"]:
        words.append("%d recomputed" % len(timeline["recomputed"]))
    if timeline["swapped"]:
        words.append("%d parked on the host" % len(timeline["swapped"]))
    return ", ".join(words) or "a better order alone"


def show_result(daemon, job, pareto):
    original = pareto["original"]
    by_hand = [point for baseline in pareto["baselines"] if baseline["name"] == "microbatch"
               for point in baseline["points"]] + [original]
    print("\n%-16s %-22s %-18s %s" % ("extra time", "magisd", "cut by hand", "by which means"))
    for percent in (0, 5, 10):
        ratio = 1 + percent / 100
        point, hand = smallest(pareto["pareto"], ratio), smallest(by_hand, ratio)
        if not point:
            continue
        timeline = daemon.ask("/jobs/%s/plans/%s/timeline" % (job["id"], point["plan"]))
        share = 100 * point["peak_bytes"] / original["peak_bytes"]
        print("up to %2d %%        %-22s %-18s %s" % (
            percent, "%s (%.0f %%)" % (size(point["peak_bytes"]), share), size(hand["peak_bytes"]), means(timeline)))
    print("\nThe independent checker accepted %d plans and refused %d." % (
        job["checked"]["accepted"], job["checked"]["rejected"]))


def show_best(daemon, job, stays):
    """The last that is read: which plan, what it needs, how to get it."""
    best, original, page = job["best"], job["original"], job["html_url"]
    print("The daemon runs until Ctrl-C." if stays else
          "The daemon of this demo ends now; without MAGISD_DEMO_EXIT=1 it stays, and its page and plans with it.")
    if stays:
        print("\nThe run's page: %s" % (daemon.url + page if page.startswith("/") else page))
        print("The answer as a file: curl -s %s/jobs/%s/plans/best > plan.json" % (daemon.url, job["id"]))
    print("\nNo limit was given, so the answer is the smallest plan that takes at most 10 %% longer: plan %s\n"
          "needs %s instead of %s (%.0f %%) and takes %+.1f %% time." % (
              best["plan"], size(best["peak_bytes"]), size(original["peak_bytes"]), 100 * best["memory_ratio"],
              100 * (best["latency_ratio"] - 1)), flush=True)


def stop_by_signal(number, frame):
    sys.exit(128 + number)


def main():
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop_by_signal)
    home = tempfile.mkdtemp(prefix="magisd-demo-")
    daemon = Daemon(sys.argv[1], home)
    try:
        show_need(daemon.ask("/estimate", {key: value for key, value in REQUEST.items()}))
        print("\nSearching for %g s ..." % SECONDS)
        job = follow(daemon, daemon.ask("/optimize", REQUEST)["id"])
        if job["state"] != "succeeded":
            sys.exit("The job %s: %s" % (job["state"], json.dumps(job["error"])))
        show_result(daemon, job, daemon.ask("/jobs/%s/pareto" % job["id"]))
        stays = os.environ.get("MAGISD_DEMO_EXIT") != "1"
        show_best(daemon, job, stays)
        if stays:
            daemon.process.wait()
    except KeyboardInterrupt:
        print()
    finally:
        daemon.stop()
        daemon.log.close()
        shutil.rmtree(home, ignore_errors=True)


main()
