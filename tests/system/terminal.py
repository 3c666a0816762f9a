#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""terminal SCENARIO CLIENT [ARG...]: what gpuctr-client draws on a terminal, seen by a terminal of the test's own.

test_terminal.c starts the daemon and the programs. The terminal knows what the client may send and nothing else: any
other escape sequence, and any character beyond the last column while nothing wraps, is a failure. Nothing is waited for by the clock but
up to PATIENCE seconds."""

import codecs
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import unicodedata

PATIENCE = 60
CLIENT = sys.argv[2]


class Terminal:
    """A program on a terminal of a size."""

    def __init__(self, argv, width, height, env=None):
        self.width, self.height = width, height
        self.wraps = True  # updates must not rely on it: see obey()
        self.looks = set()  # parameters of SGR that were used
        self.bytes = b""
        self.pending = ""
        self.decoder = codecs.getincrementaldecoder("utf-8")("strict")
        self.clear()
        self.master, slave = pty.openpty()
        self.resize(width, height)
        self.before = termios.tcgetattr(slave)
        environment = {**os.environ, "TERM": "xterm", **(env or {})}
        environment.pop("COLUMNS", None)
        if not env or "NO_COLOR" not in env:
            environment.pop("NO_COLOR", None)

        def own_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.program = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, env=environment,
                                        preexec_fn=own_terminal)
        self.slave = slave  # kept, so that what was set can be read

    def clear(self):
        self.rows = [[" "] * self.width for _ in range(self.height)]
        self.x = self.y = 0

    def resize(self, width, height):
        self.width, self.height = width, height
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        self.clear()

    # --- what the program sends ---

    def put(self, c):
        cells = 0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        if self.x + cells > self.width and self.wraps:
            self.x = 0
            self.feed()
        elif self.x + cells > self.width:
            raise AssertionError(f"{c!r} beyond column {self.width} of {self.text()!r}")
        if self.y < self.height and cells:
            self.rows[self.y][self.x] = c
            self.x += cells

    def feed(self):
        self.y += 1
        if self.y >= self.height:
            self.y = self.height - 1
            self.rows = self.rows[1:] + [[" "] * self.width]

    def obey(self, private, parameters, final):
        n = [int(p or 0) for p in parameters.split(";")]
        if final == "H":
            self.wraps = False
            self.y, self.x = max(n[0], 1) - 1, max(n[1] if len(n) > 1 else 1, 1) - 1
        elif final == "K" and n == [0]:
            if self.y < self.height:
                self.rows[self.y][self.x:] = [" "] * (self.width - self.x)
        elif final == "J" and n[0] in (0, 2):
            for y in range(0 if n[0] == 2 else self.y, self.height):
                self.rows[y] = [" "] * self.width
        elif final == "m":
            self.looks.update(n)
        else:
            raise AssertionError(f"escape sequence {private}{parameters}{final}")

    def take(self, data):
        self.bytes += data
        self.pending += self.decoder.decode(data)
        while self.pending:
            if self.pending[0] == "\033":
                m = re.match(r"\033\[(\??)([0-9;]*)([A-Za-z])", self.pending)
                if not m:
                    if re.fullmatch(r"\033(\[[?0-9;]*)?", self.pending):
                        return
                    raise AssertionError(f"escape sequence {self.pending[:20]!r}")
                self.obey(*m.groups())
                self.pending = self.pending[m.end():]
                continue
            c, self.pending = self.pending[0], self.pending[1:]
            if c == "\r":
                self.x = 0
            elif c == "\n":
                self.feed()
            elif ord(c) < 32 or 0x7f <= ord(c) < 0xa0:
                raise AssertionError(f"control character {c!r}")
            else:
                self.put(c)

    def text(self):
        return "\n".join("".join(r).rstrip() for r in self.rows)

    def read(self, seconds):
        """False: nothing came, or nobody writes any more."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.take(data)
        return bool(data)

    # --- what is expected ---

    def until(self, condition, what):
        by = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > by:
                raise AssertionError(f"not seen: {what}; there was\n{self.text()}")
            self.read(0.05)

    def see(self, text):
        self.until(lambda: text in self.text(), text)

    def press(self, keys):
        os.write(self.master, keys.encode())

    def ends(self, status):
        self.until(lambda: self.program.poll() is not None, "its end")
        while self.read(0.1):
            pass
        if self.program.returncode != status:
            raise AssertionError(f"status {self.program.returncode}, not {status}\n{self.text()}")

    def interrupt(self):
        """Ctrl-C; the terminal's settings are as they were."""
        if termios.tcgetattr(self.slave) != self.before:
            raise AssertionError("the terminal's settings were changed")
        self.wraps = True  # the terminal itself shows "^C"
        self.press("\x03")

    def close(self):
        if self.program.poll() is None:
            self.program.kill()
        self.program.wait()
        with contextlib.suppress(OSError):
            os.close(self.master)
            os.close(self.slave)


