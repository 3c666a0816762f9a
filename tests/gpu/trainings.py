# SPDX-License-Identifier: Apache-2.0
"""Trainings whose steps are compared in windows of time: what they are, and their pace."""
from figures import median

# The length of a window; what a capture needs until it is under way, and the client around it.
WINDOW_S, SETTLES_S, CLIENT_S = 2.5, 1.1, 0.3
BATCH = {"resnet18": 64, "transformer": 8, "gpt": 8}


def pace(steps, window):
    """ms a step, of all steps that end in a window: what a few slow ones take counts."""
    ends = [at for at, _ in steps if window[0] <= at <= window[1]]
    return (ends[-1] - ends[0]) * 1e3 / (len(ends) - 1) if len(ends) > 1 else float("nan")


def quartiles(values):
    values = sorted(v for v in values if v == v)
    quarter = len(values) // 4
    return f"{median(values):.4f} (quartiles {values[quarter]:.4f}, {values[-1 - quarter]:.4f})" if values else "nothing"
