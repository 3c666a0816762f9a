# SPDX-License-Identifier: Apache-2.0
"""Are the numbers right: against known kernels, and against Nsight Compute."""
import csv
import io
import shutil

from figures import iteration, median, told
from machine import COPY_BYTES, INSTRUCTIONS, MEMORY
from table import row

FMA_THREADS = 132 * 256  # of gpu-workload's kernel, each of which does 256 multiply-adds
BYTES = ("dram__bytes_read.sum", "dram__bytes_write.sum")
# 31 metrics of memory, L2, L1, instructions, tensor cores, floating point and pipes, for which CUPTI needs 8 passes.
MANY = ("memory,compute,tensor,kineto__cuda_core_flops,lts__t_sectors.sum,lts__t_requests.sum,lts__t_sectors_lookup_hit.sum,"
        "lts__t_sectors_lookup_miss.sum,l1tex__t_sectors.sum,smsp__inst_executed.sum,smsp__warps_launched.sum,"
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum,smsp__thread_inst_executed.sum,smsp__inst_issued.sum,sm__warps_active.sum,"
        "sm__pipe_fma_cycles_active.sum,sm__pipe_shared_cycles_active.sum,sm__pipe_alu_cycles_active.sum,"
        "sm__pipe_fmaheavy_cycles_active.sum,sm__pipe_fmalite_cycles_active.sum,sm__pipe_fp64_cycles_active.sum,"
        "sm__inst_executed_pipe_lsu.sum,sm__inst_executed_pipe_xu.sum,sm__inst_executed_pipe_uniform.sum,"
        "sm__inst_executed_pipe_alu.sum,sm__inst_executed_pipe_cbu.sum")
RECORDED = MEMORY + ",lts__t_sectors.sum,lts__t_requests.sum"  # one pass; beside metrics of the SMs no times are traced


