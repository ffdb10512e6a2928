"""What a worker takes to plan the largest network of the zoo: the most memory that it ever held (VmHWM) in a job of 20
seconds. Exit status 1 where that is more than the limit."""
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from libe2e import Daemon, children, wait_until  # noqa: E402

NETWORK, SECONDS, LIMIT = "btlm-3b", 20, 500e6


def held(pid):
    """Bytes that a process held at its highest; 0: it has ended."""
    try:
        with open("/proc/%d/status" % pid) as status:
            found = re.search(r"^VmHWM:\s*(\d+) kB", status.read(), re.M)
    except OSError:
        return 0
    return 1024 * int(found[1]) if found else 0


def most_held(daemon, variant):
    """By the job's worker until it ended, and how many evaluations that made."""
    job = daemon.post("/optimize", {"zoo": {"model": NETWORK, "variant": variant}, "training": {"loss": "mse", "optimizer": "sgd"},
                                    "budget": {"seconds": SECONDS}}).json["id"]
    worker, = wait_until(lambda: children(daemon, "worker"), step=0.01) or sys.exit("%s: no worker was started" % variant)
    most = 0
    while now := held(worker):
        most = now
        time.sleep(0.01)
    ended = daemon.get("/jobs/%s?wait=60" % job).json
    if ended["state"] != "succeeded" or ended["attempts"] != 1:
        sys.exit("%s: the job has not succeeded at once: %s" % (variant, ended))
    return most, ended["progress"]["evaluations"]


missed = 0
daemon = Daemon("--workers", "1", "--quiet")
try:
    for variant in ("paper", "real"):
        most, evaluations = most_held(daemon, variant)
        missed += most > LIMIT
        print("%s worker: %.0f MB (at most %.0f): %s; %s variant, %d evaluations" % (
            NETWORK, most / 1e6, LIMIT / 1e6, "MISSED" if most > LIMIT else "ok", variant, evaluations), flush=True)
finally:
    daemon.close()
sys.exit(missed > 0)
