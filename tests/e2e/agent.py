"""Agents: several share the work, lose nothing when they or the daemon are killed; the command line of the cache."""
import contextlib
import http.server
import json
import os
import shutil
import signal
import subprocess
import threading
import time
import urllib.parse

from libe2e import MAGISD, Daemon, Tests, wait_until


def start_agent(name, *more, device="model:rtx3090", **environment):
    return subprocess.Popen([MAGISD, "agent", "--server", "http://" + daemon.address, "--device", device, "--name", name,
                             *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, **environment})


def timings(*arguments, **more):
    return subprocess.run([MAGISD, "timings", *arguments, "--server", "http://" + daemon.address], capture_output=True,
                          text=True, **more)


def missing():
    return daemon.get("/timings/missing?model=model:rtx3090").text.splitlines()


def submit(**zoo):
    return daemon.post("/optimize?wait=60", {"zoo": {"model": "mlp", **zoo}, "device": "model-card",
                                             "budget": {"evaluations": 30}}).json


def all_rows():
    rows, after = [], 0
    while after is not None:
        page = daemon.get("/timings?limit=2000&after=%d" % after).json
        rows += page["timings"]
        after = page["next"]
    return rows


def setup(t):
    global daemon, model_card
    daemon = Daemon("--workers", "1")
    model_card = dict(daemon.get("/devices/rtx3090").json["profile"], name="model-card", gpu_names=["model:rtx3090"])
    t.equal("profile", daemon.request("PUT", "/devices/model-card", model_card).status, 200)


def test_one(t):
    job = submit()
    t.check("wanted", wait_until(missing))
    agent = start_agent("one", "--once")
    out, err = agent.communicate(timeout=120)
    t.check("measures all and ends", agent.returncode == 0 and missing() == [] and "measured" in out, (agent.returncode, out, err))
    again = submit()
    t.equal("every operator is measured", again["prices"]["exact"], 1.0)
    t.check("the model measures what the model says",
            abs(again["original"]["latency_s"] / job["original"]["latency_s"] - 1) < 1e-9, again["original"])
    known = daemon.get("/agents").json["agents"][0]
    t.check("the agent is known", known["name"] == "one" and known["class"]["device"] == "model:rtx3090" and known["rows"] > 5, known)


def test_shared(t):
    for batch in (7, 11, 13, 17):
        submit(batch=batch)
    t.check("wanted", wait_until(lambda: len(missing()) > 100), len(missing()))
    agents = [start_agent("s%d" % i, "--once") for i in range(4)]
    for agent in agents:
        agent.communicate(timeout=120)
    t.equal("all end", [agent.returncode for agent in agents], [0] * 4)
    t.equal("nothing is missing", missing(), [])
    rows = all_rows()
    t.equal("nothing was measured twice", len(rows), len({r["op"] + r["signature"] for r in rows}))
    t.check("they shared the work", len({r["agent"] for r in rows if r["agent"].startswith("s")}) > 1)


def test_killed_agent(t):
    for batch in (19, 23, 29):
        submit(batch=batch)
    t.check("wanted", wait_until(lambda: len(missing()) > 100))
    of_profile = timings("missing", "--device", "model-card")
    t.check("missing of a profile", len(of_profile.stdout.splitlines()) > 100, of_profile)
    t.check("of a device", len(timings("missing", "--device", "model:rtx3090").stdout.splitlines()) > 100)
    before = len(all_rows())
    agent = start_agent("killed")
    wait_until(lambda: len(all_rows()) > before)
    kept = len(all_rows())
    agent.kill()
    agent.communicate()
    t.check("what it had posted stays", len(all_rows()) >= kept > before, (before, kept))


def test_killed_daemon(t):
    kept = len(all_rows())
    port = daemon.address
    agent = start_agent("patient", "--max-seconds", "40")
    wait_until(lambda: len(all_rows()) > kept)
    kept = len(all_rows())
    daemon.stop(signal.SIGKILL)
    daemon.listen = port
    time.sleep(0.5)
    daemon.start()
    t.check("nothing acknowledged is lost", len(all_rows()) >= kept)
    agent.send_signal(signal.SIGTERM)
    out, _ = agent.communicate(timeout=100)
    t.check("the agent outlives the daemon", agent.returncode == 0, (agent.returncode, out))


