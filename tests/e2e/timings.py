"""The timing cache: posting, trust, claims, missing, revocation, prices of jobs, waiting for measurements, crashes."""
import json
import signal
import threading
import time

from libe2e import Daemon, Tests, wait_until

CLASS = {"backend": "test", "device": "Test Card", "driver": "1"}
NEAR = {"backend": "test", "device": "Test Card", "driver": "2"}
DAY = 24 * 3600 * 1000


def add_of(n):
    return "f32;f32[%d],f32[%d]->f32[%d]" % (n, n, n)


def row(number, op, signature, seconds, **more):
    return {"row": number, "op": op, "signature": signature, "n": 9, "median_s": seconds, "mad_s": seconds / 100,
            "min_s": seconds * 0.9, **more}


def batch(agent, name, rows, key=CLASS, **more):
    return {"agent": agent, "batch": name, "class": key, "host": "h-" + agent, "version": "1", "rows": rows, **more}


def listed(**query):
    return daemon.get("/timings?" + "&".join("%s=%s" % (k, str(v)) for k, v in query.items())).json["timings"]


def setup(t):
    global daemon
    daemon = Daemon("--workers", "2")
    profile = dict(daemon.get("/devices/rtx3090").json["profile"], name="test-card", gpu_names=["Test Card"])
    t.equal("a profile that names the device", daemon.request("PUT", "/devices/test-card", profile).status, 200)


def test_post(t):
    first = batch("a1", "b1", [row(0, "add", add_of(100), 6e-6), row(1, "add", add_of(200), 6e-6)])
    answer = daemon.post("/timings", first)
    t.equal("added", answer.json, {"added": 2, "known": 0, "suspect": 0, "unjudged": 0, "confirmed": 0, "generation": 1})
    t.equal("a retry adds nothing", daemon.post("/timings", first).json,
            {"added": 0, "known": 2, "suspect": 0, "unjudged": 0, "confirmed": 0, "generation": 1})
    more = dict(first, rows=first["rows"] + [row(2, "add", add_of(300), 6e-6)])
    answer = daemon.post("/timings", more).json
    t.equal("what is new of a known batch", (answer["added"], answer["known"], answer["generation"]), (1, 2, 2))
    lines = "\n".join(json.dumps(x) for x in (
        {k: v for k, v in batch("a2", "n1", []).items() if k != "rows"}, row(0, "add", add_of(100), 6.01e-6),
        {k: v for k, v in batch("a3", "n2", [], NEAR).items() if k != "rows"}, row(0, "relu", "f32;f32[7]->f32[7]", 5e-6),
        row(1, "sqrt", "f32;f32[7]->f32[7]", 0, status="unsupported")))
    answer = daemon.request("POST", "/timings", lines, {"Content-Type": "application/x-ndjson"})
    t.equal("lines", (answer.status, answer.json.get("added")), (200, 3))
    rows = listed(limit=100)
    t.equal("listed", sorted((r["agent"], r["batch"], r["row"]) for r in rows),
            [("a1", "b1", 0), ("a1", "b1", 1), ("a1", "b1", 2), ("a2", "n1", 0), ("a3", "n2", 0), ("a3", "n2", 1)])
    t.equal("pages", len(daemon.get("/timings?limit=2").json["timings"]), 2)
    nxt = daemon.get("/timings?limit=2").json["next"]
    t.equal("the next page", len(daemon.get("/timings?limit=100&after=%d" % nxt).json["timings"]), 4)
    exported = daemon.get("/timings?format=ndjson&limit=2000")
    other = Daemon()
    again = other.request("POST", "/timings", exported.data, {"Content-Type": "application/x-ndjson"})
    t.equal("what is exported goes in elsewhere", (again.status, again.json.get("added")), (200, 6))
    t.equal("and comes out the same", other.get("/timings?format=ndjson&limit=2000").data, exported.data)
    other.close()


