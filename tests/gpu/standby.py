# SPDX-License-Identifier: Apache-2.0
"""Programs that run already: what standby costs, and what a capture on demand brings and leaves."""
import json
import os
import time

from figures import iteration, median, memory_mib, steady, told
from machine import COPY_BYTES, INSTRUCTIONS, MEMORY, fakes, status_of
from table import row



def standing(m, *argv):
    """A program in standby, once it is registered."""
    p = m.start_client("standby", "--", *argv)
    by = time.time() + 60
    while time.time() < by and p.runs():
        if f'"pid":{p.pid},' in m.client("status", "--json").stdout:
            return p
        time.sleep(0.05)
    return p


def on_demand(m, name, pid, *args):
    """A capture of a process that runs: as Machine.capture(), and when its first kernel was heard of."""
    begin = time.time()
    r, kernels, totals = m.capture(name, "--pid", pid, "--mode", "range", *args, verb="capture")
    first = min((k["start_ns"] for k in kernels), default=0) / 1e9 - begin
    return r, kernels, totals, first


def alternate(plain, standby, pairs):
    """Both sides in turn: medians and the spread of the ratios."""
    a, b = [], []
    for _ in range(pairs):
        a.append(plain())
        b.append(standby())
    ratios = sorted(y / x for x, y in zip(a, b))
    return median(a), median(b), median(ratios), ratios[len(ratios) // 4], ratios[len(ratios) * 3 // 4]


def cost(m):
    tiny = [m.workload, "--kind", "tiny", "--kernels", 1, "--repeat", 1]

    def wall(argv):
        t = time.perf_counter()
        m.run(argv)
        return (time.perf_counter() - t) * 1e3

    plain, standby, ratio, low, high = alternate(lambda: wall(tiny), lambda: wall([m.client_path, "standby", "--", *tiny]), 2 if fakes else 15)
    client = median([wall([m.client_path, "standby", "--", "/bin/true"]) - wall(["/bin/true"]) for _ in range(15)])
    row("a program's start and end: plain, standby", f"{plain:.2f}, {standby:.2f} ms, of which the client's own start {client:.2f} ms: "
        f"{standby - plain - client:+.2f} ms for the agent (ratio {ratio:.4f}, quartiles {low:.4f} to {high:.4f})", "+ 1 ms",
        standby - plain - client <= 1 + 0.02 * plain)
    argv = [m.workload, "--kind", "tiny", "--kernels", 40, "--repeat", 400]
    texts = [(m.run(argv).stdout, m.client("standby", "--", *argv).stdout) for _ in range(2 if fakes else 7)]
    anon = median([memory_mib(b, "RssAnon") - memory_mib(a, "RssAnon") for a, b in texts])
    row("memory in standby beyond plain", f"{anon:.2f} MiB (RssAnon)", "<= 2 MiB", anon <= 2)
    a, b = (median([steady(t[i], 2) for t in texts]) for i in (0, 1))
    row("CPU of a launch: plain, standby", f"{a:.3f}, {b:.3f} us: {b / a - 1:+.2%}", "3 %, the noise", b <= 1.03 * a)


def slowdown(m):
    argv = ["python3", m.stage / "net.py", "--iterations", 300]
    plain, standby, ratio, low, high = alternate(lambda: iteration(m.run(argv).stdout), lambda: iteration(m.client("standby", "--", *argv).stdout),
                                                 6)
    row("ResNet-18 iteration: plain, standby", f"{plain:.3f}, {standby:.3f} ms, ratio {ratio:.4f} (quartiles {low:.4f} to {high:.4f}), 6 pairs",
        "1.005 or within the quartiles", ratio <= 1.005 or low <= 1)


def told_by(p):
    lines = [line[9:] for line in p.out().splitlines() if line.startswith("standing {")]
    return json.loads(lines[0]) if lines else {}


def late(m, p, what, metrics):
    r, kernels, totals, first = on_demand(m, "late.jsonl", p.pid, "--metrics", metrics, "--duration", "2.5")
    # What is launched while the capture is called off is seen, and no longer measured.
    row(f"late capture, {what}", f"{len(kernels)} kernels, {told(totals)}, first launch {first:.2f} s after the command, exit {r.returncode}",
        "all measured but one at the end, 1 s", r.returncode == 0 and len(kernels) > 300 and totals.get("measured") == len(kernels) and
        totals.get("seen", 0) - len(kernels) == totals.get("unready", 0) <= 1 and 0 <= first <= 1)


def training(m):
    """Three captures with different metrics of a program that then uses torch.profiler, and one of a program
    that has used it. Kineto keeps CUPTI when it is done, unless TEARDOWN_CUPTI=1 says that it shall not."""
    p = standing(m, "python3", m.stage / "standing.py", "--seconds", 13, "--profile", "after")
    p.wait_for("standing ready", 60)
    time.sleep(1)
    for what, metrics in (("memory", MEMORY), (INSTRUCTIONS, INSTRUCTIONS), ("memory again", MEMORY)):
        late(m, p, what, metrics)
    code, d = p.wait(60), told_by(p)
    row("the program", f"exit {code}, {len(d.get('steps', []))} steps", "0", code == 0 and bool(d))
    row("torch.profiler after them", f"{d.get('after')} kernels in two steps", "600 and more", (d.get("after") or 0) >= 600)
    p = standing(m, "env", "TEARDOWN_CUPTI=1", "python3", m.stage / "standing.py", "--seconds", 6, "--profile", "before")
    p.wait_for("standing ready", 60)
    late(m, p, "after torch.profiler", MEMORY)
    code, d = p.wait(60), told_by(p)
    row("torch.profiler before it", f"{d.get('before')} kernels in two steps, exit {code}", "600 and more", code == 0 and (d.get("before") or 0) >= 600)


def graphs(m):
    """Stream captures that were under way before ours: none is invalidated, and nothing is measured beside them. Of one
    that nothing is launched into nobody tells us: what becomes of it is told."""
    for unmet in (False, True):
        p = standing(m, "python3", m.stage / "graphs.py", "--seconds", 3, *["--unmet"] * unmet)
        p.wait_for("standing ready", 60)
        r, kernels, totals, first = on_demand(m, "graphs.jsonl", p.pid, "--metrics", MEMORY, "--duration", 7)
        code, d = p.wait(60), told_by(p)
        whole = code == 0 and bool(d) and all([end, n] == [0, d["launched"][k]] for k, (end, n) in enumerate(d["ended"]))
        figure = f"exit {code}, ended {d.get('ended')} of {d.get('launched')}, {told(totals)}"
        if unmet:
            row("two stream captures before ours, nothing launched into them", figure, "told")
        else:
            row("two stream captures before ours", figure, "whole, and measured behind them",
                whole and totals.get("capturing", 0) > 0 and totals.get("measured", 0) > 0)


def values(m):
    """The same kernels, captured late and from the start."""
    p = standing(m, m.workload, "--kind", "copy", "--kernels", 256, "--repeat", 400)
    r, late, totals, first = on_demand(m, "late.jsonl", p.pid, "--metrics", MEMORY, "--count", 512, "--duration", 3)
    p.end()
    off = [abs(sum(k["metrics"][n] for k in late) / max(1, len(late)) / COPY_BYTES - 1) for n in ("dram__bytes_read.sum", "dram__bytes_write.sum")]
    row("256 MiB copies captured late", f"{len(late)} kernels, mean off {off[0]:.4%} read, {off[1]:.4%} write", "0.5 %", bool(late) and max(off) <= 0.005)
    p = standing(m, m.workload, "--kind", "fma", "--kernels", 64, "--repeat", 100000)
    r, late, totals, first = on_demand(m, "late.jsonl", p.pid, "--metrics", INSTRUCTIONS, "--count", 20, "--duration", 3)
    p.end()
    r, whole, totals = m.capture("whole.jsonl", "--metrics", INSTRUCTIONS, "--", m.workload, "--kind", "fma", "--kernels", 20, "--repeat", 1)
    a, b = ({k["metrics"][INSTRUCTIONS] for k in ks} for ks in (late, whole))
    row("instructions captured late, from the start", f"{a}, {b}", "equal", a == b and len(a) == 1)


def footprint(pid):
    s = status_of(pid) or {}
    return int(s.get("RssAnon", "0 kB").split()[0]), len(os.listdir(f"/proc/{pid}/fd")), int(s.get("Threads", 0))


def cycles(m, n=60):
    p = standing(m, m.workload, "--kind", "tiny", "--kernels", 200, "--sleep-ms", 1, "--repeat", 100000)
    figures, times, empty = [], [], 0
    for i in range(n):
        t = time.time()
        r, kernels, totals, first = on_demand(m, "cycle.jsonl", p.pid, "--metrics", MEMORY, "--duration", "0.4")
        times.append(time.time() - t)
        empty += not kernels
        if i in (n // 4, n - 1):
            time.sleep(0.5)
            figures.append(footprint(p.pid))
    runs = p.runs()
    p.end()
    (mem0, fds0, threads0), (mem1, fds1, threads1) = figures
    row(f"{n} captures of one process: growth from {n // 4} on", f"memory {mem0} -> {mem1} kB, descriptors {fds0} -> {fds1}, threads {threads0} -> {threads1}, "
        f"{median(times[:n // 4]):.2f} -> {median(times[-n // 4:]):.2f} s a capture, {empty} empty", "none",
        runs and mem1 - mem0 <= 2048 and fds1 <= fds0 and threads1 <= threads0 and empty == 0 and median(times[-n // 4:]) <= 1.2 * median(times[:n // 4]))


def together(m):
    """A torchrun job, all ranks captured while it trains."""
    argv = ["python3", "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={m.gpus}", m.stage / "standing.py", "--seconds", 10]
    plain = m.run(argv)
    p = m.start_client("standby", "--", *argv)
    p.wait_for("standing ready", 90)
    time.sleep(1)
    r, kernels, totals = m.capture("ranks.jsonl", "--all", "--mode", "range", "--metrics", MEMORY, "--duration", 3, verb="capture")
    code = p.wait(90)
    losses = [json.loads(line[9:])["loss"] for t in (plain.stdout, p.out()) for line in t.splitlines() if line.startswith("standing {")]
    row(f"{m.gpus} ranks captured while they train", f"{told(totals)}, {len({k['pid'] for k in kernels})} processes, "
        f"{len({k['uuid'] for k in kernels})} GPUs, exit {code}, losses after their steps {losses}", "both ranks, no hang",
        code == 0 and r.returncode == 0 and len({k["uuid"] for k in kernels}) == m.gpus and len(losses) == 2)


def standby(m):
    cost(m)
    if not fakes:
        slowdown(m)


def on_demand_all(m):
    values(m)
    cycles(m)
    if not fakes:
        training(m)
    if m.gpus > 1:
        together(m)
