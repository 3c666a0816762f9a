# SPDX-License-Identifier: Apache-2.0
"""Slurm with two nodes on this host, and a gpucountd on faked GPUs for each of them.

Real munged, slurmctld, slurmd and slurmstepd, in a folder of their own and on ports of their own, so that an
installed Slurm is left alone. Every process is a child of the test's, which adopts what they leave behind;
stop() ends all of them by their numbers."""
import ctypes
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

USER = "games"  # that every Debian has, and that owns nothing
PR_SET_CHILD_SUBREAPER = 36
SLURM_LIBRARIES = "/usr/lib/x86_64-linux-gnu/slurm-wlm"
CONF = """
ClusterName=gpuctrtest
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
ProctrackType=proctrack/{proctrack}
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
GresTypes=gpu
SlurmdParameters=config_overrides
KillWait=2
MaxArraySize=100
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
DebugFlags=NO_CONF_HASH
PlugStackConfig={plugstack}
TaskProlog={folder}/{name}.prolog
JobRequeue=1
SchedulerParameters=bf_interval=1,bf_hetjob_immediate
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={n1_port} CPUs=4 RealMemory=500 Gres=gpu:2
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={n2_port} CPUs=4 RealMemory=500 Gres=gpu:2
PartitionName=all Nodes=n1,n2 Default=YES OverSubscribe=YES:4 MaxTime=INFINITE State=UP
"""


def adopt_orphans():
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_until(condition, limit_s=60):
    begin = time.monotonic()
    while time.monotonic() - begin < limit_s:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    return None


def children(pid):
    try:
        return [int(c) for t in pathlib.Path(f"/proc/{pid}/task").iterdir() for c in (t / "children").read_text().split()]
    except OSError:
        return []


