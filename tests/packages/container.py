# SPDX-License-Identifier: Apache-2.0
"""A container in a folder, in which systemd is booted, or one command runs; and the base system of that folder."""
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

cache = pathlib.Path("/var/cache/gpucountd-tests")
FILTER = "--system-call-filter=perf_event_open bpf pidfd_getfd process_vm_readv"
UNREACHABLE = r"Temporary failure resolving|Could not resolve|Could not connect|Unable to connect|Cannot initiate the connection|Connection timed out"


def sh(command, limit=300, **more):
    return subprocess.run(command, shell=isinstance(command, str), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True, timeout=limit, **more)


def must(command, limit=300, **more):
    r = sh(command, limit, **more)
    if r.returncode != 0:
        sys.exit(f"{r.stdout}\n{sys.argv[0]}: failed with {r.returncode}: {command}")
    return r.stdout


def wait_until(condition, limit_s, step_s=0.1):
    """The seconds it took, or None."""
    begin = time.monotonic()
    while time.monotonic() - begin < limit_s:
        if condition():
            return time.monotonic() - begin
        time.sleep(step_s)
    return None


def remove_cgroup(top):
    if not top.exists():
        return True
    for folder, _, _ in os.walk(top, topdown=False):
        try:
            os.rmdir(folder)
        except OSError:
            pass
    return not top.exists()


def finish(process, limit=120):
    try:
        out, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        out, _ = process.communicate()
    return process.returncode, out


def install(needs):
    missing = [n for n in needs if "installed" not in sh(["dpkg-query", "-W", "-f", "${db:Status-Status}", n]).stdout.split()]
    if missing:
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        must("apt-get update -qq", 300, env=env)
        must(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing], 600, env=env)


def is_unreachable(text):
    """The line by which apt says that there is no network, or None."""
    return next((line.strip() for line in text.splitlines() if re.search(UNREACHABLE, line)), None)


def make_system(folder, name, packages):
    """The root of a small Debian 12 with these packages. Returns why not, if it is for want of a network."""
    cache.mkdir(parents=True, exist_ok=True)
    tar, listing = cache / f"{name}.tar.zst", cache / f"{name}.packages"
    wanted = ",".join(sorted(packages))
    if not tar.exists() or not listing.exists() or listing.read_text() != wanted:
        fresh = cache / f"fresh-{os.getpid()}.tar"
        r = sh(["mmdebstrap", "--variant=minbase", *([f"--include={wanted}"] if wanted else []), "bookworm", fresh], 600)
        if r.returncode != 0:
            fresh.unlink(missing_ok=True)
            if is_unreachable(r.stdout):
                return is_unreachable(r.stdout)
            sys.exit(f"{r.stdout}\nmmdebstrap failed with {r.returncode}")
        must(["zstd", "-q", "-3", "--rm", "-f", fresh, "-o", tar])
        listing.write_text(wanted)
    folder.mkdir()
    must(["tar", "--extract", "--zstd", "-f", tar, "-C", folder, "--exclude=./dev/*"])
    return None


def cuda_binds():
    """The toolkit, where the packaged daemon looks for CUPTI, and where links in it lead."""
    real = pathlib.Path("/usr/local/cuda").resolve()
    return [] if not real.is_dir() else [f"{real}:/usr/local/cuda"] + ([str(real)] if str(real) != "/usr/local/cuda" else [])


def cgroup_hierarchies():
    base = pathlib.Path("/sys/fs/cgroup")
    hierarchies = [base] if (base / "cgroup.procs").exists() else [base / "unified", base / "systemd"]
    return [h for h in hierarchies if (h / "cgroup.procs").exists()]


