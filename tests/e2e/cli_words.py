"""What the command line says to somebody new: help, misspellings, wrong files, limits that are not met."""
import gzip
import json
import os
import subprocess
import tempfile

from libe2e import MAGISD, Daemon, Tests

home = tempfile.mkdtemp(prefix="magisd-words-", dir=os.environ.get("MAGIS_TMP"))


def path(name):
    return os.path.join(home, name)


def write(name, data):
    with open(path(name), "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
    return path(name)


def run(*arguments, env=None, out=subprocess.PIPE):
    return subprocess.run([MAGISD, *arguments], stdout=out, stderr=subprocess.PIPE, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})})


def says(t, name, arguments, *wanted, status=2, **more):
    answer = run(*arguments, **more)
    t.check(name, answer.returncode == status and all(text in answer.stderr for text in wanted), answer)
    return answer


def help_of(command):
    """The help of each option of a command."""
    lines = run(command, "--help").stdout.splitlines()
    options = [line.split(None, 1) for line in lines if line.startswith("  --")]
    return {name[2:]: rest for name, rest in options}


def test_help(t):
    for command in ("optimize", "check", "run", "export", "measure"):
        text = run(command, "--help").stdout
        t.check("%s says what its argument may be" % command,
                "zoo:NAME" in text if command in ("optimize", "measure") else "PLAN is what" in text, text)
    t.equal("help COMMAND", run("help", "check").stdout, run("check", "--help").stdout)
    t.check("help says the exit status", "130 interrupted" in run("--help").stdout)
    t.check("where the parameters of a network are told", "magisd zoo NAME" in help_of("optimize")["set"], help_of("optimize"))
    text = run("zoo", "--help").stdout
    t.check("when zoo describes and when it writes", "show the parameters of one" in text and "On a terminal NAME is described" in text, text)
    t.check("--set is not for files", "set" not in help_of("import"))
    t.equal("help alone", run("help").stdout, run("--help").stdout)
    for command, option, wanted, unwanted in (
            ("optimize", "format", "json (default) or dot", "torch"), ("export", "format", "torch", "graph"),
            ("zoo", "format", "of the graph", "torch"), ("optimize", "device", "profile", "cuda"),
            ("run", "device", "cuda:N", "rtx3090"), ("measure", "device", "cuda:N", "rtx3090"),
            ("optimize", "output", "best plan", "timings"), ("measure", "output", "timings", "plan"),
            ("import", "output", "graph", "plan"), ("optimize", "data", "timings", "magisd-data"),
            ("serve", "data", "magisd-data", "optimize"), ("place", "memory-bytes", "arena", "card"),
            ("run", "seed", "numbers", "search")):
        text = help_of(command).get(option, "")
        t.check("%s --%s" % (command, option), wanted in text and unwanted not in text, text)


def test_misspelled(t):
    says(t, "a command", ["optimise"], '"optimise"; did you mean optimize?')
    says(t, "help of a command", ["help", "chekc"], "did you mean check?")
    far = says(t, "nothing near", ["xylophone"], "unknown command", "usage: magisd COMMAND")
    t.check("nothing is made up", "did you mean" not in far.stderr, far)
    says(t, "an option", ["optimize", "zoo:mlp", "--memroy-ratio", "1"], "did you mean --memory-ratio?")
    says(t, "the beginning of one", ["optimize", "zoo:mlp", "--eval", "1"], "did you mean --evaluations?")
    says(t, "one dash", ["optimize", "zoo:mlp", "-seconds", "1"], "did you mean --seconds?")
    says(t, "one of other programs", ["serve", "--port=80"], "did you mean --listen 127.0.0.1:PORT?")
    says(t, "one of another command", ["optimize", "zoo:mlp", "--workers", "1"], "one of magisd serve")
    says(t, "a network", ["optimize", "zoo:mpl"], "did you mean zoo:mlp?")
    for name in ("llama-7b", "unet3+", "figure6"):
        says(t, "a network whose name others are like", ["zoo", name], status=0)
    says(t, "a network without zoo:", ["optimize", "mlp"], "did you mean the built-in network zoo:mlp?")
    says(t, "a variable", ["optimize", "zoo:mlp"], "MAGISD_SECONDS: ", env={"MAGISD_SECONDS": "abc"})


