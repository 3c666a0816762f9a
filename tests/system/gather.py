#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gather CLIENT: a capture of a job on many nodes, with a squeue and an srun that say what a script has them say: where
files are, and the exit status of all. The real ones are in tests/slurm."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from checks import check, failures, run_test  # noqa: E402

CLIENT = pathlib.Path(sys.argv[1]).resolve()

# The step of a job, by its number.
SRUN = """#!/bin/sh
echo "$@" >> asked
for word; do
	case $word in
	--jobid=*) job=${word#--jobid=} ;;
	esac
done
cat "step.$job"
test ! -e "errors.$job" || cat "errors.$job" >&2
exit "$(cat "status.$job")"
"""


def node(status, kernels, name="n1"):
    return f"node\t{name}\t{status}\t{kernels}\n"


def file(path, inode=1):
    """As a node describes it that shares the folder, or, with another number, does not."""
    return f"file\tn1\t{os.stat(path).st_ino if inode == 0 else inode}\t{path}\n"


def capture(steps, *arguments, job="1", jobs=None):
    """Of a job for each of steps: what its nodes say, and their status."""
    os.makedirs("bin", exist_ok=True)
    jobs = jobs or "".join(f"{n}|{n}|RUNNING|1|None\n" for n in range(1, len(steps) + 1))
    for name, text in ("srun", SRUN), ("squeue", f"#!/bin/sh\nprintf '{jobs}'\n"):
        pathlib.Path("bin", name).write_text(text)
        os.chmod(f"bin/{name}", 0o755)
    for n, (said, status) in enumerate(steps, 1):
        pathlib.Path(f"step.{n}").write_text(said)
        pathlib.Path(f"status.{n}").write_text(str(status))
    return subprocess.run([CLIENT, "capture", "--job", job, "--metrics", "memory", *arguments], capture_output=True, text=True,
                          timeout=60, check=False, env={**os.environ, "PATH": f"{os.getcwd()}/bin:{os.environ['PATH']}"})


def files_on_other_disks_are_named():
    """A node names what it likes: nothing is written here, and what is not here is said to be there."""
    os.makedirs("out")
    pathlib.Path("out/shared.gpuctr").write_text("mine")
    pathlib.Path("out/taken.gpuctr").write_text("ours")
    said = file("out/shared.gpuctr", 0) + file("out/n1.gpuctr") + file("out/taken.gpuctr")
    r = capture([(said + node(0, 5), 0)], "-o", "out/%h.gpuctr")
    check(r.returncode == 0 and "out/n1.gpuctr is on n1" in r.stderr and "shared.gpuctr is not a capture file" in r.stderr, r)
    check("out/taken.gpuctr is another file here: the one of n1 stays there" in r.stderr, r)
    check(sorted(os.listdir("out")) == ["shared.gpuctr", "taken.gpuctr"] and pathlib.Path("out/shared.gpuctr").read_text() == "mine", os.listdir("out"))


def the_worst_step_counts():
    """Whichever of several jobs it is whose step failed."""
    good, bad, output = (node(0, 5), 0), ("", 3), ("-o", "%h.%j.gpuctr")
    for steps in [bad, good], [good, bad], [good, bad, good]:
        r = capture(steps, *output)
        check(r.returncode == 125 and "not all nodes were measured as asked" in r.stderr and "status: 3" in r.stderr, f"{steps}: {r}")
    r = capture([good, good], *output)
    check(r.returncode == 0 and "not all" not in r.stderr, r)
    for steps in [("", 0), bad], [bad, ("", 0)]:
        r = capture(steps, *output)
        check(r.returncode == 125 and "nothing was measured on any node" in r.stderr, f"{steps}: {r}")
    check(capture([("", 0), ("", 0)], *output).returncode == 124, "nothing failed, and nothing was measured")


def a_node_that_fails_costs_the_status():
    """A disk that is full, a lease that is over, a client that is killed; but one that never began is told only."""
    output = "-o", "%h.%j.gpuctr"
    for status in 125, 137:
        r = capture([(node(0, 5), status)])
        check(r.returncode == 125 and "not all nodes were measured as asked" in r.stderr and "took part" not in r.stderr, f"{status}: {r}")
    for steps in [(node(0, 5) + node(124, 0), 124)], [(node(0, 5), 0), (node(124, 0), 124)]:
        r = capture(steps, *output)
        check(r.returncode == 0 and "not all nodes took part" in r.stderr, f"{steps}: {r}")
    for status in 125, 3:
        check(capture([(node(0, 5), 124), ("", status)], *output).returncode == 125, f"the worse of 124 and {status}")
    check(capture([(node(124, 0), 124)]).returncode == 125, "no node took part")


def nodes_that_failed_are_named():
    """Their messages came before; who has said nothing is counted."""
    said = node(0, 5) + node(125, 3, "n2\x1b[2J") + node(124, 0, "n3")
    r = capture([(said, 125)], "-o", "%h.gpuctr", jobs="1|1|RUNNING|4|None\n")
    check(re.search(r"^gpuctr: n2.* ended with status 125.*\ngpuctr: n3 ended with status 124", r.stderr, re.M), r.stderr)
    check("1 of 4 nodes have said nothing" in r.stderr and r.returncode == 125 and "\x1b" not in r.stderr, r)


