# SPDX-License-Identifier: Apache-2.0
"""R29: the same numbers through the daemon as root has without it, and nobody else's."""
import re

from machine import INSTRUCTIONS, MEMORY, OTHER
from table import row

BYTES = "dram__bytes_read.sum,dram__bytes_write.sum"


def of_root(m, metrics, *args):
    """What a bare CUPTI profiler measures as root: a list of values for each range."""
    r = m.run([m.workload, *args, "--repeat", 1, "--floor", metrics, "--batch", 64, "--values"], uid=0)
    return [[float(x) for x in line.split()[2:]] for line in r.stdout.splitlines() if re.match(r"range \d", line)]


def of_user(m, metrics, *args, **kw):
    r, kernels, totals = m.capture("numbers.jsonl", "--metrics", metrics, "--", m.workload, *args, "--repeat", 1, **kw)
    return [[k["metrics"][name] for name in metrics.split(",")] for k in kernels]


def compare(m):
    m.use_daemon()
    args = ("--kind", "fma", "--kernels", 20)
    root, user = (sorted({v[0] for v in f(m, INSTRUCTIONS, *args)}) for f in (of_root, of_user))
    row("R29 instructions of a known kernel", f"root {root}, user {user}", "equal", root == user and bool(user))
    args = ("--kind", "copy", "--kernels", 32)
    root, user = (f(m, BYTES, *args) for f in (of_root, of_user))
    for i, name in enumerate(BYTES.split(",")):
        a, b = (sum(v[i] for v in x) / max(1, len(x)) for x in (root, user))
        row(f"R29 {name} of 256 MiB copies", f"root {a:.0f}, user {b:.0f}, {b / a - 1 if a else 9:+.3%}", "1 %", bool(a) and abs(b / a - 1) <= 0.01)
    first_read(m)


def first_read(m):
    """A user of much traffic, then another's kernels that make none: the first of them shows no trace."""
    m.client("--metrics", MEMORY, "--", m.workload, "--kind", "copy", "--kernels", 200, "--repeat", 1)
    v = of_user(m, f"{INSTRUCTIONS},{BYTES}", "--kind", "tiny", "--kernels", 50, uid=OTHER)
    first, rest = v[0] if v else [0, 9e9, 9e9], v[1:]
    most = [max((x[i] for x in rest), default=0) for i in range(3)]
    row("R29 first kernel after another user's", f"instructions {first[0]:.0f} (then {sorted({x[0] for x in rest})}), read {first[1]:.0f} and "
        f"written {first[2]:.0f} bytes (then at most {most[1]:.0f} and {most[2]:.0f})", "the same, under 1 MiB",
        {x[0] for x in rest} == {first[0]} and max(first[1:]) < 1 << 20)
