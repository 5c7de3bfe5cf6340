"""PyTorch DistributedDataParallel over Gloo, as a peer of `lockstep train`.

    python3 peers/ddp.py --model mnist-cnn|vgg16 --batch 64 --turns PIPE [--malloc]
                         [--hook fp16|powersgd:RANK] [--rendezvous FILE]

Trains the same network, batch, optimiser and threads as ours on random images held in memory, two
workers of one thread each, in blocks: reads lines from the named pipe, each a word and a number of
steps, and answers each with one line of JSON, the seconds that each worker took. See
training_blocks.cpp. With --malloc the workers raise malloc's thresholds as ours do. With --hook
gradients go through one of PyTorch's communication hooks. With --rendezvous this is one of the
workers, RANK of WORLD_SIZE, which another launcher (in_namespaces) has started.
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
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook


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


def steps_asked(turns):
    """What rank 0 reads from the pipe, on both ranks; 0 at its end."""
    asked = torch.zeros(1, dtype=torch.int64)
    if turns:
        words = turns.readline().split()
        asked[0] = int(words[1]) if words else 0
    dist.broadcast(asked, 0)
    return int(asked)


def with_hook(model, hook):
    """The model as DDP trains it."""
    if not hook:
        return nn.parallel.DistributedDataParallel(model)
    if hook == "fp16":
        ddp = nn.parallel.DistributedDataParallel(model)
        ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
        return ddp
    # One bucket: over Gloo the all-reduces of several cross.
    whole = sum(4 * p.numel() for p in model.parameters())
    dist._DEFAULT_FIRST_BUCKET_BYTES = whole
    ddp = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=whole / 2**20 + 1)
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=int(hook.split(":")[1]),
                                        start_powerSGD_iter=2)
    ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return ddp


def work(rank, options, rendezvous, workers):
    if options.malloc:
        raise_malloc_thresholds()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", init_method="file://" + rendezvous, rank=rank, world_size=workers)
    make, shape, classes = MODELS[options.model]
    model = with_hook(make(), options.hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    torch.manual_seed(2 + rank)
    x = torch.randn(16, options.batch, *shape)
    y = torch.randint(0, classes, (16, options.batch))
    turns = open(options.turns) if rank == 0 else None
    while steps := steps_asked(turns):
        dist.barrier()
        start = time.perf_counter()
        for step in range(steps):
            optimizer.zero_grad()
            F.cross_entropy(model(x[step % 16]), y[step % 16]).backward()
            optimizer.step()
        seconds = [None] * workers
        dist.all_gather_object(seconds, time.perf_counter() - start)
        if rank == 0:
            print(json.dumps({"seconds": seconds}), flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", choices=MODELS, default="mnist-cnn")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--turns", required=True, help="a named pipe to read blocks from")
    parser.add_argument("--malloc", action="store_true", help="raise malloc's thresholds")
    parser.add_argument("--hook", help="fp16 or powersgd:RANK")
    parser.add_argument("--rendezvous", help="a file that all workers see: this is one of them")
    options = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    if options.rendezvous:
        workers = int(os.environ["WORLD_SIZE"])
        return work(int(os.environ["RANK"]), options, options.rendezvous, workers)
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, (options, folder + "/rendezvous", 2), nprocs=2)


if __name__ == "__main__":
    main()
