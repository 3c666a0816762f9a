# SPDX-License-Identifier: Apache-2.0
"""The README's two commands on a bare Debian 12: root's clone in /root, which is closed to all others, nothing
installed but the base system, and the capabilities of an ordinary container.

`packaging/quickstart` runs whole, and `tests/run --quick`; what that skips for want of CAP_PERFMON, which another
container may have, runs with it as well. The CUDA toolkit is the host's, and so are packages that the host's apt has
downloaded; others come from the network."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

from container import Container, cuda_binds, install, is_unreachable, make_system, must

root = pathlib.Path(__file__).resolve().parent.parent.parent
LIMIT_S = 3600  # with a whole build, on a machine that does something else too


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
    begin = time.monotonic()
    r = c.run("cd /root/gpucountd && packaging/quickstart", cuda_binds(), limit=LIMIT_S)
    counts = re.findall(r"^([\d,]+) kernels seen in 1 process: ([\d,]+) (?:measured|recorded), 0 dropped; ", r.stdout, re.M)
    check("bare: packaging/quickstart plays two recordings, and captures a program that runs already",
          r.returncode == 0 and len(counts) == 3 and all(seen == measured for seen, measured in counts),
          f"{' and '.join(measured for _, measured in counts)} kernels measured, {time.monotonic() - begin:.0f} s" if r.returncode == 0 else f"status {r.returncode}\n{tail(r.stdout)}")
    record = next((json.loads(line) for line in r.stdout.splitlines() if line.startswith('{"type":"kernel"')), {})
    check("bare: it shows a record with its counters, and no line of a log",
          record.get("metrics", {}).get("dram__bytes_read.sum", 0) > 0 and "gpucountd[" not in r.stdout, f"{record}\n{tail(r.stdout)}")
    for command in re.findall(r"^    (\S+/gpuctr-client report .*)$", r.stdout, re.M) or ["false"]:
        shown = c.run(f"cd /root/gpucountd && {command}", [])
        check(f"bare: {command}", shown.returncode == 0 and " kernels seen in 1 process" in shown.stdout, tail(shown.stdout))
    names = c.run("cd /root/gpucountd && " + "; ".join(re.findall(r"^    ((?:export )?\w+=.*)$", r.stdout, re.M)) +
                  "; gpuctr-client help && [ -r $GPUCTR_AGENT ]", [])
    check("bare: the names that it ends with are found", names.returncode == 0, tail(names.stdout))
    return r.returncode == 0


def check_tests(c, check, which, names, capabilities):
    """Returns the names of those that want CAP_PERFMON and do not have it."""
    begin = time.monotonic()
    r = c.run(f"cd /root/gpucountd && tests/run --quick {' '.join(names)}", cuda_binds(), capabilities, LIMIT_S)
    took = f"{time.monotonic() - begin:.0f} s"
    count = re.search(r"^(\d+) passed, (\d+) failed$", r.stdout, re.M)
    failed = re.findall(r"^failed: (.*)$", r.stdout, re.M)
    check(f"bare: tests/run --quick {which}: no test fails", r.returncode == 0 and count and int(count[1]) > 0,
          f"{count[0]}, {took}" if r.returncode == 0 and count else f"status {r.returncode}, {took}, failed: {', '.join(failed)}\n{tail(r.stdout, 300)}")
    print("\n".join(f"        {line}" for line in re.findall(r"^ *\d+ s: .* of processors .*", r.stdout, re.M)), flush=True)
    return set(re.findall(r"^skipped in build: \S+ / ([^:\n]+):.*CAP_PERFMON", r.stdout, re.M))


def check_both_ways(c, check):
    """What needs CAP_PERFMON skips with that reason, and runs where there is one."""
    wanting = check_tests(c, check, "with a container's capabilities", (), ())
    check("bare: tests/run names what needs CAP_PERFMON", wanting, f"{len(wanting)} tests")
    if wanting:
        left = check_tests(c, check, "of those, with CAP_PERFMON as well", sorted(wanting), ("CAP_PERFMON",))
        check("bare: with CAP_PERFMON none wants it", not left, " ".join(sorted(left)))


def make_bare(folder):
    """A bare machine with a clone, or (None, why there is none)."""
    install(["mmdebstrap", "systemd-container", "zstd"])
    why_not = make_system(folder, "bare", [])
    if why_not:
        return None, why_not
    c = Container(folder, f"gpucountd-{folder.name}-{os.getpid()}")
    lend_packages(folder)
    why_not = is_unreachable(c.run("apt-get update -qq -o APT::Update::Error-Mode=any", []).stdout)
    if why_not:
        return None, why_not
    copy_tree(folder / "root/gpucountd")
    return c, None


def check_image(work, check):
    """What packaging/kubernetes/Containerfile does to the same base system."""
    c, why_not = make_bare(work / "image")
    if not c:
        print(f"SKIP: the image: {why_not}", flush=True)
        return
    shutil.copytree(work / "debs", c.folder / "packages", ignore=shutil.ignore_patterns("all"))
    command = re.search(r"^RUN ((?:.*\\\n)*.*)$", (root / "packaging/kubernetes/Containerfile").read_text(), re.M)[1]
    r = c.run(command, [])
    there = c.run("gpuctr-client --version && gpucountd --version && ls /usr/lib/*/gpuctr/gpuctr-sampler /usr/lib/*/gpuctr/libgpuctr-agent.so", [])
    check("bare: packaging/kubernetes/Containerfile installs daemon, agent, client and sampler", r.returncode == 0 and there.returncode == 0,
          "" if there.returncode == 0 else tail(r.stdout) + there.stdout)
    shutil.rmtree(c.folder)


def build_packages(work, check):
    """In a machine of their own, which has nothing yet of what a build needs; into the folder debs."""
    c, why_not = make_bare(work / "builder")
    if c:
        r = c.run("cd /root/gpucountd && DEB_BUILD_OPTIONS=nocheck packaging/build-deb /root/debs", cuda_binds(), limit=LIMIT_S)
        if check("bare: packaging/build-deb builds the packages", r.returncode == 0, "" if r.returncode == 0 else tail(r.stdout)):
            shutil.copytree(c.folder / "root/debs", work / "debs")
            shutil.rmtree(c.folder)
            check_image(work, check)
            return
    else:
        print(f"SKIP: the packages are built on this machine, not on a bare one: {why_not}", flush=True)
    must([root / "packaging/build-deb", work / "debs"], 600, env={**os.environ, "DEB_BUILD_OPTIONS": "nocheck"})


def check_bare(work, check):
    c, why_not = make_bare(work / "bare")
    if not c:
        print(f"SKIP: the bare machine: {why_not}", flush=True)
        return
    r = c.run("stat -c %a /root; awk '/^CapEff/ { print $2 }' /proc/self/status", [])
    mode, effective = (r.stdout.split() + ["", "0"])[:2]
    check("bare: /root is closed to others, and root has no CAP_PERFMON", mode == "700" and not int(effective, 16) >> 38 & 1, r.stdout)
    r = c.run("cp -r /root/gpucountd/packaging /tmp && setpriv --reuid 65534 --clear-groups /tmp/packaging/dependencies", [])
    check("bare: who is not root, where there is no sudo, is told what root has to run",
          r.returncode == 1 and "As root, run" in r.stdout and "apt-get install --no-install-recommends" in r.stdout and "meson" in r.stdout, r.stdout)
    if check_quickstart(c, check):
        check_both_ways(c, check)
