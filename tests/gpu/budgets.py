# SPDX-License-Identifier: Apache-2.0
"""A budget on the hardware: what it costs a program that runs, and whether the totals that it estimates are
those of a full capture, and of the program as it runs unmeasured."""
import json
import re
import time

from figures import iteration, median, told
from machine import MEMORY
from standby import standing, told_by
from table import row
from values import ncu_table

BYTES = "dram__bytes_read.sum", "dram__bytes_write.sum"
WINDOW_S, SETTLES_S, CLIENT_S = 2.5, 1.1, 0.3
# 31 metrics of memory, L2, L1, instructions, tensor cores, floating point and pipes, for which CUPTI needs 8 passes.
MANY = ("memory,compute,tensor,kineto__cuda_core_flops,lts__t_sectors.sum,lts__t_requests.sum,lts__t_sectors_lookup_hit.sum,"
        "lts__t_sectors_lookup_miss.sum,l1tex__t_sectors.sum,smsp__inst_executed.sum,smsp__warps_launched.sum,"
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum,smsp__thread_inst_executed.sum,smsp__inst_issued.sum,sm__warps_active.sum,"
        "sm__pipe_fma_cycles_active.sum,sm__pipe_shared_cycles_active.sum,sm__pipe_alu_cycles_active.sum,"
        "sm__pipe_fmaheavy_cycles_active.sum,sm__pipe_fmalite_cycles_active.sum,sm__pipe_fp64_cycles_active.sum,"
        "sm__inst_executed_pipe_lsu.sum,sm__inst_executed_pipe_xu.sum,sm__inst_executed_pipe_uniform.sum,"
        "sm__inst_executed_pipe_alu.sum,sm__inst_executed_pipe_cbu.sum")
# What is trained, at what batch, and how many iterations take half a minute: launch-bound, and GPU-bound.
PROGRAMS = {"resnet18": (64, 2000), "transformer": (8, 500), "gpt": (8, 500)}


def lines(path):
    return [json.loads(line) for line in open(path)] if path.exists() else []


def pace(steps, window):
    """ms a step, of all steps that end in a window: what a few slow ones take counts."""
    ends = [at for at, _ in steps if window[0] <= at <= window[1]]
    return (ends[-1] - ends[0]) * 1e3 / (len(ends) - 1) if len(ends) > 1 else float("nan")


def quartiles(values):
    values = sorted(v for v in values if v == v)
    quarter = len(values) // 4
    return f"{median(values):.4f} (quartiles {values[quarter]:.4f}, {values[-1 - quarter]:.4f})" if values else "nothing"


def slowdown(m, model, budgets, rounds, window_s=WINDOW_S, more=()):
    """One training: windows in which it is captured with each budget in turn, and one before each turn in which it is
    not. A pair is a captured window and the mean of those that are not, before and behind its turn. A capture's first
    second is not promised anything, so it is left out. What CUPTI leaves behind makes launches slower after the first
    capture as well: so the time before it is looked at by itself."""
    batch, _ = PROGRAMS[model]
    turn = WINDOW_S + CLIENT_S + (window_s + SETTLES_S + CLIENT_S) * len(budgets)
    p = standing(m, "python3", m.stage / "standing.py", "--model", model, "--batch", batch, "--seconds", turn * rounds + 8 * WINDOW_S, *more)
    p.wait_for("standing ready", 60)
    time.sleep(2)

    def uncaptured(seconds):
        time.sleep(CLIENT_S)
        begin = time.time()
        time.sleep(seconds)
        return begin, time.time()

    fresh = uncaptured(3 * WINDOW_S)
    m.client("capture", "--pid", p.pid, "-v", "--budget", budgets[0], "--metrics", MEMORY, "--duration", 1, "--no-summary")  # loads CUPTI
    plain, captured, said = [], {b: [] for b in budgets}, {}
    for _ in range(rounds):
        plain.append(uncaptured(WINDOW_S))
        for b in budgets:
            begin = time.time()
            r = m.client("capture", "--pid", p.pid, "-v", "--budget", b, "--metrics", MEMORY, "--duration", window_s + SETTLES_S, "--no-summary")
            captured[b].append((begin + SETTLES_S + CLIENT_S / 2, time.time() - 2 * CLIENT_S))
            said.setdefault(b, [line for line in r.stderr.splitlines() if "budget" in line or "spent" in line or "error" in line])
    plain.append(uncaptured(WINDOW_S))
    p.wait(120)
    steps = told_by(p).get("steps", [])
    before, off = pace(steps, fresh), [pace(steps, w) for w in plain]
    row(f"{model} step, not captured: after a capture / before the first", f"{median(off):.2f} / {before:.2f} ms = {median(off) / before:.4f}", "told")
    row(f"{model} step, not captured, a window / the one before", quartiles([b / a for a, b in zip(off, off[1:])]), "told")
    for b in budgets:
        ratios = [pace(steps, on) * 2 / (off[i] + off[i + 1]) for i, on in enumerate(captured[b])]
        for line in said[b][:5]:
            print("   ", line[:600])
        print("    " + " ".join(f"{r:.4f}" for r in ratios))
        percent = float(b[:-1])
        row(f"{model} step ({median(off):.1f} ms){' '.join(['', *more])}, --budget {b} / not captured", f"{quartiles(ratios)} of {len(ratios)} pairs of windows, of {window_s} s",
            f"1 + {percent} % + 0.5 %", median(ratios) <= 1.005 + percent / 100)


