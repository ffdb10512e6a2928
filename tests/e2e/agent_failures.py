"""Operators that fail, make the device fail or end the process: agents and `measure` leave them out and go on."""
import json
import os
import re
import subprocess

from libe2e import MAGISD, Daemon, Tests, wait_until
from libproxy import between

# Stands before oneDNN, which makes a primitive of each product: what comes of it is up to the environment. The time of
# the processor is none of the real one, so that nothing disturbs.
FAULTS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static int faults;
int clock_gettime(clockid_t clock, struct timespec *time)
{
    static int (*real)(clockid_t, struct timespec *);
    static long long now;
    if (clock == CLOCK_THREAD_CPUTIME_ID) {
        now += 1000000;
        *time = (struct timespec){now / 1000000000, now % 1000000000};
        return 0;
    }
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    return real(clock, time);
}
void *dlopen(const char *name, int flags)
{
    void *(*real)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    return real(name && strcmp(name, "libdnnl.so.2") == 0 ? NULL : name, flags);
}
int dnnl_engine_create(void *engine, int kind, size_t index)
{
    int (*real)(void *, int, size_t) = (int (*)(void *, int, size_t))dlsym(RTLD_NEXT, "dnnl_engine_create");
    return faults && strcmp(getenv("FAULT"), "lasting") == 0 ? 5 : real(engine, kind, index);
}
int dnnl_primitive_create(void *primitive, const void *desc)
{
    int (*real)(void *, const void *) = (int (*)(void *, const void *))dlsym(RTLD_NEXT, "dnnl_primitive_create");
    if (strcmp(getenv("FAULT"), "crash") == 0)
        abort();
    if (strcmp(getenv("FAULT"), "memory") == 0)
        kill(getpid(), SIGKILL);
    if (strcmp(getenv("FAULT"), "none") == 0 || (strcmp(getenv("FAULT"), "passing") == 0 && faults++ > 0))
        return real(primitive, desc);
    faults++;
    return 5;
}
"""


def run(*arguments, fault, timeout=200):
    environment = {**os.environ, "LD_PRELOAD": faults, "FAULT": fault,
                   "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
    return subprocess.run([MAGISD, *arguments], capture_output=True, text=True, timeout=timeout, env=environment)


def agent(name, *more, fault, server=None):
    return run("agent", "--server", "http://" + (server or daemon.address), "--device", "cpu", "--name", name, "--once", *more, fault=fault)


def want(size):
    """Asks for the operators of a graph: one product, and what is no product."""
    values = [{"name": name, "shape": shape, "dtype": "f32", "kind": kind}
              for name, shape, kind in (("x", [2, size], "input"), ("w", [size, 2], "weight"))]
    graph = {"format": "magis-graph/1", "name": "small", "values": values, "outputs": ["y"],
             "ops": [{"name": "h", "op": "relu", "inputs": ["x"], "outputs": ["h"]},
                     {"name": "y", "op": "matmul", "inputs": ["h", "w"], "outputs": ["y"]}]}
    job = daemon.post("/optimize?wait=60", {"graph": graph, "device": "cpu", "budget": {"evaluations": 5}}).json
    wait_until(lambda: "matmul" in missing())
    return job["id"]


def missing():
    return daemon.get("/timings/missing?limit=20000").text


def rows_of(name):
    return daemon.get("/timings?limit=2000&agent=" + name).json["timings"]


def split(rows):
    """Which of the products, and of the others, were timed."""
    return ([r["status"] == "ok" for r in rows if r["op"] == "matmul"], [r["status"] == "ok" for r in rows if r["op"] != "matmul"])


def setup(t):
    global daemon, faults
    daemon = Daemon("--workers", "1")
    faults = os.path.join(daemon.home, "faults.so")
    library = re.search(r"libdnnl\.so\.2 .*=> (\S+)", subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout).group(1)
    made = subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-xc", "-", "-o", faults, "-xnone", "-Wl,--no-as-needed",
                           library, "-ldl"], input=FAULTS, capture_output=True, text=True)
    t.equal("faults", (made.returncode, made.stderr), (0, ""))
    calibrated = subprocess.run([MAGISD, "measure", "--calibrate", "--device", "cpu"], capture_output=True, text=True)
    profile = json.loads(calibrated.stdout)
    t.equal("stored", daemon.request("PUT", "/devices/cpu", profile).status, 200)


def test_poison(t):
    """What fails twice cannot be timed; all else is."""
    want(3)
    answer = agent("poisoned", fault="failing")
    products, others = split(rows_of("poisoned"))
    t.check("products cannot be timed", products and not any(products), products)
    t.check("what is left is", others and all(others), others)
    t.check("nothing is missing, and why is said", answer.returncode == 0 and "matmul" not in missing() and
            "again, it is left out: oneDNN" in answer.stderr, answer)


def test_passing(t):
    """What fails once is tried again."""
    want(5)
    answer = agent("lucky", fault="passing")
    products, others = split(rows_of("lucky"))
    t.check("all is timed", answer.returncode == 0 and products and all(products) and " failed: oneDNN" in answer.stderr, (products, answer))


def test_crash(t):
    """What ends the process is left out by the next one."""
    for batch, fault, number in ((7, "crash", 6), (9, "memory", 9)):
        want(batch)
        answer = agent(fault, fault=fault)
        products, others = split(rows_of(fault))
        t.check(fault + ": products are left out", products and not any(products), (products, answer))
        t.check(fault + ": what is left is timed", others and any(others), others)
        t.check(fault + ": and that is said", answer.returncode == 0 and "signal %d " % number in answer.stderr and
                "another one goes on" in answer.stderr and "matmul" not in missing(), answer)


def test_crash_of_a_plan(t):
    job = want(11)
    t.equal("asked for", daemon.post("/jobs/%s/plans/best/measure" % job, {}).status, 202)
    answer = agent("executor", fault="crash")
    known = daemon.get("/jobs/%s/plans/best/measure" % job).json["measurements"][0]
    t.check("nobody waits for it", known["state"] == "failed" and "did not survive" in known["reason"] and
            "while it executed a plan" in answer.stderr and answer.returncode == 0, (known, answer))


def test_gone(t):
    """Where the device does not come back, the agent ends, and begins without the operator if it can go on."""
    want(13)
    answer = agent("gone", fault="lasting")
    t.check("it ends", answer.returncode == 1 and rows_of("gone") == [] and " failed: oneDNN" in answer.stderr, answer)


def test_faster_before(t):
    """What the daemon knows of the card counts from the first batch on."""
    want(17)
    change = lambda path, body, answer: json.dumps({**answer.json, "canary_s": seconds}) if path == "/agents" else None
    with between(daemon, change) as address:
        for seconds, code in ((1e-9, 1), (0, 0)):
            answer = agent("slower", fault="none", server=address)
            t.check("known: %g s" % seconds, answer.returncode == code and bool(rows_of("slower")) == (code == 0) and
                    ("5 batches in a row" in answer.stderr) == (code == 1), answer)


def test_measure(t):
    path = os.path.join(daemon.home, "got.ndjson")
    net = ["zoo:mlp", "--set", "batch=2,hidden=8"]
    answer = run("measure", *net, "--device", "cpu", "-o", path, fault="failing")
    rows = [json.loads(line) for line in open(path)]
    products, others = split([r for r in rows if "signature" in r])
    t.check("products cannot be timed", answer.returncode == 0 and products and not any(products), answer)
    t.check("what is left is", others and any(others), others)
    answer = run("measure", *net, "--device", "cpu", "-o", path, fault="failing")
    t.check("nothing is asked again", answer.returncode == 0 and "0 operators measured" in answer.stderr, answer)
    answer = run("measure", *net, "--device", "cpu", fault="lasting")
    t.check("a device that is gone ends it", answer.returncode != 0 and "nothing more is measured" in answer.stderr, answer)


tests = Tests()
tests.run(setup, test_poison, test_passing, test_crash, test_crash_of_a_plan, test_gone, test_faster_before, test_measure)
tests.equal("stops", daemon.close(), 0)
tests.end()
