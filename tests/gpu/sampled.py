# SPDX-License-Identifier: Apache-2.0
"""Every kernel of a training by samples of the whole GPU, against the same kernels measured one by one, and what it
costs the program."""
import re
import shutil
import sqlite3
import time

from budgets import CLIENT_S, PROGRAMS, SETTLES_S, WINDOW_S, pace, quartiles
from figures import median, told
from standby import standing, told_by
from table import row

METRICS = "dram__bytes_read.sum", "dram__bytes_write.sum"
LIST = ",".join(METRICS)
# From so many us on: what the median and the 90th percentile of relative errors may be, as issue 27 has it.
CLASSES = ((100, 0.005, 0.015), (30, 0.007, 0.02), (10, 0.03, 0.10), (0, 0.05, None))
SECONDS = 5


def steps_of(kernels):
    """The kernels of each iteration, in the order of their begin. The backward pass is launched by a thread without
    ranges, so an iteration begins with its first kernel that is in its range."""
    kernels = sorted((k for k in kernels if k["duration_ns"] is not None), key=lambda k: k["start_ns"])
    steps, seen = [], set()
    for k in kernels:
        name = next((r["message"] for r in k["nvtx"] if re.fullmatch(r"iteration \d+", r["message"])), None)
        if name and name not in seen:
            seen.add(name)
            steps.append([])
        if steps:
            steps[-1].append(k)
    return steps[1:-1]


def alike(steps):
    """Those of the most frequent sequence of kernels."""
    sequences = {}
    for s in steps:
        sequences.setdefault(tuple(k["mangled"] for k in s), []).append(s)
    return max(sequences.values(), key=len, default=[])


def mean(values):
    values = [v for v in values if v is not None]
    return sum(values) / len(values) if values else None


def positions(steps, metric):
    """Of each kernel of the step: its name, us, value and error."""
    return [(at[0]["mangled"], mean([k["duration_ns"] for k in at]) / 1e3, mean([k["metrics"][metric] for k in at]),
             mean([k.get("errors", {}).get(metric) for k in at])) for at in zip(*steps)]


def quantile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * part))] if values else float("nan")


def compare(model, metric, truth, found):
    total, kept = sum(t[2] for t in truth), [(t, f) for t, f in zip(truth, found) if t[2] >= 0.001 * sum(t[2] for t in truth)]
    known = [(t, f) for t, f in kept if f[2] is not None]
    for i, (least, most_median, most_ninth) in enumerate(CLASSES):
        most = CLASSES[i - 1][0] if i else float("inf")
        off = [abs(f[2] / t[2] - 1) for t, f in known if least <= f[1] < most]
        missing = sum(least <= f[1] < most and f[2] is None for _, f in kept)
        if off:
            row(f"{model}, {metric}, kernels of {least} us and more" + (f", under {most}" if i else ""),
                f"median {median(off):.2%}, 90th percentile {quantile(off, 0.9):.2%} of {len(off)}; {missing} without a value",
                f"{most_median:.1%}" + (f", {most_ninth:.1%}" if most_ninth else ""),
                median(off) <= most_median and (most_ninth is None or quantile(off, 0.9) <= most_ninth))
    within = sum(abs(f[2] - t[2]) <= 3 * f[3] for t, f in known)
    row(f"{model}, {metric}: within three told errors", f"{within} of {len(known)}", "99 %", within >= 0.99 * len(known))
    both = [(t, f) for t, f in zip(truth, found) if f[2] is not None]
    off = sum(f[2] for _, f in both) / sum(t[2] for t, _ in both) - 1 if both else float("nan")
    row(f"{model}, {metric}: total of those that have a value", f"{off:+.2%}; they have {sum(t[2] for t, _ in both) / total:.2%} of it; "
        f"{len(truth) - len(both)} of {len(truth)} positions without a value", "0.3 %", abs(off) <= 0.003)


def lines_of(text):
    return [line for line in text.splitlines() if "SAMPLED" in line or "have no value" in line or "seen in" in line]


def values(m, model):
    """Ranges of some iterations, and samples of five seconds of them."""
    batch, _ = PROGRAMS[model]
    net = ["python3", m.stage / "net.py", "--model", model, "--batch", batch, "--profile", "--iterations"]
    chosen = ["--metrics", LIST, "--profile-from-start", "off"]
    _, exact, totals = m.capture("exact.jsonl", *chosen, "--", *net, 12)
    exact = alike(steps_of(exact))
    ms = median([(s[-1]["start_ns"] - s[0]["start_ns"]) / 1e6 for s in exact]) if exact else 100
    r, sampled, totals = m.capture("sampled.jsonl", "--mode", "sample", *chosen, "--", *net, max(10, int(SECONDS * 1e3 / ms)))
    print("\n".join("    " + line for line in lines_of(r.stderr)))
    sampled = alike(steps_of(sampled))
    row(f"{model}: steps compared", f"{len(exact)} in ranges, {len(sampled)} sampled, of {len(exact[0]) if exact else 0} and {len(sampled[0]) if sampled else 0} kernels; {told(totals)}",
        "the same kernels", bool(exact and sampled) and [k["mangled"] for k in exact[0]] == [k["mangled"] for k in sampled[0]])
    if exact and sampled and len(exact[0]) == len(sampled[0]):
        for metric in METRICS:
            compare(model, metric, positions(exact, metric), positions(sampled, metric))


