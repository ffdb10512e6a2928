"""The daemon that dies or is stopped in the middle of a job, and a store or disk that is not what it was.
Nothing that was shown is lost, and the job goes on by itself."""
import contextlib
import errno
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

from libcrash import GRAPH, check_nothing_lost, ended, front, in_time, job, job_body, shown
from libe2e import Daemon, Tests, children, wait_until


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


def fill(path):
    """Takes all space of the file system, of which others may take some meanwhile."""
    with open(path, "wb") as file:
        while free := os.statvfs(os.path.dirname(path)).f_bavail:
            try:
                return os.posix_fallocate(file.fileno(), 0, free * os.fstatvfs(file.fileno()).f_frsize)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


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
    t.check("metrics tell", "magisd_jobs_put_off_total 5" in daemon.get("/metrics").text)
    t.check("they wait", wait_until(lambda: all((job(daemon, i)["state"], job(daemon, i)["attempts"]) == ("queued", 0)
                                                for i in ids), 20))
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
        fill(ballast)
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


tests = Tests()
tests.run(test_daemon_killed, test_drain, test_validating, test_interrupt_from_a_terminal, test_stopped_while_it_starts,
          test_store_replaced, test_no_place_for_the_spool, test_disk_full, test_class_and_a_damaged_store)
tests.end()
