# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel on every GPU of the machine: run under torchrun. Prints the loss of rank 0."""
import argparse
import os
import time

import torch
import torch.distributed as dist
import torchvision

p = argparse.ArgumentParser()
p.add_argument("--iterations", type=int, default=30)
a = p.parse_args()

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(1)
model = torchvision.models.resnet18().cuda().to(memory_format=torch.channels_last)
model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(32, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
y = torch.randint(0, 1000, (32,), device="cuda")
times = []
for i in range(a.iterations):
    torch.cuda.synchronize()
    t = time.perf_counter()
    torch.cuda.nvtx.range_push(f"iteration {i}")
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    torch.cuda.nvtx.range_pop()
    torch.cuda.synchronize()
    times.append((time.perf_counter() - t) * 1e3)
times = sorted(times[10:])
if rank == 0:
    print(f"iteration {times[len(times) // 2]:.3f} ms median, loss {loss.item():.6f}")
dist.destroy_process_group()
