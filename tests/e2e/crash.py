"""Processes that die: workers, intake and the daemon itself, by kill -9 in the middle of a job.
Nothing that was shown is lost, and the job goes on by itself."""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from libe2e import Daemon, Tests, children, wait_until

# A process that is killed while it looks for leaks leaves a report that says so.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"

GRAPH = {"zoo": {"model": "bert-base", "batch": 8, "seq_len": 128, "layers": 2, "variant": "paper"},
         "training": {"loss": "squared", "optimizer": "sgd"}}

# A segmentation fault is sent on purpose below: no news for a sanitizer.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":handle_segv=0"

# Workers run at the lowest priority: where others hold the processors, seconds mean nothing.
STARVED = os.getloadavg()[0] > 1.5 * (os.cpu_count() or 1)


def in_time(job, seconds):
    return STARVED or job["progress"]["elapsed_s"] < seconds


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


def test_worker_killed(t):
    daemon = Daemon("--workers", "1")
    job_id = daemon.post("/optimize", job_body()).json["id"]
    plans = shown(daemon, job_id)
    t.check("a front is shown", plans)
    before = job(daemon, job_id)
    os.kill(wait_until(lambda: children(daemon, "worker"))[0], signal.SIGKILL)
    wait_until(lambda: job(daemon, job_id)["attempts"] == 2)
    check_nothing_lost(t, daemon, job_id, plans)
    done = ended(daemon, job_id)
    t.equal("goes on by itself", (done["state"], done["attempts"]), ("succeeded", 2))
    t.check("not reproducible", done["reproducible"] is False)
    t.check("no time given twice", in_time(done, 6 + 4), done["progress"])
    t.check("time was counted", done["progress"]["elapsed_s"] >= before["progress"]["elapsed_s"], done["progress"])
    check_nothing_lost(t, daemon, job_id, plans)
    t.equal("the log says so", [line["event"] for line in daemon.log_lines()].count("worker-died"), 1)
    t.equal("stops cleanly", daemon.close(), 0)


def test_worker_hangs(t):
    """A worker that is stopped stands for one that loops for ever."""
    daemon = Daemon("--workers", "1", "--silence-seconds", "2")
    by_count = {**GRAPH, "budget": {"evaluations": 10000000}}
    for body, word in ((by_count, "no sign"), (job_body(3), "search time is over")):
        job_id = daemon.post("/optimize", body).json["id"]
        plans = shown(daemon, job_id)
        for attempt in (1, 2):
            worker = wait_until(lambda: job(daemon, job_id)["attempts"] == attempt and children(daemon, "worker"))[0]
            os.kill(worker, signal.SIGSTOP)
            wait_until(lambda: not os.path.exists("/proc/%d" % worker), 120)
            t.check("it is ended", not os.path.exists("/proc/%d" % worker))
        done = ended(daemon, job_id)
        t.equal("counts as other deaths", (done["state"], done["attempts"]), ("failed", 2))
        t.equal("says what it was", (done["error"]["type"], "neither ended nor showed progress" in done["error"]["detail"]),
                ("/errors/worker-died", True))
        check_nothing_lost(t, daemon, job_id, plans)
        told = [line for line in daemon.log_lines() if line["event"] == "worker-killed" and job_id in str(line)]
        t.check("the log says why", len(told) == 2 and all(word in str(line) for line in told), told)
    answer = daemon.post("/optimize?wait=60", {**GRAPH, "budget": {"evaluations": 20, "seed": 9}})
    t.equal("the next one runs", ended(daemon, answer.json["id"])["state"], "succeeded")
    t.equal("stops cleanly", daemon.close(), 0)


