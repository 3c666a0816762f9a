# SPDX-License-Identifier: Apache-2.0
"""A budget for programs that give the GPU work from several threads, or in several streams, at one time."""
import json
import re

from budgets import slowdown
from figures import median, told
from machine import MEMORY
from table import row

SECONDS, SETTLED_S = 6, 1.5
# Threads, streams of each, kernels of a step, and how long one runs (us).
SERVERS = (4, 1, 50, 100), (1, 4, 100, 100), (8, 1, 8, 20)


def pace(text):
    """Steps a second, but for the first Start; 0: it stood."""
    at = [(int(ns), int(steps)) for ns, steps in re.findall(r"^at (\d+) steps (\d+)", text, re.M)]
    at = [(ns, steps) for ns, steps in at if ns > at[0][0] + SETTLED_S * 1e9]
    return (at[-1][1] - at[0][1]) * 1e9 / (at[-1][0] - at[0][0]) if len(at) > 1 else 0


def against_alone(m, server, budget, pairs):
    path, ratios, percent = m.work / "server.jsonl", [], float(budget[:-1])
    for _ in range(pairs):
        alone = pace(m.run([m.serves, *server, SECONDS], denied=False).stdout)
        r = m.client("run", "--format", "jsonl", "--output", path, "-f", "-v", "--budget", budget, "--metrics", MEMORY, "--", m.serves, *server, SECONDS,
                     timeout=30)
        with_budget = pace(r.stdout)
        ratios.append(alone / with_budget if with_budget else float("inf"))
    print("\n".join("    " + line[:700] for line in r.stderr.splitlines() if "spent" in line or "cannot be kept" in line))
    totals = next((d for d in map(json.loads, open(path)) if d["type"] == "totals"), {"unready": 0, "measured": 0})
    threads, streams, kernels, us = server
    row(f"{threads} threads, {streams} streams each, {kernels} kernels of {us} us a step: {alone:.0f} steps a second; --budget {budget}",
        f"{median(ratios):.4f} times as long ({min(ratios):.4f} to {max(ratios):.4f}, {pairs} pairs), exit {r.returncode}, {told(totals)}", f"1 + {percent} % + 0.5 %",
        r.returncode == 0 and median(ratios) <= 1.005 + percent / 100)
    row("ranges that other threads' launches spoilt", f"{totals['unready']} beside {totals['measured']} measured", "a tenth",
        totals["unready"] * 10 <= totals["measured"] > 0)


def servers(m):
    for server in SERVERS:
        against_alone(m, server, "5%", 2)
    r = m.client("run", "--metrics", MEMORY, "--no-summary", "--", m.serves, 4, 3, 12, 50, 4, "renew", timeout=30)
    row("threads that make and end streams, every kernel measured", f"exit {r.returncode}, {(r.stdout.splitlines() or [''])[-1]}",
        "0, done", r.returncode == 0 and "fakeserve done" in r.stdout)


def beside(m):
    """A training with a second stream that is at work most of the time."""
    slowdown(m, "transformer", ("2%", "5%"), 6, more=["--beside"])
