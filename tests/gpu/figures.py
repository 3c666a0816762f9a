# SPDX-License-Identifier: Apache-2.0
"""Figures out of what the programs print."""
import re
import statistics


def median(values):
    return statistics.median(values) if values else float("nan")


def spread(values, digits=2):
    """The median, and what it lies between."""
    return f"{median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})" if values else "nothing"


def repeats(text, what=1):
    """us/kernel (what=1) or us-cpu/kernel (what=2) of each repeat of gpu-workload."""
    return [float(m.group(what)) for m in re.finditer(r"^repeat .* ([\d.]+) us/kernel ([\d.]+) us-cpu", text, re.M)]


def steady(text, what=1):
    values = repeats(text, what)
    return median(values[len(values) * 2 // 3:])


def iteration(text):
    return number(text, r"iteration ([\d.]+) ms median")


def memory_mib(text, key):
    return number(text, key + r":\s+(\d+) kB") / 1024


def number(text, pattern, default=float("nan")):
    m = re.search(pattern, text)
    return float(m.group(1)) if m else default


def hexadecimal(text, name):
    m = re.search(name + r" (0x[0-9a-f]+)", text)
    return m.group(1) if m else "0x0"


def told(totals):
    """The totals of a capture without those that are 0."""
    return {k: v for k, v in totals.items() if isinstance(v, int) and v}