def test_store_replaced(t):
    daemon = Daemon("--workers", "1")
    path, away = os.path.join(daemon.data, "store.db"), os.path.join(daemon.data, "away.db")
    body = {**GRAPH, "budget": {"evaluations": 20, "seed": 1}}
    first = daemon.post("/optimize?wait=60", body).json["id"]
    t.equal("healthy", daemon.get("/healthz").json, {"status": "ok"})
    os.rename(path, away)
    refused = daemon.post("/optimize", body)
    t.equal("no new jobs", (refused.status, refused.problem), (503, "store-failed"))
    t.check("says why", "removed or replaced" in refused.json["detail"], refused.json)
    open(path, "w").close()
    health = daemon.get("/healthz")
    t.equal("alive, but degraded", (health.status, health.json["status"]), (200, "degraded"))
    ready = daemon.get("/readyz")
    t.check("not ready", ready.status == 503 and "replaced" in ready.json["why"], ready)
    t.equal("what is there is read", daemon.get("/jobs/" + first).status, 200)
    os.rename(away, path)
    t.check("put back it goes on", wait_until(lambda: daemon.post("/optimize", body).status in (200, 202), 10))
    t.equal("healthy again", wait_until(lambda: daemon.get("/healthz").json == {"status": "ok"}, 10), True)
    events = [line["event"] for line in daemon.log_lines()]
    t.equal("the log says so", (events.count("store-lost"), events.count("store-back")), (1, 1))
    daemon.stop()
    daemon.start()
    t.equal("nothing is damaged", daemon.get("/jobs/" + first).json["state"], "succeeded")
    os.unlink(path + "-wal")
    t.check("its log is missed too", wait_until(lambda: daemon.get("/healthz").json["status"] == "degraded", 10))
    os.unlink(path)
    t.equal("stops cleanly", daemon.close(), 0)


@contextlib.contextmanager
def small_disk(size):
    """A file system of its own; None where one cannot be mounted."""
    folder = tempfile.mkdtemp(prefix="magisd-disk-")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%d" % size, "tmpfs", folder], capture_output=True)
    try:
        yield folder if mounted.returncode == 0 else None
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", "-l", folder])  # a child that dies slowly may still hold it
        os.rmdir(folder)


def fill(path, leave):
    """Takes the space of the file system but for `leave` bytes."""
    disk = os.statvfs(os.path.dirname(path))
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, disk.f_bavail * disk.f_frsize - leave))


def said(daemon, event):
    return [str(line) for line in daemon.log_lines() if line["event"] == event]


def test_no_place_for_the_spool(t):
    """That no worker can be started is not the jobs' fault: they wait, tried now and then, and go on by themselves."""
    daemon = Daemon("--workers", "1", "--pause-seconds", "3")
    spool = os.path.join(daemon.data, "spool")
    shutil.rmtree(spool, ignore_errors=True)
    with open(spool, "w"):
        pass
    ids = [daemon.post("/optimize", {**GRAPH, "budget": {"evaluations": 20, "seed": seed}}).json["id"] for seed in range(4)]
    t.check("no more are tried at once", wait_until(lambda: daemon.get("/readyz").status == 503, 40))
    tried = said(daemon, "worker-start")
    t.equal("five in all", len(tried), 5)
    t.check("the log says what it is", all(spool in line and "not a directory" in line for line in tried), tried)
    t.equal("they wait", [(job(daemon, i)["state"], job(daemon, i)["attempts"]) for i in ids], [("queued", 0)] * 4)
    t.check("metrics tell", "magisd_jobs_put_off_total 5" in daemon.get("/metrics").text)
    os.unlink(spool)
    t.equal("they go on by themselves", [(done["state"], done["attempts"]) for done in (ended(daemon, i, 90) for i in ids)],
            [("succeeded", 1)] * 4)
    t.equal("ready again", daemon.get("/readyz").status, 200)
    t.equal("stops cleanly", daemon.close(), 0)