def test_refused(t):
    good = row(0, "add", add_of(5), 1e-6)
    head = batch("a", "b", [])
    for name, pointer, body in (
            ("no agent", None, {k: v for k, v in head.items() if k != "agent"}), ("no class", "/class", {**head, "class": {}}),
            ("no text in the class", "/class/driver", {**head, "class": {"device": "d", "driver": 1}}),
            ("unknown member", "/colour", {**head, "colour": 1}), ("no time", "/canary/best_s", {**head, "canary": {"best_s": -1}}),
            ("an odd operator", "/rows/1", {**head, "rows": [good, dict(good, row=1, op="x")]}),
            ("no such shape", "/rows/0", {**head, "rows": [dict(good, signature="f32;f32[5],f32[5]->f32[6]")]}),
            ("time zero", "/rows/0", {**head, "rows": [dict(good, median_s=0)]}),
            ("no number", "/rows/2/median_s", {**head, "rows": [good, good, dict(good, median_s="1")]}),
            ("no array", "/rows", {**head, "rows": {}}), ("unknown member of a row", "/rows/0/x~1y", {**head, "rows": [{"x/y": 1}]}),
            ("no runs", "/rows/0", {**head, "rows": [dict(good, n=0)]}),
            ("an odd status", "/rows/0/status", {**head, "rows": [dict(good, status="?")]}),
            ("an agent with spaces", "/agent", {**head, "agent": "a b"})):
        answer = daemon.post("/timings", body)
        t.check("refused: " + name, answer.status == 422 and answer.problem == "invalid-request", answer)
        t.equal("and where: " + name, answer.json.get("pointer"), pointer)
    lines = "\n".join(json.dumps(x) for x in ({k: v for k, v in head.items() if k != "rows"}, good, dict(good, n=-1)))
    answer = daemon.request("POST", "/timings", lines, {"Content-Type": "application/x-ndjson"})
    t.equal("and in which line", (answer.status, answer.json.get("pointer")), (422, "/2/n"))
    before = len(listed(limit=100))
    daemon.post("/timings", {**head, "rows": [good, dict(good, row=1, op="x")]})
    t.equal("whole or not at all", len(listed(limit=100)), before)
    t.equal("no JSON", daemon.post("/timings", "{").problem, "invalid-json")


def test_small_bodies(t):
    """What is wrong with the small bodies is told with its place, everywhere alike."""
    agent = {"agent": "a", "class": CLASS}
    for path, body, pointer, said in (
            ("/agents", "{\"agent\":\n  \"a\", }", "/agent", "line 2, column 8"), ("/agents", "[1]", None, "not an array"),
            ("/agents", "", None, "the body is empty"), ("/agents", "{\"class\": {\"device\": tru}}", "/class/device", "line 1"),
            ("/agents", "{\"agent\": \"a\", \"agent\": \"b\"}", "/agent", "duplicate member"), ("/agents", "{} {}", None, "line 1, column 4"),
            ("/timings/claims", "{\"agent\": \"a", "/agent", "line 1"), ("/timings/revoke", "{", None, "line 1"),
            ("/measurements", "nul", None, "line 1"), ("/measurements/claims", "7", None, "not a number")):
        answer = daemon.post(path, body)
        t.equal("%s %s" % (path, body), (answer.status, answer.problem), (400, "invalid-json"))
        t.check("and where, and what was expected", said in answer.json["detail"] and answer.json.get("pointer") == pointer, answer)
    for path, body, pointer in (
            ("/agents", {**agent, "host": 3}, "/host"), ("/agents", {**agent, "canary_s": "fast"}, "/canary_s"),
            ("/agents", {**agent, "class": "cpu"}, "/class"), ("/agents", {**agent, "class": {"device": 1}}, "/class/device"),
            ("/agents", {"class": CLASS}, "/agent"), ("/agents", {"agent": "a"}, "/class"), ("/agents", {**agent, "a/b": 1}, "/a~1b"),
            ("/agents", {**agent, "host": "h" * 201}, "/host"),
            ("/timings/claims", {"agent": "a", "max": 1.5}, "/max"), ("/timings/claims", {"agent": ["a"]}, "/agent"),
            ("/timings/revoke", {"agent": "a", "since": "now"}, "/since"), ("/timings/revoke", {"agent": None}, "/agent"),
            ("/measurements/claims", {"agent": True}, "/agent"),
            *(("/measurements", {"agent": "a", "number": 1, "state": "done", "latency_s": 1, member: value}, "/" + member)
              for member, value in (("busy", "yes"), ("latency_s", "1"), ("runs", 2.5), ("reason", 7), ("host", {}), ("mad_s", None),
                                    ("number", "1"), ("peak_bytes", 1.5)))):
        answer = daemon.post(path, body)
        t.equal("%s %s" % (path, body), (answer.status, answer.json.get("pointer")), (422, pointer))
    for name in ("a b", "\u00e4", "", "a\tb", "a" * 201):
        posted, known = daemon.post("/timings", batch(name, "b", [])), daemon.post("/agents", {**agent, "agent": name})
        t.equal("no agent's name, here as there: %r" % name[:4], (posted.status, posted.json["pointer"], known.status, known.json["pointer"]),
                (422, "/agent", 422, "/agent"))


