"""The training steps of ten torchvision networks as PyTorch runs them (tests/data/aten), planned at 1.10 times the time:
the share of the activation memory that is left. Exit status 1 where it is more than half."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from libcaptured import QUICK, SLOW, Saving

missed = 0
print("%-28s %11s %11s %9s %8s %11s" % ("captured step", "peak GB", "given GB", "left", "time", "evaluations"))
with tempfile.TemporaryDirectory() as folder:
    for name, evaluations in {**QUICK, **SLOW}.items():
        saving = Saving(name, evaluations, folder)
        if saving.error is not None:
            sys.exit("%s: %s" % (name, saving.error))
        reached = saving.share <= 0.5 and saving.latency_ratio <= 1.10 and saving.original > 8e9 and not saving.opaque
        missed += not reached
        print("%-28s %11.2f %11.2f %8.1f%% %8.3f %11d%s" % (
            name, saving.original / 1e9, saving.given / 1e9, 100 * saving.share, saving.latency_ratio, saving.evaluations,
            "" if reached else "  MISSED"), flush=True)
sys.exit(missed > 0)
