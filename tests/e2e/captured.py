"""Captured torchvision steps that need more than 8 GB: plans at 1.10 times the time save at least half of the activation
memory, with no operator that we do not know. The slower networks are in `make accept`."""
import os
import tempfile

from libe2e import Tests
from libcaptured import QUICK, Saving


def test_savings(t):
    folder = tempfile.mkdtemp(dir=os.environ.get("MAGIS_TMP"))
    for name, evaluations in QUICK.items():
        saving = Saving(name, evaluations, folder)
        if not t.check(name + ": planned", saving.error is None, saving.error):
            continue
        t.check(name + ": needs more than 8 GB", saving.original > 8e9, saving.original)
        t.equal(name + ": opaque operators", saving.opaque, [])
        t.check(name + ": evaluations", saving.evaluations <= evaluations, saving.evaluations)
        t.check(name + ": latency", saving.latency_ratio <= 1.10, saving.latency_ratio)
        t.check(name + ": activation memory", saving.share <= 0.5, saving.share)


tests = Tests()
tests.run(test_savings)
tests.end()
