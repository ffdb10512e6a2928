"""What plans of the captured torchvision steps of tests/data/aten save, after a fixed number of evaluations."""
import json
import os
import subprocess

from libe2e import MAGISD

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "aten")
# evaluations after which half of the activation memory is saved, with room to spare
QUICK = {"resnet18": 3000, "resnet50": 6000, "mobilenet_v3_small": 3000, "efficientnet_b0": 3000, "convnext_tiny": 3000,
         "lraspp_mobilenet_v3_large": 6000, "deeplabv3_resnet50": 3000}
SLOW = {"swin_t": 4000, "vit_b_16": 20000, "densenet121": 60000}


class Saving:
    """One network's answer. Activation memory: what the step allocates, that is its peak without weights, states and
    inputs, which lie there throughout."""

    def __init__(self, name, evaluations, folder):
        graph, plan = os.path.join(DATA, name + ".json.gz"), os.path.join(folder, name + ".plan.json")
        run = subprocess.run([MAGISD, "optimize", graph, "--device", "rtx3090", "--latency-ratio", "1.10", "--seed", "1",
                              "--evaluations", str(evaluations), "-o", plan, "--json"], capture_output=True, text=True)
        self.error = run.stderr if run.returncode not in (0, 3) else None
        if self.error is not None:
            return
        answer, plan = json.loads(run.stdout), json.load(open(plan))
        self.original, self.peak = answer["original"]["peak_bytes"], answer["best"]["peak_bytes"]
        self.latency_ratio, self.evaluations = answer["best"]["latency_ratio"], answer["evaluations"]
        instances = [i for i in plan["instances"] if i["made_by"] is None and "view" not in i]
        self.given = sum(plan["storages"][i["storage"]]["bytes"] for i in instances)
        self.share = (self.peak - self.given) / (self.original - self.given)
        self.opaque = [op["name"] for op in plan["program"]["graph"]["ops"] if op["op"] == "opaque"]
