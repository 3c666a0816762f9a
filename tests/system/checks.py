# SPDX-License-Identifier: Apache-2.0
"""What tests of the client's outputs have in common: conditions that must hold, and functions that are run one after
the other in a folder of their own, where a copy of the recording, if there is one, is run.gpuctr."""
import os
import shutil
import sqlite3
import tempfile

failures = []


class Skip(Exception):
    """A function that cannot be run here; with the reason."""


def check(condition, what):
    if not condition:
        failures.append(what)
        print("FAIL", what)


def change(path, *statements):
    """A copy of run.gpuctr after these statements; its path."""
    shutil.copy("run.gpuctr", path)
    db = sqlite3.connect(path)
    for s in statements:
        db.execute(*s) if isinstance(s, tuple) else db.execute(s)
    db.commit()
    db.close()
    return path


def check_nesting(trace, what, allowed=()):
    """Events of one track lie within each other or do not overlap: Perfetto drops others. allowed: categories of which some may."""
    tracks = {}
    for e in trace["traceEvents"]:
        if e.get("ph") == "X":
            begin = round(e["ts"] * 1000)
            check(begin >= 0, f"{what}: before the beginning: {e}")
            tracks.setdefault((e["pid"], e["tid"]), []).append((begin, -round(e["dur"] * 1000), e))
    for events in tracks.values():
        ends = []
        for begin, minus_ns, e in sorted(events, key=lambda e: e[:2]):
            while ends and ends[-1] <= begin:
                ends.pop()
            check(not ends or begin - minus_ns <= ends[-1] or e["cat"] in allowed, f"{what}: overlaps another: {e}")
            ends.append(begin - minus_ns)


# Gives each record of a process a launch of its own, with its index behind a million.
OWN_LAUNCHES = ("INSERT INTO launch SELECT 1000000 + r.idx, l.process, l.kind, l.kernel, l.grid_x, l.grid_y, l.grid_z, l.block_x, l.block_y,"
                " l.block_z, l.dynamic_shared_bytes, l.device, l.context, l.stream, l.thread, l.site, l.active_set, l.place, l.layer_site"
                " FROM record r JOIN launch l ON l.id = r.launch", "UPDATE record SET launch = 1000000 + idx")
NO_SITES = ("UPDATE launch SET site = 0", "UPDATE record SET opened = 0")

SHAPE = "kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z, dynamic_shared_bytes"


def in_turns(path, groups=2, turn=7):
    """The recording, as if its metrics had taken turns in so many groups: each changes after so many launches."""
    db = sqlite3.connect("run.gpuctr")
    columns = [name for (name,) in db.execute("SELECT name FROM column_def ORDER BY idx")]
    db.close()
    return change(path, f"UPDATE meta SET value = {groups} WHERE key IN ('groups', 'passes')", f"UPDATE column_def SET pass_group = idx % {groups}",
                  *(f'UPDATE record SET "{name}" = NULL WHERE idx / {turn} % {groups} != {i % groups}' for i, name in enumerate(columns)))


def sums_of_turns(path, column):
    """Of each kernel, by SQL: the sum for all launches, how many had the metric, and of how many nobody knows."""
    db = sqlite3.connect(path)
    rows = db.execute(f'SELECT k.name, sum(n * mean), sum(had), sum(n * (had = 0)) FROM (SELECT kernel, count(*) AS n, avg("{column}") AS mean,'
                      f' count("{column}") AS had FROM record r JOIN launch l ON l.id = r.launch GROUP BY {SHAPE}) JOIN kernel k ON k.id = kernel GROUP BY 1').fetchall()
    db.close()
    return {name: rest for name, *rest in rows}


def run_test(test):
    """Prints what cmocka would, which tests/skips.py reads."""
    before = len(failures)
    print(f"[ RUN      ] {test.__name__}")
    try:
        test()
    except Skip as e:
        print(f"SKIP: {e}")
        print(f"[  SKIPPED ] {test.__name__}")
        return
    print("[       OK ]" if len(failures) == before else "[  FAILED  ]", test.__name__)


def run_tests(tests, recording, prepare=None):
    """The exit status. What is temporary is made in the folder as well; prepare() makes what all tests need."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["TMPDIR"] = folder
        if recording:
            shutil.copy(recording, "run.gpuctr")
        if prepare:
            prepare()
        for test in tests:
            run_test(test)
        os.chdir("/")
    return 1 if failures else 0