def test_arguments(t):
    for command in ("serve", "version", "agent"):
        says(t, command + " takes none", [command, "nonsense"], 'one argument too many: "nonsense"', "usage: magisd")
    says(t, "zoo takes one", ["zoo", "mlp", "lstm"], '"lstm"', "usage: magisd zoo [NAME]")
    says(t, "timings list takes none", ["timings", "list", "all"], "usage: magisd timings")
    for option, value in (("--set", "batch=2"), ("--training", "loss=sum"), ("-o", "x.json")):
        says(t, "zoo without a network: " + option, ["zoo", option, value], "is for a network")
    says(t, "no pairs", ["optimize", "zoo:mlp", "--training", "foo"], "--training: ", '"foo"',
         "such as --training loss=mse,optimizer=sgd")
    says(t, "an unknown card", ["optimize", "zoo:mlp", "--device", "rtx4090"], "known: rtx3090", "--memory-bytes",
         "magisd measure --calibrate", "--device FILE.json", "PUT /devices")
    says(t, "SOURCE is missing", ["optimize"], "SOURCE is missing", "SOURCE is zoo:NAME")
    says(t, "PLAN is missing", ["check", "zoo:mlp"], "PLAN is missing", "usage: magisd check GRAPH PLAN")
    for listen, wanted in (("nonsense", "expected HOST:PORT"), ("127.0.0.1:99999", "expected HOST:PORT"),
                           ("unix:", "the path is missing"), ("unix:" + "x" * 200, "too long")):
        says(t, "--listen " + listen[:20], ["serve", "--listen", listen, "--data", path("store")], "--listen", wanted)
    t.check("no store was made", not os.path.exists(path("store")))


def test_files(t):
    for name, data, *wanted in (
            ("empty.json", "", "the file is empty"), ("blank.json", " \n", "the file is empty"),
            ("words.txt", "hello world\n", "neither JSON nor an ONNX model", "(line 1, column 1)"),
            ("array.json", "[1,2]", "this is JSON, but no graph", "magis-graph/1"),
            ("other.json", '{"a": 1}', "this is JSON, but no graph", "magis-graph/1"),
            ("cut.json", '{"format": "magis-graph/1",\n "values": [\n  {"name": }]}', "no valid JSON", "/values/0/name",
             "(line 3, column 12)"),
            ("first.json", '{"format": }', "(line 1, column 12)"),
            ("bytes.onnx", b"\x08\x07\xff\xff\xff", "no ONNX file"),
            ("wrong.json", '{"format": "magis-graph/1", "name": 5}', "wrong.json: /name: "),
            ("array.json.gz", gzip.compress(b"[1]"), "this is JSON, but no graph")):
        says(t, name, ["import", write(name, data)], name, *wanted)
    graph = run("zoo", "mlp").stdout
    marked = run("import", write("marked.json", b"\xef\xbb\xbf" + graph.encode()), out=subprocess.PIPE)
    t.check("a mark of UTF-8 is no harm", marked.returncode == 0, marked)
    write("graph.json", graph)
    run("optimize", path("graph.json"), "--evaluations", "10", "-o", path("plan.json"))
    for command in ("check", "export", "run"):
        says(t, command + ": swapped", [command, path("plan.json"), path("graph.json")], "this is a plan, not a graph",
             "GRAPH and PLAN seem to be swapped")
        says(t, command + ": two graphs", [command, path("graph.json"), path("graph.json")], "this is a graph, not a plan")
    other = write("other-graph.json", run("zoo", "lstm").stdout)
    says(t, "a plan of another graph", ["check", other, path("plan.json")], "this plan is of another graph (digest ", ", not ")
    says(t, "no plan", ["check", path("graph.json"), write("host", "name\n")], "host: this is no plan: JSON was expected")
    says(t, "a script", ["import", write("train.py", "import torch\n")], "magis_capture.py FILE.py:FUNCTION")
    says(t, "a plan alone", ["optimize", path("plan.json")], "this is a plan, not a graph")
    says(t, "--all-plans FILE", ["optimize", "zoo:mlp", "--all-plans", path("graph.json")], path("graph.json"),
         "this is no directory")


