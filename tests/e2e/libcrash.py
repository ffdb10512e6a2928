"""What scripts share in which processes die in the middle of a job: what was shown, and whether it is still there."""
import os
import time

from libe2e import wait_until

# A process that is killed while it looks for leaks leaves a report that says so; a segmentation fault that is sent on purpose
# is no news for a sanitizer.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0:handle_segv=0"

GRAPH = {"zoo": {"model": "bert-base", "batch": 8, "seq_len": 128, "layers": 2, "variant": "paper"},
         "training": {"loss": "squared", "optimizer": "sgd"}}


def in_time(job, seconds):
    """Workers run at the lowest priority: where others hold the processors, seconds mean nothing."""
    starved = os.getloadavg()[0] > 1.5 * (os.cpu_count() or 1)
    return starved or job["progress"]["elapsed_s"] < seconds


def job_body(seconds=6, **more):
    return {**GRAPH, "budget": {"seconds": seconds, "seed": int(time.time() * 1000) % 1000000}, **more}


def job(daemon, job_id):
    return daemon.get("/jobs/" + job_id).json


def front(daemon, job_id):
    return [point["plan"] for point in daemon.get("/jobs/%s/pareto" % job_id).json["pareto"]]


def ended(daemon, job_id, seconds=200):
    end = time.time() + seconds
    now = job(daemon, job_id)
    while now["state"] not in ("succeeded", "failed", "cancelled") and time.time() < end:
        now = daemon.get("/jobs/%s?wait=20" % job_id).json
    return now


def shown(daemon, job_id, at_least=1):
    """The front once it has points."""
    wait_until(lambda: len(front(daemon, job_id)) >= at_least)
    return front(daemon, job_id)


def check_nothing_lost(t, daemon, job_id, plans):
    """Every plan that was ever listed is still there or says which one stands in its place."""
    now = front(daemon, job_id)
    lost = []
    for plan in plans:
        answer = daemon.get("/jobs/%s/plans/%s" % (job_id, plan))
        replaced = answer.json.get("replaced_by") if answer.status == 410 else None
        if answer.status != 200 and not (replaced in now):
            lost.append((plan, answer.status, replaced))
    t.equal("nothing shown is lost", lost, [])
