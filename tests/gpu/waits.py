# SPDX-License-Identifier: Apache-2.0
"""R31: measuring hangs nothing. Programs whose kernels wait for what is launched or written later."""
import time

from machine import MEMORY
from table import row

SM = "sm__inst_executed.sum"
CASES = ("spin", "spin-late", "host", "beside", "foreign", "persistent", "two", "threads", "alone", "filled")
LIMIT_S = 60


def plain(m, argv):
    t = time.time()
    r = m.run(argv, timeout=LIMIT_S)
    return r.returncode, r.stdout, time.time() - t


def measured(m, metrics, argv, options=()):
    """The program's status and output, how long it took, totals and notices."""
    t = time.time()
    r, kernels, totals = m.capture("waits.jsonl", "--metrics", metrics, *options, "--", *argv, timeout=LIMIT_S)
    return r.returncode, r.stdout, time.time() - t, totals, r.stderr.count("kernel-waits") + r.stderr.count("stalled")


def compare(m, what, argv, patience_s, options=()):
    expected = plain(m, argv)
    for name, metrics in (("memory", MEMORY), ("SM", SM)):
        code, out, seconds, totals, notices = measured(m, metrics, argv, options)
        counts = f"{totals.get('measured')} of {totals.get('seen')} measured"
        row(f"R31 {what}, {name} metrics", f"exit {code}, {counts}, {notices} told, {seconds:.1f} s, plain {expected[2]:.1f} s",
            f"as unmeasured, at most {patience_s} s more and the start",
            (code, out) == expected[:2] and seconds < expected[2] + patience_s + 5)


def one_gpu(m):
    for case in CASES:
        compare(m, f"{case}, 3 rounds", [m.waits, case, 3], 3)
    compare(m, "spin, 300 rounds", [m.waits, "spin", 300], 3)
    compare(m, "kernels that wait left out, 300 rounds", [m.waits, "left-out", 300], 3, ("--kernel", "regex:plain|sets"))
    # A program with nothing to wait for is measured whole, on any number of streams.
    r, kernels, totals = m.capture("streams.jsonl", "--metrics", SM, "--", "python3", m.stage / "streams.py")
    row("R31 three streams, two threads, SM metrics", f"exit {r.returncode}, {totals.get('measured')} of {totals.get('seen')} measured",
        "all but those that a graph captures", r.returncode == 0 and totals.get("seen") == totals.get("measured") + totals.get("capturing", 0))


def several_gpus(m):
    compare(m, "collective from one thread, 100 rounds", [m.waits, "devices", 100], 3)
    for kind in ("all-reduce", "data-parallel"):
        compare(m, f"torch, {kind}", ["python3", m.stage / "parallel.py", kind], 25)


def waits(m):
    m.use_daemon()
    one_gpu(m)
    if m.gpus > 1:
        several_gpus(m)
