# SPDX-License-Identifier: Apache-2.0
"""A training that runs for --seconds or until SIGUSR1, and says what it did: each step's end and length, and what
torch.profiler sees in two steps of its first or last. Under torchrun: DistributedDataParallel."""
import argparse
import json
import os
import signal
import time

import torch

import models

p = argparse.ArgumentParser()
p.add_argument("--seconds", type=float, default=10)
p.add_argument("--model", choices=models.NAMES, default="resnet18")
p.add_argument("--batch", type=int, default=32)
p.add_argument("--profile", choices=("before", "after"), help="torch.profiler at the beginning or at the end")
a = p.parse_args()

rank, ranks = int(os.environ.get("LOCAL_RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
torch.cuda.set_device(rank)
if ranks > 1:
    torch.distributed.init_process_group("nccl")


def parallel(model):
    return torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank]) if ranks > 1 else model


train = models.make(a.model, a.batch, lr=0.01, wrap=parallel)
steps, ids = [], {}


def step():
    t = time.perf_counter()
    loss = train()
    torch.cuda.synchronize()
    steps.append((time.time(), (time.perf_counter() - t) * 1e3))
    return loss


def profiled(when):
    """Kernels that torch.profiler sees in two steps."""
    if a.profile != when:
        return None
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as prof:
        step(), step()
    try:  # where CUPTI gives all kernels of a thread one id, operators get the kernels of others
        ids[when] = len({e.correlation_id() for e in prof.profiler.kineto_results.events() if e.device_type() == torch.autograd.DeviceType.CUDA})
    except AttributeError:  # another PyTorch
        pass
    return sum(e.device_type == torch.autograd.DeviceType.CUDA and not e.name.startswith(("Memcpy", "Memset")) for e in prof.events())


for _ in range(5):
    step()
before = profiled("before")
end = time.time() + a.seconds


def end_now(*_):
    global end
    end = 0


signal.signal(signal.SIGUSR1, end_now)
print("standing ready", flush=True)
n = 0
# Ranks end with the same step: the first one decides.
going = torch.ones(1, device="cuda")
while going.item():
    loss = step()
    n += 1
    if n % 20 == 0:
        if rank == 0:
            going.fill_(1 if time.time() < end else 0)
        if ranks > 1:
            torch.distributed.broadcast(going, 0)
after = profiled("after")
if rank == 0:
    print("standing " + json.dumps({"before": before, "after": after, "ids": ids, "steps": steps, "loss": loss.item()}), flush=True)
if ranks > 1:
    torch.distributed.destroy_process_group()
