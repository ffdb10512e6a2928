"""Framing, limits, Host and Origin, problem documents, methods, pages: nothing here needs a job."""
import gzip
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time

from libe2e import MAGISD, Daemon, Tests, read_all, status_of

MODEL = {"zoo": {"model": "mlp"}, "budget": {"evaluations": 10}}


def request(*lines, body=b""):
    return "\r\n".join(lines + ("", "")).encode() + body


def test_framing(t):
    cases = [
        ("no Host", request("GET /healthz HTTP/1.1"), 400),
        ("no Host, 1.0", request("GET /healthz HTTP/1.0"), 400),
        ("two Hosts", request("GET /healthz HTTP/1.1", "Host: localhost", "Host: localhost"), 400),
        ("two lengths", request("POST /optimize HTTP/1.1", "Host: localhost", "Content-Type: application/json",
                                "Content-Length: 2", "Content-Length: 2", body=b"{}"), 400),
        ("two different lengths", request("POST /optimize HTTP/1.1", "Host: localhost", "Content-Length: 2",
                                          "Content-Length: 40", body=b"{}"), 400),
        ("length and chunked", request("POST /optimize HTTP/1.1", "Host: localhost", "Content-Length: 2",
                                       "Transfer-Encoding: chunked", body=b"2\r\n{}\r\n0\r\n\r\n"), 400),
        ("other coding", request("POST /optimize HTTP/1.1", "Host: localhost", "Transfer-Encoding: gzip, chunked",
                                 body=b"0\r\n\r\n"), 400),
        ("a blank before the colon", request("POST /estimate HTTP/1.1", "Host: localhost", "Content-Length : 40",
                                             body=request("GET /healthz HTTP/1.1", "Host: localhost")), 400),
        ("a tab there", request("POST /estimate HTTP/1.1", "Host: localhost", "Transfer-Encoding\t: chunked",
                                body=b"0\r\n\r\n"), 400),
        ("garbage", b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 0),
        ("negative length", request("POST /optimize HTTP/1.1", "Host: localhost", "Content-Length: -1"), 400),
        ("NUL in the path", request("GET /jobs/a%00b HTTP/1.1", "Host: localhost"), 400),
        ("long header", request("GET /healthz HTTP/1.1", "Host: localhost", "X: " + "a" * 40000), 431),
        ("fine", request("GET /healthz HTTP/1.1", "Host: localhost", "Connection: close"), 200),
    ]
    for name, data, want in cases:
        got = status_of(daemon.raw(data))
        t.check("framing: " + name, got == want, "got %d, want %d" % (got, want))
    t.equal("still alive", daemon.get("/healthz").status, 200)