def test_trust(t):
    # The model says 5 us for each; three ratios are known from test_post.
    odd = batch("a1", "odd", [row(0, "add", add_of(400), 9e-4)])
    t.equal("far off is suspect", daemon.post("/timings", odd).json["suspect"], 1)
    t.equal("listed as such", [r["signature"] for r in listed(suspect="true")], [add_of(400)])
    t.equal("the same agent on the same day confirms nothing",
            daemon.post("/timings", batch("a1", "odd2", [row(0, "add", add_of(400), 9e-4)])).json["confirmed"], 0)
    answer = daemon.post("/timings", batch("a2", "odd", [row(0, "add", add_of(400), 9.05e-4)])).json
    t.equal("another agent agrees", (answer["suspect"], answer["confirmed"]), (0, 2))
    answer = daemon.post("/timings", batch("a2", "odd3", [row(0, "add", add_of(500), 9e-4)])).json
    t.equal("another one", answer["suspect"], 1)
    answer = daemon.post("/timings", batch("a1", "odd4", [row(0, "add", add_of(500), 2e-4)])).json
    t.equal("beyond three deviations is no agreement", (answer["suspect"], answer["confirmed"]), (1, 0))
    yesterday = int(time.time() * 1000) - DAY
    answer = daemon.post("/timings", batch("a2", "old", [row(0, "add", add_of(500), 9e-4)], at=yesterday)).json
    t.equal("no day is another because a batch says so", (answer["suspect"], answer["confirmed"]), (1, 0))
    wild = daemon.post("/timings", batch("a3", "wild", [row(0, "add", add_of(500), 9e-4, mad_s=1)]))
    t.check("a spread that no measurement has", wild.status == 422 and "mad_s is above median_s" in wild.json["detail"], wild)
    rough = daemon.post("/timings", batch("a3", "rough", [row(0, "add", add_of(500), 0.9, mad_s=0.9)])).json
    t.equal("agrees with nothing", (rough["suspect"], rough["confirmed"]), (1, 0))
    slow = batch("a1", "slow", [row(0, "add", add_of(600), 6e-6)], canary={"before_s": 1.0, "after_s": 1.1, "best_s": 1.0})
    t.equal("a slow canary makes suspects", daemon.post("/timings", slow).json["suspect"], 1)
    busy = batch("a1", "busy", [row(0, "add", add_of(700), 6e-6)], busy=True)
    t.equal("so does a busy card", daemon.post("/timings", busy).json["suspect"], 1)
    big = "f32;trans_a=0;trans_b=0;alpha=1;f32[8192,8192],f32[8192,8192]->f32[8192,8192]"
    fast = daemon.post("/timings", batch("a1", "fast", [row(0, "matmul", big, 1e-3)]))
    t.check("faster than the card can be", fast.status == 200 and fast.json["suspect"] == 1, fast)


