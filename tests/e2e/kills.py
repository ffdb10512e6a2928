"""Everything at once, and kill -9 at random moments: eight agents and four jobs, while daemon, workers, intake and agents
die. No row twice, no operator leased to two, nothing that was acknowledged is lost or changed."""
import collections
import contextlib
import http.server
import itertools
import json
import os
import random
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

from libe2e import MAGISD, Daemon, Tests, children

SEED = int(os.environ.get("MAGIS_SEED", time.time_ns() % 1000000))
SECONDS = 20
# A process that is killed while it looks for leaks leaves a report that says so.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"


class Book:
    """What was answered: rows that the daemon has acknowledged, and who held which operator from when to when."""

    def __init__(self):
        self.lock = threading.Lock()
        self.rows = {}  # (agent, batch, row): seconds
        self.held = collections.defaultdict(list)  # operator: [agent, asked, answered, given back or None]

    def acknowledge(self, agent, batch, rows):
        with self.lock:
            for r in rows:
                self.rows[(agent, batch, r["row"])] = r["median_s"]

    def lease(self, agent, asked, operators):
        with self.lock:
            for o in operators:
                self.held[(o["op"], o["signature"])].append([agent, asked, time.monotonic(), None])

    def give_back(self, agent, rows):
        """Called before they are sent: from now on others may have them."""
        with self.lock:
            for r in rows:
                for lease in self.held[(r["op"], r["signature"])]:
                    if lease[0] == agent and lease[3] is None:
                        lease[3] = time.monotonic()

    def leased_to_two(self):
        """A lease that was asked for and given while another agent surely had it (they last 120 s)."""
        faults = []
        for operator, leases in self.held.items():
            for a in leases:
                for b in leases:
                    until = min(a[3] or a[2] + 119, a[1] + 119)
                    if a[0] != b[0] and a[2] < b[1] and b[2] < until:
                        faults.append((operator, a, b))
        return faults


book = Book()
over = threading.Event()
numbers = itertools.count()  # of real agents


