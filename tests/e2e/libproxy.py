"""A server between agents and a daemon."""
import contextlib
import http.server
import threading


@contextlib.contextmanager
def between(daemon, change):
    """Its address. It hands on to the daemon and back, but answers what change(path, body, answer) returns; None: the
    daemon's own words."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            kind = self.headers.get("Content-Type", "application/json")
            answer = daemon.request(self.command, self.path, body or None, headers={"Content-Type": kind})
            text = change(self.path, body, answer)
            text = answer.text if text is None else text
            data = text if isinstance(text, bytes) else text.encode()
            self.send_response(answer.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield "127.0.0.1:%d" % server.server_port
    finally:
        server.shutdown()
        server.server_close()