def spent(text):
    """ms that the agent reports as spent, in all and on first Starts; None where it reports nothing."""
    m = re.search(r"spent ([\d.]+) % of ([\d.]+) s", text)
    first = re.search(r"first starts ([\d.]+) ms", text)
    return (float(m[1]) * float(m[2]) * 10, float(first[1]) if first else 0) if m else (None, 0)


def lost(steps, window, plain_ms):
    """ms by which a window's steps took longer than as many plain ones."""
    return (pace(steps, window) - plain_ms) * sum(window[0] <= at <= window[1] for at, _ in steps[1:])


def reported(m, model, budgets, rounds, seconds=6):
    """What the agent reports as spent, against what the program has lost: whole captures, the first Start included, and the
    same behind their first second. Of which launches there is a value."""
    batch, _ = PROGRAMS[model]
    p = standing(m, "python3", m.stage / "standing.py", "--model", model, "--batch", batch, "--seconds", (2 * seconds + 1) * len(budgets) * rounds + 8)
    p.wait_for("standing ready", 60)
    time.sleep(2)
    m.client("capture", "--pid", p.pid, "-v", "--budget", "1%", "--metrics", MEMORY, "--duration", 1, "--no-summary")  # loads CUPTI
    captures = []
    for _ in range(rounds):
        for b in budgets:
            time.sleep(seconds / 2)
            path, begin = m.work / "reported.jsonl", time.time()
            r = m.client("capture", "--pid", p.pid, "-v", "--budget", b, "--metrics", MEMORY, "--duration", seconds, "--format", "jsonl", "--output", path, "-f")
            captures.append((b, begin, time.time(), r.stderr, lines(path)))
            time.sleep(seconds / 2)
    p.wait(120)
    steps = told_by(p).get("steps", [])
    for b in budgets:
        ratios, figures = [], []
        for budget, begin, end, text, records in captures:
            if budget != b:
                continue
            plain = (pace(steps, (begin - seconds / 2, begin)) + pace(steps, (end + 0.3, end + seconds / 2))) / 2
            all_ms, first_ms = spent(text)
            whole, behind = lost(steps, (begin, end + 0.3), plain), lost(steps, (begin + 1.2, end), plain)
            estimates = [d for d in records if d["type"] == "estimate" and d["metric"] == BYTES[0]]
            totals = next((d for d in records if d["type"] == "totals"), {})
            unknown, launches = (sum(d[k] for d in estimates) for k in ("unknown", "launches"))
            print("   ", next((line for line in text.splitlines() if "spent" in line), "nothing reported")[:700])
            print("   ", next((line for line in text.splitlines() if "cannot be kept" in line), "")[:300])
            figures.append(f"lost {whole:.0f} ms, reported {all_ms or 0:.0f}; behind the first second {behind:.0f} of {(end - begin - 1.2) * 1e3:.0f}, reported {(all_ms or 0) - first_ms:.0f}; "
                           f"{totals.get('measured')} of {totals.get('seen')} measured, {unknown / launches if launches else 1:.2%} without a value")
            ratios.append((all_ms or 0) / whole if whole > 0 else float("inf"))
        for figure in figures:
            print("   ", figure)
        row(f"{model} ({plain:.1f} ms a step), {seconds} s at {b}: reported / lost", f"{median(ratios):.2f} of {len(ratios)}: {'; '.join(figures[:1])}", "1.5 either way",
            1 / 1.5 <= median(ratios) <= 1.5)


def reports(m):
    reported(m, "gpt", ("1%", "2%", "5%"), 3)


