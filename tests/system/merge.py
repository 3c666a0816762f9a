#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""merge CLIENT RECORDING: what gpuctr-client merge puts into a trace of another run.

The traces are made here, in the form that torch.profiler writes: from the recording's kernels, with correlation ids
and times of their own, in another order, some missing and some more."""

import collections
import gzip
import json
import math
import os
import pathlib
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys

sys.dont_write_bytecode = True
from checks import change, check, check_nesting, run_tests  # noqa: E402

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
    rows = db.execute(f"SELECT k.name, {columns} FROM record r JOIN launch l ON l.id = r.launch JOIN kernel k ON k.id = l.kernel ORDER BY idx").fetchall()
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


def is_ours(e):
    return e.get("cat") == "cuda_profiler_range" or e.get("name") == "(no operator)"


def without_counters(trace):
    events = events_of(trace)
    events[:] = [e for e in events if not is_ours(e)]
    for e in events:
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


def span(cat, name, tid, begin, us, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 4711, "tid": tid, "ts": begin, "dur": us, "args": args}


def torch_trace(launchers, n=300, threads=2):
    """As torch.profiler has it: operators around launches, on several threads; and what launches some other way, or without
    an operator, or what has no kernel. launchers: names of calls, by turns."""
    events, begin = [{"ph": "M", "name": "process_name", "pid": 4711, "tid": 0, "ts": 0, "args": {"name": "python"}}], 1000.25
    for i, (name, *_) in enumerate(records()[:n]):
        thread, call = i % threads, launchers[i % len(launchers)]
        begin += 7.375
        if i % 10 != 9:
            events.append(span("cpu_op", "aten::outer", thread, begin - 1.5, 6.5))
            events.append(span("cpu_op", f"aten::op{i}", thread, begin - 0.5, 5.0))
        events.append(span("cuda_driver" if call.startswith("cuLaunch") else "cuda_runtime", call, thread, begin, 3.125, correlation=i))
        if i % 50 != 49:
            events.append(kernel_event(name, i))
    return {"schemaVersion": 1, "distributedInfo": {"rank": 3}, "traceEvents": events, "traceName": "x"}


def as_hta_reads(trace):
    """Kernel, operators and counters of each row that HTA's get_cupti_counter_data_with_operators() makes: times are rounded,
    the i-th range is that of the i-th launch, and its operators are those around the launch. An operator has to be there."""
    events = [dict(e, index=i) for i, e in enumerate(trace["traceEvents"]) if "dur" in e]
    for e in events:
        end = math.floor(e["ts"] + e["dur"])
        e["ts"] = math.ceil(e["ts"])
        e["end"] = end
    ranges = sorted((e for e in events if e["cat"] == "cuda_profiler_range"), key=lambda e: e["ts"])
    launches = sorted((e for e in events if e["cat"] == "cuda_runtime" and e["name"].startswith("cudaLaunchKernel")), key=lambda e: e["ts"])
    check(len(ranges) == len(launches), f"{len(ranges)} ranges of {len(launches)} launches")
    check(len({e["ts"] for e in ranges}) == len(ranges), "ranges at one time")
    rows = []
    for r, launch in zip(ranges, launches):
        ops = [e for e in events if e["cat"] == "cpu_op" and (e["pid"], e["tid"]) == (launch["pid"], launch["tid"]) and
               e["ts"] <= launch["ts"] and e["end"] >= launch["end"] and
               ((e["ts"], e["end"]) != (launch["ts"], launch["end"]) or e["index"] < launch["index"])]
        check(ops, f"no operator around {launch}")
        check(type(r["ts"]) is int and type(r["dur"]) is int and r["dur"] > 0, f"{r}")
        check(all(type(v) in (int, float) for v in r["args"].values()), f"not numbers: {r}")
        rows.append((r["name"], [e["name"] for e in sorted(ops, key=lambda e: (e["ts"], -e["end"]))], r["args"], launch["args"]["correlation"]))
    return rows


def write_trace(path, trace):
    pathlib.Path(path).write_text(json.dumps(trace))


def hta_finds_the_counters():
    """A range for each cudaLaunchKernel*, with the counters of its kernel and no others."""
    trace = torch_trace(["cudaLaunchKernel", "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel", "cuLaunchKernel"])
    write_trace("torch.json", trace)
    r = merge("torch.json", "run.gpuctr", "-f", "-o", "hta.json")
    merged = json.loads(pathlib.Path("hta.json").read_text())
    rows = as_hta_reads(merged)
    of_kernels = {e["args"]["correlation"]: {k.removeprefix("gpuctr::"): v for k, v in e["args"].items() if k.startswith("gpuctr::")}
                  for e in events_of(merged) if e.get("cat") == "kernel"}
    check(len(rows) == 150, f"{len(rows)} ranges")
    for i, (name, ops, args, correlation) in enumerate(rows):
        has_kernel, has_op = correlation % 50 != 49, correlation % 10 != 9
        check(args == of_kernels.get(correlation, {}) and bool(args) == has_kernel, f"range {i}: other counters: {args}")
        check(name == (records()[correlation][0] if has_kernel else "na"), f"range {i}: {name}")
        check(ops == (["aten::outer", f"aten::op{correlation}"] if has_op else ["(no operator)"]), f"range {i}: {ops}")
    check(without_counters(merged) == trace, "something else has changed")
    for text in (b"for HTA: a cuda_profiler_range for each of 150 launches (cudaLaunchKernel), 147 with counters", b"kernels with counters were launched in another way",
                 b"had no operator around"):
        check(text in r.stderr, f"{text} is not in {r.stderr}")


def values_that_are_missing():
    """A kernel has counters if it has one of them: one row has none, and one has half."""
    change("holes.gpuctr", "UPDATE record SET " + ",".join(f'"{c}" = NULL' for c in COLUMNS) + " WHERE idx = 0",
           f'UPDATE record SET "{COLUMNS[0]}" = NULL WHERE idx = 1')
    write_trace("torch.json", torch_trace(["cudaLaunchKernel"]))
    r = merge("torch.json", "holes.gpuctr", "-f", "-o", "hta.json")
    merged = json.loads(pathlib.Path("hta.json").read_text())
    of_kernels = [any(k.startswith("gpuctr::") for k in e["args"]) for e in events_of(merged) if e.get("cat") == "kernel"]
    of_ranges = [bool(args) for _, _, args, _ in as_hta_reads(merged)]
    check(sum(of_kernels) == len(of_kernels) - 1, f"{sum(of_kernels)} of {len(of_kernels)} kernels have counters")
    for text in (f"{sum(of_kernels)} kernels have counters now", f"each of {len(of_ranges)} launches (cudaLaunchKernel), {sum(of_ranges)} with counters"):
        check(text.encode() in r.stderr, f"{text} is not in {r.stderr}")
    check(b"in another way" not in r.stderr, r.stderr)


def one_capture_after_another():
    """Metrics of another capture go into the ranges that are there, and into the kernels."""
    write_trace("torch.json", torch_trace(["cudaLaunchKernel"]))
    merge("torch.json", "run.gpuctr", "-f", "-o", "first.json")
    shutil.copy("run.gpuctr", "other.gpuctr")
    with sqlite3.connect("other.gpuctr") as db:
        db.execute("UPDATE column_def SET name = 'other.' || name")
        db.execute("PRAGMA legacy_alter_table = ON")
        for column in COLUMNS:
            db.execute(f'ALTER TABLE record RENAME COLUMN "{column}" TO "other.{column}"')
    r = merge("first.json", "other.gpuctr", "-f", "-o", "both.json")
    first, both = (as_hta_reads(json.loads(pathlib.Path(p).read_text())) for p in ("first.json", "both.json"))
    check(len(first) == len(both) == 300, f"{len(first)}, {len(both)} ranges")
    for (_, _, args, _), (_, ops, more, _) in zip(first, both):
        check(more == {**args, **{f"other.{k}": v for k, v in args.items()}} and ops.count("(no operator)") <= 1, f"{args}, {more}")
    trace = torch_trace(["cudaLaunchKernel"])
    trace["traceEvents"].append(span("cuda_profiler_range", "k", 0, 5, 1, other=1))
    write_trace("torch.json", trace)
    r = merge("torch.json", "run.gpuctr", "-f", "-o", "left.json")
    check(b"they stay as they are" in r.stderr, r.stderr)
    left = events_of(json.loads(pathlib.Path("left.json").read_text()))
    check([e for e in left if is_ours(e)] == trace["traceEvents"][-1:], "ranges of somebody else were changed")


def compressed_traces():
    """What torch.profiler writes to NAME.json.gz; of several members too."""
    write_trace("torch.json", torch_trace(["cudaLaunchKernel"]))
    text = pathlib.Path("torch.json").read_bytes()
    want = merge("torch.json", "run.gpuctr").stdout
    for content in gzip.compress(text), gzip.compress(text[:1000]) + gzip.compress(text[1000:]):
        pathlib.Path("torch.json.gz").write_bytes(content)
        check(merge("torch.json.gz", "run.gpuctr").stdout == want, "a compressed trace is another")
        merge("torch.json.gz", "run.gpuctr", "-f", "-o", "merged.json.gz", status=2, says=b"| gzip >merged.json.gz")
        merge("torch.json.gz", "run.gpuctr", "-f", "-o", "merged.json")
        check(pathlib.Path("merged.json").read_bytes() == want, "by its name")


def launches_at_one_time():
    """HTA cannot tell them apart; it is told how many there are, and ranges stay apart."""
    trace = torch_trace(["cudaLaunchKernel"], threads=3)
    spans = [e for e in trace["traceEvents"] if e.get("cat") in ("cuda_runtime", "cpu_op")]
    for e in spans:
        e["ts"] = (e["ts"] - 1000) // 40 * 40 + 1000 + (e["ts"] - 1000) / 40 % 1
    write_trace("torch.json", trace)
    r = merge("torch.json", "run.gpuctr", "-f", "-o", "hta.json")
    ranges = [e for e in events_of(json.loads(pathlib.Path("hta.json").read_text())) if e.get("cat") == "cuda_profiler_range"]
    times = [e["ts"] for e in ranges]
    check(times == sorted(set(times)) and len(times) == 300, "ranges at one time")
    check(b"began in one microsecond with another" in r.stderr, r.stderr)


def launched_ahead():
    """Ranges stand where launches were called, faster than the kernels ran, and are as long as these: on tracks of their own."""
    trace = torch_trace(["cudaLaunchKernel"])
    for e in trace["traceEvents"]:
        if e.get("cat") == "kernel":
            e["dur"] = 10 + e["args"]["correlation"] % 7 * 9.5
    write_trace("torch.json", trace)
    merge("torch.json", "run.gpuctr", "-f", "-o", "hta.json")
    merged = json.loads(pathlib.Path("hta.json").read_text())
    check(len(as_hta_reads(merged)) == 300, "ranges")
    check_nesting(merged, "launched ahead", ("kernel",))
    lengths = {e["name"]: e["dur"] for e in events_of(merged) if e.get("cat") == "cuda_profiler_range"}
    check(max(lengths.values()) == 67, f"lengths of ranges: {lengths}")


def names_of_older_kinetos():
    trace = torch_trace(["cudaLaunchKernel"])
    write_trace("torch.json", trace)
    want = merge("torch.json", "run.gpuctr").stdout
    older = {"kernel": "Kernel", "cuda_runtime": "Runtime", "cpu_op": "Operator"}

    def rename(text):
        for new, old in older.items():
            text = text.replace(f'"cat": "{new}"', f'"cat": "{old}"')
        return text
    pathlib.Path("older.json").write_text(rename(json.dumps(trace)))
    check(merge("older.json", "run.gpuctr").stdout.decode() == rename(want.decode()), "older categories")


ODD = '{"traceEvents": [{"ph": "X", "cat": "python_function", "name": "NAME", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "args": {}}, KERNEL], "x": [7]}'


def what_is_not_json():
    """What torch.profiler writes all the same: taken as it is, or told with the text at its byte and the cause."""
    kernel = kernel_event(records()[0][0], 9)

    def write(name="a", value="7"):
        text = ODD.replace("KERNEL", json.dumps(kernel)).replace("NAME", name).replace('"External id": 4', f'"External id": {value}')
        pathlib.Path("odd.json").write_text(text)
        return text
    for name, value in (("a\x01b", "7"), ("a\tb", "7"), ("a\nb\\\\", "7"), ("a", "NaN"), ("a", "Infinity"), ("a", "-Infinity"),
                        ("NaN", "[NaN, Infinity]")):
        text = write(name, value)
        got = merge("odd.json", "run.gpuctr").stdout.decode()
        counters = got.find(', "gpuctr::') if ', "gpuctr::' in got else got.find(',"gpuctr::')
        end = got.find("}", counters)
        check(counters > 0 and got[:counters] + got[end:] == text, f"{name!r}, {value}: {got}")
    for name, value, cause, wrong in (("a", "0,015152", "(numbers have a comma for a point)", "015152"), ("a", "inf", "(JSON has no number inf or nan)", "inf"),
                                      ("a", "-nan", "(JSON has no number inf or nan)", "-nan"), ("torch\\cuda", "7", "(a backslash within a string", "\\cuda"),
                                      ("{\"device\": 1}", "7", "(a quote within a string", "device\""), ("say \" nan \"", "7", "(a quote within a string", "nan \""),
                                      ("a", "Nope", "", None), ("a", "Na", "", None), ("a", "7" * 9000, "", None), ("a", "Infinit", "", None), ("a", "- 1", "", None)):
        at = write(name, value).find(wrong) if wrong else -1
        says = f"it is not JSON at byte {at} {cause}" if wrong else "it is not JSON at byte "
        r = merge("odd.json", "run.gpuctr", "-o", "bad.json", status=1, says=says.encode())
        check(f"<here> {wrong or ''}" in r.stderr.decode(), f"{name!r}, {value}: {r.stderr.decode()}")
    check(not pathlib.Path("bad.json").exists(), "a trace that is none was written")


def a_string_as_long_as_the_file():
    """Of 40 MB, in a file of 1 MB; it goes through once. Other strings behind it are what they were."""
    kernel = json.dumps(kernel_event(records()[0][0], 9)).encode()
    for escapes in (b"x", b"\\n", b"\\u00e9", b"\\\\"):
        with gzip.open("long.json.gz", "wb", 1) as f:
            f.write(b'{"traceEvents": [{"name": "')
            for _ in range(40):
                f.write(escapes * (1000000 // len(escapes)))
            f.write(b'", "cat": "x"}, ' + kernel + b"]}")
        r = merge("long.json.gz", "run.gpuctr", "-f", "-o", "long.out")
        check(r.stderr.startswith(b"1 kernels have counters now; without a partner: 0 of the trace"), r.stderr)
    with open("long.out", "rb") as f:
        f.seek(-2000, 2)
        check(b"gpuctr::dram" in f.read(), "the counters")


def bad_traces():
    text = pathlib.Path("t.json").read_text()
    for name, content, says in (("cut", text[:len(text) // 2], b"not whole JSON"), ("text", "hello", b"not JSON at byte 0: "),
                                ("empty", "", b"not whole JSON"), ("none", '{"traceEvents": []}', b"no kernel in it"),
                                ("deep", "[" * 5000 + "]" * 5000, b"nested too deeply"),
                                ("list", "[1, 2, {}, [], null]", b"no kernel in it"),
                                ("other", json.dumps([kernel_event("x", 1)]), b"No kernel of the capture")):
        pathlib.Path(name).write_text(content)
        merge(name, "run.gpuctr", "-o", "bad.json", status=1, says=says)
    whole = gzip.compress(text.encode())
    for name, content in ("cut.gz", whole[:-9]), ("damaged.gz", whole[:2000] + b"damaged" + whole[2007:]), ("head.gz", whole[:5]):
        pathlib.Path(name).write_bytes(content)
        merge(name, "run.gpuctr", "-o", "bad.json", status=1, says=b"it is compressed, and damaged or not whole")
    pathlib.Path("text.gz").write_bytes(gzip.compress(b"hello"))
    merge("text.gz", "run.gpuctr", "-o", "bad.json", status=1, says=b"not JSON at byte 0: ")
    merge(".", "run.gpuctr", "-o", "bad.json", status=1, says=b"Is a directory")
    merge("nowhere", "run.gpuctr", "-o", "bad.json", status=1, says=b"nowhere: No such file")
    merge("t.json", "t.json", "-o", "bad.json", status=1, says=b"error[store-")
    merge("t.json", status=2, says=b"name a trace and a capture")
    merge("t.json", "run.gpuctr", "-o", "m.json", status=2, says=b"-f replaces it")
    merge("t.json", "run.gpuctr", "--process", "2", "-o", "bad.json", status=2, says=b"--process")
    left = [p.name for p in pathlib.Path(".").iterdir() if p.name.startswith(("bad.json", "m.json."))]
    check(not left, f"left behind: {left}")


def no_room_for_values():
    write_trace("torch.json", torch_trace(["cudaLaunchKernel"]))
    merge("torch.json", "run.gpuctr", status=1, says=b"the temporary file: No such file or directory\n  remedy: Set TMPDIR",
          env={**os.environ, "TMPDIR": "nowhere"})

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    merge("torch.json", "run.gpuctr", status=1, says=b"the temporary file: File too large\n  remedy: Set TMPDIR", preexec_fn=limit)


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
    tests = [every_kernel_has_its_own, who_has_no_partner, hta_finds_the_counters, values_that_are_missing, one_capture_after_another, compressed_traces,
             launches_at_one_time, launched_ahead, names_of_older_kinetos, what_is_not_json, a_string_as_long_as_the_file, bad_traces, no_room_for_values, memory_is_bounded]
    return run_tests(tests, RECORDING)


sys.exit(main())