def test_killed_worker(t):
    job = daemon.post("/optimize", {"zoo": {"model": "mlp", "batch": 40}, "device": "model-card", "fresh": True,
                                    "budget": {"seconds": 3}}).json
    kept = len(all_rows())
    wait_until(lambda: daemon.get("/jobs/" + job["id"]).json["state"] == "running")
    generation = wait_until(lambda: daemon.get("/jobs/" + job["id"]).json["timings_generation"])
    children = subprocess.run(["pgrep", "-P", str(daemon.process.pid), "-f", "worker"], capture_output=True, text=True).stdout
    for pid in children.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    ended = daemon.get("/jobs/%s?wait=60" % job["id"]).json
    t.check("the job goes on with the same timings", ended["state"] == "succeeded" and
            ended["timings_generation"] == generation, ended)
    t.equal("no timing is lost", len(all_rows()), kept)


def test_command_line(t):
    path = os.path.join(daemon.home, "all.ndjson")
    exported = timings("export", "-o", path)
    lines = open(path).read().splitlines()
    t.check("export", exported.returncode == 0 and len([x for x in lines if "signature" in x]) == len(all_rows()), exported)
    again = timings("import", path)
    t.check("import of what is there", again.returncode == 0 and again.stdout.startswith("0 added, %d known" % len(all_rows())),
            again)
    cut = os.path.join(daemon.home, "cut.ndjson")
    with open(cut, "w") as file:
        file.write(open(path).read()[:-20])
    refused = timings("import", cut)
    t.check("a file that was cut", refused.returncode == 2 and not refused.stdout and
            "within line %d" % len(lines) in refused.stderr, refused)
    t.check("list", timings("list").stdout.count("model:rtx3090") >= min(len(all_rows()), 2000))
    t.check("stats", "model:rtx3090" in timings("stats").stdout)
    want = timings("missing")
    t.check("missing", want.returncode == 0 and all("signature" in json.loads(x) for x in want.stdout.splitlines()), want)
    other = timings("missing", "--device", "NVIDIA H200")
    t.check("missing of another device", other.returncode == 0 and other.stdout == "", other)
    known = daemon.get("/devices").json["classes"][0]["id"]
    t.equal("missing of a class", timings("missing", "--device", "class:" + known).returncode, 0)
    kept = os.path.join(daemon.home, "kept.ndjson")
    open(kept, "w").write("kept\n")
    for unknown in ("nothing & such", "class:0123456789abcdef"):
        other = timings("missing", "--device", unknown, "-o", kept)
        t.check("no such device: " + unknown, other.returncode == 2 and unknown in other.stderr and "rtx3090" in other.stderr and
                "NVIDIA H200" in other.stderr and "class:" + known in other.stderr and open(kept).read() == "kept\n", other)
    t.equal("usage", timings("sing").returncode, 2)
    other = subprocess.run([MAGISD, "timings", "list", "--server", "http://127.0.0.1:1"], capture_output=True, text=True)
    t.check("nobody there", other.returncode == 1 and "cannot be reached" in other.stderr, other)


