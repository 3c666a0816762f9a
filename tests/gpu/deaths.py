# SPDX-License-Identifier: Apache-2.0
"""Whoever is killed: memory is freed, the program runs on, the next one is served."""
import os
import signal
import time

from figures import number
from machine import MEMORY, descendant, fakes, memory_used_mib
from table import row

PROGRAM = ("--kernels", 40, "--sleep-ms", 10, "--exit", 3)
SERVICE_S, PATIENCE_S = 1.0, 15
POINTS = 8
REPEATS = 5 if os.environ.get("GPUCTR_TEST_FULL") else 1


def kill(pid):
    """False when it has ended already."""
    try:
        os.kill(pid, signal.SIGKILL)
        return True
    except (ProcessLookupError, TypeError):
        return False


# --- R9 ---

def memory(m):
    if fakes:
        return
    before = memory_used_mib()
    p = m.start_client("--metrics", MEMORY, "--", m.workload, "--kind", "tiny", "--kernels", 400, "--repeat", 1, "--sleep-ms", 50, "--bytes", 2 << 30)
    by = time.time() + 15
    while memory_used_mib() < before + 4096 and time.time() < by:
        time.sleep(0.1)
    time.sleep(1)  # until its first batch: the daemon then holds its files
    held = memory_used_mib()
    kill(descendant(p.pid, "gpu-workload"))
    t = time.time()
    while memory_used_mib() > before + 100 and time.time() - t < 5:
        time.sleep(0.02)
    freed = time.time() - t
    row("R9 a killed program's 4 GiB", f"{before} -> {held} -> {memory_used_mib()} MiB, free after {freed:.2f} s", "<= 1 s",
        held > before + 4000 and freed <= 1)
    code = p.wait(30)
    row("R9 its client", f"exit {code}", 137, code == 137)


# --- R21 ---

def start(m, name):
    """The program under a client, with its output and status in files: they outlive the client."""
    files = [m.work / f"{name}.{kind}" for kind in ("stdout", "status")]
    for f in files:
        f.unlink(missing_ok=True)
    script = f"{m.program} {' '.join(map(str, PROGRAM))} > {files[0]}; echo $? > {files[1]}"
    return m.start_client("--metrics", MEMORY, "--quiet", "--", "sh", "-c", script), files


def is_over(p, files, victim):
    """Of a client that is gone, the program alone may still run. It never began if it was killed first."""
    if p.runs():
        return False
    return victim != "client" or files[1].exists() or not files[0].exists()


def result(p, files, victim):
    """Output and status of the program once it has ended; None for what is missing."""
    by = time.time() + PATIENCE_S
    while time.time() < by and not is_over(p, files, victim):
        time.sleep(0.01)
    if victim == "client" and not files[0].exists():
        time.sleep(0.2)
    p.wait(1)
    return [f.read_text().strip() if f.exists() else None for f in files]


def service(m, victim):
    """Seconds until a new capture has begun; for gpu and planner, whose death ends none, until there is a plan."""
    t = time.time()
    what = ("metrics", "--fit", MEMORY) if victim in ("gpu", "planner") else ("--metrics", MEMORY, "--wait", "0", "--", "date", "+%s.%N")
    while time.time() - t < PATIENCE_S:
        r = m.client(*what, timeout=PATIENCE_S)
        if r.returncode == 0:
            return time.time() - t if victim in ("gpu", "planner") else number(r.stdout, r"([\d.]+)") - t
        time.sleep(0.02)
    return float("inf")


def kill_at(m, victim, delay):
    """Seconds to service, output and status of the program, exit status of its client."""
    p, files = start(m, f"{victim}-{time.monotonic_ns()}")
    program = descendant(p.pid, "gpu-program", 5) if victim == "program" else None
    time.sleep(delay)
    if victim == "client":
        kill(p.pid)
    elif victim == "program":
        kill(program)
    else:
        kill(m.workers().get(victim, {}).get("pid"))
    back = service(m, victim)
    return back, result(p, files, victim), p.p.returncode


def as_it_should(victim, got, expected, code):
    """As if unmeasured; or killed, with what it had said; or never begun, because its client was killed
    or refused before."""
    out, status = got
    if victim == "program" and status == "137":
        return expected[0].startswith(out)
    return [out, status] == expected or (out is None and (victim == "client" or code == 125))


def life_of(m, expected):
    """Seconds from a client's start to the end of its program, when nobody is killed."""
    t = time.time()
    p, files = start(m, "unharmed")
    got = result(p, files, None)
    row("R21 nobody killed", f"{time.time() - t:.1f} s of life", "as unmeasured", got == expected)
    return time.time() - t


def kill_at_all_points(m, victim, life, expected):
    times, harmed = [], []
    for i in range(POINTS * REPEATS):
        if i % POINTS == 0:
            m.use_daemon(fresh=True)  # from the eleventh death of a process on it comes back later
        # A program is waited for before it is killed, which takes up to half of that life.
        delay = (i % POINTS + 0.5) / POINTS * life * (0.5 if victim == "program" else 1)
        back, got, code = kill_at(m, victim, delay)
        times.append(back)
        if not as_it_should(victim, got, expected, code):
            harmed.append((i % POINTS, got[1], code))
    row(f"R21 {victim} killed", f"{len(times)} times, service after {sorted(times)[len(times) // 2]:.2f} s, at most {max(times):.2f} s; "
        f"{len(harmed)} programs harmed {harmed[:3]}", f"{SERVICE_S:.0f} s, 0 harmed", max(times) <= SERVICE_S and not harmed)


def kills(m):
    plain = m.run([m.program, *PROGRAM])
    expected = [plain.stdout.strip(), str(plain.returncode)]
    life = life_of(m, expected)
    for victim in ("client", "program", "front", "granter", "gpu", "planner"):
        kill_at_all_points(m, victim, life, expected)
        r = m.client("--metrics", MEMORY, "--wait", "0", "--", m.program)
        row("R21 next capture after it", f"exit {r.returncode}, {'100 measured' in r.stderr}", "0, True", r.returncode == 0 and "100 measured" in r.stderr)
