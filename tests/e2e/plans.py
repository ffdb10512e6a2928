"""Plans measured as wholes: asked for by people, executed by agents, shown by the front; nothing is lost on the way."""
import json
import os
import signal
import subprocess
import time

from libe2e import MAGISD, Daemon, Tests, wait_until
from libproxy import between

SEARCH = {"zoo": {"model": "mlp", "batch": 2048, "hidden": 256}, "training": {"loss": "mse", "optimizer": "sgd"},
          "device": "rtx3090", "budget": {"evaluations": 200}}


def start_agent(name, *more, device="cpu", log=subprocess.PIPE, address=None, **environment):
    return subprocess.Popen([MAGISD, "agent", "--server", "http://" + (address or daemon.address), "--device", device, "--name", name,
                             "--duty", "100", *more], stdout=subprocess.PIPE, stderr=log, text=True,
                            env={**os.environ, **environment})


def run_agent(name, *more, **others):
    agent = start_agent(name, "--once", *more, **others)
    out, err = agent.communicate(timeout=120)
    return agent.returncode, out, err


def front():
    return daemon.get("/jobs/%s/pareto" % job["id"]).json


def point(plan):
    known = front()
    return next(p for p in [known["original"]] + known["pareto"] if p["plan"] == plan)


def measurements(plan):
    return daemon.get("/jobs/%s/plans/%s/measure" % (job["id"], plan)).json["measurements"]


def ask(plan, device="any"):
    return daemon.post("/jobs/%s/plans/%s/measure" % (job["id"], plan), {"device": device})


def setup(t):
    global daemon, job
    daemon = Daemon("--workers", "1")
    job = daemon.post("/optimize?wait=60", SEARCH).json
    t.equal("searched", job["state"], "succeeded")
    t.check("several plans", len(front()["pareto"]) >= 3, front())


def test_asking(t):
    known = front()
    t.equal("all modelled", {p["basis"] for p in known["pareto"] + [known["original"]]}, {"model"})
    t.equal("nothing measured", [p["measured"] for p in known["pareto"]], [None] * len(known["pareto"]))
    etag = daemon.get("/jobs/%s/pareto" % job["id"]).headers["ETag"]
    wish = daemon.post("/jobs/%s/plans/best/measure" % job["id"], {})
    t.check("a wish", wish.status == 202 and wish.json["state"] == "wanted" and wish.json["plan"] == job["best"]["plan"], wish)
    t.equal("the devices of the profile", wish.json["devices"], daemon.get("/devices/rtx3090").json["profile"]["gpu_names"])
    again = daemon.post("/jobs/%s/plans/best/measure" % job["id"], {})
    t.equal("asked twice, wanted once", again.json["number"], wish.json["number"])
    t.equal("the front says so", point(job["best"]["plan"])["measuring"], "wanted")
    t.check("and is another one", daemon.get("/jobs/%s/pareto" % job["id"]).headers["ETag"] != etag)
    t.equal("not by this agent", run_agent("wrong")[1].endswith(" 0 plans executed\n"), True)
    ask("1")
    code, out, err = run_agent("idea", device="model:h200")
    t.check("nor, for any device, by a model", code == 0 and out.endswith(" 0 plans executed\n")
            and measurements("1")[0]["state"] == "wanted", (code, out, err))
    t.equal("it is done by a device", run_agent("right")[1].endswith(" 1 plans executed\n"), True)
    t.equal("still wanted", measurements("best")[0]["state"], "wanted")
    for path, body, status, problem in (("best", {"device": 3}, 422, "invalid-request"), ("best", {"x": 1}, 422, "invalid-request"),
                                        ("best", {"device": ""}, 422, "invalid-request"), ("best", {"device": "class:xyz"}, 422, "invalid-request"),
                                        ("best", {"device": "class:0123456789ABCDEF"}, 422, "invalid-request"),
                                        ("best", {"device": "class:0123456789abcdef"}, 422, "invalid-request"), ("best", "", 202, ""),
                                        ("99", {}, 404, "plan-not-found"), ("ffffffffffffffff", {}, 404, "plan-not-found")):
        answer = daemon.request("POST", "/jobs/%s/plans/%s/measure" % (job["id"], path), body)
        t.equal("%s %s" % (path, body), (answer.status, answer.problem), (status, problem))
    bare = daemon.raw(b"POST /jobs/%s/plans/best/measure HTTP/1.1\r\nHost: localhost\r\n\r\n" % job["id"].encode())
    t.check("without body and type", bare.startswith(b"HTTP/1.1 202") and b'"number":%d,' % wish.json["number"] in bare, bare)
    t.check("nobody has such a device", wish.json["agents"] == 0 and "magisd agent" in wish.json["note"], wish)
    known = ask("1").json
    devices = [a for a in daemon.get("/agents").json["agents"] if a["class"]["key"].get("backend") != "model"]
    t.check("any will do, but no model", known["agents"] == len(devices) > 0 and "note" not in known, known)
    run_agent("wrong")
    t.equal("no such job", daemon.post("/jobs/aaaaaaaaaaaa/plans/best/measure", {}).status, 404)
    t.equal("nobody knows it", daemon.post("/measurements/claims", {"agent": "nobody"}).status, 404)


