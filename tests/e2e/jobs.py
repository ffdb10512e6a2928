"""The life of jobs over HTTP: submit, wait, read, list, watch, cancel, retry, delete."""
import gzip
import http.client
import json
import os
import re
import subprocess
import threading
import time

from libe2e import MAGISD, Daemon, Tests, read_events


def mlp(evaluations=300, **more):
    body = {"zoo": {"model": "mlp"}, "training": {"loss": "squared", "optimizer": "sgd"},
            "budget": {"evaluations": evaluations, "seed": 1}}
    body.update(more)
    return body


def slow(**more):
    """A job that runs until it is cancelled."""
    body = {"zoo": {"model": "bert-base", "batch": 8}, "training": {"loss": "squared", "optimizer": "sgd"},
            "budget": {"seconds": 60}}
    body.update(more)
    return body


def ended(job):
    return job["state"] in ("succeeded", "failed", "cancelled")


def finish(body, **headers):
    answer = daemon.post("/optimize?wait=60", body, **headers)
    if answer.status not in (200, 202):
        raise RuntimeError("not accepted: %r" % answer)
    job = answer.json
    while not ended(job):
        job = daemon.get("/jobs/%s?wait=30" % job["id"]).json
    return job


def test_submit(t):
    answer = daemon.post("/optimize", mlp(name="first", labels={"branch": "main"}))
    t.equal("accepted", answer.status, 202)
    job = answer.json
    t.check("id", re.fullmatch("[0-9a-z]{12}", job["id"]), job)
    t.equal("Location", answer.headers["Location"], "/jobs/" + job["id"])
    t.check("Retry-After", answer.headers["Retry-After"] is not None)
    t.check("state", job["state"] in ("validating", "queued", "running", "succeeded"), job)
    done = daemon.get("/jobs/%s?wait=60" % job["id"])
    t.equal("succeeded", done.json["state"], "succeeded")
    t.equal("outcome", done.json["outcome"], "front")
    t.check("stopped_by", done.json["stopped_by"] in ("evaluations", "exhausted"), done)
    t.equal("name and labels", (done.json["name"], done.json["labels"]), ("first", {"branch": "main"}))
    for key in ("queue", "progress", "original", "best", "prices", "timings_generation", "reproducible", "reused_from",
                "attempts", "expires_at", "html_url", "error"):
        t.check("member " + key, key in done.json, sorted(done.json))
    t.equal("304", daemon.get("/jobs/" + job["id"], If_None_Match=done.headers["ETag"]).status, 304)
    page = daemon.get("/jobs/" + job["id"], Accept="text/html,application/xhtml+xml")
    t.check("page", page.status == 303 and job["id"] in page.headers["Location"], page)
    waited = daemon.post("/optimize", mlp(310), Prefer="respond-async, wait=60")
    t.equal("Prefer: wait", (waited.status, waited.json["state"]), (200, "succeeded"))
    t.equal("Preference-Applied", waited.headers["Preference-Applied"], "wait=60")


def check_formats(t, base, plan):
    """What is said to be available comes; what is not says the same why."""
    told = daemon.get("%s/plans/%s/formats" % (base, plan)).json
    t.equal("a network of the zoo is not captured", told["captured"], False)
    formats = {f["format"]: f for f in told["formats"]}
    t.equal("formats of " + plan, list(formats), ["json", "dot", "torch", "checkpoint", "onnx"])
    for name, about in formats.items():
        answer = daemon.get("%s/plans/%s?format=%s" % (base, plan, name))
        t.equal("%s of %s" % (name, plan), (about["available"], about["reason"]),
                (answer.status == 200, None if answer.status == 200 else answer.json["detail"]))
    t.check("a training step is no ONNX model", not formats["onnx"]["available"] and "the update of" in formats["onnx"]["reason"], formats)
    return formats


