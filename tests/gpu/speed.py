# SPDX-License-Identifier: Apache-2.0
"""What measuring costs: against a bare CUPTI profiler, plain runs, and Nsight Compute."""
import json
import os
import signal
import subprocess
import threading
import time

from figures import iteration, median, memory_mib, repeats, spread, steady
from machine import INSTRUCTIONS, MEMORY, USER
from table import row

ROUNDS = 5


def best_floors(m):
    """The fastest batch of the bare profiler: kind -> (us a kernel, batch, its output)."""
    best = {}
    for kind, kernels, reps, batches in (("tiny", 8192, 3, (1024, 2048, 4096)), ("copy", 512, 3, (256, 1024))):
        for b in batches:
            r = m.run([m.workload, "--kind", kind, "--kernels", kernels, "--repeat", reps, "--floor", MEMORY, "--batch", b], denied=False)
            figure = median(repeats(r.stdout)[1:])
            print(f"  floor {kind} batch {b}: {figure:.2f} us/kernel; " + r.stdout.strip().splitlines()[-1])
            if kind not in best or figure < best[kind][0]:
                best[kind] = (figure, b, r.stdout)
    return best


def in_turns(m, argv, batch):
    """The same workload plain, under the bare profiler and under ours, one after another and again: outputs of
    each round. Hosts differ by more than a bound could allow, and one host from minute to minute, so only what
    was run side by side is compared, and the median of the rounds is judged."""
    return [(m.run(argv, denied=False).stdout,
             m.run([*argv, "--floor", MEMORY, "--batch", batch], denied=False).stdout,
             m.client("--metrics", MEMORY, "--quiet", "--", *argv).stdout) for _ in range(ROUNDS)]


def against_floor(m, kind, kernels, repeat, batch):
    """Time and memory of a program that does nothing but launch."""
    rounds = in_turns(m, [m.workload, "--kind", kind, "--kernels", kernels, "--repeat", repeat], batch)
    ratios = [steady(ours) / steady(floor) for _, floor, ours in rounds]
    row(f"{kind}: ours / floor", f"{spread([steady(r[2]) for r in rounds])} / {spread([steady(r[1]) for r in rounds])} us a kernel "
        f"(floor's batch {batch}), ratio {spread(ratios, 3)}", "median <= 1.25", median(ratios) <= 1.25)
    return rounds


def memory(rounds):
    """How full the queues happen to be when the program looks differs from run to run."""
    more = [memory_mib(ours, "RssAnon") - memory_mib(floor, "RssAnon") for _, floor, ours in rounds]
    row("agent's memory beyond the floor's", f"{spread(more, 1)} MiB (RssAnon)", "median <= 16 MiB", median(more) <= 16)


def launches(m):
    """CPU time of a launch, by few launches at a time, so that none waits for the GPU."""
    rounds = in_turns(m, [m.workload, "--kind", "tiny", "--kernels", 40, "--repeat", 400], 1024)
    plain, floor, ours = ([steady(r[i], 2) for r in rounds] for i in range(3))
    ratios = [(o - p) / (f - p) if f > p else float("inf") for p, f, o in zip(plain, floor, ours)]
    row("CPU of a launch: ours, floor, plain", f"{spread(ours)}, {spread(floor)}, {spread(plain)} us; what ours adds / what the floor adds = "
        f"{spread(ratios)}", "median <= 1.5", median(ratios) <= 1.5)


def unwanted(m):
    """CPU time of a launch that no filter wants, before any was wanted and after one was, when CUPTI's profiler is there
    and, for memory metrics, traces kernels."""
    argv = [m.workload, "--kind", "tiny", "--kernels", 40, "--repeat", 400]
    nothing, one = ("--kernel", "regex:nothing"), ("--count", 1)
    ways = [(metrics, wanted) for wanted in (nothing, one) for metrics in (MEMORY, INSTRUCTIONS)]
    rounds = [[m.run(argv, denied=False).stdout] + [m.client("--metrics", metrics, *wanted, "--quiet", "--", *argv).stdout
                                                    for metrics, wanted in ways] for _ in range(3 * ROUNDS)]
    for i, (metrics, wanted) in enumerate(ways, 1):
        more = [steady(r[i], 2) - steady(r[0], 2) for r in rounds]
        what = "memory metrics" if metrics == MEMORY else "SM metrics"
        figure = f"{spread(more)} us more than plain ({spread([steady(r[0], 2) for r in rounds])} us)"
        if wanted == nothing:
            row(f"CPU of a launch that no filter wants, {what}", figure, "median <= 0.5 us", median(more) <= 0.5)
        else:
            row(f"CPU of a launch behind the only one that was wanted, {what}", figure)


