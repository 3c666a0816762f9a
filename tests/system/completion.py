#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""completion SHELL CLIENT: what a shell completes behind gpuctr-client. Skips (77) without the shell.

bash and zsh run on a terminal and a person's keys are typed; fish tells what it would complete. `words` asks the
client alone."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

PATIENCE = 60
SHELL, CLIENT = sys.argv[1:3]
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../client/cli/completion")

# What is typed, and what the line is after a tab: with one candidate.
TYPED = [
    ("gpuctr-client repo", "gpuctr-client report "),
    ("gpuctr-client capture --dura", "gpuctr-client capture --duration "),
    ("gpuctr-client --metrics dram__bytes_read.sum.per_s", "gpuctr-client --metrics dram__bytes_read.sum.per_second "),
    ("gpuctr-client --metrics tensor,mem", "gpuctr-client --metrics tensor,memory "),
    ("gpuctr-client --metrics=mem", "gpuctr-client --metrics=memory "),
    ("gpuctr-client report run.gp", "gpuctr-client report run.gpuctr "),
    ("gpuctr-client -o run.gp", "gpuctr-client -o run.gpuctr "),
]


# The same where nothing comes of it: words of the shell's own are no programs.
UNCHANGED = ["gpuctr-client whil", "gpuctr-client report --by o", "gpuctr-client esa"]


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def words(*typed, **environment):
    r = subprocess.run([CLIENT, "completion", "words", "--", *typed], capture_output=True, text=True, timeout=PATIENCE,
                       env={**os.environ, **environment})
    check(r.returncode == 0 and r.stderr == "", r)
    lines = r.stdout.splitlines()
    check(lines and lines[-1].startswith(":"), r.stdout)
    return [line.split("\t")[0] for line in lines[:-1]], lines[-1]


def the_client():
    every, directive = words("")
    check({"run", "status", "completion", "help"} <= set(every) and directive == ":none" and len(every) < 30, every)
    check(words("r")[1] == ":program 0" and {"run", "report"} == set(words("r")[0]), "a program as soon as a letter is typed")
    bare = words("--metrics", "")
    check({"memory", "dram__"} <= set(bare[0]) and len(bare[0]) < 60 and bare[1] == ":more" and len(set(bare[0])) == len(bare[0]), bare)
    check({"memory", "dram__"} <= set(words("metrics", "")[0]), "units of metrics")
    for verb in every:
        names, _ = words(verb, "--")
        helped = subprocess.run([CLIENT, "help", verb], capture_output=True, text=True, timeout=PATIENCE).stdout
        options = set(re.findall(r"^  (?:-.,|   ) (--[a-z-]+)", helped, re.MULTILINE))
        check(set(names) == options, f"{verb}: {set(names) ^ options}")
    check(words("--", "-") == ([], ":program 1"), "options behind --")
    check(words("python", "--metrics", "m") == ([], ":program 0"), "options of the program")
    check(words("-f", "--metrics=memory", "python", "x") == ([], ":program 2"), "options before the program")
    check(words("-o", "f", "python", "x") == ([], ":program 2"), "a short option and its value")
    check(words("-of", "python", "x") == ([], ":program 1"), "a short option with its value")
    # As bash splits it; the numbers of words are those of bash.
    check(words("--metrics", "=", "memory", "python", "") == ([], ":program 3"), "a split option")
    check(words("--metrics", "=", "mem")[0] == ["memory"], "a split value")
    check("memory" in words("--metrics", "=")[0], "a split value that is empty")
    check(words("--metrics", "=", "tensor,mem")[0] == ["tensor,memory"], "a split list")
    check(words("--metrics", "dram__bytes_r") == (["dram__bytes_read."], ":more"), "a counter without rollup")
    check(words("metrics", "dram__bytes_r")[0] == ["dram__bytes_read"], "a pattern")
    check(words("--metrics", "m", GPUCTR_SOCKET="/nonexistent/socket") == ([], ":none"), "metrics without a daemon")
    check(words("--socket", "/nonexistent/socket", "--metrics", "m") == ([], ":none"), "the daemon of --socket")
    for shell in ("bash", "zsh", "fish"):
        with open(f"{SOURCE}/gpuctr-client.{shell}", encoding="utf-8") as f:
            text = subprocess.run([CLIENT, "completion", shell], capture_output=True, text=True, timeout=PATIENCE).stdout
            check(text == f.read(), f"the script of {shell} is another one")


