#!/usr/bin/python3
"""Trains a network with DistributedDataParallel: two processes, gloo, one thread each.

    ddp.py mlp|lenet

Says "ready", then for every line of input, a number of steps, the seconds that they took.
"""
import os
import subprocess
import sys
import tempfile
import time

BATCH = 128


def start_other(store):
    environment = dict(os.environ, RANK="1", STORE=store)
    return subprocess.Popen([sys.executable, *sys.argv], env=environment, stdin=subprocess.DEVNULL)


def make_network(nn, name):
    if name == "mlp":
        return nn.Sequential(
            nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
        )
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )


def steps_to_do(torch, rank):
    """The next order, which rank 0 reads and tells the other; 0 at the end."""
    order = torch.zeros(1, dtype=torch.int64)
    if rank == 0:
        order[0] = int(sys.stdin.readline() or 0)
    torch.distributed.broadcast(order, 0)
    return int(order)


def train(rank, store):
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(rank)
    torch.distributed.init_process_group(
        "gloo", init_method="file://" + store, rank=rank, world_size=2
    )
    network = make_network(torch.nn, sys.argv[1])
    replica = torch.nn.parallel.DistributedDataParallel(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    images = torch.rand((BATCH, 784) if sys.argv[1] == "mlp" else (BATCH, 1, 28, 28))
    labels = torch.randint(0, 10, (BATCH,))

    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(replica(images), labels).backward()
        optimizer.step()

    for _ in range(10):
        step()
    if rank == 0:
        print("ready", flush=True)
    while steps := steps_to_do(torch, rank):
        start = time.perf_counter()
        for _ in range(steps):
            step()
        if rank == 0:
            print(time.perf_counter() - start, flush=True)


def main():
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
    if os.environ.get("RANK") == "1":
        train(1, os.environ["STORE"])
        return
    with tempfile.TemporaryDirectory() as directory:
        store = os.path.join(directory, "store")
        other = start_other(store)
        train(0, store)
        other.wait(timeout=30)


main()