def test_measured(t):
    for plan in ("best", "original"):
        t.equal("asked", ask(plan).status, 202)
    code, out, err = run_agent("one")
    t.check("the agent ends well", code == 0 and out.endswith(" 2 plans executed\n"), (code, out, err))
    for plan in (job["best"]["plan"], front()["original"]["plan"]):
        p = point(plan)
        m = p["measured"]
        t.equal("measured", (p["basis"], m["state"], m["agent"]), ("measured", "done", "one"))
        t.check("on a device", m["device"] and len(m["class"]) == 16 and m["host"], m)
        t.check("times", m["runs"] >= 3 and m["latency_s"] > 0 and m["mad_s"] >= 0 and m["sum_of_operators_s"] > 0, m)
        t.equal("the peak is what the plan says", m["peak_bytes"], p["peak_bytes"])
        t.equal("and the arena", (m["arena_bytes"], m["host_bytes"]), (p["arena_bytes"], p["host_bytes"]))
    t.equal("the others are as they were", sum(p["basis"] == "model" for p in front()["pareto"]) > 0, True)
    agents = [a for a in daemon.get("/agents").json["agents"] if a["name"] == "one"]
    wish = ask("1", "class:" + agents[0]["class"]["id"]).json
    t.equal("which agents have", wish["agents"] >= 1, True)
    other = ask("1", "class:0123456789abcdef")
    t.equal("a class that nobody has", (other.status, other.json["pointer"]), (422, "/device"))
    run_agent("one")
    states = {m["number"]: m["state"] for m in measurements("1")}
    t.equal("a class is named", states[wish["number"]], "done")


def test_failed(t):
    profile = dict(daemon.get("/devices/rtx3090").json["profile"], name="card", gpu_names=["model:rtx3090"])
    t.equal("profile", daemon.request("PUT", "/devices/card", profile).status, 200)
    t.equal("asked", ask("1", "model:rtx3090").status, 202)
    code, out, err = run_agent("paper", device="model:rtx3090")
    failed = [m for m in measurements("1") if m["devices"] == ["model:rtx3090"]][0]
    t.check("what cannot run says why", code == 0 and failed["state"] == "failed" and failed["reason"], (code, err, failed))
    answer = daemon.post("/measurements", {"agent": "one", "number": failed["number"], "state": "done", "latency_s": 1})
    t.equal("not by another", (answer.status, answer.problem), (409, "conflict"))
    for body, pointer in (({"number": 1, "state": "done"}, "/agent"), ({"agent": "one", "number": 1, "state": "new"}, "/state"),
                          ({"agent": "one", "state": "failed"}, "/number"), ({"agent": "one", "number": 1, "state": "done"}, "/latency_s"),
                          ({"agent": "one", "number": 1, "state": "done", "latency_s": 1, "peak_bytes": -1}, "/peak_bytes")):
        answer = daemon.post("/measurements", body)
        t.equal("wrong %s" % pointer, (answer.status, answer.json.get("pointer")), (422, pointer))


