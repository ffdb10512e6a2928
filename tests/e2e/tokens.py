"""Tokens: every role on every route, whose job it is, expiry, revocation without a restart, other addresses."""
import json
import os
import subprocess
import time

from libe2e import MAGISD, Daemon, Tests

MODEL = {"zoo": {"model": "mlp"}, "budget": {"evaluations": 10}}
SLOW = {"zoo": {"model": "bert-base", "batch": 8}, "training": {"loss": "squared", "optimizer": "sgd"}, "budget": {"seconds": 60}}
ROLES = ("read", "submit", "measure", "admin")
PUBLIC, READ, SUBMIT, MEASURE, ADMIN = (), ROLES, ("submit", "admin"), ("measure", "admin"), ("admin",)

# Who may what, written down a second time. Every route of the description has to be here.
ALLOWED = {
    "GET /": PUBLIC, "GET /ui": PUBLIC, "GET /ui/{file}": PUBLIC, "GET /healthz": PUBLIC, "GET /readyz": PUBLIC,
    "GET /openapi.json": PUBLIC, "GET /errors": PUBLIC, "GET /errors/{name}": PUBLIC,
    "POST /optimize": SUBMIT, "POST /estimate": SUBMIT,
    "PATCH /jobs/{id}": SUBMIT, "DELETE /jobs/{id}": SUBMIT, "POST /jobs/{id}/cancel": SUBMIT,
    "POST /jobs/{id}/retry": SUBMIT, "PUT /jobs/{id}/pin": SUBMIT, "DELETE /jobs/{id}/pin": SUBMIT,
    "PUT /devices/{name}": ADMIN,
    "POST /timings": MEASURE, "POST /timings/claims": MEASURE, "POST /agents": MEASURE, "POST /timings/revoke": ADMIN,
    "POST /jobs/{id}/plans/{plan}/measure": SUBMIT, "POST /measurements": MEASURE, "POST /measurements/claims": MEASURE,
}


def token(data, *arguments):
    return subprocess.run([MAGISD, "token", *arguments, "--data", data], capture_output=True, text=True)


def bearer(text):
    return {"Authorization": "Bearer " + text}


def add(t, data, name, role, *more):
    made = token(data, "add", name, "--role", role, *more)
    t.equal("token add " + name, made.returncode, 0)
    return made.stdout.strip()


def setup(t):
    global daemon, tokens
    daemon = Daemon()
    t.equal("open at first", daemon.get("/jobs").status, 200)
    who = daemon.get("/whoami").json
    t.equal("nobody may all", (who["name"], who["role"]), (None, "admin"))
    tokens = {role: add(t, daemon.data, role + "-er", role) for role in ROLES}
    t.check("a token is random text", len(set(tokens.values())) == 4 and all(len(x) == 44 for x in tokens.values()))
    kept = open(os.path.join(daemon.data, "tokens.json")).read()
    t.check("only its digest is kept", not any(x in kept for x in tokens.values()))
    t.equal("nobody else reads the file", os.stat(os.path.join(daemon.data, "tokens.json")).st_mode & 0o077, 0)


def concrete(path):
    return path.replace("{id}", "abcdefabcdef").replace("{plan}", "best").replace("{file}", "style.css").replace(
        "{name}", "no-such-name")


def test_roles(t):
    described = daemon.get("/openapi.json").json["paths"]
    routes = [(method.upper(), path) for path, methods in described.items() for method in methods if method in
              ("get", "post", "put", "patch", "delete")]
    t.check("all routes are tried", len(routes) > 30, routes)
    unknown = set(ALLOWED) - {"%s %s" % route for route in routes} - {"GET /ui/{file}"}
    t.check("the table names no route that is not there", all(u.split()[1].startswith(("/ui", "/timings", "/agents"))
                                                              for u in unknown), unknown)
    for method, path in routes:
        key = "%s %s" % (method, path)
        allowed = ALLOWED.get(key, PUBLIC if path.startswith("/ui") else READ)
        body = "{}" if method in ("POST", "PUT", "PATCH") and path.split("/")[-1] not in ("cancel", "retry", "pin") else None
        nobody = daemon.request(method, concrete(path), body)
        if allowed is PUBLIC:
            t.check(key + " is public", nobody.status not in (401, 403), nobody)
            continue
        t.check(key + " wants a token", nobody.status == 401 and nobody.problem == "unauthorized" and
                nobody.headers["WWW-Authenticate"].startswith("Bearer"), nobody)
        for role in ROLES:
            answer = daemon.request(method, concrete(path), body, bearer(tokens[role]))
            if role in allowed:
                t.check("%s: %s may" % (key, role), answer.status not in (401, 403), answer)
            else:
                t.check("%s: %s may not" % (key, role), answer.problem == "forbidden", answer)


