"""Files of other users: a data directory or a device's lock that root made once is named, with its owner and what to do,
and no lock that we may read is in the way."""
import fcntl
import json
import os
import pwd
import shutil
import subprocess
import tempfile
import time

from libe2e import MAGISD, Tests

NOBODY = 65534
home = tempfile.mkdtemp(prefix="magisd-owners-", dir="/tmp")
os.chmod(home, 0o755)
program = os.path.join(home, "magisd")
shutil.copy(MAGISD, program)
locks = os.path.join(home, "locks")
LOCK = os.path.join(locks, "magisd-cpu.lock")
os.mkdir(locks)
os.chmod(locks, 0o1777)
os.environ["MAGISD_LOCK_DIR"] = locks  # whoever else measures on this machine is not kept from it
WANT = json.dumps({"op": "add", "signature": "f32;f32[64],f32[64]->f32[64]"}) + "\n"


def path(*names):
    return os.path.join(home, *names)


def run(*arguments, user=None):
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120, user=user, cwd=home,
                          stdin=subprocess.DEVNULL)


def serve_once(data):
    """A daemon that ran here as root, and has gone."""
    made = run("timings", "stats", "--data", data)
    assert made.returncode == 0, made


def refused(t, what, answer, name, codes=(1, 2)):
    owner, self_name = (pwd.getpwuid(uid).pw_name for uid in (0, NOBODY))
    said = "%s belongs to %s (mode " % (name, owner)
    t.check(what + " says whose it is", answer.returncode in codes and said in answer.stderr and
            "and this process runs as %s" % self_name in answer.stderr, answer)


def test_directory(t):
    data = path("data")
    serve_once(data)
    commands = {"serve": ["serve", "--data", data, "--listen", "127.0.0.1:0"], "timings": ["timings", "list", "--data", data],
                "measure": ["measure", "--from", path("want"), "--device", "cpu", "--data", data],
                "token": ["token", "add", "somebody", "--role", "read", "--data", data],
                "optimize": ["optimize", "zoo:mlp", "--evaluations", "5", "--data", data]}
    for name, command in commands.items():
        refused(t, name, run(*command, user=NOBODY), data)
    os.chown(data, NOBODY, NOBODY)
    for name in ("serve", "timings", "measure"):
        answer = run(*commands[name], user=NOBODY)
        refused(t, name, answer, data + "/lock")
        t.check(name + " says what to do", "chown -R %d %s" % (NOBODY, data) in answer.stderr, answer)
    os.chown(data + "/lock", NOBODY, NOBODY)
    refused(t, "the database", run(*commands["serve"], user=NOBODY), data + "/store.db")
    os.chmod(data + "/store.db", 0o600)
    refused(t, "the database, read", run(*commands["optimize"], user=NOBODY), data + "/store.db")
    subprocess.run(["chown", "-R", str(NOBODY), data], check=True)
    done = run(*commands["timings"], user=NOBODY)
    t.equal("what it says helps", (done.returncode, done.stderr), (0, ""))
    done = run(*commands["measure"], user=NOBODY)
    t.check("measured", done.returncode == 0 and "1 operators measured" in done.stderr, done)
    root = run(*commands["timings"])
    t.equal("root may all", root.returncode, 0)


