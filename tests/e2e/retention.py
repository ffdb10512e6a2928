"""What is kept and for how long: the store's size, pins, the newest of a label, and a disk that is nearly full."""
import os
import time

from libe2e import Daemon, Tests, wait_until


def body(seed, **more):
    return {"zoo": {"model": "mlp"}, "training": {"loss": "squared", "optimizer": "sgd"},
            "budget": {"evaluations": 300, "seed": seed}, **more}


def submit(daemon, seed, **more):
    answer = daemon.post("/optimize?wait=30", body(seed, **more))
    return answer.json["id"] if answer.status == 200 else None


def test_size(t):
    daemon = Daemon("--workers", "1", "--max-store", "0", "--quiet")
    labelled = [submit(daemon, seed, labels={"branch": "main"}) for seed in range(2)]
    pinned = submit(daemon, 10)
    daemon.request("PUT", "/jobs/%s/pin" % pinned)
    plain = [submit(daemon, seed) for seed in range(20, 45)]
    t.check("all end", all(labelled + plain) and pinned)
    t.equal("all are kept without a limit", len(daemon.get("/jobs?limit=200").json["jobs"]), 28)
    daemon.stop()
    # the file is as large as it ever was: what counts is what is used
    used = os.path.getsize(os.path.join(daemon.data, "store.db"))
    limit = int(used * 0.6)
    daemon.options = ("--workers", "1", "--max-store", str(limit), "--quiet")
    daemon.start()

    def left():
        return {job["id"] for job in daemon.get("/jobs?limit=200").json["jobs"]}
    t.check("the oldest go", wait_until(lambda: plain[0] not in left()), left())
    time.sleep(0.5)
    kept = left()
    gone = [job for job in plain if job not in kept]
    t.equal("oldest first", gone, plain[:len(gone)])
    t.check("not more than needed", 0 < len(gone) < len(plain), gone)
    t.check("the newest stays", plain[-1] in kept)
    t.check("pinned jobs stay", pinned in kept)
    t.check("the newest of a label stays", labelled[1] in kept)
    t.check("an older one of it does not", labelled[0] not in kept)
    t.equal("gone is gone", daemon.get("/jobs/" + gone[0]).status, 404)
    t.equal("with its front", daemon.get("/jobs/%s/pareto" % gone[0]).status, 404)
    t.equal("the kept are whole", daemon.get("/jobs/%s/plans/best" % plain[-1]).status, 200)
    t.equal("stops cleanly", daemon.close(), 0)


def test_full_disk(t):
    daemon = Daemon("--workers", "1")
    long = daemon.post("/optimize", body(1, zoo={"model": "bert-base", "batch": 8}, budget={"seconds": 600})).json["id"]
    t.check("it runs", wait_until(lambda: daemon.get("/jobs/" + long).json["state"] == "running"))
    t.equal("stops cleanly", daemon.stop(), 0)
    daemon.options = ("--workers", "1", "--min-free", "1000000000000000")
    daemon.start()
    answer = daemon.post("/optimize", body(2))
    t.equal("no new jobs", (answer.status, answer.problem), (507, "no-space"))
    t.equal("an estimate stores nothing", daemon.post("/estimate", body(2)).status, 200)
    t.check("unfinished ones go on", wait_until(lambda: daemon.get("/jobs/" + long).json["state"] == "running"))
    daemon.post("/jobs/%s/cancel" % long)
    t.check("and end", wait_until(lambda: daemon.get("/jobs/" + long).json["state"] == "cancelled"))
    retry = daemon.post("/jobs/%s/retry" % long)
    t.equal("a retry is a new job", (retry.status, retry.problem), (507, "no-space"))
    t.equal("stops cleanly", daemon.close(), 0)


tests = Tests()
tests.run(test_size, test_full_disk)
tests.end()