def test_agent_killed(t):
    """An agent that dies between claim and answer gets its plan back; what is answered twice is there once."""
    number = ask("2").json["number"]
    claim = daemon.post("/measurements/claims", {"agent": "one"}).json
    t.equal("leased", (claim["measurement"]["number"], claim["measurement"]["state"]), (number, "measuring"))
    t.equal("to nobody else", daemon.post("/measurements/claims", {"agent": "wrong"}).json["measurement"], None)
    agent = start_agent("one")
    t.check("picked up", wait_until(lambda: measurements("2")[0]["state"] == "done"), measurements("2"))
    agent.kill()
    agent.communicate()
    done = measurements("2")[0]
    again = daemon.post("/measurements", {"agent": "one", "number": number, "state": "done", "latency_s": 5})
    t.equal("the first answer stands", (again.status, again.json["latency_s"]), (200, done["latency_s"]))


def slow_job():
    """One whose plans run for long: they take seconds each on any processor."""
    return daemon.post("/optimize?wait=60", {"zoo": {"model": "mlp", "batch": 32768, "hidden": 2048},
                                             "training": {"loss": "mse", "optimizer": "sgd"}, "device": "rtx3090",
                                             "budget": {"evaluations": 1}}).json["id"]


def test_told_to_stop(t):
    """An agent that is told to stop, or whose time is over, ends in the midst of a plan and gives it back."""
    path = "/jobs/%s/plans/original/measure" % slow_job()
    wish = daemon.post(path, {"device": "any"}).json
    state = lambda: daemon.get(path).json["measurements"][0]
    for name, more in (("told", ()), ("timed", ("--max-seconds", "3"))):
        agent = start_agent(name, *more)
        t.check(name + ": at it", wait_until(lambda: state()["state"] == "measuring"), state())
        if name == "told":
            time.sleep(1)
            agent.send_signal(signal.SIGTERM)
        out, err = agent.communicate(timeout=60)
        t.check(name + ": ends", agent.returncode == 0 and out.endswith(" 0 plans executed\n"), (agent.returncode, out, err))
        t.equal(name + ": anybody may have it", (state()["number"], state()["state"], state()["agent"]),
                (wish["number"], "wanted", ""))
    t.equal("deleted", daemon.request("DELETE", "/jobs/" + path.split("/")[2]).status, 204)


def test_short_leases(t):
    """A plan whose runs outlast its lease has failed; one whose lease nobody told is given back."""
    answers = []

    def change(path, body, answer):
        """Claims lease for `lease_s`; what is measured is kept."""
        if path == "/measurements":
            answers.append(json.loads(body))
        if path == "/measurements/claims" and answer.status == 200:
            return json.dumps({k: v for k, v in dict(answer.json, lease_s=lease_s).items() if v is not None})
        return None

    with between(daemon, change) as address:
        for lease_s, state, reason in ((30, "failed", "longer than an agent may hold"), (None, "wanted", "")):
            answers.clear()
            number = ask("2").json["number"]
            agent = start_agent("one", address=address)
            wait_until(lambda: answers)
            agent.send_signal(signal.SIGTERM)
            agent.communicate(timeout=60)
            first = (answers or [{}])[0]
            t.check("a lease of %s" % lease_s, (first.get("number"), first.get("state")) == (number, state)
                    and reason in first.get("reason", ""), first)
    t.check("another agent measures it", run_agent("one")[0] == 0
            and {m["number"]: m["state"] for m in measurements("2")}[number] == "done", measurements("2"))


