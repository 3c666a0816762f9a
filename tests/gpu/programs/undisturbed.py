# SPDX-License-Identifier: Apache-2.0
"""What a program may do that `gpuctr-client run --torch` must not disturb: profilers of its own, the compiler, loaders
of data in forked processes, an exception in a forward. Says at its end what the profilers have seen."""
import torch

import models

step = models.make("resnet18", 16, lr=0.1)
step()
with torch.profiler.profile() as profile:
    step()
torch.cuda.synchronize()
operators = sum(e.name.startswith("aten::") for e in profile.events())
with torch.autograd.profiler.emit_nvtx():
    step()


class Picky(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(8, 8)

    def forward(self, x):
        if x.dim() != 2:
            raise ValueError("not a matrix")
        return self.inner(x)


picky = Picky().cuda()
raised = 0
try:
    picky(torch.zeros(8, device="cuda"))
except ValueError:
    raised = 1
# Without breaks of the graph, or it fails; without code for the GPU, which would take a compiler.
compiled = torch.compile(picky, backend="eager", fullgraph=True)
same = torch.equal(compiled(torch.ones(4, 8, device="cuda")), picky(torch.ones(4, 8, device="cuda")))
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.arange(64.)), batch_size=8, num_workers=2)
loaded = sum(float(batch[0].sum()) for batch in loader)
step()
torch.cuda.synchronize()
print(f"operators {operators} raised {raised} compiled {int(same)} loaded {loaded:.0f}")