def a_client_that_never_began_says_so_to_the_job():
    """By its status; alone it is refused."""
    for status, arguments in (124, ["--here=7"]), (125, ["--here"]):
        with ask("exit 0", "--metrics", "memory", *arguments) as p:
            said = p.communicate(timeout=60)[1]
        check(p.returncode == status and "error[no-daemon]" in said, f"{arguments}: {p.returncode} {said}")


def ask(squeue, *arguments):
    """What becomes of a capture whose squeue is this script."""
    os.makedirs("bin", exist_ok=True)
    for name, text in ("srun", "exit 9"), ("squeue", squeue):
        pathlib.Path("bin", name).write_text(f"#!/bin/sh\n{text}\n")
        os.chmod(f"bin/{name}", 0o755)
    return subprocess.Popen([CLIENT, "capture", "--job", "7", "--socket", "/nonexistent/socket", *arguments], stderr=subprocess.PIPE, text=True,
                            start_new_session=True, env={**os.environ, "PATH": f"{os.getcwd()}/bin:{os.environ['PATH']}"})


def a_squeue_without_the_job_is_named():
    """Whether it fails, lists nothing, or says what is no list. Its own message is seen."""
    for squeue, told in (("echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1", "Unable to contact slurm controller\n"),
                         ("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", "Invalid job id specified\n"),
                         ("exit 0", ""), ("exit 3", ""), ("kill -9 $$", ""), ("echo '7|7|RUNNING|1|None'; exit 3", ""),
                         ("echo 'welcome to the cluster'", ""), ("echo welcome; echo '7|7|RUNNING|1|None'", ""), ("yes", "")):
        with ask(squeue) as p:
            said = p.communicate(timeout=60)[1]
        check(p.returncode == 125 and told in said and "warning[slurm]: squeue lists no job 7\n" in said and "on this node" in said,
              f"{squeue}: {p.returncode} {said}")


def a_squeue_that_hangs_is_waited_for_aloud():
    """A terminal's Ctrl-C ends both."""
    with ask("exec sleep 1000") as p:
        check("asking Slurm" in p.stderr.readline(), "it is not said what is waited for")
        os.killpg(p.pid, signal.SIGINT)
        p.communicate(timeout=60)
    check(p.returncode in (-signal.SIGINT, 128 + signal.SIGINT), p.returncode)


def only_files_are_opened():
    """Whoever writes to a pipe waits for a reader: a node that names it makes none of this machine."""
    os.makedirs("out", exist_ok=True)
    os.mkfifo("out/pipe")
    with subprocess.Popen(["sh", "-c", "echo opened > out/pipe"]) as p:
        r = capture([(file("out/pipe", 0) + file("/dev/null", 0) + node(0, 5), 0)], "-o", "out/%h.gpuctr")
        check(r.returncode == 0 and "out/pipe is another file here" in r.stderr, r)
        check(p.poll() is None, "the pipe was opened")
        p.kill()


def a_script_hears_that_no_node_has_a_kernel():
    none, output = (node(0, 0), 0), ("-o", "%h.%j.gpuctr")
    check(capture([none], "--fail-if-none").returncode == 124, "no kernel on any node")
    check(capture([none]).returncode == 0, "nobody asked")
    check(capture([none, (node(0, 7), 0)], "--fail-if-none", *output).returncode == 0, "one node has kernels")


def asked(name, jobs):
    """The components and steps whose clients were started when this job was named."""
    pathlib.Path("asked").unlink(missing_ok=True)
    capture([(node(0, 5), 0)] * 2, "-o", "%h.%j.gpuctr", job=name, jobs=jobs)
    starts = pathlib.Path("asked").read_text().splitlines() if os.path.exists("asked") else []
    return sorted(re.sub(r".*--jobid=(\d+)(?: --het-group=(\d+))?.* --here=(\S+).*", r"\1 \2 \3", s) for s in starts)


def a_job_is_captured_by_every_name_of_its():
    """squeue lists all components of a heterogeneous job, whichever was asked for."""
    both = "".join(f"{n}|1+{n - 1}|RUNNING|1|None\n" for n in (1, 2))
    first, second = "1 0 1,1", "1 1 2,1"
    for name, found in {"1": [first, second], "1+0": [first], "1+1": [second], "2": [second], "1+1.0": ["1 1 2.0,1.0"]}.items():
        got = asked(name, both)
        check(got == found, f"{name}: {got}")
    for step in "0", "batch", "interactive", "extern", "4294967290":
        got = asked(f"1.{step}", "1|1|RUNNING|1|None\n")
        check(got == [f"1  1.{step}"], f"1.{step}: {got}")
    check(asked("1.bath", "1|1|RUNNING|1|None\n") == [], "no step has such a name")


for test in (files_on_other_disks_are_named, the_worst_step_counts, a_node_that_fails_costs_the_status,
             a_client_that_never_began_says_so_to_the_job, a_squeue_without_the_job_is_named, a_squeue_that_hangs_is_waited_for_aloud,
             nodes_that_failed_are_named, only_files_are_opened,
             a_script_hears_that_no_node_has_a_kernel, a_job_is_captured_by_every_name_of_its):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        run_test(test)
        os.chdir("/")
sys.exit(1 if failures else 0)
