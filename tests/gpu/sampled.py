# SPDX-License-Identifier: Apache-2.0
"""Every kernel of a training by samples of the whole GPU, against the same kernels measured one by one, and what it
costs the program."""
import os
import re
import shutil
import signal
import sqlite3
import statistics
import subprocess
import time

import samples
from figures import median, told
from machine import COPY_BYTES, Clocks, children, memory_used_mib
from standby import standing, told_by
from table import row
from trainings import BATCH, CLIENT_S, SETTLES_S, WINDOW_S, pace, quartiles

METRICS = "dram__bytes_read.sum", "dram__bytes_write.sum"
LIST = ",".join(METRICS)
# From so many us on: what the median and the 90th percentile of relative errors may be.
CLASSES = ((100, 0.005, 0.015), (30, 0.007, 0.02), (10, 0.03, 0.10), (0, 0.05, None))
SECONDS = 5
# Of windows that are sampled and not: GPUCTR_GPU_PAIRS makes a shorter run of less certainty, and the row says how many.
ROUNDS = int(os.environ.get("GPUCTR_GPU_PAIRS", 30))
# Of several passes: sums of SMs come each 0.5 ms or so, in a third of the time.
SETS = *METRICS, "lts__t_sectors.sum", "sm__inst_executed.sum", "sm__pipe_tensor_cycles_active.sum", "l1tex__t_bytes.sum"
SM_CLASSES = ((100, 0.03, 0.10), (30, 0.05, 0.15), (10, 0.15, None), (0, 0.5, None))


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


def compare(model, metric, truth, found, classes=CLASSES, total_bound=0.003):
    total, kept = sum(t[2] for t in truth), [(t, f) for t, f in zip(truth, found) if t[2] >= 0.001 * sum(t[2] for t in truth)]
    known = [(t, f) for t, f in kept if f[2] is not None]
    for i, (least, most_median, most_ninth) in enumerate(classes):
        most = classes[i - 1][0] if i else float("inf")
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
        f"{len(truth) - len(both)} of {len(truth)} positions without a value", f"{total_bound:.1%}", abs(off) <= total_bound)


def lines_of(text):
    return [line for line in text.splitlines() if re.search("SAMPLED|have no value|lack a value|seen in|warning|error", line)]


class Captures:
    """What many captures of one program say of their kernels' times."""

    def __init__(self):
        self.lacking = []

    def note(self, text):
        """Of one capture: its messages."""
        lacking = re.search(r"without a time ([\d,]+)", text)
        self.lacking.append(int(lacking[1].replace(",", "")) if lacking else 0)
        for line in text.splitlines():
            if "correlation id" in line:
                print(f"    capture {len(self.lacking)}: {line}; {self.lacking[-1]:,} kernels without a time")

    def tell(self):
        row(f"  kernels without a time in {len(self.lacking)} captures", f"{sum(self.lacking):,}", "0", sum(self.lacking) == 0)


def values(m, model):
    """Ranges of some iterations, and samples of five seconds of them."""
    batch = BATCH[model]
    net = ["python3", m.stage / "net.py", "--model", model, "--batch", batch, "--profile", "--iterations"]
    chosen = ["--metrics", LIST, "--within", "cudaProfilerApi"]
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


def sets(m, model="transformer"):
    """Metrics of several passes, sampled in turns, each against ranges of its own."""
    batch = BATCH[model]
    net = ["python3", m.stage / "net.py", "--model", model, "--batch", batch, "--profile", "--iterations"]
    chosen = ["--within", "cudaProfilerApi"]
    exact = {}
    for metric in SETS:
        _, kernels, _ = m.capture("exact.jsonl", *chosen, "--metrics", metric, "--", *net, 12)
        exact[metric] = alike(steps_of(kernels))
    first = exact[SETS[0]]
    ms = median([(s[-1]["start_ns"] - s[0]["start_ns"]) / 1e6 for s in first]) if first else 100
    r, kernels, totals = m.capture("sets.jsonl", "--mode", "sample", *chosen, "--metrics", ",".join(SETS), "--", *net,
                                   max(30, int(3 * SECONDS * 1e3 / ms)))
    found = alike(steps_of(kernels))
    print("\n".join("    " + line for line in lines_of(r.stderr)))
    row(f"{model}: {len(SETS)} metrics in turns", f"exit {r.returncode}, {len(found)} steps of {len(found[0]) if found else 0} kernels; {told(totals)}",
        "exit 0", r.returncode == 0 and bool(found))
    for metric in SETS:
        truth = exact[metric]
        if truth and found and len(truth[0]) == len(found[0]):
            sm = metric.startswith(("sm__", "l1tex__"))
            compare(model, metric, positions(truth, metric), positions(found, metric), SM_CLASSES if sm else CLASSES, 0.02 if sm else 0.003)