@contextlib.contextmanager
def terminal(*arguments, width=100, height=30, env=None):
    t = Terminal([CLIENT, *arguments], width, height, env)
    try:
        yield t
    finally:
        t.close()


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def printed(*arguments, **more):
    return subprocess.run([CLIENT, *arguments], capture_output=True, timeout=60, stdin=subprocess.DEVNULL, **more)


def colors():
    """Errors are in color, unless the user wants none."""
    for env, colored in (({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), (None, True)):
        with terminal("metrics", "--socket", "/nowhere", env=env) as t:
            t.ends(1)
            check("error[no-daemon]: " in t.text() and (31 in t.looks) == colored, f"with {env} {t.looks}: {t.text()}")


# --- the daemon ---------------------------------------------------------------------------------------


def watch():
    """The status fits whatever the width and height, at once and after a change; nobody's name does anything to it."""
    with terminal("status", "--watch", width=40) as t:
        t.see("programs in standby")
        for width in (60, 300, 20, 100):
            t.resize(width, 30)
            t.see("programs in standby" if width > 20 else "GPUs")
        t.resize(100, 3)
        t.until(lambda: "gpucountd" in t.text() and "GPUs" not in t.text(), "the first rows")
        t.interrupt()
        t.ends(-signal.SIGINT)
    r = subprocess.run(["sh", "-c", '"$0" status --json --watch | head -n 2', CLIENT], capture_output=True, timeout=60, check=True)
    check([len(json.loads(line)["processes"]) for line in r.stdout.splitlines()] == [1, 1], r)
    check(b"\033" not in printed("status").stdout, "escapes where there is no terminal")


def outlives():
    """The daemon goes and comes: both are said. The test does it at our word."""
    with terminal("status", "--watch") as t:
        t.see("GPUs")
        print("seen", flush=True)
        t.see("trying again")
        print("lost", flush=True)
        t.until(lambda: "trying again" not in t.text() and "GPUs" in t.text(), "the daemon again")
        t.interrupt()
        t.ends(-signal.SIGINT)


# --- kernels ------------------------------------------------------------------------------------------


def kernels(text):
    """The launches of all rows."""
    m = re.search(r"^all +([0-9,]+)", text, re.MULTILINE)
    return int(m.group(1).replace(",", "")) if m else 0


def file_grows(path):
    """A capture is reported while it is written: each report has what is committed."""
    def reported(more_than):
        by = time.monotonic() + PATIENCE
        while time.monotonic() < by:
            r = printed("report", path)
            if r.returncode == 0 and kernels(r.stdout.decode()) > more_than:
                check(b"NOT COMPLETE" in r.stdout, r)
                return kernels(r.stdout.decode())
        raise AssertionError(f"no more than {more_than} kernels: {r}")

    reported(reported(0))


def recording(path):
    for env, looks in ((None, {0, 1}), ({"NO_COLOR": "1"}, set())):
        with terminal("report", path, "--by", "op", "--limit", "3", env=env, width=120) as t:
            t.ends(0)
            check(t.looks == looks, f"report with {env} looks {t.looks}")


def progress(program):
    """On a terminal the line says what is left and is gone at the end; elsewhere there is none."""
    arguments = ["capture", "--pid", program, "--metrics", "dram__bytes_read.sum", "--duration"]
    line = re.compile(r"gpuctr: [0-9,]+ kernels?, [0-9,]+/s, 1 process, [0-9]+ s left")
    with terminal(*arguments, "4", width=120) as t:
        t.until(lambda: line.search(t.text()), "what is left")
        t.ends(0)
        check(not re.search("/s, .*left", t.text()), f"the line is still there:\n{t.text()}")
        check("kernels seen" in t.text(), "no summary")
    with terminal(*arguments[:-1], "--count", "100000", "--duration", "3", width=40) as t:
        t.see(" of 100,000, ")
        t.ends(0)
    r = printed(*arguments, "1.5")
    check(r.returncode == 0 and b"/s, " not in r.stderr and b"\033" not in r.stderr, r)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[3:])
