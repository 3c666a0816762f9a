# SPDX-License-Identifier: Apache-2.0
"""Profilers of others under `gpuctr-client permit`, as an ordinary user whom the driver refuses: ncu with one pass and
with many, a plain CUPTI program, and what samples whole GPUs. Their values are compared with those that root gets."""
import csv
import glob
import io
import re
import shutil

from machine import INSTRUCTIONS, USER, fakes
from right_numbers import BYTES, of_root
from table import row

CUPTI_REFUSED = 35
ALIKE = ("--clock-control", "none", "--cache-control", "none", "--print-units", "base", "--csv", "--page", "raw")


def in_own_folder(m, uid, argv):
    """ncu locks a file in the folder for temporary files, which must not be another user's."""
    folder = m.work / f"tmp{uid}"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    return ["env", f"TMPDIR={folder}", f"HOME={folder}", *argv]


def rows_of(text):
    """A dictionary for each kernel; ncu's own lines stand before the table, and one of units in it."""
    table = csv.DictReader(io.StringIO(text[max(0, text.find('"ID"')):]))
    return [t for t in table if (t.get("ID") or "").isdigit()]


def number_of(text):
    try:
        return float(text.replace(",", ""))
    except (AttributeError, ValueError):
        return None


def told(r):
    lines = [line for line in (r.stdout + "\n" + r.stderr).splitlines() if re.search(r"==ERROR==|==WARNING==|ERR_|error|gpuctr", line)]
    return " | ".join(lines)[-300:]


def by_ncu(m, what, *program, timeout=280):
    """What ncu says of a program: as root, as a user, and as a user with a permit."""
    argv = ["ncu", *ALIKE, *what, *program]
    root = m.run(in_own_folder(m, 0, argv), uid=0, denied=False, timeout=timeout)
    refused = m.run(in_own_folder(m, USER, argv), timeout=timeout)
    permitted = m.client("permit", "--", *in_own_folder(m, USER, argv), timeout=timeout)
    return root, refused, permitted


def expect_refusal(name, r):
    row(f"{name} as a user, without a permit", f"exit {r.returncode}, ERR_NVGPUCTRPERM {'ERR_NVGPUCTRPERM' in r.stdout + r.stderr}, "
        f"{len(rows_of(r.stdout))} kernels", "ERR_NVGPUCTRPERM, 0", "ERR_NVGPUCTRPERM" in r.stdout + r.stderr and not rows_of(r.stdout))


def expect_permit(name, root, permitted):
    """ncu may start a program without what is preloaded, the emulated refusal too: then nobody asks us, and nothing is shown."""
    asked = "no process was given the counters" not in permitted.stderr
    row(f"{name} with a permit", f"exit {permitted.returncode} (root {root.returncode}), asked {asked} {told(permitted)}", "root's, True",
        permitted.returncode == root.returncode and asked)


def compare(name, a, b, exact):
    """The values of root's and the user's tables; exact: metrics that do not differ from run to run."""
    columns = [set(table[0]) if table else set() for table in (a, b)]
    row(f"{name}: kernels and columns", f"root {len(a)} x {len(columns[0])}, permit {len(b)} x {len(columns[1])}", "the same",
        len(a) == len(b) > 0 and columns[0] == columns[1])
    for metric in exact:
        x, y = ([number_of(t.get(metric)) for t in table] for table in (a, b))
        row(f"{name}: {metric}", f"root {sorted(set(x), key=str)[:3]}, permit {sorted(set(y), key=str)[:3]}", "equal", x == y and None not in x and bool(x))
    empty = sum(v in ("", "n/a", "nan") for t in b for v in t.values())
    same = sum(v in ("", "n/a", "nan") for t in a for v in t.values())
    row(f"{name}: values that are missing", f"root {same}, permit {empty}", "no more than root's", empty <= same)


def bytes_alike(name, a, b):
    for metric in BYTES.split(","):
        x, y = (sum(number_of(t.get(metric)) or 0 for t in table) for table in (a, b))
        row(f"{name}: {metric}", f"root {x:.4g}, permit {y:.4g}, {y / x - 1 if x else 9:+.3%}", "1 %", bool(x) and abs(y / x - 1) <= 0.01)


def ncu(m):
    if not shutil.which("ncu"):
        row("ncu under a permit", "ncu is not here: not run")
        return
    what = ["--metrics", f"{INSTRUCTIONS},{BYTES}"]
    root, refused, permitted = by_ncu(m, what, m.workload, "--kind", "copy", "--kernels", 5, "--repeat", 1)
    expect_refusal("ncu --metrics", refused)
    expect_permit("ncu --metrics", root, permitted)
    compare("ncu --metrics", rows_of(root.stdout), rows_of(permitted.stdout), [INSTRUCTIONS])
    bytes_alike("ncu --metrics", rows_of(root.stdout), rows_of(permitted.stdout))
    root, refused, permitted = by_ncu(m, ["--set", "full"], m.program, "--kernels", 5, "--sleep-ms", 1, "--exit", 7)
    expect_refusal("ncu --set full", refused)
    expect_permit("ncu --set full", root, permitted)
    compare("ncu --set full", rows_of(root.stdout), rows_of(permitted.stdout), ["launch__grid_size", "smsp__inst_executed.sum"])
    row("ncu --set full: the program's output", "launched" in permitted.stdout, "as ever", "launched 5" in permitted.stdout)


def ranges_of(text):
    return [[float(x) for x in line.split()[2:]] for line in text.splitlines() if re.match(r"range \d", line)]


