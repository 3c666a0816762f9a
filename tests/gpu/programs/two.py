# SPDX-License-Identifier: Apache-2.0
"""One process, one thread, all GPUs in turn: copies of known size on each."""
import torch

n = 64 << 20
pairs = []
for d in range(torch.cuda.device_count()):
    src = torch.zeros(n, dtype=torch.uint8, device=f"cuda:{d}")
    pairs.append((src, torch.empty_like(src)))
for _ in range(50):
    for src, out in pairs:
        torch.bitwise_not(src, out=out)
for d in range(torch.cuda.device_count()):
    torch.cuda.synchronize(d)
print("two done")
