"""Operators timed and plans executed on the processor."""
import contextlib
import json
import os
import re
import signal
import socket
import socketserver
import sqlite3
import subprocess
import tempfile
import threading
import time

from libe2e import MAGISD, Daemon, Tests, read_all, status_of, wait_until

NET = ["zoo:mlp", "--set", "batch=32", "--training", "loss=mse,optimizer=sgd"]
home = tempfile.mkdtemp(prefix="magisd-measure-", dir=os.environ.get("MAGIS_TMP"))


def path(name):
    return os.path.join(home, name)


def run(*arguments):
    return subprocess.run([MAGISD, *arguments], capture_output=True, text=True, timeout=120)


def rows_of(name):
    """The first batch's head, and all rows."""
    lines = [json.loads(line) for line in open(path(name))]
    return lines[0], [line for line in lines if "signature" in line]


def agree_with(name, data):
    """Somebody else says the same, undisturbed."""
    heads, undisturbed = 0, {"before_s": 1, "after_s": 1, "best_s": 1}
    with open(path(name)) as file, open(path("agreed.ndjson"), "w") as agreed:
        for line in map(json.loads, file):
            heads += "class" in line
            agreed.write(json.dumps({**line, "agent": "second", "batch": "b%d" % heads, "canary": undisturbed, "busy": False}
                                    if "class" in line else line) + "\n")
    return run("timings", "import", path("agreed.ndjson"), "--data", data)


def test_usage(t):
    for arguments in (["measure"], ["measure", "zoo:mlp"], ["measure", "--device", "cpu"],
                      ["measure", "zoo:mlp", "--calibrate", "--device", "cpu"],
                      ["measure", "zoo:mlp", "--device", "cpu", "--data", path("a"), "--server", "http://127.0.0.1:1"],
                      ["measure", "--calibrate", "--device", "cpu", "--data", path("a")],
                      ["measure", "--from", path("missing"), "--plan", path("missing"), "--device", "cpu"],
                      ["measure", "zoo:mlp", "--plan", path("missing"), "--device", "cpu"],
                      ["measure", "zoo:mlp", "--device", "abacus"], ["run", "zoo:mlp", "--device", "abacus"],
                      ["measure", "--from", path("missing"), "--device", "cpu"]):
        t.equal(" ".join(arguments), run(*arguments).returncode, 2)
    open(path("bad.ndjson"), "w").write('{"op": "matmul"}\n')
    t.equal("a line without signature", run("measure", "--from", path("bad.ndjson"), "--device", "cpu").returncode, 2)


def test_rows(t):
    answer = run("measure", *NET, "--device", "cpu", "-o", path("got.ndjson"))
    t.equal("measured", (answer.returncode, answer.stdout), (0, ""))
    batch, rows = rows_of("got.ndjson")
    t.check("one row for each distinct operator", len({(r["op"], r["signature"]) for r in rows}) == len(rows) > 8, rows)
    t.check("all have times", all(r["status"] == "ok" and 0 < r["min_s"] <= r["median_s"] for r in rows), rows)
    t.check("they say where they come from", batch["class"]["backend"] == "cpu" and batch["class"]["device"] and
            batch["class"]["dnn"].startswith("oneDNN") and batch["host"] and batch["canary"]["best_s"] > 0, batch)
    imported = run("timings", "import", path("got.ndjson"), "--data", path("store"))
    t.check("and are imported as they are", imported.stdout.startswith("%d added" % len(rows)), imported)
    t.check("which nothing can judge yet", "%d suspect" % len(rows) in imported.stdout and
            "%d wait, since no profile names their device" % len(rows) in imported.stderr, imported)
    t.check("once", run("timings", "import", path("got.ndjson"), "--data", path("store")).stdout.startswith("0 added"))
    agreed = agree_with("got.ndjson", path("store"))
    t.check("until somebody agrees", "0 suspect, %d confirmed" % len(rows) in agreed.stdout, agreed)
    with open(path("want.ndjson"), "w") as want:
        for row in rows[:3]:
            want.write(json.dumps({"op": row["op"], "signature": row["signature"], "value": 1}) + "\n")
        want.write(json.dumps({"op": "det", "signature": "f32;i64[4,4]->i64[]"}) + "\n")
    answer = run("measure", "--from", path("want.ndjson"), "--device", "cpu", "-o", path("again.ndjson"))
    _, again = rows_of("again.ndjson")
    t.equal("a want-list is answered in its order", [(r["op"], r["signature"]) for r in again[:3]],
            [(r["op"], r["signature"]) for r in rows[:3]])
    t.equal("what has no kernel says so", (again[3]["op"], again[3]["status"]), ("det", "unsupported"))
    over = run("measure", *NET, "--device", "cpu", "--max-seconds", "0.001", "-o", path("over.ndjson"))
    t.check("a network's time is over", over.returncode == 0 and "%d are left" % len(rows) in over.stderr, over)
    model = run("measure", *NET, "--device", "model:h200")
    t.check("the model needs no hardware", model.returncode == 0 and '"backend":"model"' in model.stdout, model)