def test_wrong_tokens(t):
    good = tokens["read"]
    for name, headers in (("unknown", bearer("mgt_" + "A" * 40)), ("cut", bearer(good[:-1])), ("longer", bearer(good + "A")),
                          ("empty", bearer("")), ("basic", {"Authorization": "Basic " + good}),
                          ("case", bearer(good.swapcase()))):
        answer = daemon.request("GET", "/jobs", None, headers)
        t.check("a wrong token: " + name, answer.status == 401, answer)
    t.equal("the scheme's case does not matter", daemon.request("GET", "/jobs", None,
                                                                {"Authorization": "bearer " + good}).status, 200)
    t.equal("not in the URL", daemon.request("GET", "/jobs?token=" + good).problem, "token-in-url")
    who = daemon.request("GET", "/whoami", None, bearer(tokens["measure"])).json
    t.equal("whoami", (who["name"], who["role"]), ("measure-er", "measure"))


def test_how_to_give_one(t):
    """Clients that are refused for want of a token tell how to give one."""
    run = subprocess.run([MAGISD, "timings", "missing", "--server", "http://" + daemon.address], capture_output=True, text=True)
    t.check("a client without a token is told how to give one", run.returncode == 1 and
            "(--token, or MAGISD_TOKEN)" in run.stderr, run.stderr)


def submit(as_token):
    return daemon.request("POST", "/optimize?wait=60", MODEL, bearer(as_token)).json


def test_ownership(t):
    other = add(t, daemon.data, "other", "submit")
    job = submit(tokens["submit"])
    t.equal("the job belongs to its token", job["owner"], "submit-er")
    path = "/jobs/" + job["id"]
    t.equal("others see it", daemon.request("GET", path, None, bearer(tokens["read"])).status, 200)
    changes = (("PATCH", path, {"name": "mine"}), ("PUT", path + "/pin", None), ("DELETE", path + "/pin", None),
               ("POST", path + "/cancel", None), ("DELETE", path, None))
    for method, where, body in changes:
        answer = daemon.request(method, where, body, bearer(other))
        t.check("not another's: %s %s" % (method, where), answer.problem == "forbidden", answer)
    retried = daemon.request("POST", path + "/retry", None, bearer(other))
    t.check("a retry is the retrier's", retried.status == 202 and retried.json["owner"] == "other", retried)
    t.equal("the owner may rename", daemon.request("PATCH", path, {"name": "mine"}, bearer(tokens["submit"])).json["name"],
            "mine")
    t.equal("the owner may pin", daemon.request("PUT", path + "/pin", None, bearer(tokens["submit"])).status, 200)
    t.equal("an administrator may rename",
            daemon.request("PATCH", path, {"name": "seen"}, bearer(tokens["admin"])).json["name"], "seen")
    t.equal("the owner may cancel (too late)",
            daemon.request("POST", path + "/cancel", None, bearer(tokens["submit"])).problem, "already-ended")
    daemon.stop()
    daemon.start()
    t.equal("not another's after a restart", daemon.request("DELETE", path, None, bearer(other)).problem, "forbidden")
    t.equal("an administrator may delete", daemon.request("DELETE", path, None, bearer(tokens["admin"])).status, 204)
    t.equal("nobody owns what is not there", daemon.request("DELETE", path, None, bearer(other)).status, 404)


