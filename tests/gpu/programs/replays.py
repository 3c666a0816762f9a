# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs of kernels whose bytes are known. Each kernel adds 1 to a buffer of its own into another one, which are
larger than the L2 cache, so it reads and writes as many bytes as the buffer has.

--kind line: the kernels one after the other. branches: half of them on a second stream, beside the others. tiny: --nodes
kernels of 4 kB, which are there to be launched. A fill stands before the others,
which is no kernel where CUDA makes it a fill. --standing: prints "standing ready" when the graph is made, and waits for
two seconds. --remake: the graph is made anew behind so many launches. Prints a line "replays" with what was launched, how
long a launch took on the CPU and in all, and the longest time that a graph took to make."""
import argparse
import ctypes
import json
import time

import torch

p = argparse.ArgumentParser()
p.add_argument("--kind", choices=("line", "branches", "tiny"), default="line")
p.add_argument("--launches", type=int, default=200)
p.add_argument("--nodes", type=int, default=500)
p.add_argument("--seconds", type=float, default=0)
p.add_argument("--standing", action="store_true")
p.add_argument("--remake", type=int, default=0)
p.add_argument("--pause-us", type=float, default=0, help="behind each launch")
a = p.parse_args()

MIB = 1 << 20
sizes = [4096] * a.nodes if a.kind == "tiny" else [n * MIB for n in (256, 384, 512, 320, 640, 448)]
xs = [torch.ones(n // 4, device="cuda") for n in sizes]
ys = [torch.empty_like(x) for x in xs]
filled = torch.empty(64 * MIB // 4, device="cuda")
side = torch.cuda.Stream()


def work():
    filled.zero_()
    if a.kind == "branches":
        side.wait_stream(torch.cuda.current_stream())
    for i, (x, y) in enumerate(zip(xs, ys)):
        with torch.cuda.stream(side if a.kind == "branches" and i % 2 else torch.cuda.current_stream()):
            torch.add(x, 1, out=y)
    if a.kind == "branches":
        torch.cuda.current_stream().wait_stream(side)


def count_nodes(graph):
    """All, and those that are kernels (CU_GRAPH_NODE_TYPE_KERNEL is 0)."""
    cuda = ctypes.CDLL("libcuda.so.1")
    handle, n = ctypes.c_void_p(graph.raw_cuda_graph()), ctypes.c_size_t(0)
    cuda.cuGraphGetNodes(handle, None, ctypes.byref(n))
    nodes = (ctypes.c_void_p * n.value)()
    cuda.cuGraphGetNodes(handle, nodes, ctypes.byref(n))
    kernels = 0
    for node in nodes:
        kind = ctypes.c_int(-1)
        cuda.cuGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind))
        kernels += kind.value == 0
    return n.value, kernels


for _ in range(3):
    work()
torch.cuda.synchronize()
try:
    graph = torch.cuda.CUDAGraph(keep_graph=True)
except TypeError:  # an older PyTorch
    graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    work()
try:
    graph.instantiate()
    nodes, kernels = count_nodes(graph)
except (AttributeError, RuntimeError):
    nodes, kernels = None, None
graph.replay()
torch.cuda.synchronize()
if a.standing:
    print("standing ready", flush=True)
    time.sleep(2)

begin, calls, n, made, longest = time.time(), 0.0, 0, 1, 0.0
while n < a.launches if not a.seconds else time.time() - begin < a.seconds:
    if a.remake and n % a.remake == a.remake - 1:
        torch.cuda.synchronize()
        t = time.perf_counter()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        made, longest = made + 1, max(longest, time.perf_counter() - t)
    with torch.cuda.nvtx.range(f"replay {n}"):
        t = time.perf_counter()
        graph.replay()
        calls += time.perf_counter() - t
    n += 1
    if a.pause_us:
        time.sleep(a.pause_us / 1e6)
    if n % 20 == 0:
        torch.cuda.synchronize()
torch.cuda.synchronize()
print("replays " + json.dumps({"launches": n + 1, "nodes": nodes, "kernels": kernels, "sizes": sizes if a.kind != "tiny" else [],
                               "call_us": calls / n * 1e6, "us": (time.time() - begin) / n * 1e6, "made": made, "longest_ms": longest * 1e3}), flush=True)