def call(method, path, body=None, server=None):
    """Status and text of the daemon's answer; 0: none came."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    kind = "application/x-ndjson" if isinstance(body, bytes) else "application/json"
    request = urllib.request.Request((server or "http://" + daemon.address) + path, data, {"Content-Type": kind}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError:
        return 0, b""
    except Exception:  # the peer died within its answer
        return 0, b""


def insist(method, path, body, patience=60):
    end = time.monotonic() + patience
    while time.monotonic() < end:
        status, text = call(method, path, body)
        if status == 200:
            return json.loads(text)
        time.sleep(0.05)
    raise RuntimeError("%s %s: no answer for a minute, last %r %r" % (method, path, status, text[:200]))


# ---- agents ----

def small_agent(name, faults):
    """Claims, and posts each batch twice at the same time, each until it is acknowledged."""
    number = 0

    def post(batch):
        insist("POST", "/timings", batch)
        book.acknowledge(name, batch["batch"], batch["rows"])

    try:
        insist("POST", "/agents", {"agent": name, "class": key})
        while not over.is_set():
            asked = time.monotonic()
            status, text = call("POST", "/timings/claims", {"agent": name, "max": 5})
            operators = json.loads(text)["operators"] if status == 200 else []
            if not operators:
                time.sleep(0.05)
                continue
            book.lease(name, asked, operators)
            rows = [{"row": i, "op": o["op"], "signature": o["signature"], "n": 9, "median_s": 1e-6 * (number + i + 1),
                     "mad_s": 0, "min_s": 1e-6} for i, o in enumerate(operators)]
            number += len(rows)
            batch = {"agent": name, "batch": "b%d" % number, "class": key, "rows": rows}
            book.give_back(name, rows)
            twice = [threading.Thread(target=post, args=(batch,)) for _ in range(2)]
            for thread in twice:
                thread.start()
            for thread in twice:
                thread.join()
    except Exception as error:
        faults.append((name, repr(error)))


class Between(http.server.BaseHTTPRequestHandler):
    """Stands between real agents and the daemon, and writes down what that has answered before the agent knows."""

    def do_POST(self):
        asked, body = time.monotonic(), self.rfile.read(int(self.headers.get("Content-Length", 0)))
        lines = [json.loads(line) for line in body.splitlines()] if self.path == "/timings" else []
        if lines:
            book.give_back(lines[0]["agent"], lines[1:])
        status, text = call("POST", self.path, body) if lines else call("POST", self.path, json.loads(body))
        if status == 200 and lines:
            book.acknowledge(lines[0]["agent"], lines[0]["batch"], lines[1:])
        elif status == 200 and self.path == "/timings/claims":
            book.lease(json.loads(body)["agent"], asked, json.loads(text)["operators"])
        self.answer(status, text)

    def do_GET(self):
        self.answer(*call("GET", self.path))

    def answer(self, status, text):
        with contextlib.suppress(OSError):  # the agent may be dead
            self.send_response(status or 503)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    def log_message(self, *arguments):
        pass


def start_agent(name):
    return subprocess.Popen([MAGISD, "agent", "--server", "http://127.0.0.1:%d" % between.server_port, "--device", "model:rtx3090",
                             "--name", name, "--duty", "100"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def end_agent(name, agent):
    """What it says to have measured: one that has only just begun is let begin."""
    while agent.poll() is None and not any(a["name"] == name for a in daemon.get("/agents").json["agents"]):
        time.sleep(0.1)
    agent.send_signal(signal.SIGTERM)
    words = agent.communicate(timeout=100)[0].split()
    return int(words[0]) if words else None


# ---- jobs ----

def keep_jobs(ids, faults):
    """Four jobs at any time, of graphs that nobody has seen."""
    batch, open_jobs = 100, []
    try:
        while not over.is_set():
            for job in list(open_jobs):
                status, text = call("GET", "/jobs/" + job)
                if status == 200 and json.loads(text)["state"] in ("succeeded", "failed"):
                    open_jobs.remove(job)
            while len(open_jobs) < 4 and not over.is_set():
                batch += 1
                status, text = call("POST", "/optimize", {"zoo": {"model": "mlp", "batch": batch}, "device": "model-card",
                                                          "training": {"loss": "mse", "optimizer": "sgd"}, "budget": {"seconds": 1}})
                if status in (200, 202):
                    ids.append(json.loads(text)["id"])
                    open_jobs.append(ids[-1])
                else:
                    break
            time.sleep(0.1)
    except Exception as error:
        faults.append(("jobs", repr(error)))


# ---- deaths ----

def kill_child(role, dice):
    pids = children(daemon, role)
    if not pids:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(dice.choice(pids), signal.SIGKILL)
    return True


def kill_daemon():
    daemon.stop(signal.SIGKILL)
    daemon.start()
    return True


def kill_agent(agents, dice):
    name = dice.choice(sorted(agents))
    agents[name].kill()
    agents.pop(name).communicate()
    name = "real%d" % next(numbers)
    agents[name] = start_agent(name)
    return True


def test_everything_dies(t):
    print("seed %d" % SEED)
    dice, faults, jobs = random.Random(SEED), [], []
    agents = {name: start_agent(name) for name in ("real%d" % next(numbers) for _ in range(2))}
    threads = [threading.Thread(target=small_agent, args=("small%d" % i, faults)) for i in range(6)]
    threads.append(threading.Thread(target=keep_jobs, args=(jobs, faults)))
    for thread in threads:
        thread.start()
    deaths, end = collections.Counter(), time.monotonic() + SECONDS
    ways = {"worker": lambda: kill_child("worker", dice), "intake": lambda: kill_child("intake", dice), "daemon": kill_daemon,
            "agent": lambda: kill_agent(agents, dice)}
    while time.monotonic() < end:
        time.sleep(dice.uniform(0.05, 1))
        way = dice.choice(sorted(ways))
        deaths[way] += ways[way]()
    over.set()
    ended = {name: end_agent(name, agent) for name, agent in agents.items()}
    for thread in threads:
        thread.join()
    t.equal("nobody was left without an answer", faults, [])
    t.check("each has died", all(deaths[way] >= 1 for way in ways), deaths)
    t.equal("agents end well", [agent.returncode for agent in agents.values()], [0, 0])
    check_rows(t, ended)
    check_jobs(t, jobs)
    print("%d rows acknowledged, %d jobs, deaths: %s, agents: %s" % (len(book.rows), len(jobs), dict(deaths), ended))


def all_rows():
    rows, after = [], 0
    while after is not None:
        page = daemon.get("/timings?limit=2000&after=%d" % after).json
        rows += page["timings"]
        after = page["next"]
    return rows


def check_rows(t, ended):
    rows = all_rows()
    there = {(r["agent"], r["batch"], r["row"]): r["median_s"] for r in rows}
    t.equal("no row twice", len(rows), len(there))
    t.equal("nothing acknowledged is lost", [key for key in book.rows if key not in there], [])
    t.equal("nor changed", [key for key, value in book.rows.items() if there.get(key, value) != value], [])
    t.equal("nothing is leased to two", book.leased_to_two(), [])
    t.check("much was done", len(book.rows) > 300 and len({name for name, _, _ in book.rows}) >= 7, len(book.rows))
    t.equal("what agents say to have measured is there", [sum(r["agent"] == name for r in rows) for name in ended], list(ended.values()))


def check_jobs(t, jobs):
    """Each has ended as it should, or says how often it was cut short."""
    odd = []
    for job in jobs:
        now = daemon.get("/jobs/%s?wait=60" % job).json
        died = now["state"] == "failed" and now["error"]["type"] in ("/errors/worker-died", "/errors/unclean-stops")
        if now["state"] != "succeeded" and not died:
            odd.append(now)
    t.equal("every job has an end", odd, [])
    t.check("there were jobs", len(jobs) >= 8, len(jobs))


def setup(t):
    global daemon, between, key
    daemon = Daemon("--workers", "2", "--pause-seconds", "1")
    daemon.listen = daemon.address  # the same one after each death
    card = dict(daemon.get("/devices/rtx3090").json["profile"], name="model-card", gpu_names=["model:rtx3090"])
    t.equal("profile", daemon.request("PUT", "/devices/model-card", card).status, 200)
    subprocess.run([MAGISD, "agent", "--server", "http://" + daemon.address, "--device", "model:rtx3090", "--once"], capture_output=True)
    key = daemon.get("/agents").json["agents"][0]["class"]["key"]  # leases are of one class of devices
    between = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Between)
    threading.Thread(target=between.serve_forever, daemon=True).start()


tests = Tests()
tests.run(setup, test_everything_dies)
between.shutdown()
tests.equal("stops", daemon.close(), 0)
tests.end()