class Typist:
    """A shell on a terminal; what it shows is kept as it comes."""

    def __init__(self, argv, environment):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(argv[0], argv, {**os.environ, "TERM": "dumb", **environment})
        self.shown = ""

    def until(self, expression):
        by = time.monotonic() + PATIENCE
        while not re.search(expression, self.shown):
            check(time.monotonic() < by, f"not seen: {expression}; there was {self.shown!r}")
            if select.select([self.fd], [], [], 0.05)[0]:
                self.shown += os.read(self.fd, 65536).decode(errors="replace")

    def type(self, text):
        self.shown = ""
        os.write(self.fd, text.encode())

    def end(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def typed(argv, setup):
    """The line is printed by a key of the test's, so that what a shell redraws does not matter."""
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(CLIENT, f"{folder}/gpuctr-client")
        open(f"{folder}/run.gpuctr", "w", encoding="utf-8").close()
        environment = {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": folder, "PS1": "ready> "}
        t = Typist(argv, environment)
        os.write(t.fd, f"cd {folder}; PS1='ready''> '; {setup}; echo be''gun\n".encode())
        t.until(r"begun\r?\n")
        for line, wanted in TYPED + [(same, same) for same in UNCHANGED]:
            t.type(line + "\t" + "\x07")
            t.until(r"<<[^>]*>>")
            got = re.search(r"<<([^>]*)>>", t.shown).group(1)
            check(got == wanted, f"{line!r} became {got!r}, not {wanted!r}")
            t.type("\x15\n")
            t.until("ready> ")
        t.end()


def bash():
    typed(["bash", "--norc", "--noprofile", "-i"],
          f"source {SOURCE}/gpuctr-client.bash; tell() {{ echo \"<<$READLINE_LINE>>\"; }}; bind -x '\"\\C-g\": tell'")


def zsh():
    typed(["zsh", "-f", "-i"],
          f"autoload -U compinit; compinit -u -D; source {SOURCE}/gpuctr-client.zsh; "
          "tell() { print \"<<$BUFFER>>\"; }; zle -N tell; bindkey '^G' tell; unsetopt zle_bracketed_paste 2>/dev/null")


def zsh_installed():
    """As a package has it: the file is a function that is loaded when it is wanted first."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(f"{SOURCE}/gpuctr-client.zsh", f"{folder}/_gpuctr-client")
        typed(["zsh", "-f", "-i"],
              f"fpath=({folder} $fpath); autoload -U compinit; compinit -u -D; "
              "tell() { print \"<<$BUFFER>>\"; }; zle -N tell; bindkey '^G' tell")


def fish():
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(CLIENT, f"{folder}/gpuctr-client")
        open(f"{folder}/run.gpuctr", "w", encoding="utf-8").close()
        environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "HOME": folder}
        for line, wanted in TYPED:
            r = subprocess.run(["fish", "--no-config", "-c", f"source {SOURCE}/gpuctr-client.fish; complete -C '{line}'"],
                               capture_output=True, text=True, timeout=PATIENCE, env=environment, cwd=folder)
            got = {g.split("\t")[0] for g in r.stdout.splitlines()}
            check(got == {wanted.split()[-1]}, f"{line!r} became {got}; {r.stderr}")


if __name__ == "__main__":
    if SHELL != "the_client" and not shutil.which(SHELL.split("_")[0]):
        print(f"SKIP: {SHELL} is not installed")
        sys.exit(77)
    globals()[SHELL]()
