#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""costs CLIENT RECORDING: a capture that somebody has made costs who reads it what its size is worth.

Times are of the processor, and compared with those of an ordinary file in the same run; so they hold on a machine that
does other things. A try that the machine has spoilt is repeated."""

import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys

sys.dont_write_bytecode = True
from checks import OWN_LAUNCHES, check, run_tests  # noqa: E402

CLIENT, RECORDING = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
MB = 1 << 20
TRIES = 3
SANITIZED = b"__asan_init" in CLIENT.read_bytes()


def measure(*arguments):
    """Seconds of the processor, and the most memory in bytes."""
    with subprocess.Popen([CLIENT, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as p:
        err = p.stderr.read()
        _, status, usage = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
    check(p.returncode == 0, f"{arguments}: {p.returncode} {err!r}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def change(path, *statements):
    shutil.copy(RECORDING, path)
    db = sqlite3.connect(path)
    for sql, rows in statements:
        db.executemany(sql, rows)
    db.commit()
    db.close()


def copies(table, key, n, first=2):
    """Rows of the recording's table again, with other values of the columns in key."""
    db = sqlite3.connect(RECORDING)
    row = list(db.execute(f"SELECT * FROM {table}").fetchone())
    db.close()
    for i in range(first, first + n):
        yield [*key(i), *row[len(key(i)):]]


def insert(table, rows):
    rows = list(rows)
    return f"INSERT INTO {table} VALUES({','.join('?' * len(rows[0]))})", rows


def least_ratio(path, other, *arguments):
    return min(measure(*arguments, path)[0] / measure(*arguments, other)[0] for _ in range(TRIES))


def processes_cost_no_more_than_some_records():
    """An empty process is a row, as a record is; it took as long as some hundred of them."""
    n = 20000
    change("processes.gpuctr", insert("process", copies("process", lambda i: [i], n)))
    change("records.gpuctr", insert("record", copies("record", lambda i: [(1 << 40) + i, 1, i], n, first=100000)))
    for arguments in (["report"], ["export", "--to", "csv"], ["report", "--by", "nvtx"]):
        ratio = least_ratio("processes.gpuctr", "records.gpuctr", *arguments)
        print(f"{arguments}: {ratio:.1f} times as long as records")
        check(ratio < 40, f"{arguments}: a process costs {ratio:.1f} times what a record does")


def nest(path, n, length, flat=False):
    """Ranges within each other, or flat: one after the other, with a launch in each."""
    sites = [(1, 1000000 + i, 1000000 + i - 1 if i and not flat else 0, "", f"{i} ".ljust(length, "x"), "", "", 0, 0, 0,
              0 if flat else i) for i in range(n)]
    change(path, ("UPDATE record SET opened = 0", [()]), (f"INSERT INTO site VALUES({','.join('?' * 11)})", sites),
           *((statement, [()]) for statement in OWN_LAUNCHES),
           ("UPDATE launch SET site = ? WHERE id = (SELECT launch FROM record ORDER BY idx LIMIT 1 OFFSET ?)",
            [(1000000 + i, i) for i in range(n)]))


def ranges_with_long_messages_are_told_once():
    """600 of 16 kB are 10 MB; within each other their paths were 2.8 GB. As many that stand alone say what is fair."""
    nest("nested.gpuctr", 600, 16000)
    nest("flat.gpuctr", 600, 16000, flat=True)
    for arguments in (["report"], ["report", "--by", "nvtx"], ["export", "--to", "csv"], ["export", "--to", "jsonl"],
                      ["export", "--to", "folded"], ["export", "--to", "chrome"]):
        for _ in range(TRIES):
            seconds, most = measure(*arguments, "nested.gpuctr")
            usual, least = measure(*arguments, "flat.gpuctr")
            if seconds < 20 * usual:
                break
        print(f"{arguments}: {(most - least) / MB:.0f} MB more than {least / MB:.0f}, {seconds:.2f} s for {usual:.2f}")
        check(SANITIZED or most - least < 400 * MB, f"{arguments}: {most / MB:.0f} MB, of the other {least / MB:.0f}")
        # A trace has an event for each time that a thread comes to a range.
        check("chrome" in arguments or seconds < 20 * usual, f"{arguments}: {seconds:.1f} s, of the other {usual:.2f}")


def a_path_that_is_cut_says_so():
    nest("nested.gpuctr", 600, 16000)
    rows = subprocess.run([CLIENT, "export", "--to", "csv", "nested.gpuctr"], capture_output=True, text=True,
                          check=True).stdout.splitlines()
    longest = max(rows, key=len)
    check(len(longest) < 60000 and "../" in longest, f"{len(longest)} bytes: {longest[:300]}")


def main():
    return run_tests([processes_cost_no_more_than_some_records, ranges_with_long_messages_are_told_once,
                      a_path_that_is_cut_says_so], RECORDING)


sys.exit(main())