def cupti(m):
    """A CUPTI program that knows nothing of us: the user range profiler."""
    args = ["--kind", "fma", "--kernels", 20, "--repeat", 1, "--floor", INSTRUCTIONS, "--batch", 64, "--values"]
    refused = m.run([m.workload, *args])
    row("a CUPTI program as a user, without a permit", (refused.stdout + refused.stderr).strip().splitlines()[-1:], f"failed: {CUPTI_REFUSED}",
        f"failed: {CUPTI_REFUSED}" in refused.stderr)
    for how in ([], ["--inject"]):
        permitted = m.client("permit", *how, "--", m.workload, *args)
        root, user = ({v[0] for v in x} for x in (of_root(m, INSTRUCTIONS, "--kind", "fma", "--kernels", 20), ranges_of(permitted.stdout)))
        row(f"a CUPTI program with a permit{' by injection' if how else ''}", f"root {sorted(root)}, permit {sorted(user)}, exit {permitted.returncode} "
            f"{told(permitted)}", "equal, 0", root == user and bool(user) and permitted.returncode == 0)
    args = ["--kind", "copy", "--kernels", 32, "--repeat", 1, "--floor", BYTES, "--batch", 64, "--values"]
    user = ranges_of(m.client("permit", "--", m.workload, *args).stdout)
    root = of_root(m, BYTES, "--kind", "copy", "--kernels", 32)
    for i, name in enumerate(BYTES.split(",")):
        a, b = (sum(v[i] for v in x) / max(1, len(x)) for x in (root, user))
        row(f"{name} of 256 MiB copies, CUPTI program", f"root {a:.0f}, permit {b:.0f}, {b / a - 1 if a else 9:+.3%}", "1 %",
            bool(a) and abs(b / a - 1) <= 0.01)


def after_the_end(m):
    """What the lease gave is taken back while ncu or CUPTI goes on."""
    m.use_daemon("lease-max=2")
    p = m.start_client("permit", "--", m.workload, "--kind", "copy", "--kernels", 2000, "--repeat", 40, "--floor", BYTES, "--batch", 64)
    waits = m.start_client("permit", "true")
    waits.wait(60)
    p.wait(120)
    row("a lease that ends under a CUPTI program", f"exit {p.p.returncode}, {told_of(p)}", "our line says why", "lease-expired" in p.err())


def told_of(p):
    return " | ".join(line for line in p.err().splitlines() if "gpuctr" in line or "failed" in line)[-300:]


def find_nsys():
    """Its own package has it in PATH; that of Nsight Compute brings one without its importer, which collects."""
    brought = sorted(glob.glob("/opt/nvidia/nsight-compute/*/host/target-linux-x64/nsys"))
    return shutil.which("nsys") or (brought[-1] if brought else None)


def doctor(m):
    """As by sudo: the doctor is root, its profiler is not."""
    env = {"SUDO_UID": str(USER), "PATH": f"{m.stage}:{m.env['PATH']}"}
    r = m.run([m.stage / "gpucountd-doctor", "--socket", m.sock], uid=0, env=env)
    line = next((line for line in r.stdout.splitlines() if re.match(r"\w+ +permit ", line)), "no line of it")
    row("gpucountd-doctor, its profiler under a permit", line, "ok", line.startswith("ok "))


def whole_gpus(m):
    """PM sampling by Nsight Systems: told, for what it needs beside the permission is its own."""
    nsys = find_nsys()
    if not nsys:
        row("nsys --gpu-metrics-devices under a permit", "nsys is not here: not run")
        return
    m.use_daemon(f"device-users={USER}")
    argv = in_own_folder(m, USER, [nsys, "profile", "--gpu-metrics-devices=0", "-o", m.work / "sampled", "-f", "true", m.workload, "--kind",
                                   "copy", "--kernels", 200, "--repeat", 5])
    refused, permitted = m.run(argv), m.client("permit", "--", *argv)
    row("nsys --gpu-metrics-devices, without", f"exit {refused.returncode} {told(refused)}")
    row("nsys --gpu-metrics-devices, with a permit", f"exit {permitted.returncode} {told(permitted)}")


def one_of_several(m):
    """A job that has one GPU of the machine: ncu measures there, and nowhere else."""
    what = ["ncu", *ALIKE, "--metrics", INSTRUCTIONS, m.workload, "--kind", "fma", "--kernels", 3, "--repeat", 1, "--device"]
    root = m.run(in_own_folder(m, 0, [*what, 1]), uid=0, denied=False)
    leased, other = (m.client("permit", "--devices", 1, "--", *in_own_folder(m, USER, [*what, gpu])) for gpu in (1, 0))
    expect_permit("ncu on the leased one of two GPUs", root, leased)
    compare("ncu on the leased one of two GPUs", rows_of(root.stdout), rows_of(leased.stdout), [INSTRUCTIONS])
    row("ncu on the other one", f"{len(rows_of(other.stdout))} kernels, {told(other)}", "0, our line says why",
        not rows_of(other.stdout) and "a GPU that the lease does not cover" in other.stderr)
    argv = [m.workload, "--kind", "fma", "--kernels", 20, "--repeat", 1, "--floor", INSTRUCTIONS, "--batch", 64, "--device", 0]
    r = m.client("permit", "--devices", 1, "--", *argv)
    row("a CUPTI program on the other one", told(r), f"failed: {CUPTI_REFUSED}", f"failed: {CUPTI_REFUSED}" in r.stderr)


def permit(m):
    if m.gpus > 1:
        one_of_several(m)
    doctor(m)
    cupti(m)
    if not fakes:
        ncu(m)
        after_the_end(m)
        whole_gpus(m)
