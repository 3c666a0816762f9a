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


def with_budget(path, every, strata="kernel"):
    """The recording, as if every so manyeth launch had been chosen, and what is alike in these columns were a stratum."""
    keys = f"dense_rank() OVER (ORDER BY {strata})"
    return change(path, "INSERT INTO meta VALUES('budget_ppm', 50000), ('seed', '7')",
                  f"CREATE TEMP TABLE of AS SELECT id, idx, {keys} AS stratum FROM record",
                  "INSERT INTO stratum SELECT 1, of.stratum, kernel, 0, max(grid_x), 1, 1, max(block_x), 1, 1, 0, 0, 0, count(*) "
                  "FROM record JOIN of ON of.id = record.id GROUP BY of.stratum",
                  f"INSERT INTO choice SELECT id, stratum, {1 / every} FROM of WHERE idx % {every} = 0",
                  f"DELETE FROM record WHERE idx % {every}")


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
