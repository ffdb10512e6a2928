"""What the end-to-end scripts share: a daemon on a free port, requests, and a count of checks."""
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

MAGISD = os.environ.get("MAGISD", "build/magisd")
if os.environ.get("MAGIS_TMP"):  # whoever else measures on this machine does not wait for us, nor we for them
    os.environ.setdefault("MAGISD_LOCK_DIR", os.environ["MAGIS_TMP"])


class Daemon:
    """magisd serve on port 0 with a data directory of its own."""

    def __init__(self, *options, data=None, listen="127.0.0.1:0"):
        self.home = tempfile.mkdtemp(prefix="magisd-test-", dir=os.environ.get("MAGIS_TMP"))
        self.data = data or os.path.join(self.home, "data")
        self.options = options
        self.listen = listen
        self.start()

    def start(self):
        port_file = os.path.join(self.home, "address")
        if os.path.exists(port_file):
            os.unlink(port_file)
        self.log = open(os.path.join(self.home, "log"), "ab")
        command = [MAGISD, "serve", "--listen", self.listen, "--data", self.data, "--port-file", port_file]
        self.process = subprocess.Popen(command + list(self.options), stdout=self.log, stderr=self.log,
                                        stdin=subprocess.DEVNULL)
        for _ in range(1000):
            if os.path.exists(port_file):
                break
            if self.process.poll() is not None:
                raise RuntimeError("magisd ended with %d:\n%s" % (self.process.returncode, self.read_log()))
            time.sleep(0.01)
        else:
            raise RuntimeError("magisd does not listen:\n" + self.read_log())
        self.address = open(port_file).read().strip()
        if not self.address.startswith("unix:"):
            self.host, port = self.address.rsplit(":", 1)
            self.port = int(port)

    def read_log(self):
        return open(os.path.join(self.home, "log"), errors="replace").read()

    def log_lines(self):
        return [json.loads(line) for line in self.read_log().splitlines() if line.startswith("{")]

    def stop(self, sig=signal.SIGTERM, wait=15):
        """The exit code (negative: the signal it died of)."""
        if self.process.poll() is None:
            self.process.send_signal(sig)
        try:
            code = self.process.wait(wait)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            code = None
        self.log.close()
        return code

    def close(self):
        code = self.stop()
        shutil.rmtree(self.home, ignore_errors=True)
        return code

    def connect(self):
        return socket.create_connection((self.host, self.port), timeout=10)

    def request(self, method, path, body=None, headers=None, timeout=30):
        """An answer with status, headers and text; a JSON body where `body` is no bytes."""
        headers = dict(headers or {})
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path, **headers):
        return self.request("GET", path, headers={key.replace("_", "-"): value for key, value in headers.items()})

    def post(self, path, body=None, **headers):
        return self.request("POST", path, body, {key.replace("_", "-"): value for key, value in headers.items()})

    def raw(self, data, timeout=10):
        """Sends bytes as they are; what comes back until the peer closes (or falls silent)."""
        with self.connect() as peer:
            peer.settimeout(timeout)
            try:
                peer.sendall(data)
            except OSError:
                pass
            return read_all(peer)


def children(daemon, role):
    """Process ids of the daemon's children with this role."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, IndexError):
            with open("/proc/%s/stat" % name) as stat, open("/proc/%s/cmdline" % name) as words:
                state, parent = stat.read().rsplit(")", 1)[1].split()[:2]
                if int(parent) == daemon.process.pid and words.read().split("\0")[1] == role and state != "Z":
                    found.append(int(name))
    return found


def wait_until(what, seconds=60, step=0.05):
    """Calls what() until it is true or the time is over; what it said last."""
    end = time.monotonic() + seconds
    while not (value := what()) and time.monotonic() < end:
        time.sleep(step)
    return value


def read_all(peer):
    data = b""
    try:
        while True:
            part = peer.recv(65536)
            if not part:
                return data
            data += part
            if complete(data):
                return data
    except OSError:
        return data


def complete(data):
    """One whole answer with a Content-Length has come."""
    head, found, rest = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: *(\d+)", head)
    return bool(found and length and len(rest) >= int(length.group(1)))


def status_of(data):
    match = re.match(rb"HTTP/1\.[01] (\d+)", data)
    return int(match.group(1)) if match else 0


class Answer:
    def __init__(self, status, headers, data):
        self.status = status
        self.headers = headers
        self.data = data

    @property
    def text(self):
        return self.data.decode()

    @property
    def json(self):
        return json.loads(self.data)

    @property
    def problem(self):
        """The name of the problem, "" if the answer is none."""
        if not self.headers.get("Content-Type", "").startswith("application/problem+json"):
            return ""
        return self.json["type"].rsplit("/", 1)[-1]

    def __repr__(self):
        return "%d %r" % (self.status, self.data[:300])


def read_events(stream, until=None, limit=200):
    """Server-sent events from a file-like object: dictionaries with event, data and id."""
    events, event = [], {}
    for line in stream:
        line = line.decode().rstrip("\r\n")
        if not line:
            if "data" in event:
                events.append(event)
                if event.get("event") == until or len(events) >= limit:
                    return events
            event = {}
        elif not line.startswith(":"):
            key, _, value = line.partition(": ")
            event[key] = value
    return events


class Tests:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, name, condition, shown=""):
        if condition:
            self.passed += 1
        else:
            self.failed += 1
            print("FAILED: %s %s" % (name, shown))
        return bool(condition)

    def equal(self, name, got, want):
        return self.check(name, got == want, "got %r, want %r" % (got, want))

    def run(self, *functions):
        """Runs each; one that raises counts as failed."""
        for function in functions:
            try:
                function(self)
            except Exception:
                self.failed += 1
                print("FAILED: %s raised" % function.__name__)
                traceback.print_exc(file=sys.stdout)

    def end(self):
        print("%d passed, %d failed" % (self.passed, self.failed))
        sys.exit(1 if self.failed else 0)
