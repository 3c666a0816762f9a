#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""outputs CAPTURE FILE...: every value that a stream or an export (.csv, .jsonl) tells of a record, found by the name
of its column or member, is what the capture file has of that record. At least two processes, and no two columns of
metrics that are alike: so what stands under another's name, or is another process's, is noticed."""
import csv
import json
import pathlib
import re
import sqlite3
import sys

sys.dont_write_bytecode = True
from checks import check, failures  # noqa: E402

KINDS = ("kernel", "cooperative", "graph", "graph_kernel")
NAMES = {"idx": "index"}
LEAST_PROCESSES, LEAST_COLUMNS = 2, 25


def stored(path):
    """Of each record, by process and index, the values by their names outside of the file."""
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    metrics = [row[0] for row in db.execute("SELECT name FROM column_def ORDER BY idx")]
    is_sampled = db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'sampled'").fetchone()[0]
    errors = {}
    if is_sampled:
        errors = {row["record"]: {f"error:{m}": row[m] for m in metrics} for row in db.execute("SELECT * FROM sampled")}
    records = {}
    for row in db.execute("SELECT record.id AS id, records.* FROM record JOIN records USING (process, idx)"):
        values = {NAMES.get(name, name): row[name] for name in row.keys() if name not in ("id", "program", "device_name")}
        values["kind"] = KINDS[values["kind"]]
        del values["step"]  # in the text of nvtx, as the sequence number of an operator is
        values.update(errors.get(row["id"], {f"error:{m}": None for m in metrics} if is_sampled else {}))
        records[values["process"], values["index"]] = values
    db.close()
    check(len({process for process, _ in records}) >= LEAST_PROCESSES, f"{path}: processes of {list(records)[:3]}")
    told = metrics + ([f"error:{m}" for m in metrics] if is_sampled else [])
    for i, a in enumerate(told):
        for b in told[:i]:
            check(any(r[a] is not None and r[a] != r[b] for r in records.values()), f"{path}: {a} is {b} everywhere")
    return records


def of_csv(path):
    with open(path, newline="", encoding="utf-8") as f:
        for row in csv.DictReader(f, strict=True):
            check(None not in row and None not in row.values(), f"{path}: a line of another length: {row}")
            yield {name: None if value == "" else value for name, value in row.items()}


def of_jsonl(path):
    for line in map(json.loads, pathlib.Path(path).read_text(encoding="utf-8").splitlines()):
        if line.get("type") != "kernel":
            continue
        for shape in "grid", "block":
            line.update(zip((f"{shape}_{axis}" for axis in "xyz"), line.pop(shape)))
        line.update(line.pop("metrics", {}))
        line.update({f"error:{name}": error for name, error in line.pop("errors", {}).items()})
        line["nvtx"] = "/".join(r["message"] for r in line["nvtx"]) or None
        yield line


def without_seq(row):
    return {**row, "nvtx": row["nvtx"] and re.sub(r", seq = \d+", "", row["nvtx"])}


def same(told, value):
    if isinstance(value, float) or isinstance(told, float):
        return told is not None and value is not None and float(told) == float(value)
    return (None if told is None else str(told)) == (None if value in (None, "") else str(value))


def compare(path, records):
    seen = set()
    for row in map(without_seq, (of_csv if path.endswith(".csv") else of_jsonl)(path)):
        key = int(row["process"]), int(row["index"])
        want = records.get(key, {})
        both = [name for name in want if name in row]
        missing = [name for name in want if name not in row and want[name] is not None]
        check(len(both) >= LEAST_COLUMNS and not missing, f"{path}: {key}: {len(both)} columns, without {missing}")
        wrong = [f"{name} is {row[name]!r}, not {want[name]!r}" for name in both if not same(row[name], want[name])]
        check(not wrong, f"{path}: record {key}: {'; '.join(wrong)}")
        check(key not in seen, f"{path}: record {key} comes twice")
        seen.add(key)
        if len(failures) > 20:
            return
    check(seen == set(records), f"{path}: {len(seen)} records of {len(records)}")


of_store = stored(sys.argv[1])
for p in sys.argv[2:]:
    compare(p, of_store)
sys.exit(1 if failures else 0)
