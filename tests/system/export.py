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
import struct
import subprocess
import sys

sys.dont_write_bytecode = True
from checks import Skip, change, check, run_tests, with_budget  # noqa: E402

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
        check(e["name"] == (kernel or "(not known)") and (e["pid"], e["tid"]) == (device, 0), f"{what}: {e}")
        check(all(type(v) in (int, float) for v in e["args"].values()), f"{what}: arguments are not numbers: {e}")
        got = {k: v for k, v in e["args"].items() if not k.startswith("gpuctr::")}
        check(got == {k: v for k, v in values.items() if v is not None}, f"{what}: other values: {e}")


def check_launches(events, want, what):
    for e, (_, _, correlation, thread, *_, kind, _) in zip(events, want):
        check(e["name"] == "cudaLaunchKernel" and e["tid"] == thread and e["args"]["correlation"] == correlation and
              e["args"].get("gpuctr::kind") == (None, "cooperative", "graph")[kind], f"{what}: {e}")


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
    check_trace(change("graph.gpuctr", "UPDATE record SET kind = idx % 3"))
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
        check(re.fullmatch(r"[^\x00-\x1f\x7f-\x9f\u202e]+ [0-9.]+", line), f"folded: {line!r}")


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


# --- Perfetto's own format --------------------------------------------------------------------------


def read_schema():
    """By message: number of a field to its name, type and whether it repeats."""
    schema, names = {}, []
    for line in re.sub(r"//.*", "", (SOURCE / "client/report/perfetto.proto").read_text()).splitlines():
        field = re.match(r"\s*(optional |repeated )?(\w+) (\w+) = (\d+);", line)
        if block := re.match(r"\s*(message|enum|oneof) (\w+) {", line):
            names.append(block[2] if block[1] == "message" else names[-1] if block[1] == "oneof" else "")
            schema.setdefault(names[-1], {})
        elif "}" in line:
            names.pop()
        elif field and names[-1]:
            schema[names[-1]][int(field[4])] = (field[3], field[2], field[1] == "repeated ")
    return schema


SCHEMA = read_schema()


