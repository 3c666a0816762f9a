# SPDX-License-Identifier: Apache-2.0
import torch


def range_push(message):
    torch.note("push " + message)


def range_pop():
    torch.note("pop")