def test_results(t):
    job = finish(mlp(400))
    base = "/jobs/" + job["id"]
    pareto = daemon.get(base + "/pareto").json
    front = pareto["pareto"]
    t.check("front", len(front) >= 1 and all(re.fullmatch("[0-9a-f]{16}", p["plan"]) for p in front), pareto)
    t.check("sorted and not dominated",
            all(a["latency_s"] <= b["latency_s"] and a["peak_bytes"] > b["peak_bytes"]
                for a, b in zip(front, front[1:])), front)
    t.check("ordinals", [p["k"] for p in front] == sorted(p["k"] for p in front), front)
    t.check("baselines", {b["name"] for b in pareto["baselines"]} >= {"microbatch", "sublinear"}, pareto["baselines"])
    t.equal("original", pareto["original"]["peak_bytes"], job["original"]["peak_bytes"])
    for name in ("original", "best", "0", front[-1]["plan"]):
        plan = daemon.get(base + "/plans/" + name)
        t.check("plan " + name, plan.status == 200 and isinstance(plan.json, dict), plan)
    plan = daemon.get(base + "/plans/" + front[0]["plan"])
    t.equal("plan kept by its ETag", daemon.get(base + "/plans/" + front[0]["plan"],
                                                If_None_Match=plan.headers["ETag"]).status, 304)
    t.check("immutable", "immutable" in plan.headers["Cache-Control"], plan.headers)
    t.check("dot", daemon.get(base + "/plans/best?format=dot").text.startswith("digraph"))
    module = daemon.get(base + "/plans/best?format=torch")
    t.check("torch", "def step(inputs, weights" in module.text and module.headers["Content-Type"].startswith("text/x-python"), module)
    t.check("torch is a file", ".py" in module.headers.get("Content-Disposition", ""), module.headers)
    parts = next(b for b in pareto["baselines"] if b["name"] == "microbatch")["points"][-1]["plan"]
    advice = daemon.get(base + "/plans/%s?format=checkpoint" % parts)
    t.check("checkpoint", "Advice from a plan" in advice.text and advice.headers["Content-Type"].startswith("text/plain"), advice)
    check_formats(t, base, "best")
    t.check("advice", check_formats(t, base, parts)["checkpoint"]["available"])
    t.check("nothing to advise", "nothing to advise" in check_formats(t, base, "original")["checkpoint"]["reason"])
    t.equal("formats of no plan", daemon.get(base + "/plans/ffffffffffffffff/formats").problem, "plan-not-found")
    t.equal("no such plan", daemon.get(base + "/plans/ffffffffffffffff").problem, "plan-not-found")
    t.equal("no such ordinal", daemon.get(base + "/plans/99999").problem, "plan-not-found")
    t.check("timeline", daemon.get(base + "/plans/best/timeline").status == 200)
    graph = daemon.get(base + "/graph")
    t.equal("graph", graph.json["format"], "magis-graph/1")
    t.check("graph dot", daemon.get(base + "/graph?format=dot").text.startswith("digraph"))
    asked = daemon.get(base + "/request").json
    t.equal("request", asked["budget"]["evaluations"], 400)
    again = finish({"graph": graph.json, "budget": {"evaluations": 50}})
    t.equal("the normalised graph can be posted", again["state"], "succeeded")