def cannot_boot():
    """Why no container can be booted here, or None."""
    if os.geteuid() != 0:
        return "root is needed, to boot a container"
    if not shutil.which("apt-get"):
        return "this is no Debian: there is no apt-get to build and install packages with"
    r = sh(["unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "mount", "-t", "tmpfs", "none", "/mnt"])
    if r.returncode != 0:
        return f"root may make no namespaces or mounts here ({r.stdout.strip()})"
    if not cgroup_hierarchies():
        return "there is no cgroup hierarchy in /sys/fs/cgroup"
    for h in cgroup_hierarchies():
        probe = h / f"gpucountd-probe-{os.getpid()}"
        try:
            probe.mkdir()
            probe.rmdir()
        except OSError as e:
            return f"no cgroup can be made in {h} ({e.strerror})"
    return None


class Container:
    """Its cgroups are made here, because whoever runs this may have no systemd."""

    def __init__(self, folder, name):
        self.folder = folder
        self.name = name
        self.process = None
        self.leader = 0
        self.cgroups = [h / name for h in cgroup_hierarchies()]

    def start(self, binds, options, log):
        """What runs in it is the last of the options."""
        for c in self.cgroups:
            c.mkdir()
        enter = "".join(f"echo $$ > {c}/cgroup.procs; " for c in self.cgroups)
        nspawn = ["systemd-nspawn", "-q", "-D", str(self.folder), "--register=no", "--keep-unit", "--console=pipe", "-M", self.name,
                  *[f"--bind-ro={b}" for b in binds], *options]
        self.process = subprocess.Popen(["bash", "-c", enter + "exec " + shlex.join(nspawn)], stdin=subprocess.DEVNULL,
                                        stdout=log, stderr=subprocess.STDOUT, start_new_session=True, text=True,
                                        env={**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"})

    def run(self, command, binds, capabilities=(), limit=900):
        """This command instead of systemd, as root with nspawn's own capabilities and these, and with the network."""
        more = [f"--capability={','.join(capabilities)}"] if capabilities else []
        try:
            self.start(binds, ["--as-pid2", *more, "sh", "-c", command], subprocess.PIPE)
            status, out = finish(self.process, limit)
        finally:
            if self.process.poll() is None:
                self.process.terminate()  # and all that is in it
            self.stop()
        return subprocess.CompletedProcess(command, status, out)

    def boot(self, binds):
        self.log = open(self.folder.parent / "console", "w+")
        self.start(binds, ["--boot", "--private-network", "--capability=all", FILTER], self.log)
        if wait_until(self.find_leader, 120) is None or wait_until(self.is_up, 240, 0.3) is None:
            self.log.seek(0)
            sys.exit(f"{self.log.read()[-4000:]}\nthe container did not boot")

    def find_leader(self):
        r = sh(["ps", "--ppid", str(self.process.pid), "-o", "pid=,comm="])
        leaders = [line.split()[0] for line in r.stdout.splitlines() if line.split()[1] == "systemd"]
        self.leader = int(leaders[0]) if leaders else 0
        return self.leader != 0

    def is_up(self):
        return self.inside("systemctl is-system-running").stdout.strip() in ("running", "degraded")

    def command(self, command, user=None, env=()):
        enter = ["nsenter", "-a", "-t", str(self.leader), "--", "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]
        if user is None:
            return [*enter, "sh", "-c", command]
        # A user's program is a unit of its own: the container's filter and capability bound hold for it.
        return [*enter, "systemd-run", "-q", "--pipe", "--wait", "--collect", f"--uid={user}", "-p", "WorkingDirectory=/tmp",
                *[f"--setenv={e}" for e in env], "sh", "-c", command]

    def inside(self, command, user=None, limit=120, env=()):
        try:
            return sh(self.command(command, user, env), limit)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 124, f"took longer than {limit} s")

    def begin(self, command, user, env=()):
        return subprocess.Popen(self.command(command, user, env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def text(self, command, user=None, **more):
        return self.inside(command, user, **more).stdout.strip()

    def stop(self):
        if self.process and self.process.poll() is None:
            if self.leader:
                self.inside("systemctl poweroff --no-block", limit=20)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                if self.leader:
                    os.kill(self.leader, signal.SIGKILL)
                self.process.kill()
                self.process.wait(10)
        for c in self.cgroups:
            wait_until(lambda c=c: remove_cgroup(c), 10)