def speed(m):
    best = best_floors(m)
    tiny = against_floor(m, "tiny", 8192, 15, best["tiny"][1])
    memory(tiny)
    against_floor(m, "copy", 512, 33, best["copy"][1])
    launches(m)
    r = m.run(["ncu", "--clock-control", "none", "--cache-control", "none", "--metrics", "dram__bytes_read.sum,dram__bytes_write.sum",
               m.workload, "--kind", "tiny", "--kernels", 300, "--repeat", 2], uid=0, denied=False, timeout=200)
    ncu, ours = median(repeats(r.stdout)), median([steady(out) for _, _, out in tiny])
    row("ncu / ours, tiny", f"{ncu:.0f} / {ours:.1f} = {ncu / ours:.0f}", ">= 150", ncu / ours >= 150)


class Stream:
    """A client whose records are read as they come. What takes longer than limit_s is ended."""

    def __init__(self, m, limit_s, *args):
        self.p = subprocess.Popen(m.argv([m.client_path, *args], USER), env=m.environment(), cwd=m.work, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, start_new_session=True)
        self.timer = threading.Timer(limit_s, os.killpg, (self.p.pid, signal.SIGKILL))
        self.timer.daemon = True
        self.timer.start()

    def wait(self):
        code = self.p.wait()
        self.timer.cancel()
        return code


def resnet(m):
    plain = iteration(m.run(["python3", m.stage / "net.py", "--iterations", 60], denied=False).stdout)
    nvtx = iteration(m.run(["python3", m.stage / "net.py", "--iterations", 60, "--nvtx"], denied=False).stdout)
    row("ResNet-18 iteration, plain", f"{plain:.2f} ms; with emit_nvtx {nvtx:.2f} ms")
    s = Stream(m, 300, "--metrics", MEMORY, "--stream", "--quiet", "--", "python3", m.stage / "net.py",
               "--iterations", 400, "--nvtx")
    first_late, n, with_nvtx, with_iteration, text = float("nan"), 0, 0, 0, ""
    for line in s.p.stdout:
        if not line.startswith('{"type":"kernel"'):
            text += line
            continue
        if n == 0:
            first_late = time.time() - json.loads(line)["start_ns"] / 1e9
        n += 1
        if n % 50 == 0:
            d = json.loads(line)
            with_nvtx += bool(d["nvtx"])
            with_iteration += any(x["message"].startswith("iteration ") for x in d["nvtx"])
    code = s.wait()
    measured = iteration(text)
    totals = json.loads(text.strip().splitlines()[-1])
    row("ResNet-18 every kernel / plain", f"{measured:.2f} / {plain:.2f} ms = {measured / plain:.2f}", "<= 5.5", measured / plain <= 5.5)
    row("ResNet-18 kernels", {k: v for k, v in totals.items() if isinstance(v, int) and v}, "all measured",
        code == 0 and totals.get("seen") == totals.get("measured") == n)
    row("first record after the first launch", f"{first_late:.2f} s", "<= 2 s", first_late <= 2)
    row("kernels within NVTX ranges", f"{with_nvtx}, of which {with_iteration} in an iteration, of {n // 50}", "9 of 10",
        with_nvtx >= 0.9 * (n // 50))


def grants(m):
    """R16: what the daemon adds to the driver's own allocation."""
    bare = m.run([m.grants, "bare", 500], uid=0)
    ours = m.client("--metrics", MEMORY, "--", m.grants, "broker", 500)
    (b50, b99), (o50, o99) = (percentiles(r.stdout) for r in (bare, ours))
    row("R16 a grant through the daemon, bare", f"p50 {o50:.0f}, {b50:.0f} us: {o50 - b50:.0f} us more; p99 {o99:.0f}, {b99:.0f} us",
        "p50 at most 1 ms more", o50 - b50 <= 1000)


def percentiles(text):
    words = text.split()
    return [float(words[words.index(p) + 1]) if p in words else float("nan") for p in ("p50", "p99")]