MODEL = {"zoo": {"model": "mlp"}, "device": "test-card", "budget": {"evaluations": 30}}


def missing(query=""):
    return [json.loads(line) for line in daemon.get("/timings/missing" + query).text.splitlines()]


def test_prices(t):
    t.equal("nothing is wanted", missing("?model=Test%20Card"), [])
    job = daemon.post("/optimize?wait=60", MODEL).json
    t.check("priced by the model", job["prices"]["modelled"] + job["prices"]["scaled"] > 0.5, job["prices"])
    wants = wait_until(lambda: missing("?model=Test%20Card"))
    t.check("its operators are wanted, whole and in parts", wants and len(wants) > job["result"]["operators"] / 3,
            wants and len(wants))
    t.check("the most valuable first", [w["value"] for w in wants] == sorted((w["value"] for w in wants), reverse=True) or
            len({w["value"] for w in wants}) > 1)
    agent = {"agent": "worker", "class": CLASS, "host": "h", "version": "1", "uuid": "u", "state": "idle"}
    known = daemon.post("/agents", agent)
    t.check("an agent is known", known.status == 200 and known.json["heartbeat_s"] == 30, known)
    claimed = daemon.post("/timings/claims", {"agent": "worker", "max": 1000}).json["operators"]
    t.equal("all that is wanted is leased", len(claimed), len(wants))
    daemon.post("/agents", dict(agent, agent="other"))
    t.equal("and to nobody else", daemon.post("/timings/claims", {"agent": "other", "max": 1000}).json["operators"], [])
    t.equal("but who has lost it gets it again", daemon.post("/timings/claims", {"agent": "worker", "max": 1000}).json["operators"], claimed)
    rows = [row(i, w["op"], w["signature"], 2 * w["seconds"]) for i, w in enumerate(wants)]
    added = daemon.post("/timings", batch("worker", "all", rows)).json
    t.equal("measured", (added["added"], added["suspect"]), (len(wants), 0))
    t.equal("nothing is missing", missing("?model=Test%20Card"), [])
    again = daemon.post("/optimize?wait=60", MODEL).json
    t.check("not answered from the old prices", again["reused_from"] is None and
            again["timings_generation"] == added["generation"], again)
    t.equal("every operator is measured", again["prices"]["exact"], 1.0)
    plan = daemon.get("/jobs/%s/plans/best" % again["id"]).json
    t.check("the plan says so", {p["source"] for p in plan["prices"] if p["op"] not in
                                 ("store", "load", "slice", "join", "acc")} <= {"exact", "scaled"})
    t.equal("now it is answered again", daemon.post("/optimize?wait=60", MODEL).json["reused_from"], again["id"])
    model = daemon.post("/optimize?wait=60", dict(MODEL, timings="model")).json
    t.equal("timings: model", (model["prices"]["modelled"], model["timings_generation"]), (1.0, 0))
    ratio = again["original"]["latency_s"] / model["original"]["latency_s"]
    t.check("twice the model's time, as measured", abs(ratio - 2) < 1e-9, ratio)
    repriced(t, job, again)
    return again