def values(m):
    r, kernels, totals = m.capture("copy.jsonl", "--metrics", MEMORY, "--", m.workload, "--kind", "copy", "--kernels", 128, "--repeat", 2)
    for name in BYTES:
        v = [k["metrics"][name] / COPY_BYTES for k in kernels]
        worst = max(abs(x - 1) for x in v) if v else 1
        mean = abs(sum(v) / len(v) - 1) if v else 1
        row(f"256 MiB copies, {name}", f"{len(v)} kernels, mean off {mean:.4%}, worst {worst:.4%}", "mean 0.5 %", mean <= 0.005)
    own, ranges = ([f(k) for k in kernels] for f in (lambda k: k["duration_ns"] or 0, lambda k: k["metrics"]["gpu__time_duration.sum"]))
    row("their own times, and those of their ranges", f"mean {sum(own) / max(1, len(own)) / 1e3:.2f} and {sum(ranges) / max(1, len(own)) / 1e3:.2f} us, "
        f"clocks {set(k['clock'] for k in kernels)}", "the kernels' own, shorter",
        all(k["clock"] == "gpu" for k in kernels) and all(0 < a < b for a, b in zip(own, ranges)))
    row("the first of them", f"{own[0] / 1e3:.2f}, range {ranges[0] / 1e3:.2f} us" if own else "none", "range at most twice the median: nothing is loaded in it",
        bool(own) and ranges[0] <= 2 * sorted(ranges)[len(ranges) // 2])
    row("copies accounted for", totals, "seen = measured = 256", totals.get("seen") == totals.get("measured") == 256)
    name = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
    r, kernels, totals = m.capture("fma.jsonl", "--metrics", name, "--", m.workload, "--kind", "fma", "--kernels", 20, "--repeat", 1)
    v = {k["metrics"][name] for k in kernels}
    row("fused multiply-adds of a known kernel", f"{len(kernels)} kernels, {v}", FMA_THREADS * 256, v == {float(FMA_THREADS * 256)})
    r, kernels, totals = m.capture("flops.jsonl", "--metrics", "kineto__cuda_core_flops", "--", m.workload, "--kind", "fma", "--kernels", 20,
                                   "--repeat", 1)
    v = {k["metrics"]["kineto__cuda_core_flops"] for k in kernels}
    off = max((abs(x / (2 * FMA_THREADS * 256) - 1) for x in v), default=1)
    row("kineto__cuda_core_flops of it", f"{v}, {off:+.2%}", "1 %: ptxas moves constants by HFMA2", off <= 0.01)


def precisions(m):
    """Operations of matrix products, counted by the preset roofline, against 2 N^3."""
    n = 4096
    r, kernels, _ = m.capture("precisions.jsonl", "--metrics", "roofline", "--", "python3", m.stage / "precisions.py", n)
    counted = {}
    for k in kernels:
        for x in k["nvtx"]:
            operations = sum(v or 0 for name, v in k["metrics"].items() if "ops_path_tensor" in name)
            counted[x["message"]] = counted.get(x["message"], 0) + operations
    for name in ("bf16", "fp16", "tf32", "fp8"):
        off = counted.get(name, 0) / (3 * 2 * n**3) - 1
        row(f"roofline: operations of three {name} products of {n} x {n}", f"{counted.get(name, 0):.6g}, {off:+.3%}", "2 N^3 each, 1 %",
            r.returncode == 0 and abs(off) <= 0.01)


def ncu_rows(m, metrics, *args, timeout=280):
    """What Nsight Compute, as root, prints for a program: a dictionary for each kernel."""
    r = m.run(["ncu", "--csv", "--page", "raw", "--clock-control", "none", "--cache-control", "none", "--metrics", ",".join(metrics),
               "--print-units", "base", *args], uid=0, denied=False, timeout=timeout)
    table = csv.DictReader(io.StringIO(r.stdout[max(0, r.stdout.find('"ID"')):]))
    rows = [t for t in table if (t.get("ID") or "").isdigit()]
    if not rows:
        print(f"    ncu exit {r.returncode}, no kernel:", r.stdout[-500:], r.stderr[-500:])
    return rows


def ncu_table(m, metrics, *args, timeout=280):
    """The values of each metric, by kernel."""
    table = ncu_rows(m, metrics, *args, timeout=timeout)
    return {name: [float(t[name].replace(",", "")) for t in table] for name in metrics}


def shape(text):
    """(8, 1, 1) as ncu prints it."""
    return [int(n) for n in text.strip("()").split(",")]


def in_words_of_ncu(options):
    """The options that pick kernels, as Nsight Compute calls them. Its expressions match function names alone by default."""
    words = {"--kernel": ["--kernel-name-base", "demangled", "--kernel-name"], "--skip": ["--launch-skip"], "--count": ["--launch-count"], "--nvtx": ["--nvtx", "--nvtx-include"]}
    return [word for o in options for word in words.get(o, [o])]


def filters(m):
    """The same words pick the same kernels as with Nsight Compute: by name, by NVTX range, by number."""
    argv = ["python3", m.stage / "net.py", "--warmup", 2, "--iterations", 2, "--nvtx"]
    cases = (("name", ["--kernel", "regex:batch_norm"]),
             ("name, every launch but some", ["--kernel", "regex:elementwise", "--skip", 50, "--count", 100]),
             ("NVTX range", ["--nvtx", "iteration 1/"]),
             ("NVTX range and name", ["--nvtx", "iteration 0/", "--kernel", "regex:cutlass|xmma"]))
    for what, some in cases:
        a = [(k["grid"], k["block"]) for k in m.capture("filter.jsonl", "--metrics", BYTES[0], *some, "--", *argv)[1]]
        b = [(shape(t["Grid Size"]), shape(t["Block Size"])) for t in ncu_rows(m, BYTES[:1], *in_words_of_ncu(some), *argv)]
        row(f"picked by {what}, as ncu does", f"{len(a)} kernels, {len(b)} by ncu, {sum(x == y for x, y in zip(a, b))} of one shape in their order",
            "all", a == b and bool(a))


def ncu(m):
    skip, count = 2000, 300
    some = ["--skip", skip, "--count", count]
    argv = ["python3", m.stage / "net.py", "--iterations", 10]
    # Each in one pass, so that no pass is replayed. Between kernels ncu's own work displaces some of L2: so each of its
    # kernels reads half a MB more than in ranges of ours, and than in one range of ncu's around all (section `whole`).
    theirs = {**ncu_table(m, BYTES, *in_words_of_ncu(some), *argv), **ncu_table(m, [INSTRUCTIONS], *in_words_of_ncu(some), *argv)}
    r, kernels, totals = m.capture("same.jsonl", "--metrics", MEMORY, *some, "--", *argv)
    for name in BYTES:
        a, b = sum(k["metrics"][name] for k in kernels), sum(theirs[name])
        row(f"300 ResNet kernels, {name}", f"ours {a:.4g}, ncu {b:.4g}, {a / b - 1 if b else 9:+.2%}, {(b - a) / count / 1e6:.2f} MB a kernel",
            "3 %, or 1 MB a kernel less", bool(b) and (abs(a / b - 1) <= 0.03 or 0 <= b - a <= 1e6 * count))
    # Some kernels wait for each other and execute a different count each time: two runs of ours tell which.
    a, b = ([k["metrics"][INSTRUCTIONS] for k in m.capture("inst.jsonl", "--metrics", INSTRUCTIONS, *some, "--", *argv)[1]] for _ in range(2))
    c = theirs[INSTRUCTIONS]
    stable = [i for i in range(min(len(a), len(b), len(c))) if a[i] == b[i]]
    same = sum(a[i] == c[i] for i in stable)
    row(f"300 ResNet kernels, {INSTRUCTIONS}", f"{len(stable)} the same in two runs of ours, {same} of them the same in ncu, "
        f"sum {sum(a) / max(1, sum(c)) - 1:+.4%}", "99 % of them", len(stable) >= 200 and same >= 0.99 * len(stable))
    known = ncu_table(m, [INSTRUCTIONS], m.workload, "--kind", "fma", "--kernels", 5, "--repeat", 1, timeout=120)
    r, kernels, totals = m.capture("fmai.jsonl", "--metrics", INSTRUCTIONS, "--", m.workload, "--kind", "fma", "--kernels", 5, "--repeat", 1)
    ours = {k["metrics"][INSTRUCTIONS] for k in kernels}
    row(f"{INSTRUCTIONS} of a known kernel", f"ours {ours}, ncu {set(known[INSTRUCTIONS])}", "equal",
        ours == set(known[INSTRUCTIONS]) and bool(ours))


def means(m, metrics, argv):
    """{metric: {kernel and shape: (mean of the launches that had it, all launches)}}"""
    r, kernels, totals = m.capture("means.jsonl", "--metrics", metrics, "--within", "cudaProfilerApi", "--", *argv)
    print(f"    {told(totals)}, exit {r.returncode}")
    kinds = {}
    for k in kernels:
        kinds.setdefault((k["kernel"], *k["grid"], *k["block"]), []).append(k["metrics"])
    found = {}
    for kind, launches in kinds.items():
        for metric in launches[0]:
            values = [v[metric] for v in launches if v[metric] is not None]
            if values:
                found.setdefault(metric, {})[kind] = sum(values) / len(values), len(launches)
    return found


def compare_means(metric, full, found):
    """Kinds of launches that make one percent of the metric's total, by their mean of a launch."""
    total = sum(mean * n for mean, n in full.values())
    if total == 0:
        row(f"in turns: {metric}", "0 in every launch", "0", not any(mean for mean, _ in found.values()))
        return
    large = [kind for kind, (mean, n) in full.items() if mean * n >= 0.01 * total]
    common = [kind for kind in large if kind in found]
    off = {kind: found[kind][0] / full[kind][0] - 1 for kind in common}
    weighted = sum((found[kind][0] - full[kind][0]) * full[kind][1] for kind in common) / total
    row(f"in turns: {metric}", f"{len(common)} of {len(large)} kernels and shapes, all {weighted:+.2%}, median {median([abs(v) for v in off.values()]):.2%}, "
        f"worst {max(off.values(), key=abs, default=9):+.2%}", "all 2 %", len(common) == len(large) and abs(weighted) <= 0.02)


def groups(m):
    """Metrics of several passes, which take turns in one run, against a run of each pass."""
    net = ["python3", m.stage / "net.py", "--profile", "--batch", 512, "--iterations"]
    plan = m.client("metrics", "--fit", MANY)
    sets = [line.split()[1] for line in plan.stdout.splitlines() if line.strip().startswith("--metrics ")]
    row("metrics in turns", f"{len(sets)} groups", "several", len(sets) > 1)
    full = {}
    for metrics in sets:
        for metric, by in means(m, metrics, [*net, 12]).items():
            full.setdefault(metric, by)
    found = means(m, MANY, [*net, 120])
    for metric, by in full.items():
        compare_means(metric, by, found.get(metric, {}))


def whole(m):
    """The same iterations as one range of Nsight Compute's: nothing stands between their kernels."""
    n = 30
    argv = ["python3", m.stage / "net.py", "--iterations", n, "--profile"]
    theirs = ncu_table(m, BYTES, "--replay-mode", "app-range", *argv, timeout=100)
    kernels = m.capture("whole.jsonl", "--metrics", MEMORY, "--within", "cudaProfilerApi", "--", *argv)[1]
    for b in BYTES:
        truth, ours = sum(theirs[b]), sum(k["metrics"][b] for k in kernels)
        row(f"{b} of {n} iterations", f"ncu, as one range {truth:.5g}; every kernel by itself {ours / truth - 1 if truth else 9:+.2%}", "3 %", bool(truth) and abs(ours / truth - 1) <= 0.03)


def streams(m):
    r, kernels, totals = m.capture("streams.jsonl", "--metrics", MEMORY, "--", "python3", m.stage / "streams.py")
    n = 64 << 20
    copies = [k for k in kernels if "not" in k["kernel"].lower() and k["kind"] != "graph"]
    off = max((abs(k["metrics"]["dram__bytes_read.sum"] / n - 1) for k in copies), default=1)
    row("three streams, two threads: bytes of each kernel", f"{len(copies)} kernels, worst off {off:.3%}, "
        f"{len({k['stream'] for k in copies})} streams, {len({k['thread'] for k in copies})} threads", "60, 5 %", len(copies) == 60 and off <= 0.05)
    graphs = [k["metrics"]["dram__bytes_read.sum"] / (10 * n) for k in kernels if k["kind"] == "graph"]
    row("graph of ten, bytes / ten kernels", [round(g, 3) for g in graphs], "5 x 1 (L2 keeps some)",
        len(graphs) == 5 and all(0.7 < g < 1.05 for g in graphs))
    times = [k["duration_ns"] or 0 for k in kernels if k["kind"] == "graph"]
    row("graph of ten, its time", [round(t / 1e3) for t in times], "known", len(times) == 5 and all(t > 0 for t in times))
    row("stream capture", totals, "10 capturing, exit 0", totals.get("capturing") == 10 and r.returncode == 0)
    w = f"{m.workload} --kernels 100 --repeat 1"
    r, some, totals = m.capture("processes.jsonl", "--metrics", MEMORY, "--", "sh", "-c", f"{w} && {w} & {w}; wait")
    row("three processes on one GPU, two at a time", f"{told(totals)}, exit {r.returncode}", "300 seen, all told",
        totals.get("seen") == 300 and r.returncode == 0 and totals.get("measured", 0) + totals.get("unready", 0) == 300)
    r, some, totals = m.capture("reset.jsonl", "--metrics", MEMORY, "--", m.workload, "--kernels", 100, "--repeat", 1, "--release")
    row("context released before the end", f"{totals.get('measured')} of {totals.get('seen')}, exit {r.returncode}", "100 of 100, 0",
        totals.get("measured") == totals.get("seen") == 100 and r.returncode == 0)


def several(m):
    """One process on all GPUs, and one process each."""
    gpus = m.gpus
    r, kernels, totals = m.capture("two.jsonl", "--metrics", MEMORY, "--", "python3", m.stage / "two.py")
    n = 64 << 20
    copies = [k for k in kernels if "not" in k["kernel"].lower()]
    off = max((abs(k["metrics"]["dram__bytes_read.sum"] / n - 1) for k in copies), default=1)
    row("one process on all GPUs", f"{len(copies)} copies on {len({k['uuid'] for k in copies})} GPUs, worst off {off:.3%}, exit {r.returncode}",
        f"{50 * gpus} on {gpus}, 5 %", len(copies) == 50 * gpus and len({k["uuid"] for k in copies}) == gpus and off <= 0.05)
    torchrun = ["python3", "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={gpus}", m.stage / "ddp.py"]
    plain = m.run(torchrun, denied=False).stdout
    r, kernels, totals = m.capture("ddp.jsonl", "--metrics", MEMORY, "--", *torchrun)
    print("\n".join("    " + line[:400] for line in r.stderr.splitlines() if "warning" in line or "error" in line))
    nccl = [k for k in kernels if "nccl" in k["kernel"].lower()]
    row("DistributedDataParallel", f"{iteration(plain):.2f} -> {iteration(r.stdout):.2f} ms an iteration, {len({k['pid'] for k in kernels})} "
        f"processes on {len({k['uuid'] for k in kernels})} GPUs, {len(nccl)} NCCL kernels measured", "no hang", r.returncode == 0 and bool(nccl))
    row("its kernels and loss", f"{told(totals)}, loss {plain.strip().split()[-1:]} and {r.stdout.strip().split()[-1:]}", "all measured, same loss",
        totals.get("seen") == totals.get("measured") == len(kernels) and
        plain.split()[-1:] == [w for w in r.stdout.split() if w.replace(".", "").isdigit()][-1:])
    r = m.client("--metrics", MEMORY, "--devices", "1", "--", "python3", m.stage / "two.py")
    row("--devices 1", r.stderr.strip().splitlines()[-1] if r.stderr else "", "half skipped, told why",
        "not part of this capture's lease" in r.stderr)


def record(m):
    """The launches of two training steps: found by their NVTX ranges, then recorded with raw counter
    data and with PyTorch's operators and modules. (The backward pass launches from another thread,
    outside the iterations' ranges.)"""
    argv = ["--torch=modules", "--", "python3", m.stage / "net.py", "--warmup", 3, "--iterations", 6]
    r, kernels, totals = m.capture("find.jsonl", "--metrics", MEMORY, *argv)
    begin, end = (min(k["index"] for k in kernels if any(x["message"] == f"iteration {i}" for x in k["nvtx"])) for i in (2, 4))
    path = m.work / "resnet18-h200.gpuctr"
    r = m.client("--metrics", RECORDED, "--raw", "-o", path, "-f", "--skip", begin, "--count", end - begin, *argv)
    row("recording of two training steps", f"{end - begin} kernels from {begin}, {path.stat().st_size / 1e6:.1f} MB, exit {r.returncode}",
        "4 MB, exit 0", r.returncode == 0 and path.stat().st_size <= 4 << 20)
    shutil.copy(path, m.out)