class Other(http.server.BaseHTTPRequestHandler):
    """Another program in the daemon's place, whose profiles list more than names."""

    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        profile = {"name": "odd", "profile": {"gpu_names": [7, None, "model:rtx3090"]}}
        data = b"one\n" if "/missing" in self.path else json.dumps({"devices": [profile], "operators": []}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_GET

    def log_message(self, *arguments):
        pass


def test_odd_profiles(t):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    there = ["--server", "http://127.0.0.1:%d" % server.server_port]
    run = lambda *arguments: subprocess.run([MAGISD, *arguments, *there], capture_output=True, text=True, timeout=60)
    want = run("timings", "missing", "--device", "odd")
    t.check("what is no name is left out", want.returncode == 0 and want.stdout == "one\n", want)
    agent = run("agent", "--once", "--device", "model:rtx3090")
    t.check("an agent, too", agent.returncode == 0 and "no run for odd has" in agent.stderr, agent)
    server.shutdown()


def test_idle(t):
    """An agent without work says why: once, and again when the reason changes."""
    reasons = []
    agent = start_agent("idle", "--duty", "100", device="model:h200")
    lines = threading.Thread(target=lambda: reasons.extend(line for line in agent.stderr if "nothing to do" in line))
    lines.start()
    t.check("no profile is for it", wait_until(lambda: len(reasons) == 1) and "--calibrate --device model:h200" in reasons[0], reasons)
    profile = dict(model_card, name="another", gpu_names=["model:h200"])
    t.equal("stored", daemon.request("PUT", "/devices/another", profile).status, 200)
    job = daemon.post("/optimize?wait=60", {"zoo": {"model": "mlp", "batch": 3}, "device": "another", "budget": {"evaluations": 5}}).json
    t.check("a run for it is measured", wait_until(lambda: daemon.get("/timings/missing?model=model:h200").text == ""), (job, reasons))
    t.check("and it says that that is all", wait_until(lambda: len(reasons) == 2) and
            "what runs for another want is measured" in reasons[1], reasons)
    agent.send_signal(signal.SIGTERM)
    agent.wait(timeout=60)
    lines.join()
    t.equal("each is said once", len(reasons), 2)
    hour = time.localtime().tm_hour
    agent = start_agent("modest", "--hours", "%d-%d" % ((hour + 2) % 24, (hour + 3) % 24), "--once")
    _, err = agent.communicate(timeout=60)
    t.check("or that it is not yet time", "nothing to do" in err and "--hours" in err, err)


def test_calibrated(t):
    """What an agent of the processor is told to make has the name of its device."""
    made = subprocess.run([MAGISD, "measure", "--calibrate", "--device", "cpu"], capture_output=True, text=True)
    profile = json.loads(made.stdout)
    agent = start_agent("processor", "--once", device="cpu")
    _, err = agent.communicate(timeout=60)
    t.check("nothing to do before", "no device profile" in err, err)
    known = next(a for a in daemon.get("/agents").json["agents"] if a["name"] == "processor")
    t.equal("named as the device", profile["gpu_names"], [known["class"]["device"]])
    t.equal("stored", daemon.request("PUT", "/devices/cpu", profile).status, 200)
    submit_to = {"zoo": {"model": "mlp", "batch": 5}, "device": "cpu", "budget": {"evaluations": 5}}
    t.equal("a device like any", daemon.post("/optimize?wait=60", submit_to).json["state"], "succeeded")
    t.check("for which timings are wanted", wait_until(lambda: daemon.get("/timings/missing?model=" + urllib.parse.quote(known["class"]["device"])).text))


CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *time)
{
    static int (*real)(clockid_t, struct timespec *);
    static long long now, step = 1000000;
    if (clock == CLOCK_THREAD_CPUTIME_ID) {
        step += getenv("MAGIS_SLOWING") ? step / 50 + 1 : 0;
        *time = (struct timespec){(now += step) / 1000000000, now % 1000000000};
        return 0;
    }
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    return real(clock, time);
}
"""
HUGE = {"format": "magis-graph/1", "name": "huge", "ops": [{"name": "relu", "op": "relu", "inputs": ["x"], "outputs": ["y"]}],
        "values": [{"name": "x", "shape": [2, 1 << 42], "dtype": "f32", "kind": "input"}], "outputs": ["y"]}


def timed_by(clock, name, **environment):
    """An agent of the processor, whose time is none of the real one."""
    agent = start_agent(name, "--once", device="cpu", LD_PRELOAD=clock,
                        ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0", **environment)
    out, err = agent.communicate(timeout=200)
    return agent.returncode, out, err


def test_disturbed(t):
    """What was thrown away is to be had again at once, and what to do is said; too little memory is a result."""
    clock = os.path.join(daemon.home, "clock.so")
    made = subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-xc", "-", "-o", clock, "-ldl"], input=CLOCK,
                          capture_output=True, text=True)
    t.equal("a clock", made.returncode, 0)
    code, out, err = timed_by(clock, "disturbed", MAGIS_SLOWING="1")
    t.check("all is thrown away", code == 1 and out.startswith("0 measured, ") and not out.startswith("0 measured, 0"), (code, out, err))
    t.check("and it says what to do", "5 batches in a row" in err and "Run this again when it is idle" in err, err)
    t.equal("nobody asked for more", daemon.post("/optimize?wait=60", {"graph": HUGE, "device": "cpu", "budget": {"evaluations": 5}}).status, 200)
    code, out, err = timed_by(clock, "disturbed")
    t.check("it begins again with what it threw away", code == 0 and int(out.split()[0]) > 50 and ", 0 thrown away" in out, (code, out, err))
    large = [row["status"] for row in all_rows() if "4398046511104" in row["signature"]]
    t.check("what there is no memory for", large and set(large) == {"out_of_memory"} and "too little memory" in err, (large, err))
    t.check("is not asked again at once", "4398046511104" not in timings("missing", "--device", "cpu").stdout)


def test_one_name(t):
    """A name is of one agent at a time, and of the same one at once when it is started again."""
    state = lambda: [a["state"] for a in daemon.get("/agents").json["agents"] if a["name"] == "twin"]
    agent = start_agent("twin", "--max-seconds", "100")
    t.check("known", wait_until(state))
    other = start_agent("twin", "--once", device="cpu")
    err = other.communicate(timeout=60)[1]
    t.check("not on another device", other.returncode != 0 and "--name" in err, (other.returncode, err))
    agent.kill()
    agent.communicate()
    again = start_agent("twin", "--once")
    again.communicate(timeout=100)
    t.equal("killed it is itself again", (again.returncode, state()), (0, ["ended"]))
    other = start_agent("twin", "--once", "--max-seconds", "5", device="cpu")
    err = other.communicate(timeout=60)[1]
    keys = [a["class"]["key"]["backend"] for a in daemon.get("/agents").json["agents"] if a["name"] == "twin"]
    t.check("ended it makes room", "--name" not in err and keys == ["cpu"], (keys, err))


def test_forgotten(t):
    """A daemon that has lost its store does not know the agent: it is made known again, and goes on."""
    agent = start_agent("stayed", "--duty", "100", "--max-seconds", "100")
    known = lambda: "stayed" in [a["name"] for a in daemon.get("/agents").json["agents"]]
    t.check("known", wait_until(known))
    port = daemon.address
    daemon.stop(signal.SIGKILL)
    shutil.move(daemon.data, daemon.data + ".kept")
    daemon.listen = port
    daemon.start()
    t.check("known again", wait_until(known))
    t.equal("profile", daemon.request("PUT", "/devices/model-card", model_card).status, 200)
    submit(batch=21)
    t.check("and works on", wait_until(lambda: [r for r in all_rows() if r["agent"] == "stayed"]))
    agent.send_signal(signal.SIGTERM)
    agent.communicate(timeout=60)
    t.equal("ends well", agent.returncode, 0)
    daemon.stop()
    shutil.rmtree(daemon.data)
    shutil.move(daemon.data + ".kept", daemon.data)
    daemon.start()


def test_token(t):
    made = subprocess.run([MAGISD, "token", "add", "reader", "--role", "read", "--data", daemon.data], capture_output=True, text=True)
    agent = start_agent("refused", "--once", MAGISD_TOKEN=made.stdout.strip())
    _, err = agent.communicate(timeout=60)
    t.check("a reader's token does not measure", agent.returncode == 1 and "measure" in err, err)
    made = subprocess.run([MAGISD, "token", "add", "meter", "--role", "measure", "--data", daemon.data], capture_output=True, text=True)
    agent = start_agent("metered", "--once", "--max-seconds", "60", MAGISD_TOKEN=made.stdout.strip())
    out, err = agent.communicate(timeout=120)
    t.check("a measuring token does", agent.returncode == 0, (out, err))
    taken = subprocess.run([MAGISD, "token", "add", "thief", "--role", "measure", "--data", daemon.data], capture_output=True, text=True)
    agent = start_agent("metered", "--once", MAGISD_TOKEN=taken.stdout.strip())
    _, err = agent.communicate(timeout=60)
    t.check("an agent belongs to its token", agent.returncode == 1 and "another token" in err, err)


def test_without_a_daemon(t):
    home = os.path.join(daemon.home, "own")
    path = os.path.join(daemon.home, "all.ndjson")
    run = lambda *arguments: subprocess.run([MAGISD, "timings", *arguments, "--data", home], capture_output=True, text=True)
    added = run("import", path)
    t.check("import into a directory", added.returncode == 0 and " added" in added.stdout and added.stdout[0] != "0", added)
    t.equal("and out of it", run("export").stdout, open(path).read())
    taken = subprocess.run([MAGISD, "timings", "stats", "--data", daemon.data], capture_output=True, text=True)
    t.check("not beside a running daemon", taken.returncode == 1 and "--server" in taken.stderr, taken)


tests = Tests()
tests.run(setup, test_one, test_shared, test_killed_agent, test_killed_daemon, test_killed_worker, test_command_line, test_without_a_daemon, test_odd_profiles,
          test_idle, test_calibrated, test_disturbed,
          test_one_name, test_forgotten,
          test_token)
tests.equal("stops", daemon.close(), 0)
tests.end()
