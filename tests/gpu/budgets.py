# SPDX-License-Identifier: Apache-2.0
"""A budget on the hardware: what it costs, and whether the totals that it estimates are those of a full
capture."""
import json

from figures import iteration, median, told
from machine import MEMORY
from table import row

BYTES = "dram__bytes_read.sum"
TRY = {"GPUCTR_EXPERIMENTAL": "budget"}


def lines(path):
    return [json.loads(line) for line in open(path)] if path.exists() else []


def slowdown(m, argv, percent, pairs):
    ratios = []
    for _ in range(pairs):
        plain = iteration(m.run(argv, denied=False).stdout)
        chosen = iteration(m.client("run", "--budget", percent, "--metrics", MEMORY, "--no-summary", "--", *argv, env=TRY).stdout)
        ratios.append(chosen / plain)
    ratios.sort()
    return median(ratios), ratios[len(ratios) // 4], ratios[len(ratios) * 3 // 4]


def totals(m, argv):
    """Bytes by kernel: of a full capture, and as a budget estimates them, with the told error."""
    r, kernels, whole = m.capture("whole.jsonl", "--metrics", MEMORY, "--", *argv)
    full = {}
    for k in kernels:
        full[k["kernel"]] = full.get(k["kernel"], 0) + k["metrics"][BYTES]
    path = m.work / "chosen.jsonl"
    r = m.client("run", "--format", "jsonl", "--output", path, "-f", "--budget", "5%", "--metrics", MEMORY, "--", *argv, env=TRY)
    estimates = {d["kernel"]: d for d in lines(path) if d["type"] == "estimate" and d["metric"] == BYTES}
    spent = [line for line in r.stderr.splitlines() if "budget" in line.lower() or "spent" in line.lower()]
    return full, estimates, r, spent, next((d for d in lines(path) if d["type"] == "totals"), {}), whole


def budget(m):
    argv = ["python3", m.stage / "net.py", "--iterations", 600]
    for percent, pairs in (("2%", 4), ("100%", 1)):
        mid, low, high = slowdown(m, argv, percent, pairs)
        if percent == "100%":
            row("ResNet-18 iteration, everything measured / plain", f"{mid:.2f}")
            continue
        row(f"ResNet-18 iteration, --budget {percent} / plain", f"{mid:.4f} (quartiles {low:.4f} to {high:.4f}), {pairs} pairs",
            f"1 + {percent} + 0.5 %, or within the quartiles", mid <= 1 + float(percent[:-1]) / 100 + 0.005 or low <= 1 + float(percent[:-1]) / 100)
    full, estimates, r, spent, chosen, whole = totals(m, argv)
    for line in spent[:4]:
        print("   ", line[:300])
    row("launches counted with a budget, and in full", f"{told(chosen)}, {told(whole)}", "seen alike", abs(chosen.get("seen", 0) - whole.get("seen", 1)) <= 10)
    everything = sum(full.values())
    print("    one of them:", json.dumps(next(iter(estimates.values()), {}))[:400])
    large = [k for k, v in full.items() if v >= 0.01 * everything]
    common = [k for k in large if k in estimates and estimates[k]["value"]]
    off = {k: estimates[k]["value"] / full[k] - 1 for k in common}
    within = sum(abs(estimates[k]["value"] - full[k]) <= 3 * (estimates[k]["standard_error"] or 0) for k in common)
    row("bytes of kernels with 1 % of the total", f"{len(common)} of {len(large)} kernels, worst {max(off.values(), key=abs, default=9):+.2%}, "
        f"{within} within 3 told errors", "1 %, 95 %", len(common) == len(large) and max(map(abs, off.values()), default=9) <= 0.01)