def full_capture(m, argv):
    """Bytes by kernel when every kernel is measured, {(kernel, metric): }, and what became of the launches."""
    r, kernels, whole_totals = m.capture("whole.jsonl", "--metrics", MEMORY, "--profile-from-start", "off", "--", *argv)
    full = {}
    for k in kernels:
        for b in BYTES:
            full[k["kernel"], b] = full.get((k["kernel"], b), 0) + k["metrics"][b]
    return full, whole_totals


def budget_capture(m, argv, budget):
    """The same as a budget estimates them, with the told errors."""
    path = m.work / "chosen.jsonl"
    r = m.client("run", "--format", "jsonl", "--output", path, "-f", "-v", "--budget", budget, "--metrics", MEMORY, "--profile-from-start", "off", "--",
                 *argv)
    print("\n".join("    " + line[:600] for line in r.stderr.splitlines() if "budget" in line.lower() or "spent" in line.lower()))
    found = {(d["kernel"], d["metric"]): d for d in lines(path) if d["type"] == "estimate" and d["metric"] in BYTES}
    return found, next((d for d in lines(path) if d["type"] == "totals"), {})


def compare(what, metric, full, found):
    full, found = ({k: v for (k, b), v in d.items() if b == metric} for d in (full, found))
    large = [k for k, v in full.items() if v >= 0.01 * sum(full.values())]
    common = [k for k in large if k in found and found[k]["value"]]
    off = {k: found[k]["value"] / full[k] - 1 for k in common}
    sure = [k for k in common if found[k]["kind"] != "once"]
    within = sum(abs(found[k]["value"] - full[k]) <= 3 * (found[k]["standard_error"] or 0) for k in sure)
    for k in common:
        e = found[k]
        print(f"    {k[:60]:60} full {full[k]:.4g} estimated {e['value']:.4g} +- {e['standard_error'] or 0:.2g} {e['kind']}, measured {e['measured']} of {e['launches']}, {e['without_error']} without error, {e['unknown']} unknown")
    row(f"{what}: {metric} of kernels with 1 % of the total", f"{len(common)} of {len(large)} kernels, worst {max(off.values(), key=abs, default=9):+.2%}, "
        f"{within} within 3 told errors of {len(sure)} that have one", "1 %, 95 %", len(common) == len(large) and max(map(abs, off.values()), default=9) <= 0.01)
    total, guessed = sum(full.values()), sum(e["value"] or 0 for e in found.values())
    row(f"{what}: {metric} of all", f"full {total:.4g}, estimated {guessed / total - 1 if total else 9:+.2%}", "told")


def whole(m):
    """The same iterations as one range of Nsight Compute's: nothing stands between their kernels."""
    n = 30
    argv = ["python3", m.stage / "net.py", "--iterations", n, "--profile"]
    theirs = ncu_table(m, BYTES, "--replay-mode", "app-range", *argv, timeout=100)
    full = full_capture(m, argv)[0]
    for b in BYTES:
        truth, ours = sum(theirs[b]), sum(v for (_, metric), v in full.items() if metric == b)
        row(f"{b} of {n} iterations", f"ncu, as one range {truth:.5g}; every kernel by itself {ours / truth - 1 if truth else 9:+.2%}", "told")


def estimated(m, model, budgets):
    batch, iterations = PROGRAMS[model]
    argv = ["python3", m.stage / "net.py", "--model", model, "--batch", batch, "--iterations", iterations, "--profile"]
    full, whole_totals = full_capture(m, argv)
    for b in budgets:
        found, chosen = budget_capture(m, argv, b)
        row(f"{model}, {b}: launches counted, and in full", f"{told(chosen)}, {told(whole_totals)}", "seen alike",
            abs(chosen.get("seen", 0) - whole_totals.get("seen", 1)) <= 10)
        for metric in BYTES:
            compare(f"{model}, {b}", metric, full, found)


def budget(m):
    slowdown(m, "transformer", ("1%", "2%", "5%"), 30)


def budget_long(m):
    """Captures that last: what they spend when the first Start is paid back."""
    slowdown(m, "transformer", ("2%",), 5, 15)


def launch_bound(m):
    """Where launching is the bottleneck, what it costs to be there is more than small budgets."""
    slowdown(m, "resnet18", ("5%", "10%"), 30)


def estimates(m):
    estimated(m, "transformer", ("2%",))
    estimated(m, "resnet18", ("10%",))