def test_refusals(t):
    def refuse(name, body, problem, pointer=None, **headers):
        answer = daemon.post("/optimize", body, **headers)
        t.equal("refused: " + name, answer.problem, problem)
        if pointer is not None and answer.problem:
            t.equal("pointer: " + name, answer.json.get("pointer"), pointer)

    refuse("empty", b"", "invalid-json")
    refuse("not JSON", b"{\"zoo\": ", "invalid-json")
    for number in (b"0x10", b"01", b"1.2.3", b"1_000"):
        refuse("no number of JSON: %s" % number, b'{"zoo": {"model": "mlp"}, "budget": {"evaluations": %s}}' % number, "invalid-json",
               "/budget/evaluations")
    refuse("no source", {}, "invalid-request")
    refuse("two sources", mlp(graph={}), "invalid-request")
    refuse("unknown member", mlp(colour=1), "invalid-request", "/colour")
    refuse("unknown member inside", mlp(budget={"evaluations": 1, "x/y~z": 2}), "invalid-request", "/budget/x~1y~0z")
    refuse("wrong type", mlp(budget={"evaluations": "many"}), "invalid-request", "/budget/evaluations")
    refuse("unknown device", mlp(device="gtx0"), "invalid-request", "/device")
    refuse("two memory limits", mlp(limit={"memory_ratio": 0.5, "memory_bytes": 1 << 30}), "invalid-request")
    refuse("too many seconds", mlp(budget={"seconds": 1e6}), "invalid-request", "/budget/seconds")
    for member, value in (("gate", {"max_peak_bytes": 1}), ("supersedes", "branch:x")):
        answer = daemon.post("/optimize", mlp(**{member: value}))
        t.equal("not there yet: " + member, (answer.status, answer.json.get("pointer")), (422, "/" + member))
        t.check("by name: " + member, member in answer.json["detail"], answer)
    refuse("bad graph", {"graph": {"format": "magis-graph/1"}}, "invalid-graph")
    refuse("unknown network", {"zoo": {"model": "nonsense"}}, "invalid-graph")
    deep = b'{"graph": ' + b"[" * 100000 + b"]" * 100000 + b"}"
    t.check("deep", daemon.post("/optimize", deep).status in (400, 422))
    bomb = gzip.compress(b'{"name": "' + b" " * 50000000 + b'"}')
    answer = daemon.post("/optimize", bomb, Content_Encoding="gzip")
    t.check("bomb", answer.status == 413 and "times its own size" in answer.json["detail"], answer)
    cut = gzip.compress(json.dumps(mlp()).encode())[:-6]
    answer = daemon.post("/optimize", cut, Content_Encoding="gzip")
    t.check("cut gzip", answer.problem == "bad-encoding" and "cut off or damaged" in answer.json["detail"], answer)
    t.equal("gzip", daemon.post("/optimize", gzip.compress(json.dumps(mlp(20)).encode()),
                                Content_Encoding="gzip").status, 202)
    t.equal("no such job", daemon.get("/jobs/zzzzzzzzzzzz").problem, "not-found")
    t.equal("odd id", daemon.get("/jobs/..").status, 404)
    for path in ("/jobs/zzzzzzzzzzzz/pareto", "/jobs/zzzzzzzzzzzz/events", "/jobs/zzzzzzzzzzzz/graph",
                 "/jobs/zzzzzzzzzzzz/request", "/jobs/zzzzzzzzzzzz/plans/0", "/jobs/zzzzzzzzzzzz/plans/0/timeline"):
        t.equal("no such job: " + path, daemon.get(path).status, 404)
    for path in ("cancel", "retry"):
        t.equal("no such job: " + path, daemon.post("/jobs/zzzzzzzzzzzz/" + path).status, 404)
    t.equal("alive", daemon.get("/readyz").status, 200)


def test_estimate(t):
    answer = daemon.post("/estimate", mlp())
    t.equal("estimate", answer.status, 200)
    for key in ("original", "lower_bound_bytes", "unsupported"):
        t.check("estimate has " + key, key in answer.json, answer)


def test_large(t):
    """200,000 operators are what there is room for; a body that is small itself is not what is too large."""
    if os.environ.get("MAGIS_SANITIZER"):
        return  # they take more memory and processor time than intake has
    def bert(layers):
        return dict(mlp(), zoo={"model": "bert-base", "layers": layers}, training={"loss": "mse", "optimizer": "adam"})
    answer = daemon.request("POST", "/estimate", bert(1400), timeout=120)
    t.equal("nearly as many as there may be", (answer.status, answer.json.get("graph", {}).get("operators")),
            (200, 194668))
    answer = daemon.request("POST", "/estimate", bert(4000), timeout=120)
    t.equal("too many", (answer.status, answer.json.get("type"), answer.json.get("pointer")),
            (422, "/errors/too-much-memory", "/zoo"))
    t.check("it says of what", "bert-base" in answer.json["detail"], answer.json)


def test_own_device(t):
    profile = daemon.get("/devices/h200").json["profile"]
    small = dict(profile, name="small", memory_bytes=10 ** 9, reserve_bytes=0)
    t.equal("unknown before", daemon.post("/estimate", mlp(device="small")).status, 422)
    t.equal("put", daemon.request("PUT", "/devices/small", small).status, 200)
    own = daemon.post("/estimate", mlp(device="small"))
    t.equal("used by its name", (own.status, own.json.get("device")), (200, "small"))
    t.equal("given whole", daemon.post("/estimate", mlp(device=dict(small, name="other"))).json.get("device"), "other")
    t.equal("a job of its device", finish(mlp(40, device="small"))["state"], "succeeded")
    t.equal("found by its device", len(daemon.get("/jobs?device=small").json["jobs"]), 1)


