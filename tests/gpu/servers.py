# SPDX-License-Identifier: Apache-2.0
"""Programs that give the GPU work from several threads, or in several streams, at one time, every kernel measured."""
from figures import told
from machine import MEMORY
from table import row

# Threads, streams of each, kernels of a step, how long one runs (us), and seconds.
SERVERS = (4, 1, 50, 100, 6), (1, 4, 100, 100, 6), (8, 1, 8, 20, 6)


def servers(m):
    for server in SERVERS:
        threads, streams, kernels, us, _ = server
        r, _, totals = m.capture("server.jsonl", "--metrics", MEMORY, "--", m.serves, *server, timeout=60)
        measured, unready = (totals.get(name, 0) for name in ("measured", "unready"))
        row(f"{threads} threads, {streams} streams each, {kernels} kernels of {us} us a step: ranges that other launches spoilt",
            f"exit {r.returncode}, {told(totals)}", "a tenth", r.returncode == 0 and unready * 10 <= measured > 0)
    r = m.client("run", "--metrics", MEMORY, "--quiet", "--", m.serves, 4, 3, 12, 50, 4, "renew", timeout=30)
    row("threads that make and end streams", f"exit {r.returncode}, {(r.stdout.splitlines() or [''])[-1]}", "0, done",
        r.returncode == 0 and "fakeserve done" in r.stdout)