def slowdown(m, model, rounds, bound):
    """Windows in which a training is sampled and in which it is not, in turn: as budgets.slowdown()."""
    batch, _ = PROGRAMS[model]
    seconds = (2 * WINDOW_S + SETTLES_S + 4 * CLIENT_S + 3) * rounds + 10
    p = standing(m, "python3", m.stage / "standing.py", "--model", model, "--batch", batch, "--seconds", seconds)
    p.wait_for("standing ready", 60)
    time.sleep(2)
    plain, sampled, answers, text = [], [], [], ""
    for _ in range(rounds + 1):
        time.sleep(CLIENT_S)
        begin = time.time()
        time.sleep(WINDOW_S)
        plain.append((begin, time.time()))
        if len(plain) <= rounds:
            begin = time.time()
            r, kernels, _ = m.capture("paced.jsonl", "--pid", p.pid, "--mode", "sample", "--metrics", LIST, "--duration", WINDOW_S + SETTLES_S,
                                      verb="capture")
            text = r.stderr
            sampled.append((min(k["start_ns"] for k in kernels) / 1e9 + SETTLES_S, max(k["start_ns"] for k in kernels) / 1e9))
            answers.append(r.ended - begin)
    p.wait(120)
    steps = told_by(p).get("steps", [])
    off = [pace(steps, w) for w in plain]
    ratios = [pace(steps, on) * 2 / (off[i] + off[i + 1]) for i, on in enumerate(sampled)]
    print("\n".join("    " + line for line in lines_of(text)))
    print("    " + " ".join(f"{ratio:.4f}" for ratio in ratios))
    row(f"{model} step ({median(off):.1f} ms), sampled / not", f"{quartiles(ratios)} of {len(ratios)} pairs of windows", bound, median(ratios) <= bound)
    row(f"{model}: a capture of {WINDOW_S + SETTLES_S:.1f} s, from command to table", f"{median(answers):.1f} s", "told")


def pid(m):
    """Five seconds of a program that runs: which kernels have a value, and when the answer is there."""
    batch, _ = PROGRAMS["transformer"]
    p = standing(m, "python3", m.stage / "standing.py", "--model", "transformer", "--batch", batch, "--seconds", 12)
    p.wait_for("standing ready", 60)
    time.sleep(2)
    begin = time.time()
    r, kernels, totals = m.capture("pid.jsonl", "--pid", p.pid, "--mode", "sample", "--metrics", LIST, "--duration", SECONDS, verb="capture")
    p.wait(60)
    print("\n".join("    " + line for line in lines_of(r.stderr)))
    last = max((k["start_ns"] for k in kernels), default=0) / 1e9
    sums = {}
    for k in kernels:
        known, lacking = sums.setdefault(k["kernel"], [0, 0])
        value = k["metrics"][METRICS[0]]
        sums[k["kernel"]] = [known + (value or 0), lacking + (value is None)]
    total = sum(known for known, _ in sums.values())
    large = [s for s in sums.values() if s[0] >= 0.01 * total]
    row(f"transformer, {SECONDS} s of capture --pid", f"{len(kernels)} kernels, {told(totals)}; {len(large)} names have 1 % of the bytes; {r.ended - begin:.1f} s in all, "
        f"{r.ended - last:.1f} s after the last kernel", "a value each; 1.5 s after the end", r.returncode == 0 and bool(large) and r.ended - last <= 1.5)


def sampled(m):
    for model in ("transformer", "gpt"):
        values(m, model)
    pid(m)
    slowdown(m, "transformer", 6, 1.02)
    slowdown(m, "resnet18", 6, 1.05)


def record(m):
    """Half a second of a training that runs, in files that keep its samples: client/replay/transformer-h200.gpuctr, and the
    same with a metric of the SMs. Small pages, because a capture has many small tables."""
    batch, _ = PROGRAMS["transformer"]
    p = standing(m, "python3", m.stage / "standing.py", "--model", "transformer", "--batch", batch, "--seconds", 30)
    p.wait_for("standing ready", 60)
    time.sleep(2)
    for name, metrics, interval in (("transformer-h200", LIST, "10us"), ("transformer-sm-h200", LIST + ",sm__inst_executed.sum", "50us")):
        path = m.work / f"{name}.gpuctr"
        r = m.client("capture", "--pid", p.pid, "--mode", "sample", "-o", path, "-f", "--metrics", metrics, "--interval", interval,
                     "--duration", 0.5, "--summary-rows", 4)
        print("\n".join("    " + line for line in lines_of(r.stderr)))
        if r.returncode == 0:
            db = sqlite3.connect(path)
            db.execute("PRAGMA page_size = 1024")
            db.execute("VACUUM")
            db.close()
            shutil.copy(path, m.out)
        row(f"{name}: half a second in samples of {interval}", f"{path.stat().st_size / 1e6 if path.exists() else 0:.2f} MB, exit {r.returncode}",
            "1.5 MB, exit 0", r.returncode == 0 and path.stat().st_size <= 1.5e6)
    p.wait(60)