def test_job_deleted(t):
    """The job goes while its plan is measured: the agent drops the answer and goes on."""
    other = daemon.post("/optimize?wait=60", SEARCH).json["id"]
    path = "/jobs/%s/plans/best/measure" % other
    number = daemon.post(path, {"device": "any"}).json["number"]
    states = lambda: [m["state"] for m in daemon.get(path).json["measurements"] if m["number"] == number]
    agent = start_agent("one")
    t.check("at it", wait_until(lambda: states() == ["measuring"]), states())
    worker = int(subprocess.run(["pgrep", "-P", str(agent.pid)], capture_output=True, text=True).stdout)
    os.kill(worker, signal.SIGSTOP)
    t.equal("still at it", states(), ["measuring"])
    t.equal("deleted", daemon.request("DELETE", "/jobs/%s" % other).status, 204)
    os.kill(worker, signal.SIGCONT)
    number = ask("2").json["number"]
    t.check("the next one is measured", wait_until(lambda: {m["number"]: m["state"] for m in measurements("2")}[number] == "done"))
    agent.send_signal(signal.SIGTERM)
    out, err = agent.communicate(timeout=60)
    t.check("and one answer was dropped", agent.returncode == 0 and "/measurements: no measurement" in err
            and out.endswith(" 1 plans executed\n"), (agent.returncode, out, err))


def test_daemon_killed(t):
    """kill -9 of the daemon while the agent works: the wish and every acknowledged answer are there."""
    kept = {m["number"]: m for m in measurements("best") + measurements("1")}
    wanted = [ask(str(k), "any").json["number"] for k in range(1, min(len(front()["pareto"]), 6))]
    port = daemon.address
    log = open(os.path.join(daemon.home, "agent"), "w+")
    agent = start_agent("one", "--max-seconds", "60", log=log)
    states = lambda: [m["state"] for k in range(1, 6) if k < len(front()["pareto"]) for m in measurements(str(k)) if m["number"] in wanted]
    done = lambda: sum(s == "done" for s in states())
    t.check("at it", wait_until(lambda: any(s != "wanted" for s in states())), states())
    for _ in range(3):
        before, said = done(), os.path.getsize(log.name)
        daemon.stop(signal.SIGKILL)
        daemon.listen = port
        t.check("the agent has missed it", before == len(wanted) or wait_until(lambda: os.path.getsize(log.name) > said))
        daemon.start()
        now = {m["number"]: m for m in measurements("best") + measurements("1")}
        t.check("what was acknowledged stays", all(now.get(n) == m for n, m in kept.items() if m["state"] == "done"))
        t.check("and the work goes on", wait_until(lambda: done() > before or done() == len(wanted)), states())
    t.check("all are measured in the end", wait_until(lambda: done() == len(wanted)), states())
    agent.send_signal(signal.SIGTERM)
    agent.wait(timeout=100)
    log.close()
    t.equal("the agent outlives the daemon", agent.returncode, 0)


def test_reused(t):
    other = daemon.post("/optimize?wait=60", SEARCH).json
    known = daemon.get("/jobs/%s/pareto" % other["id"]).json
    t.equal("reused", other["reused_from"], job["id"])
    t.check("with what was measured", known["original"]["basis"] == "measured", known["original"])
    t.equal("deleted with its job", daemon.request("DELETE", "/jobs/%s" % other["id"]).status, 204)


def test_tokens(t):
    made = lambda name, role: subprocess.run([MAGISD, "token", "add", name, "--role", role, "--data", daemon.data],
                                             capture_output=True, text=True).stdout.strip()
    reader, meter, writer = made("reader", "read"), made("meter", "measure"), made("writer", "submit")
    path = "/jobs/%s/plans/1/measure" % job["id"]
    bearer = lambda token: {"Authorization": "Bearer " + token}
    t.equal("a reader may look", daemon.request("GET", path, headers=bearer(reader)).status, 200)
    t.equal("but not ask", daemon.request("POST", path, {}, headers=bearer(reader)).status, 403)
    t.equal("who submits may ask", daemon.request("POST", path, {"device": "any"}, headers=bearer(writer)).status, 202)
    t.equal("but not claim", daemon.request("POST", "/measurements/claims", {"agent": "x"}, headers=bearer(writer)).status, 403)
    code, out, err = run_agent("metered", MAGISD_TOKEN=meter)
    t.check("an agent with its token measures", code == 0 and out.endswith(" 1 plans executed\n"), (code, out, err))


tests = Tests()
tests.run(setup, test_asking, test_measured, test_failed, test_agent_killed, test_told_to_stop, test_short_leases, test_job_deleted, test_daemon_killed, test_reused, test_tokens)
tests.equal("stops", daemon.close(), 0)
tests.end()
