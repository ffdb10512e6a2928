"""deploy/gpu-check.sh without a card: on the processor, and with programs that hang or fail."""
import json
import os
import subprocess
import sys
import tempfile
import time

from libe2e import MAGISD, Tests

BUILD = os.environ.get("BUILD", "build")
home = tempfile.mkdtemp(prefix="magisd-gpu-check-", dir=os.environ.get("MAGIS_TMP"))
SECONDS = 600  # of the whole on the processor, at most
HANGS = "trap '' TERM\nwhile :; do sleep 1; done\n"
MAGIS = """
case "$1 $*" in
    *--calibrate*) echo '{}' > "$6"; echo calibrated ;;
    zoo*) printf '{"networks":[{"name":"mlp","title":"a","parameters":[{"name":"batch","default":"32"}]},'
          printf '{"name":"odd","title":"b","parameters":[{"name":"size"}]},{"name":"slow","title":"c","parameters":[]}]}\\n' ;;
    *zoo:mlp*) echo "5 operators measured on $*, 0 of them cannot be; 2 are left, the same command goes on with them" ;;
    *zoo:odd*--set*|*zoo:odd*--training*) exit 2 ;;
    *zoo:odd*) echo "7 operators measured" ;;
    *) trap '' TERM; while :; do sleep 1; done ;;
esac
"""


def check(name, seconds, **environment):
    """Exit status, what was printed, seconds."""
    start = time.monotonic()
    done = subprocess.run(["deploy/gpu-check.sh", os.path.join(home, name)], capture_output=True, text=True, timeout=seconds + 60,
                          env=dict(os.environ, GPU_CHECK_SECONDS=str(seconds), **environment))
    return done.returncode, done.stdout, time.monotonic() - start


def tables(out):
    """What stands below each title after the sections."""
    found = {}
    for part in out.split("\n\n== ")[1:]:
        title, _, text = part.partition("\n")
        found[title.replace("operators of", "networks").split(" ")[0]] = text
    return found


def programs(name, bench, operators, magis=MAGIS):
    """A folder of programs by their text."""
    for path, text in (("magisd", magis), ("bench/bench_device", bench), ("tests/test_measure", operators)):
        file = os.path.join(home, name, path)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "w") as out:
            out.write("#!/bin/bash\n" + text)
        os.chmod(file, 0o755)
    return os.path.join(home, name)


def test_hanging(t):
    """Whatever hangs is stopped, and the tables hold what it had said."""
    built = programs("hangs", "echo '  net predicted 1 s measured 2 s'\n" + HANGS, "echo 'f16: 5 of 9 samples' >&2\n" + HANGS)
    code, out, spent = check("hung", 36, BUILT=built, MAGIS_DEVICE="cuda:7")
    table = tables(out)
    t.check("it ends in time", code == 1 and spent < 38, (code, spent, out))
    t.check("plans", table["plans"].strip() == "net predicted 1 s measured 2 s", table)
    t.check("operators", table["operators"].strip() == "f16: 5 of 9 samples", table)
    t.check("what was stopped is said", table["not"].count("stopped after") == 2, table)
    t.check("the networks have what is left", "mlp: 5 operators measured on measure zoo:mlp --set batch=8" in
            table["networks"] and "2 are left\n" in table["networks"] and "odd: 7 operators measured\n" in table["networks"] and
            "slow: stopped after" in table["networks"], out)


def test_failing(t):
    few = "echo 'f16 on a card: 4 of 9 samples'; echo 'bf16 on a card: 5 of 9 samples'\n"
    built = programs("fails", "echo 'net failed: why'; exit 1\n", few + "echo '[====] Synthesis: Tested: 2 | Passing: 1'; exit 1\n")
    code, out, spent = check("failed", 30, BUILT=built, NETWORKS="mlp")
    table = tables(out)
    t.check("the rest goes on", code == 1 and "net failed: why" in table["plans"] and "Passing: 1" in out and "mlp: 5 operators" in table["networks"], out)
    t.check("and is said", table["not"].count(": exit status 1") == 2, table)
    t.check("as are tests of few samples", "operators in f16: 4 of 9 samples\n" in table["not"] and "in bf16" not in table["not"], table)
    built = programs("none", "echo no\n", "echo no\n", "echo 'the driver finds no device' >&2; exit 1\n")
    code, out, spent = check("no card", 30, BUILT=built)
    t.check("no card, no tables", code == 1 and "profile of cuda:0: exit status 1" in out and "(nothing)" in tables(out)["plans"] and
            spent < 10, (code, out))


def test_nothing_measured(t):
    """Plans of which none was measured are no good plans."""
    for name, options, why in (("no time", ["--max-seconds", "0", "mlp"], "the time is up"), ("no kernels", ["mlp"], "'matmul' cannot be run")):
        done = subprocess.run([os.path.join(BUILD, "bench/bench_device"), "--device", "model:h200", *options], capture_output=True,
                              text=True, timeout=60)
        t.check(name, done.returncode == 1 and "left out: " in done.stdout and why in done.stdout and
                "no network was measured" in done.stdout, done)


def test_processor(t):
    """The whole on the processor, and all of it good. Sections end when they are done: a slow machine has time enough."""
    if os.environ.get("MAGIS_SANITIZER"):
        print("SKIPPED: sanitized programs take longer than the sections have", file=sys.stderr)
        return
    code, out, spent = check("whole", SECONDS, BUILT=BUILD, MAGIS_DEVICE="cpu", TIMES="0.3", PLANS="nasnet-like", NETWORKS="mlp")
    table = tables(out)
    t.check("in time", spent < SECONDS + 2, (code, spent))
    t.check("plans", "nasnet-like      original" in table.get("plans", "") and "measured" in table["plans"] and
            "peaks exact" in table["plans"], out)
    for dtype in ("f32", "bf16", "f16"):
        t.check("operators in " + dtype, any(line.startswith(dtype + " on ") and " samples" in line for line in
                                             table["operators"].splitlines()), out)
    t.check("networks", "mlp: " in table["networks"] and "operators measured on " in table["networks"], out)
    profile = json.load(open(os.path.join(home, "whole", "profile.json")))
    t.check("a profile", profile["name"] == "cpu" and "tf32" not in profile["peak_flops"] and profile["peak_flops"]["f32"] > 1e9, profile)
    rows = subprocess.run([MAGISD, "timings", "import", os.path.join(home, "whole", "timings.ndjson"), "--data",
                           os.path.join(home, "store")], capture_output=True, text=True, timeout=60)
    t.check("rows to import", rows.returncode == 0 and int(rows.stdout.split()[0]) > 5, rows)


tests = Tests()
tests.run(test_hanging, test_failing, test_nothing_measured, test_processor)
tests.end()
