# SPDX-License-Identifier: Apache-2.0
"""What measuring costs: against a bare CUPTI profiler, plain runs, and Nsight Compute."""
import json
import os
import signal
import subprocess
import threading
import time

from figures import iteration, median, memory_mib, repeats, steady
from machine import MEMORY, USER
from table import row


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


def speed(m):
    best, ours = best_floors(m), {}
    for kind, kernels, reps in (("tiny", 8192, 30), ("copy", 512, 30)):
        r = m.client("--metrics", MEMORY, "--no-summary", "--", m.workload, "--kind", kind, "--kernels", kernels, "--repeat", reps)
        ours[kind] = steady(r.stdout)
        floor, batch, text = best[kind]
        row(f"{kind}: ours / floor", f"{ours[kind]:.2f} / {floor:.2f} us a kernel (floor's batch {batch}) = {ours[kind] / floor:.3f}", "<= 1.25",
            ours[kind] / floor <= 1.25)
        if kind == "tiny":
            print("  tiny repeats:", repeats(r.stdout))
            anon = memory_mib(r.stdout, "RssAnon") - memory_mib(text, "RssAnon")
            row("agent's memory beyond the floor's", f"{anon:.1f} MiB (RssAnon)", "<= 16 MiB", anon <= 16)
    # Few launches at a time, so that none waits for the GPU.
    argv = [m.workload, "--kind", "tiny", "--kernels", 40, "--repeat", 400]
    cpu_plain = steady(m.run(argv, denied=False).stdout, 2)
    cpu_floor = steady(m.run([*argv, "--floor", MEMORY, "--batch", 1024], denied=False).stdout, 2)
    cpu = steady(m.client("--metrics", MEMORY, "--no-summary", "--", *argv).stdout, 2)
    row("CPU of a launch: ours, floor, plain", f"{cpu:.2f}, {cpu_floor:.2f}, {cpu_plain:.2f} us: ours - floor = {cpu - cpu_floor:.2f} us",
        "<= 1 us", cpu - cpu_floor <= 1)
    r = m.run(["ncu", "--clock-control", "none", "--cache-control", "none", "--metrics", "dram__bytes_read.sum,dram__bytes_write.sum",
               m.workload, "--kind", "tiny", "--kernels", 300, "--repeat", 2], uid=0, denied=False, timeout=200)
    ncu = median(repeats(r.stdout))
    row("ncu / ours, tiny", f"{ncu:.0f} / {ours['tiny']:.1f} = {ncu / ours['tiny']:.0f}", ">= 150", ncu / ours["tiny"] >= 150)


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
    s = Stream(m, 300, "--metrics", MEMORY, "--format", "jsonl", "--output", "-", "--no-summary", "--", "python3", m.stage / "net.py",
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
