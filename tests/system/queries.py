#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""queries CLIENT RECORDING SOURCE REWRITE: what SQL finds in a capture file. The bundled recording
is written anew by REWRITE, as the client would have written it live; its views are compared with what is exported and
reported, and what gpuctr-capture(5) shows is run: SQL, Python with pandas, DuckDB."""

import collections
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys

sys.dont_write_bytecode = True
from checks import NO_SITES, Skip, check, run_tests  # noqa: E402

CLIENT, RECORDING, SOURCE, REWRITE = (pathlib.Path(a).resolve() for a in sys.argv[1:5])
COLUMNS = ("dram__bytes_read.sum", "dram__bytes_write.sum", "gpu__time_duration.sum", "lts__t_sectors.sum",
           "lts__t_requests.sum")
RATIO = "sm__throughput.avg.pct"
ARGV = ["python3", "it's\n a net.py", "--warmup", "3"]


def run(*command, **more):
    r = subprocess.run(list(map(str, command)), capture_output=True, timeout=100, check=False, **more)
    check(r.returncode == 0, f"{command}: {r.returncode} {r.stderr!r}")
    return r.stdout.decode()


def rows(path, sql, *values):
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    found = [dict(r) for r in db.execute(sql, values)]
    db.close()
    return found


def rewrite(path, source="run.gpuctr"):
    run(REWRITE, source, path)
    return path


def kernels(path):
    """Records as they are exported, which is how they were streamed."""
    lines = [json.loads(s) for s in run(CLIENT, "export", path, "--to", "jsonl").splitlines()]
    return [line for line in lines if line["type"] == "kernel"]


def report(path, keys):
    lines = run(CLIENT, "report", path, "--by", keys, "--json", "--columns", ":all")
    return json.loads(lines)


# --- the views ----------------------------------------------------------------------------------------


def records_have_operators():
    want, got = kernels("run.gpuctr"), rows("now.gpuctr", "SELECT * FROM records ORDER BY idx")
    check(len(want) == len(got) == 716, "records: not all")
    for w, g in zip(want, got):
        for name in "op", "seq", "sizes", "dir", "layer":
            check(w[name] == g[name], f"records: {name} of {w['index']}: {w[name]} is {g[name]}")
        check(g["nvtx"] == "/".join(name_of(r["message"]) for r in w["nvtx"]), f"records: path of {w['index']}")
    check(kernels("now.gpuctr") == want, "exported again, it says something else")
    said = collections.Counter((g["dir"], g["op"]) for g in got)
    check(said["fprop", "aten::cudnn_convolution"] > 10 and said["bprop", "aten::convolution_backward"] > 10,
          f"operators: {said}")
    both = [{g["layer"] for g in got if g["dir"] == d} for d in ("fprop", "bprop")]
    check(both[1] - {None} <= both[0] and len(both[1]) > 20, "the layers of the backward pass are those of the forward")


def totals(records, key):
    sums = collections.defaultdict(lambda: collections.defaultdict(float))
    for r in records:
        for row in key(r):
            for name in COLUMNS:
                sums[row][name] += r["metrics"][name]
            sums[row]["launches"] += 1
            sums[row]["duration_ns"] += r["duration_ns"]
            end = r["start_ns"] + r["duration_ns"]
            sums[row]["begin_ns"] = min(sums[row].get("begin_ns", end), r["start_ns"])
            sums[row]["end_ns"] = max(sums[row]["end_ns"], end)
    return sums


def name_of(message):
    return re.split(r", (?:seq|op_id|sizes) = ", message)[0]


def merged(name):
    """All steps are one."""
    return re.sub(r"^(iteration )\d+$", r"\1N", name)


def paths(record):
    names = [(r["domain"] + ":" if r["domain"] else "") + merged(name_of(r["message"])) for r in record["nvtx"]]
    return ["/".join(names[:i + 1]) for i in range(len(names))]


def check_view(view, column, want):
    got = {r[column]: r for r in rows("now.gpuctr", f"SELECT * FROM {view}")}
    check(set(got) == set(want), f"{view}: rows {set(got) ^ set(want)}")
    for key in set(got) & set(want):
        for name in set(got[key]) & set(want[key]):
            check(got[key][name] == want[key][name], f"{view}: {name} of {key}: {got[key][name]}, not {want[key][name]}")
    return got


def views_add_up():
    want = kernels("run.gpuctr")
    check_view("by_kernel", "kernel", totals(want, lambda r: [r["kernel"]]))
    by_op = check_view("by_op", "op", totals(want, lambda r: [r["op"]]))
    check(sum(r[COLUMNS[0]] for r in by_op.values()) == sum(r["metrics"][COLUMNS[0]] for r in want), "by_op: the sum")
    by_nvtx = check_view("by_nvtx", "nvtx", totals(want, paths))
    check({r["depth"] == len(r["nvtx"].split("/")) - 1 for r in by_nvtx.values() if "ResNet" not in r["nvtx"]} == {True},
          "by_nvtx: depth")
    check("iteration N/ResNet/conv1/aten::conv2d/aten::conv2d" in by_nvtx, "by_nvtx: names without numbers")


def views_and_the_report_agree():
    for keys, column in ("kernel", "kernel"), ("nvtx", "nvtx"):
        sums = {r[column]: r for r in rows("now.gpuctr", f"SELECT * FROM by_{keys} WHERE {column} NOT NULL")}
        found = {r["key"][keys]: r for r in report("run.gpuctr", keys)["rows"]}
        for row in set(found) & set(sums):
            got = [sums[row]["launches"], sums[row]["duration_ns"]] + [sums[row][c] for c in COLUMNS]
            measures = [found[row]["measures"][c] for c in ("time",) + COLUMNS]
            want = [found[row].get("total_launches", found[row]["launches"])] + [m.get("total", m["sum"]) for m in measures]
            check(got == want, f"by_{keys} and the report: {row}: {got}, {want}")
        check(len(set(found) & set(sums)) >= len(sums) > 20, f"by_{keys}: rows that the report has not: {set(sums) - set(found)}")


def means_are_means():
    path = "ratio.gpuctr"
    shutil.copy("run.gpuctr", path)
    db = sqlite3.connect(path)
    db.execute(f'ALTER TABLE record RENAME COLUMN "{COLUMNS[2]}" TO "{RATIO}"')
    db.execute("UPDATE column_def SET name = ? WHERE idx = 2", (RATIO,))
    db.execute(f'UPDATE record SET "{RATIO}" = CASE idx % 3 WHEN 0 THEN NULL ELSE idx % 100 END')
    db.commit()
    db.close()
    rewrite("means.gpuctr", path)
    for view, column, key in (("by_kernel", "kernel", lambda r: [r["kernel"]]), ("by_op", "op", lambda r: [r["op"]]),
                              ("by_nvtx", "nvtx", paths)):
        values = collections.defaultdict(list)
        for r in kernels(path):
            for row in key(r):
                values[row] += [r["metrics"][RATIO]] if r["metrics"][RATIO] is not None else []
        for row in rows("means.gpuctr", f'SELECT {column} AS row, "{RATIO}" AS mean FROM {view}'):
            want = values[row["row"]]
            mean = sum(want) / len(want) if want else None
            check(row["mean"] == mean or abs(row["mean"] - mean) < 1e-9, f"{view}: the mean of {row} is {mean}")


def spans_are_what_launches_show():
    """Reckoned here by another way: a range of a thread begins with the first launch in it after one that was not."""
    want, around = [], {}
    opened = {r["idx"]: r["opened"] for r in rows("now.gpuctr", "SELECT idx, opened FROM record")}
    for r in kernels("run.gpuctr"):
        path = [x["message"] for x in r["nvtx"]]
        open_spans = around.get(r["thread"], [])
        keep = opened[r["index"]]
        check([s["message"] for s in open_spans[:keep]] == path[:keep], f"opened of {r['index']}")
        open_spans = open_spans[:keep]
        for depth in range(keep, len(path)):
            span = {"thread": r["thread"], "depth": depth, "message": path[depth], "first_idx": r["index"], "launches": 0,
                    "begin_ns": r["start_ns"], "end_ns": 0}
            open_spans.append(span)
            want.append(span)
        for span in open_spans:
            span["launches"] += 1
            span["last_idx"] = r["index"]
            span["begin_ns"] = min(span["begin_ns"], r["start_ns"])
            span["end_ns"] = max(span["end_ns"], r["start_ns"] + r["duration_ns"])
        around[r["thread"]] = open_spans
    for span in want:
        span["name"] = merged(name_of(span.pop("message")))
    names = sorted(want[0])
    got = rows("now.gpuctr", f"SELECT {', '.join(names)} FROM nvtx_spans")
    check(sorted(map(str, got)) == sorted(str({n: w[n] for n in names}) for w in want), "spans")
    check(len(got) > 1000 and len({r["name"] for r in got}) < len(got), "spans: no range is there twice")
    steps = {(r["name"], r["step"]) for r in rows("now.gpuctr", "SELECT name, step FROM nvtx_spans WHERE name LIKE 'iteration %'")}
    check(steps == {("iteration N", 2), ("iteration N", 3)}, f"spans of steps: {steps}")


def unknown_is_null():
    shutil.copy("run.gpuctr", "bare.gpuctr")
    db = sqlite3.connect("bare.gpuctr")
    for statement in NO_SITES:
        db.execute(statement)
    db.execute("UPDATE record SET clock = 0, duration_ns = -1 WHERE idx < 700")
    db.commit()
    db.close()
    rewrite("bare5.gpuctr", "bare.gpuctr")
    found = rows("bare5.gpuctr", "SELECT op, launches, duration_ns FROM by_op")
    check(len(found) == 1 and found[0]["op"] is None and found[0]["launches"] == 716, f"without ranges: {found}")
    check(not rows("bare5.gpuctr", "SELECT * FROM by_nvtx") and not rows("bare5.gpuctr", "SELECT * FROM nvtx_spans"),
          "without ranges there is none")


def meta_has_arguments_and_gpus():
    meta = {r["key"]: r["value"] for r in rows("now.gpuctr", "SELECT * FROM meta")}
    check([meta[f"argv.{i}"] for i in range(len(ARGV))] == ARGV and f"argv.{len(ARGV)}" not in meta, f"argv: {meta}")
    check((meta["gpu.11.uuid"], meta["gpu.11.name"], meta["gpu.0.chip"]) == ("GPU-11", "other", "GH100"), "gpus")
    head = json.loads(run(CLIENT, "export", "now.gpuctr", "--to", "jsonl").splitlines()[0])
    check(head["command"] == ARGV, f"jsonl: {head['command']}")
    check(head["gpus"] == [{"index": 0, "uuid": "GPU-0", "name": "unused", "chip": "GH100"},
                           {"index": 11, "uuid": "GPU-11", "name": "other", "chip": "GB200"}], f"jsonl: {head['gpus']}")


# --- what the page shows ------------------------------------------------------------------------------


def blocks():
    text = (SOURCE / "docs/man/gpuctr-capture.5.scd").read_text()
    return re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def sql_of_the_page():
    found = [b for b in blocks() if re.match(r"(SELECT|WITH)\b", b) and "run.csv" not in b]
    check(len(found) >= 3, "the examples are gone")
    for sql in found:
        found = rows("page/run.gpuctr", sql)
        check(found and all(any(r[c] is not None for r in found) for c in found[0]), f"{sql}: {found[:3]}")


def has(python, module):
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


def most(column):
    return max(rows("now.gpuctr", "SELECT op, dir, sum(duration_ns) AS ns FROM records WHERE op NOT NULL GROUP BY op, dir"),
               key=lambda r: r["ns"])[column]


def python_of_the_page():
    """With a Python that has pandas: a distribution's is not always the one that runs this."""
    (text,) = [b for b in blocks() if "pandas" in b]
    check(len(text.strip().splitlines()) == 3, "three lines")
    pythons = [p for p in (sys.executable, "/usr/bin/python3") if has(p, "pandas")]
    if not pythons:
        raise Skip("there is no pandas (Debian: python3-pandas)")
    told = run(pythons[0], "-W", "ignore", "-c", text, cwd="page")
    check(re.search(rf"{re.escape(most('op'))} +{most('dir')} .* {most('ns')}\n", told), f"pandas: {told}")