def test_disk_full(t):
    with small_disk(24 << 20) as folder:
        if not folder:
            print("SKIPPED: no small disk can be mounted here (it takes root); that a full disk is named is not tested")
            return
        daemon = Daemon("--workers", "1", "--min-free", "0", data=os.path.join(folder, "data"))
        job_id = daemon.post("/optimize", job_body(30)).json["id"]
        plans = shown(daemon, job_id)
        ballast = os.path.join(folder, "ballast")
        fill(ballast, 0)
        told = wait_until(lambda: said(daemon, "worker-error"), 60)
        t.check("the cause is named, and what to do", told and "No space left" in told[0] and "free space" in told[0], told)
        time.sleep(1)
        t.check("it has not failed", job(daemon, job_id)["state"] in ("queued", "running"), job(daemon, job_id))
        os.unlink(ballast)
        done = ended(daemon, job_id, 150)
        t.check("it goes on by itself", done["state"] == "succeeded" and done["attempts"] > 1, done)
        check_nothing_lost(t, daemon, job_id, plans)
        again = daemon.post("/optimize?wait=60", {**GRAPH, "budget": {"evaluations": 20, "seed": 2}})
        t.equal("the next one runs", ended(daemon, again.json["id"])["state"], "succeeded")
        t.equal("stops cleanly", daemon.stop(), 0)


def test_class_and_a_damaged_store(t):
    """That the store cannot answer is not said to be the fault of who asked."""
    daemon = Daemon("--workers", "1")
    body = {**GRAPH, "device": "class:0123456789abcdef"}
    unknown = daemon.post("/optimize", body)
    t.equal("no such class", (unknown.status, unknown.problem), (422, "invalid-request"))
    daemon.stop()
    daemon.start()
    path = os.path.join(daemon.data, "store.db")
    with open(path, "r+b") as file:
        size = os.path.getsize(path)
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))
    damaged = daemon.post("/optimize", body)
    t.equal("the store fails", (damaged.status, damaged.problem), (503, "store-failed"))
    daemon.stop(signal.SIGKILL)
    shutil.rmtree(daemon.home, ignore_errors=True)


def points_of(daemon, job_id):
    return [(p["latency_s"], p["peak_bytes"]) for p in daemon.get("/jobs/%s/pareto" % job_id).json["pareto"]]


def test_resumes_from_its_plans(t):
    """Killed late, it has hardly time left: what it says then must come from the plans it was handed."""
    daemon = Daemon("--workers", "1")
    seconds = 12
    job_id = daemon.post("/optimize", job_body(seconds)).json["id"]
    wait_until(lambda: job(daemon, job_id)["progress"]["elapsed_s"] > seconds - 4, 100)
    worker = wait_until(lambda: children(daemon, "worker"))
    shown_points = points_of(daemon, job_id)
    os.kill(worker[0], signal.SIGKILL)
    done = ended(daemon, job_id)
    t.equal("goes on by itself", (done["state"], done["attempts"]), ("succeeded", 2))
    last = points_of(daemon, job_id)
    near = 1.02  # of more than 64 points some are left out
    lost = [p for p in shown_points if not any(q[0] <= p[0] * near and q[1] <= p[1] * near for q in last)]
    t.equal("as good at every point shown", lost, [])
    t.check("a front was shown", len(shown_points) > 5, shown_points)
    went_on = re.search(r"went on from (\d+) of (\d+) plans", daemon.read_log())
    t.check("the worker took all of them up", went_on and went_on[1] == went_on[2] and int(went_on[1]) > 5, went_on)
    t.equal("stops cleanly", daemon.close(), 0)


def test_worker_killed_twice(t):
    daemon = Daemon("--workers", "1")
    job_id = daemon.post("/optimize", job_body()).json["id"]
    plans = shown(daemon, job_id)
    for attempt in (1, 2):
        wait_until(lambda: job(daemon, job_id)["attempts"] == attempt and children(daemon, "worker"))
        os.kill(children(daemon, "worker")[0], signal.SIGKILL)
        wait_until(lambda: job(daemon, job_id)["attempts"] > attempt or job(daemon, job_id)["state"] == "failed")
    done = ended(daemon, job_id)
    t.equal("fails", (done["state"], done["outcome"]), ("failed", None))
    t.equal("says how", (done["error"]["type"], done["error"]["signal"]), ("/errors/worker-died", 9))
    t.check("says what to do", "memory" in done["error"]["detail"] and "retry" in done["error"]["detail"], done["error"])
    t.check("stderr is there", "stderr" in done["error"], done["error"])
    check_nothing_lost(t, daemon, job_id, plans)
    again = daemon.post("/jobs/%s/retry" % job_id)
    t.equal("can be tried again", again.status, 202)
    daemon.post("/jobs/%s/cancel" % again.json["id"])
    t.equal("cancelled", ended(daemon, again.json["id"])["state"], "cancelled")
    t.equal("stops cleanly", daemon.close(), 0)


