# SPDX-License-Identifier: Apache-2.0
"""ResNet-18 training on random data: bf16, channels last, batch 64. Prints the time of an iteration."""
import argparse
import sys
import time

import torch
import torchvision

p = argparse.ArgumentParser()
p.add_argument("--iterations", type=int, default=20)
p.add_argument("--warmup", type=int, default=5)
p.add_argument("--nvtx", action="store_true", help="emit_nvtx with shapes, and a range for each iteration")
p.add_argument("--profile", action="store_true", help="cudaProfilerStart and -Stop around the iterations")
a = p.parse_args()

torch.manual_seed(1)
device = torch.device("cuda")
model = torchvision.models.resnet18().to(device, memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
x = torch.randn(64, 3, 224, 224, device=device).to(memory_format=torch.channels_last)
y = torch.randint(0, 1000, (64,), device=device)


def step():
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


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
