#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""report CLIENT REPLAY SOURCE [--renew]: what gpuctr-client report prints of the bundled recording, and what it does
with files that are no captures.

Outputs are compared with tests/system/report/*.txt, which were read by eye, and with docs/tutorial.md and
README.md, whose commands in blocks are all run. --renew writes both anew, to be read again before they are committed."""

import csv
import io
import json
import os
import pathlib
import pty
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import unicodedata

sys.dont_write_bytecode = True
from checks import NO_SITES, OWN_LAUNCHES, change, check, in_turns, run_tests, sums_of_turns  # noqa: E402

CLIENT, RECORDING, SOURCE = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
RENEW = "--renew" in sys.argv
GOLDEN = SOURCE / "tests/system/report"
TUTORIAL, README = SOURCE / "docs/tutorial.md", SOURCE / "README.md"
COLUMNS = ("dram__bytes_read.sum", "dram__bytes_write.sum", "gpu__time_duration.sum", "lts__t_sectors.sum",
           "lts__t_requests.sum")


def run(*arguments, stdin=None, env=None, **more):
    """A report, in the folder of run.gpuctr; values of env are added."""
    environment = {**os.environ, "LC_ALL": "C", **(env or {})}
    environment.pop("COLUMNS", None)
    return subprocess.run([CLIENT, "report", *map(str, arguments)], input=stdin, env=environment,
                          capture_output=True, timeout=100, **more)


def report(*arguments, **more):
    r = run("run.gpuctr", *arguments, **more)
    check(r.returncode == 0 and r.stderr == b"", f"{arguments}: {r.returncode} {r.stderr!r}")
    return r.stdout.decode()


def width(line):
    """Columns on a terminal."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


# --- golden outputs ---------------------------------------------------------------------------------


GOLDENS = {
    "kernel": ["--width", 120, "--limit", 12],
    "kernel-all": ["--width", 120, "--limit", 4, "--columns", "all"],
    "kernel-wide": ["--width", 240, "--limit", 12, "--columns", ":all"],
    "narrow": ["--width", 40, "--limit", 2],
    "base": ["--width", 120, "--limit", 5, "--units", "base"],
    "op": ["--by", "op", "--width", 120, "--limit", 16],
    "op-shape": ["--by", "op,shape", "--width", 140, "--limit", 8],
    "op-shape-narrow": ["--by", "op,shape", "--width", 100, "--limit", 8],
    "nvtx-2": ["--by", "nvtx:2", "--width", 120, "--limit", 10],
    "layer": ["--by", "layer", "--width", 100, "--limit", 12, "--sort", "dram__bytes_read:self"],
    "layer-dir-step": ["--by", "layer,dir,step", "-v", "--width", 120],
    "columns": ["--by", "op", "--skip-zero", "--columns", "time,dram_bandwidth,of_peak", "--columns", ":self,:share,:max",
                "--sort", "of_peak", "--width", 100, "--limit", 10],
    "who": ["--by", "device,process,stream,thread", "--width", 120],
}


def goldens():
    for name, arguments in GOLDENS.items():
        path = GOLDEN / f"{name}.txt"
        got = report(*arguments)
        if RENEW:
            path.write_text(got)
        check(got == path.read_text(), f"{path.name} is not what comes out")


def shown_commands(path, least):
    """Every command in a block of the page prints what stands there."""
    text = path.read_text()
    blocks = re.findall(r"^```\n\$ (.*?)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    check(len(blocks) >= least, f"{path.name} has lost its commands")
    for command, shown in blocks:
        r = subprocess.run(["sh", "-c", command], capture_output=True, timeout=100, check=False)
        got = r.stdout.decode()
        check(r.returncode == 0 and not r.stderr, f"{path.name}: {command}: {r.stderr!r}")
        if RENEW:
            text = text.replace(f"```\n$ {command}\n{shown}```", f"```\n$ {command}\n{got}```")
        else:
            check(got == shown, f"{path.name}: {command} prints something else:\n{got}")
    if RENEW:
        path.write_text(text)


def copy_sampled():
    shutil.copy(SOURCE / "client/replay/transformer-h200.gpuctr", "sampled.gpuctr")


def pages():
    copy_sampled()
    os.environ["PATH"] = f"{CLIENT.parent}:{os.environ['PATH']}"
    shown_commands(TUTORIAL, 7)
    shown_commands(README, 1)


def rename_columns(path, names):
    """Columns of a capture under other names, with their values."""
    db = sqlite3.connect(path)
    db.execute("PRAGMA writable_schema = ON")
    for old, new in names.items():
        db.execute("UPDATE sqlite_schema SET sql = replace(sql, ?, ?) WHERE name = 'record'", (f'"{old}"', f'"{new}"'))
        db.execute("UPDATE column_def SET name = ? WHERE name = ?", (new, old))
    db.commit()
    db.close()


def tutorial_of_ones_own():
    """Its commands also work on a capture that was made as it says: with the columns of those metrics."""
    text = TUTORIAL.read_text()
    metrics = re.search(r"^    gpuctr-client .*--metrics (\S+) -o run.gpuctr", text, re.MULTILINE)[1]
    check(metrics == "memory,lts__t_sectors.sum", f"the tutorial captures {metrics}, which this test does not know")
    copy_sampled()
    shutil.copy("run.gpuctr", "bundled.gpuctr")
    rename_columns("run.gpuctr", {"gpu__time_duration.sum": "lts__t_sectors_op_read.sum",
                                  "lts__t_requests.sum": "lts__t_sectors_op_write.sum"})
    for command in re.findall(r"^```\n\$ (.*?)$", text, re.MULTILINE):
        r = subprocess.run(["sh", "-c", command], capture_output=True, timeout=100, check=False)
        check(r.returncode == 0 and not r.stderr and r.stdout, f"of one's own: {command}: {r.stderr!r}")
    os.replace("bundled.gpuctr", "run.gpuctr")


# --- numbers ----------------------------------------------------------------------------------------


def totals():
    db = sqlite3.connect("run.gpuctr")
    sums = {c: db.execute(f'SELECT sum("{c}") FROM record').fetchone()[0] for c in COLUMNS}
    sums["time"] = db.execute("SELECT sum(duration_ns) FROM record").fetchone()[0]
    db.close()
    return sums


def sums_are_the_captures():
    """By whatever key: the rows' own sums are those that SQL finds, exactly."""
    want = totals()
    for by in ("kernel", "op", "op,shape", "nvtx", "nvtx:1", "layer", "layer,op", "dir,step", "kernel,op,stream"):
        r = json.loads(report("--by", by, "--json"))
        check(sum(row["launches"] for row in r["rows"]) == r["records"] == 716, f"{by}: launches")
        for name, value in want.items():
            got = sum(row["measures"][name]["sum"] for row in r["rows"])
            check(got == value == r["all"]["measures"][name]["sum"], f"{by}: {name} is {got}, not {value}")
        check(r["complete"] and r["rows_left_out"] == 0, f"{by}: complete")


def operators_are_those_of_sql():
    """Each operator's bytes against a query of its own."""
    db = sqlite3.connect("run.gpuctr")
    query = ("SELECT g.name, count(*), sum(\"dram__bytes_read.sum\"), min(duration_ns), max(duration_ns)"
             " FROM record r JOIN launch l ON l.id = r.launch JOIN site g ON g.id = l.site GROUP BY 1")
    want = {row[0]: row[1:] for row in db.execute(query)}
    db.close()
    r = json.loads(report("--by", "op", "--json"))
    rows = {row["key"]["op"]: row for row in r["rows"] if row["launches"]}
    check(set(rows) == set(want), "other operators than SQL finds")
    for name, (launches, read, least, most) in want.items():
        row = rows.get(name, {"launches": 0, "measures": {"time": {}, COLUMNS[0]: {}}})
        got = (row["launches"], row["measures"][COLUMNS[0]].get("sum"), row["measures"]["time"].get("min"),
               row["measures"]["time"].get("max"))
        check(got == (launches, read, least, most), f"{name}: {got}")


def layers_are_those_of_sql():
    """Forward, the ranges that are no operator's, within an iteration; backward, a layer that has a forward kernel."""
    db = sqlite3.connect("run.gpuctr")
    ranges = {row[0]: row[1:] for row in db.execute("SELECT id, parent, name, sizes FROM site")}
    want = {}
    for at, read in db.execute(f'SELECT site, "{COLUMNS[0]}" FROM record r JOIN launch l ON l.id = r.launch'):
        path = []
        while at:
            at, name, sizes = ranges[at]
            path.insert(0, (name, sizes))
        if path[0][0].startswith("iteration ") and not any(m.startswith("Optimizer") for m, _ in path):
            layer = "/".join(m for m, sizes in path[1:] if not sizes) or None
            launches, total = want.get(layer, (0, 0))
            want[layer] = (launches + 1, total + read)
    db.close()
    got = {}
    for row in json.loads(report("--by", "layer,dir", "--json"))["rows"]:
        if row["launches"]:
            got.setdefault(row["key"]["dir"], {})[row["key"]["layer"]] = (row["launches"], row["measures"][COLUMNS[0]]["sum"])
    check(got["fprop"] == want and len(want) > 50, f"forward: {set(got['fprop'].items()) ^ set(want.items())}")
    without = got["bprop"].pop(None)[0]
    check(set(got["bprop"]) <= set(want) and sum(n for n, _ in got["bprop"].values()) > 30 * without, f"backward: {without} without")


def the_query_has_the_rows_of_the_table():
    """report --sql, asked by SQLite: launches, time and sums of each row, but for rows that hold others alone."""
    with sqlite3.connect("run.gpuctr") as db:
        for keys in ("kernel", "op", "layer", "dir", "shape", "step", "stream", "thread", "process", "device", "op,dir", "kernel,shape,step"):
            n = keys.count(",") + 1
            asked = sorted(r[n:] for r in db.execute(report("--by", keys, "--sql")))
            table = [r for r in csv.DictReader(io.StringIO(report("--by", keys, "--csv"))) if int(r["launches"]) > 0]
            shown = sorted((int(r["launches"]), int(r["time:sum"]), *(float(r[c + ":sum"]) for c in COLUMNS)) for r in table)
            check(asked == shown and len(asked) > 0, f"{keys}: {asked[:3]} {shown[:3]}")
        names = [(r[0], r[1]) for r in db.execute(report("--by", "op", "--sql", "--limit", 3))]
        rows = [r for r in csv.DictReader(io.StringIO(report("--by", "op", "--csv"))) if int(r["launches"]) > 0][:3]
        check(names == [(r["op"], int(r["launches"])) for r in rows], f"{names}")
    for refused_keys, why in (("nvtx", b"ask the view by_nvtx"), ("rank", b"know it of no launch")):
        r = run("run.gpuctr", "--by", refused_keys, "--sql")
        check(r.returncode == 2 and why in r.stderr and r.stdout == b"", f"{refused_keys}: {r}")
    for more in (["--csv"], ["--where", "op=conv"], ["run2.gpuctr"]):
        r = run("run.gpuctr", "--sql", *more)
        check(r.returncode == 2 and (b"--sql is of one file" in r.stderr or b"--sql and --" in r.stderr), f"{more}: {r}")


def figures_of_a_row_belong_together():
    """launches are those that self and mean are of; those of the total are named so, and several rows have no total."""
    text = report("--by", "op", "--columns", "time", "--units", "base", "--limit", 40, "--width", 160)
    head, *rows = text[:text.index("\n\n")].split("\n")[1:]
    check(head.split() == ["op", "launches", "launches", "total", "self", "mean", "share"], f"head: {head}")
    at = head.index("launches")
    for row in rows:
        own, nested, total, self_ns, mean, _ = row[at:].split()
        check(self_ns == "-" if own == "0" else abs(float(self_ns) / int(own) - float(mean)) < 1e-3, f"{row}")
        check((nested, total) == ("-", "-") if " more " in row[:at] else int(nested) >= int(own), f"{row}")
    for row in json.loads(report("--by", "op", "--json"))["rows"]:
        for m in row["measures"].values():
            check(row["launches"] == 0 or m["sum"] / row["launches"] == m["mean"], f"{row['key']}: {m}")
    text = report("--by", "op", "--columns", ":self", "--columns", "time")
    check("total" not in text[:text.index("\n\n")], "nobody asked for a total")
    text = report("--by", "op", "--width", 40, "--limit", 1)
    check("21 more\n  launches                           602\n  total launches                       -\n" in text, f"narrow: {text}")
    text = report("--by", "op", "--define", "traffic=dram__bytes_read", "--columns", "traffic,of_peak", "--limit", 3)
    check(next(line for line in text.split("\n") if " more " in line).split()[2:] == ["-", "-", "-"], f"derived: {text}")
    for by, key in (("launches", "launches"), ("calls", "launches"), ("total_launches", "total_launches")):
        order = [row[key] for row in json.loads(report("--by", "op", "--sort", by, "--json"))["rows"]]
        check(order == sorted(order, reverse=True), f"sorted by {by}: {order}")


def start_end_ranges_are_a_key():
    """Kernels in such ranges alone are in no row of --by nvtx."""
    ranges = ", ".join(f"(1, {900000 + i}, 0, '', '{name}', '', '', 0, 0, 0, 0)" for i, name in enumerate(("warm-up", "training")))
    change("ranges.gpuctr", f"INSERT INTO site VALUES {ranges}", "INSERT INTO active VALUES (1, 1, 900000), (1, 1, 900001), (1, 2, 900001)",
           *OWN_LAUNCHES, *NO_SITES, "UPDATE launch SET active_set = (id - 1000000) % 3")
    r = json.loads(run("ranges.gpuctr", "--by", "range", "--json").stdout)
    rows = {row["key"]["range"]: row["launches"] for row in r["rows"]}
    check(set(rows) == {None, "training; warm-up", "training"} and sum(rows.values()) == 716, f"rows: {rows}")
    check(json.loads(run("ranges.gpuctr", "--where", "range=warm", "--json").stdout)["all"]["launches"] == rows["training; warm-up"], "--where")


def the_first_metric_is_shown():
    """On narrow terminals too: names are cut for it, then mean and share are left out; figures that one asks for stay."""
    copy_sampled()
    for path, columns in (("run.gpuctr", 80), ("run.gpuctr", 60), ("sampled.gpuctr", 80), ("sampled.gpuctr", 60)):
        text = run(path, "--width", columns, "--limit", 3).stdout.decode()
        head = text.split("\n")[0].split()
        check(head == ["time", COLUMNS[0]] and all(width(line) <= columns for line in text.split("\n")), f"{path}, {columns}: {text}")
    for by in ("op", "op,shape", "nvtx"):
        check(report("--by", by, "--width", 80).split("\n")[0].split()[-2:] == ["time", COLUMNS[0]], f"--by {by}")
    check(report("--against", shutil.copy("run.gpuctr", "before.gpuctr"), "--width", 80).split("\n")[0].split()[-1] == COLUMNS[0], "--against")
    check(report("--sort", COLUMNS[3], "--width", 60).split("\n")[0].split() == [COLUMNS[3]], "what rows are sorted by")
    check(report("--columns", ":sum,:mean,:share", "--width", 70).split("\n")[0] and
          "mean" in report("--columns", ":sum,:mean,:share", "--width", 60), "figures that one asks for")


def orders_are_told():
    """What rows are sorted by is shown or named, and what cannot be sorted by is refused with what can."""
    for more, says in ((("--columns", "dram__bytes_read"), "\nrows are sorted by time\n"), (("--sort", "time:max"), "\nrows are sorted by time:max\n"),
                       (("--by", "op", "--columns", ":total", "--sort", "time:self"), "\nrows are sorted by time:self\n"),
                       (("--sort", "time:mean", "--width", 60), "\nrows are sorted by time:mean\n")):
        check(says in report(*more), f"{more}: {report(*more)}")
    for more in ((), ("--by", "op"), ("--sort", "time:mean"), ("--sort", "of_peak"), ("--sort", "name")):
        check("sorted by" not in report(*more), f"{more}: what one sees is told")
    for sort, says in (("time:change", "name the capture to compare with by --against"), ("of_peak:change", "by --against"),
                       ("launches:change", "'change', for it has no figures"), ("of_peak:mean", "'mean'; it has total"),
                       ("time:foo", "it has total, sum, mean, share, min, max, stddev")):
        r = run("run.gpuctr", "--sort", sort)
        check(r.returncode == 2 and says in r.stderr.decode(), f"{sort}: {r.stderr}")
    change("half.gpuctr", "UPDATE record SET duration_ns = duration_ns * (1 + idx % 3)")
    r = json.loads(run("half.gpuctr", "--against", "run.gpuctr", "--sort", "of_peak:change", "--json").stdout)
    moved = [abs(row["derived"]["of_peak"] - row["derived"]["of_peak:before"]) for row in r["rows"]]
    check(moved == sorted(moved, reverse=True) and moved[0] > 0, "by the change of what is derived")


def parts_of_names():
    """A part of a derived column's name names it, but a metric's part comes first."""
    for part, name in (("bandwidth", "dram_bandwidth"), ("bytes_read", COLUMNS[0]), ("of_pe", "of_peak")):
        check(report("--columns", part).split("\n")[0].split() == [name], f"--columns {part}")
    r = run("run.gpuctr", "--columns", "nothing")
    check(r.returncode == 2 and "dram_bandwidth" in r.stderr.decode(), f"{r.stderr}")


def paths_are_read():
    """NVTX paths get more room than a third counter."""
    line = next(line for line in report("--by", "nvtx", "--width", 160).split("\n") if "convolution_backward" in line)
    check(width(line.split("  ")[0]) > 48, f"{line}")


def keys_of_nothing():
    """What to do so that a key says something."""
    copy_sampled()
    for by, says in (("layer", "--torch=modules"), ("op", "with --torch"), ("dir", "with --torch"), ("nvtx", "--by range"), ("range", "--by nvtx"),
                     ("step", "step 7"), ("kernel,op", "with --torch")):
        text = run("sampled.gpuctr", "--by", by, "--width", 200).stdout.decode()
        check(re.search(f"\nno .*{re.escape(says)}", text), f"{by}: {text}")
    for by in ("layer", "op", "dir", "nvtx", "step", "kernel", "stream", "shape"):
        check("\nno kernel ran" not in report("--by", by), f"{by}: something is known")


def one_table():
    """What does not fit beside each other is counted and not told, but what rows are sorted by is. Operators have most of their
    own first, and none has nothing of its own."""
    every = ["time", *COLUMNS, "dram_bandwidth", "of_peak"]
    for by in ("kernel", "op", "op,shape", "layer", "layer,dir,step"):
        for columns in (100, 120, 160, 500):
            text = report("--by", by, "--width", columns)
            table = text[:text.index("\n\n")].split("\n")
            shown = [c for c in table[0].split() if c in every]
            more = re.search(r"^(\d+) more columns?: --columns all$", text, re.MULTILINE)
            check(len(table) <= 24 and len(shown) + int(more[1] if more else 0) == len(every) and "time" in shown, f"{by} in {columns} columns: {text}")
            check((columns == 500) == (not more), f"{by} in {columns} columns: {text}")
        text = report("--by", by, "--width", 120, "--columns", "all")
        check([c for line in text.split("hint: ")[0].split("\n") for c in line.split() if c in every] == every, f"all columns by {by}: {text}")
        check("of_peak" in report("--by", by, "--width", 100, "--sort", "of_peak").split("\n")[0], f"{by}: the column that rows are sorted by")
    for by in ("op", "op,shape"):
        text = report("--by", by, "--width", 140, "--limit", 0, "--columns", "time", "--columns", ":total,:self", "--units", "base")
        rows = [line.split() for line in text[:text.index("\n\n")].split("\n")[2:-1]]
        own = [int(row[-1]) for row in rows]
        check(own == sorted(own, reverse=True) and all(row[-4] != "0" for row in rows), f"by {by}: {text}")
        held = re.search(r"^(\d+) rows hold others and launch nothing themselves: --sort time:total shows them$", text, re.MULTILINE)
        every_row = json.loads(report("--by", by, "--json"))["rows"]
        check(held and int(held[1]) + len(rows) == len(every_row) and len(rows) == sum(row["launches"] > 0 for row in every_row), f"rows by {by}: {text}")
        text = report("--by", by, "--width", 140, "--limit", 0, "--sort", "time:total")
        check(len(text[:text.index("\n\n")].split("\n")) == len(every_row) + 3 and "launch nothing themselves" not in text, f"by {by}, all rows: {text}")


def some_launches():
    """--where and --kernel: the rows are those of the launches that SQL finds, and what others say of them is still known."""
    def rows(*arguments, path="run.gpuctr"):
        return json.loads(run(path, *arguments, "--json").stdout)
    whole = rows("--by", "kernel")
    part = rows("--by", "kernel", "--where", "kernel=batch_norm")
    want = [r for r in whole["rows"] if "batch_norm" in r["key"]["kernel"]]
    stable = lambda r: (r["key"], r["launches"], {k: v["sum"] for k, v in r["measures"].items()})
    check(list(map(stable, part["rows"])) == list(map(stable, want)) and 0 < len(want) < len(whole["rows"]), "--kernel")
    check(part["all"]["launches"] == sum(r["launches"] for r in want), "all of some")
    ops = {tuple(r["key"].values()): r for r in rows("--by", "op,dir")["rows"]}
    part = rows("--by", "op,dir", "--where", "op=conv|mm$", "--where", "dir=bprop")
    want = {k: r for k, r in ops.items() if re.search("conv|mm$", k[0] or "") and k[1] == "bprop" and r["launches"]}
    got = {tuple(r["key"].values()): r for r in part["rows"] if r["launches"]}
    check({k: stable(r) for k, r in got.items()} == {k: stable(r) for k, r in want.items()} and want, f"two conditions: {set(got) ^ set(want)}")
    layers = lambda r: {x["key"]["layer"]: x["launches"] for x in r["rows"] if x["launches"]}
    check(layers(rows("--by", "layer,dir", "--where", "dir=bprop")) ==
          {r["key"]["layer"]: r["launches"] for r in rows("--by", "layer,dir")["rows"] if r["launches"] and r["key"]["dir"] == "bprop"},
          "layers of gradients, whose forward operators are left out")
    text = report("--where", "kernel=batch_norm", "--limit", 3)
    n = sum(r["launches"] for r in whole["rows"] if "batch_norm" in r["key"]["kernel"])
    check(f"\n{n} of 716 measured launches are included: where kernel=batch_norm\n" in text, f"which they are: {text}")
    text = run("run.gpuctr", "--against", "run.gpuctr", "--where", "kernel=batch_norm").stdout.decode()
    check("+0.0%" in text and " new" not in text and text.count(f"{n} of 716 measured launches") == 2, f"a comparison: {text}")
    in_turns("turns.gpuctr")
    whole, part = rows(path="turns.gpuctr"), rows("--where", "kernel=batch_norm", path="turns.gpuctr")
    want = {r["key"]["kernel"]: stable(r) for r in whole["rows"] if "batch_norm" in r["key"]["kernel"]}
    check({r["key"]["kernel"]: stable(r) for r in part["rows"]} == want and want, "launches of metrics in turns")
    check(b"None of the 716 measured launches matches --where: try" in run("run.gpuctr", "--where", "kernel=none").stdout, "none")
    for condition, says in (("op", "KEY=REGEX"), ("ops=conv", "did you mean 'op'"), ("op=(", "not a regular expression"), ("nvtx:2=a", "all levels"),
                            ("op,layer=a", "one key")):
        refused(condition, says, "run.gpuctr", "--where", condition, status=2)
    refused("--where", "not a regular expression", "run.gpuctr", "--where", "kernel=a(", status=2)


def columns_of_nothing():
    """What is not known of any launch has no column, and is named below; who names it sees that."""
    change("nothing.gpuctr", f'UPDATE record SET "{COLUMNS[1]}" = NULL')
    text = run("nothing.gpuctr", "--width", 500).stdout.decode()
    heads = text.split("\n")[0].split()
    check(COLUMNS[1] not in heads and COLUMNS[0] in heads and "dram_bandwidth" not in heads and " na " not in text[:text.index("\n\n")], f"{text}")
    check(f"\n{COLUMNS[1]} is not known of any launch\n" in text, f"nothing says so: {text}")
    text = run("nothing.gpuctr", "--columns", f"time,{COLUMNS[1]},dram_bandwidth").stdout.decode()
    check(COLUMNS[1] in text.split("\n")[0] and "dram_bandwidth" in text.split("\n")[0] and " na " in text, f"{text}")


def csv_is_csv():
    rows = list(csv.reader(io.StringIO(report("--by", "op,shape", "--csv"))))
    check(len({len(row) for row in rows}) == 1, "rows of CSV have other columns than the head")
    column = rows[0].index("dram__bytes_read.sum:sum")
    check(sum(float(row[column] or 0) for row in rows[1:]) == totals()[COLUMNS[0]], "CSV sums")


def lines_fit():
    for columns in (40, 41, 60, 79, 80, 100, 163, 300):
        for by in ("kernel", "op", "op,shape,kernel", "nvtx", "layer,dir,step,device,process,stream"):
            text = report("--by", by, "--width", columns, "--limit", 0, "--columns", ":all")
            wide = [line for line in text.split("\n") if width(line) > columns]
            check(not wide, f"{by}: wider than {columns}: {wide}")
    text = report("--against", "run.gpuctr", "--width", 50)
    check(all(width(line) <= 50 for line in text.split("\n")), f"a comparison in 50 columns: {text}")
    check(report("--limit", 3, env={"COLUMNS": "80"}) != "", "COLUMNS")
    text = subprocess.run([CLIENT, "help", "report"], capture_output=True, check=True).stdout.decode()
    check(all(len(line) <= 100 for line in text.split("\n")) and "...." not in text, f"help: {text}")
    check(re.search(r"--by KEYS .*\n {30}\S.*\n {30}.*\(default: kernel\)", text), f"help: {text}")


def rows_differ():
    """No two kernels look the same, at any width."""
    for columns in range(40, 301, 13):
        text = report("--width", columns, "--limit", 0)
        lines = text[:text.index("\n\n")].split("\n")
        if lines[1].startswith("kernel "):
            names = [line[:lines[1].index("launches")] for line in lines[2:]]
        else:
            names = [line for line in lines if not line.startswith(" ")]
        check(len(names) == 59, f"{len(names)} rows in {columns} columns")
        check(len(set(names)) == len(names), f"rows look the same in {columns} columns")


def comparison():
    shutil.copy("run.gpuctr", "more.gpuctr")
    db = sqlite3.connect("more.gpuctr")
    db.execute('UPDATE record SET "dram__bytes_read.sum" = "dram__bytes_read.sum" * 2, duration_ns = duration_ns * 3 '
               "WHERE launch IN (SELECT id FROM launch WHERE kernel = 1)")
    db.commit()
    db.close()
    text = run("more.gpuctr", "--against", "run.gpuctr", "--width", 120, "--limit", 3).stdout.decode()
    check("+200.0%" in text and "+100.0%" in text and "hint" not in text, f"comparison:\n{text}")
    r = json.loads(run("more.gpuctr", "--against", "run.gpuctr", "--json").stdout)
    changes = [row["measures"]["time"]["change"] for row in r["rows"]]
    check(abs(changes[0] - 200) < 1e-9 and changes[1:] == [0] * (len(changes) - 1), "what changed most comes first")


def other_amounts():
    """Half of the steps is half of everything, and no faster: launches stand beside, and means can be compared."""
    change("half.gpuctr", "DELETE FROM record WHERE idx % 2", "UPDATE meta SET value = 358 WHERE key IN ('seen', 'measured')")
    change("twice.gpuctr", "DELETE FROM record WHERE idx % 2", 'UPDATE record SET "dram__bytes_read.sum" = '
           '"dram__bytes_read.sum" * 2, duration_ns = duration_ns * 300 WHERE launch IN (SELECT id FROM launch WHERE kernel = 1)')
    text = run("half.gpuctr", "--against", "run.gpuctr", "--width", 400, "--columns", "time,of_peak").stdout.decode()
    check("LAUNCHES DIFFER: here 358, before 716 (-50.0%)" in text and "--columns :mean" in text, f"half: {text}")
    last = next(line for line in text.split("\n") if line.startswith("all "))
    check(last.split()[1:3] == ["358", "716"] and last.count("%") == 4, f"half: {last}")
    check("LAUNCHES" not in run("run.gpuctr", "--against", "run.gpuctr").stdout.decode(), "as many launches")
    means = ["twice.gpuctr", "--against", "half.gpuctr", "--columns", ":mean", "--columns", "time,dram_bandwidth"]
    row = run(*means, "--limit", 1).stdout.decode().split("\n")[2]
    check("x 300" in row and row.split()[-1] == "-99.4%" and row.count("us") + row.count("ms") == 2, f"means: {row}")
    r = json.loads(run("twice.gpuctr", "--against", "run.gpuctr", "--by", "op", "--json").stdout)
    before = {row["key"]["op"]: row for row in json.loads(report("--by", "op", "--json"))["rows"]}
    for row in r["rows"]:
        was, m = before[row["key"]["op"]], row["measures"][COLUMNS[0]]
        check((row["launches_before"], row["total_launches_before"]) == (was["launches"], was["total_launches"]), f"{row}")
        check(m["mean_before"] == was["measures"][COLUMNS[0]]["mean"], f"mean before: {row['key']}")
        change_of = m["mean_change"] if m["mean"] is not None and m["mean_before"] else None
        check(change_of is None or abs(change_of - (m["mean"] / m["mean_before"] - 1) * 100) < 1e-6, f"mean change: {m}")
        check(row["derived"]["of_peak:before"] == was["derived"]["of_peak"], f"derived before: {row['key']}")
    rows = list(csv.DictReader(io.StringIO(run("half.gpuctr", "--against", "run.gpuctr", "--csv").stdout.decode())))
    check(sum(int(row["launches_before"]) for row in rows) == 716 and "of_peak:change" in rows[0], "CSV of a comparison")
    refused("no figure to compare", "totals and means", "run.gpuctr", "--against", "run.gpuctr", "--columns", ":share", status=2)
    change("timeless.gpuctr", "UPDATE record SET clock = 0, duration_ns = -1")
    r = run("timeless.gpuctr", "--columns", "time")
    check(b"no launch's time is known, so there is no column" in r.stdout, f"no times: {r.stdout.decode()}")
    check(b"1.11 ms" in run("timeless.gpuctr", "--against", "run.gpuctr", "--columns", "time").stdout, "times of before")


def other_clocks():
    """A time is not compared with one of another clock, whichever of the two captures has it; counters are."""
    change("ranges.gpuctr", "UPDATE record SET clock = 1, duration_ns = duration_ns + 3000")
    change("mixed.gpuctr", "UPDATE record SET clock = 1, duration_ns = duration_ns + 3000 WHERE launch IN (SELECT id FROM launch WHERE kernel = 1)")
    for now, before in (("run", "ranges"), ("ranges", "run")):
        text = run(f"{now}.gpuctr", "--against", f"{before}.gpuctr", "-v", "--columns", "time", "--width", 400).stdout.decode()
        table, notes = text.split("\n\n", 1)
        check("%" not in table and (table + "\n").count(" na\n") == 22, f"{now} against {before}: {table}")
        check("TIMES ARE NOT COMPARED" in notes and "with the same --mode" in notes, f"{now} against {before}: {notes}")
        check(notes.index("times are lengths of ranges") > notes.index("before, ") or now == "ranges", f"whose clock: {notes}")
        r = json.loads(run(f"{now}.gpuctr", "--against", f"{before}.gpuctr", "--json").stdout)
        check(all(row["measures"]["time"]["change"] is None and row["measures"][COLUMNS[0]]["change"] == 0
                  for row in [r["all"], *r["rows"]]) and r["clocks_differ"], f"{now} against {before}: JSON")
    text = run("ranges.gpuctr", "--against", "ranges.gpuctr", "--columns", "time").stdout.decode()
    check("NOT COMPARED" not in text and "+0.0%" in text, f"ranges against ranges: {text}")
    r = json.loads(run("run.gpuctr", "--against", "mixed.gpuctr", "--json").stdout)
    changes = [row["measures"]["time"]["change"] for row in r["rows"]]
    check(changes.count(None) == 1 and changes.count(0) == len(changes) - 1, f"rows of one clock: {changes}")
    check(b"partly" in run("run.gpuctr", "--against", "mixed.gpuctr").stdout, "a capture of two clocks")


def other_machines():
    """What is compared with, and what is added up, is told by its machine."""
    change("a100.gpuctr", "UPDATE device SET name = 'NVIDIA A100', chip = 'GA100', clock_sm_mhz = 1410",
           "UPDATE meta SET value = 'GA100' WHERE key = 'chip'")
    text = run("run.gpuctr", "--against", "a100.gpuctr", "--width", 400).stdout.decode()
    note = next((line for line in text.split("\n") if line.startswith("MACHINES DIFFER")), "")
    check(all(x in note for x in ("here GH100, NVIDIA H200", "1980 MHz", "before GA100, NVIDIA A100", "1410 MHz")), text)
    check("DIFFER" not in run("run.gpuctr", "--against", "run.gpuctr").stdout.decode(), "one machine")
    text = run("run.gpuctr", "a100.gpuctr", "-v", "--width", 400).stdout.decode()
    check("GH100, NVIDIA H200 (SM up to 1980 MHz, memory 3201 MHz); GA100, NVIDIA A100 (SM up to 1410 MHz" in text, text)


def cpu_seconds():
    """Of the programs that have ended, whatever else the machine does."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def many_versions():
    """Processes that each tell a long one take as long as those that tell the same, and few lines."""
    took = {}
    for what in ("''", "i"):
        change("versions.gpuctr", f"""WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
               INSERT INTO process(id, pid, program, cupti, driver, recorded_from)
               SELECT i, i, 'p', '13.0', '{"x" * 2000}' || {what}, '' FROM n""")
        took[what] = []
        for _ in range(3):  # the best of them: beside a compiler a second costs more
            began = cpu_seconds()
            text = run("versions.gpuctr", "-v", "--limit", 3, "--width", 2000).stdout.decode()
            took[what].append(cpu_seconds() - began)
    check(" and others, CUPTI" in text.replace("\n", " ") and min(took["i"]) < 5 * min(took["''"]), f"{took}: {text[-300:]}")


def what_is_of_ranges_is_said_of_the_columns_that_are():
    """In the head of each, and with -v by name below a table that shows them."""
    change("ratio.gpuctr")
    rename_columns("ratio.gpuctr", {COLUMNS[3]: "dram__throughput.avg.pct_of_peak_sustained_elapsed", COLUMNS[4]: "sm__cycles_elapsed.max"})
    longer, ratio = COLUMNS[2], "dram__throughput.avg.pct_of_peak_sustained_elapsed"
    for columns, first, second in (("time", "", ""), ("time,bytes_read", "", ""), (longer, longer, ""), (f"time,{ratio}", "", ratio),
                                   (f"{ratio},sm__cycles,{longer}", f"{longer}, sm__cycles_elapsed.max", ratio)):
        text = run("ratio.gpuctr", "-v", "--columns", columns, "--width", 500).stdout.decode()
        check((f"\n{first}: of the ranges around the kernels, which are longer" in text) == bool(first), f"{columns}: {text}")
        check((f"\n{second}: by the ranges around the kernels" in text) == bool(second), f"{columns}: {text}")
        check(first or second or "range" not in text, f"{columns}: {text}")
        for name in (longer, ratio):
            check((f"{name} (range)" in text) == (name in columns), f"{columns}: the head: {text}")


def several_files_add_up():
    shutil.copy("run.gpuctr", "again.gpuctr")
    r = json.loads(run("run.gpuctr", "again.gpuctr", "--by", "capture,op", "--json").stdout)
    check(r["records"] == 2 * 716 and {row["key"]["capture"] for row in r["rows"]} == {"run.gpuctr", "again.gpuctr"},
          "two captures")
    check(r["all"]["measures"][COLUMNS[0]]["sum"] == 2 * totals()[COLUMNS[0]], "the sum of two captures")


def conditions_are_of_each_files_own():
    """Two captures with a host, a rank, a task, a job and a pid each: a condition chooses one, whichever comes first."""
    claim = "INSERT INTO meta VALUES(?, ?)"
    of = {f"{name}.gpuctr": {"host": f"node-{name}", "rank": f"rank {r}", "task": f"task {r + 4}", "process": f"p-{name} ({r + 70})",
                             "capture": f"{name}.gpuctr"} for r, name in enumerate(("one", "two"))}
    for r, (path, _) in enumerate(of.items()):
        change(path, (claim, ("process.1.RANK", str(r))), (claim, ("process.1.SLURM_PROCID", str(r + 4))),
               ("UPDATE meta SET value = ? WHERE key = 'host'", (of[path]["host"],)),
               ("UPDATE process SET pid = ?, program = ?", (r + 70, "p-" + path.split(".", maxsplit=1)[0])), f"DELETE FROM record WHERE idx % 3 < {r}")
    for path, keys in of.items():
        db = sqlite3.connect(path)
        n, read = db.execute(f'SELECT count(*), sum("{COLUMNS[0]}") FROM record').fetchone()
        db.close()
        for key, value in keys.items():
            for files in (list(of), list(of)[::-1]):
                r = run(*files, "--where", f"{key}={value}".replace("(", ".").replace(")", "."), "--by", key, "--json")
                table = json.loads(r.stdout) if r.returncode == 0 else {"rows": [], "all": {"launches": -1}}
                check(table["all"]["launches"] == n and [row["key"][key] for row in table["rows"]] == [value] and
                      table["all"]["measures"][COLUMNS[0]]["sum"] == read, f"{files} --where {key}={value}: {r.stderr} {table}"[:400])


# --- what is no capture, and who does not read ---------------------------------------------------


def refused(what, code, *arguments, status=1, **more):
    r = run(*arguments, **more)
    message = r.stderr.decode()
    check(r.returncode == status and r.stdout == b"" and code in message, f"{what}: {r.returncode} {message}")
    check(status != 1 or "remedy: " in message, f"{what}: no remedy: {message}")


def bad_files():
    data = pathlib.Path("run.gpuctr").read_bytes()
    pathlib.Path("cut.gpuctr").write_bytes(data[:len(data) // 2])
    pathlib.Path("text.gpuctr").write_text("not a capture\n" * 100)
    pathlib.Path("empty.gpuctr").write_bytes(b"")
    pathlib.Path("newer.gpuctr").write_bytes(data[:60] + (99).to_bytes(4, "big") + data[64:])
    shutil.copy("run.gpuctr", "damaged.gpuctr")
    db = sqlite3.connect("damaged.gpuctr")
    db.execute("UPDATE record SET duration_ns = 'x' WHERE idx = 700")
    db.commit()
    db.close()
    refused("cut off", "error[store-truncated]", "cut.gpuctr")
    refused("text", "error[store-not-capture]", "text.gpuctr")
    refused("empty", "error[store-not-capture]", "empty.gpuctr")
    refused("newer", "error[store-version]", "newer.gpuctr")
    refused("damaged", "error[store-corrupt]", "damaged.gpuctr")
    refused("not there", "error[store-path]", "no\nsuch.gpuctr")
    refused("a folder", "error[store-", ".")
    refused("a good and a bad one", "error[store-truncated]", "run.gpuctr", "cut.gpuctr")
    refused("text on standard input", "error[store-not-capture]", "-", stdin=b"nothing")
    refused("nothing on standard input", "Standard input is empty", "-", stdin=b"")
    for wrong in (b"", b"nothing", data[:len(data) // 2]):
        check(b"gpuctr-report-" not in run("-", stdin=wrong).stderr, "the name of a copy")
    refused("no room for standard input", "error[input]", "-", stdin=data, env={"TMPDIR": "/nowhere"})


def standard_input():
    data = pathlib.Path("run.gpuctr").read_bytes()
    r = run("-", "--by", "op", "--width", 100, stdin=data)
    check(r.returncode == 0 and r.stdout.decode() == report("--by", "op", "--width", 100), "standard input")
    check(not list(pathlib.Path(os.environ["TMPDIR"]).glob("gpuctr-report-*")), "a copy is left behind")


def wrong_command_lines():
    os.link("run.gpuctr", "same.gpuctr")
    for arguments, message in (
            ([], "which capture?"), (["run.gpuctr", "--by", "kernal"], "did you mean 'kernel'?"),
            (["run.gpuctr", "--sort", "zz"], "no column"), (["run.gpuctr", "--columns", ":x"], "no figure"),
            (["run.gpuctr", "--sort", "time:change"], "--against"), (["run.gpuctr", "--sort", "time:mean_before"], "--against"),
            (["run.gpuctr", "--columns", "time,dram"], "'dram' names no column, or several"),
            (["run.gpuctr", "--width", "39"], "from 40"), (["run.gpuctr", "--units", "big"], "is not auto or base"),
            (["run.gpuctr", "--csv", "--json"], "two forms"), (["run.gpuctr", "--html", "x.html", "--limit", "3"], "has all rows"), (["-", "-"], "only once"),
            (["run.gpuctr", "run.gpuctr"], "are one file"), (["run.gpuctr", "same.gpuctr"], "are one file"),
            (["run.gpuctr", "--limit", "-1"], "--limit"), (["run.gpuctr", "--by", "ranks"], "did you mean 'rank'?")):
        refused(str(arguments), message, *arguments, status=2)


def no_kernels():
    change("none.gpuctr", "DELETE FROM record", "DELETE FROM image")
    r = run("none.gpuctr", "--by", "op")
    check(r.returncode == 0 and b"No record of the kernels that were measured was kept" in r.stdout, "a capture without kernels")
    change("cut.gpuctr", "DELETE FROM record", "DELETE FROM image", "DELETE FROM process",
           "UPDATE meta SET value = 0 WHERE key IN ('complete', 'seen', 'measured', 'filtered')")
    r = run("cut.gpuctr", "--by", "op")
    check(b"its writing was cut off" in r.stdout and b"used CUDA" not in r.stdout and b"NOT COMPLETE: cut short\n" in r.stdout, f"cut off before a kernel: {r}")
    r = json.loads(run("none.gpuctr", "--json").stdout)
    check(r["rows"] == [] and r["all"]["measures"]["time"]["mean"] is None, "JSON without kernels")
    check(run("none.gpuctr", "--csv").stdout.count(b"\n") == 1, "CSV without kernels")


def not_finished():
    """A file that its writer has open, and will write to again."""
    change("growing.gpuctr", "UPDATE meta SET value = 0 WHERE key IN ('complete', 'seen', 'measured', 'filtered')")
    writer = sqlite3.connect("growing.gpuctr", isolation_level=None)
    writer.execute("BEGIN")
    writer.execute("UPDATE record SET duration_ns = 1 WHERE idx = 0")
    r = run("growing.gpuctr")
    several = run("run.gpuctr", "growing.gpuctr").stdout
    exported = subprocess.run([CLIENT, "export", "growing.gpuctr", "--to", "jsonl"], capture_output=True, timeout=100, check=True).stderr
    writer.execute("ROLLBACK")
    writer.close()
    check(r.returncode == 0 and b"NOT COMPLETE: still being written\n" in r.stdout and b"716 kernels seen" in r.stdout, f"growing: {r}")
    check(b"broke off" not in r.stdout and b"0 dropped" not in r.stdout and b"of what is written" in r.stdout, f"growing: {r}")
    check(json.loads(run("growing.gpuctr", "--json").stdout)["complete"] is False, "growing: JSON")
    check(b"NOT COMPLETE: 1 of 2 captures: still being written\n" in several, several)
    check(b"is not complete: still being written.\n  remedy: Export it again" in exported, exported)
    for change_of, says in (("UPDATE process SET ended = 1", b"still being written, or cut short"), ("UPDATE process SET ended = 0", b"cut short"),
                            ("UPDATE meta SET value = CASE key WHEN 'end_code' THEN 7 ELSE 'Revoked\x1b.' END WHERE key GLOB 'end_*'",
                             b"ended with an error: Revoked\\x1b.")):
        with sqlite3.connect("growing.gpuctr") as db:
            db.execute(change_of)
        r = run("growing.gpuctr")
        check(b"\nNOT COMPLETE: " + says + b"\n" in r.stdout, r)


def hostile_names():
    evil = "=HYPERLINK(\"x\")\x1b]0;title\x07\x1b[31m\u202e,\"quoted\"\nnext \x9b2J \ud7ff</script>"
    change("evil.gpuctr", ("UPDATE kernel SET name = ? WHERE id = 1", (evil,)),
           ("UPDATE site SET name = ?, kind = 0, number = 0 WHERE id = 5", (evil,)))
    for by in ("kernel", "op", "nvtx", "layer"):
        for columns in (40, 120, 300):
            text = run("evil.gpuctr", "--by", by, "--width", columns, "--limit", 0).stdout.decode()
            check(not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text), f"{by}: control characters")
        r = json.loads(run("evil.gpuctr", "--by", by, "--json").stdout)
        found = any(evil in (row["key"][by] or "") for row in r["rows"])
        check(found or by == "op", f"{by}: JSON has another name")
    rows = list(csv.reader(io.StringIO(run("evil.gpuctr", "--csv").stdout.decode(), newline="")))
    check(any(row[0].startswith("'=HYPERLINK") for row in rows), "a formula in CSV")
    check(len({len(row) for row in rows}) == 1, "hostile names break CSV")


def wild_values():
    """No number breaks a line, and none is made of what is not known."""
    change("wild.gpuctr", f'UPDATE record SET "{COLUMNS[0]}" = 9e999 WHERE idx = 1',
           f'UPDATE record SET "{COLUMNS[0]}" = -1e308 WHERE idx IN (2, 3)',
           f'UPDATE record SET "{COLUMNS[1]}" = NULL WHERE idx > 5',
           "UPDATE record SET duration_ns = 9223372036854775807 WHERE idx = 7", *OWN_LAUNCHES,
           "UPDATE launch SET grid_x = 4294967295 WHERE id = 1000007")
    for columns in (40, 80, 170):
        for more in ([], ["--units", "base"], ["--against", "run.gpuctr"]):
            text = run("wild.gpuctr", "--limit", 0, "--columns", ":all", "--width", columns, *more).stdout.decode()
            table = text[:text.index("kernels seen")]
            check(all(width(line) <= columns for line in table.split("\n")), f"wild values in {columns}, {more}")
    r = json.loads(run("wild.gpuctr", "--json").stdout)
    check(r["all"]["derived"]["dram_bandwidth"] is None, "a bandwidth of bytes that are not known")


def values_that_are_missing():
    """Sums of fewer launches than the row has are marked, and counted."""
    change("some.gpuctr", f'UPDATE record SET "{COLUMNS[1]}" = NULL WHERE idx % 3 = 0 AND launch IN (SELECT id FROM launch WHERE kernel = 1)')
    db = sqlite3.connect("some.gpuctr")
    missing = db.execute(f'SELECT count(*) FROM record WHERE "{COLUMNS[1]}" IS NULL').fetchone()[0]
    db.close()
    text = run("some.gpuctr", "--columns", "bytes_write,bytes_read", "--limit", 0).stdout.decode()
    check(f"{COLUMNS[1]} is not known of {missing} of 716 launches" in text and missing > 5, f"missing: {text}")
    marked = [line for line in text[:text.index("\n\n")].split("\n") if "B*" in line]
    check(len(marked) == 2 and marked[1].startswith("all ") and text.count("B*") == 2, f"marked: {marked}")
    check("B*" in run("some.gpuctr", "--by", "op", "--columns", "bytes_write").stdout.decode(), "totals are marked")
    text = run("some.gpuctr", "--against", "run.gpuctr", "--columns", "bytes_write", "--limit", 0).stdout.decode()
    check([line.split()[-1] for line in text.split("\n") if " part" in line] == ["part"] * 2, f"no change of a part: {text}")
    rows = list(csv.DictReader(io.StringIO(run("some.gpuctr", "--csv").stdout.decode())))
    check(sum(int(row[COLUMNS[1] + ":n"]) for row in rows) == 716 - missing, "CSV says of how many")
    check(COLUMNS[0] + ":n" not in rows[0] and "is not known of" not in report(), "nothing is missing")


def metrics_in_turns():
    """Launches that had a metric stand for the others of their kernel and shape; of how many a figure is, is told."""
    for groups, turn in ((2, 7), (3, 1), (2, 200)):
        in_turns("turns.gpuctr", groups, turn)
        data = json.loads(run("turns.gpuctr", "--json").stdout)
        check(data["turns"] and data["all"]["launches"] == 716, f"{groups} groups: {data['all']}")
        rows = {row["key"]["kernel"]: row for row in data["rows"]}
        for name in COLUMNS:
            want = sums_of_turns("turns.gpuctr", name)
            for kernel, (value, had, unknown) in want.items():
                m = rows[kernel]["measures"][name]
                check((m["n"], m["unknown"]) == (had, unknown), f"{groups} groups: {kernel}: {name}: {m}, not {had}, {unknown}")
                check(m["sum"] is None if value is None else abs(m["sum"] - value) <= 1e-9 * value, f"{groups} groups: {kernel}: {name}: {m}, not {value}")
            whole = json.loads(run("run.gpuctr", "--json").stdout)["all"]["measures"][name]["sum"]
            check(turn != 7 or abs(data["all"]["measures"][name]["sum"] / whole - 1) < 0.2, f"{groups} groups: far from the truth: {name}")
        ops = json.loads(run("turns.gpuctr", "--by", "op", "--json").stdout)
        for name in COLUMNS:
            told = ops["all"]["measures"][name]
            want = data["all"]["measures"][name]
            check(abs(told["sum"] - want["sum"]) <= 1e-9 * want["sum"] and told["unknown"] == want["unknown"], f"all launches, by operator: {name}: {told}")
            check(turn != 7 or abs(sum(row["measures"][name]["sum"] or 0 for row in ops["rows"]) / told["sum"] - 1) < 0.1, f"operators add up: {name}")
    text = run("turns.gpuctr", "--columns", COLUMNS[0], "--limit", 0, "--width", 400).stdout.decode()
    unknown = {kernel: row["measures"][COLUMNS[0]]["unknown"] for kernel, row in rows.items()}
    table, notes = text.split("\n\n", 1)
    check(sum("B*" in line for line in table.split("\n")) == 1 + sum(0 < unknown[k] < rows[k]["launches"] for k in rows), f"marked: {table}")
    had = data["all"]["measures"][COLUMNS[0]]["n"]
    check("the metrics took turns in 2 groups" in notes and f"{COLUMNS[0]} {had} of 716" in notes, f"of how many: {notes}")
    check(f"{COLUMNS[0]} is not known of {sum(unknown.values())} of 716 launches" in notes, f"of how many nothing is known: {notes}")
    text = compared("turns.gpuctr", "run.gpuctr", "--columns", COLUMNS[0], "--limit", 0)
    check(text[:text.index("\n\n")].split("\n")[-1].split()[-1] == "part", f"a sum without some launches has not changed by these: {text}")
    in_turns("turns.gpuctr")
    joined = [c["name"] for c in json.loads(run("turns.gpuctr", "--json").stdout)["columns"] if c.get("joined")]
    check("dram_bandwidth" in joined, f"joined: {joined}")
    check("JOINED from launches of different groups: dram_bandwidth" in run("turns.gpuctr", "--width", 400).stdout.decode(), "what is joined is told")
    r = run("turns.gpuctr", "run.gpuctr", "--json")
    both = json.loads(r.stdout)["all"]["measures"][COLUMNS[0]]
    alone = [json.loads(run(p, "--json").stdout)["all"]["measures"][COLUMNS[0]] for p in ("turns.gpuctr", "run.gpuctr")]
    check(abs(both["sum"] - alone[0]["sum"] - alone[1]["sum"]) < 1e-6 * both["sum"] and both["n"] == alone[0]["n"] + 716, f"beside one without turns: {both}")


def with_two_precisions(path):
    """A capture as if it had counted operations of the tensor pipe in two precisions."""
    rename_columns(path, {"lts__t_sectors.sum": "sm__ops_path_tensor_src_bf16.sum",
                          "lts__t_requests.sum": "sm__ops_path_tensor_src_tf32_dst_fp32.sum"})


def compared(now, before, *arguments):
    return run(now, "--against", before, "--width", 400, *arguments).stdout.decode()


def operations():
    """Operations of several counters: what is told of them where a capture lacks one, a row or launches."""
    shutil.copy("run.gpuctr", "two.gpuctr")
    change("ranged.gpuctr", "UPDATE record SET clock = 1, duration_ns = duration_ns + 3000")
    change("without.gpuctr", "DELETE FROM record WHERE launch IN (SELECT id FROM launch WHERE kernel = 1)")
    for path in ("two", "ranged", "without"):
        with_two_precisions(f"{path}.gpuctr")
    shutil.copy("run.gpuctr", "one.gpuctr")
    rename_columns("one.gpuctr", {"lts__t_sectors.sum": "sm__ops_path_tensor_src_bf16.sum"})

    text = compared("two.gpuctr", "two.gpuctr", "-v", "--limit", 2, "--columns", "flop,of_flop_peak")
    more = next(line for line in text.split("\n") if " more " in line)
    check(more.count("+0.0%") == 2, f"the rest before: {more}")
    check("operations (flop, of_flop_peak) are those that were counted" in text.replace("\n", " "), text)
    alone = json.loads(run("two.gpuctr", "--json").stdout)["all"]["derived"]
    both = json.loads(run("two.gpuctr", "run.gpuctr", "--json").stdout)["all"]["derived"]
    check(alone["of_flop_peak"] > 0 and both["of_flop_peak"] is None, f"a share of launches without counters: {both}")
    d = json.loads(run("one.gpuctr", "--against", "two.gpuctr", "--json").stdout)
    for row in [d["all"], *d["rows"]]:
        check(row["derived"]["of_flop_peak:before"] is None and row["derived"]["of_flop_peak:change"] is None, f"other counters: {row}")
    d = json.loads(run("two.gpuctr", "--against", "ranged.gpuctr", "--json").stdout)["all"]["derived"]
    check(d["flop:change"] == 0 and d["of_flop_peak:change"] is None and d["of_flop_peak:before"] > 0, f"other clocks: {d}")

    r = json.loads(run("without.gpuctr", "--against", "two.gpuctr", "--json").stdout)
    gone = [row for row in r["rows"] if row["launches"] == 0]
    check(len(gone) == 1 and gone[0]["derived"]["flop"] is None and gone[0]["derived"]["flop:change"] is None and
          gone[0]["derived"]["flop:before"] > 0, f"a row that is gone: {gone}")
    text = compared("without.gpuctr", "two.gpuctr", "--columns", "flop", "--limit", 0, "--skip-zero")
    check(sum(line.endswith(" gone") for line in text.split("\n")) == 1, f"a row that is gone: {text}")


def ranks():
    """Files of two ranks in one report, apart; and a process that says nothing, or a wild thing."""
    claim = "INSERT INTO meta VALUES(?, ?)"
    change("rank0.gpuctr", (claim, ("process.1.RANK", "0")), (claim, ("process.1.SLURM_PROCID", "8")),
           (claim, ("process.11.RANK", "5")), "UPDATE meta SET value = 'node0' WHERE key = 'host'")
    change("rank1.gpuctr", (claim, ("process.1.SLURM_PROCID", "1")),
           "UPDATE meta SET value = 'node1' WHERE key = 'host'", "DELETE FROM record WHERE idx < 10")
    alone = [json.loads(run(f"rank{i}.gpuctr", "--json").stdout)["all"] for i in (0, 1)]
    r = json.loads(run("rank0.gpuctr", "rank1.gpuctr", "--by", "rank,task,host", "--json").stdout)
    rows = {tuple(row["key"][k] for k in ("rank", "task", "host")): row for row in r["rows"]}
    check(set(rows) == {("rank 0", "task 8", "node0"), ("rank 1", "task 1", "node1")}, f"ranks: {list(rows)}")
    for (_, row), one in zip(sorted(rows.items()), alone):
        check(row["launches"] == one["launches"] and
              all(row["measures"][c]["sum"] == one["measures"][c]["sum"] for c in COLUMNS), "a rank's sums")
    check(json.loads(run("run.gpuctr", "--by", "rank", "--json").stdout)["rows"][0]["key"]["rank"] is None, "a rank")
    change("rankless.gpuctr", (claim, ("process.1.RANK", "\x1b[2J")))
    check("\x1b" not in run("rankless.gpuctr", "--by", "rank").stdout.decode(), "a hostile rank")
    change("rankblob.gpuctr", (claim, ("process.1.RANK", b"\x00\xff")), *[
        (claim, (f"process.1.N{i}", "x")) for i in range(300)])
    refused("too many claims", "damaged", "rankblob.gpuctr")


def defined(*definitions):
    return [a for d in definitions for a in ("--define", d)]


def definitions():
    """Columns of the user's own: their values, their units, and what is wrong with them."""
    own = defined("traffic[byte]=dram__bytes_read.sum + dram__bytes_write", "speed [byte/second] = traffic / time",
                  "per_launch[byte]=traffic / launches", "wrong_way=-(2 - 3.5e0) * (traffic - traffic) / traffic",
                  "never=1 / (traffic - traffic)", "share=traffic / peak_bytes", "slow=gpu__time_duration - time * 1e9")
    r = json.loads(run("run.gpuctr", "--by", "op", *own, "--json").stdout)
    units = {c["name"]: c["unit"] for c in r["columns"]}
    check([units[c] for c in ("traffic", "speed", "per_launch", "wrong_way")] == ["byte", "byte/second", "byte", ""], f"units: {units}")
    for row in [r["all"], *r["rows"]]:
        d, m = row["derived"], row["measures"]
        check(d["traffic"] == m[COLUMNS[0]]["total"] + m[COLUMNS[1]]["total"] and d["never"] is None, "a sum")
        check(d["wrong_way"] == (0 if d["traffic"] else None), "signs and parentheses")
        for name, same in (("speed", d["dram_bandwidth"]), ("share", d["of_peak"] and d["of_peak"] / 100),
                           ("per_launch", d["traffic"] / row["total_launches"]),
                           ("slow", m[COLUMNS[2]]["total"] - m["time"]["total"])):
            check(d[name] == same or abs(d[name] - same) <= 1e-9 * abs(same), f"{name}: {d[name]}, not {same}")
    check(r["rows"] and "speed" in run("run.gpuctr", *own, "--sort", "speed", "--csv").stdout.decode(), "CSV")
    for definition, message in (
            ("x=1 +", "column 'x': incomplete input: '1 +'"), ("x=dram__bytes_raed / time", "did you mean 'dram__bytes_read.sum'?"),
            ("my.columns", "a column is NAME=EXPRESSION or NAME[UNIT]=EXPRESSION"), ("time=3", "is there already"),
            ("x=(SELECT sql FROM sqlite_master)", "the captures have no 'sql'"), ("x=\x1b[2J", "an expression ends before")):
        r = run("run.gpuctr", *defined(definition))
        check(r.returncode == 2 and r.stdout == b"" and message in r.stderr.decode() and b"\x1b" not in r.stderr, f"{definition}: {r.stderr}")
    lines = report(*defined("x=2--1"), "--columns", "x", "--csv").strip().split("\n")
    check(len(lines) > 2 and all(line.endswith(",3") for line in lines[1:]), f"a minus behind a minus begins no comment of SQL: {lines[1]}")
    refused("too many", "too many columns", "run.gpuctr", *defined(*(f"x{i}={i}" for i in range(40))), status=2)


def with_operations(path):
    """The recording, as if it had counted operations of the tensor pipe in place of its third column."""
    change(path, f'UPDATE record SET "{COLUMNS[2]}" = "{COLUMNS[0]}" * (1 + idx % 7) * 5 + 1')
    rename_to_operations(path, COLUMNS[2])


def rename_to_operations(path, column):
    db = sqlite3.connect(path)
    name = "sm__ops_path_tensor_src_bf16_dst_fp32.sum"
    db.execute("PRAGMA writable_schema = ON")
    db.execute("UPDATE sqlite_schema SET sql = replace(sql, ?, ?) WHERE name IN ('record', 'sampled')", (column, name))
    db.execute("UPDATE column_def SET name = ?, unit = '' WHERE name = ?", (name, column))
    db.commit()
    db.close()


def operations_of_samples_by_their_peak():
    """Kernels that are too short to tell have none, and take no part."""
    shutil.copy(SOURCE / "client/replay/transformer-h200.gpuctr", "sampled-operations.gpuctr")
    rename_to_operations("sampled-operations.gpuctr", "dram__bytes_write.sum")
    r = json.loads(run("sampled-operations.gpuctr", "--json").stdout)["all"]["derived"]
    check(r["of_flop_peak"] is not None and abs(r["of_flop_peak"] / (r["flop_rate"] / (132 * 4096 * 1980e6) * 100) - 1) < 1e-9,
          f"{r['of_flop_peak']} % of the peak of bf16 at {r['flop_rate']}")


def operations_by_their_peak():
    """What an H200's 132 multiprocessors can do at 1,980 MHz is known of it, and of no slice of it."""
    with_operations("operations.gpuctr")
    text = run("operations.gpuctr", "-v", "--limit", 3, "--columns", "all").stdout.decode()
    check("operations (flop_rate, of_flop_peak, intensity) are those that were counted, and no others: "
          "of the tensor cores bf16 to fp32 " in text.replace("\n", " "), f"which operations are in a rate:\n{text}")
    check("no others" not in report("-v"), "of a capture without operations")
    r = json.loads(run("operations.gpuctr", "--by", "op", "--json").stdout)
    for row in [r["all"], *(row for row in r["rows"] if row["launches"])]:
        share, rate = row["derived"]["of_flop_peak"], row["derived"]["flop_rate"]
        check(abs(share / (rate / (132 * 4096 * 1980e6) * 100) - 1) < 1e-9, f"{share} % of the peak of bf16 at {rate}")
    change("slice.gpuctr", "UPDATE device SET name = 'NVIDIA H200 MIG 1g.18gb'")
    d = json.loads(run("slice.gpuctr", "--json").stdout)["all"]["derived"]
    check(d["of_peak"] is None and d["dram_bandwidth"] > 0, f"a slice has a share of the card's peak: {d}")
    change("far.gpuctr", f'UPDATE record SET "{COLUMNS[0]}" = 9e999 WHERE idx = 1',
           "UPDATE record SET duration_ns = 9223372036854775807 WHERE idx = 7")
    check(run("far.gpuctr", "--columns", "all", "--limit", 0).returncode == 0, "wild values")


def nobody_reads():
    read, write = os.pipe()
    os.close(read)
    r = subprocess.run([CLIENT, "report", "run.gpuctr"], stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    check(r.returncode == 0 and r.stderr == b"", f"closed pipe: {r.returncode} {r.stderr!r}")
    with open("/dev/full", "wb") as full:
        r = subprocess.run([CLIENT, "report", "run.gpuctr"], stdout=full, stderr=subprocess.PIPE, check=False)
    check(r.returncode == 1 and b"No space left" in r.stderr and b"remedy" in r.stderr, f"disk full: {r}")


def main():
    tests = [goldens, pages, tutorial_of_ones_own, sums_are_the_captures, operators_are_those_of_sql, layers_are_those_of_sql, the_query_has_the_rows_of_the_table,
             figures_of_a_row_belong_together, start_end_ranges_are_a_key, the_first_metric_is_shown, orders_are_told, parts_of_names, paths_are_read, keys_of_nothing, one_table, some_launches, columns_of_nothing, csv_is_csv, lines_fit, rows_differ, comparison, other_amounts, other_clocks, other_machines, many_versions,
             several_files_add_up, conditions_are_of_each_files_own, what_is_of_ranges_is_said_of_the_columns_that_are, bad_files, standard_input, wrong_command_lines, no_kernels, not_finished, hostile_names, wild_values,
             values_that_are_missing, metrics_in_turns, operations, ranks, definitions, operations_by_their_peak, operations_of_samples_by_their_peak, nobody_reads]
    os.environ["LC_ALL"] = "C"
    return run_tests(tests, RECORDING)


sys.exit(main())
