# SPDX-License-Identifier: Apache-2.0
"""Who may do what: without the daemon, by its processes' powers, beside other users, and in turn."""
import time

from figures import hexadecimal, number
from machine import MEMORY, OTHER, descendant, status_of
from table import row

NONE, PERFMON = "0000000000000000", "0000004000000000"
SETS = ("CapEff", "CapPrm", "CapInh", "CapAmb")


def refusal(m):
    """Nothing without a daemon: run before there is one."""
    r = m.run([m.workload, "--kind", "tiny", "--kernels", 10, "--repeat", 1, "--floor", MEMORY, "--batch", 64])
    row("CUPTI as a user, without the daemon", (r.stdout + r.stderr).strip().splitlines()[-1], "failed: 35", "failed: 35" in r.stderr)
    r = m.client("--metrics", MEMORY, "--", m.workload, "--kernels", 10)
    row("client without the daemon", f"exit {r.returncode}, {'no-daemon' in r.stderr}", "125, no-daemon",
        r.returncode == 125 and "no-daemon" in r.stderr)


# --- R1 ---

def powers_are_right(name, s):
    want = PERFMON if name in ("gpucountd", "granter", "gpu") else NONE
    sets = [s[k].strip() for k in SETS] == [want, want, NONE, NONE]
    worker = name in ("front", "granter", "gpu", "planner")
    locked = name in ("client", "program") or (s["NoNewPrivs"].strip() == "1" and (not worker or s["Seccomp"].strip() == "2"))
    return sets and locked and s["Uid"].split()[0] != "0"


def capabilities(m):
    p = m.start_client("--metrics", MEMORY, "--", m.grants, "broker", 1000, "--every-ms", 1)
    program = descendant(p.pid, "gpu-grants")
    looks, wrong, last = 0, [], {}
    while p.runs() and looks < 100000:
        last = dict(m.workers(), client=status_of(p.pid), program=status_of(program))
        for name, s in last.items():
            if s and s["State"][0] not in "ZX":
                looks += 1
                wrong += [] if powers_are_right(name, s) else [(name, [s[k].strip() for k in SETS])]
        time.sleep(0.002)
    p.wait(60)
    granted = number(p.out(), r"granted (\d+)", 0)
    row("R1 capabilities of every process", f"{granted:.0f} grants, {looks} looks at /proc, {len(wrong)} wrong {wrong[:2]}", "1,000 grants, 0 wrong",
        granted == 1000 and looks > 100 and not wrong)
    for name, s in sorted(m.workers().items()):
        row(f"R1 {name}", f"uid {s['Uid'].split()[0]} CapEff {s['CapEff'].strip()} NoNewPrivs {s['NoNewPrivs']} Seccomp {s['Seccomp']} "
            f"RSS {int(s['VmRSS'].split()[0]) // 1024} MiB", PERFMON if name != "front" else NONE, powers_are_right(name, s))


# --- R5 ---

def asks(m, what, good_when_refused=True, **kw):
    """One grant for the numbers in kw; a row."""
    mode = kw.pop("mode", "broker")
    argv = [m.grants, mode, 1] + [a for k, v in kw.items() for a in (f"--{k}", v)]
    r = m.run(argv, uid=0) if mode == "bare" else m.client("--metrics", MEMORY, "--", *argv)
    granted = number(r.stdout, r"granted (\d+)", -1)
    row(what, f"granted {granted:.0f}, status {hexadecimal(r.stdout, 'status')}, exit {r.returncode}", "refused" if good_when_refused else "told",
        (granted == 0) if good_when_refused else None)
    return r


def contexts(m):
    m.use_daemon("sharing=shared")
    theirs = m.start([m.grants, "hold", 60], uid=OTHER)
    theirs.wait_for("numbers")
    root, context = (hexadecimal(theirs.out(), n) for n in ("root", "context"))
    target = hexadecimal(theirs.out(), "target")
    row("R5 CUPTI's numbers", f"client that asks {root}, target client {target}, context {context}", "a target", "0x0" not in (root, target, context))
    asks(m, "R5 another user's context", target=target, context=context)
    asks(m, "R5 another user's client, own context", target=target)
    asks(m, "R5 the driver by itself, of root", False, mode="bare", target=target, context=context)
    theirs.end()
    asks(m, "R5 numbers of a process that has ended", target=target, context=context)
    another_users_token(m)