def test_evaluations_start_over(t):
    daemon = Daemon("--workers", "1")
    body = {**GRAPH, "budget": {"evaluations": 40000, "seed": 5}, "fresh": True}
    first = daemon.post("/optimize?wait=20", body).json
    first = ended(daemon, first["id"])
    t.equal("ended", first["state"], "succeeded")
    second = daemon.post("/optimize", body).json["id"]
    if wait_until(lambda: children(daemon, "worker"), 5):
        os.kill(children(daemon, "worker")[0], signal.SIGKILL)
    second = ended(daemon, second)
    t.equal("both succeed", (first["state"], second["state"]), ("succeeded", "succeeded"))
    t.equal("the same front", front(daemon, first["id"]), front(daemon, second["id"]))
    t.equal("stops cleanly", daemon.close(), 0)


def kill_workers(daemon, times):
    for _ in range(times):
        worker = wait_until(lambda: children(daemon, "worker"))
        os.kill(worker[0], signal.SIGKILL)
        wait_until(lambda: worker[0] not in children(daemon, "worker"))


def kill_what_runs(daemon):
    """Workers that ran beside the last death, and those whose start was already under way."""
    quiet_since, end = time.time(), time.time() + 20
    while time.time() < min(quiet_since + 0.5, end):
        for pid in children(daemon, "worker"):
            quiet_since = time.time()
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def test_deaths_stop_claiming(t):
    daemon = Daemon("--workers", "2", "--pause-seconds", "4")
    for _ in range(7):
        daemon.post("/optimize", job_body(60))
    kill_workers(daemon, 5)
    wait_until(lambda: daemon.get("/readyz").status == 503, 5)
    t.equal("not ready", daemon.get("/readyz").status, 503)
    t.equal("alive", daemon.get("/healthz").status, 200)
    kill_what_runs(daemon)
    t.check("no worker is started", never_claims(daemon, 2))
    tried = wait_until(lambda: children(daemon, "worker"), 20)
    t.check("after a while one job is tried", tried)
    time.sleep(1.5)
    t.equal("one", children(daemon, "worker"), tried)
    t.equal("not ready yet", daemon.get("/readyz").status, 503)
    kill_workers(daemon, 1)
    t.check("it died: none is started", never_claims(daemon, 2))
    t.check("but another one later", wait_until(lambda: children(daemon, "worker"), 20))
    for running in daemon.get("/jobs?state=running").json["jobs"]:
        daemon.post("/jobs/%s/cancel" % running["id"])
    t.equal("it ended as it should: ready", wait_until(lambda: daemon.get("/readyz").status == 200, 20), True)
    t.check("all workers are used again", wait_until(lambda: len(children(daemon, "worker")) == 2, 20))
    events = [line["event"] for line in daemon.log_lines()]
    t.equal("the log says so", (events.count("claiming-stopped"), events.count("claiming-resumed")), (1, 1))
    t.equal("stops cleanly", daemon.close(), 0)


def never_claims(daemon, seconds):
    end = time.time() + seconds
    while time.time() < end:
        if children(daemon, "worker"):
            return False
        time.sleep(0.05)
    return True


def test_intake_killed(t):
    daemon = Daemon("--workers", "1")
    for pid in wait_until(lambda: len(children(daemon, "intake")) == 2 and children(daemon, "intake")):
        os.kill(pid, signal.SIGKILL)
    answer = daemon.post("/optimize?wait=20", {**GRAPH, "budget": {"evaluations": 50}})
    t.check("a body is read after intake died", answer.status in (200, 202), answer)
    t.equal("and the job runs", ended(daemon, answer.json["id"])["state"], "succeeded")
    t.check("intake is back", wait_until(lambda: len(children(daemon, "intake")) == 2))
    # With the body in its hands: stopped, so that it surely has not answered, then killed.
    results = kill_with_body(daemon, signal.SIGKILL)
    t.equal("killed from outside: asked again", [r.status for r in results], [200])
    results = kill_with_body(daemon, signal.SIGSEGV)
    t.equal("died on the body", [(r.status, r.problem) for r in results], [(422, "parser-failed")])
    t.check("the body is kept as it came", wait_until(lambda: kept_bodies(daemon) == [GRAPH["zoo"]]), kept_bodies(daemon))
    t.equal("the next one is read", daemon.post("/estimate", GRAPH).status, 200)
    t.equal("stops cleanly", daemon.close(), 0)