def turns(m):
    """What a change of sets takes."""
    p = m.start_client("permit", "--", m.stage / "gpuctr-sampler", "--metrics", ",".join(SETS), "--turns", "200ms", "--duration", 5)
    m.run([m.workload, "--kind", "copy", "--kernels", 2000, "--repeat", 8], timeout=120)
    p.wait(60)
    s = samples.read(p.files[0])
    changes = [change / 1e6 for _, change in s.turns]
    row("turns of sets", f"exit {p.p.returncode}, {len(changes)} changes, median {median(changes) if changes else 0:.1f} ms, most {max(changes, default=0):.1f} ms; "
        f"intervals {[i // 1000 for i in s.intervals_ns]} us; lost {s.lost}, overflows {s.overflows} {s.message}", "exit 0", p.p.returncode == 0)


def slowdown(m, model, rounds, bound):
    """Windows in which a training is sampled and in which it is not, in turn. A pair is a sampled window and the mean of those
    beside it. A capture's first second is left out."""
    batch = BATCH[model]
    seconds = (2 * WINDOW_S + SETTLES_S + 4 * CLIENT_S + 4) * rounds + 10
    p = standing(m, "python3", m.stage / "standing.py", "--model", model, "--batch", batch, "--seconds", seconds)
    p.wait_for("standing ready", 60)
    time.sleep(2)
    plain, sampled, answers, captures, clocks = [], [], [], Captures(), Clocks()
    for _ in range(rounds + 1):
        time.sleep(CLIENT_S)
        begin = time.time()
        time.sleep(WINDOW_S)
        plain.append((begin, time.time()))
        if len(plain) <= rounds:
            begin = time.time()
            r, kernels, _ = m.capture("paced.jsonl", "--pid", p.pid, "--mode", "sample", "--metrics", LIST, "--duration", WINDOW_S + SETTLES_S,
                                      verb="capture")
            captures.note(r.stderr)
            sampled.append((min(k["start_ns"] for k in kernels) / 1e9 + SETTLES_S, max(k["start_ns"] for k in kernels) / 1e9))
            answers.append(r.ended - begin)
    os.kill(p.pid, signal.SIGUSR1)
    p.wait(60)
    clocks.end()
    steps = told_by(p).get("steps", [])
    off = [pace(steps, w) for w in plain]
    ratios = [pace(steps, on) * 2 / (off[i] + off[i + 1]) for i, on in enumerate(sampled)]
    print("\n".join("    " + line for line in lines_of(r.stderr)))
    print("    " + " ".join(f"{ratio:.4f}" for ratio in ratios))
    row(f"{model} step ({median(off):.1f} ms), sampled / not", f"{quartiles(ratios)} of {len(ratios)} pairs of windows", bound, median(ratios) <= bound)
    row("  SM clock and power, not sampled; sampled", f"{clocks.during(plain)}; {clocks.during(sampled)}", "told")
    row(f"{model}: a capture of {WINDOW_S + SETTLES_S:.1f} s, from command to table", f"{median(answers):.1f} s", "told")
    captures.tell()


def pid(m):
    """Five seconds of a program that runs: which kernels have a value, and when the answer is there."""
    batch = BATCH["transformer"]
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


def together(m):
    """Three processes on one GPU, which give way to each other in slices of time: what each copies, of what it says."""
    copies = f"{m.workload} --kind copy --kernels 1000 --repeat 1 >/dev/null"
    r, kernels, totals = m.capture("together.jsonl", "--mode", "sample", "--metrics", LIST, "--", "sh", "-c", f"{copies} & {copies} & {copies} & wait")
    print("\n".join("    " + line for line in lines_of(r.stderr)))
    found = {}
    for k in kernels:
        if k["metrics"][METRICS[0]] is not None:
            found.setdefault(k["process"], []).append(k["metrics"][METRICS[0]] / COPY_BYTES)
    sums = {p: mean(v) for p, v in found.items()}
    known = sum(map(len, found.values()))
    row("three processes on one GPU, read by a copy of each", f"{', '.join(f'{v:.4f}' for v in sums.values())} of 256 MiB; {known} of {len(kernels)} have a value; {told(totals)}",
        "3, 2 %, all measured", len(sums) == 3 and all(abs(v - 1) <= 0.02 for v in sums.values()) and known >= 0.9 * len(kernels))