def repriced(t, before, after):
    """The front that the model priced, by what has been measured since: the plans stay, their times are twice as long."""
    path = "/jobs/%s/" % before["id"]
    known = daemon.get(path + "pareto").json
    now = daemon.get(path + "repricing").json
    t.equal("priced then", (now["priced_class"], now["priced_generation"]), (before["timings_class"], before["timings_generation"]))
    t.equal("and now", (now["class"], now["generation"]), (after["timings_class"], after["timings_generation"]))
    t.equal("the same plans", [p["plan"] for p in now["pareto"]], [p["plan"] for p in known["pareto"]])
    t.equal("as they were priced", [p["latency_before_s"] for p in now["pareto"]], [p["latency_s"] for p in known["pareto"]])
    ratio = now["original"]["latency_s"] / after["original"]["latency_s"]
    t.check("the original as a new search prices it", abs(ratio - 1) < 1e-9, ratio)
    t.check("by its own operators", now["original"]["measured_share"] == 1.0 and now["original"]["basis"] == "operators"
            and all(abs(sum(p["prices"].values()) - 1) < 1e-9 for p in now["pareto"]), now)
    t.check("something stands", any(p["stands"] for p in now["pareto"]), now)
    for p in now["pareto"]:
        better = [q for q in now["pareto"] if q is not p and q["latency_s"] < p["latency_s"] and q["peak_bytes"] < p["peak_bytes"]]
        t.check("what is beaten does not", not (better and p["stands"]), p)
    shares = {p["plan"]: p["measured_share"] for p in daemon.get("/jobs/%s/pareto" % after["id"]).json["pareto"]}
    t.check("each point tells its own share", all(s is not None and 0 <= s <= 1 for s in shares.values()) and max(shares.values()) > 0, shares)
    old = daemon.get(path + "pareto").json["pareto"]
    t.check("and is called measured only by it", all(p["basis"] == ("operators" if p["measured_share"] else "model") for p in old), old)
    other = daemon.post("/optimize?wait=60", {"zoo": {"model": "mlp"}, "device": "h200", "budget": {"evaluations": 30}}).json
    t.equal("nothing measured there", daemon.get("/jobs/%s/repricing" % other["id"]).problem, "no-timings")
    t.equal("no such job", daemon.get("/jobs/aaaaaaaaaaaa/repricing").status, 404)


def test_first_rows(t):
    """What a lone agent says of a kind of device that nobody has measured prices nothing where it cannot be true."""
    profile = dict(daemon.get("/devices/rtx3090").json["profile"], name="lone-card", gpu_names=["Lone Card"])
    key, model = {"device": "Lone Card"}, dict(MODEL, device="lone-card")
    early = batch("l0", "early", [row(0, "add", add_of(100), 6e-6), row(1, "add", add_of(200), 6e-9)], key)
    answer = daemon.post("/timings", early).json
    t.equal("without a profile nothing judges them", (answer["suspect"], answer["unjudged"]), (2, 2))
    t.equal("and they are listed so", [(r["suspect"], r["model_s"]) for r in listed(agent="l0")], [(True, None)] * 2)
    t.equal("a profile", daemon.request("PUT", "/devices/lone-card", profile).status, 200)
    answer = daemon.post("/timings", early).json
    t.equal("sent again they are judged", (answer["known"], answer["unjudged"], answer["confirmed"]), (2, 0, 1))
    t.equal("and one is found wanting", [(r["suspect"], r["model_s"] > 0) for r in listed(agent="l0")], [(False, True), (True, True)])
    before = daemon.post("/optimize?wait=60", model).json
    wants = wait_until(lambda: missing("?model=Lone%20Card"))
    rows = [row(i, w["op"], w["signature"], w["seconds"] / 1000) for i, w in enumerate(wants)]
    added = daemon.post("/timings", batch("l1", "fast", rows, key)).json
    t.equal("a thousand times too fast", (added["added"], added["suspect"]), (len(wants), len(wants)))
    after = daemon.post("/optimize?wait=60", dict(model, fresh=True)).json
    t.equal("no price is theirs", (after["prices"]["exact"], after["original"]["latency_s"]), (0, before["original"]["latency_s"]))
    shown = listed(agent="l1", suspect="true", limit=2000)
    t.check("they are shown beside what the model says", len(shown) == len(wants) and
            all(abs(r["model_s"] / r["median_s"] - 1000) < 1e-6 for r in shown), shown[:2])
    t.equal("somebody else agrees", daemon.post("/timings", batch("l2", "fast", rows, key)).json["confirmed"], len(wants))
    t.equal("so they are prices", daemon.post("/optimize?wait=60", dict(model, fresh=True)).json["prices"]["exact"], 1.0)