def duckdb(text):
    """What is printed of these lines."""
    if not shutil.which("duckdb"):
        raise Skip("there is no duckdb (https://duckdb.org)")
    r = subprocess.run(["duckdb", "-c", text], capture_output=True, timeout=100, check=False, cwd="page")
    if b"extension" in r.stderr.lower():
        raise Skip(f"its extension cannot be loaded here: {r.stderr!r}")
    check(r.returncode == 0, f"duckdb: {r}")
    return r.stdout.decode()


def duckdb_of_the_page():
    (text,) = [b for b in blocks() if "TYPE sqlite" in b]
    check(str(most("ns")) in duckdb(text), "the operator with most time")


def parquet_of_the_page():
    (text,) = [b for b in blocks() if "run.parquet" in b]
    run(CLIENT, "export", "run.gpuctr", "--to", "csv", "-o", "run.csv", cwd="page")
    check(str(most("ns")) in duckdb(text), "the operator with most time")
    for column in COLUMNS:
        n, total = rows("now.gpuctr", f'SELECT count("{column}") AS n, sum("{column}") AS total FROM records')[0].values()
        told = duckdb(f"""SELECT count("{column}") AS n, sum("{column}")::BIGINT AS total FROM 'run.parquet'""")
        check(str(n) in told and str(int(total)) in told, f"{column}: {n}, {total}; {told}")


def prepare():
    rewrite("now.gpuctr")
    os.mkdir("page")
    shutil.copy("now.gpuctr", "page/run.gpuctr")


def main():
    tests = [records_have_operators, views_add_up, views_and_the_report_agree, means_are_means, spans_are_what_launches_show, unknown_is_null,
             meta_has_arguments_and_gpus, sql_of_the_page, python_of_the_page, duckdb_of_the_page, parquet_of_the_page]
    return run_tests(tests, RECORDING, prepare)


sys.exit(main())
