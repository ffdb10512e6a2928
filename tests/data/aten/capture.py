#!/usr/bin/env python3
"""Captures the training steps that lie here as NAME.json.gz: python3 capture.py [NAME...]

Torchvision networks (`make deps-torch`): forward, loss and backward. The files are read by tests that
run without torch; the live tests capture anew."""
import gzip
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "deploy", "clients", "torch"))

import torch
import torch.nn.functional as F
import torchvision

import magis_capture

# name: (samples, size): runs that need more than 8 GB; nothing is computed, so that costs nothing
NETWORKS = {
    "resnet18": (512, 224), "resnet50": (128, 224), "mobilenet_v3_small": (1024, 224), "efficientnet_b0": (160, 224),
    "densenet121": (128, 224), "vit_b_16": (128, 224), "swin_t": (128, 224), "convnext_tiny": (128, 224),
    "deeplabv3_resnet50": (24, 320), "lraspp_mobilenet_v3_large": (64, 512),
}


def training_step(name):
    """The step of a network of torchvision: step(images, targets)."""
    if name in ("deeplabv3_resnet50", "lraspp_mobilenet_v3_large"):
        model = getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None, num_classes=21)
    else:
        model = getattr(torchvision.models, name)(weights=None)

    def step(images, targets):
        out = model(images)
        loss = F.cross_entropy(out["out"] if isinstance(out, dict) else out, targets)
        loss.backward()
        return loss
    return step


def capture(name, samples=None, size=None):
    samples, size = samples or NETWORKS[name][0], size or NETWORKS[name][1]
    dense = name in ("deeplabv3_resnet50", "lraspp_mobilenet_v3_large")
    targets = torch.zeros((samples, size, size) if dense else (samples,), dtype=torch.long)
    images = torch.empty(samples, 3, size, size)
    return magis_capture.capture(training_step(name), images, targets, name=name)


def main():
    for name in sys.argv[1:] or NETWORKS:
        text = json.dumps(capture(name).dump, separators=(",", ":"))
        with gzip.GzipFile(os.path.join(HERE, name + ".json.gz"), "wb", 9, mtime=0) as file:
            file.write(text.encode())
        print(name, len(text))


if __name__ == "__main__":
    main()