def test_end_of_tokens(t):
    short = add(t, daemon.data, "brief", "read", "--expires", "0.002h")
    t.equal("before its end", daemon.request("GET", "/jobs", None, bearer(short)).status, 200)
    gone = add(t, daemon.data, "gone", "read")
    t.equal("works", daemon.request("GET", "/jobs", None, bearer(gone)).status, 200)
    t.equal("revoke", token(daemon.data, "revoke", "gone").returncode, 0)
    answer = daemon.request("GET", "/jobs", None, bearer(gone))
    t.check("refused at once", answer.status == 401 and "invalid_token" in answer.headers["WWW-Authenticate"], answer)
    t.check("revoked twice", token(daemon.data, "revoke", "gone").returncode == 2)
    t.check("unknown", token(daemon.data, "revoke", "nobody").returncode == 2)
    t.check("twice the same name", token(daemon.data, "add", "brief", "--role", "read").returncode == 2)
    t.check("a revoked name is free again", token(daemon.data, "add", "gone", "--role", "read").returncode == 0)
    for bad in (("add", "x"), ("add", "x", "--role", "king"), ("add", "x y", "--role", "read"), ("add",), (),
                ("add", "x", "--role", "read", "--expires", "soon"), ("add", "x", "--role", "read", "--expires", "1999-01-01"),
                ("add", "x", "--role", "read", "--expires", "2099-02-30"), ("add", "x", "--role", "read", "--expires", "1e3d"),
                ("add", "x", "--role", "read", "--expires", "0x10h"), ("add", "x", "--role", "read", "--expires", "1.2.3d"),
                ("add", "x", "--role", "read", "--expires", "99999999999d"), ("add", "n" * 60, "--role", "read")):
        t.equal("usage: %r" % (bad,), token(daemon.data, *bad).returncode, 2)
    listed = token(daemon.data, "list").stdout
    t.check("list", all(role + "-er" in listed for role in ROLES) and "mgt_" not in listed, listed)
    for _ in range(300):
        if daemon.request("GET", "/jobs", None, bearer(short)).status == 401:
            break
        time.sleep(0.1)
    t.equal("after its end", daemon.request("GET", "/jobs", None, bearer(short)).status, 401)


def listen(path, text):
    """A request whose answer is still to come: the socket."""
    peer = daemon.connect()
    peer.sendall(b"GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n" % (path.encode(), text.encode()))
    return peer


def rest_of(peer, seconds):
    """All that comes until the peer closes, and whether it does in time."""
    data, end = b"", time.monotonic() + seconds
    while time.monotonic() < end:
        peer.settimeout(max(0.01, end - time.monotonic()))
        try:
            part = peer.recv(65536)
        except OSError:
            break
        if not part:
            return data, True
        data += part
        if data.endswith(b"0\r\n\r\n"):
            return data, True
    return data, False


def test_streams_end(t):
    """Streams and waits end with the token: when it is revoked, and when it expires."""
    job = daemon.request("POST", "/optimize", dict(SLOW, fresh=True),
                         bearer(tokens["submit"])).json
    path = "/jobs/" + job["id"]
    stays = listen(path + "/events", tokens["read"]), listen(path + "?wait=60", tokens["read"])
    for how, more in (("revoked", ()), ("expired", ("--expires", "0.0006h"))):
        text = add(t, daemon.data, "listener-" + how, "read", *more)
        stream, wait, poll = (listen(path + "/events", text), listen(path + "?wait=60", text),
                              listen("/events?jobs=%s&since=999999&wait=60" % job["id"], text))
        t.check("a stream has begun: " + how, stream.recv(65536).startswith(b"HTTP/1.1 200"))
        if how == "revoked":
            t.equal("revoke the listener", token(daemon.data, "revoke", "listener-revoked").returncode, 0)
        t.check("the stream ends: " + how, rest_of(stream, 6)[1])
        answer = rest_of(wait, 1)[0]
        t.check("who waits is refused: " + how, answer.startswith(b"HTTP/1.1 401") and b"unauthorized" in answer, answer)
        t.check("the other stream ends: " + how, rest_of(poll, 1)[1])
        t.equal("and who comes again: " + how, daemon.request("GET", path, None, bearer(text)).status, 401)
        for peer in (stream, wait, poll):
            peer.close()
    data, closed = rest_of(stays[0], 1.5)
    t.check("another token's stream goes on", not closed and b"event: snapshot" in data, data)
    t.equal("and its wait", rest_of(stays[1], 0.2), (b"", False))
    t.equal("cancel", daemon.request("POST", path + "/cancel", None, bearer(tokens["submit"])).status, 200)
    for peer in stays:
        peer.close()