def kept_bodies(daemon):
    """The networks of the bodies that intake died of; a body is written beside the daemon's other work."""
    found = []
    for name in os.listdir(os.path.join(daemon.data, "crash")):
        with open(os.path.join(daemon.data, "crash", name)) as file:
            try:
                found.append(json.load(file)["zoo"])
            except ValueError:
                found.append(None)
    return found


def kill_with_body(daemon, number):
    pids = wait_until(lambda: len(children(daemon, "intake")) == 2 and children(daemon, "intake"))
    time.sleep(0.2)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    results = []
    asker = threading.Thread(target=lambda: results.append(daemon.post("/estimate", GRAPH)))
    asker.start()
    time.sleep(0.4)
    for pid in pids:
        os.kill(pid, number)
        if number != signal.SIGKILL:
            os.kill(pid, signal.SIGCONT)
    asker.join(20)
    wait_until(lambda: not set(pids) & set(children(daemon, "intake")))  # else the next question may go to the other one
    return results


def test_daemon_killed(t):
    daemon = Daemon("--workers", "1")
    job_id = daemon.post("/optimize", job_body(8, name="survivor", labels={"a": "b"})).json["id"]
    queued = daemon.post("/optimize", {**GRAPH, "budget": {"evaluations": 20, "seed": 3}}).json["id"]
    plans = shown(daemon, job_id)
    workers = wait_until(lambda: children(daemon, "worker"))
    daemon.stop(signal.SIGKILL)
    t.check("its workers die with it", wait_until(lambda: not any(os.path.exists("/proc/%d" % pid) for pid in workers), 5))
    daemon.start()
    now = job(daemon, job_id)
    t.check("the job is there", now["state"] in ("queued", "running"), now)
    t.equal("with its name", (now["name"], now["labels"]), ("survivor", {"a": "b"}))
    check_nothing_lost(t, daemon, job_id, plans)
    done = ended(daemon, job_id)
    t.equal("goes on by itself", (done["state"], done["attempts"]), ("succeeded", 2))
    t.check("no time given twice", in_time(done, 8 + 5), done["progress"])
    check_nothing_lost(t, daemon, job_id, plans)
    t.equal("so does the queued one", ended(daemon, queued)["state"], "succeeded")
    before = front(daemon, job_id)
    daemon.stop(signal.SIGKILL)
    daemon.start()
    t.equal("a finished result stays", front(daemon, job_id), before)
    t.equal("and its state", job(daemon, job_id)["state"], "succeeded")
    t.equal("stops cleanly", daemon.close(), 0)


def test_drain(t):
    daemon = Daemon("--workers", "1")
    job_id = daemon.post("/optimize", job_body(8)).json["id"]
    plans = shown(daemon, job_id)
    start = time.time()
    code = daemon.stop()
    t.equal("stops cleanly", code, 0)
    t.check("within seconds", time.time() - start < 12, time.time() - start)
    daemon.start()
    now = job(daemon, job_id)
    t.check("back in the queue, or running again", now["state"] in ("queued", "running"), now)
    t.check("the time spent is known", now["progress"]["elapsed_s"] > 0, now["progress"])
    check_nothing_lost(t, daemon, job_id, plans)
    done = ended(daemon, job_id)
    t.equal("goes on by itself", done["state"], "succeeded")
    t.check("with the time that was left", in_time(done, 8 + 5), done["progress"])
    check_nothing_lost(t, daemon, job_id, plans)
    t.equal("stops cleanly", daemon.close(), 0)