def decode(data, message="Trace"):
    """Protobuf's wire format. What the schema does not know is a failure."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte, at = data[at], at + 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        name, kind, repeats = SCHEMA[message][key >> 3]
        if key & 7 == 0:
            value = varint()
        elif key & 7 == 1:
            value = struct.unpack_from("<d" if kind == "double" else "<Q", data, at)[0]
            at += 8
        else:
            size = varint()
            value, at = data[at:at + size], at + size
            check(len(value) == size, "a message that is cut")
            value = value.decode() if kind == "string" else decode(value, kind)
        if repeats:
            found.setdefault(name, []).append(value)
        else:
            found[name] = value
    return found


BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


class Perfetto:
    """Tracks by their number, with their events: type, time, name, notes, flows, value."""

    def __init__(self, data, what):
        self.tracks, self.events, self.what = {}, collections.defaultdict(list), what
        names, notes, given, ready = {}, {}, {}, False
        for packet in decode(data)["packet"]:
            check(packet["trusted_packet_sequence_id"] == 1, f"{what}: sequence")
            flags, interned = packet.get("sequence_flags", 0), packet.get("interned_data", {})
            if flags & 1:
                names, notes, ready = {}, {}, True
            for table, key in ((names, "event_names"), (notes, "debug_annotation_names")):
                for entry in interned.get(key, []):
                    table[entry["iid"]] = entry["name"]
                    was = given.setdefault((key, entry["iid"]), entry["name"])
                    check(was == entry["name"] and entry["iid"] > 0, f"{what}: a number means two names")
            if track := packet.get("track_descriptor"):
                check(track["uuid"] not in self.tracks and track["uuid"] > 0, f"{what}: a track twice")
                check(track.get("parent_uuid", track["uuid"]) in {*self.tracks, track["uuid"]}, f"{what}: a parent comes later")
                self.tracks[track["uuid"]] = track
            if event := packet.get("track_event"):
                check(ready and flags == 2, f"{what}: an event without the state that it needs")
                self.events[event["track_uuid"]].append(
                    (event["type"], packet["timestamp"], names[event["name_iid"]] if "name_iid" in event else None,
                     {notes[n["name_iid"]]: next(v for k, v in n.items() if k != "name_iid")
                      for n in event.get("debug_annotations", [])}, event.get("flow_ids", []), event.get("double_counter_value")))
        for number, events in self.events.items():
            self.check_track(number, events)

    def check_track(self, number, events):
        """Times go forward, and every begin has its end."""
        track, depth = self.tracks[number], 0
        check([e[1] for e in events] == sorted(e[1] for e in events), f"{self.what}: times of {track}")
        for kind, _, name, notes, _, value in events:
            check((kind == COUNTER) == ("counter" in track) == (value is not None), f"{self.what}: counters of {track}")
            check(kind in (BEGIN, INSTANT) or (name is None and not notes), f"{self.what}: names of {track}")
            depth += {BEGIN: 1, END: -1}.get(kind, 0)
            check(depth >= 0, f"{self.what}: an end without a begin on {track}")
        check(depth == 0, f"{self.what}: {depth} begins without an end on {track}")

    def name(self, number):
        t = self.tracks[number]
        return t.get("name") or t.get("thread", {}).get("thread_name") or t["process"]["process_name"]

    def path(self, number):
        parent = self.tracks[number].get("parent_uuid")
        return (self.path(parent) if parent else ()) + (self.name(number),)


def shape(path):
    db = sqlite3.connect(path)
    rows = db.execute("SELECT process, idx, grid_x || ',' || grid_y || ',' || grid_z, block_x || ',' || block_y || ',' || block_z,"
                      " dynamic_shared_bytes, context, clock FROM record").fetchall()
    db.close()
    return {row[:2]: row[2:] for row in rows}


KINDS = ("launch", "cooperative launch", "launch of a graph")


def check_kernels_of_perfetto(trace, want, shapes, process, exact):
    """Each kernel once on a track of its stream, from its begin to its end, with all of its record."""
    found = {}
    for number, events in trace.events.items():
        if "stream" not in trace.path(number)[-1]:
            continue
        for i, (kind, at, name, notes, flows, _) in enumerate(events):
            if kind != END:
                check(kind == INSTANT or events[i + 1][0] == END, f"{trace.what}: a kernel within a kernel")
                check(notes["index"] not in found, f"{trace.what}: twice: {notes}")
                end = events[i + 1][1] if kind == BEGIN else None
                found[notes["index"]] = (trace.path(number), kind, at, end, name, notes, flows)
    check(len(found) == len(want), f"{trace.what}: {len(found)} kernels")
    for row in want:
        path, kind, at, end, name, notes, flows = found[row[0]]
        grid, block, shared, context, clock = shapes[process, row[0]]
        check(path[1].startswith(f"GPU {row[4]}: ") and path[2] == f"stream {row[5]}", f"{trace.what}: track of {row}")
        check(name == row[1] and (kind == BEGIN) == (clock > 0), f"{trace.what}: {name}, not {row[1]}")
        check(not exact or (at, end) == (row[6], row[6] + row[7] if clock else None), f"{trace.what}: times of {row}")
        values = {k: v for k, v in row[10].items() if v is not None}
        check(notes == {"index": row[0], "kind": KINDS[row[9]], "grid": grid, "block": block, "dynamic_shared_bytes": shared,
                        "device": row[4], "context": context, "stream": row[5], "correlation": row[2], "thread": row[3],
                        "clock": ("none", "range", "gpu")[clock], **values}, f"{trace.what}: {notes}, {row}")
        check(flows == [(process << 40 | row[0]) + 1], f"{trace.what}: flow")


def check_launches_of_perfetto(trace, want, process):
    """Each launch once on its thread, within its ranges, in the order of the records."""
    for thread in {row[3] for row in want}:
        number = next(n for n, t in trace.tracks.items() if t.get("thread", {}).get("tid") == thread)
        stack, got = [], []
        for kind, _, name, notes, flows, _ in trace.events[number]:
            if kind == BEGIN:
                stack.append(name)
            elif kind == END:
                stack.pop()
            else:
                got.append((name, list(stack), notes, flows))
        check(got == [(KINDS[row[9]], row[8], {"correlation": row[2]}, [(process << 40 | row[0]) + 1])
                      for row in want if row[3] == thread], f"{trace.what}: launches of {thread}")


def check_counters_of_perfetto(trace, want):
    """What a counter rises to, in the order of the records, and 0 at the end."""
    for number, track in trace.tracks.items():
        if "counter" not in track:
            continue
        device = int(re.match(r"GPU (\d+): ", trace.path(number)[1])[1])
        values = [v for *_, v in trace.events[number]]
        rows = [row[10][track["name"]] for row in want if row[4] == device]
        check([v for v in values if v] == [v for v in rows if v], f"{trace.what}: {track}")
        check(not values or values[-1] == 0, f"{trace.what}: {track} does not end")


def check_perfetto(path, exact=True, says=b"", process=1, arguments=()):
    trace = Perfetto(export(path, "--to", "perfetto", *arguments, says=says), str(path))
    want = records(path, process)
    check_kernels_of_perfetto(trace, want, shape(path), process, exact)
    check_launches_of_perfetto(trace, want, process)
    check_counters_of_perfetto(trace, want)
    return trace


def perfetto_is_the_capture():
    trace = check_perfetto("run.gpuctr")
    units = {t["name"]: t["counter"]["unit_name"] for t in trace.tracks.values() if "counter" in t}
    check(units == dict(zip(COLUMNS, ("byte", "byte", "nanosecond", "l2_sector", "l2_request"))), f"units: {units}")
    check(sorted(trace.path(n) for n, t in trace.tracks.items() if "counter" not in t)[:2] ==
          [("python3",), ("python3", "GPU 0: NVIDIA H200")], "tracks")
    outer = [(kind, at) for n, t in trace.tracks.items() if "thread" in t for kind, at, name, *_ in trace.events[n]
             if name == "iteration 2"]
    check(outer == [(BEGIN, records("run.gpuctr")[0][6])], f"a range begins with its first kernel: {outer}")
    notes = [n for events in trace.events.values() for _, _, name, n, *_ in events if name == "aten::conv2d"]
    check(notes and all(n["sizes"].startswith("[[") and n["External id"] > 0 for n in notes), "what PyTorch says of a range")
    export("run.gpuctr", "-o", "a.pftrace")
    check(pathlib.Path("a.pftrace").read_bytes() == export("run.gpuctr", "--to", "perfetto"), "by the file's name")


def protoc_reads_it():
    """What Google's own compiler makes of it, where it is installed: the same packets, and no field that it does not know."""
    if not shutil.which("protoc"):
        raise Skip("protoc is not installed (Debian's package protobuf-compiler)")
    data = export("run.gpuctr", "--to", "perfetto")
    r = subprocess.run(["protoc", "-I", SOURCE / "client/report", "--decode=perfetto.protos.Trace", "perfetto.proto"],
                       input=data, capture_output=True, timeout=100, check=False)
    text = r.stdout.decode()
    check(r.returncode == 0 and not r.stderr, f"protoc: {r.stderr!r}")
    check(text.count("\npacket {") + text.startswith("packet {") == len(decode(data)["packet"]), "protoc: packets")
    check(not re.search(r"^\s*\d+[: ]", text, re.MULTILINE), "protoc: unknown fields")


