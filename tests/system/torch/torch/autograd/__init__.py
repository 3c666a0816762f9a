# SPDX-License-Identifier: Apache-2.0
import torch


class ProfilerState:
    NVTX, KINETO = "NVTX", "KINETO"


class ProfilerConfig:
    """Seven arguments, as pybind counts them."""

    def __init__(self, state, shapes, memory, stack, flops, modules, experimental):
        self.state, self.shapes = state, shapes


def _profiler_enabled():
    return torch._C._autograd.state.profiler is not None


def _enable_profiler(config, activities):
    if _profiler_enabled():
        raise RuntimeError("profiler is already enabled on this thread")
    torch.note("enable %s%s" % (config.state, " shapes" if config.shapes else ""))
    torch._C._autograd.state.profiler = config.state


def _disable_profiler():
    if not _profiler_enabled():
        raise RuntimeError("profiler is not enabled on this thread")
    torch.note("disable " + torch._C._autograd.state.profiler)
    torch._C._autograd.state.profiler = None


from torch.autograd import profiler  # noqa: E402,F401