def lines_of(name):
    return open(path(name)).read().splitlines() if os.path.exists(path(name)) else []


def test_ended(t):
    """What was measured is there when it is ended, however it is ended, and the same command goes on from there."""
    with open(path("long.ndjson"), "w") as want:
        for n in range(1, 201):
            want.write(json.dumps({"op": "add", "signature": "f32;f32[%d],f32[%d]->f32[%d]" % (3 * (n * 4096,))}) + "\n")
    command = [MAGISD, "measure", "--from", path("long.ndjson"), "--device", "cpu", "-o", path("some.ndjson")]
    for name, number, status in (("SIGTERM", signal.SIGTERM, 130), ("SIGKILL", signal.SIGKILL, -signal.SIGKILL)):
        kept = len(lines_of("some.ndjson"))
        running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        while len(lines_of("some.ndjson")) < kept + 3 and running.poll() is None:  # a batch
            time.sleep(0.01)
        running.send_signal(number)
        _, err = running.communicate(timeout=60)
        t.equal(name, running.returncode, status)
        t.check(name + ": all of it is there", len(lines_of("some.ndjson")) >= kept + 3, len(lines_of("some.ndjson")))
        t.check(name + ": what is left is said", name == "SIGKILL" or "are left" in err, err)
    with open(path("some.ndjson"), "a") as file:
        file.write('{"row":7,"op":"ad')
    some = len([line for line in lines_of("some.ndjson")[:-1] if "signature" in line])
    ended = run(*command[1:], "--max-seconds", "0.001")
    t.check("the time is over", ended.returncode == 0 and "0 operators measured" in ended.stderr and "are left" in ended.stderr, ended)
    rest = run(*command[1:])
    t.check("the rest", rest.returncode == 0 and "%d were measured before" % some in rest.stderr and "left" not in rest.stderr, rest)
    rows = [json.loads(line) for line in lines_of("some.ndjson")]
    t.equal("each once", sorted(r["signature"] for r in rows if "signature" in r),
            sorted(json.loads(line)["signature"] for line in open(path("long.ndjson"))))
    heads = [r for r in rows if "class" in r]
    t.check("in batches of some seconds", len({r["batch"] for r in heads}) == len(heads) > 3, heads)
    t.check("each between two canaries", all(min(r["canary"].values()) > 0 for r in heads) and
            len({r["canary"]["before_s"] for r in heads} | {r["canary"]["after_s"] for r in heads}) > len(heads), heads)
    imported = run("timings", "import", path("some.ndjson"), "--data", path("store2"))
    t.check("imported as it is", imported.stdout.startswith("200 added"), imported)
    other = run("measure", "--from", path("long.ndjson"), "--device", "model:h200", "--max-seconds", "0.001", "-o", path("some.ndjson"))
    t.check("another device begins anew", other.returncode == 0 and "before" not in other.stderr, other)
    open(path("letter"), "w").write("Dear all,\nit rains.\n")
    t.equal("other files are left alone", (run(*command[1:-1], path("letter")).returncode, open(path("letter")).read()),
            (2, "Dear all,\nit rains.\n"))
    for name, text in (("one line of JSON", '{"layers": [1, 2]}'), ("a word", "{"), ("the start of ours", '{"agent":"a","batc')):
        open(path("line"), "w").write(text)
        answer, ours = run(*command[1:-1], path("line"), "--max-seconds", "0.001"), name.endswith("ours")
        t.equal("%s without an end" % name, (answer.returncode, open(path("line")).read().startswith(text)), (0, False) if ours else (2, True))


