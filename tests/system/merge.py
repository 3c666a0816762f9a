#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""merge CLIENT RECORDING: what gpuctr-client merge puts into a trace of another run.

The traces are made here, in the form that torch.profiler writes: from the recording's kernels, with correlation ids
and times of their own, in another order, some missing and some more."""

import collections
import gzip
import json
import pathlib
import random
import resource
import shutil
import sqlite3
import subprocess
import sys

sys.dont_write_bytecode = True
from checks import check, run_tests  # noqa: E402

CLIENT, RECORDING = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
COLUMNS = ("dram__bytes_read.sum", "dram__bytes_write.sum", "gpu__time_duration.sum", "lts__t_sectors.sum",
           "lts__t_requests.sum")


def merge(*arguments, status=0, says=b"", **more):
    r = subprocess.run([CLIENT, "merge", *map(str, arguments)], capture_output=True, timeout=300, check=False, **more)
    check(r.returncode == status and says in r.stderr, f"{arguments}: {r.returncode} {r.stderr!r}")
    check(status != 1 or b"remedy: " in r.stderr, f"{arguments}: no remedy: {r.stderr!r}")
    return r


def records():
    db = sqlite3.connect("run.gpuctr")
    columns = ",".join(f'"{c}"' for c in COLUMNS)
    rows = db.execute(f"SELECT k.name, {columns} FROM record r JOIN kernel k ON k.id = r.kernel ORDER BY idx").fetchall()
    db.close()
    return rows


def kernel_event(name, correlation, extra=()):
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 1.5 + correlation * 10.25, "dur": 3.125,
            "args": {"External id": 4, "device": 0, "correlation": correlation, "grid": [1, 2, 3], "block": [4, 5, 6],
                     **dict(extra)}}


def make_trace(path, events, bare=False):
    """Around the kernels what else is in a trace, with names that mislead."""
    random.Random(7).shuffle(events)
    others = []
    for i, e in enumerate(events):
        others += [{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": i, "dur": 1,
                    "args": {"correlation": i, "cat": "kernel", "note": "é}\\\"]\u2028{"}}, e]
    top = others if bare else {"schemaVersion": 1, "other": [{"cat": "kernel", "name": events[0]["name"], "args": {}}],
                               "traceEvents": others, "traceName": "x"}
    pathlib.Path(path).write_text(json.dumps(top, indent=2))
    return top


def events_of(trace):
    return trace if isinstance(trace, list) else trace["traceEvents"]


def without_counters(trace):
    for e in events_of(trace):
        e["args"] = {k: v for k, v in e["args"].items() if not k.startswith("gpuctr::")}
    return trace


def plain(name):
    """Two spellings of one name are one name."""
    return name.replace(" ", "")


def joined(trace):
    """Counters by kernel, in the order of launches."""
    found = collections.defaultdict(list)
    kernels = [e for e in events_of(trace) if e["cat"] == "kernel"]
    for e in sorted(kernels, key=lambda e: e["args"].get("correlation", 0)):
        found[plain(e["name"])].append(tuple(e["args"].get("gpuctr::" + c) for c in COLUMNS))
    return found


def every_kernel_has_its_own():
    want = collections.defaultdict(list)
    for name, *values in records():
        want[plain(name)].append(tuple(values))
    for bare in (False, True):
        before = make_trace("t.json", [kernel_event(r[0], 90000 + i * 3) for i, r in enumerate(records())], bare)
        r = merge("t.json", "run.gpuctr", "-f", "-o", "m.json")
        check(b"716 kernels have counters now; without a partner: 0 of the trace, 0 of the capture" in r.stderr, r.stderr)
        trace = json.loads(pathlib.Path("m.json").read_text())
        check(joined(trace) == want, "counters of other launches")
        check(without_counters(trace) == before, "something else has changed")
        check(merge("t.json", "run.gpuctr").stdout == pathlib.Path("m.json").read_bytes(), "standard output")


def who_has_no_partner():
    rows = records()
    events = [kernel_event(r[0], i) for i, r in enumerate(rows[:500])]
    events += [kernel_event("Memset (Device)", 9000 + i) for i in range(10)]
    events += [kernel_event(rows[0][0].replace(" >", ">"), 20000)]
    events.append({**kernel_event("no arguments", 1), "args": {}})
    make_trace("t.json", events)
    r = merge("t.json", "run.gpuctr", "-f", "-o", "m.json")
    counts = [int(w) for w in r.stderr.decode().replace(",", "").split() if w.isdigit()]
    trace = json.loads(pathlib.Path("m.json").read_text())
    has = sum(any(k.startswith("gpuctr::") for k in e["args"]) for e in events_of(trace) if e["cat"] == "kernel")
    check(counts[0] == has and counts[0] + counts[1] == 512 and counts[0] + counts[2] == 716, f"{counts}, {has}")
    check(has == 501, "names that differ in spaces alone")
    first = collections.defaultdict(list)
    for name, *values in rows:
        first[plain(name)].append(tuple(values))
    for name, values in joined(trace).items():
        known = [v for v in values if v[0] is not None]
        check(known == first[name][:len(known)], f"{name}: not the first launches of it")


def bad_traces():
    text = pathlib.Path("t.json").read_text()
    for name, content, says in (("cut", text[:len(text) // 2], b"not whole JSON"), ("text", "hello", b"not whole JSON"),
                                ("empty", "", b"not whole JSON"), ("none", '{"traceEvents": []}', b"no kernel in it"),
                                ("deep", "[" * 5000 + "]" * 5000, b"nested too deeply"),
                                ("list", "[1, 2, {}, [], null]", b"no kernel in it"),
                                ("other", json.dumps([kernel_event("x", 1)]), b"No kernel of the capture")):
        pathlib.Path(name).write_text(content)
        merge(name, "run.gpuctr", "-o", "bad.json", status=1, says=says)
    pathlib.Path("t.gz").write_bytes(gzip.compress(text.encode()))
    merge("t.gz", "run.gpuctr", "-o", "bad.json", status=1, says=b"gunzip")
    merge("nowhere", "run.gpuctr", "-o", "bad.json", status=1, says=b"nowhere: No such file")
    merge("t.json", "t.json", "-o", "bad.json", status=1, says=b"error[store-")
    merge("t.json", status=2, says=b"name a trace and a capture")
    merge("t.json", "run.gpuctr", "-o", "m.json", status=2, says=b"-f replaces it")
    merge("t.json", "run.gpuctr", "--process", "2", "-o", "bad.json", status=2, says=b"--process")
    left = [p.name for p in pathlib.Path(".").iterdir() if p.name.startswith(("bad.json", "m.json."))]
    check(not left, f"left behind: {left}")


def chosen_launches():
    """Of a capture with a budget nobody knows which launch of a name a record is of."""
    make_trace("t.json", [kernel_event(r[0], i) for i, r in enumerate(records())])
    shutil.copy("run.gpuctr", "budget.gpuctr")
    db = sqlite3.connect("budget.gpuctr")
    db.execute("INSERT OR REPLACE INTO meta(key, value) VALUES('budget_ppm', 20000)")
    db.commit()
    db.close()
    merge("t.json", "budget.gpuctr", "-o", "bad.json", status=1, says=b"chosen at random")
    check(not pathlib.Path("bad.json").exists(), "left behind")


def is_sanitized():
    """A sanitizer wants more room than any bound of ours."""
    return b"__sanitizer" in CLIENT.read_bytes() or b"__tsan" in CLIENT.read_bytes()


def memory_is_bounded():
    """A trace of 100 MB, with an address space in which it would not fit twice."""
    rows = [r[0] for r in records()]
    with open("large.json", "w") as f:
        f.write('{"traceEvents": [')
        for i in range(110000):
            f.write((",\n" if i else "") + json.dumps(kernel_event(rows[i % len(rows)], i, {"fill": "x" * 400}.items())))
        f.write("]}")
    size = pathlib.Path("large.json").stat().st_size
    check(size > 80 << 20, f"only {size} bytes")
    limit = 64 << 20
    usage = merge("large.json", "run.gpuctr", "-o", "large.out",
                  preexec_fn=None if is_sanitized() else lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)))
    check(b"716 kernels" in usage.stderr and pathlib.Path("large.out").stat().st_size > size, "large")


def main():
    tests = [every_kernel_has_its_own, who_has_no_partner, bad_traces, chosen_launches, memory_is_bounded]
    return run_tests(tests, RECORDING)


sys.exit(main())