def sampled(m):
    together(m)
    for model in ("transformer", "gpt"):
        values(m, model)
    turns(m)
    sets(m)
    pid(m)
    slowdown(m, "transformer", 6, 1.02)


def pairs(m, model, batch, rounds, bound):
    """Windows of one program, sampled and not in turn, each against the two beside it. What CUPTI leaves behind and a
    program's own pace change less between neighbours: the same of windows that are not sampled says how much."""
    window_s, before_s, behind_s = 1.6, 1.2, 0.4
    seconds = rounds * (2 * window_s + before_s + 2 * behind_s + 3) + window_s + 8
    p = standing(m, "python3", m.stage / "standing.py", "--model", model, "--batch", batch, "--seconds", seconds, "--profile", "after")
    p.wait_for("standing ready", 60)
    time.sleep(2)
    plain, sampled, whole, captures = [], [], [], Captures()

    def uncaptured():
        time.sleep(behind_s)
        begin = time.time()
        time.sleep(window_s)
        plain.append((begin, time.time()))

    uncaptured()
    for _ in range(rounds):
        first = time.time()
        c = m.start_client("capture", "--pid", p.pid, "--mode", "sample", "--metrics", LIST, "--duration", before_s + window_s)
        time.sleep(before_s)
        begin = time.time()
        time.sleep(window_s)
        sampled.append((begin, time.time()))
        whole.append((first, time.time()))
        if c.wait(60) != 0:
            print("   ", c.err()[-300:])
        captures.note(c.out() + c.err())
        uncaptured()
    os.kill(p.pid, signal.SIGUSR1)
    code, d = p.wait(120), told_by(p)
    if not d:
        print(f"    the program: exit {code}: {p.out()[-300:]} {p.err()[-1500:]}")
    steps = d.get("steps", [])
    off = [pace(steps, w) for w in plain]

    def middles(triples):
        """Each second one by the mean of its neighbours."""
        ratios = [b * 2 / (a + c) for a, b, c in triples]
        return [r for r in ratios if r == r]

    on = [pace(steps, w) for w in sampled]
    ratios, inverse = middles(zip(off, on, off[1:])), middles(zip(on, off[1:], on[1:]))
    print("    " + " ".join(f"{r:.3f}" for r in ratios))
    # One over the mean of two is below 1 in most cases where a few windows are slow, whichever is sampled: so both ways.
    both = (median(ratios) / median(inverse)) ** 0.5 if ratios and inverse else float("nan")
    row(f"{model}, batch {batch} ({median(off) if off else 0:.2f} ms a step), sampled / not, and not / sampled",
        f"{quartiles(ratios)}, {quartiles(inverse)}: {both:.4f} of {len(ratios)} pairs of windows of {window_s} s", bound, both <= bound)
    row("  the same from the command on", quartiles(middles(zip(off, (pace(steps, w) for w in whole), off[1:]))), "told")
    row("  windows that are not sampled, against each other", quartiles(middles(zip(off, off[1:], off[2:]))), "told")
    row("  torch.profiler behind them", f"{d.get('after')} kernels in two steps, with {d.get('ids', {}).get('after')} correlation ids", "told")
    captures.tell()


def gpu_bound_pairs(m):
    slowdown(m, "transformer", ROUNDS, 1.02)
    pairs(m, "resnet18", 512, ROUNDS, 1.02)


def launch_bound_pairs(m):
    pairs(m, "resnet18", 64, ROUNDS, 1.12)
    pairs(m, "vit", 32, ROUNDS, 1.12)
    pairs(m, "generation", 8, ROUNDS, 1.12)


