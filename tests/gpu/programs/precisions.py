# SPDX-License-Identifier: Apache-2.0
"""Three matrix products of N x N in each precision that tensor cores have, each in an NVTX range with its name."""
import sys

import torch

n = int(sys.argv[1])
torch.backends.cuda.matmul.allow_tf32 = True


def scaled(a, b):
    one = torch.ones((), device="cuda")
    return torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


for name, kind, product in (("bf16", torch.bfloat16, torch.mm), ("fp16", torch.float16, torch.mm), ("tf32", torch.float32, torch.mm),
                            ("fp8", torch.float8_e4m3fn, scaled)):
    a, b = (torch.randn(n, n, device="cuda").to(kind) for _ in range(2))
    product(a, b)
    torch.cuda.synchronize()
    for _ in range(3):
        with torch.cuda.nvtx.range(name):
            product(a, b)
torch.cuda.synchronize()