def test_list(t):
    for k in range(5):
        finish(mlp(10 + k, labels={"set": "paging", "n": str(k)}, name="run %d" % k))
    seen, pages, path = [], 0, "/jobs?label=set:paging&limit=2"
    while path:
        answer = daemon.get(path)
        pages += 1
        seen += [job["labels"]["n"] for job in answer.json["jobs"]]
        link = answer.headers["Link"]
        t.equal("Link and next agree", bool(link), answer.json["next"] is not None)
        path = re.match(r"<(.*)>; rel=\"next\"", link).group(1) if link else None
    t.equal("all, newest first", (seen, pages), (["4", "3", "2", "1", "0"], 3))
    first = daemon.get("/jobs?label=set:paging&limit=2").json["next"]
    t.equal("cursor of another query", daemon.get("/jobs?limit=2&cursor=" + first).problem, "bad-cursor")
    t.equal("cursor of another sort", daemon.get("/jobs?label=set:paging&sort=peak&cursor=" + first).problem,
            "bad-cursor")
    t.equal("nonsense cursor", daemon.get("/jobs?cursor=nonsense").problem, "bad-cursor")
    count = lambda query: len(daemon.get("/jobs?limit=200&" + query).json["jobs"])
    t.equal("two labels", count("label=set:paging&label=n:3"), 1)
    t.equal("no match", count("label=set:other"), 0)
    t.equal("network", count("network=mlp&label=set:paging"), 5)
    t.equal("other network", count("network=vgg&label=set:paging"), 0)
    t.equal("state", count("state=succeeded&label=set:paging"), 5)
    t.equal("text", count("q=run%203"), 1)
    t.check("bad state", daemon.get("/jobs?state=sleeping").status == 400)
    t.check("bad sort", daemon.get("/jobs?sort=colour").status == 400)
    for sort in ("created", "peak", "saving", "duration"):
        t.equal("sort by " + sort, count("label=set:paging&sort=" + sort), 5)


def test_changes(t):
    job = finish(mlp(50, name="old"))
    path = "/jobs/" + job["id"]
    patched = daemon.request("PATCH", path, {"name": "new", "labels": {"a": "b"}})
    t.equal("patch", (patched.status, patched.json["name"], patched.json["labels"]), (200, "new", {"a": "b"}))
    t.equal("patch kept", daemon.get(path).json["name"], "new")
    late = daemon.post("/optimize?wait=30", mlp(50, name="late", budget={"evaluations": 50, "deadline_s": 0.001}, fresh=True)).json
    t.equal("a deadline that passed before a worker was given", (late["state"], late["stopped_by"], late["attempts"]),
            ("failed", "deadline", 0))
    t.check("is the error", late["error"]["type"].endswith("/errors/deadline"), late["error"])
    unnamed = daemon.request("PATCH", path, {"name": None})
    t.equal("null takes the name away", (unnamed.status, unnamed.json["name"], unnamed.json["labels"]), (200, None, {"a": "b"}))
    t.check("patch of what is not to be changed", daemon.request("PATCH", path, {"state": "queued"}).status == 422)
    t.check("patch without JSON", daemon.request("PATCH", path, b"{").status == 400)
    t.equal("cancel an ended one", daemon.post(path + "/cancel").problem, "already-ended")
    t.check("pin", daemon.request("PUT", path + "/pin").status in (200, 204))
    t.equal("pinned", daemon.get(path).json["pinned"], True)
    t.check("unpin", daemon.request("DELETE", path + "/pin").status in (200, 204))
    retried = daemon.post(path + "/retry")
    t.check("retry", retried.status == 202 and retried.json["id"] != job["id"] and
            retried.headers["Location"] == "/jobs/" + retried.json["id"], retried)
    daemon.get("/jobs/%s?wait=30" % retried.json["id"])
    t.equal("delete", daemon.request("DELETE", path).status, 204)
    t.equal("gone", daemon.get(path).status, 404)
    t.equal("gone for good", daemon.request("DELETE", path).status, 404)