def test_near(t):
    # A class of its own model of device, then the same with other software.
    profile = dict(daemon.get("/devices/rtx3090").json["profile"], name="near-card", gpu_names=["Near Card"])
    t.equal("a profile", daemon.request("PUT", "/devices/near-card", profile).status, 200)
    rows = [row(i, "add", add_of(1000 + i), 1e-5) for i in range(3)]
    daemon.post("/timings", batch("n1", "n", rows, {"device": "Near Card", "driver": "1"}))
    daemon.post("/timings", batch("n2", "n", rows[:1], {"device": "Near Card", "driver": "2"}))
    classes = {c["key"]["driver"]: c for c in daemon.get("/devices").json["classes"] if c["device"] == "Near Card"}
    t.equal("two classes", (classes["1"]["operators"], classes["2"]["operators"]), (3, 1))


def test_class(t):
    """device: class:ID prices by that class alone, and is kept, reused and wanted for it."""
    known = [r for r in listed(agent="worker", limit=2000) if r["status"] == "ok"]
    rows = [row(i, r["op"], r["signature"], 1.5 * r["median_s"]) for i, r in enumerate(known)]
    t.equal("measured with other software too", daemon.post("/timings", batch("slow", "all", rows, NEAR)).json["added"], len(rows))
    classes = {c["key"]["driver"]: c["id"] for c in daemon.get("/devices").json["classes"] if c["device"] == "Test Card"}
    of = lambda driver, **more: dict(MODEL, device="class:" + classes[driver], **more)
    first, second = (daemon.post("/optimize?wait=60", of(driver)).json for driver in ("1", "2"))
    t.equal("each is priced by its class", (first["timings_class"], second["timings_class"]), (classes["1"], classes["2"]))
    t.equal("exactly", (first["prices"]["exact"], second["prices"]["exact"]), (1.0, 1.0))
    ratio = second["original"]["latency_s"] / first["original"]["latency_s"]
    t.check("which is the slower one", abs(ratio - 1.5) < 1e-9, ratio)
    t.equal("the profile is the one that names the device", (first["device"], second["device"]), ("test-card", "test-card"))
    t.equal("reused for its class only", daemon.post("/optimize?wait=60", of("2")).json["reused_from"], second["id"])
    again = daemon.post("/jobs/%s/retry" % second["id"]).json
    ended = wait_until(lambda: (lambda job: job if job["state"] == "succeeded" else None)(daemon.get("/jobs/%s" % again["id"]).json))
    t.equal("a retry keeps it", (ended["timings_class"], ended["prices"]["exact"]), (classes["2"], 1.0))
    estimate = daemon.post("/estimate", of("2"))
    t.check("estimated", estimate.status == 200 and estimate.json["device"] == "test-card", estimate)
    for device, said in (("class:0123456789abcdef", "GET /devices lists"), ("class:xyz", "16 hexadecimal digits"), ("class:", "16 hexadecimal digits")):
        for path in ("/optimize", "/estimate"):
            answer = daemon.post(path, dict(MODEL, device=device))
            t.check("%s %s" % (path, device), answer.status == 422 and answer.problem == "invalid-request" and
                    answer.json["pointer"] == "/device" and said in answer.json["detail"], answer)
    daemon.post("/timings", batch("odd", "b", rows[:1], {"device": "Odd Card"}))
    odd = [c["id"] for c in daemon.get("/devices").json["classes"] if c["device"] == "Odd Card"][0]
    answer = daemon.post("/optimize", dict(MODEL, device="class:" + odd))
    t.check("no profile names it", answer.status == 422 and "Odd Card" in answer.json["detail"], answer)
    wider = daemon.post("/optimize?wait=60", {**of("2"), "zoo": {"model": "mlp", "batch": 97}}).json
    t.check("wanted for its device", wait_until(lambda: missing("?class=" + classes["2"])), wider)
    many = [threading.Thread(target=lambda: got.append(daemon.post("/optimize?wait=60", of("1", fresh=True)).json["timings_class"])) for _ in range(8)]
    got = []
    for thread in many:
        thread.start()
    for thread in many:
        thread.join()
    t.equal("several at once", got, [classes["1"]] * 8)
    revoked = daemon.post("/timings/revoke", {"agent": "slow"})
    t.check("taken back", revoked.status == 200 and revoked.json["revoked"] == len(rows), revoked)


