# SPDX-License-Identifier: Apache-2.0
"""Lazy initialisation as in PyTorch: what was queued runs within it, before it is said to be done."""
import threading

import torch
from torch.cuda import nvtx  # noqa: F401

_initialized = False
_queued_calls = []
_tls = threading.local()
_lock = threading.Lock()


def is_initialized():
    return _initialized


def _lazy_call(callable, **kwargs):
    with _lock:
        if _initialized:
            callable()
        else:
            _queued_calls.append((callable, []))


def _lazy_init():
    global _initialized
    if _initialized or hasattr(_tls, "is_initializing"):
        return
    with _lock:
        torch.note("cuda")
        _tls.is_initializing = True
        try:
            for call, _ in _queued_calls:
                call()
        finally:
            del _tls.is_initializing
        _initialized = True


def synchronize():
    _lazy_init()
    torch.note("synchronize")