def several(m):
    """A sampler for each GPU: copies on two of them at once, and ranks of one training."""
    copies = "; ".join(f"CUDA_VISIBLE_DEVICES={i} {m.workload} --kind copy --kernels 1000 --repeat 1 >/dev/null & p{i}=$!" for i in range(2))
    r, kernels, totals = m.capture("several.jsonl", "--mode", "sample", "--metrics", LIST, "--", "sh", "-c", f"{copies}; wait $p0 && wait $p1")
    print("\n".join("    " + line for line in lines_of(r.stderr)))
    found = {}
    for k in kernels:
        found.setdefault(k["process"], []).append(k["metrics"][METRICS[0]])
    means = [mean(v) / COPY_BYTES if mean(v) else float("nan") for v in found.values()]
    row("copies on two GPUs at once, read by each, sampled", f"{', '.join(f'{v:.4f}' for v in means)} of 256 MiB; {told(totals)}; exit {r.returncode}",
        "2, 1 %, exit 0", len(means) == 2 and all(abs(v - 1) <= 0.01 for v in means) and r.returncode == 0)
    argv = ["python3", "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={m.gpus}", m.stage / "ddp.py", "--iterations", 300]
    losses = []
    for wrap in (lambda: m.run(argv, denied=False), lambda: m.client("run", "--mode", "sample", "--metrics", LIST, "--", *argv, timeout=200)):
        r = wrap()
        losses.append(sorted(set(re.findall(r"loss ([\d.]+)", r.stdout))))
    print("\n".join("    " + line for line in lines_of(r.stderr)))
    seen = re.search(r"([\d,]+) kernels seen in (\d+) process\w*: ([\d,]+) recorded", r.stderr)
    lacking = re.search(r"([\d,]+) of [\d,]+ kernels (?:have no|lack a) value", r.stderr)
    row(f"{m.gpus} ranks sampled", f"exit {r.returncode}, {seen[0] if seen else r.stderr[-300:]}; {lacking[0] if lacking else ''}; losses {losses}",
        "exit 0, plain losses", r.returncode == 0 and bool(seen) and losses[0] == losses[1])


def stopped(m):
    """A training that is stopped for three seconds in the middle of a capture."""
    p = standing(m, "python3", m.stage / "standing.py", "--model", "transformer", "--batch", 8, "--seconds", 14)
    p.wait_for("standing ready", 60)
    time.sleep(2)
    c = m.start_client("capture", "--pid", p.pid, "--mode", "sample", "--metrics", LIST, "--duration", 6)
    time.sleep(2)
    target = [p.pid, *children(p.pid)]
    for pid in target:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(3)
    for pid in target:
        os.kill(pid, signal.SIGCONT)
    code = c.wait(60)
    seen = re.search(r"([\d,]+) kernels seen in 1 process: ([\d,]+) recorded, 0 dropped", c.out() + c.err())
    lacking = re.search(r"([\d,]+) of ([\d,]+) kernels (?:have no|lack a) value[^\n]*", c.out() + c.err())
    ended = p.wait(60)
    row("a training stopped for 3 s while it is sampled", f"exit {code}, {seen[0] if seen else (c.out() + c.err())[-300:]}; {lacking[0] if lacking else ''}; program exit {ended}",
        "0, all measured, 0", code == 0 and bool(seen) and seen[1] == seen[2] and ended == 0)


def reset(m):
    """The context ends right behind the last kernels, before CUPTI has told of them."""
    r, kernels, totals = m.capture("reset.jsonl", "--mode", "sample", "--metrics", LIST, "--", m.workload, "--kind", "copy", "--kernels", 500,
                                   "--repeat", 1, "--release")
    print("\n".join("    " + line for line in lines_of(r.stderr)))
    known = [k["metrics"][METRICS[0]] for k in kernels if k["metrics"][METRICS[0]] is not None]
    row("a context reset behind its last kernel, read by a copy", f"exit {r.returncode}, {mean(known) / COPY_BYTES if known else 0:.4f} of 256 MiB, {len(known)} of {len(kernels)} have a value; {told(totals)}",
        "0, 1 %, all of 500", r.returncode == 0 and len(kernels) == 500 and len(known) >= 495 and abs(mean(known) / COPY_BYTES - 1) <= 0.01)


