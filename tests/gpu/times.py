# SPDX-License-Identifier: Apache-2.0
"""Is a kernel's time its own: against torch.profiler."""
import collections
import json

from figures import median
from machine import MEMORY
from table import row


def by_name(pairs):
    found = collections.defaultdict(list)
    for name, us in pairs:
        found[name].append(us)
    return found


def compare(m, model):
    path = m.work / f"{model}.json"
    path.unlink(missing_ok=True)
    theirs = m.run(["python3", m.stage / "times.py", model, path], denied=False, timeout=200)
    r, kernels, totals = m.capture("times.jsonl", "--metrics", MEMORY, "--", "python3", m.stage / "times.py", model)
    if theirs.returncode != 0 or not path.exists():
        row(f"{model}: torch.profiler", theirs.stderr[-300:], "runs", False)
        return
    theirs = json.load(open(path))
    # Autograd's thread has no range of ours: from the first kernel within on, all are of the ten steps.
    begin = min((k["start_ns"] for k in kernels if any(x["message"] == "ten" for x in k["nvtx"])), default=0)
    ours = [(k["kernel"], k["duration_ns"] / 1e3) for k in kernels if k["duration_ns"] and k["start_ns"] >= begin]
    a, b = sum(us for _, us in ours), sum(us for _, us in theirs)
    row(f"{model}: sum of kernels' times, ten steps", f"{len(ours)} kernels {a / 1e3:.3f} ms, torch.profiler {len(theirs)} {b / 1e3:.3f} ms, "
        f"{a / b - 1 if b else 9:+.2%}", "3 %", bool(b) and abs(a / b - 1) <= 0.03)
    ours, theirs = by_name(ours), by_name(theirs)
    common = [n for n in ours if n in theirs]
    off = [n for n in common if abs(median(ours[n]) - median(theirs[n])) > max(0.3, 0.05 * median(theirs[n]))]
    for n in off[:5]:
        print(f"    {n[:80]}: {median(ours[n]):.2f} us, theirs {median(theirs[n]):.2f}")
    row(f"{model}: medians by kernel", f"{len(common)} names in common of {len(ours)} and {len(theirs)}, {len(off)} off",
        "none beyond 5 % or 0.3 us", len(common) >= 0.9 * len(theirs) and not off)
    first = {}
    for k in kernels:
        first.setdefault((k["kernel"], tuple(k["grid"])), []).append(k)
    late = [v for v in first.values() if len(v) >= 10 and v[0]["duration_ns"] and abs(v[0]["duration_ns"] / median([k["duration_ns"] for k in v[1:]]) - 1) > 0.25
            and abs(v[0]["duration_ns"] - median([k["duration_ns"] for k in v[1:]])) > 1000]
    row(f"{model}: first launches", f"{len(late)} of {len(first)} kernels and grids more than a quarter and 1 us off the later ones' median", "few",
        len(late) <= 0.1 * len(first))
    known = [k for k in kernels if k["kind"] != "graph"]
    registers = sum(1 for k in known if k.get("registers"))
    row(f"{model}: kernels whose registers are known", f"{registers} of {len(known)}", "all", bool(known) and registers == len(known))


def times(m):
    for model in ("resnet", "transformer"):
        compare(m, model)
