# SPDX-License-Identifier: Apache-2.0
"""Copies of known size on three interleaved streams, from two threads, and as a CUDA graph."""
import threading

import torch

n = 64 << 20  # bytes
src = torch.zeros(n, dtype=torch.uint8, device="cuda")
streams = [torch.cuda.Stream() for _ in range(3)]
outs = [torch.empty_like(src) for _ in range(3)]
torch.cuda.synchronize()


def work(k):
    torch.cuda.nvtx.range_push(f"thread {k}")
    for i in range(30):
        with torch.cuda.stream(streams[i % 3]):
            torch.bitwise_not(src, out=outs[i % 3])
    torch.cuda.nvtx.range_pop()


threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
for t in threads:
    t.start()
for t in threads:
    t.join()
torch.cuda.synchronize()

graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    for _ in range(10):
        torch.bitwise_not(src, out=outs[0])
for _ in range(5):
    graph.replay()
torch.cuda.synchronize()
print("streams done")
