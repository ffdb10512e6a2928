"""Workers and intake that die, by kill -9 in the middle of a job, or hang.
Nothing that was shown is lost, and the job goes on by itself."""
import contextlib
import json
import os
import re
import signal
import threading
import time

from libcrash import GRAPH, check_nothing_lost, ended, front, in_time, job, job_body, shown
from libe2e import Daemon, Tests, children, wait_until


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


def at_work(daemon):
    """The jobs whose workers have shown that they search."""
    running = [running["id"] for running in daemon.get("/jobs?state=running").json["jobs"]]
    return [i for i in running if job(daemon, i)["progress"]["evaluations"] > 0]


def never_claims(daemon, seconds):
    end = time.time() + seconds
    while time.time() < end:
        if children(daemon, "worker"):
            return False
        time.sleep(0.05)
    return True


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
    # one that is told to stop before it listens has done no job
    for running in wait_until(lambda: at_work(daemon)):
        daemon.post("/jobs/%s/cancel" % running)
    t.equal("it ended as it should: ready", wait_until(lambda: daemon.get("/readyz").status == 200, 20), True)
    t.check("all workers are used again", wait_until(lambda: len(children(daemon, "worker")) == 2, 20))
    events = [line["event"] for line in daemon.log_lines()]
    t.equal("the log says so", (events.count("claiming-stopped"), events.count("claiming-resumed")), (1, 1))
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
    # until the daemon knows that both are dead, the next question may go to the other one
    wait_until(lambda: len(set(children(daemon, "intake")) - set(pids)) == 2)
    return results


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


tests = Tests()
tests.run(test_worker_killed, test_resumes_from_its_plans, test_worker_killed_twice, test_evaluations_start_over,
          test_deaths_stop_claiming, test_intake_killed, test_worker_hangs)
tests.end()
