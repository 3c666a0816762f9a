# SPDX-License-Identifier: Apache-2.0
"""Error against budget and time: captures of one training each, of more and more seconds, beside one in which every
kernel is measured. tests/gpu/plot draws what is written to curves.csv."""
import csv
import math
import re

from budgets import BYTES, lines
from machine import MEMORY
from standby import on_demand, standing
from table import row

SECONDS = 5, 10, 20, 40
COLUMNS = ("program", "metric", "budget_percent", "seconds", "spent_percent", "launches", "measured", "kernels", "kernels_with_value",
           "rms_error", "rms_told", "within_3", "total_error", "total_told")
# What is trained, at what batch, what is captured of it, and at which budgets.
PROGRAMS = {
    "transformer": ("transformer", 8, MEMORY, (1, 2, 5), BYTES),
    "resnet18, groups in turns": ("resnet18", 512, "memory,lts__t_sectors.sum,sm__inst_executed.sum,kineto__cuda_core_flops", (5,),
                                  (*BYTES, "lts__t_sectors.sum", "sm__inst_executed.sum")),
}


def passes(m, metrics):
    """The sets that CUPTI measures in one pass each."""
    sets = [line.split()[1] for line in m.client("plan", metrics).stdout.splitlines() if line.strip().startswith("--metrics ")]
    return sets or [metrics]


def true_means(m, p, metrics):
    """{metric: {kernel: (mean a launch, launches)}} of a few seconds in which every kernel is measured."""
    sums = {}
    for one in passes(m, metrics):
        for k in on_demand(m, "whole.jsonl", p.pid, "--metrics", one, "--duration", 5)[1]:
            for metric, value in k["metrics"].items():
                total, n = sums.setdefault(metric, {}).get(k["kernel"], (0, 0))
                sums[metric][k["kernel"]] = total + (value or 0), n + 1
    return {metric: {k: (total / n, n) for k, (total, n) in by.items()} for metric, by in sums.items()}


def relative(found, truth):
    """How far an estimate is from the truth, and is told to be, in parts of the truth; None where nothing is told. A sum
    is of those launches of which something is known."""
    whole = truth[0] * (1 if found["of"] == "mean" else found["launches"] - found["unknown"])
    told = None if found["kind"] == "once" or found["standard_error"] is None else found["standard_error"] / whole
    return found["value"] / whole - 1, told


def rms(values):
    return math.sqrt(sum(v * v for v in values) / len(values)) if values else None


def point(truths, found):
    """Of kernels with 1 % of the metric, and of these all together."""
    total = sum(mean * n for mean, n in truths.values())
    large = {k: t for k, t in truths.items() if t[0] * t[1] >= 0.01 * total > 0}
    off = {k: relative(found[k], t) for k, t in large.items() if k in found and found[k]["value"] and found[k]["launches"]}
    share = {k: large[k][0] * large[k][1] / total for k in off}
    sure = [(e, told) for e, told in off.values() if told is not None]
    return {"kernels": len(large), "kernels_with_value": len(off), "rms_error": rms([e for e, _ in off.values()]),
            "rms_told": rms([told for _, told in sure]), "within_3": sum(abs(e) <= 3 * told for e, told in sure),
            "total_error": sum(e * share[k] for k, (e, _) in off.items()),
            "total_told": math.hypot(*[(told or 0) * share[k] for k, (_, told) in off.items()])}


def capture(m, p, metrics, budget, seconds):
    """Its estimates, {(kernel, metric): }, launches and measured ones, and the percentage that it says it spent."""
    path = m.work / "curve.jsonl"
    r = m.client("capture", "--pid", p.pid, "--format", "jsonl", "--output", path, "-f", "-v", "--budget", f"{budget}%", "--metrics", metrics,
                 "--duration", seconds, timeout=seconds + 60)
    told = lines(path)
    totals = next((d for d in told if d["type"] == "totals"), {})
    spent = re.search(r"spent ([\d.]+) %", r.stderr)
    return {(d["kernel"], d["metric"]): d for d in told if d["type"] == "estimate"}, totals, spent and spent[1]


def curve(m, what, out):
    model, batch, metrics, budgets, wanted = PROGRAMS[what]
    lasts = len(budgets) * (sum(SECONDS) + 4) + 8 * len(passes(m, metrics))
    p = standing(m, "python3", m.stage / "standing.py", "--model", model, "--batch", batch, "--seconds", lasts)
    p.wait_for("standing ready", 60)
    truth = true_means(m, p, metrics)
    for budget in budgets:
        for seconds in SECONDS:
            found, totals, spent = capture(m, p, metrics, budget, seconds)
            for metric in wanted:
                at = point(truth.get(metric, {}), {k: d for (k, of), d in found.items() if of == metric})
                at |= {"program": what, "metric": metric, "budget_percent": budget, "seconds": seconds, "spent_percent": spent,
                       "launches": totals.get("seen"), "measured": totals.get("measured")}
                out.writerow(at)
                figure = ", ".join(f"{name} {at[name]:.4g}" if isinstance(at[name], float) else f"{name} {at[name]}" for name in COLUMNS[4:])
                row(f"{what}: {metric}, {budget} % of {seconds} s", figure, "told")
    p.end()


def curves(m):
    with open(m.out / "curves.csv", "w", newline="", buffering=1) as f:
        out = csv.DictWriter(f, COLUMNS)
        out.writeheader()
        for what in PROGRAMS:
            curve(m, what, out)
