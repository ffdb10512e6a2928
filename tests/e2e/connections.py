"""Many, slow and vanishing clients."""
import os
import re
import socket
import threading
import time

from libe2e import Daemon, Tests, complete, read_all, status_of

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def read_one(peer):
    data = b""
    while not complete(data):
        part = peer.recv(65536)
        if not part:
            break
        data += part
    return status_of(data)


def metric(daemon, name):
    match = re.search("^" + re.escape(name) + r" (\S+)", daemon.get("/metrics").text, re.M)
    return float(match.group(1))


def test_keep_alive(t):
    daemon = Daemon("--max-per-address", "400")
    peers = [daemon.connect() for _ in range(300)]
    for round in range(3):
        for peer in peers:
            peer.sendall(GET)
        answers = [read_one(peer) for peer in peers]
        t.equal("round %d of 300 connections" % round, answers, [200] * 300)
    peers[0].sendall(GET * 10)
    data = b""
    while data.count(b"HTTP/1.1 200") < 10:
        data += peers[0].recv(65536)
    t.equal("ten requests in one packet", data.count(b"HTTP/1.1 200"), 10)
    for peer in peers:
        peer.close()
    time.sleep(0.3)
    t.check("all are forgotten", metric(daemon, "magisd_http_connections") <= 2)
    t.equal("stops", daemon.close(), 0)


def test_per_address_busy(t, daemon):
    """Nobody makes room whose request is being answered."""
    job = daemon.post("/optimize", {"zoo": {"model": "bert-base", "batch": 8}, "training": {"loss": "squared", "optimizer": "sgd"},
                                    "budget": {"seconds": 60}}).json
    for _ in range(200):
        if daemon.get("/jobs/" + job["id"]).json["state"] == "running":
            break
        time.sleep(0.05)
    waiting = []
    for _ in range(5):  # one after the other: one that has not asked yet would make room
        waiting.append(daemon.connect())
        waiting[-1].sendall(b"GET /jobs/%s?wait=60 HTTP/1.1\r\nHost: localhost\r\n\r\n" % job["id"].encode())
        time.sleep(0.3)
    refused = daemon.connect()
    refused.settimeout(5)
    try:
        refused.sendall(GET)
        t.equal("all wait for an answer", read_one(refused), 0)
    except OSError:
        t.check("all wait for an answer", True)
    waiting[0].close()
    for _ in range(50):
        try:
            daemon.post("/jobs/%s/cancel" % job["id"])
            break
        except OSError:
            time.sleep(0.1)
    for peer in waiting[1:]:
        peer.close()


