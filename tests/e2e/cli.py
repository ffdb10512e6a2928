"""The command line: outputs, files, exit codes."""
import hashlib
import gzip
import json
import os
import re
import signal
import stat
import subprocess
import tempfile
import time

from libe2e import MAGISD, Tests

STEP = ["--training", "loss=squared,optimizer=sgd"]
MLP = ["zoo:mlp", "--set", "batch=256", *STEP]
BERT = ["zoo:bert-base", "--set", "batch=16,seq_len=128,layers=3,variant=paper", *STEP]
POINT = ["plan", "latency_s", "peak_bytes", "arena_bytes", "host_bytes", "latency_ratio", "memory_ratio"]

home = tempfile.mkdtemp(prefix="magisd-cli-", dir=os.environ.get("MAGIS_TMP"))


def path(name):
    return os.path.join(home, name)


def run(*arguments, env=None, stdin=None):
    result = subprocess.run([MAGISD, *arguments], capture_output=True, text=True, input=stdin, timeout=120,
                            env={**os.environ, **(env or {})})
    return result


def optimize(*arguments, **more):
    result = run("optimize", *arguments, "--json", **more)
    return result.returncode, json.loads(result.stdout) if result.stdout else None, result.stderr


def test_usage(t):
    t.equal("no command", run().returncode, 2)
    t.equal("unknown command", run("optimise").returncode, 2)
    top = run("--help")
    t.check("help lists the commands", top.returncode == 0 and all(
        word in top.stdout for word in ("serve", "optimize", "check", "zoo", "version")), top.stdout)
    t.check("internal ones are not listed", "worker" not in top.stdout and "intake" not in top.stdout, top.stdout)
    for command in ("serve", "optimize", "check", "zoo", "place", "version"):
        answer = run(command, "--help")
        t.check("help of " + command, answer.returncode == 0 and "usage: magisd " + command in answer.stdout, answer)
    for arguments in (["optimize"], ["optimize", "zoo:mlp", "--nonsense"], ["optimize", "zoo:mlp", "--seconds"],
                      ["optimize", "zoo:mlp", "--seconds", "soon"], ["optimize", "zoo:mlp", "--evaluations", "-1"],
                      ["optimize", "zoo:nothing"], ["optimize", path("missing.json")],
                      ["optimize", "zoo:mlp", "--set", "nothing=1"], ["optimize", "zoo:mlp", "--device", "gtx0"],
                      ["optimize", "zoo:mlp", "--memory-ratio", "0.5", "--memory-bytes", "8GiB"],
                      ["check", "zoo:mlp"], ["check", "zoo:mlp", path("missing.json")], ["place"],
                      ["zoo", "mlp", "--training", "loss"], ["worker"], ["intake"]):
        answer = run(*arguments)
        t.check("usage error: " + " ".join(arguments), answer.returncode == 2 and answer.stderr, answer)
    for arguments, wanted in ((["optimize"], "SOURCE is missing"), (["optimize", "zoo:mlp", "zoo:lstm"], "zoo:lstm")):
        t.check("says what is wrong: " + " ".join(arguments), wanted in run(*arguments).stderr)
    piped = run("optimize", "zoo:mlp", "--evaluations", "200")
    t.check("a pipe gets the result, and no bar", piped.returncode == 0 and "outcome front" in piped.stdout and not piped.stderr, piped)
    t.check("help tells ranges", "[1..8]" in run("serve", "--help").stdout)
    for option, wanted in (("--evaluations", "whole number"), ("--seconds", "number"), ("--memory-bytes", "8GiB")):
        answer = run("optimize", "zoo:mlp", option, "much")
        t.check("says what %s takes" % option, wanted in answer.stderr and option in answer.stderr, answer)
    for option, text, wanted in (("--seconds", "0x10", "number"), ("--seconds", "1e300", "below 1e300"), ("--seconds", "nan", "number"),
                                 ("--baselines", ",", 'unknown baseline ""'), ("--baselines", "sublinear,sublinear", "named twice"),
                                 ("--memory-bytes", "0x10", "8GiB"), ("--memory-bytes", "inf", "8GiB"), ("-o", "", "empty"),
                                 ("--set", "", "empty")):
        answer = run("optimize", "zoo:mlp", option, text)
        t.check("%s %r is refused" % (option, text), answer.returncode == 2 and wanted in answer.stderr, answer)
    for arguments in (["--threads", "2"], ["--baselines", "dtr"]):
        answer = run("optimize", "zoo:mlp", *arguments)
        t.check("not supported: " + " ".join(arguments), answer.returncode == 4 and answer.stderr, answer)