def test_profile_that_is_stopped(t):
    """It ends between two of the things that are timed, and leaves no file."""
    calibrate = ["measure", "--calibrate", "--device", "cpu", "-o", path("none.json")]
    late = run(*calibrate, "--max-seconds", "0.001")
    t.check("the time is over", late.returncode == 1 and "the time is over" in late.stderr, late)
    stopped = subprocess.Popen([MAGISD, *calibrate], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with open("/proc/%d/status" % stopped.pid) as status:
        while not int(re.search("SigCgt:\t([0-9a-f]+)", status.read()).group(1), 16) >> (signal.SIGTERM - 1) & 1:
            time.sleep(0.01)
            status.seek(0)
    stopped.terminate()
    t.check("a signal", stopped.wait(60) == 130, stopped.communicate())
    t.check("without a file", not os.path.exists(path("none.json")), os.listdir(home))


def test_profile(t):
    answer = run("measure", "--calibrate", "--device", "cpu", "-o", path("cpu.json"))
    t.equal("calibrated", answer.returncode, 0)
    profile = json.load(open(path("cpu.json")))
    t.check("sensible figures", profile["peak_flops"]["f32"] > 1e9 and profile["mem_bw"] > 1e8 and
            0 < profile["launch_s"] < 1 and profile["copy_streams"] == 0, profile)
    answer = run("optimize", *NET, "--device", path("cpu.json"), "--evaluations", "300", "--memory-ratio", "0.9",
                 "-o", path("plan.json"), "--json")
    t.check("the profile is a device", answer.returncode in (0, 3), answer)
    modelled = json.loads(answer.stdout)["prices"]
    priced = run("optimize", *NET, "--device", path("cpu.json"), "--evaluations", "20", "--data", path("store"), "--json")
    t.equal("priced from a directory's timings", (modelled["modelled"], json.loads(priced.stdout)["prices"]["exact"]), (1, 1))
    stats = run("timings", "stats", "--data", path("store"))
    known = [word for word in stats.stdout.split() if len(word) == 16 and set(word) <= set("0123456789abcdef")]
    unnamed = run("optimize", *NET, "--device", "class:" + known[0], "--data", path("store"))
    t.check("a class whose device no profile names", unnamed.returncode == 2 and "no profile names" in unnamed.stderr, unnamed)
    named = dict(profile, name="mine", gpu_names=[rows_of("got.ndjson")[0]["class"]["device"]])
    os.makedirs(path("store/devices"), exist_ok=True)
    json.dump(named, open(path("store/devices/mine.json"), "w"))
    priced = run("optimize", *NET, "--device", "class:" + known[0], "--evaluations", "20", "--data", path("store"), "--json")
    t.equal("priced by a class", [json.loads(priced.stdout or "{}").get(k) for k in ("device", "measured_share")], ["mine", 1])
    nowhere = run("optimize", *NET, "--device", "class:0123456789abcdef", "--data", path("store"))
    t.check("an unknown class", nowhere.returncode == 2 and "no such class" in nowhere.stderr, nowhere)
    alone = run("optimize", *NET, "--device", "class:" + known[0])
    t.check("a class without a directory", alone.returncode == 2 and "--data" in alone.stderr, alone)
    owner = Daemon(data=path("store"))
    beside = run("optimize", *NET, "--device", path("cpu.json"), "--evaluations", "20", "--data", path("store"), "--json")
    t.equal("also while a daemon is at work on it", json.loads(beside.stdout or "{}").get("prices", {}).get("exact"), 1)
    owner.close()
    t.equal("no such directory", run("optimize", *NET, "--data", path("nowhere")).returncode, 2)


def test_run(t):
    answer = run("run", *NET[:1], path("plan.json"), *NET[1:], "--device", "cpu", "--json")
    t.equal("executed", answer.returncode, 0)
    got = json.loads(answer.stdout)
    for name in ("original", "plan"):
        part = got[name]
        t.equal(name + ": peak and arena as stated", (part["peak_bytes"], part["arena_bytes"]),
                (part["predicted"]["peak_bytes"], part["predicted"]["arena_bytes"]))
        t.check(name + ": times", part["latency_s"] > 0 and part["sum_of_operators_s"] > 0 and part["runs"] >= 3, part)
    stated = json.load(open(path("plan.json")))["original"]
    t.equal("the original on the plan's device", [got["original"]["predicted"][k] for k in ("latency_s", "peak_bytes", "arena_bytes")],
            [stated[k] for k in ("latency_s", "peak_bytes", "arena_bytes")])
    spoken = run("run", *NET[:1], path("plan.json"), *NET[1:], "--device", "cpu").stdout
    t.equal("one device in both lines", spoken.count(" s on cpu"), 2)
    t.check("the same numbers", got["outputs"] and all(o["error"] < 1e-3 for o in got["outputs"].values()), got)
    reference = json.loads(run("run", *NET, "--json").stdout)
    for name, output in reference["outputs"].items():
        here = got["outputs"][name]
        t.check(name + " as in the reference executor",
                abs(here["l2"] - output["l2"]) <= 1e-4 * max(1, abs(output["l2"])), (here, output))


def kept_in(data):
    """What lies in a directory."""
    lines = [json.loads(line) for line in run("timings", "export", "--data", data).stdout.splitlines()]
    return [line for line in lines if "signature" in line]


def write_wants(name, count, first=1):
    with open(path(name), "w") as want:
        for n in range(first, first + count):
            want.write(json.dumps({"op": "add", "signature": "f32;f32[%d],f32[%d]->f32[%d]" % (3 * (n * 4096,))}) + "\n")


def test_kept(t):
    """--data: timings lie in a directory as soon as they are measured."""
    _, rows = rows_of("got.ndjson")
    answer = run("measure", *NET, "--device", "cpu", "--data", path("kept"))
    t.check("kept", answer.returncode == 0 and "%d added, %d of them wait" % (len(rows), len(rows)) in answer.stderr, answer)
    t.check("nothing is printed, and what to do is said", answer.stdout == "" and "no profile names this device" in answer.stderr, answer)
    t.equal("what the graph needs", {(r["op"], r["signature"]) for r in kept_in(path("kept"))}, {(r["op"], r["signature"]) for r in rows})
    os.makedirs(path("kept/devices"), exist_ok=True)
    json.dump(json.load(open(path("cpu.json"))), open(path("kept/devices/cpu.json"), "w"))
    answer = run("measure", *NET, "--device", "cpu", "--data", path("kept"), "-o", path("both.ndjson"))
    t.check("with a profile they are judged", answer.returncode == 0 and "no profile" not in answer.stderr, answer)
    t.equal("and written as well", len(rows_of("both.ndjson")[1]), len(rows))
    t.equal("agreed with", agree_with("both.ndjson", path("kept")).returncode, 0)
    priced = run("optimize", *NET, "--device", path("cpu.json"), "--evaluations", "20", "--data", path("kept"), "--json")
    t.check("they price", json.loads(priced.stdout)["prices"]["exact"] > 0.3, priced)
    write_wants("wants.ndjson", 300)
    command = [MAGISD, "measure", "--from", path("wants.ndjson"), "--device", "cpu", "--data", path("kept")]
    for number, status in ((signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)):
        running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        time.sleep(3)
        running.send_signal(number)
        _, err = running.communicate(timeout=60)
        t.check("ended by %d" % number, running.returncode in (status, 0), (running.returncode, err))
        # the daemon of its own ends with it
        t.check("the directory is free", wait_until(lambda: run("timings", "stats", "--data", path("kept")).returncode == 0))
        now = kept_in(path("kept"))
        t.check("what was measured stays", len(now) > 2 * len(rows), len(now))
    owner = Daemon(data=path("kept"))
    busy = run(*command[1:])
    t.check("not beside a daemon", busy.returncode == 2 and "in use by another magisd" in busy.stderr and "--server" in busy.stderr, busy)
    owner.close()


def jobs_in(data):
    """All that the store has of jobs, and its mark of a clean stop."""
    with contextlib.closing(sqlite3.connect(data + "/store.db")) as db:
        return (list(db.execute("SELECT * FROM jobs")), list(db.execute("SELECT value FROM meta WHERE key = 'clean'")))


def ask_socket(data, asked):
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(data + "/timings.sock")
        peer.sendall(asked + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return status_of(read_all(peer))


def test_jobs_at_rest(t):
    """A command that works on a directory leaves its jobs alone, however it ends."""
    data = path("rest")
    daemon = Daemon("--workers", "1", data=data)
    for name in ("running", "queued"):
        daemon.post("/optimize", {"zoo": {"model": "mlp"}, "device": "h200", "name": name, "budget": {"seconds": 60}})
    while daemon.get("/jobs?state=running").json["jobs"] == []:
        time.sleep(0.05)
    daemon.stop(signal.SIGKILL)
    before = jobs_in(data)
    t.equal("one was running, uncleanly", (len(before[0]), before[1]), (2, [("0",)]))
    t.equal("stats", run("timings", "stats", "--data", data).returncode, 0)
    t.equal("nothing has changed", jobs_in(data), before)
    for n, number in enumerate((signal.SIGTERM, signal.SIGKILL)):
        write_wants("rest.ndjson", 300, 1 + 300 * n)
        running = subprocess.Popen([MAGISD, "measure", "--from", path("rest.ndjson"), "--device", "cpu", "--data", data,
                                    "--max-seconds", "20"], stderr=subprocess.PIPE, text=True)
        while not os.path.exists(data + "/timings.sock") and running.poll() is None:
            time.sleep(0.02)
        time.sleep(0.5)
        own = int(open(data + "/lock").read())
        t.equal("it serves timings alone", [ask_socket(data, asked) for asked in (b"GET /timings", b"GET /jobs", b"GET /healthz")], [200, 404, 404])
        os.kill(running.pid if number == signal.SIGTERM else own, number)
        if number == signal.SIGKILL:  # told twice the command would not wait for its daemon, which the next one then met
            time.sleep(0.2)
            running.terminate()
        running.communicate(timeout=100)
        t.equal("ended by %d nothing has changed" % number, jobs_in(data), before)
    with contextlib.closing(sqlite3.connect(data + "/store.db")) as db, db:
        db.execute("UPDATE meta SET value = '1' WHERE key = 'clean'")
    t.equal("imported", run("timings", "import", path("got.ndjson"), "--data", data).returncode, 0)
    t.equal("nor after a clean stop", jobs_in(data), (before[0], [("1",)]))


def test_handed_over(t):
    """--server: to a daemon, also to one that is away for a while."""
    daemon = Daemon(data=path("served"))
    there = ["--server", "http://" + daemon.address]
    answer = run("measure", *NET, "--device", "cpu", *there)
    taken = lambda: daemon.get("/timings?limit=2000").json["timings"]
    t.check("handed over", answer.returncode == 0 and answer.stdout == "" and len(taken()) == len(rows_of("got.ndjson")[1]), answer)
    quiet = subprocess.run([MAGISD, "measure", *NET, "--device", "cpu", "--max-seconds", "0.001"], capture_output=True, text=True,
                           env={**os.environ, "MAGISD_SERVER": "http://127.0.0.1:1", "MAGISD_DATA": path("nowhere")})
    t.check("not for what the environment says", quiet.returncode == 0 and not os.path.exists(path("nowhere")), quiet)
    write_wants("away.ndjson", 400, 400)
    before = len(taken())
    running = subprocess.Popen([MAGISD, "measure", "--from", path("away.ndjson"), "--device", "cpu", *there, "--max-seconds", "18",
                                "-o", path("away-got.ndjson")], stderr=subprocess.PIPE, text=True)
    while len(taken()) == before and running.poll() is None:
        time.sleep(0.05)
    seen = {(r["agent"], r["batch"], r["row"]) for r in taken()}
    daemon.listen = daemon.address
    daemon.stop(signal.SIGKILL)
    time.sleep(8)
    daemon.start()
    t.equal("what was acknowledged is there", seen - {(r["agent"], r["batch"], r["row"]) for r in taken()}, set())
    _, err = running.communicate(timeout=100)
    now = taken()
    t.check("the rest comes when it is back", running.returncode == 0 and "cannot be reached" in err, (running.returncode, err))
    t.equal("each row once", len({(r["agent"], r["batch"], r["row"]) for r in now}), len(now))
    t.equal("all that was measured", len(now) - before, len(rows_of("away-got.ndjson")[1]))
    made = run("token", "add", "reader", "--role", "read", "--data", path("served"))
    refused = run("measure", *NET, "--device", "cpu", *there, "--token", made.stdout.strip())
    write_wants("one.ndjson", 1, 2000)
    one, tokens = ["measure", "--from", path("one.ndjson"), "--device", "cpu", *there], []
    for name in ("first", "second"):
        tokens.append(run("token", "add", name, "--role", "measure", "--data", path("served")).stdout.strip())
    t.equal("under a name of its own", run(*one, "--name", "mine", "--token", tokens[0]).returncode, 0)
    taken_name = run(*one, "--name", "mine", "--token", tokens[1])
    t.check("which is another token's", taken_name.returncode == 1 and "another token; --name gives" in taken_name.stderr, taken_name)
    t.equal("another name", run(*one, "--name", "other", "--token", tokens[1]).returncode, 0)
    t.check("a blank name", run(*one, "--name", "a b").returncode == 2)
    t.check("a reader's token is refused first", refused.returncode == 1 and "measure" in refused.stderr and
            "0 operators" not in refused.stderr, refused)
    daemon.close()


class Hanging(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Answers whether timings may come, then nothing until it is well again."""
    daemon_threads = allow_reuse_address = True
    taken, asked, well = [], 0, False


class Answer(socketserver.StreamRequestHandler):
    def handle(self):
        size = 0
        while (line := self.rfile.readline().strip()):
            size = int(line.split()[1]) if line.lower().startswith(b"content-length") else size
        lines = [json.loads(line) for line in self.rfile.read(size).splitlines()]
        self.server.asked += 1
        if self.server.asked > 1 and not self.server.well:
            time.sleep(300)
        self.server.taken += [line for line in lines if "signature" in line]
        body = b'{"added": %d}' % len(lines)
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


def test_hanging(t):
    """A daemon that does not answer holds up nothing for long, and gets all of it in the end."""
    with Hanging(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        write_wants("hang.ndjson", 400, 800)
        start = time.monotonic()
        running = subprocess.Popen([MAGISD, "measure", "--from", path("hang.ndjson"), "--device", "cpu", "-o", path("hang-got.ndjson"),
                                    "--server", "http://127.0.0.1:%d" % server.server_address[1], "--max-seconds", "25"],
                                   stderr=subprocess.PIPE, text=True)
        while server.asked < 2 and running.poll() is None:
            time.sleep(0.05)
        first = len(lines_of("hang-got.ndjson"))
        time.sleep(14)
        t.check("it measures on", len(lines_of("hang-got.ndjson")) > first, first)
        server.well = True
        try:
            _, err = running.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            running.kill()
            _, err = running.communicate()
        t.check("the time is kept", running.returncode == 0 and time.monotonic() - start < 60, (running.returncode, time.monotonic() - start, err))
        t.equal("all of it is taken", len(server.taken), len(rows_of("hang-got.ndjson")[1]))
        server.shutdown()


def test_plan(t):
    """The operators of a plan, parts and all, and the plan as a whole."""
    net = ["zoo:mlp", "--set", "batch=4096", "--training", "loss=mse,optimizer=sgd"]
    made = run("optimize", *net, "--device", path("cpu.json"), "--evaluations", "3000", "--memory-ratio", "0.7", "-o", path("cut.json"))
    plan = json.load(open(path("cut.json")))
    t.check("a plan with regions", made.returncode == 0 and plan["regions"], made)
    answer = run("measure", *net, "--plan", path("cut.json"), "--device", "cpu")
    t.check("what it took beside what it says", answer.returncode == 0 and answer.stdout.startswith("plan: ") and
            "the plan says" in answer.stdout and "peak" in answer.stdout and "operators measured" not in answer.stderr, answer)
    answer = run("measure", *net, "--plan", path("cut.json"), "--device", "cpu", "-o", path("cut.ndjson"))
    t.check("and its operators where they are wanted", answer.returncode == 0 and answer.stdout.startswith("plan: "), answer)
    copies = ("store", "load", "slice", "join", "acc")
    _, rows = rows_of("cut.ndjson")
    got, wanted = {(r["op"], r["signature"]) for r in rows}, {(p["op"], p["signature"]) for p in plan["prices"] if p["op"] not in copies}
    t.equal("every one", got, wanted)
    run("measure", *net, "--device", "cpu", "-o", path("whole.ndjson"))
    t.check("parts too", got - {(r["op"], r["signature"]) for r in rows_of("whole.ndjson")[1]}, got)
    answer = run("measure", *net, "--plan", path("cut.json"), "--device", "cpu", "-o", "-", "--max-seconds", "60")
    t.check("rows printed, it is told beside them", answer.stdout.startswith('{"agent"') and "plan: " in answer.stderr, answer)
    other = run("measure", "zoo:mlp", "--plan", path("cut.json"), "--device", "cpu")
    t.check("another graph's plan", other.returncode == 2 and "another graph" in other.stderr, other)


tests = Tests()
tests.run(test_usage, test_rows, test_ended, test_profile_that_is_stopped, test_profile, test_run, test_kept, test_jobs_at_rest, test_handed_over, test_hanging, test_plan)
tests.end()
