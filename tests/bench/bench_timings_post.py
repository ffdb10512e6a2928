"""POST of 10,000 timings, as JSON lines, to a daemon that knows none of them."""
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from libe2e import Daemon  # noqa: E402

ROWS = 10000


def body(name):
    lines = [{"agent": "bench", "batch": name, "class": {"device": "NVIDIA GeForce RTX 3090", "driver": "1"}}]
    for i in range(ROWS):
        n = 1000 + i
        lines.append({"row": i, "op": "add", "signature": "f32;f32[%s,%d],f32[%s,%d]->f32[%s,%d]" % (name, n, name, n, name, n),
                      "n": 15, "median_s": 6e-6, "mad_s": 1e-8, "min_s": 5.9e-6})
    return "\n".join(json.dumps(line) for line in lines)


daemon = Daemon()
times = []
for turn in range(5):
    text = body(str(turn + 2))
    start = time.monotonic()
    answer = daemon.request("POST", "/timings", text, {"Content-Type": "application/x-ndjson"})
    times.append(time.monotonic() - start)
    assert answer.json["added"] == ROWS, answer
daemon.close()
print("POST of %d timings               %8.0f ms median, %.0f to %.0f  (wanted: < 400)" % (
    ROWS, sorted(times)[2] * 1e3, min(times) * 1e3, max(times) * 1e3))