def test_version(t):
    text = run("version")
    t.check("version", re.match(r"magisd \d+\.\d+\.\d+ ", text.stdout), text)
    data = json.loads(run("version", "--json").stdout)
    t.equal("name", data["name"], "magisd")
    t.equal("the same by option", run("--version").stdout, text.stdout)


def test_zoo(t):
    data = json.loads(run("zoo", "--json").stdout)
    names = [network["name"] for network in data["networks"]]
    for name in ("mlp", "resnet50", "bert-base", "vit-base-16", "unet", "unet++", "gpt-neo-1.3b", "btlm-3b"):
        t.check("has " + name, name in names, names)
    t.check("as text too", all(name in run("zoo").stdout for name in names))
    t.equal("a line for each", len(run("zoo").stdout.splitlines()), len(names))
    t.equal("written", run("zoo", "mlp", *STEP, "-o", path("mlp.json")).returncode, 0)
    graph = json.load(open(path("mlp.json")))
    t.equal("format", graph["format"], "magis-graph/1")
    t.check("training step", any(op["op"] == "sgd" for op in graph["ops"]), [op["op"] for op in graph["ops"]])
    t.equal("to standard output", run("zoo", "mlp", *STEP).stdout.strip(), open(path("mlp.json")).read().strip())
    dot = run("zoo", "mlp", "--format", "dot")
    t.check("drawn", dot.returncode == 0 and dot.stdout.lstrip().startswith("digraph"), dot.stdout[:100])
    from_zoo = optimize("zoo:mlp", *STEP, "--evaluations", "1")[1]["graph"]
    from_file = optimize(path("mlp.json"), "--evaluations", "1")[1]["graph"]
    t.equal("the same graph by either way", from_zoo["digest"], from_file["digest"])


def test_captured(t):
    with gzip.open("tests/data/aten/resnet18.json.gz") as file:
        dump = json.load(file)
    json.dump(dump, open(path("step.json"), "w"))
    t.equal("imported", run("import", path("step.json"), "-o", path("native.json")).returncode, 0)
    native = json.load(open(path("native.json")))
    t.equal("its digest is repeated", native["source"], dump["digest"])
    answer = optimize(path("step.json"), "--evaluations", "2000", "--latency-ratio", "1.1")[1]
    t.equal("the same graph by either way", optimize(path("native.json"), "--evaluations", "1")[1]["graph"]["digest"],
            answer["graph"]["digest"])
    t.equal("every call is known", answer["unsupported"], [])
    t.check("plans", answer["best"]["memory_ratio"] < 0.8 and answer["checked"]["rejected"] == 0, answer["best"])
    dump["nodes"] = [dict(node, op=node["op"].replace("aten.relu_.", "aten.cube_.")) for node in dump["nodes"]]
    json.dump(dump, open(path("odd.json"), "w"))
    odd = optimize(path("odd.json"), "--evaluations", "1")[1]
    t.equal("what nobody knows is listed", [(o["operator"], o["count"]) for o in odd["unsupported"]], [("aten.cube_.default", 17)])


def check_members(t, answer):
    t.equal("members", list(answer), ["graph", "device", "original", "best", "outcome", "lower_bound_bytes", "pareto",
                                      "baselines", "evaluations", "seconds", "checked", "prices", "measured_share",
                                      "unsupported"])
    t.equal("graph", list(answer["graph"]), ["name", "operators", "values", "digest"])
    t.equal("original", list(answer["original"]), ["latency_s", "peak_bytes", "arena_bytes"])
    t.equal("best", list(answer["best"]), POINT)
    t.equal("prices", list(answer["prices"]), ["exact", "near", "scaled", "modelled"])
    t.equal("modelled", (answer["prices"]["modelled"], answer["measured_share"]), (1, 0))
    for point in answer["pareto"]:
        t.equal("point", list(point), POINT + ["techniques"])
    for baseline in answer["baselines"]:
        t.equal("baseline", list(baseline), ["name", "points", "not_applicable"])
        for point in baseline["points"]:
            t.equal("its point", list(point), POINT)


