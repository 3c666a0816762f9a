# SPDX-License-Identifier: Apache-2.0
"""A training of which torch.profiler writes a trace, of --iterations iterations, once the file --go is there."""
import argparse
import os
import time

import torch

import models

p = argparse.ArgumentParser()
p.add_argument("trace")
p.add_argument("--go", required=True)
p.add_argument("--iterations", type=int, default=20)
p.add_argument("--model", choices=models.NAMES, default="transformer")
p.add_argument("--batch", type=int, default=8)
a = p.parse_args()

step = models.make(a.model, a.batch, lr=0.1, momentum=0.9)
# The first use of the profiler loads CUPTI.
with torch.profiler.profile():
    for _ in range(5):
        step()
torch.cuda.synchronize()
print("traced ready", flush=True)
by = time.time() + 60
while not os.path.exists(a.go) and time.time() < by:
    time.sleep(0.01)
with torch.profiler.profile(record_shapes=True) as prof:
    for i in range(a.iterations):
        torch.cuda.synchronize()
        with torch.profiler.record_function(f"iteration {i}"):
            step()
        prof.step()
    torch.cuda.synchronize()
prof.export_chrome_trace(a.trace)
print("traced", torch.__version__, flush=True)