def test_only_read(t):
    """What serving need not write may be somebody else's: profiles and tokens that root puts there."""
    data = path("managed")
    serve_once(data)
    t.equal("a token", run("token", "add", "somebody", "--role", "measure", "--data", data).returncode, 0)
    subprocess.run(["chown", "-R", str(NOBODY), data], check=True)
    os.mkdir(data + "/devices")
    for name, mode in (("devices", 0o755), ("tokens.json", 0o644), ("backup", 0o700), ("tokens.lock", 0o600)):
        os.chown(os.path.join(data, name), 0, 0)
        os.chmod(os.path.join(data, name), mode)
    served = subprocess.Popen([program, "serve", "--data", data, "--listen", "127.0.0.1:0", "--port-file", data + "/port"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, user=NOBODY)
    while not os.path.exists(data + "/port") and served.poll() is None:
        time.sleep(0.02)
    t.equal("is served", served.poll(), None)
    served.terminate()
    _, err = served.communicate(timeout=30)
    t.equal("and ends well", (served.returncode, [line for line in err.splitlines() if not line.startswith("{")]), (0, []))
    os.chmod(data + "/tokens.json", 0o600)
    refused(t, "tokens that cannot be read", run("serve", "--data", data, "--listen", "127.0.0.1:0", user=NOBODY), data + "/tokens.json")


def test_lock_of_root(t):
    measure = ["measure", "--from", path("want"), "--device", "cpu"]
    os.unlink(LOCK)  # that of whoever measured before
    t.equal("measured by root", run(*measure).returncode, 0)
    os.chmod(LOCK, 0o644)
    done = run(*measure, user=NOBODY)
    t.check("root's lock is shared", done.returncode == 0 and "1 operators measured" in done.stderr, done)
    os.chmod(LOCK, 0o600)
    try:
        answer = run(*measure, user=NOBODY)
        agent = run("agent", "--once", "--device", "cpu", "--server", daemon_place(), user=NOBODY)
    finally:
        os.chmod(LOCK, 0o644)
        end_daemon()
    refused(t, "a closed one", answer, LOCK, (1,))
    t.check("and nothing is measured", answer.stdout == "" and "chmod 644 " + LOCK in answer.stderr, answer)
    refused(t, "and an agent", agent, LOCK, (1,))


def daemon_place():
    global daemon
    place = "unix:" + path("socket")
    daemon = subprocess.Popen([program, "serve", "--data", path("served"), "--listen", place, "--port-file", path("port")],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not os.path.exists(path("port")) and daemon.poll() is None:
        time.sleep(0.02)
    os.chmod(path("socket"), 0o777)
    return place


def end_daemon():
    daemon.terminate()
    daemon.wait(30)


def test_lock_that_is_held(t):
    """Two processes that measure at once would measure each other."""
    measure = ["measure", "--from", path("want"), "--device", "cpu"]
    t.equal("makes the lock", run(*measure).returncode, 0)
    held = open(LOCK)
    fcntl.flock(held, fcntl.LOCK_EX)
    waited = run(*measure, "--max-seconds", "0.5")
    t.check("waits, and says so", waited.returncode == 1 and waited.stdout == "" and "waiting until it is done" in waited.stderr and
            "nothing was measured" in waited.stderr, waited)
    fitted = run("measure", "--calibrate", "--device", "cpu", "--max-seconds", "0.5")
    t.check("as does the profile", (fitted.returncode, fitted.stdout) == (1, "") and "nothing was measured" in fitted.stderr, fitted)
    waiting = subprocess.Popen([program, *measure], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(0.5)
    t.equal("for as long as it takes", waiting.poll(), None)
    executing = subprocess.Popen([program, "run", "zoo:mlp", "--device", "cpu"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(0.5)
    t.equal("so does what executes there", executing.poll(), None)
    held.close()
    _, err = waiting.communicate(timeout=100)
    t.check("then it measures", waiting.returncode == 0 and "1 operators measured" in err, err)
    out, err = executing.communicate(timeout=100)
    t.check("and executes; whom it waited for is said", executing.returncode == 0 and "zoo:mlp" not in err and out and
            "magisd run: another process (%d) measures on" % os.getpid() in err, (out, err))
    t.equal("which needs no lock without a device", run("run", "zoo:mlp", "--lock-dir", path("nowhere")).returncode, 0)
    t.equal("and there is none for it here", run("run", "zoo:mlp", "--device", "cpu", "--lock-dir", path("nowhere")).returncode, 1)


def test_lock_that_is_no_file(t):
    os.unlink(LOCK)
    os.mkfifo(LOCK)
    measured = run("measure", "--from", path("want"), "--device", "cpu")
    t.check("a pipe is not waited for", measured.returncode == 1 and LOCK + " is no file" in measured.stderr and not measured.stdout, measured)
    os.unlink(LOCK)
    os.symlink(path("want"), LOCK)
    measured = run("measure", "--from", path("want"), "--device", "cpu")
    t.check("a link is not followed", measured.returncode == 1 and "cannot be locked: " + LOCK in measured.stderr, measured)
    os.unlink(LOCK)
    nowhere = run("measure", "--from", path("want"), "--device", "cpu", "--lock-dir", path("nowhere"))
    t.check("no such directory", nowhere.returncode == 1 and path("nowhere") + "/magisd-cpu.lock" in nowhere.stderr and
            "--lock-dir" in nowhere.stderr, nowhere)



open(path("want"), "w").write(WANT)
tests = Tests()
if os.geteuid() == 0:
    tests.run(test_directory, test_only_read, test_lock_of_root)
else:
    print("SKIPPED: only root can make files of another user; that these are named is not tested")
tests.run(test_lock_that_is_held, test_lock_that_is_no_file)
shutil.rmtree(home, ignore_errors=True)
tests.end()