def descendants(pid):
    found = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def is_running(pid, name):
    """A process of that name that has not ended: those that nobody has waited for yet are there all the same."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return f"({name[:15]})" in stat and stat.rpartition(")")[2].split()[0] not in "ZX"


class Cluster:
    def __init__(self, build, plugstack, proctrack="linuxproc"):
        self.build = pathlib.Path(build)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpuctr-slurm."))
        self.folder.chmod(0o755)
        self.work = self.folder / "work"
        self.work.mkdir()
        self.work.chmod(0o1777)
        self.started = []
        self.proctrack = proctrack
        self.plugstack = plugstack
        fake = self.build / "tests/fake"
        self.libraries = f"{fake}:{self.build}/client/lib"
        self.preload = f"{fake}/libfakedriver.so"
        self.env = {"PATH": os.environ["PATH"], "SLURM_CONF": f"{self.folder}/slurm.conf", "LD_LIBRARY_PATH": self.libraries,
                    "HOME": str(self.work)}

    # --- what runs ---

    def spawn(self, name, argv, env=None, **more):
        log = open(self.folder / f"{name}.out", "ab")
        process = subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   env={**self.env, **(env or {})}, **more)
        self.started.append((name, process))
        return process

    def write_conf(self):
        if self.proctrack == "cgroup":
            (self.folder / "cgroup.conf").write_text("CgroupAutomount=no\nCgroupMountpoint=/sys/fs/cgroup\nCgroupPlugin=cgroup/v1\n")
        keys = {"proctrack": self.proctrack, "host": socket.gethostname().split(".")[0], "folder": self.folder, "ctld_port": free_port(),
                "n1_port": free_port(), "n2_port": free_port()}
        for name in ("slurm", "n1", "n2"):
            lines = self.plugstack[name]
            (self.folder / f"{name}.plugstack").write_text("\n".join(lines) + "\n" if lines else "")
            (self.folder / f"{name}.conf").write_text(CONF.format(plugstack=self.folder / f"{name}.plugstack", name=name, **keys))
            self.write_prolog(name)
        for gpu in range(2):
            os.mknod(self.folder / f"nvidia{gpu}", 0o20666, os.makedev(195, gpu))
        (self.folder / "gres.conf").write_text(f"Name=gpu File={self.folder}/nvidia[0-1]\n")
        for name in ("state", "spool.n1", "spool.n2"):
            (self.folder / name).mkdir()

    def write_prolog(self, node):
        """Where there is no plugin to name the node's socket, a file that is there does."""
        prolog = self.folder / f"{node}.prolog"
        prolog.write_text(f"""#!/bin/sh
[ -f {self.folder}/{node}.socket ] && echo export GPUCTR_SOCKET={self.folder}/{node}/run/socket
exit 0
""")
        prolog.chmod(0o755)

    def start_daemon(self, node):
        place = self.folder / node
        place.mkdir()
        fakes = place / "fakes"
        fakes.mkdir()
        fakes.chmod(0o1777)
        self.spawn(f"gpucountd.{node}", [self.build / "daemon/gpucountd", "-v", "--socket", place / "run/socket",
                                         "--set", f"allow-users={USER}", "--set", "sharing=shared"],
                   env={"GPUCTR_FAKE_DIR": str(fakes), "GPUCTR_FAKE_GPUS": "2", "LD_PRELOAD": self.preload,
                        "GPUCTR_FAKE_LOG_KIB": "1024"}, umask=0)

    def start_munge(self):
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self.spawn("munged", ["munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket", f"--key-file={key}",
                              f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/munged.log",
                              f"--seed-file={self.folder}/munge.seed"])
        return wait_until(lambda: (self.folder / "munge.socket").exists())

    def start(self, daemons=("n1", "n2")):
        """False: what failed is in .trouble."""
        self.write_conf()
        self.write_program()
        for node in daemons:
            self.start_daemon(node)
        if not all(wait_until(lambda n=node: (self.folder / n / "run/socket").exists()) for node in daemons):
            return self.fail("gpucountd did not start")
        if not self.start_munge():
            return self.fail("munged did not start")
        self.spawn("slurmctld", ["slurmctld", "-D", "-c", "-f", self.folder / "slurm.conf"])
        self.spawn("slurmd.n1", ["slurmd", "-D", "-N", "n1", "-f", self.folder / "n1.conf"])
        self.spawn("slurmd.n2", [*self.with_own_disk(), "slurmd", "-D", "-N", "n2", "-f", self.folder / "n2.conf"])
        if not wait_until(lambda: self.root(["sinfo", "-h", "-o", "%T %D"]).stdout.strip() == "idle 2", 30):
            return self.fail("the nodes did not become idle: " + self.root(["sinfo", "-R"]).stdout)
        return True

    def with_own_disk(self):
        """What n2 writes below "disk" is nobody else's to see, as on a node without a shared file system."""
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        self.disk.chmod(0o1777)
        own = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs gpuctr {self.disk} && chmod 1777 {self.disk} && exec "$0" "$@"']
        self.has_own_disk = self.root([*own, "true"]).returncode == 0
        return own if self.has_own_disk else []

    def fail(self, why):
        self.trouble = why + "\n" + "".join(f"--- {p.name}\n{p.read_text(errors='replace')[-1500:]}"
                                           for p in sorted(self.folder.glob("*.out")) + sorted(self.folder.glob("*.log")))
        return False

    def write_program(self):
        """A user's program on the fakes of the node that it runs on."""
        program = self.work / "program"
        program.write_text(f"""#!/bin/sh
export GPUCTR_FAKE_DIR={self.folder}/$SLURMD_NODENAME/fakes GPUCTR_FAKE_GPUS=2 LD_PRELOAD={self.preload}
export LD_LIBRARY_PATH={self.libraries}
exec {self.build}/tests/fake/fakeapp "$@"
""")
        program.chmod(0o755)

    def why_no_cgroups(self):
        lines = [line for p in self.folder.glob("slurmd.*.log") for line in p.read_text(errors="replace").split("\n") if "error" in line]
        return lines[0] if lines else self.trouble.split("\n")[0]

    # --- users ---

    def root(self, argv, limit=60):
        return subprocess.run([str(a) for a in argv], env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=limit)

    def user_command(self, argv):
        return ["setpriv", f"--reuid={USER}", "--regid=nogroup", "--clear-groups", "--", *[str(a) for a in argv]]

    def user(self, argv, limit=90, env=None):
        return subprocess.run(self.user_command(argv), env={**self.env, **(env or {})}, cwd=self.work, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=limit)

    def user_start(self, argv, env=None):
        process = subprocess.Popen(self.user_command(argv), env={**self.env, **(env or {})}, cwd=self.work,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.started.append(("user", process))
        return process

    def wait_job(self, job, limit=60):
        return wait_until(lambda: not self.root(["squeue", "-h", "-j", job, "-t", "PD,R,CG"]).stdout.strip(), limit)

    # --- the end ---

    def stop(self):
        """What is left after that: none."""
        for _, process in reversed(self.started):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        end = time.monotonic() + 10
        while time.monotonic() < end and any(p.poll() is None for _, p in self.started):
            time.sleep(0.05)
        for _ in range(100):
            left = descendants(os.getpid())
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                break
            time.sleep(0.05)
        for place in pathlib.Path("/sys/fs/cgroup").glob("*/slurm_n[12]"):
            for folder in sorted((p for p in [place, *place.rglob("*")] if p.is_dir()), reverse=True):
                folder.rmdir()
        shutil.rmtree(self.folder, ignore_errors=True)
        return descendants(os.getpid())
