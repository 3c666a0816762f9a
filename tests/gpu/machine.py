# SPDX-License-Identifier: Apache-2.0
"""The machine under test: a stage that every user can reach, its users' programs, and the daemon.

What is started writes into files and is waited for with a limit, so nothing here hangs; what is left
at the end is ended. With GPUCTR_GPU_FAKES=1 everything runs on the fakes of tests/fake: the logic of
the sections can be tried without a GPU, their times and values mean nothing then."""
import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

MEMORY = "dram__bytes_read.sum,dram__bytes_write.sum,gpu__time_duration.sum"
INSTRUCTIONS = "sm__inst_executed.sum"
USER, OTHER = 1000, 1001
COPY_BYTES = 256 << 20

STAGED = ("daemon/gpucountd", "daemon/gpucountd-doctor", "client/cli/gpuctr-client", "client/replay/gpuctr-replay",
          "client/agent/libgpuctr-agent.so", "client/agent/libgpuctr-permit.so", "client/agent/gpuctr-courier", "client/sampler/gpuctr-sampler",
          "tests/gpu/gpu-workload", "tests/gpu/gpu-program", "tests/gpu/gpu-grants", "tests/gpu/libgpu-deny.so", "tests/fake/fakewait",
          "tests/fake/fakedelay", "tests/fake/fakeserve")
TOOLKIT = ("/usr/local/cuda/lib64", "/usr/local/cuda/extras/CUPTI/lib64")

fakes = os.environ.get("GPUCTR_GPU_FAKES") == "1"


class Program:
    """A process in a group of its own, with its output in files."""

    def __init__(self, argv, env, folder, name):
        self.files = [folder / f"{name}.{kind}" for kind in ("out", "err")]
        out, err = (open(f, "w") for f in self.files)
        self.p = subprocess.Popen([str(a) for a in argv], env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                  start_new_session=True)
        self.pid = self.p.pid

    def out(self):
        return self.files[0].read_text(errors="replace")

    def err(self):
        return self.files[1].read_text(errors="replace")

    def runs(self):
        return self.p.poll() is None

    def wait(self, timeout=30):
        """The exit status; None when it had to be killed."""
        try:
            return self.p.wait(timeout)
        except subprocess.TimeoutExpired:
            self.end()
            return None

    def wait_for(self, text, timeout=15):
        """Whether the text comes, on either stream."""
        by = time.time() + timeout
        while time.time() < by:
            if text in self.out() or text in self.err():
                return True
            if not self.runs():
                return text in self.out() + self.err()
            time.sleep(0.005)
        return False

    def end(self):
        """The whole group: a client that is killed leaves its program behind."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.p.wait(10)


class Machine:
    def __init__(self, build, out):
        self.build, self.out = build, out
        self.stage = pathlib.Path(tempfile.mkdtemp(prefix="gpuctr-"))
        self.work = self.stage / "work"
        self.sock = self.stage / "sock"
        self.programs = []
        self.daemon, self.options = None, None
        self._fill_stage()
        self.client_path = self.stage / "gpuctr-client"
        self.agent = self.stage / "libgpuctr-agent.so"
        self.workload, self.program, self.grants = (self.stage / f"gpu-{n}" for n in ("workload", "program", "grants"))
        self.waits, self.delay, self.serves = (self.stage / f"fake{n}" for n in ("wait", "delay", "serve"))
        self._choose_libraries()

    def _fill_stage(self):
        here = pathlib.Path(__file__).resolve().parent
        files = [self.build / f for f in STAGED] + list((here / "programs").glob("*.py"))
        files += [f for pattern in ("client/lib/libgpuctr.so*", "lib/*.so*") for f in self.build.glob(pattern) if f.is_file()]
        if fakes:
            files += [f for f in (self.build / "tests/fake").glob("*.so*") if f.is_file()]
        for f in files:
            shutil.copy2(f, self.stage)
        for f in [self.stage, *self.stage.iterdir()]:
            f.chmod(0o755)
        shutil.copytree(self.build / "client/agent/python", self.stage / "python")
        self.work.mkdir()
        self.work.chmod(0o777)

    def _choose_libraries(self):
        folders = [str(self.stage)] + [d for d in TOOLKIT if not fakes and os.path.exists(d + "/libcupti.so.13")][:1]
        self.env = dict(os.environ, LD_LIBRARY_PATH=":".join(folders), PYTHONDONTWRITEBYTECODE="1", HOME="/tmp")
        self.preload = str(self.stage / ("libfakedriver.so" if fakes else "libgpu-deny.so"))
        if fakes:
            folder = self.stage / "fake"
            folder.mkdir()
            folder.chmod(0o777)
            (folder / "nvml_auto").write_text("1")
            os.umask(0)
            self.env["GPUCTR_FAKE_DIR"] = str(folder)

    # --- programs ---

    def argv(self, argv, uid):
        user = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", "--inh-caps=-all"] if uid else []
        return user + [str(a) for a in argv]

    def environment(self, denied=True, **more):
        """denied: the driver refuses the counters to whom a restricted one would refuse them."""
        env = dict(self.env, GPUCTR_SOCKET=str(self.sock), GPUCTR_AGENT=str(self.agent), **{k: str(v) for k, v in more.items()})
        if denied or fakes:
            env["LD_PRELOAD"] = self.preload
        if fakes and not denied:
            env["GPUCTR_FAKE_RESTRICTED"] = "0"
        return env

    def run(self, argv, timeout=120, uid=USER, denied=True, env=None):
        """Runs to its end, which was at .ended. returncode is -1 when it had to be killed."""
        p = self.start(argv, uid=uid, denied=denied, env=env)
        code = p.wait(timeout)
        ended = time.time()
        self.programs.remove(p)
        r = subprocess.CompletedProcess(argv, -1 if code is None else code, p.out(), p.err())
        r.ended = ended
        return r

    def start(self, argv, uid=USER, denied=True, env=None):
        p = Program(self.argv(argv, uid), self.environment(denied, **(env or {})), self.work, f"p{time.monotonic_ns()}")
        self.programs.append(p)
        return p

    def client(self, *args, **kw):
        return self.run([self.client_path, *args], **kw)

    def start_client(self, *args, **kw):
        return self.start([self.client_path, *args], **kw)

    def capture(self, name, *args, verb="run", timeout=300, **kw):
        """A client that writes JSON lines: the process's result, the kernels, the totals."""
        path = self.work / name
        path.unlink(missing_ok=True)
        r = self.client(verb, f"--stream={path}", "-f", *args, timeout=timeout, **kw)
        kernels, totals = [], {}
        for line in open(path) if path.exists() else []:
            d = json.loads(line)
            if d["type"] == "kernel":
                kernels.append(d)
            elif d["type"] == "totals":
                totals = d
        if r.returncode != 0 or not kernels:
            print(r.stdout[-1500:], r.stderr[-3000:])
        return r, kernels, totals

    # --- the daemon ---

    def use_daemon(self, *options, fresh=False):
        """One with these options: the present one, or a new one."""
        if self.daemon and self.daemon.poll() is None and self.options == options and not fresh:
            return
        self.stop_daemon()
        log = open(self.out / "daemon.log", "a")
        settings = [a for o in ("allow-users=*", "permissions-per-minute=10000000", "captures-per-minute=10000000", "questions-per-minute=10000000", *options) for a in ("--set", o)]
        self.daemon = subprocess.Popen([self.stage / "gpucountd", "-s", self.sock, "--user", "nobody", *settings], stderr=log,
                                       env=self.environment(), start_new_session=True)
        self.options = options
        by = time.time() + 15
        while time.time() < by:
            r = self.client("status", timeout=10)
            if r.returncode == 0 and "GPU-" in r.stdout:
                return
            time.sleep(0.1)
        sys.exit("the daemon did not come up: " + r.stdout + r.stderr)

    def stop_daemon(self):
        """The exit status; "killed" when it did not stop."""
        if not self.daemon:
            return None
        self.daemon.send_signal(signal.SIGTERM)
        try:
            code = self.daemon.wait(10)
        except subprocess.TimeoutExpired:
            self.daemon.kill()
            self.daemon.wait(10)
            code = "killed"
        self.daemon = None
        return code

    def workers(self):
        """The daemon's processes: name -> fields of /proc/PID/status, with "pid"."""
        found = [status_of(p) for p in (self.daemon.pid, *children(self.daemon.pid))]
        return {s["Name"]: s for s in found if s}

    def close(self):
        for p in self.programs:
            p.end()
        code = self.stop_daemon()
        shutil.rmtree(self.stage, ignore_errors=True)
        return code


