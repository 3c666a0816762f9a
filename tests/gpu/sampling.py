# SPDX-License-Identifier: Apache-2.0
"""Samples of a whole GPU, as an ordinary user whom the driver refuses: `permit -- gpuctr-sampler` and `capture --timeline`."""
import json
import os
import signal
import statistics
import time

import samples
from machine import COPY_BYTES, descendant, fakes
from table import row

BYTES = "dram__bytes_read.sum,dram__bytes_write.sum"
SM = "sm__inst_executed.sum,sm__cycles_active.avg"
NOT_ALLOWED, BUSY, KERNELS = 15, 16, 2000
WRITTEN = 0.5 if fakes else 1  # of what is read
COPIES = ("--kind", "copy", "--kernels", 50 if fakes else KERNELS)


def sampler(m, *args):
    return [m.stage / "gpuctr-sampler", *args]


def start(m, *args):
    """Samples are being written."""
    p = m.start_client("permit", "--", *sampler(m, *args))
    by = time.time() + 30
    while time.time() < by and p.runs() and p.files[0].stat().st_size < 1000:
        time.sleep(0.01)
    return p


def end(p):
    """What it wrote until now."""
    pid = descendant(p.pid, "gpuctr-sampler", 2)
    if pid:
        signal.pidfd_send_signal(pidfd(pid), signal.SIGTERM)
    p.wait(30)


def pidfd(pid):
    return os.pidfd_open(pid)


def copies(m, repeat, timeout=120):
    """Runs them; the bytes that they read, and the seconds that they took."""
    r = m.run([m.workload, *COPIES, "--repeat", repeat], timeout=timeout)
    seconds = [float(line.split()[2]) for line in r.stdout.splitlines() if line.startswith("repeat ")]
    return COPIES[-1] * repeat * COPY_BYTES, seconds


def say(s):
    return f"{s.samples} samples in {s.seconds():.2f} s, lost {s.lost} ({s.dropped} by the reader), overflows {s.overflows}, {s.cpu_s / max(1e-9, s.seconds()):.2f} core {s.message}"


def known_bytes(m):
    p = start(m, "--metrics", BYTES, "--interval", "10us")
    read, _ = copies(m, 2)
    time.sleep(0.1)
    end(p)
    s = samples.read(p.files[0])
    for i, (metric, wanted) in enumerate(zip(s.metrics, (read, read * WRITTEN))):
        row(f"permit -- gpuctr-sampler: {metric} beside {read / COPY_BYTES:.0f} copies", f"{s.sums[i]:.6g} of {wanted:.6g}, {s.sums[i] / wanted - 1:+.3%}",
            "1 %", abs(s.sums[i] / wanted - 1) <= 0.01)
    row("permit -- gpuctr-sampler at 10 us", f"exit {p.p.returncode}, {say(s)}", "0, nothing lost", p.p.returncode == 0 and s.lost == 0 and s.n > 0)


def timeline(m):
    path = m.work / "timeline.jsonl"
    p = m.start_client("capture", "--timeline", "--devices", 0, "-d", 5, "--interval", "10us", "--metrics", BYTES, f"--stream={path}", "-f")
    time.sleep(1)
    read, _ = copies(m, 1)
    p.wait(30)
    print(p.out()[:2600], p.err())
    rows = [r for r in map(json.loads, open(path)) if r["type"] == "sample"] if path.exists() else []
    total = sum(r["values"][0] for r in rows)
    row("capture --timeline -d 5", f"exit {p.p.returncode}, {len(rows)} samples, {p.out().count('B/s')} cells, read {total / read - 1:+.3%}", "0, 1 %",
        p.p.returncode == 0 and abs(total / read - 1) <= 0.01 and "mean" in p.out())


