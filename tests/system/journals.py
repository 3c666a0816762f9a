#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""journals CLIENT REPLAY RECORDING: a journal that somebody has put beside a capture.

SQLite rolls back a journal that a writer seems to have left, and then removes the file that the journal names as
its super-journal: whoever opens a stranger's capture would remove any file of their own for that stranger."""

import os
import pathlib
import resource
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from checks import Skip, check, run_tests  # noqa: E402

CLIENT, REPLAY, RECORDING = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
MAGIC = bytes.fromhex("d9d505f920a163d7")
STRANGER = 65534
PATIENCE_S = 60


def hot_journal(capture, names="", before=()):
    """What a writer leaves that was killed in a commit: pages as they were before, and the super-journal."""
    data = pathlib.Path(capture).read_bytes()
    size, pages = struct.unpack(">H", data[16:18])[0], struct.unpack(">I", data[28:32])[0]
    size = 65536 if size == 1 else size
    journal = MAGIC + struct.pack(">5I", len(before), 0, pages, 512, size)
    journal += bytes(512 - len(journal))
    for number, page in before:
        checksum = sum(page[i] for i in range(size - 200, 0, -200))
        journal += struct.pack(">I", number) + page + struct.pack(">I", checksum)
    if names:
        name = os.fsencode(names)
        journal += struct.pack(">I", 0x40000000 // size + 1) + name + struct.pack(">2I", len(name), sum(name)) + MAGIC
    return journal


def victim():
    path = pathlib.Path("victim").resolve()
    path.write_text("what root must not lose\n")
    return path


def fresh(name):
    for path in (name, f"{name}-journal"):
        pathlib.Path(path).unlink(missing_ok=True)
    shutil.copy(RECORDING, name)


def capture_with_journal():
    """A capture and its journal, both of a stranger where we may make one."""
    path = victim()
    fresh("run.gpuctr")
    pathlib.Path("run.gpuctr-journal").write_bytes(hot_journal("run.gpuctr", path))
    if os.geteuid() == 0:
        for name in ("run.gpuctr", "run.gpuctr-journal"):
            os.chown(name, STRANGER, STRANGER)
    return path


def run(*arguments, env=None, **more):
    """What is temporary is gone with who made it, however that ended."""
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:
        r = subprocess.run(list(map(str, arguments)), capture_output=True, timeout=300, check=False,
                           env={**os.environ, "TMPDIR": temporary, **(env or {})}, **more)
        left = [str(p) for p in pathlib.Path(temporary).rglob("*")]
        check(not left, f"{arguments}, status {r.returncode}: {left} are left in TMPDIR")
    return r


def nothing_is_removed(*arguments):
    path = capture_with_journal()
    r = run(*arguments)
    check(path.exists(), f"{arguments}: the file that the journal names is gone, status {r.returncode}")
    check(os.path.exists("run.gpuctr-journal"), f"{arguments}: the journal is not ours to remove")
    check(r.returncode == 1 and b"remedy: " in r.stderr, f"{arguments}: {r.returncode} {r.stderr!r}")


def report():
    nothing_is_removed(CLIENT, "report", "run.gpuctr")


def report_against():
    nothing_is_removed(CLIENT, "report", RECORDING, "--against", "run.gpuctr")


def report_html():
    nothing_is_removed(CLIENT, "report", "--html", "page.html", "run.gpuctr")


def export():
    nothing_is_removed(CLIENT, "export", "--to", "csv", "run.gpuctr")


def replay_info():
    nothing_is_removed(REPLAY, "--info", "run.gpuctr")


def plant(path, content):
    """As a stranger, where we may become one."""
    code = "import sys; open(sys.argv[1], 'xb').write(sys.stdin.buffer.read())"
    more = {"user": STRANGER, "group": STRANGER, "extra_groups": []} if os.geteuid() == 0 else {}
    return subprocess.run(["/usr/bin/env", "python3", "-c", code, str(path)], input=content, capture_output=True,
                          check=False, **more).returncode == 0


def temporaries(folder):
    return [p for p in pathlib.Path(folder).rglob("*") if p.is_file() and "journal" not in p.name]


def report_of_standard_input():
    """Who writes to the same sticky folder finds the copy's name while it is made."""
    path = victim()
    folder = pathlib.Path("sticky").resolve()
    folder.mkdir()
    folder.chmod(0o1777)
    data = RECORDING.read_bytes()
    with subprocess.Popen([CLIENT, "report", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": str(folder)}) as p:
        p.stdin.write(data[:65536])
        p.stdin.flush()
        end = time.monotonic() + PATIENCE_S
        while not temporaries(folder) and time.monotonic() < end:
            time.sleep(0.01)
        found = temporaries(folder)
        check(len(found) == 1, f"the copy is not where the test looks: {found}")
        planted = plant(f"{found[0]}-journal", hot_journal(RECORDING, path))
        out, err = p.communicate(data[65536:], timeout=300)
    check(path.exists(), "the file that the journal names is gone")
    check(not (planted and os.geteuid() == 0), "a stranger has put a journal beside the copy")
    check(p.returncode == (1 if planted else 0), f"{p.returncode} {err!r}")
    check(planted or b"kernel" in out, out)


def pages(path, size):
    data = pathlib.Path(path).read_bytes()
    return [data[i:i + size] for i in range(0, len(data), size)]


def half_committed():
    """run.gpuctr as a writer that was killed in a commit leaves it; was.gpuctr as it was before."""
    fresh("was.gpuctr")
    fresh("run.gpuctr")
    db = sqlite3.connect("run.gpuctr")
    db.execute("UPDATE meta SET value = 'half of a commit' WHERE key = 'command'")
    db.commit()
    size = db.execute("PRAGMA page_size").fetchone()[0]
    db.close()
    was, now = pages("was.gpuctr", size), pages("run.gpuctr", size)
    changed = [(i + 1, was[i]) for i in range(len(was)) if was[i] != now[i]]
    check(len(was) == len(now) and changed, "the commit changes some pages")
    pathlib.Path("run.gpuctr-journal").write_bytes(hot_journal("was.gpuctr", before=changed))


def a_killed_writer_loses_nothing():
    """The journal of who was killed in a commit is applied to a copy, whoever reads it and how often."""
    half_committed()
    before = {p: pathlib.Path(p).read_bytes() for p in ("run.gpuctr", "run.gpuctr-journal")}
    wanted = run(REPLAY, "--info", "was.gpuctr").stdout.replace(b"was.gpuctr", b"run.gpuctr")
    if os.geteuid() == 0:
        for p in before:
            os.chown(p, STRANGER, STRANGER)
    for _ in range(2):
        r = run(REPLAY, "--info", "run.gpuctr")
        check(r.returncode == 0 and r.stdout == wanted, f"{r.returncode} {r.stdout!r} {r.stderr!r}")
    r = run(CLIENT, "report", "run.gpuctr")
    check(r.returncode == 0 and r.stdout == run(CLIENT, "report", "was.gpuctr").stdout.replace(b"was.", b"run."),
          f"{r.returncode} {r.stderr!r}")
    check(all(pathlib.Path(p).read_bytes() == data for p, data in before.items()), "what was read has changed")


def without_room_for_a_copy_the_file_is_refused():
    half_committed()
    r = run(CLIENT, "report", "run.gpuctr", env={"TMPDIR": "/nonexistent"})
    check(r.returncode == 1 and b"TMPDIR" in r.stderr, f"{r.returncode} {r.stderr!r}")


def a_copy_that_fails_leaves_nothing():
    """The journal is copied, and for the database there is no room; or the copies are made, and are no database."""
    half_committed()
    room = (os.path.getsize("run.gpuctr-journal") + os.path.getsize("run.gpuctr")) // 2
    r = run(CLIENT, "report", "run.gpuctr", restore_signals=False,  # SIGXFSZ is ignored: the call fails
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)))
    check(r.returncode == 1 and b"TMPDIR" in r.stderr, f"{r.returncode} {r.stderr!r}")
    with open("run.gpuctr", "r+b") as f:
        f.write(b"no database any longer")
    for command in ([CLIENT, "report"], [CLIENT, "report", "--html", "page.html"], [CLIENT, "export", "--to", "csv"], [REPLAY, "--info"]):
        r = run(*command, "run.gpuctr")
        check(r.returncode == 1, f"{command}: {r.returncode} {r.stderr!r}")


def a_strangers_journal_is_no_part_of_a_capture():
    """It would put the stranger's pages into what we report."""
    if os.geteuid() != 0:
        raise Skip("only root can make a file of another user's")
    half_committed()
    os.chown("run.gpuctr-journal", STRANGER, STRANGER)
    r = run(REPLAY, "--info", "run.gpuctr")
    check(r.returncode == 0 and b"half of a commit" in r.stdout, f"{r.returncode} {r.stdout!r} {r.stderr!r}")
    check(os.path.exists("run.gpuctr-journal"), "it is not ours to remove")


def write_ahead_logs_are_refused():
    fresh("run.gpuctr")
    db = sqlite3.connect("run.gpuctr")
    db.execute("PRAGMA journal_mode = WAL")
    db.close()
    before = sorted(os.listdir("."))
    r = run(CLIENT, "report", "run.gpuctr")
    check(r.returncode == 1 and b"journal_mode" in r.stderr, f"{r.returncode} {r.stderr!r}")
    check(sorted(os.listdir(".")) == before, f"{os.listdir('.')}")


def main():
    tests = [report, report_against, report_html, export, replay_info, report_of_standard_input,
             a_killed_writer_loses_nothing, without_room_for_a_copy_the_file_is_refused, a_copy_that_fails_leaves_nothing,
             a_strangers_journal_is_no_part_of_a_capture, write_ahead_logs_are_refused]
    return run_tests(tests, RECORDING, lambda: os.chmod(".", 0o755))


sys.exit(main())