def again(m, captures=20):
    """One training captured again and again, while others look at the GPU: all kernels of each thread keep their times."""
    p = standing(m, "python3", m.stage / "standing.py", "--model", "transformer", "--batch", 8, "--seconds", captures * 11 + 10)
    p.wait_for("standing ready", 60)
    clocks, codes, seen, noted = Clocks(), [], [], Captures()
    for _ in range(captures):
        if not p.runs():
            break
        r = m.client("capture", "--pid", p.pid, "--mode", "sample", "--metrics", LIST, "--duration", 3.6)
        kernels = re.search(r"([\d,]+) kernels seen", r.stdout + r.stderr)
        codes.append(r.returncode)
        noted.note(r.stdout + r.stderr)
        seen.append(int(kernels[1].replace(",", "")) if kernels else 0)
        time.sleep(2.8)
    clocks.end()
    ended = None if p.runs() else p.p.poll()
    p.end()
    print("   ", *zip(seen, noted.lacking))
    row(f"{captures} captures of one training: kernels seen, at least and at most", f"{min(seen, default=0):,} and {max(seen, default=0):,}; exits {sorted(set(codes))}, program {ended}",
        "within 20 %", codes == [0] * captures and min(seen) >= 0.8 * max(seen) and ended is None)
    noted.tell()


def hundred(m):
    """What captures leave behind: in the daemon, in the program, on the GPU."""
    p = standing(m, "python3", m.stage / "standing.py", "--model", "transformer", "--batch", 8, "--seconds", 400)
    p.wait_for("standing ready", 60)
    time.sleep(1)
    front = m.workers()["front"]["pid"]

    def left():
        return len(os.listdir(f"/proc/{front}/fd")), len(os.listdir(f"/proc/{p.pid}/fd")), len(os.listdir(f"/proc/{p.pid}/task")), memory_used_mib()

    def capture():
        r = m.client("capture", "--pid", p.pid, "--mode", "sample", "--metrics", LIST, "--duration", 0.2, "-q")
        return r.returncode

    codes = [capture(), capture()]  # what the first ones load stays
    before, begin = left(), time.time()
    codes += [capture() for _ in range(100)]
    seconds, after = time.time() - begin, left()
    samplers = subprocess.run(["pgrep", "-c", "gpuctr-sampler"], capture_output=True, text=True).stdout.strip()
    if not p.runs():
        print(f"    the program has ended: {p.p.poll()} {p.out()[-300:]} {p.err()[-3000:]}")
    p.end()
    row("100 captures: descriptors of the front and of the program, its threads, MiB of the GPU", f"{before}, then {after}; {samplers} samplers; {seconds / 100:.1f} s each; exits {sorted(set(codes))}",
        "the same, 0, [0]", codes == [0] * 102 and samplers == "0" and after[0] <= before[0] and after[1] <= before[1] and after[2] <= before[2] and after[3] <= before[3] + 8)


def long(m, seconds=600):
    """Samples of a training for ten minutes."""
    p = standing(m, "python3", m.stage / "standing.py", "--model", "transformer", "--batch", 8, "--seconds", seconds + 4)
    p.wait_for("standing ready", 60)
    r = m.client("capture", "--timeline", "--devices", 0, "-d", seconds, "--interval", "10us", "--metrics", LIST, "-v", timeout=seconds + 60)
    p.end()
    print(r.stdout[-600:], r.stderr[-600:])
    told = re.search(r"[\d,]+ samples of [^\n]*", r.stdout)
    row(f"{seconds} s at 10 us beside a training", f"exit {r.returncode}, {told[0] if told else r.stderr[-300:]}", "0, nothing missing",
        r.returncode == 0 and bool(told) and "missing" not in told[0])


def faults(m):
    stopped(m)
    reset(m)
    hundred(m)


def record(m):
    """Half a second of a training that runs, in files that keep its samples: client/replay/transformer-h200.gpuctr, and the
    same with a metric of the SMs. Small pages, because a capture has many small tables."""
    batch = BATCH["transformer"]
    p = standing(m, "python3", m.stage / "standing.py", "--model", "transformer", "--batch", batch, "--seconds", 30)
    p.wait_for("standing ready", 60)
    time.sleep(2)
    for name, metrics, interval in (("transformer-h200", LIST, "10us"), ("transformer-sm-h200", LIST + ",sm__inst_executed.sum", "50us")):
        path = m.work / f"{name}.gpuctr"
        r = m.client("capture", "--pid", p.pid, "--mode", "sample", "-o", path, "-f", "--metrics", metrics, "--interval", interval,
                     "--duration", 0.5)
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
