# SPDX-License-Identifier: Apache-2.0
"""A budget on the hardware: what it costs a program that runs, and whether the totals that it estimates are
those of a full capture, and of the program as it runs unmeasured."""
import json
import time

from figures import median, told
from machine import MEMORY
from standby import standing, told_by
from table import row
from values import ncu_table

BYTES = "dram__bytes_read.sum", "dram__bytes_write.sum"
TRY = {"GPUCTR_EXPERIMENTAL": "budget"}
WINDOW_S = 6


def lines(path):
    return [json.loads(line) for line in open(path)] if path.exists() else []


def slowdown(m, budgets, rounds):
    """One training: windows in which it is captured with each budget, and one before each in which it is not.
    A capture's first second is not promised anything, so it is left out."""
    p = standing(m, "python3", m.stage / "standing.py", "--seconds", 2 * WINDOW_S * rounds * (len(budgets) + 0.5))
    p.wait_for("standing ready", 60)
    time.sleep(2)
    windows = []
    for _ in range(rounds):
        for b in budgets:
            begin = time.time()
            time.sleep(WINDOW_S - 1)
            plain = begin, time.time()
            r = m.client("capture", "--pid", p.pid, *b, "--metrics", MEMORY, "--duration", WINDOW_S, "--no-summary", env=TRY)
            windows.append((b, plain, (plain[1] + 1.5, time.time() - 0.5), [line for line in r.stderr.splitlines() if "budget" in line or "seen" in line]))
    p.wait(120)
    steps = told_by(p).get("steps", [])

    def step(window):
        return median([ms for at, ms in steps if window[0] <= at <= window[1]])

    for b in budgets:
        ratios = sorted(step(on) / step(off) for what, off, on, _ in windows if what == b)
        for line in next(text for what, _, _, text in windows if what == b)[:5]:
            print("   ", line[:400])
        percent = float(b[1][:-1]) if b[0] == "--budget" else 0
        row(f"ResNet-18 step, {' '.join(b)} / not captured", f"{median(ratios):.4f} ({ratios[0]:.4f} to {ratios[-1]:.4f}), {len(ratios)} pairs of windows",
            f"1 + {percent} % + 0.5 %", median(ratios) <= 1.005 + percent / 100)


def totals(m, argv):
    """Bytes by kernel of a full capture, and as a budget estimates them with the told error: {(kernel, metric): }."""
    r, kernels, whole = m.capture("whole.jsonl", "--metrics", MEMORY, "--profile-from-start", "off", "--", *argv)
    full = {}
    for k in kernels:
        for b in BYTES:
            full[k["kernel"], b] = full.get((k["kernel"], b), 0) + k["metrics"][b]
    path = m.work / "chosen.jsonl"
    r = m.client("run", "--format", "jsonl", "--output", path, "-f", "--budget", "5%", "--metrics", MEMORY, "--profile-from-start", "off", "--",
                 *argv, env=TRY)
    print("\n".join("    " + line[:400] for line in r.stderr.splitlines() if "budget" in line.lower() or "spent" in line.lower()))
    estimates = {(d["kernel"], d["metric"]): d for d in lines(path) if d["type"] == "estimate" and d["metric"] in BYTES}
    return full, estimates, next((d for d in lines(path) if d["type"] == "totals"), {}), whole


def compare(metric, full, estimates):
    full, estimates = ({k: v for (k, b), v in d.items() if b == metric} for d in (full, estimates))
    large = [k for k, v in full.items() if v >= 0.01 * sum(full.values())]
    common = [k for k in large if k in estimates and estimates[k]["value"]]
    off = {k: estimates[k]["value"] / full[k] - 1 for k in common}
    within = sum(abs(estimates[k]["value"] - full[k]) <= 3 * (estimates[k]["standard_error"] or 0) for k in common)
    for k in common:
        e = estimates[k]
        print(f"    {k[:60]:60} full {full[k]:.4g} estimated {e['value']:.4g} +- {e['standard_error'] or 0:.2g} {e['kind']}, measured {e['measured']} of {e['launches']}, {e['without_error']} without error, {e['unknown']} unknown")
    row(f"{metric} of kernels with 1 % of the total", f"{len(common)} of {len(large)} kernels, worst {max(off.values(), key=abs, default=9):+.2%}, "
        f"{within} within 3 told errors", "1 %, 95 %", len(common) == len(large) and max(map(abs, off.values()), default=9) <= 0.01)
    return sum(full.values()), sum(e["value"] or 0 for e in estimates.values())


def whole_program(m, argv, sums):
    """The same iterations as one range of Nsight Compute's: nothing stands between their kernels."""
    theirs = ncu_table(m, BYTES, "--replay-mode", "app-range", *argv)
    for b, (full, estimated) in sums.items():
        truth = sum(theirs[b])
        row(f"{b} of all iterations", f"ncu, as one range {truth:.5g}; every kernel by itself {full / truth - 1 if truth else 9:+.2%}, "
            f"estimated with 5 % {estimated / truth - 1 if truth else 9:+.2%}", "told")


def budget(m):
    slowdown(m, (("--kernel", "nothing"), ("--budget", "2%"), ("--budget", "5%")), 2)
    argv = ["python3", m.stage / "net.py", "--iterations", 1500, "--profile"]
    full, estimates, chosen, whole = totals(m, argv)
    row("launches counted with a budget, and in full", f"{told(chosen)}, {told(whole)}", "seen alike", abs(chosen.get("seen", 0) - whole.get("seen", 1)) <= 10)
    print("    one of them:", json.dumps(next(iter(estimates.values()), {}))[:600])
    whole_program(m, argv, {b: compare(b, full, estimates) for b in BYTES})