def test_per_address(t):
    daemon = Daemon("--max-per-address", "5")
    peers = [daemon.connect() for _ in range(8)]
    served = 0
    for peer in peers:
        try:
            peer.sendall(GET)
            served += read_one(peer) == 200
        except OSError:
            pass
    t.equal("five of eight", served, 5)
    for peer in peers:
        peer.close()
    time.sleep(0.3)
    t.equal("room again", daemon.get("/healthz").status, 200)
    idle = [daemon.connect() for _ in range(5)]
    idle[1].sendall(b"POST /optimize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
    time.sleep(0.2)
    t.equal("idle ones make room", [daemon.get("/healthz").status for _ in range(8)], [200] * 8)
    idle[1].settimeout(0.2)
    try:
        t.check("an upload stays", idle[1].recv(1) != b"")
    except TimeoutError:
        t.check("an upload stays", True)
    t.equal("the oldest is closed", idle[0].recv(1), b"")
    for peer in idle:
        peer.close()
    test_per_address_busy(t, daemon)
    daemon.close()


def test_limit(t):
    daemon = Daemon("--max-connections", "20", "--max-per-address", "1000")
    idle = [daemon.connect() for _ in range(20)]
    time.sleep(0.2)
    t.equal("a new one is served, the oldest idle one goes", daemon.get("/healthz").status, 200)
    late = [daemon.connect() for _ in range(60)]
    for peer in late[-10:]:
        peer.sendall(GET)
    t.equal("the newest are served", [read_one(peer) for peer in late[-10:]], [200] * 10)
    for peer in idle + late:
        peer.close()
    time.sleep(0.3)
    t.equal("recovers", daemon.get("/healthz").status, 200)
    t.check("counted", metric(daemon, 'magisd_http_refused_total{cause="limit"}') >= 1)
    daemon.close()


def drip(peer, data, pause, limit):
    """Sends byte by byte; seconds until the other side had enough."""
    start = time.time()
    peer.settimeout(0.001)
    for byte in data:
        if time.time() - start > limit:
            return limit
        try:
            peer.sendall(bytes([byte]))
            if peer.recv(1000) == b"":
                break
        except socket.timeout:
            pass
        except OSError:
            break
        time.sleep(pause)
    return time.time() - start


def test_slow(t):
    daemon = Daemon("--idle-seconds", "1", "--upload-seconds", "2", "--max-per-address", "200")
    post = (b"POST /optimize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100000\r\n\r\n")
    results = {}

    def watch(name, first, data, limit):
        with daemon.connect() as peer:
            peer.sendall(first)
            results[name] = drip(peer, data, 0.1, limit)

    def silent(name, first):
        with daemon.connect() as peer:
            peer.settimeout(8)
            peer.sendall(first)
            start = time.time()
            read_all(peer)
            results[name] = time.time() - start

    threads = [
        threading.Thread(target=watch, args=("headers drop by drop", b"", b"GET / HTTP/1.1\r\nX: " + b"a" * 1000, 8)),
        threading.Thread(target=watch, args=("body drop by drop", post, b" " * 1000, 8)),
        threading.Thread(target=silent, args=("silent", b"")),
        threading.Thread(target=silent, args=("half a request", post + b"{")),
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    start = time.time()
    t.equal("others are served meanwhile", daemon.get("/healthz").status, 200)
    t.check("at once", time.time() - start < 0.5)
    for thread in threads:
        thread.join()
    for name, seconds in results.items():
        t.check("ended: " + name, 0.5 < seconds < 6, seconds)
    t.equal("all slow ones were seen", len(results), 4)
    daemon.close()


def test_vanishing(t):
    daemon = Daemon("--max-per-address", "400")
    for k in range(100):
        peer = daemon.connect()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        peer.sendall((b"POST /optimize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                      b"Content-Length: 50000\r\n\r\n" + b" " * 20000)[:k * 211])
        peer.close()
    time.sleep(0.5)
    t.check("resets leave nothing", metric(daemon, "magisd_http_connections") <= 2)
    t.equal("alive", daemon.get("/healthz").status, 200)
    t.equal("stops", daemon.close(), 0)


def test_large_uploads(t):
    """Half-read connections wait in the library: a missing wake-up would hang these."""
    daemon = Daemon()
    for size in (0, 1, 4095, 32768, 65537, 1000003, 3000000, 9999999):
        body = b'{"name": "' + b"x" * size + b'"}'
        start = time.time()
        answer = daemon.request("POST", "/estimate", body, timeout=10)
        t.check("%d bytes arrive" % size, answer.status in (200, 400, 413, 422) and time.time() - start < 8, answer)
    t.equal("stops", daemon.close(), 0)


tests = Tests()
def resident(daemon):
    with open("/proc/%d/status" % daemon.process.pid) as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1)) << 10


def test_too_many_parameters(t):
    """The library has no room for them and closes without a word; what was kept of such a request goes with it."""
    daemon = Daemon()
    query = "&".join("parameter-of-a-long-name-%d=1" % i for i in range(650))
    request = ("GET /jobs?%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % query).encode()

    def ask(rounds):
        for _ in range(rounds):
            peers = [daemon.connect() for _ in range(60)]
            for peer in peers:
                peer.sendall(request)
            for peer in peers:
                with peer:
                    while peer.recv(65536):
                        pass
    ask(2)
    before = resident(daemon)
    ask(4)
    if not os.environ.get("MAGIS_SANITIZER"):  # which keeps freed memory for a while, and tells leaks itself
        t.check("nothing of them stays", resident(daemon) - before < 2 << 20, (before, resident(daemon)))
    t.check("they are in the log", len([line for line in daemon.log_lines() if line["event"] == "request" and
                                        line["path"] == "/jobs" and line.get("end") == "aborted"]) == 360)
    t.equal("the next one is answered", daemon.get("/jobs").status, 200)
    t.equal("stops cleanly", daemon.close(), 0)


tests.run(test_keep_alive, test_too_many_parameters, test_per_address, test_limit, test_slow, test_vanishing, test_large_uploads)
tests.end()