def perfetto_of_worse_captures():
    later = b"stand later"
    check_perfetto(change("tie.gpuctr", f"UPDATE record SET start_ns = {BEGIN_NS}"), False, later)
    check_perfetto(change("back.gpuctr", f"UPDATE record SET start_ns = {BEGIN_NS} - idx * 1000"), False, later)
    trace = check_perfetto(change("pair.gpuctr", f"UPDATE record SET start_ns = {BEGIN_NS} + idx / 2 * 1000000000"))
    check(sum(t.get("name") == "stream 7" for t in trace.tracks.values()) == 2, "kernels of a stream beside each other")
    check_perfetto(change("threads.gpuctr", "UPDATE record SET thread = idx % 5, stream = idx % 3 + 7"))
    check_perfetto(change("jumps.gpuctr", "UPDATE record SET range = (idx * 389) % 900 + 1, thread = idx % 2"))
    check_perfetto(change("none.gpuctr", "UPDATE record SET range = 0"))
    check_perfetto(change("null.gpuctr", f'UPDATE record SET "{COLUMNS[0]}" = NULL WHERE idx % 2',
                          "UPDATE record SET duration_ns = -1, clock = 0 WHERE idx % 3 = 0"), says=b"239 kernels have no time")
    check_perfetto(change("graph.gpuctr", "UPDATE record SET kind = idx % 3"))
    check_perfetto(change("empty.gpuctr", "DELETE FROM record"))
    check_perfetto(change("wild.gpuctr", "UPDATE record SET start_ns = 9223372036854775807 WHERE idx = 3",
                          "UPDATE record SET start_ns = -9223372036854775807 WHERE idx = 9",
                          "UPDATE record SET duration_ns = 9223372036854775807 WHERE idx = 5"), False, later)
    check_perfetto("two.gpuctr", arguments=("--process", 1))
    check_perfetto("two.gpuctr", process=2, arguments=("--process", 2))
    both = Perfetto(export("two.gpuctr", "--to", "perfetto"), "both")
    check({t["process"]["pid"] for t in both.tracks.values() if "process" in t} == {PID, 4711}, "a track for each process")
    marks = Perfetto(export(change("marks.gpuctr", *(f"INSERT INTO mark VALUES(1, {i}, 7, {i} * 1000)" for i in (1, 2, 3))),
                            "--to", "perfetto"), "marks")
    check([(e[0], e[1]) for n, t in marks.tracks.items() if t.get("name") == "marks of thread 7" for e in marks.events[n]] ==
          [(INSTANT, i * 1000) for i in (1, 2, 3)], "marks")