def test_revoke(t):
    job = daemon.post("/optimize?wait=60", dict(MODEL, fresh=True)).json
    answer = daemon.post("/timings/revoke", {"agent": "worker"})
    t.check("revoked", answer.status == 200 and answer.json["revoked"] > 5 and job["id"] in answer.json["jobs"], answer)
    after = daemon.post("/optimize?wait=60", MODEL).json
    t.check("its timings are used no more", after["prices"]["exact"] < 0.5 and
            after["timings_generation"] == answer.json["generation"], after["prices"])
    t.check("they are wanted again", len(missing("?model=Test%20Card")) > 5)
    for body in ({}, {"agent": "a", "host": "b"}, {"colour": "x"}):
        t.equal("what to revoke: %r" % body, daemon.post("/timings/revoke", body).status, 422)


def test_require_measured(t):
    request = dict(MODEL, require_measured=True, fresh=True, budget={"evaluations": 30, "deadline_s": 60})
    job = daemon.post("/optimize", request).json
    path = "/jobs/" + job["id"]
    t.check("waits", wait_until(lambda: daemon.get(path).json["state"] == "waiting"), daemon.get(path))
    daemon.post("/agents", {"agent": "worker2", "class": CLASS})
    wants = wait_until(lambda: missing("?model=Test%20Card"))
    daemon.post("/timings", batch("worker2", "w", [row(i, w["op"], w["signature"], 3 * w["seconds"])
                                                   for i, w in enumerate(wants)]))
    ended = daemon.get(path + "?wait=60").json
    t.check("runs once all is there", ended["state"] == "succeeded" and ended["prices"]["exact"] == 1.0, ended)
    late = dict(MODEL, zoo={"model": "mlp", "batch": 3, "layers": 3, "hidden": 250}, require_measured=True, budget={"evaluations": 30, "deadline_s": 2})
    failed = daemon.get("/jobs/%s?wait=30" % daemon.post("/optimize", late).json["id"]).json
    t.check("fails at its deadline", failed["state"] == "failed" and failed["error"]["type"] == "/errors/deadline", failed)
    t.equal("not with the model", daemon.post("/optimize", dict(late, timings="model")).problem, "invalid-request")


def test_other_device(t):
    """What a graph needs is wanted for each device that a job of it names, also when both come together."""
    profile = daemon.get("/devices/test-card").json["profile"]
    for n in (1, 2):
        t.equal("a card", daemon.request("PUT", "/devices/card-%d" % n, dict(profile, name="card-%d" % n, gpu_names=["Card %d" % n])).status, 200)
    of = lambda device, batch: {"zoo": {"model": "mlp", "batch": batch}, "device": device, "require_measured": True,
                                "budget": {"evaluations": 30, "deadline_s": 60}}
    submit = lambda device, number: daemon.post("/optimize", of(device, number)).json["id"]
    jobs = [submit("card-1", 31)]
    t.check("wanted for the first", wait_until(lambda: missing("?model=Card%201")))
    jobs += [submit("card-2", 31), submit("card-1", 32), submit("card-2", 32)]
    wanted = lambda: [{(w["op"], w["signature"]): w["seconds"] for w in missing("?model=Card%%20%d" % n)} for n in (1, 2)]
    both = wait_until(lambda: (lambda w: w if len(w[0]) > 5 and set(w[0]) == set(w[1]) else None)(wanted()))
    t.check("and for the second", both, [len(w) for w in wanted()])
    while both and any(daemon.get("/jobs/" + job).json["state"] in ("queued", "waiting") for job in jobs):
        for n, wants in enumerate(wanted(), 1):
            rows = [row(i, *key, 2 * seconds) for i, (key, seconds) in enumerate(wants.items())]
            daemon.post("/timings", batch("of-%d" % n, "b%d" % time.time_ns(), rows, {"device": "Card %d" % n}))
        time.sleep(0.2)
    ended = [daemon.get("/jobs/%s?wait=60" % job).json for job in jobs]
    t.equal("all are priced exactly", [(job["state"], (job.get("prices") or {}).get("exact")) for job in ended], [("succeeded", 1.0)] * 4)