def test_validating(t):
    daemon = Daemon("--workers", "1")
    pids = wait_until(lambda: len(children(daemon, "intake")) == 2 and children(daemon, "intake"))
    time.sleep(0.2)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    start = time.time()
    good = daemon.post("/optimize", {**GRAPH, "name": "slow", "labels": {"k": "v"}, "budget": {"evaluations": 20}})
    t.equal("202 while intake is slow", (good.status, good.json["state"]), (202, "validating"))
    t.check("after two seconds", 1.5 < time.time() - start < 10, time.time() - start)
    bad = daemon.post("/optimize", {**GRAPH, "colour": 1})
    third = daemon.post("/optimize", {**GRAPH, "budget": {"evaluations": 21}})
    gone = daemon.post("/jobs/%s/cancel" % third.json["id"])
    t.equal("cancelled while validating", gone.json["state"], "cancelled")
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    done = ended(daemon, good.json["id"])
    t.equal("becomes a job", (done["state"], done["name"], done["labels"]), ("succeeded", "slow", {"k": "v"}))
    done = ended(daemon, bad.json["id"])
    t.equal("a bad one fails", (done["state"], done["error"]["type"], done["error"]["pointer"]),
            ("failed", "/errors/invalid-request", "/colour"))
    t.equal("cancelled it stays", job(daemon, third.json["id"])["state"], "cancelled")
    pids = children(daemon, "intake")
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    good = daemon.post("/optimize", {**GRAPH, "budget": {"evaluations": 22}})
    t.equal("validating", good.json["state"], "validating")
    daemon.stop(signal.SIGKILL)
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    daemon.start()
    t.equal("read again after the restart", ended(daemon, good.json["id"])["state"], "succeeded")
    t.equal("stops cleanly", daemon.close(), 0)


def test_interrupt_from_a_terminal(t):
    """Ctrl-C and a service manager tell every process of the group, not the daemon alone; a terminal that closes sends
    SIGHUP."""
    daemon = Daemon("--workers", "1")
    job_id = daemon.post("/optimize", job_body(60)).json["id"]
    for how in (signal.SIGINT, signal.SIGHUP, signal.SIGINT):
        wait_until(lambda: job(daemon, job_id)["state"] == "running" and job(daemon, job_id)["progress"]["evaluations"] > 0)
        for pid in children(daemon, "worker") + children(daemon, "intake"):
            os.kill(pid, signal.SIGINT)
        for pid in children(daemon, "intake"):
            os.kill(pid, signal.SIGTERM)
        t.equal("stops cleanly", daemon.stop(how), 0)
        t.equal("nobody died of it", [line["event"] for line in daemon.log_lines()
                                      if re.search("-died|-killed", line["event"])], [])
        daemon.start()
    wait_until(lambda: job(daemon, job_id)["state"] == "running")
    t.equal("the job goes on each time", job(daemon, job_id)["state"], "running")
    daemon.post("/jobs/%s/cancel" % job_id)
    t.equal("stops cleanly", daemon.close(), 0)


def test_stopped_while_it_starts(t):
    """A worker that does not listen yet when it is told to stop has not crashed."""
    daemon = Daemon("--workers", "1")
    job_id = daemon.post("/optimize", job_body(60, priority="interactive")).json["id"]
    for _ in range(6):
        wait_until(lambda: children(daemon, "worker"), 20, 0.001)
        t.equal("stops cleanly", daemon.stop(), 0)
        daemon.start()
    now = job(daemon, job_id)
    t.check("the job goes on", now["state"] in ("queued", "running"), now)
    t.check("nobody died", "worker-died" not in [line["event"] for line in daemon.log_lines()])
    daemon.post("/jobs/%s/cancel" % job_id)
    t.equal("stops cleanly", daemon.close(), 0)


tests = Tests()
tests.run(test_worker_killed, test_resumes_from_its_plans, test_worker_killed_twice, test_evaluations_start_over,
          test_deaths_stop_claiming, test_intake_killed, test_daemon_killed, test_drain, test_validating,
          test_interrupt_from_a_terminal, test_stopped_while_it_starts, test_worker_hangs, test_store_replaced, test_no_place_for_the_spool,
          test_disk_full,
          test_class_and_a_damaged_store)
tests.end()
