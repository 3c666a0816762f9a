# SPDX-License-Identifier: Apache-2.0
"""R30: whatever becomes of the daemon or of CUPTI, a program does as it does unmeasured."""
import os
import signal
import subprocess
import time

from machine import MEMORY, TOOLKIT, fakes
from table import row

SHORT = ("--kernels", 50, "--exit", 3)
LONG = ("--kernels", 60, "--sleep-ms", 25, "--exit", 3)


def plain(m, args):
    r = m.run([m.program, *args])
    return r.returncode, r.stdout


def compare(what, got, expected):
    row(f"R30 {what}", f"exit {got[0]}, {len(got[1].splitlines())} lines", f"exit {expected[0]}, the same lines", got == expected)


def measured(m, *args, **kw):
    r = m.client("--metrics", MEMORY, "--quiet", "--", m.program, *args, timeout=60, **kw)
    return r.returncode, r.stdout


def by_hand(m, *args):
    """As a child of the measured program that outlives its capture: an agent, and a token of nothing."""
    r = m.run([m.program, *args], timeout=60,
              env={"CUDA_INJECTION64_PATH": m.agent, "NVTX_INJECTION64_PATH": m.agent, "GPUCTR_TOKEN": "0123456789abcdef0123456789abcdef"})
    return r.returncode, r.stdout


def while_running(m, act, undo=None):
    """The output of a measured program in the middle of which act happens."""
    p = m.start_client("--metrics", MEMORY, "--quiet", "--", m.program, *LONG)
    p.wait_for("launched 7")
    act()
    p.wait_for("done ", 30)
    if undo:
        undo()
    return p.wait(30), p.out()


def kinds_of_programs(m):
    for what, args in (("a fork without exec", (*SHORT, "--fork")), ("an exit from a signal handler", (*SHORT, "--exit-in-signal")),
                       ("200 threads", ("--kernels", 20, "--threads", 200, "--exit", 3))):
        compare(what, measured(m, *args), plain(m, args))


def without_cupti(m, expected):
    """In a mount namespace where the toolkit's folder is empty. A library by its name that is none of
    NVIDIA's stands for another version."""
    if fakes:
        return
    hide = " && ".join(f"mount -t tmpfs none {os.path.realpath(d)}" for d in TOOLKIT if os.path.isdir(d))
    hidden = ["unshare", "-m", "sh", "-c", f'{hide or "true"} && exec "$@"', "sh"]
    if subprocess.run([*hidden, "true"], capture_output=True, timeout=20).returncode != 0:
        row("R30 CUPTI is missing", "this machine gives no mount namespace", "told")
        return
    argv = m.argv([m.client_path, "--metrics", MEMORY, "--quiet", "--", m.program, *SHORT], 1000)
    r = m.run([*hidden, *argv], uid=0, timeout=60)
    compare("CUPTI is missing" + ("" if "CUPTI" in r.stderr.upper() else " (and nobody was told)"), (r.returncode, r.stdout), expected)
    other = m.stage / "other"
    other.mkdir(exist_ok=True)
    (other / "libcupti.so.13").write_bytes((m.stage / "libgpu-deny.so").read_bytes())
    other.chmod(0o755)
    (other / "libcupti.so.13").chmod(0o755)
    compare("CUPTI is of another version", measured(m, *SHORT, env={"LD_LIBRARY_PATH": f"{other}:{m.env['LD_LIBRARY_PATH']}"}), expected)


def safe(m):
    short, long = plain(m, SHORT), plain(m, LONG)
    m.use_daemon()
    compare("measured", measured(m, *SHORT), short)
    kinds_of_programs(m)
    without_cupti(m, short)
    front = m.workers()["front"]["pid"]
    compare("the daemon hangs", while_running(m, lambda: os.kill(front, signal.SIGSTOP), lambda: os.kill(front, signal.SIGCONT)), long)
    os.kill(front, signal.SIGSTOP)
    try:
        t = time.time()
        compare("the daemon hangs at the start", by_hand(m, *SHORT), short)
        row("R30 how long it kept the program", f"{time.time() - t:.1f} s", "told")
    finally:
        os.kill(front, signal.SIGCONT)
    compare("the daemon is killed", while_running(m, m.daemon.kill), long)
    m.daemon.wait(10)
    m.daemon = None
    compare("there is no daemon", by_hand(m, *SHORT), short)
    m.use_daemon("connections-per-user=1")
    compare("the daemon is full", measured(m, *SHORT), short)