def names_of_perfetto_are_bounded():
    """More names than are kept: their numbers begin anew, and mean the same to who reads on."""
    check_perfetto(change("names.gpuctr", "UPDATE record SET kernel = 1000 + idx", "INSERT INTO kernel SELECT 1, 1000 + idx, idx"
                          " || printf('%.*c', 9000, 'k'), 'm', 0, 0 FROM record"))
    data = export("names.gpuctr", "--to", "perfetto")
    states = [p for p in decode(data)["packet"] if p.get("sequence_flags") == 1]
    check(len(states) > 3, f"names begin anew {len(states)} times")


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
            got[stack] = float(value)
        check(got == dict(want), f"folded by {weight} is another sum than SQL's")
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
        got, nowhere = collections.Counter(), set()
        for line in export("half.gpuctr", "--to", "folded", "--weight", weight, says=b"ESTIMATED").decode().splitlines():
            stack, value = line.rsplit(" ", 1)
            kernel = stack[stack.rindex(";void "):][1:] if ";void " in stack else stack.rsplit(";", 1)[1]
            got[kernel] += float(value)
            if stack.startswith("(none of its kind was measured);"):
                nowhere.add(kernel)
        for kernel, (_, sums) in told.items():
            written = got.get(kernel.replace("\n", "?"))
            check(written is None if sums[weight] is None else written and close(written, sums[weight]),
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
    export("run.gpuctr", "-o", "a.json", status=2, says=b"-f replaces it")
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
         " SELECT 1, i, i - 1, '', 'r', '', 0, 0, 0, i - 1 FROM n", (depth,)),
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
                         for v in ("run", "metrics", "report", "export")).decode()
    for cell in re.findall(r"`(gpuctr-client [^`]*)`", text):
        for option in re.findall(r" (--[a-z][a-z-]*)", cell.split(" -- ")[0]):
            check(option in help_text, f"{cell}: no option {option}")


def main():
    tests = [commands_of_the_docs, the_recording, worse_captures, wild_values, hostile_names, several_processes, perfetto_is_the_capture,
             protoc_reads_it, perfetto_of_worse_captures, names_of_perfetto_are_bounded, folded_sums,
             sums_with_a_budget_are_the_reports, lines_of_pyprof, pyprof_of_tensor_cores, layouts_of_pyprof, files, formulas_are_text, what_is_read_is_not_written, a_link_chooses_nothing, a_file_that_comes_meanwhile_stays,
             a_stack_as_deep_as_the_file, nobody_reads]
    return run_tests(tests, RECORDING)


sys.exit(main())
