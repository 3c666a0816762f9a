# SPDX-License-Identifier: Apache-2.0
import torch
from torch.autograd import ProfilerConfig, ProfilerState, _disable_profiler, _enable_profiler  # noqa: F401

_is_profiler_enabled = False


class _ExperimentalConfig:
    pass


def _run_on_profiler_start():
    global _is_profiler_enabled
    _is_profiler_enabled = True


def _run_on_profiler_stop():
    global _is_profiler_enabled
    _is_profiler_enabled = False


class _Profiler:
    state = None
    fails = False

    def __init__(self, record_shapes=False):
        self.shapes = record_shapes

    def __enter__(self):
        torch.cuda.synchronize()
        _run_on_profiler_start()
        _enable_profiler(ProfilerConfig(self.state, self.shapes, False, False, False, False, _ExperimentalConfig()), set())
        return self

    def __exit__(self, *what):
        torch.cuda.synchronize()
        _disable_profiler()
        _run_on_profiler_stop()
        return False


class emit_nvtx(_Profiler):
    state = ProfilerState.NVTX


class profile(_Profiler):
    state = ProfilerState.KINETO

    def __enter__(self):
        _run_on_profiler_start()
        _enable_profiler(ProfilerConfig(self.state, False, False, False, False, False, _ExperimentalConfig()), set())
        return self
