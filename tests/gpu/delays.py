# SPDX-License-Identifier: Apache-2.0
"""Kernels that wait for the CPU, as autotuners launch them, and long ones that wait for nothing."""
import re
import time

from machine import MEMORY
from table import row

SM = "sm__inst_executed.sum"
LINE = re.compile(r"(.+), delay ([0-9.]+) ms, (\d+) long, then ([0-9.]+) ms, (\d+) long, limit (\d+)")
TURNS = 5  # launches of a case that may take longer: a batch ends, which takes CUPTI 12 ms, and 0.4 s where it grows
WAIT_MS = 0.35  # a kernel's time that is longer may contain our wait, of 0.4 ms
ROUNDS = 100


def program(m, *args):
    return [m.delay, *args]


def measured(m, metrics, argv, options=()):
    t = time.time()
    r, kernels, totals = m.capture("delays.jsonl", "--metrics", metrics, *options, "--", *argv, timeout=120)
    return r, kernels, totals, time.time() - t


def compare(m, how, metrics, options, longs=0):
    """longs: of calls while the kernel waits, 1 ms at most each else."""
    plain = {case: figures for case, *figures in LINE.findall(m.run(program(m, how, ROUNDS), timeout=120).stdout)}
    r, kernels, totals, seconds = measured(m, metrics, program(m, how, ROUNDS), options)
    what = f"delay, {how}, {'SM' if metrics == SM else 'memory'} metrics{''.join(' ' + o for o in options)}"
    lines = LINE.findall(r.stdout)
    for case, delay, n_delay, then, n_then, limit in lines:
        row(f"{what}: {case}", f"the CPU was kept {delay} ms ({n_delay} times 1 ms), then {then} ({n_then}), plain {plain[case][0]} and {plain[case][2]}; "
            f"{limit} ran out", f"{longs + TURNS} and {longs} times 1 ms, 0 ran out",
            int(n_delay) <= longs + TURNS and int(n_then) <= longs and limit == "0")
    told = [k["duration_ns"] / 1e6 for k in kernels if k["kernel"] == "delays" and k["duration_ns"]]
    n_long = sum(t > WAIT_MS for t in told)
    row(f"{what}: program", f"exit {r.returncode}, {len(lines)} cases, {totals.get('measured')} of {totals.get('seen')} measured, {seconds:.1f} s; "
        f"times told of {len(told)} that wait: {n_long} above {WAIT_MS} ms, the longest {max(told, default=0):.3f}",
        f"{len(plain)} cases, 1 % above {WAIT_MS} ms",
        r.returncode == 0 and len(lines) == len(plain) > 0 and n_long <= len(told) / 100)
    return r


def long_kernels(m, how, n, least, options=()):
    for name, metrics in (("memory", MEMORY), ("SM", SM)):
        r, kernels, totals, seconds = measured(m, metrics, program(m, how, n), options)
        row(f"{how}: {n} kernels of 2 ms in two streams, {name} metrics", f"exit {r.returncode}, {totals.get('measured')} measured, {seconds:.1f} s",
            f"at least {least}", r.returncode == 0 and f"long done {n}" in r.stdout and totals.get("measured", 0) >= least)


def delays(m):
    m.use_daemon()
    for how in ("one", "several"):
        for options in ((), ("--kernel", "regex:adds"), ("--kernel", "regex:delays")):
            compare(m, how, MEMORY, options)
        r = compare(m, how, SM, (), 4)
        row(f"delay, {how}, SM metrics: what is left out is told", f"{r.stderr.count('delays did not end')} times", "once by name",
            r.stderr.count("delays did not end") == 1)
    long_kernels(m, "long", 400, 360)
    long_kernels(m, "long-one", 400, 390)


def autotuned(m):
    """A JAX training: XLA launches a kernel that waits for the CPU before each convolution that it times."""
    argv = ["python3", m.stage / "autotuned.py"]
    t = time.time()
    plain = m.run(argv, timeout=300)
    plain_s = time.time() - t
    if plain.returncode != 0:
        row("autotuned: a JAX training", f"not run: {plain.stdout.strip() or plain.stderr.strip()[-200:]}", "told")
        return
    r, kernels, totals, seconds = measured(m, MEMORY, argv)
    waits = [k for k in kernels if "delay" in k["kernel"].lower()]
    bound = plain_s + totals.get("seen", 0) * 80e-6 + 8  # a range each, and the first Starts
    row("autotuned: a JAX training, memory metrics in ranges",
        f"exit {r.returncode}, {seconds:.1f} s, plain {plain_s:.1f} s; {totals.get('measured')} of {totals.get('seen')} measured; "
        f"{len(waits)} kernels that wait, told {sum(k['duration_ns'] or 0 for k in waits) / 1e9:.3f} s, the longest {max((k['duration_ns'] or 0 for k in waits), default=0) / 1e6:.1f} ms; "
        f"{r.stdout.strip()}; plain: {plain.stdout.strip()}",
        f"at most {bound:.1f} s", r.returncode == 0 and seconds <= bound)
