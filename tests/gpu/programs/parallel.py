# SPDX-License-Identifier: Apache-2.0
"""All GPUs from one process: parallel.py all-reduce|data-parallel. Prints what it computed."""
import sys

import torch
import torch.cuda.nccl

n = torch.cuda.device_count()
torch.manual_seed(0)
if sys.argv[1] == "all-reduce":
    v = [torch.full((1 << 20,), float(d + 1), device=f"cuda:{d}") for d in range(n)]
    for _ in range(50):
        torch.cuda.nccl.all_reduce(v)
        for t in v:
            t.div_(n)
    result = [round(t.sum().item() / t.numel(), 4) for t in v]
else:
    torch.use_deterministic_algorithms(True, warn_only=True)
    model = torch.nn.DataParallel(torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(128, 256, device="cuda"), torch.randint(0, 10, (128,), device="cuda")
    for _ in range(30):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    result = round(loss.item(), 3)
for d in range(n):
    torch.cuda.synchronize(d)
print(sys.argv[1], "done", result)