def test_if_match(t):
    path = "/jobs/" + finish(mlp(50, name="tagged"))["id"]
    def change(method, where, body=None, tags=None):
        return daemon.request(method, path + where, body, {"If-Match": tags} if tags else {})
    first = daemon.get(path).headers["ETag"]
    for tags in ('"999"', "W/" + first, '"%s", "x-1"' % (first[1:-1] + "0")):
        for method, where, body in (("PATCH", "", {"name": "no"}), ("PUT", "/pin", None), ("POST", "/cancel", None),
                                    ("POST", "/retry", None), ("DELETE", "", None)):
            answer = change(method, where, body, tags)
            t.equal("%s %s with %s" % (method, where, tags), (answer.status, answer.problem), (412, "precondition-failed"))
    for tags in ("999", '"a" "b"', '"a', ","):
        t.equal("If-Match: " + tags, change("PATCH", "", {"name": "no"}, tags).problem, "bad-request")
    t.equal("nothing has changed", (daemon.get(path).headers["ETag"], daemon.get(path).json["name"]), (first, "tagged"))
    second = change("PATCH", "", {"name": "second"}, '"x", ' + first)
    t.equal("the tag in a list", (second.status, second.json["name"]), (200, "second"))
    t.equal("it has been changed since", change("PATCH", "", {"name": "third"}, first).status, 412)
    t.equal("any", change("PATCH", "", {"name": "third"}, "*").status, 200)
    t.equal("of no job", daemon.request("DELETE", "/jobs/zzzzzzzzzzzz", None, {"If-Match": "*"}).status, 404)
    t.equal("DELETE of what is known", change("DELETE", "", None, daemon.get(path).headers["ETag"]).status, 204)


def test_cancel(t):
    job = daemon.post("/optimize", slow()).json
    path = "/jobs/" + job["id"]
    for _ in range(200):
        state = daemon.get(path).json["state"]
        if state == "running":
            break
        time.sleep(0.05)
    t.equal("runs", state, "running")
    t.equal("delete while running", daemon.request("DELETE", path).problem, "not-ended")
    t.equal("retry while running", daemon.post(path + "/retry").problem, "not-ended")
    others = [daemon.post("/optimize", slow()).json["id"] for _ in range(2)]
    start = time.time()
    t.check("list while busy", daemon.get("/jobs").status == 200 and time.time() - start < 1)
    for other in others:
        t.check("cancel a waiting one", daemon.post("/jobs/%s/cancel" % other).status in (200, 202))
    t.check("cancel", daemon.post(path + "/cancel").status in (200, 202))
    done = daemon.get(path + "?wait=20").json
    t.equal("cancelled", (done["state"], done["stopped_by"]), ("cancelled", "cancelled"))
    for other in others:
        t.equal("cancelled too", daemon.get("/jobs/%s?wait=20" % other).json["state"], "cancelled")


def open_events(path, **headers):
    connection = http.client.HTTPConnection(daemon.host, daemon.port, timeout=60)
    connection.request("GET", path, headers={key.replace("_", "-"): value for key, value in headers.items()})
    return connection.getresponse()


