# SPDX-License-Identifier: Apache-2.0
"""A thread has two streams capture a graph each, in CUDA's strictest mode, before anybody looks on; another one runs
kernels beside it. The first capture ends after --seconds, the second one half as long after it, and then the other
thread runs alone. With --unmet nothing is launched into the captures after the beginning. Prints how they ended, and
with how many nodes of how many."""
import argparse
import ctypes
import json
import threading
import time

import torch

p = argparse.ArgumentParser()
p.add_argument("--seconds", type=float, default=3)
p.add_argument("--unmet", action="store_true")
a = p.parse_args()

cuda = ctypes.CDLL("libcuda.so.1")
GLOBAL = 0
x, y = (torch.ones(1 << 20, device="cuda") for _ in range(2))
outs = [torch.empty_like(x) for _ in range(3)]
streams = [torch.cuda.Stream() for _ in range(3)]
launched = [0, 0, 0]


def handle(k):
    return ctypes.c_void_p(streams[k].cuda_stream)


def launch(k):
    with torch.cuda.stream(streams[k]):
        torch.add(x, y, out=outs[k])
    launched[k] += 1


def launch_for(seconds, which):
    end = time.time() + seconds
    while time.time() < end:
        for k in which:
            launch(k)
        time.sleep(0.002)


def end(k):
    graph, n = ctypes.c_void_p(), ctypes.c_size_t(0)
    code = cuda.cuStreamEndCapture(handle(k), ctypes.byref(graph))
    if code == 0:
        cuda.cuGraphGetNodes(graph, None, ctypes.byref(n))
    return code, n.value


def capture(ended):
    codes.extend(cuda.cuStreamBeginCapture_v2(handle(k), GLOBAL) for k in range(2))
    launch(0), launch(1)
    begun.set()
    launch_for(a.seconds, [] if a.unmet else [0, 1])
    ended.append(end(0))
    launch_for(a.seconds / 2, [] if a.unmet else [1])
    ended.append(end(1))


for k in range(3):
    launch(k)
torch.cuda.synchronize()
launched = [0, 0, 0]
codes, ends, begun = [], [], threading.Event()
thread = threading.Thread(target=capture, args=(ends,))
thread.start()
begun.wait()
print("standing ready", flush=True)
launch_for(2 * a.seconds, [2])
thread.join()
torch.cuda.synchronize()
print("standing " + json.dumps({"begun": codes, "ended": ends, "launched": launched}), flush=True)