def test_crash(t):
    rows = [row(i, "add", add_of(5000 + i), 6e-6) for i in range(500)]
    acknowledged = daemon.post("/timings", batch("c1", "before", rows)).json["added"]
    daemon.stop(signal.SIGKILL)
    daemon.start()
    t.equal("what was acknowledged is there", daemon.post("/timings", batch("c1", "before", rows)).json["known"], acknowledged)


def test_many_at_once(t):
    """8 agents and 4 jobs: nothing twice, no lease to two at once, nothing acknowledged lost."""
    jobs = [daemon.post("/optimize", {"zoo": {"model": "mlp", "batch": 10 + i}, "device": "test-card",
                                      "budget": {"evaluations": 200}}).json["id"] for i in range(4)]
    t.check("there is work", wait_until(lambda: len(missing("?model=Test%20Card")) > 50))
    leased, acknowledged, faults, lock = {}, {}, [], threading.Lock()

    def work(name):
        daemon.post("/agents", {"agent": name, "class": CLASS})
        for turn in range(200):
            operators = daemon.post("/timings/claims", {"agent": name, "max": 7}).json["operators"]
            if not operators:
                return
            with lock:
                for o in operators:
                    key = (o["op"], o["signature"])
                    if key in leased:
                        faults.append((key, leased[key], name))
                    leased[key] = name
            body = batch(name, "t%d" % turn, [row(i, o["op"], o["signature"], 7e-6) for i, o in enumerate(operators)])
            for _ in range(2):  # an answer was lost: the batch is sent again
                answer = daemon.post("/timings", body).json
            with lock:
                for i in range(len(operators)):
                    acknowledged[(name, "t%d" % turn, i)] = 1
                if answer["known"] != len(operators) or answer["added"]:
                    faults.append(answer)

    threads = [threading.Thread(target=work, args=("m%d" % i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    t.equal("no lease to two agents, no row twice", faults, [])
    rows, after = [], 0
    while after is not None:
        page = daemon.get("/timings?limit=2000&after=%d" % after).json
        rows += [(r["agent"], r["batch"], r["row"]) for r in page["timings"]]
        after = page["next"]
    t.equal("every row once", len(rows), len(set(rows)))
    t.equal("nothing acknowledged is lost", set(acknowledged) - set(rows), set())
    t.check("several agents shared the work", len({name for name, _, _ in acknowledged}) > 3 and len(acknowledged) > 50,
            len(acknowledged))
    for job in jobs:
        t.equal("the jobs succeed", daemon.get("/jobs/%s?wait=60" % job).json["state"], "succeeded")
    t.check("the agents are listed", len(daemon.get("/agents").json["agents"]) >= 8)


tests = Tests()
tests.run(setup, test_post, test_refused, test_small_bodies, test_trust, test_prices, test_first_rows, test_near, test_class, test_revoke, test_require_measured, test_other_device, test_crash,
          test_many_at_once)
tests.equal("stops", daemon.close(), 0)
tests.end()
