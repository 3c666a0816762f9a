# SPDX-License-Identifier: Apache-2.0
"""Samples of a whole GPU, as an ordinary user whom the driver refuses: `permit -- gpuctr-sampler` and `capture --timeline`."""
import ctypes
import json
import os
import signal
import statistics
import time

import samples
from machine import COPY_BYTES, Clocks, descendant, fakes
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


def rates(m, metrics):
    """What `capture --timeline` says of each metric, a second, over three seconds; why it does not."""
    path = m.work / "beside.jsonl"
    r = m.client("capture", "--timeline", "--devices", 0, "-d", 3, "--metrics", metrics, f"--stream={path}", "-f")
    rows = [s for s in map(json.loads, open(path)) if s["type"] == "sample"] if r.returncode == 0 else []
    seconds = sum(s["end_ns"] - s["start_ns"] for s in rows) / 1e9
    return [sum(s["values"][i] for s in rows) / seconds for i in range(metrics.count(",") + 1)] if seconds else r.stderr.strip()[-300:]


def peak_bandwidth():
    """Bytes a second of the first GPU's memory, by the driver's clock and width."""
    cuda, device, value, found = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_int(), []
    cuda.cuInit(0)
    cuda.cuDeviceGet(ctypes.byref(device), 0)
    for attribute in (36, 37):  # kHz, bits
        cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        found.append(value.value)
    return 2 * found[0] * 1e3 * found[1] / 8


def activity(m):
    """What NVML says of the whole GPU (GPM, in `status`), beside `capture --timeline` of the same copies: the daemon samples
    NVML each five seconds, so what it says twelve seconds after the copies have begun is of them alone."""

    def told():
        gpu = json.loads(m.client("status", "--json").stdout)["gpus"][0]
        print(f"    {gpu['activity']} {gpu['activity_unknown']}")
        return gpu["activity"], gpu["activity_unknown"]

    p = m.start([m.workload, *COPIES, "--repeat", 100000])
    began, clocks = time.time(), None if fakes else Clocks()
    time.sleep(6)
    memory, sms = rates(m, BYTES), rates(m, SM)
    time.sleep(max(0, began + 12 - time.time()))
    busy, unknown = told()
    if clocks:
        clocks.end()
    p.end()
    if not busy:
        row("NVML's activity of the GPU", f"not known: {unknown}", "known on Hopper and newer", fakes)
        return
    row("NVML samples each five seconds", f"over {busy['over_ns'] / 1e9:.2f} s", "4 to 11 s", 4 <= busy["over_ns"] / 1e9 <= 11)
    if isinstance(memory, list) and not fakes:
        peak = peak_bandwidth()
        nvml = busy["dram_pct"] / 100 * peak
        row("memory, by NVML and by --timeline", f"{busy['dram_pct']:.1f} % of {peak / 1e12:.3f} TB/s = {nvml / 1e12:.3f} TB/s; {sum(memory) / 1e12:.3f} TB/s: {nvml / sum(memory) - 1:+.1%}",
            "5 %", abs(nvml / sum(memory) - 1) <= 0.05)
    else:
        row("memory by --timeline", memory, "known", fakes)
    if isinstance(sms, list) and clocks:
        mhz = statistics.median(s[1] for s in clocks.seen)
        active = sms[1] / (mhz * 1e6) * 100
        row("SMs, by NVML and by --timeline", f"{busy['sm_pct']:.1f} %; {sms[1] / 1e6:.0f} M active cycles a second of {mhz:.0f} MHz = {active:.1f} %", "5 points", abs(active - busy["sm_pct"]) <= 5)
    else:
        row("SMs by --timeline", sms)
    row("tensor cores, PCIe and NVLink beside copies within the GPU", ", ".join(f"{k} {v}" for k, v in busy.items() if k.startswith(("tensor", "pcie", "nvlink"))),
        "tensor cores below 1 %", fakes or busy["tensor_pct"] < 1)
    time.sleep(12)
    idle, unknown = told()
    row("memory when nothing runs", f"{idle and idle['dram_pct']} % {unknown}", "below 1 %", fakes or bool(idle) and idle["dram_pct"] < 1)


def sampling(m):
    who_may(m)
    known_bytes(m)
    timeline(m)
    cost(m)
    intervals(m, "memory metrics", BYTES, ["20us", "10us", "5us", "2us"])
    intervals(m, "SM and memory metrics", f"{BYTES},{SM}", ["1ms", "500us", "200us", "100us", "50us", "20us", "10us"])
    faults(m)