def cost(m):
    """The sampler's own, over 20 s; beside copies, and what they lose."""
    plain, beside = [], []
    for _ in range(5):
        plain += copies(m, 2)[1]
        p = start(m, "--metrics", BYTES, "--interval", "10us")
        beside += copies(m, 2)[1]
        end(p)
    a, b = statistics.median(plain), statistics.median(beside)
    row("pace of copies beside the sampler", f"{a:.3f} s, {b:.3f} s: {b / a:.4f}", "1.02", b / a <= 1.02 or fakes)
    for what in ("nothing", "copies"):
        p = start(m, "--metrics", BYTES, "--interval", "10us", "--duration", 4 if fakes else 20)
        by = time.time() + 60
        while what == "copies" and p.runs() and time.time() < by:
            copies(m, 4)
        p.wait(60)
        s = samples.read(p.files[0], sums=False)
        share = s.cpu_s / max(1e-9, s.seconds())
        row(f"20 s at 10 us beside {what}", say(s), "0.5 core, nothing lost", (share <= 0.5 or fakes) and s.lost == 0 and s.reason == 0)


def intervals(m, name, metrics, tried):
    """The shortest at which nothing is lost in 3 s beside copies."""
    best = None
    for interval in tried:
        p = start(m, "--metrics", metrics, "--interval", interval, "--duration", 3)
        copies(m, 1)
        p.wait(60)
        s = samples.read(p.files[0], sums=False)
        good = p.p.returncode == 0 and s.lost == 0 and s.n > 0
        row(f"{name} at {interval}", f"exit {p.p.returncode}, {say(s)}")
        best = interval if good else best
        if not good and best:
            break
    row(f"{name}: the shortest interval that loses nothing", best, "there is one", best is not None)


def who_may(m):
    r = m.run(sampler(m, "--metrics", BYTES, "--duration", 1))
    row("gpuctr-sampler without a permit", f"exit {r.returncode} {r.stderr.strip()}", f"{NOT_ALLOWED}, ERR_NVGPUCTRPERM",
        r.returncode == NOT_ALLOWED and "ERR_NVGPUCTRPERM" in r.stderr)
    line = f"{m.stage}/gpuctr-sampler --metrics {BYTES} --duration 4 >/dev/null & sleep 2; {m.stage}/gpuctr-sampler --metrics {BYTES} >/dev/null; echo $?; wait"
    r = m.client("permit", "sh", "-c", line)
    row("a second sampler on the GPU", f"{r.stdout.strip()} {r.stderr.strip()[-200:]}", BUSY, r.stdout.strip() == str(BUSY))
    r = m.client("capture", "--timeline", "-d", 1, "--metrics", f"{BYTES},sm__inst_executed_pipe_tensor.sum,lts__t_bytes.sum,{SM},l1tex__t_bytes.sum")
    row("metrics of several passes", f"exit {r.returncode} {r.stderr.strip()[-300:]}", "125, named", r.returncode == 125 and
        any(f"do{s} not fit" in r.stderr for s in ("", "es")))


def faults(m):
    """Whatever ends, the next one can sample."""
    p = start(m, "--metrics", BYTES)
    pid = descendant(p.pid, "gpuctr-sampler", 2)
    signal.pidfd_send_signal(pidfd(pid), signal.SIGKILL)
    p.wait(30)
    r = m.client("capture", "--timeline", "-d", 1)
    row("after a sampler that was killed", f"exit {r.returncode} {r.stderr.strip()[-200:]}", 0, r.returncode == 0)
    m.use_daemon("lease-max=2")
    p = m.start_client("capture", "--timeline", "--interval", "10us")
    time.sleep(1)
    m.client("permit", "true", timeout=60)  # somebody waits, and the lease runs out
    t = time.time()
    p.wait(30)
    row("a lease that ends while sampling", f"exit {p.p.returncode}, {time.time() - t:.1f} s after the next one had it; {p.err().strip()[-400:]}",
        "125, what was sampled is shown", p.p.returncode == 125 and "mean" in p.out() and "lease-expired" in p.err())
    r = m.client("capture", "--timeline", "-d", 1)
    row("after it", f"exit {r.returncode} {r.stderr.strip()[-200:]}", 0, r.returncode == 0)


def sampling(m):
    who_may(m)
    known_bytes(m)
    timeline(m)
    cost(m)
    intervals(m, "memory metrics", BYTES, ["20us", "10us", "5us", "2us"])
    intervals(m, "SM and memory metrics", f"{BYTES},{SM}", ["1ms", "500us", "200us", "100us", "50us", "20us", "10us"])
    faults(m)
