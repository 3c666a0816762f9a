# SPDX-License-Identifier: Apache-2.0
"""Training steps: times.py resnet|transformer [OUT]. With OUT torch.profiler traces the last ten, and OUT
gets each kernel's name and duration in us; without, the program is as long, and prints when they begin."""
import json
import sys

import torch

torch.manual_seed(0)
if sys.argv[1] == "resnet":
    import torchvision

    model = torchvision.models.resnet18().cuda().to(memory_format=torch.channels_last)
    x = torch.randn(64, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    y = torch.randint(0, 1000, (64,), device="cuda")
else:
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    model = torch.nn.Sequential(torch.nn.TransformerEncoder(layer, 6), torch.nn.Flatten(), torch.nn.Linear(128 * 512, 10)).cuda()
    x, y = torch.randn(32, 128, 512, device="cuda"), torch.randint(0, 10, (32,), device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def step():
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def ten():
    for _ in range(10):
        step()
    torch.cuda.synchronize()


for _ in range(5):
    step()
torch.cuda.synchronize()
if len(sys.argv) > 2:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as p:
        ten()
    kernels = [(e.name, e.device_time) for e in p.events()
               if e.device_type == torch.autograd.DeviceType.CUDA and not e.name.startswith(("Memcpy", "Memset"))]
    json.dump(kernels, open(sys.argv[2], "w"))
else:
    torch.cuda.nvtx.range_push("ten")
    ten()
    torch.cuda.nvtx.range_pop()
print("times done")
