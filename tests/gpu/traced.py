# SPDX-License-Identifier: Apache-2.0
"""Kernels of a trace that torch.profiler wrote, with bytes from samples that an agentless capture --timeline took meanwhile,
against the same kernels measured one by one."""
import json
import signal
import time

from budgets import PROGRAMS
from figures import median
from sampled import LIST, METRICS, SECONDS, alike, compare, positions, steps_of
from table import row


def sampled_trace(m, model, batch, iterations):
    """The trace and the samples of its seconds: paths, or None."""
    trace, samples, go = (m.work / name for name in ("torch.json.gz", "gpu.jsonl", "go"))
    for path in (trace, samples, go):
        path.unlink(missing_ok=True)
    p = m.start(["python3", m.stage / "traced.py", trace, "--go", go, "--model", model, "--batch", batch, "--iterations", iterations])
    p.wait_for("traced ready", 120)
    t = m.start_client("capture", "--timeline", "--gpu", "0", "--metrics", LIST, "--duration", 60, "--format", "jsonl", "--output", samples, "-f")
    by = time.time() + 30
    while time.time() < by and t.runs() and not (samples.exists() and samples.stat().st_size > 10000):
        time.sleep(0.05)
    go.touch()
    p.wait_for("traced 2", 120)
    t.p.send_signal(signal.SIGINT)
    t.wait(30)
    p.wait(30)
    print("   ", p.out().strip().splitlines()[-1], "; ", t.err().strip().splitlines()[-1])
    return trace, samples


def names(step):
    return [k["kernel"].replace(" ", "") for k in step]


def of_trace(m, model, exact, batch):
    """Each iteration's kernels as merge makes them, in the form of a capture."""
    ms = median([(s[-1]["start_ns"] - s[0]["start_ns"]) / 1e6 for s in exact]) if exact else 100
    trace, samples = sampled_trace(m, model, batch, max(10, int(SECONDS * 1e3 / ms)))
    kept = m.work / "traced.gpuctr"
    begin = time.time()
    r = m.client("merge", trace, "--samples", samples, "-f", "-o", m.work / "merged.json.gz", "--capture", kept, timeout=300)
    print("\n".join("    " + line for line in r.stderr.splitlines()))
    row(f"{model}: merge --samples", f"exit {r.returncode}, {time.time() - begin:.1f} s", "exit 0", r.returncode == 0)
    again = [m.client("report", kept, "--json", *more).stdout for more in ((), ("--attribute",))]
    row(f"{model}: attributed again from its capture file", f"{len(again[0])} bytes of report", "the same bytes", bool(again[0]) and again[0] == again[1])
    kernels = [json.loads(line) for line in m.client("export", kept, "--to", "jsonl", timeout=300).stdout.splitlines()]
    kernels = [k for k in kernels if k["type"] == "kernel"]
    ops = sum(any("::" in n["message"] for n in k["nvtx"]) for k in kernels)
    row(f"{model}: kernels of the trace within an operator", f"{ops} of {len(kernels)}", ">= 90 %", ops >= 0.9 * len(kernels))
    return alike(steps_of(kernels))


def torchtrace(m):
    for model in ("transformer", "gpt"):
        batch, _ = PROGRAMS[model]
        net = ["python3", m.stage / "net.py", "--model", model, "--batch", batch, "--profile", "--iterations", 12]
        _, exact, _ = m.capture("exact.jsonl", "--metrics", LIST, "--profile-from-start", "off", "--", *net)
        exact = alike(steps_of(exact))
        found = of_trace(m, model, exact, batch)
        row(f"{model}, torch.profiler: iterations compared", f"{len(exact)} in ranges, {len(found)} in the trace, of {len(exact[0]) if exact else 0} and "
            f"{len(found[0]) if found else 0} kernels", "the same kernels", bool(exact and found) and names(exact[0]) == names(found[0]))
        if exact and found and len(exact[0]) == len(found[0]):
            for metric in METRICS:
                compare(f"{model}, torch.profiler", metric, positions(exact, metric), positions(found, metric))
