#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""help CLIENT FAKEAPP RECORDING: runs every example that --help prints, as it stands.

They run in a folder that has what they name: `python`, `./program` and the processes in standby are fakeapp, the
captures are the bundled recording. What changes the machine's jobs is left to root. An example that wants jq is left
out where there is none, which is told."""

import gzip
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PATIENCE = 60
CLIENT, FAKEAPP, RECORDING = sys.argv[1:4]

# python(1) as far as the examples know it: named so, and with kernels, steps and time enough.
PYTHON = f"""#!/bin/bash
exec -a python {FAKEAPP} --kernels "${{KERNELS:-20}}" --profiler 4 --sleep-us 500
"""
TRACE = '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k0(float*)", "ts": 1, "dur": 1, "args": {"correlation": 1}}]}'


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(path, 0o755)


def prepare(folder):
    os.mkdir(f"{folder}/bin")
    os.symlink(CLIENT, f"{folder}/bin/gpuctr-client")
    write(f"{folder}/bin/python", PYTHON)
    write(f"{folder}/bin/sudo", '#!/bin/sh\nexec "$@"\n')
    write(f"{folder}/program", PYTHON)
    for name in ("run", "new", "old"):
        shutil.copy(RECORDING, f"{folder}/{name}.gpuctr")
    with gzip.open(f"{folder}/trace.json.gz", "wt") as trace:
        trace.write(TRACE)


def shell(command, folder, **environment):
    return subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=PATIENCE,
                          stdin=subprocess.DEVNULL,
                          env={**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", **environment})


def start_standby(folder):
    """One whose job is known, for as long as the test."""
    program = subprocess.Popen([f"{folder}/bin/gpuctr-client", "standby", f"{folder}/bin/python", "net.py"], cwd=folder,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env={**os.environ, "KERNELS": "4000000", "GPUCTR_JOB": "4711"})
    by = time.monotonic() + PATIENCE
    while f'"pid":{program.pid},' not in shell("gpuctr-client status --json", folder).stdout:
        if time.monotonic() > by:
            raise AssertionError("the program is not registered")
        time.sleep(0.05)
    return program


def examples(verb, folder):
    text = shell(f"gpuctr-client help {verb}", folder).stdout
    found = re.search(r"^examples?:\n((?:  .*\n)+)", text, re.MULTILINE)
    return [line.strip() for line in found.group(1).splitlines()] if found else []


def verbs(folder):
    text = shell("gpuctr-client help", folder).stdout
    return re.findall(r"^  ([a-z]+) +[^ ]", text.split("Options of run")[0], re.MULTILINE) + ["completion", "job"]


def check_pages(folder):
    """A page each, and no line wraps; without a word, what there is in ten lines."""
    failed = 0
    for command, most in (("gpuctr-client", 10), ("gpuctr-client --help", 45), ("gpuctr-client run --help", 45),
                          ("gpuctr-client capture --help", 45)):
        lines = shell(command, folder).stdout.splitlines()
        if not 0 < len(lines) <= most or max(map(len, lines)) > 100 or any(line.startswith(" " * 30) for line in lines):
            print(f"FAIL: {command} prints {len(lines)} lines:\n" + "\n".join(lines))
            failed += 1
    return failed


def check_letters(folder):
    """A letter stands for one option, whatever the verb."""
    meant = {}
    for verb in verbs(folder):
        for letter, name in re.findall(r"^  -(.), --([a-z-]+)", shell(f"gpuctr-client help {verb}", folder).stdout, re.MULTILINE):
            meant.setdefault(letter, set()).add(name)
    several = {letter: names for letter, names in meant.items() if len(names) > 1}
    if len(meant) < 10 or several:
        print(f"FAIL: letters with several meanings, of {len(meant)}: {several}")
    return len(meant) < 10 or len(several) > 0


def run_example(command, folder):
    """False: it did not work."""
    if "jq" in command and not shutil.which("jq"):
        print(f"SKIP: {command}: no jq")
        return True
    if "sudo" in command and os.geteuid() != 0:
        print(f"SKIP: {command}: wants root")
        return True
    # Files that an example makes are made anew, as where nobody has run it before.
    for made in re.findall(r"(?:-o|--html|>) ?([a-z]+\.[a-z]+)", command):
        if made not in ("run.gpuctr",) and os.path.exists(f"{folder}/{made}"):
            os.remove(f"{folder}/{made}")
    r = shell(f"set -o pipefail; {command}", folder)
    if r.returncode or "error[" in r.stderr:
        print(f"FAIL: {command}: {r.returncode}\n{r.stdout}{r.stderr}")
        return False
    return True


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        prepare(folder)
        failed += check_pages(folder) + check_letters(folder)
        program = start_standby(folder)
        try:
            for verb in verbs(folder):
                commands = examples(verb, folder)
                if not commands:
                    print(f"FAIL: {verb} has no examples")
                    failed += 1
                failed += sum(not run_example(c, folder) for c in commands)
        finally:
            program.send_signal(signal.SIGKILL)
            program.wait()
    sys.exit(1 if failed else 0)


main()
