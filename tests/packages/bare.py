# SPDX-License-Identifier: Apache-2.0
"""The README's two commands on a bare Debian 12: root's clone in /root, which is closed to all others, nothing
installed but the base system, and the capabilities of an ordinary container.

`packaging/quickstart` runs whole. Of `tests/run` those tests of its build run that depend on what the machine
lets them do; twice, because a container may have CAP_PERFMON or not. The CUDA toolkit is the host's, and so are
packages that the host's apt has downloaded; others come from the network."""
import os
import pathlib
import re
import subprocess

from container import Container, cuda_binds, install, is_unreachable, make_system

root = pathlib.Path(__file__).resolve().parent.parent.parent
TESTS = ("admission commands doctor doctor_outside fixture hardware kubernetes_run main_job metrics monitor privileges reload "
         "sandbox torch_option trust turns")
LIMIT_S = 1200


def copy_tree(to):
    """As a clone has it, with what is not committed yet."""
    to.mkdir(parents=True)
    listed = "git ls-files -z --cached --others --exclude-standard"
    if subprocess.run(["git", "rev-parse"], cwd=root, capture_output=True, check=False).returncode == 0:
        command = f"{listed} | tar --create --null --files-from=- --ignore-failed-read 2>/dev/null"
    else:
        command = "tar --create --exclude='./build*' --exclude='./.[!.]*' ."
    subprocess.run(f"{command} | tar --extract --no-same-owner --directory {to}", shell=True, cwd=root, check=True)


def lend_packages(folder):
    """What the host's apt has kept, where the container's looks first."""
    for deb in pathlib.Path("/var/cache/apt/archives").glob("*.deb"):
        try:
            os.link(deb, folder / "var/cache/apt/archives" / deb.name)
        except OSError:  # another disk: apt downloads
            return


def tail(text, lines=60):
    return "\n".join(text.splitlines()[-lines:])


def check_quickstart(c, check):
    r = c.run("cd /root/gpucountd && packaging/quickstart", cuda_binds(), limit=LIMIT_S)
    counts = re.findall(r"^([\d,]+) kernels seen in 1 process: ([\d,]+) measured, 0 dropped; ", r.stdout, re.M)
    check("bare: packaging/quickstart plays two recordings, and captures a program that runs already",
          r.returncode == 0 and len(counts) == 3 and all(seen == measured for seen, measured in counts),
          f"{' and '.join(measured for _, measured in counts)} kernels measured" if r.returncode == 0 else f"status {r.returncode}\n{tail(r.stdout)}")
    return r.returncode == 0


def check_tests(c, check, which, capabilities):
    r = c.run(f"cd /root/gpucountd && tests/run --quick {TESTS}", cuda_binds(), capabilities, LIMIT_S)
    count = re.search(r"^(\d+) passed, (\d+) failed$", r.stdout, re.M)
    check(f"bare: tests/run {which}: no test fails", r.returncode == 0 and count and int(count[1]) > 0,
          count[0] if r.returncode == 0 and count else f"status {r.returncode}\n{tail(r.stdout, 200)}")
    for_want = [line for line in r.stdout.splitlines() if line.startswith("skipped in ") and "CAP_PERFMON" in line]
    check(f"bare: tests/run {which}: what needs CAP_PERFMON {'runs' if capabilities else 'is skipped with that reason'}",
          count and bool(for_want) != bool(capabilities), f"{len(for_want)} skipped for it")


def check_bare(work, check):
    install(["mmdebstrap", "systemd-container", "zstd"])
    folder = work / "bare"
    why_not = make_system(folder, "bare", [])
    c = Container(folder, f"gpucountd-bare-{os.getpid()}")
    if not why_not:
        lend_packages(folder)
        why_not = is_unreachable(c.run("apt-get update -qq -o APT::Update::Error-Mode=any", []).stdout)
    if why_not:
        print(f"SKIP: the bare machine: {why_not}", flush=True)
        return
    copy_tree(folder / "root/gpucountd")
    r = c.run("stat -c %a /root; awk '/^CapEff/ { print $2 }' /proc/self/status", [])
    mode, effective = (r.stdout.split() + ["", "0"])[:2]
    check("bare: /root is closed to others, and root has no CAP_PERFMON", mode == "700" and not int(effective, 16) >> 38 & 1, r.stdout)
    if check_quickstart(c, check):
        check_tests(c, check, "with a container's capabilities", ())
        check_tests(c, check, "with CAP_PERFMON as well", ("CAP_PERFMON",))
