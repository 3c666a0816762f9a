#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""joined CLIENT: samples of a GPU and a trace of torch.profiler's, of which gpuctr-client merge --samples makes values for
each kernel. Both are made here, of a training whose traffic is known: samples as capture --timeline writes them, the trace
as kineto does."""

import collections
import csv
import gzip
import io
import json
import pathlib
import random
import re
import sqlite3
import subprocess
import sys

sys.dont_write_bytecode = True
from checks import check, run_tests  # noqa: E402

CLIENT = pathlib.Path(sys.argv[1]).resolve()
READ, WRITE = METRICS = "dram__bytes_read.sum", "dram__bytes_write.sum"
BASE_NS, INTERVAL_NS, SHIFT_NS = 1_754_654_528_000_000_000, 10_000, 3_700
UUID = "GPU-c1d2e3f4-0000-4000-8000-00000000000{}"
# Of a step: operator, kernel, us, bytes read and written a us. Each is one launch; names come more than once.
STEP = [("aten::linear", "gemm<float>", 183, 900_000, 300_000), ("aten::linear", "bias", 31, 1_400_000, 1_300_000),
        ("aten::gelu", "gelu", 47, 1_800_000, 1_750_000), ("aten::linear", "gemm<float>", 161, 700_000, 250_000),
        ("aten::layer_norm", "norm", 55, 1_500_000, 1_400_000), ("AddmmBackward0", "gemm<float>", 207, 1_000_000, 350_000),
        ("aten::sum", "reduce", 3, 2_000_000, 1000), ("Optimizer.step#SGD.step", "update", 88, 1_900_000, 900_000)]
COPY_US, COPY_RATE = 40, 1_100_000


def program(steps=120, seed=5):
    """What ran: (kind, step, place, start_ns, end_ns, read, written), with gaps that vary."""
    rng, now, ran = random.Random(seed), 5_000_000, []
    for step in range(steps):
        now += rng.randrange(5_000, 60_000)
        ran.append(("copy", step, None, now, now + COPY_US * 1000, 0, COPY_US * COPY_RATE))
        now += COPY_US * 1000
        for place, (_, _, us, read, written) in enumerate(STEP):
            now += rng.randrange(600, 3_000)
            ns = int(us * 1000 * rng.uniform(0.97, 1.03))
            ran.append(("kernel", step, place, now, now + ns, us * read, us * written))
            now += ns
    return ran


def samples(ran, gpu=0, after_ns=3_000_000):
    """Lines of JSON: what flowed in each interval of the sampler's clock, which is SHIFT_NS behind."""
    begin = ran[0][3] - 2_000_000
    n = (ran[-1][4] + after_ns - begin) // INTERVAL_NS
    values = [[0.0, 0.0] for _ in range(n)]
    for _, _, _, start, end, *moved in ran:
        for i in range((start - begin) // INTERVAL_NS, (end - begin) // INTERVAL_NS + 1):
            from_ns = begin + i * INTERVAL_NS
            part = (min(end, from_ns + INTERVAL_NS) - max(start, from_ns)) / (end - start)
            for k, bytes_moved in enumerate(moved):
                values[i][k] += bytes_moved * max(part, 0)
    lines = [json.dumps({"type": "timeline", "gpu": UUID.format(gpu), "interval_ns": INTERVAL_NS, "metrics": METRICS}, separators=(",", ":"))]
    for i, v in enumerate(values):
        at = BASE_NS + begin + i * INTERVAL_NS - SHIFT_NS
        lines.append(f'{{"type":"sample","start_ns":{at},"end_ns":{at + INTERVAL_NS},"values":[{round(v[0])},{round(v[1])}]}}')
    lines.append(f'{{"type":"end","samples":{n},"lost":0,"error":null}}')
    return "\n".join(lines) + "\n"


def us(ns):
    """As kineto writes it: three digits behind the point."""
    return f"@{ns // 1000}.{ns % 1000:03}@"


def event(cat, name, pid, tid, ts, dur, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": us(ts), "dur": us(dur), "args": args}


def events_of(ran, device=0, first_correlation=1):
    """Kernels, and on the CPU, some time before, operators around launches, in ProfilerStep#N."""
    events, correlation, opened = [], first_correlation, {}
    for kind, step, place, start, end, *_ in ran:
        correlation += 1
        cpu = start - 400_000
        opened.setdefault(step, cpu - 3000)
        if kind == "copy":
            events.append(event("gpu_memcpy", "Memcpy DtoD (Device -> Device)", device, 7, start, end - start, device=device, context=1, stream=7,
                                correlation=correlation, bytes=COPY_US * COPY_RATE))
            continue
        op, name = STEP[place][:2]
        thread = 4712 if "Backward" in op else 4711
        cat = "user_annotation" if "#" in op else "cpu_op"
        sizes = {} if "#" in op else {"Input Dims": [[8, 512, place], [], [512]], "Sequence number": 1000 * step + (place if thread == 4711 else 0)}
        if thread == 4712:
            events.append(event("cpu_op", "autograd::engine::evaluate_function: " + op, 4711, thread, cpu - 2000, 9000, **sizes))
        events.append(event(cat, op, 4711, thread, cpu - 1000, 2500, **{"External id": correlation}, **sizes))
        events.append(event("cuda_runtime", "cudaLaunchKernel", 4711, thread, cpu, 1200, correlation=correlation))
        events.append(event("kernel", name, device, 7, start, end - start, device=device, context=1, stream=7, correlation=correlation,
                            grid=[place + 1, 2, 1], block=[128, 1, 1], **{"registers per thread": 32, "shared memory": 0}))
        events.append(event("user_annotation", "gpu decoy", 4711, 9999, cpu, 10_000_000))
    for step, at in opened.items():
        end = max(r[3] for r in ran if r[1] == step) - 400_000 + 8000
        events.append(event("user_annotation", f"ProfilerStep#{step}", 4711, 4711, at, end - at))
    return events


def write_trace(path, events, base=True, devices=1):
    trace = {"schemaVersion": 1, "deviceProperties": [{"id": i, "name": f"NVIDIA H{i}00", "numSms": 132} for i in range(devices)],
             "traceEvents": events, **({"baseTimeNanoseconds": BASE_NS} if base else {})}
    text = json.dumps(trace, indent=1).replace('"@', "").replace('@"', "")
    pathlib.Path(path).write_bytes(gzip.compress(text.encode()) if path.endswith(".gz") else text.encode())


def run(*arguments, status=0, says=b""):
    r = subprocess.run([CLIENT, *map(str, arguments)], capture_output=True, timeout=120, check=False)
    check(r.returncode == status and says in r.stderr, f"{arguments}: {r.returncode} {r.stderr!r}")
    check(status != 1 or b"remedy: " in r.stderr, f"{arguments}: no remedy: {r.stderr!r}")
    return r


def merge(*arguments, **more):
    return run("merge", *arguments, **more)


def kernels(trace):
    return [e for e in trace["traceEvents"] if e["cat"] == "kernel"]


def compare(found, place, most):
    """Values of a place in the step against what it moved, and against what they say they are off by."""
    _, _, length, *rates = STEP[place]
    for metric, rate in zip(METRICS, rates):
        truth, value, error = length * rate, found.get("gpuctr::" + metric), found.get(f"gpuctr::{metric} error")
        check(value is not None and error is not None, f"{STEP[place]}: no {metric}: {found}")
        check(abs(value - truth) <= max(most * truth, 3000) and abs(value - truth) <= 3 * error + 3000, f"{STEP[place]}: {metric} {value} +- {error}, not {truth}")


def check_values(trace, of_device=None):
    n = collections.Counter()
    for e in kernels(trace):
        place = e["args"]["grid"][0] - 1
        if of_device is not None and e["args"]["device"] != of_device:
            continue
        if STEP[place][1] == "reduce":
            n["short"] += "gpuctr::no value" in e["args"]
        else:
            compare(e["args"], place, 0.02)
            n["compared"] += 1
    check(n["compared"] > 0, "nothing was compared")
    return n


def each_kernel_has_its_bytes():
    """Whatever the form of trace and samples."""
    ran = program()
    lines = samples(ran)
    pathlib.Path("s.jsonl").write_text(lines)
    pathlib.Path("s.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    rows = [json.loads(line) for line in lines.splitlines()[1:-1]]
    out = io.StringIO()
    csv.writer(out).writerows([["start_ns", "end_ns", *METRICS], *([r["start_ns"], r["end_ns"], *r["values"]] for r in rows)])
    pathlib.Path("s.csv").write_text(out.getvalue())
    write_trace("t.json", events_of(ran))
    write_trace("t.json.gz", events_of(ran))
    want = merge("t.json", "--samples", "s.jsonl").stdout
    r = merge("t.json.gz", "--samples", "s.jsonl.gz", "-f", "-o", "m.json", says=b"standard errors are beside them")
    check(re.search(rb" of 960 kernels (have no|lack a) value", r.stderr) and b"kernels have counters now; without a partner: 0 of the trace" in r.stderr, r.stderr)
    check(pathlib.Path("m.json").read_bytes() == want, "compressed: other values")
    check(merge("t.json", "--samples", "s.csv").stdout == want, "CSV: other values")
    trace = json.loads(want)
    check_values(trace)
    valued = sum(any("gpuctr::" + m in e["args"] for m in METRICS) for e in kernels(trace))
    check(r.stderr.startswith(b"%d kernels have counters now" % valued) or b"\n%d kernels have counters now" % valued in r.stderr, f"{valued}: {r.stderr}")
    trace["traceEvents"] = [e for e in trace["traceEvents"] if e["cat"] != "cuda_profiler_range" and e["name"] != "(no operator)"]
    for e in trace["traceEvents"]:
        e["args"] = {k: v for k, v in e["args"].items() if not k.startswith("gpuctr::")}
    check(trace == json.loads(pathlib.Path("t.json").read_text()), "something else has changed")


def older_traces_have_unix_time():
    ran = program()
    shifted = [(*r[:3], r[3] + BASE_NS, r[4] + BASE_NS, *r[5:]) for r in ran]
    write_trace("old.json", events_of(shifted), base=False)
    check_values(json.loads(merge("old.json", "--samples", "s.jsonl").stdout))


def a_capture_file_of_it():
    """By kernel, operator, direction and step, as of a capture; the same values as in the trace."""
    merge("t.json", "--samples", "s.jsonl", "-f", "--capture", "run.gpuctr", "-o", "m.json")
    both = pathlib.Path("m.json").read_bytes()
    r = merge("t.json", "--samples", "s.jsonl", "-f", "--capture", "only.gpuctr")
    check(r.stdout == b"" and both == merge("t.json", "--samples", "s.jsonl").stdout, "with a capture file, another trace")
    of_trace = sum(e["args"].get("gpuctr::" + READ, 0) for e in kernels(json.loads(both)))
    text = run("report", "run.gpuctr", "--json", "--by", "op").stdout
    check(text == run("report", "only.gpuctr", "--json", "--by", "op").stdout.replace(b"only.gpuctr", b"run.gpuctr"), "another capture file")
    rows = {r["op"]: r for r in map(lambda r: {**r, "op": r["key"]["op"] if isinstance(r.get("key"), dict) else r.get("op")}, json.loads(text)["rows"])}
    check({"aten::linear", "aten::gelu", "AddmmBackward0"} <= set(rows), f"{list(rows)}")
    check(text == run("report", "run.gpuctr", "--json", "--by", "op", "--attribute").stdout, "attributed again, the file has other values")
    run("report", "run.gpuctr", "--html", "page.html")
    page = re.search(r'id="data">\n(.*?)</script>', pathlib.Path("page.html").read_text(), re.DOTALL)[1]
    sampled = json.loads(page)["sampled"]
    moved = sum(r[5] for r in program())
    check(abs(sum(sampled["sums"][1]) / moved - 1) < 1e-3 and len(sampled["sums"][1]) <= 512, f"the page: {sum(sampled['sums'][1])} of {moved}")
    check(min(sampled["parts"][1][1:-1]) > 0.9 and max(sampled["parts"][1]) < 1.1, f"parts of the page: {sampled['parts'][1]}")
    out = run("report", "run.gpuctr", "-v", "--by", "dir,op").stdout.decode()
    check(all(w in out for w in ("bprop", "fprop", "AddmmBackward0", "SAMPLED", "960 kernels seen in 1 process", "caches not flushed; NVIDIA H000")), out)
    out = run("report", "run.gpuctr", "--by", "step").stdout.decode()
    check(out.count("ProfilerStep#") > 5 and "(none)" not in out, out)
    lines = [json.loads(line) for line in run("export", "run.gpuctr", "--to", "jsonl").stdout.splitlines()]
    of_file = sum(r["metrics"][READ] or 0 for r in lines if r.get("type") == "kernel")
    check(of_file > 0 and abs(of_file - of_trace) < 1, f"{of_file}, {of_trace}")
    steps = {n["message"] for r in lines if r.get("type") == "kernel" for n in r["nvtx"]}
    check(any(m.startswith("aten::linear, seq = ") and "sizes = [[8, 512, 0], [], [512]]" in m for m in steps), sorted(steps)[:9])


def a_capture_file_of_csv():
    """Lengths of samples that differ by the ticks of a clock, as they do in what was recorded, are of one interval."""
    text = ["start_ns,end_ns," + ",".join(METRICS)]
    for i, r in enumerate(map(json.loads, pathlib.Path("s.jsonl").read_text().splitlines()[1:-1])):
        start, end = r["start_ns"] - 16 * (i % 2), r["end_ns"] - 16 * ((i + 1) % 2)
        text.append(f"{start},{end},{r['values'][0]},{r['values'][1]}")
    pathlib.Path("odd.csv").write_text("\n".join(text) + "\n")
    merge("t.json", "--samples", "odd.csv", "-f", "--capture", "csv.gpuctr")
    db = sqlite3.connect("file:csv.gpuctr?mode=ro", uri=True)
    blocks = db.execute("SELECT count(*), sum(count), min(interval_ns), max(interval_ns) FROM sample_block").fetchone()
    db.close()
    check(blocks[0] <= blocks[1] / 4096 + 1 and blocks[1] == len(text) - 1 and blocks[2] == blocks[3], f"blocks: {blocks}")
    check(abs(blocks[2] - INTERVAL_NS) <= 16, f"blocks: {blocks}")


def two_gpus():
    """A file of samples each; kernels of a GPU without samples say so."""
    a, b = program(seed=5), program(seed=9)
    pathlib.Path("a.jsonl").write_text(samples(a, gpu=0))
    pathlib.Path("b.jsonl").write_text(samples(b, gpu=1))
    write_trace("two.json", events_of(a, 0) + events_of(b, 1, 100_000), devices=2)
    for arguments in (["--samples", "a.jsonl:0", "--samples", "b.jsonl:1"], ["--samples", "b.jsonl:1", "--samples", "a.jsonl:0"]):
        trace = json.loads(merge("two.json", *arguments).stdout)
        check_values(trace, 0)
        check_values(trace, 1)
    r = merge("two.json", "--samples", "b.jsonl:1", says=b"on other GPUs 960")
    trace = json.loads(r.stdout)
    check_values(trace, 1)
    check(all(e["args"]["gpuctr::no value"] == "on other GPUs" for e in kernels(trace) if e["args"]["device"] == 0), "no reason")
    merge("two.json", "--samples", "a.jsonl", status=1, says=b"the trace has several GPUs (0, 1)")
    merge("two.json", "--samples", "a.jsonl:2", status=1, says=b"no such GPU")
    merge("two.json", "--samples", "a.jsonl:0", "--samples", "b.jsonl:0", status=1, says=b"another file is of it")
    merge("two.json", "--samples", "a.jsonl:0", "--samples", "a.jsonl:1", status=1, says=b"are of one GPU")


def other_seconds():
    """Clocks, or seconds, that are not those of the samples."""
    ran = program()
    for move, says in ((-40_000_000_000, b"before the first sample"), (40_000_000_000, b"after the last sample"),
                       (90_000_000_000_000, b"after the first sample")):
        write_trace("far.json", events_of([(*r[:3], r[3] + move, r[4] + move, *r[5:]) for r in ran]) if move > 0 else
                    events_of([(*r[:3], r[3] + BASE_NS + move, r[4] + BASE_NS + move, *r[5:]) for r in ran]), base=move > 0)
        merge("far.json", "--samples", "s.jsonl", "-o", "bad.json", status=1, says=says)
    for move in (-60_000, 1_500_000):
        write_trace("near.json", events_of([(*r[:3], r[3] + move, r[4] + move, *r[5:]) for r in ran]))
        r = merge("near.json", "--samples", "s.jsonl", "-f", "--capture", "near.gpuctr", "-o", "-", says=b"the clocks of samples and trace differ by about")
        check_values(json.loads(r.stdout))
        anew = [run("report", "near.gpuctr", "--json", *more).stdout for more in ((), ("--attribute",))]
        check(anew[0] == anew[1], "attributed again, other values")


def bad_samples():
    """Cut, hostile, of other metrics, or something else."""
    lines = pathlib.Path("s.jsonl").read_text().splitlines(keepends=True)
    head, last = lines[0], lines[-1]
    bad = {"none": ("", b"does not begin as"), "head": (head + last, b"there is no sample in it"), "text": ("hello\n", b"does not begin as"),
           "trace": (pathlib.Path("t.json").read_text(), b"does not begin as"),
           "order": (head + lines[2] + lines[1], b"line 3 begins before"), "line": ("".join(lines[:5]) + '{"type":"sample"}\n', b"line 6 is none"),
           "number": (head + lines[1].replace("[", "[nan,", 1), b"line 2 is none"), "huge": (head + lines[1].replace(':1', ':9' * 20, 1), b"line 2 is none"),
           "long": (head + "x" * 1_000_000, b"line 2 is longer"), "ratio": (head.replace(".sum", ".pct") + "".join(lines[1:]), b"no metric of the samples"),
           "escape": (head.replace("GPU-", "GPU\\n"), b"does not begin as"), "many": (head.replace("[", "[" + '"m.sum",' * 70), b"does not begin as")}
    for name, (text, says) in bad.items():
        pathlib.Path(name).write_text(text)
        merge("t.json", "--samples", name, "-o", "bad.json", "--capture", "bad.gpuctr", status=1, says=says)
    pathlib.Path("damaged.gz").write_bytes(gzip.compress("".join(lines).encode())[:-20])
    merge("t.json", "--samples", "damaged.gz", "-o", "bad.json", status=1, says=b"damaged or not whole")
    merge("t.json", "--samples", "nowhere", "-o", "bad.json", status=1, says=b"No such file")
    merge("t.json", "--samples", "s.jsonl", "--samples", "ratio", "-o", "bad.json", status=1, says=b"different metrics")
    merge("t.json", "s.jsonl", "--samples", "s.jsonl", status=2, says=b"name a trace")
    merge("t.json", "run.gpuctr", "--capture", "bad.gpuctr", status=2, says=b"--capture")
    merge("t.json", "--samples", "s.jsonl", "-f", "--capture", "t.json", status=2, says=b"t.json")
    merge("t.json", "--samples", "s.jsonl", "-f", "-o", "s.jsonl", status=2, says=b"s.jsonl")
    check(not list(pathlib.Path(".").glob("bad.*")), "left behind")
    pathlib.Path("cut").write_text("".join(lines[:-200])[:-7])
    trace = json.loads(merge("t.json", "--samples", "cut", says=b"cut has no end").stdout)
    check_values({"traceEvents": kernels(trace)[:700]})


def metrics_that_are_no_sums():
    text = pathlib.Path("s.jsonl").read_text().replace(WRITE, "dram__throughput.avg.pct_of_peak_sustained_elapsed")
    pathlib.Path("mixed").write_text(text)
    r = merge("t.json", "--samples", "mixed", says=b"not divided among kernels: dram__throughput.avg.pct")
    check(all(WRITE not in k and "pct" not in k for e in kernels(json.loads(r.stdout)) for k in e["args"]), "a ratio was divided")


def bad_traces():
    text = pathlib.Path("t.json").read_text()
    for name, content, says in (("cut.json", text[:len(text) // 2], b"not whole JSON"), ("none.json", '{"traceEvents":[]}', b"no kernel in it"),
                                ("deep.json", "[" * 5000, b"nested too deeply")):
        pathlib.Path(name).write_text(content)
        merge(name, "--samples", "s.jsonl", "-o", "bad.json", "--capture", "bad.gpuctr", status=1, says=says)
    check(not list(pathlib.Path(".").glob("bad.*")), "left behind")
    odd = [event("kernel", "k", 0, 7, 5_000_000, 1000, device=0, grid=[[1], "x", {}], block={"a": [1]}, correlation=-4, stream=1e300),
           {"ph": "X", "cat": "kernel", "name": "timeless", "args": {"device": 0}},
           {"ph": "X", "cat": "gpu_memcpy", "name": "timeless", "args": {"device": 0}}, event("gpu_memset", "", 0, 7, 5_000_000, -5, device=0),
           event("cpu_op", "o", 1, 1, 0, 10**16, **{"Input Dims": [[1, {"a": [2]}, 3], "x"]})]
    write_trace("odd.json", odd)
    r = merge("odd.json", "--samples", "s.jsonl", "-f", "--capture", "odd.gpuctr", "-o", "-", says=b"odd.json: copies and fills without a time, ")
    out = json.loads(r.stdout)
    check(kernels(out)[1]["args"]["gpuctr::no value"] == "without a time", f"{kernels(out)}")
    run("report", "odd.gpuctr")


def main():
    return run_tests([each_kernel_has_its_bytes, older_traces_have_unix_time, a_capture_file_of_it, a_capture_file_of_csv, two_gpus, other_seconds,
                      bad_samples, metrics_that_are_no_sums, bad_traces], None)


sys.exit(main())