def test_optimize(t):
    code, answer, stderr = optimize(*BERT, "--evaluations", "6000", "-o", path("best.json"), "--all-plans",
                                    path("plans"))
    t.equal("exit code", (code, stderr), (0, ""))
    check_members(t, answer)
    original = answer["original"]
    t.equal("outcome", answer["outcome"], "front")
    t.equal("nothing refused by the checker", answer["checked"]["rejected"], 0)
    t.check("checked", answer["checked"]["accepted"] >= len(answer["pareto"]), answer["checked"])
    front = answer["pareto"]
    t.check("a front", len(front) > 3 and all(
        a["latency_s"] < b["latency_s"] and a["peak_bytes"] > b["peak_bytes"] for a, b in zip(front, front[1:])), front)
    t.check("best is the smallest within 1.10", answer["best"]["peak_bytes"] == min(
        p["peak_bytes"] for p in front if p["latency_ratio"] <= 1.10), answer["best"])
    t.check("ratios", all(abs(p["memory_ratio"] - p["peak_bytes"] / original["peak_bytes"]) < 1e-12 and
                          abs(p["latency_ratio"] - p["latency_s"] / original["latency_s"]) < 1e-12 for p in front))
    t.equal("baselines", sorted(b["name"] for b in answer["baselines"]), ["microbatch", "sublinear"])
    plans = {name for name in os.listdir(path("plans"))}
    t.equal("all plans", plans, {p["plan"] + ".json" for p in front})
    for point in front[:: max(1, len(front) // 4)]:
        text = open(os.path.join(path("plans"), point["plan"] + ".json"), "rb").read()
        t.equal("the id is the digest", hashlib.sha256(text).hexdigest()[:16], point["plan"])
        checked = run("check", *BERT[:1], os.path.join(path("plans"), point["plan"] + ".json"), *BERT[1:])
        t.equal("check " + point["plan"], checked.returncode, 0)
        verdict = json.loads(checked.stdout)
        t.equal("its own figures", [verdict[k] for k in ("peak_bytes", "arena_bytes", "host_bytes")],
                [point[k] for k in ("peak_bytes", "arena_bytes", "host_bytes")])
    t.equal("-o is the best", open(path("best.json")).read(),
            open(os.path.join(path("plans"), answer["best"]["plan"] + ".json")).read())


def test_check_refuses(t):
    run("zoo", "mlp", "--set", "batch=256", *STEP, "-o", path("graph.json"))
    optimize(path("graph.json"), "--evaluations", "200", "-o", path("plan.json"))
    plan = json.load(open(path("plan.json")))
    good = run("check", path("graph.json"), path("plan.json"))
    t.equal("accepted", (good.returncode, json.loads(good.stdout)["accepted"]), (0, True))

    def changed(name, change):
        copy = json.loads(json.dumps(plan))
        change(copy)
        json.dump(copy, open(path("bad.json"), "w"))
        answer = run("check", path("graph.json"), path("bad.json"))
        verdict = json.loads(answer.stdout) if answer.stdout else {}
        t.check(name, answer.returncode == 1 and verdict.get("accepted") is False and verdict.get("reason") and
                verdict.get("message"), (answer, verdict))

    changed("false peak", lambda p: p["figures"].update(peak_bytes=p["figures"]["peak_bytes"] - 512))
    changed("false latency", lambda p: p["figures"].update(latency_s=p["figures"]["latency_s"] * 0.9))
    changed("a step is missing", lambda p: p["steps"].pop(
        [s["do"] for s in p["steps"]].index("compute")))
    open(path("bad.json"), "w").write("{")
    t.equal("unreadable", run("check", path("graph.json"), path("bad.json")).returncode, 2)
    t.equal("unreadable graph", run("check", path("bad.json"), path("plan.json")).returncode, 2)


def test_limits(t):
    code, answer, _ = optimize(*BERT, "--evaluations", "6000", "--memory-ratio", "0.7")
    t.equal("met", (code, answer["outcome"]), (0, "met"))
    t.check("best fits", answer["best"]["memory_ratio"] <= 0.7, answer["best"])
    code, answer, _ = optimize(*BERT, "--evaluations", "300", "--memory-ratio", "0.0001")
    t.check("not met", code == 3 and answer["outcome"] in ("not_met", "infeasible"), (code, answer["outcome"]))
    code, answer, _ = optimize(*BERT, "--evaluations", "6000", "--latency-ratio", "1.05")
    t.equal("latency limit", (code, answer["outcome"]), (0, "met"))
    t.check("kept", answer["best"]["latency_ratio"] <= 1.05, answer["best"])


def test_determinism(t):
    for name in ("one", "two"):
        optimize(*BERT, "--evaluations", "1000", "--seed", "7", "--all-plans", path(name))
    files = [sorted(os.listdir(path(name))) for name in ("one", "two")]
    t.equal("the same plans", files[0], files[1])
    same = all(open(os.path.join(path("one"), f), "rb").read() == open(os.path.join(path("two"), f), "rb").read()
               for f in files[0])
    t.check("byte for byte", same)


def test_figure2(t):
    base = ["zoo:figure2", "--memory-bytes", "100MiB", "--reserve-bytes", "0", "--evaluations", "3000"]
    results = {}
    for name, options in (("fission", ["--no-swap", "--no-remat"]), ("swap", ["--no-fission", "--no-remat"]),
                          ("both", [])):
        code, answer, _ = optimize(*base, *options)
        t.equal("original peak", answer["original"]["peak_bytes"], 1056 << 20)
        t.equal(name + " fits", (code, answer["outcome"]), (0, "met"))
        results[name] = answer["best"]["latency_s"]
    t.check("both is no slower than the better one", results["both"] <= min(results["fission"], results["swap"]),
            results)


def test_interrupt(t):
    process = subprocess.Popen([MAGISD, "optimize", *BERT, "--seconds", "60", "--json", "-o", path("stopped.json")],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    start = time.time()
    out, _ = process.communicate(timeout=30)
    t.equal("exit code", process.returncode, 130)
    t.check("soon", time.time() - start < 15, time.time() - start)
    t.check("the best so far is still written", len(json.loads(out)["pareto"]) > 0 and
            json.load(open(path("stopped.json")))["format"] == "magis-plan/1")


def test_settings(t):
    open(path("magisd.conf"), "w").write("# comment\nevaluations = 40\nseed = 3\n\nworkers = 9\n")
    code, answer, _ = optimize("zoo:mlp", "--config", path("magisd.conf"))
    t.check("config file", code == 0 and answer["evaluations"] < 50, answer and answer["evaluations"])
    code, answer, _ = optimize("zoo:mlp", "--config", path("magisd.conf"), env={"MAGISD_EVALUATIONS": "20"})
    t.check("variable goes before", code == 0 and answer["evaluations"] < 30, answer and answer["evaluations"])
    code, answer, _ = optimize("zoo:mlp", "--evaluations", "10", env={"MAGISD_EVALUATIONS": "20"})
    t.check("command line goes first", code == 0 and answer["evaluations"] < 20, answer and answer["evaluations"])
    open(path("bad.conf"), "w").write("wrong line\n")
    t.equal("bad config", optimize("zoo:mlp", "--config", path("bad.conf"))[0], 2)
    t.equal("bad variable", run("optimize", "zoo:mlp", env={"MAGISD_SECONDS": "x"}).returncode, 2)
    code, answer, _ = optimize("-", "--evaluations", "5", stdin=run("zoo", "mlp").stdout)
    t.equal("graph from standard input", (code, answer["graph"]["name"]), (0, "mlp"))
    table = run("optimize", "zoo:mlp", "--evaluations", "5").stdout
    t.check("a table for people", "outcome front" in table and "plan" in table, table)
    long = ["optimize", "zoo:mlp", "--set", "batch=8192", *STEP, "--evaluations", "2000"]
    table, every = run(*long).stdout, json.loads(run(*long, "--json").stdout)
    front = [point["plan"] for point in every["pareto"]]
    shown = [plan for plan in front if plan in table]
    t.check("of a long front a dozen, its ends and the best among them", len(front) > 12 >= len(shown) > 8 and
            {front[0], front[-1], every["best"]["plan"]} <= set(shown), table)
    t.check("and how all are seen", "more are not shown: --json" in table and "--all-plans DIR" in table, table)
    t.check("that ends with the answer", table.splitlines()[-2].startswith("no limit was given; the smallest") and
            re.fullmatch("plan [0-9a-f]{16} needs .* instead of .*; -o FILE writes it down", table.splitlines()[-1]), table)


def test_output_files(t):
    start = ["optimize", "zoo:mlp", "--evaluations", "1"]
    os.mkfifo(path("pipe"))
    reader = subprocess.Popen(["cat", path("pipe")], stdout=subprocess.PIPE)
    code = run(*start, "-o", path("pipe")).returncode
    try:
        got = reader.communicate(timeout=20)[0]
    except subprocess.TimeoutExpired:
        reader.kill()
        got = b""
    t.check("a pipe is written", code == 0 and b'"magis-plan/1"' in got, (code, got[:60]))
    t.check("a pipe is not replaced", stat.S_ISFIFO(os.stat(path("pipe")).st_mode))
    open(path("kept.json"), "w").write("old")
    os.symlink("kept.json", path("link.json"))
    t.equal("through a link", run(*start, "-o", path("link.json")).returncode, 0)
    t.check("the link stays", os.path.islink(path("link.json")) and "magis-plan" in open(path("kept.json")).read())
    for option, where in (("-o", "/nonexistent/plan.json"), ("-o", home), ("--all-plans", path("kept.json") + "/plans")):
        answer = run(*start, option, where)
        t.check("refused before the search: %s %s" % (option, where),
                answer.returncode == 2 and not answer.stdout and where in answer.stderr, answer)


def test_hostile_names(t):
    graph = json.loads(run("zoo", "mlp").stdout)
    json.dump(dict(graph, name="\x1b]0;owned\x07\x9b31m"), open(path("hostile.json"), "w"))
    answer = run("optimize", path("hostile.json"), "--evaluations", "1")
    t.check("no control character reaches the terminal", answer.returncode == 0 and "owned" in answer.stdout and
            not set("\x1b\x07\x9b") & set(answer.stdout), answer.stdout[:80])
    json.dump(dict(graph, outputs=["\x1b[31mred"]), open(path("hostile.json"), "w"))
    answer = run("optimize", path("hostile.json"), "--evaluations", "1")
    t.check("nor by a message", answer.returncode == 2 and "red" in answer.stderr and "\x1b" not in answer.stderr, answer)


def test_nothing_to_compute(t):
    x = {"name": "x", "shape": [4, 4], "dtype": "f32", "kind": "input"}
    view = {"name": "a", "op": "reshape", "inputs": ["x"], "outputs": ["y"], "attrs": {"shape": [16]}}
    for name, ops, out in (("no operator", [], "x"), ("views only", [view], "y")):
        json.dump({"format": "magis-graph/1", "name": "g", "values": [x], "ops": ops, "outputs": [out]},
                  open(path("idle.json"), "w"))
        code, answer, error = optimize(path("idle.json"), "--evaluations", "1")
        t.check(name, code == 0 and answer["checked"]["rejected"] == 0, (code, error))


def test_device(t):
    t.equal("unknown profile members are refused", run("optimize", "zoo:mlp", "--device", path("graph.json")).returncode,
            2)
    answer = optimize("zoo:mlp", "--device", "h200", "--evaluations", "5")[1]
    t.equal("device", answer["device"], "h200")


def test_place(t):
    open(path("input.12.csv"), "w").write("id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\n"
                                          "b5,0,21,4\n")
    answer = run("place", path("input.12.csv"), "--json", "-o", path("placed.csv"))
    data = json.loads(answer.stdout)
    t.equal("fits", (answer.returncode, data["arena_bytes"], data["lower_bound_bytes"], data["fits"]),
            (0, 12, 12, True))
    lines = open(path("placed.csv")).read().split()
    t.equal("offsets are written", (lines[0], len(lines)), ("id,lower,upper,size,offset", 6))
    boxes = [list(map(int, line.split(",")[1:])) for line in lines[1:]]
    overlap = any(a[0] < b[1] and b[0] < a[1] and a[3] < b[3] + b[2] and b[3] < a[3] + a[2]
                  for i, a in enumerate(boxes) for b in boxes[:i])
    t.check("no two overlap", not overlap, boxes)
    t.equal("too small", run("place", path("input.12.csv"), "--memory-bytes", "11").returncode, 3)
    open(path("bad.csv"), "w").write("id,lower,upper,size\n1,5,5,1\n")
    t.equal("empty life", run("place", path("bad.csv")).returncode, 2)


tests = Tests()
tests.run(test_usage, test_version, test_zoo, test_captured, test_optimize, test_check_refuses, test_limits, test_determinism,
          test_figure2, test_interrupt, test_settings, test_output_files, test_hostile_names, test_nothing_to_compute,
          test_device, test_place)
tests.end()