def another_users_token(m):
    file = m.work / "token"
    holder = m.start_client("--metrics", MEMORY, "--", "sh", "-c", f"echo $GPUCTR_TOKEN > {file}; sleep 30")
    by = time.time() + 10
    while time.time() < by and not (file.exists() and file.read_text().strip()):
        time.sleep(0.02)
    r = m.run([m.grants, "broker", 1], uid=OTHER, env={"GPUCTR_TOKEN": file.read_text().strip()})
    granted = number(r.stdout, r"granted (\d+)", -1)
    row("R5 another user's token", f"granted {granted:.0f}, status {hexadecimal(r.stdout, 'status')}", "refused", granted == 0)
    holder.end()


# --- R7 ---

def tenancy(m):
    m.use_daemon()
    took = []
    for _ in range(3):
        holder = m.start_client("--metrics", MEMORY, "--", m.grants, "broker", 100000, "--every-ms", 1)
        holder.wait_for("numbers")
        time.sleep(0.3)
        other = m.start([m.grants, "hold", 30], uid=OTHER)
        other.wait_for("context at")
        code = holder.wait(20)
        appeared = number(other.out(), r"context at ([\d.]+)")
        took.append((number(holder.out(), r"first refusal at ([\d.]+)") - appeared) * 1000)
        r = m.client("--metrics", MEMORY, "--", m.program)
        other.end()
    # Negative: NVML lists a process while its context is still being made.
    row("R7 holder's grants end after another user's context", f"{', '.join(f'{t:.0f}' for t in took)} ms", "500 ms", all(t <= 500 for t in took))
    row("R7 the holder is told", f"exit {code}, {'error[revoked]' in holder.err()}", "0, True", code == 0 and "error[revoked]" in holder.err())
    row("R7 a new capture beside it", f"exit {r.returncode}, {'gpu-shared' in r.stderr}", "125, gpu-shared",
        r.returncode == 125 and "gpu-shared" in r.stderr)
    r = m.client("--metrics", MEMORY, "--", m.program)
    row("R7 once it has ended", f"exit {r.returncode}, {'100 measured' in r.stderr}", "0, True", r.returncode == 0 and "100 measured" in r.stderr)


# --- R8 ---

def leases(m):
    # The revoked program runs on unmeasured beside the next user's.
    m.use_daemon("lease-max=2s", "sharing=shared")
    a = m.start_client("--metrics", MEMORY, "--", m.workload, "--kind", "tiny", "--kernels", 60, "--repeat", 1, "--sleep-ms", 70)
    time.sleep(1)
    t = time.time()
    b = m.client("--metrics", MEMORY, "--", m.workload, "--kind", "copy", "--kernels", 64, "--repeat", 1, uid=OTHER, timeout=60)
    waited = time.time() - t
    code = a.wait(60)
    row("R8 holder whose lease ran out", f"exit {code}, told: {'lease-expired' in a.err()}", "program ends well, told why",
        code == 0 and "lease-expired" in a.err())
    row("R8 next user", f"exit {b.returncode} after {waited:.1f} s, measured 64: {' 64 measured' in b.stderr}", "measures",
        b.returncode == 0 and " 64 measured" in b.stderr)
    revoked_object(m)
    r = m.client("--metrics", MEMORY, "--wait", "0", "--", m.workload, "--kernels", 10, "--repeat", 1)
    row("R8 afterwards", f"exit {r.returncode}", "0", r.returncode == 0)


def revoked_object(m):
    """A program that keeps its object beyond its lease. Whether it is gone the driver does not tell: freeing what does not exist is fine with
    it. That the next user can have one does."""
    a = m.start_client("--metrics", MEMORY, "--", m.grants, "broker", 100000, "--every-ms", 1, "--keep")
    a.wait_for("numbers")
    b = m.client("--metrics", MEMORY, "--", m.grants, "broker", 1, uid=OTHER, timeout=60)
    a.wait(30)
    gone = hexadecimal(a.out(), "free says")
    row("R8 an object after its lease", f"{number(a.out(), r'granted ([0-9]+)', 0):.0f} granted before, the driver's free says {gone}", "told")
    granted = number(b.stdout, r"granted (\d+)", 0)
    row("R8 next user's object", f"granted {granted:.0f}", 1, granted == 1)