def test_other_directories(t):
    """Where nothing of magisd lies there are no tokens to tell of."""
    empty = os.path.join(daemon.home, "empty")
    os.mkdir(empty)
    for name, where, wanted in (("missing", os.path.join(daemon.home, "nowhere"), "No such file"), ("empty", empty, "no data of magisd"),
                                ("a file", os.path.join(daemon.home, "log"), "no data of magisd")):
        for arguments in (("list",), ("revoke", "x")):
            answer = token(where, *arguments)
            t.check("%s of a directory that is %s" % (arguments[0], name), answer.returncode == 2 and wanted in answer.stderr and
                    not answer.stdout and where in answer.stderr, answer)
    t.equal("nothing is made there", os.listdir(empty), [])
    fresh = Daemon()
    t.equal("a daemon's without a token", token(fresh.data, "list").returncode, 0)
    fresh.close()


def test_damaged_file(t):
    path = os.path.join(daemon.data, "tokens.json")
    kept = open(path).read()
    for text in ("", "{", "[]", '{"tokens": [{"name": "x"}]}'):
        open(path + ".new", "w").write(text)
        os.rename(path + ".new", path)
        t.equal("a damaged file lets nobody in: %r" % text,
                (daemon.get("/jobs").status, daemon.request("GET", "/jobs", None, bearer(tokens["admin"])).status), (401, 401))
    open(path + ".new", "w").write(kept)
    os.rename(path + ".new", path)
    t.equal("whole again", daemon.request("GET", "/jobs", None, bearer(tokens["admin"])).status, 200)


def test_other_addresses(t):
    try:
        Daemon(listen="0.0.0.0:0").close()
        t.check("another address without a token", False)
    except RuntimeError as error:
        t.check("another address without a token", "needs a token" in str(error), error)
    open_one = Daemon("--insecure", listen="0.0.0.0:0")
    t.equal("--insecure", open_one.get("/jobs", Host="localhost").status, 200)
    open_one.close()
    home = os.path.join(daemon.home, "shared")
    text = add(t, home, "one", "read")
    guarded = Daemon(data=home, listen="0.0.0.0:0")
    t.equal("with a token in the store", (guarded.get("/jobs", Host="localhost").status,
            guarded.request("GET", "/jobs", None, {"Host": "localhost", **bearer(text)}).status), (401, 200))
    os.unlink(os.path.join(home, "tokens.json"))
    t.equal("never open without one", guarded.get("/jobs", Host="localhost").status, 401)
    guarded.close()


def test_all_revoked(t):
    """The last token's end opens nothing, unless --insecure asks for it."""
    home = os.path.join(daemon.home, "ended")
    text = add(t, home, "only", "admin")
    guarded, insecure = Daemon(data=home), None
    t.equal("with it", guarded.request("GET", "/jobs", None, bearer(text)).status, 200)
    revoked = token(home, "revoke", "only")
    t.check("it is said that it was the last one", revoked.returncode == 0 and "last valid" in revoked.stderr and
            "magisd token add" in revoked.stderr and home in revoked.stderr, revoked)
    for headers in ({}, bearer(text)):
        answer = guarded.request("GET", "/jobs", None, headers)
        t.check("closed, and why and what to do", answer.status == 401 and "no valid token" in answer.json["detail"] and
                "magisd token add" in answer.json["hint"], answer)
    guarded.close()
    insecure = Daemon("--insecure", data=home)
    t.equal("--insecure", insecure.get("/jobs").status, 200)
    again = add(t, home, "again", "read")
    t.equal("a valid one closes it", (insecure.get("/jobs").status, insecure.request("GET", "/jobs", None, bearer(again)).status), (401, 200))
    insecure.close()


tests = Tests()
tests.run(setup, test_roles, test_wrong_tokens, test_how_to_give_one, test_ownership, test_end_of_tokens, test_streams_end, test_other_directories, test_damaged_file, test_other_addresses, test_all_revoked)
tests.equal("stops", daemon.close(), 0)
tests.end()