def ranks(m):
    """Two ranks of one training, each with randomness of its own: in turns with the plain training."""
    argv = ["python3", "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={m.gpus}", m.stage / "ddp.py", "--iterations", 1500]
    ratios, losses = [], set()
    for i in range(3):
        plain = m.run(argv, denied=False).stdout
        r = m.client("run", "-v", "--budget", "2%", "--metrics", MEMORY, "-o", m.work / "ranks.%p.gpuctr", "-f", "--", *argv)
        ratios.append(iteration(r.stdout) / iteration(plain))
        losses |= {loss for out in (plain, r.stdout) for loss in re.findall(r"loss ([\d.]+)", out)}
        print("\n".join("    " + line[:400] for line in r.stderr.splitlines() if "spent" in line or "seen in" in line or "cannot be kept" in line))
        if r.returncode != 0:
            print(r.stderr[-2000:])
    row(f"{m.gpus} ranks, --budget 2% / plain, an iteration", f"{median(ratios):.4f} ({min(ratios):.4f} to {max(ratios):.4f}), {len(ratios)} pairs, last plain {iteration(plain):.2f} ms",
        "1 + 2 % + 0.5 %", median(ratios) <= 1.025)
    row("their losses, plain and measured", f"{sorted(losses)}", "one", len(losses) == 1)


def means(m, metrics, argv):
    """Of every kernel measured: {metric: {kernel: (mean a launch, launches)}}."""
    r, kernels, _ = m.capture("group.jsonl", "--metrics", metrics, "--profile-from-start", "off", "--", *argv)
    sums = {}
    for k in kernels:
        for metric, value in k["metrics"].items():
            total, n = sums.setdefault(metric, {}).get(k["kernel"], (0, 0))
            sums[metric][k["kernel"]] = total + (value or 0), n + 1
    return {metric: {k: (total / n, n) for k, (total, n) in by.items()} for metric, by in sums.items()}


def compare_means(metric, full, found):
    """Kernels that make one percent of the metric's total, by their mean of a launch."""
    total = sum(mean * n for mean, n in full.values())
    if total == 0:
        row(f"in turns: {metric}", f"0 in every launch, and in {len(found)} estimates", "0", not any(d["value"] for d in found.values()))
        return
    found = {k: dict(d, n=1 if d["of"] == "mean" else d["launches"]) for k, d in found.items()}
    large = [k for k, (mean, n) in full.items() if mean * n >= 0.01 * total > 0]
    common = [k for k in large if k in found and found[k]["value"] and found[k]["n"]]
    off = {k: found[k]["value"] / found[k]["n"] / full[k][0] - 1 for k in common}
    sure = [k for k in common if found[k]["kind"] != "once" and not found[k]["unknown"] and not found[k]["without_error"]]
    within = sum(abs(off[k]) * full[k][0] * found[k]["n"] <= 3 * (found[k]["standard_error"] or 0) for k in sure)
    measured = sum(found[k]["measured"] for k in common)
    weighted = sum(off[k] * full[k][0] * full[k][1] for k in common) / total if total else 9
    row(f"in turns: {metric}", f"{len(common)} of {len(large)} kernels, {measured} launches, all {weighted:+.2%}, median {median([abs(v) for v in off.values()]):.2%}, "
        f"worst {max(off.values(), key=abs, default=9):+.2%}, {within} within 3 told errors of {len(sure)}", "all 2 %",
        len(common) == len(large) and abs(weighted) <= 0.02)


def groups(m):
    """Metrics of several passes in one run of at most two minutes, against a run of each pass in which every kernel is
    measured. At this batch the GPU is the bottleneck, so that the budget is spent on measuring."""
    net = ["python3", m.stage / "net.py", "--profile", "--batch", 512, "--iterations"]
    plan = m.client("plan", MANY)
    sets = [line.split()[1] for line in plan.stdout.splitlines() if line.strip().startswith("--metrics ")]
    row("metrics in turns", f"{len(sets)} groups", "several", len(sets) > 1)
    full = {}
    for metrics in sets:
        for metric, by in means(m, metrics, [*net, 12]).items():
            full.setdefault(metric, by)
    path = m.work / "turns.jsonl"
    r = m.client("run", "--format", "jsonl", "--output", path, "-f", "-v", "--budget", "5%", "--metrics", MANY, "--profile-from-start", "off", "--",
                 *net, 2900, timeout=240)
    print("    " + r.stdout.strip().replace("\n", "; "))
    print("\n".join("    " + line[:700] for line in r.stderr.splitlines() if "budget" in line.lower() or "spent" in line.lower() or "error" in line))
    found = [d for d in lines(path) if d["type"] == "estimate"]
    for metric, by in full.items():
        compare_means(metric, by, {d["kernel"]: d for d in found if d["metric"] == metric})