def test_events(t):
    job = daemon.post("/optimize", slow(budget={"seconds": 3})).json
    path = "/jobs/%s/events" % job["id"]
    response = open_events(path)
    t.equal("stream", (response.status, response.headers["Content-Type"].split(";")[0]), (200, "text/event-stream"))
    t.equal("never stored", response.headers["Cache-Control"], "no-store")
    t.equal("not buffered", response.headers["X-Accel-Buffering"], "no")
    events = read_events(response, until="end")
    kinds = [event["event"] for event in events]
    t.equal("snapshot first", kinds[0], "snapshot")
    t.equal("end last", kinds[-1], "end")
    t.check("front seen", "front" in kinds, kinds)
    t.check("progress seen", "progress" in kinds, kinds)
    ids = [int(event["id"]) for event in events if "id" in event and event["event"] != "snapshot"]
    t.check("ids grow", ids == sorted(set(ids)) and ids, ids)
    t.check("data is JSON", all(isinstance(json.loads(event["data"]), dict) for event in events))
    t.check("progress is not stored", all("id" not in e for e in events if e["event"] == "progress"))
    t.equal("closes", response.read(), b"")
    t.equal("after the end", open_events(path, Last_Event_ID=str(ids[-1])).status, 204)
    again = read_events(open_events(path, Last_Event_ID=str(ids[0])), until="end")
    t.equal("resumed", [int(e["id"]) for e in again if "id" in e and e["event"] != "snapshot"], ids[1:])
    since = read_events(open_events(path + "?since=%d" % ids[-2]), until="end")
    t.equal("since", [e["event"] for e in since][-1], "end")
    t.equal("bad id", open_events(path, Last_Event_ID="x").status, 400)
    polled = daemon.get(path + "?since=%d&wait=5" % ids[0], Accept="application/json").json
    t.equal("polled", [e["id"] for e in polled["events"] if "id" in e and e["type"] != "snapshot"], ids[1:])
    t.equal("poll goes on from", polled["next"], ids[-1])


def test_poll_waits(t):
    job = daemon.post("/optimize", slow(budget={"seconds": 2})).json
    path, since, kinds = "/jobs/%s/events" % job["id"], 0, []
    for _ in range(60):
        answer = daemon.get(path + "?since=%d&wait=10" % since, Accept="application/json")
        if answer.status == 204:
            break
        since = answer.json["next"]
        kinds += [event["type"] for event in answer.json["events"]]
        if "end" in kinds:
            break
    t.check("polled to the end", kinds and kinds[-1] == "end", kinds)


def test_several(t):
    jobs = [daemon.post("/optimize", slow(budget={"seconds": 1})).json["id"] for _ in range(2)]
    events = read_events(open_events("/events?jobs=" + ",".join(jobs)), limit=1000)
    data = [(event["event"], json.loads(event["data"])["job"]) for event in events]
    for job in jobs:
        t.check("both are followed", ("snapshot", job) in data and ("end", job) in data, data)
    t.equal("ids are checked", daemon.get("/events?jobs=a,b").problem, "bad-parameter")
    t.equal("ids are needed", daemon.get("/events").problem, "bad-parameter")


def test_reuse(t):
    first = finish(mlp(123))
    start = time.time()
    second = finish(mlp(123))
    t.check("reused", second["id"] != first["id"] and second["reused_from"] == first["id"], second)
    t.check("at once", time.time() - start < 2)
    fresh = finish(mlp(123, fresh=True))
    t.equal("fresh", fresh["reused_from"], None)
    a, b = (daemon.get("/jobs/%s/pareto" % job["id"]).json["pareto"] for job in (first, fresh))
    t.equal("same front by another search", [p["plan"] for p in a], [p["plan"] for p in b])


def test_busy_answers(t):
    graph = subprocess.run([MAGISD, "zoo", "bert-base", "--training", "loss=squared,optimizer=sgd", "-o", "-"],
                           capture_output=True, check=True).stdout
    busy = [daemon.post("/optimize", slow()).json["id"] for _ in range(3)]
    time.sleep(0.5)
    body = b'{"graph": ' + graph + b', "budget": {"seconds": 1}}'
    took = []
    for _ in range(3):
        start = time.time()
        answer = daemon.request("POST", "/optimize", body)
        took.append(time.time() - start)
        t.equal("accepted while all workers are busy", answer.status, 202)
        busy.append(answer.json["id"])
    print("POST of %.1f MB while busy: %s ms" % (len(body) / 1e6, ["%.0f" % (1000 * s) for s in took]))
    t.check("in time", min(took) < 1, took)
    for job in busy:
        daemon.post("/jobs/%s/cancel" % job)
    for job in busy:
        daemon.get("/jobs/%s?wait=20" % job)


daemon = Daemon("--workers", "2")
tests = Tests()
tests.run(test_submit, test_results, test_refusals, test_estimate, test_large, test_own_device, test_list, test_changes, test_if_match, test_cancel, test_events,
          test_poll_waits, test_several, test_reuse, test_busy_answers)
tests.equal("stops cleanly", daemon.close(), 0)
tests.end()
