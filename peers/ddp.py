"""PyTorch DistributedDataParallel over Gloo, as a peer of `lockstep train`.

    python3 peers/ddp.py --model mnist-cnn|vgg16 --workers 2 --batch 64 --steps 60 [--malloc]

Trains the same network, batch, optimiser and threads as ours on random images held in memory, one
thread a worker, and prints one line of JSON: the samples per second of all workers together, over
the second half of the steps. With --malloc the workers raise malloc's thresholds as ours do. With
--alone each process trains by itself, without DistributedDataParallel.
"""
import argparse
import ctypes
import json
import os
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F


class MnistCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        x = torch.flatten(self.dropout1(x), 1)
        return self.fc2(self.dropout2(F.relu(self.fc1(x))))


class Vgg16(nn.Module):
    def __init__(self):
        super().__init__()
        layers, channels = [], 3
        for width in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0):
            if width == 0:
                layers.append(nn.MaxPool2d(2))
                continue
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = width
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(7)
        self.classifier = nn.Sequential(
            nn.Linear(512 * 49, 4096), nn.ReLU(inplace=True), nn.Dropout(),
            nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(4096, 1000))

    def forward(self, x):
        return self.classifier(torch.flatten(self.pool(self.features(x)), 1))


MODELS = {"mnist-cnn": (MnistCnn, (1, 28, 28), 10), "vgg16": (Vgg16, (3, 32, 32), 1000)}
# mallopt's M_MMAP_THRESHOLD, M_TRIM_THRESHOLD and M_TOP_PAD, as src/replica/malloc.cpp sets them.
SETTINGS = ((-3, 1 << 30), (-1, 2**31 - 1), (-2, 64 << 20))


def raise_malloc_thresholds():
    libc = ctypes.CDLL("libc.so.6")
    for name, value in SETTINGS:
        libc.mallopt(name, value)


def work(rank, options, rendezvous, seconds):
    if options.malloc:
        raise_malloc_thresholds()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", init_method="file://" + rendezvous, rank=rank,
                            world_size=options.workers)
    make, shape, classes = MODELS[options.model]
    model = make()
    if not options.alone:
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    torch.manual_seed(2 + rank)
    x = torch.randn(16, options.batch, *shape)
    y = torch.randint(0, classes, (16, options.batch))
    half = options.steps // 2
    for step in range(options.steps):
        if step == half:
            dist.barrier()
            start = time.perf_counter()
        optimizer.zero_grad()
        F.cross_entropy(model(x[step % 16]), y[step % 16]).backward()
        optimizer.step()
    taken = time.perf_counter() - start
    dist.barrier()
    seconds[rank] = taken


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", choices=MODELS, default="mnist-cnn")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--malloc", action="store_true", help="raise malloc's thresholds")
    parser.add_argument("--alone", action="store_true", help="without DistributedDataParallel")
    options = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    seconds = mp.get_context("spawn").Array("d", options.workers)
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, (options, folder + "/rendezvous", seconds), nprocs=options.workers)
    samples = options.batch * (options.steps - options.steps // 2)
    print(json.dumps({
        "engine": "pytorch-" + ("alone" if options.alone else "ddp"), "model": options.model,
        "workers": options.workers, "batch": options.batch, "malloc": options.malloc,
        "samples_per_second": sum(samples / s for s in seconds)}))


if __name__ == "__main__":
    main()