def children(pid):
    try:
        return [int(x) for x in open(f"/proc/{pid}/task/{pid}/children").read().split()]
    except OSError:
        return []


def descendant(pid, name, timeout=15):
    """The pid of the process called name below pid, waited for; None when it does not come."""
    by = time.time() + timeout
    while time.time() < by:
        todo = children(pid)
        while todo:
            p = todo.pop()
            if (status_of(p) or {}).get("Name") == name[:15]:
                return p
            todo += children(p)
        time.sleep(0.005)
    return None


def status_of(pid):
    try:
        lines = open(f"/proc/{pid}/status").read().splitlines()
    except OSError:
        return None
    return dict([line.split(":\t", 1) for line in lines if ":\t" in line], pid=pid)


def memory_used_mib():
    r = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], text=True, capture_output=True,
                       timeout=20)
    return int(r.stdout.split()[0])


def describe_gpus():
    if fakes:
        return ["fake"]
    r = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,clocks.mem", "--format=csv,noheader"], text=True,
                       capture_output=True, timeout=30)
    return r.stdout.strip().splitlines()


class Clocks:
    """What the first GPU's SMs are clocked at, and what it draws, 20 times a second: a GPU at its power limit is slower
    where anything beside the program draws power."""

    def __init__(self):
        self.seen = []
        self.p = subprocess.Popen(["nvidia-smi", "-i", "0", "--query-gpu=clocks.sm,power.draw.instant,power.limit", "--format=csv,noheader,nounits",
                                   "-lms", "50"], stdout=subprocess.PIPE, text=True)
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self):
        for line in self.p.stdout:
            try:
                self.seen.append((time.time(), *map(float, line.split(","))))
            except ValueError:  # what it does not know
                pass

    def end(self):
        self.p.terminate()
        self.p.wait(10)
        self.thread.join(10)

    def during(self, windows):
        """Means, as text."""
        seen = [s for s in self.seen if any(begin <= s[0] <= end for begin, end in windows)]
        means = [sum(column) / len(seen) for column in zip(*seen)][1:] if seen else [float("nan")] * 3
        return "{:.0f} MHz, {:.0f} of {:.0f} W".format(*means)