def test_nothing(t):
    """A graph of views alone computes nothing: a plan takes all of that, not none of it."""
    graph = {"format": "magis-graph/1", "outputs": ["y"], "values": [
        {"name": "x", "shape": [4, 8], "dtype": "f32", "kind": "input"}],
        "ops": [{"op": "transpose", "inputs": ["x"], "outputs": ["y"]}]}
    answer = run("optimize", write("views.json", json.dumps(graph)), "--evaluations", "5")
    t.check("nothing of nothing", answer.returncode == 0 and
            "needs 0 B instead of 0 B (100 %) and 1.0000 times the time" in answer.stdout and
            "0.0000 " not in answer.stdout, answer)


def test_missed(t):
    step = ["optimize", "zoo:mlp", "--training", "loss=mse,optimizer=sgd", "--evaluations", "10"]
    for option, value in (("--memory-ratio", "0.001"), ("--latency-ratio", "0.5"), ("--latency-s", "0.000001")):
        wanted = "the limit %s %s is missed by " % (option, value)
        answer = run(*step, option, value)
        t.check(option, answer.returncode == 3 and wanted in answer.stdout, answer)
        says(t, option + " --json", [*step, option, value, "--json"], wanted, status=3)
    answer = run(*step, "--memory-bytes", "4MB", "--reserve-bytes", "1MB", "--json")
    need = json.loads(answer.stdout)["best"]["arena_bytes"]
    t.check("--memory-bytes, less the reserve", "is missed by %.2f MB: %.2f MB needed, 3.00 MB allowed" %
            ((need - 3e6) / 1e6, need / 1e6) in answer.stderr, answer)
    kept = run(*step, "--memory-ratio", "1.5", "--json")
    t.equal("nothing where it is kept", (kept.returncode, kept.stderr), (0, ""))
    write("boxes.csv", "id,lower,upper,size\na,0,3,4\n")
    says(t, "place", ["place", path("boxes.csv"), "--memory-bytes", "3"], "the limit of 3 bytes (--memory-bytes) is missed by 1",
         status=3)


def test_full(t):
    answer = says(t, "the plan", ["optimize", "zoo:mlp", "--evaluations", "1", "-o", "/dev/full"], "/dev/full: No space left",
                  status=1)
    t.check("is told all the same", answer.stdout.splitlines()[-1].startswith("plan "), answer)
    with open("/dev/full", "w") as full:
        for arguments in (["zoo"], ["version"], ["optimize", "zoo:mlp", "--evaluations", "1", "--json"]):
            says(t, arguments[0], arguments, "standard output: No space left", status=1, out=full)
    daemon = Daemon()
    daemon.request("POST", "/optimize?wait=30", {"zoo": {"model": "mlp"}, "device": "rtx3090", "budget": {"evaluations": 1}})
    server = ["--server", "http://" + daemon.address, "-o", "/dev/full"]
    says(t, "nothing is missing", ["timings", "missing", "--data", path("empty-store"), "-o", path("want.ndjson")],
         "nothing is missing", status=0)
    says(t, "timings", ["timings", "missing", *server], "/dev/full: No space left", status=1)
    t.equal("the daemon ended well", daemon.close(), 0)


tests = Tests()
tests.run(test_help, test_misspelled, test_arguments, test_files, test_nothing, test_missed, test_full)
tests.end()
