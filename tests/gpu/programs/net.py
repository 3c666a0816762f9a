# SPDX-License-Identifier: Apache-2.0
"""A training on random data. Prints the time of an iteration."""
import argparse
import sys
import time

import torch

import models

p = argparse.ArgumentParser()
p.add_argument("--iterations", type=int, default=20)
p.add_argument("--warmup", type=int, default=5)
p.add_argument("--model", choices=models.NAMES, default="resnet18")
p.add_argument("--batch", type=int, default=64)
p.add_argument("--nvtx", action="store_true", help="emit_nvtx with shapes, and a range for each iteration")
p.add_argument("--profile", action="store_true", help="cudaProfilerStart and -Stop around the iterations")
a = p.parse_args()

step = models.make(a.model, a.batch, lr=0.1, momentum=0.9)


def run(n, name):
    times = []
    for i in range(n):
        torch.cuda.synchronize()
        t = time.perf_counter()
        torch.cuda.nvtx.range_push(f"{name} {i}")
        loss = step()
        torch.cuda.nvtx.range_pop()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - t) * 1e3)
    return times, loss


if a.nvtx:
    with torch.autograd.profiler.emit_nvtx(record_shapes=True):
        run(a.warmup, "warm-up")
        times, loss = run(a.iterations, "iteration")
else:
    run(a.warmup, "warm-up")
    if a.profile:
        torch.cuda.profiler.start()
    times, loss = run(a.iterations, "iteration")
    if a.profile:
        torch.cuda.profiler.stop()
times = sorted(times[len(times) // 2:])  # the second half: steady state
print(f"iteration {times[len(times) // 2]:.3f} ms median, {times[0]:.3f} ms least, loss {loss.item():.4f}")
sys.stdout.flush()
