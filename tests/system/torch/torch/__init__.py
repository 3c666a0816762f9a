# SPDX-License-Identifier: Apache-2.0
"""A PyTorch for tests: what --torch touches of it, in the same places and with the same rules, and a log of what
happened. An operator is op(); where the profiler of its thread is NVTX's, it has a marker."""
import threading

log = []


def note(text):
    log.append(text)


class _State(threading.local):
    profiler = None


class _C:
    class _autograd:
        state = _State()

    tracing = None

    @staticmethod
    def _get_tracing_state():
        return _C.tracing


class compiler:
    compiling = False

    @staticmethod
    def is_compiling():
        return compiler.compiling


from torch import cuda  # noqa: E402
from torch import autograd, nn  # noqa: E402,F401


def op(name):
    if _C._autograd.state.profiler == "NVTX":
        note("marker " + name)
    else:
        note("op " + name)