def test_host_and_origin(t):
    get = daemon.get
    t.equal("Host 127.0.0.1", get("/healthz", Host="127.0.0.1:%d" % daemon.port).status, 200)
    t.equal("Host [::1]", get("/healthz", Host="[::1]:80").status, 200)
    t.equal("Host upper case", get("/healthz", Host="LOCALHOST").status, 200)
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "localhost:80@evil", "",
                 "localhost:"):
        t.equal("Host " + host, get("/healthz", Host=host).problem, "wrong-host")
    for target, host, want in (("http://localhost/healthz", "localhost", 200), ("HTTP://127.0.0.1:%d/v1/healthz" % daemon.port, "localhost", 200),
                               ("http://localhost/nothing", "localhost", 404), ("http://evil.example/healthz", "localhost", 421),
                               ("http://localhost/healthz", "evil.example", 421), ("http://localhost", "localhost", 303),
                               ("https://localhost/healthz", "localhost", 421), ("http://localhost:1/healthz", "localhost:1", 421),
                               ("http://[::1]:%d/healthz" % daemon.port, "localhost", 200), ("http://user@localhost/healthz", "localhost", 421)):
        got = status_of(daemon.raw(request("GET %s HTTP/1.1" % target, "Host: " + host)))
        t.equal("target %s at %s" % (target, host), got, want)
    answer = daemon.raw(request("OPTIONS * HTTP/1.1", "Host: localhost"))
    t.check("OPTIONS of the server", status_of(answer) == 204 and b"\r\nAllow: GET, HEAD, POST" in answer, answer)
    t.equal("GET of the server", status_of(daemon.raw(request("GET * HTTP/1.1", "Host: localhost"))), 404)
    own = "http://127.0.0.1:%d" % daemon.port
    t.equal("own Origin", get("/version", Origin=own).status, 200)
    for origin in ("http://evil.example", "null", "https://127.0.0.1:%d" % daemon.port, "http://127.0.0.1:1"):
        t.equal("Origin " + origin, get("/version", Origin=origin).problem, "cross-origin")
    t.equal("same-origin fetch", get("/version", Sec_Fetch_Site="same-origin").status, 200)
    t.equal("cross-site fetch", get("/version", Sec_Fetch_Site="cross-site").status, 403)
    t.equal("same-site fetch", get("/version", Sec_Fetch_Site="same-site").status, 403)
    t.check("cross-site navigation to the page",
            get("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate").status == 303)
    t.equal("cross-site navigation to data",
            get("/metrics", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate").status, 403)
    t.equal("cross-site POST", daemon.post("/optimize", MODEL, Origin="http://evil.example").status, 403)


def test_refused_options(t):
    for option, value, wanted in (("--max-connections", "0", "from 1 to 100000"), ("--workers", "0", "from 1 to 1024"),
                                  ("--intakes", "9", "from 1 to 8"), ("--keep-days", "-1", "from 0 to 36500"),
                                  ("--max-header", "10", "from 4096 to"), ("--max-seconds", "0", "from 1 to"),
                                  ("--cors-origin", "*", "is no origin"), ("--cors-origin", "https://a.example,b.example", "is no origin"),
                                  ("--cors-origin", "https://a.example/x", "is no origin"), ("--web", "/nosuch", "No such file")):
        with tempfile.TemporaryDirectory() as home:
            answer = subprocess.run([MAGISD, "serve", "--listen", "127.0.0.1:0", "--data", home, option, value],
                                    capture_output=True, text=True, timeout=30)
        t.check("refused: %s %s" % (option, value),
                answer.returncode in (1, 2) and option in answer.stderr and wanted in answer.stderr, answer)


def test_public_url(t):
    other = Daemon("--public-url", "https://plans.example/magis/", "--cors-origin", "https://a.example,https://b.example")
    try:
        t.equal("public Host", other.get("/healthz", Host="plans.example").status, 200)
        t.equal("public Origin", other.get("/version", Host="plans.example", Origin="https://plans.example").status, 200)
        t.equal("unknown Host", other.get("/healthz", Host="other.example").status, 421)
        for scheme in "http", "https":  # who ends the encryption may pass on either
            got = other.raw(request("GET %s://plans.example/magis/healthz HTTP/1.1" % scheme, "Host: plans.example"))
            t.equal("target with the public host, " + scheme, status_of(got), 200)
        t.equal("sub-path", other.get("/magis/healthz", Host="plans.example").status, 200)
        t.equal("link", other.get("/", Host="plans.example").headers["Location"], "https://plans.example/magis/ui/")
        answer = other.get("/version", Origin="https://b.example", Sec_Fetch_Site="cross-site")
        t.equal("CORS", (answer.status, answer.headers["Access-Control-Allow-Origin"]), (200, "https://b.example"))
        t.equal("no CORS for others", other.get("/version", Origin="https://c.example").status, 403)
        answer = other.request("OPTIONS", "/optimize", headers={"Origin": "https://a.example",
                                                                "Access-Control-Request-Method": "POST"})
        t.check("preflight", answer.status == 204 and "POST" in answer.headers["Access-Control-Allow-Methods"], answer)
    finally:
        t.equal("stops", other.close(), 0)


def test_methods(t):
    head = daemon.request("HEAD", "/version")
    t.check("HEAD", head.status == 200 and not head.data and int(head.headers["Content-Length"]) > 10, head)
    options = daemon.request("OPTIONS", "/jobs/abcdefabcdef")
    t.equal("OPTIONS", (options.status, options.headers["Allow"]), (204, "GET, HEAD, PATCH, DELETE, OPTIONS"))
    wrong = daemon.request("DELETE", "/zoo")
    t.equal("405", (wrong.status, wrong.headers["Allow"], wrong.problem), (405, "GET, HEAD, OPTIONS", "method-not-allowed"))
    t.equal("unknown method", daemon.raw(request("BREW /zoo HTTP/1.1", "Host: localhost"))[9:12], b"405")
    t.equal("404", daemon.get("/nothing").problem, "not-found")
    t.equal("v1", daemon.get("/v1/version").json, daemon.get("/version").json)
    t.equal("v1 alone", daemon.get("/v1").status, 404)
    t.equal("traversal", daemon.get("/ui/..%2f..%2fetc/passwd").status, 404)


def test_problems(t):
    answer = daemon.get("/nothing", X_Request_Id="my-id.1")
    t.equal("request id", (answer.headers["X-Request-Id"], answer.json["request_id"]), ("my-id.1", "my-id.1"))
    t.check("members", {"type", "title", "status", "detail", "hint"} <= set(answer.json), answer)
    t.equal("type leads somewhere", daemon.get(answer.json["type"]).json["name"], "not-found")
    odd = daemon.get("/healthz", X_Request_Id='a"b\\c').headers["X-Request-Id"]
    t.check("odd id replaced", len(odd) == 16, odd)
    names = daemon.get("/errors").json["errors"]
    t.check("every problem is explained", len(names) > 20 and
            all(daemon.get("/errors/" + name).json["what_to_do"] for name in names), names)
    t.equal("unknown problem", daemon.get("/errors/zzz").status, 404)
    t.equal("token in the URL", daemon.get("/jobs?token=x").problem, "token-in-url")
    t.equal("unknown parameter", daemon.get("/jobs?colour=red").problem, "bad-parameter")
    t.equal("limit 0", daemon.get("/jobs?limit=0").problem, "bad-parameter")
    t.equal("limit 201", daemon.get("/jobs?limit=201").problem, "bad-parameter")
    t.equal("limit x", daemon.get("/jobs?limit=1x").problem, "bad-parameter")
    t.equal("wait 301", daemon.get("/jobs/abcdefabcdef?wait=301").problem, "bad-parameter")
    t.equal("label", daemon.get("/jobs?label=x").problem, "bad-parameter")
    t.equal("format", daemon.get("/jobs/abcdefabcdef/graph?format=yaml").problem, "bad-parameter")
    t.equal("a format of plans", daemon.get("/jobs/abcdefabcdef/graph?format=torch").problem, "not-acceptable")


def test_headers(t):
    answer = daemon.get("/version")
    t.equal("nosniff", answer.headers["X-Content-Type-Options"], "nosniff")
    t.check("policy of data", "default-src 'none'" in answer.headers["Content-Security-Policy"])
    page = daemon.get("/ui/")
    policy = page.headers["Content-Security-Policy"]
    t.check("policy of the page", "script-src 'self'" in policy and "unsafe" not in policy, policy)
    if page.status == 200:
        t.equal("304", daemon.get("/ui/", If_None_Match=page.headers["ETag"]).status, 304)
        t.equal("no 304", daemon.get("/ui/", If_None_Match='"other"').status, 200)
    t.equal("missing file", daemon.get("/ui/none.js").problem, "not-found")
    t.equal("to the page", daemon.get("/").headers["Location"], "/ui/")


def test_bodies(t):
    post = daemon.post
    t.equal("text", daemon.request("POST", "/optimize", b"x", {"Content-Type": "text/plain"}).problem,
            "unsupported-media")
    t.equal("no type", status_of(daemon.raw(request("POST /optimize HTTP/1.1", "Host: localhost", "Content-Length: 2",
                                                    body=b"{}"))), 415)
    t.equal("brotli", post("/optimize", MODEL, Content_Encoding="br").problem, "unsupported-media")
    t.equal("gzip where small", daemon.request("PATCH", "/jobs/abcdefabcdef", gzip.compress(b"{}"),
                                               {"Content-Encoding": "gzip", "Content-Type": "application/json"}).problem,
            "unsupported-media")
    t.equal("idempotency", post("/optimize", MODEL, Idempotency_Key="k").problem, "unsupported")
    t.equal("body on GET", daemon.request("GET", "/jobs", b"{}").problem, "unexpected-body")
    t.equal("body on cancel", daemon.post("/jobs/abcdefabcdef/cancel", {}).problem, "unexpected-body")
    t.equal("small body too large", daemon.request("PATCH", "/jobs/abcdefabcdef", b"{" + b" " * 70000 + b"}").problem,
            "too-large")
    head = request("POST /optimize HTTP/1.1", "Host: localhost", "Content-Type: application/json",
                   "Expect: 100-continue", "Content-Length: 999999999999")
    t.equal("413 before the body", status_of(daemon.raw(head)), 413)
    t.equal("413 by the length", status_of(daemon.raw(head.replace(b"Expect: 100-continue\r\n", b"") + b"x" * 1000)),
            413)
    chunk = b"%x\r\n" % 65536 + b"[" * 65536 + b"\r\n"
    small = Daemon("--max-body", "100000")
    try:
        data = request("POST /optimize HTTP/1.1", "Host: localhost", "Content-Type: application/json",
                       "Transfer-Encoding: chunked") + chunk * 3 + b"0\r\n\r\n"
        t.equal("chunks are counted", status_of(small.raw(data)), 413)
        endless = small.raw(data[:-5] + chunk * 100)
        t.check("an endless body is cut off", status_of(endless) in (0, 413), endless[:100])
        t.equal("lives", small.get("/healthz").status, 200)
    finally:
        small.close()


def test_description(t):
    paths = daemon.get("/openapi.json").json["paths"]
    t.check("has paths", len(paths) > 20 and "/jobs/{id}/plans/{plan}" in paths, list(paths))
    for path, operations in paths.items():
        concrete = path.replace("{id}", "zzzzzzzzzzzz").replace("{plan}", "0").replace("{name}", "zzz").replace("{file}", "zzz")
        concrete = concrete.replace("{file}", "zzz")
        allowed = daemon.request("OPTIONS", concrete).headers["Allow"]
        t.equal("methods of " + path, {m.upper() for m in operations} | {"OPTIONS"},
                set(allowed.split(", ")) - {"HEAD"})


def test_schemas(t):
    description = daemon.get("/openapi.json").json
    schemas = description["components"]["schemas"]
    used = set(re.findall(r'#/components/schemas/(\w+)', json.dumps(description)))
    t.equal("every schema that is named is there", used - set(schemas), set())
    t.equal("every schema that is there is named", set(schemas) - used - {"Any"}, set())
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            names = re.findall(r"{(\w+)}", path)
            t.equal("path parameters of " + path, [p["name"] for p in operation["parameters"] if p["in"] == "path"],
                    names)
            t.check("has a summary: " + path, operation["summary"] and operation["responses"]["default"])
    for member in schemas["OptimizeRequest"]["properties"]:
        answer = daemon.post("/optimize", dict(MODEL, **{member: {"no such thing": 1}}))
        t.check("known member " + member, answer.problem != "" and "unknown member" not in answer.json["detail"]
                or answer.json.get("pointer", "").count("/") > 1, answer)


def test_information(t):
    t.equal("healthz", daemon.get("/healthz").json, {"status": "ok"})
    t.equal("readyz", (daemon.get("/readyz").status, daemon.get("/readyz").json["status"]), (200, "ready"))
    t.check("version", daemon.get("/version").json["version"])
    t.equal("whoami", daemon.get("/whoami").json["role"], "admin")
    text = daemon.get("/metrics").text
    names = set()
    for line in text.splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            float(value)
            t.check("once: " + name, name not in names)
            names.add(name)
    t.check("metrics", 'magisd_http_requests_total{class="4xx"}' in names and "magisd_workers" in names and
            'magisd_store_operations_total{operation="submit"}' in names, text)


def test_devices(t):
    listed = daemon.get("/devices").json["devices"]
    t.check("built in", {"rtx3090", "a100-80gb", "h200"} <= {d["name"] for d in listed}, listed)
    profile = daemon.get("/devices/rtx3090").json["profile"]
    t.equal("unknown", daemon.get("/devices/zzz").status, 404)
    put = lambda name, body: daemon.request("PUT", "/devices/" + name, body)
    t.equal("built-in stays", put("rtx3090", profile).status, 409)
    t.equal("bad name", put("UPPER", profile).status, 422)
    t.equal("wrong name", put("mine", profile).json.get("pointer"), "/name")
    t.equal("bad JSON", put("mine", b"{").problem, "invalid-json")
    mine = dict(profile, name="mine", memory_bytes=12345678912)
    t.equal("put", put("mine", mine).status, 200)
    t.equal("kept", daemon.get("/devices/mine").json["memory_bytes"], 12345678912)
    t.check("no rest", os.listdir(daemon.data + "/devices") == ["mine.json"], os.listdir(daemon.data + "/devices"))
    networks = daemon.get("/zoo").json["networks"]
    t.check("zoo", {"mlp", "bert-base", "resnet50"} <= {n["name"] for n in networks}, networks)


def test_logs(t):
    daemon.raw(request('GET /jobs/"\\x1b[31m?secret=1 HTTP/1.1', "Host: localhost"))
    daemon.get("/jobs/abc?limit=9")
    time.sleep(0.05)
    lines = [line for line in daemon.log_lines() if line["event"] == "request"]
    t.check("requests are logged", len(lines) > 50 and all({"request_id", "status", "ms"} <= set(l) for l in lines))
    t.check("no query in the log", "secret" not in daemon.read_log() and "limit=9" not in daemon.read_log())


def test_unix(t):
    home = os.environ.get("MAGIS_TMP", "/tmp")
    path = os.path.join(home, "magisd-%d.sock" % os.getpid())
    other = Daemon(listen="unix:" + path)
    try:
        peer = socket.socket(socket.AF_UNIX)
        peer.settimeout(5)
        peer.connect(path)
        peer.sendall(request("GET /healthz HTTP/1.1", "Host: localhost"))
        t.equal("over a unix socket", status_of(read_all(peer)), 200)
        peer.close()
    finally:
        t.equal("stops", other.close(), 0)
    t.check("socket file removed", not os.path.exists(path))
    open(path, "w").close()
    try:
        Daemon(listen="unix:" + path).close()
        t.check("another file in its place", False)
    except RuntimeError as error:
        t.check("another file in its place", "no socket" in str(error) and path in str(error), error)
    t.check("is left as it is", os.path.getsize(path) == 0)
    os.unlink(path)


def test_full_disk(t):
    """Less room than --min-free: alive, but not ready for new jobs."""
    full = Daemon("--min-free", "8000000TB")
    t.equal("no new jobs", full.post("/optimize", MODEL).problem, "no-space")
    ready, health = full.get("/readyz"), full.get("/healthz")
    t.check("not ready, and why", ready.status == 503 and "nearly full" in ready.json["why"] and "Retry-After" in ready.headers, ready)
    t.check("it lives", health.status == 200 and health.json["status"] == "degraded" and "nearly full" in health.json["why"], health)
    t.equal("what is there is still told", full.get("/jobs").status, 200)
    full.close()


def test_closed_descriptors(t):
    """Standard input, output and error may be closed: a daemon's files and sockets do not take their places."""
    for closed in ("<&-", ">&-", "<&- >&- 2>&-"):
        home = tempfile.mkdtemp(dir=os.environ.get("MAGIS_TMP"))
        port_file = os.path.join(home, "address")
        process = subprocess.Popen(["sh", "-c", 'exec "$0" "$@" ' + closed, MAGISD, "serve", "--listen", "127.0.0.1:0", "--data",
                                    os.path.join(home, "data"), "--port-file", port_file], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(1000):
            if os.path.exists(port_file) or process.poll() is not None:
                break
            time.sleep(0.01)
        host, port = open(port_file).read().strip().rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=30)
        connection.request("POST", "/estimate", '{"zoo": {"model": "mlp"}}', {"Content-Type": "application/json"})
        t.equal("intake works with " + closed, connection.getresponse().status, 200)
        connection.close()
        process.terminate()
        t.equal("stops with " + closed, process.wait(15), 0)
        shutil.rmtree(home)


def test_listen_addresses(t):
    for address, part in (("0.0.0.0:0", "--insecure"), ("nonsense", "expected"), ("127.0.0.1:99999", "")):
        try:
            Daemon(listen=address).close()
            t.check("refuses " + address, False)
        except RuntimeError as error:
            t.check("refuses " + address, part in str(error) and "ended with" in str(error), error)
    open_one = Daemon("--insecure", listen="0.0.0.0:0")
    open_one.close()
    t.check("insecure", True)


daemon = Daemon()
tests = Tests()
tests.run(test_framing, test_host_and_origin, test_refused_options, test_public_url, test_methods, test_problems, test_headers, test_bodies,
          test_description, test_schemas, test_information, test_devices, test_logs, test_unix, test_full_disk, test_closed_descriptors, test_listen_addresses)
tests.equal("stops cleanly", daemon.close(), 0)
tests.end()
