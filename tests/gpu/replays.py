# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs in traces and samples: each kernel of a graph a record, with the bytes that the program knows it moves,
and what that costs a launch."""
import collections
import json
import time

from figures import median, told
from machine import memory_used_mib
from sampled import Captures
from standby import standing
from table import row

READ = "dram__bytes_read.sum"


def replays_of(text):
    line = next((line for line in text.splitlines() if line.startswith("replays ")), None)
    return json.loads(line.split(" ", 1)[1]) if line else {}


def launches_of(kernels):
    """The kernels of each launch of a graph."""
    launches = collections.defaultdict(list)
    for k in kernels:
        if k["kind"] == "graph_kernel":
            launches[k["correlation"]].append(k)
    return launches


def is_ours(k):
    """Not the fill, which may be a kernel."""
    return "Add" in k["kernel"] or "add" in k["kernel"]


def records(m, kind):
    """As many records as kernels x launches, each with its own name, node and range."""
    r, kernels, totals = m.capture("replays.jsonl", "--mode", "trace", "--", "python3", m.stage / "replays.py", "--kind", kind)
    said, launches = replays_of(r.stdout), launches_of(kernels)
    ours = {c: [k for k in v if is_ours(k)] for c, v in launches.items()}
    wanted = len(said.get("sizes") or []) or 500
    whole = sum(len(v) == wanted and len({k["graph_node"] for k in v}) == wanted for v in ours.values())
    row(f"{kind}: launches with a record for each of {wanted} kernels", f"{whole} of {said.get('launches')}; {told(totals)}",
        "all", whole == said.get("launches") == len(launches) and totals.get("dropped") == 0)
    row(f"{kind}: nodes, as CUDA has them; records a launch", f"{said.get('nodes')}, of which {said.get('kernels')} kernels; "
        f"{sorted({len(v) for v in launches.values()})}", "as many",
        said.get("kernels") is None or {len(v) for v in launches.values()} == {said["kernels"]})
    ranged = sum(any(x["message"].startswith("replay ") for x in k["nvtx"]) for v in launches.values() for k in v)
    total = sum(len(v) for v in launches.values())
    row(f"{kind}: records in the launch's range, with a time; streams of a launch",
        f"{ranged} and {sum(k['clock'] == 'gpu' for v in launches.values() for k in v)} of {total}; "
        f"{sorted({len({k['stream'] for k in v}) for v in launches.values()})}", "all but the first launch's; all",
        total - ranged <= max((len(v) for v in launches.values()), default=0))
    row(f"{kind}: seen = measured + skipped + ...", str(totals.get("seen")), "the sum of all",
        totals.get("seen") == sum(totals.get(n, 0) for n in ("measured", "filtered", "capturing", "unready", "failed", "dropped", "lost")))


def values(m, kind):
    """What each node reads, by samples, against what the program says."""
    r, kernels, totals = m.capture("replays.jsonl", "--mode", "sample", "--metrics", READ, "--", "python3", m.stage / "replays.py",
                                   "--kind", kind, "--launches", 400)
    print("\n".join("    " + line for line in r.stderr.splitlines() if "SAMPLED" in line or "no value" in line or "seen in" in line))
    said = replays_of(r.stdout)
    nodes = collections.defaultdict(list)
    for v in launches_of(kernels).values():
        for k in v:
            if is_ours(k):
                nodes[k["graph_node"]].append(k)
    sizes, found = sorted(said.get("sizes", [])), []
    for v in nodes.values():
        known = [k for k in v if k["metrics"][READ] is not None]
        if known:
            found.append((median([k["metrics"][READ] for k in known]), median([k["errors"][READ] for k in known]),
                          median([k["duration_ns"] for k in known]) / 1e3, len(known), len(v)))
    for size, (value, error, us, known, n) in zip(sizes, sorted(found)):
        row(f"{kind}: a node that reads {size >> 20} MiB, {us:.0f} us", f"{value / size - 1:+.2%}, error {error / size:.2%}; {known} of {n} have a value",
            "within three errors, or 1 %", abs(value - size) <= max(3 * error, 0.01 * size))
    row(f"{kind}: nodes with values", f"{len(found)} of {len(sizes)}; {told(totals)}", "all", len(found) == len(sizes) > 0)


def older(m):
    """A program whose graph is older than the captures: its kernels, or the graph as a whole, and that is told. NVIDIA
    says of CUPTI before CUDA 13.1 Update 1 that ids of graphs' kernels are wrong in all sessions but a process's first
    one (its release notes)."""
    p = standing(m, "python3", m.stage / "replays.py", "--standing", "--seconds", 20)
    p.wait_for("standing ready", 60)
    for i in range(3):
        r, kernels, totals = m.capture("older.jsonl", "--pid", p.pid, "--mode", "trace", "--duration", 3, verb="capture")
        launches = launches_of(kernels)
        wholes = [k for k in kernels if k["kind"] == "graph"]
        timed = sum(k["clock"] == "gpu" for k in wholes)
        row(f"a graph older than the captures, capture {i + 1}", f"{len(launches)} launches as kernels ({sorted({len(v) for v in launches.values()})} each), {len(wholes)} as one, of which "
            f"{timed} with a time; {told(totals)}" + ("; told whole" if "as a whole" in r.stderr else ""),
            "kernels, or times of wholes", len(launches) > 10 or timed > 10)
    p.wait(60)


def remade(m, captures=6, seconds=2.5):
    """Graphs made all the while, so also when tracing is turned on and off: all kernels of those that are made within a
    capture are known."""
    argv = ["python3", m.stage / "replays.py", "--standing", "--kind", "tiny", "--nodes", 20, "--remake", 5, "--pause-us", 500]
    plain = replays_of(m.run([*argv, "--seconds", 3]).stdout)
    p = standing(m, *argv, "--seconds", captures * (seconds + 2.5))
    p.wait_for("standing ready", 60)
    time.sleep(2)
    noted, sizes, wholes, codes, seen = Captures(), collections.Counter(), 0, [], []
    for _ in range(captures):
        r, kernels, totals = m.capture("remade.jsonl", "--pid", p.pid, "--mode", "sample", "--metrics", READ, "--duration", seconds, verb="capture")
        noted.note(r.stdout + r.stderr)
        sizes.update(len(v) for v in launches_of(kernels).values())
        wholes += sum(k["kind"] == "graph" for k in kernels)
        codes.append(r.returncode)
        seen.append(len(kernels))
    code = p.wait(120)
    said = replays_of(p.out())
    row(f"graphs made all the while, in {captures} captures: launches by their kernels", f"{dict(sizes)}, {wholes} as a whole; records {seen}; exits {codes}, program {code}",
        "all kernels of all but one at each end, 0", set(codes) == {0} and code == 0 and bool(sizes) and
        sum(n for size, n in sizes.items() if size != max(sizes)) <= 2 * captures)
    row("  the longest time that one took to make: plain; captured", f"{plain.get('longest_ms', 0):.1f} ms of {plain.get('made')}; {said.get('longest_ms', 0):.1f} ms of {said.get('made')}",
        "500 ms more", said.get("longest_ms", 1e9) <= plain.get("longest_ms", 0) + 550)
    noted.tell()


def endless(m, seconds=20):
    """Of CUPTI's buffers on the device it is told that those of graphs' kernels are never used again
    (parca-dev/parcagpu issue 23): the program's GPU memory would shrink, and after 25 million kernels there would be no
    times. In samples each kernel's time is a value's place."""
    p = m.start_client("--mode", "sample", "--metrics", READ, "--", "python3", m.stage / "replays.py",
                       "--standing", "--kind", "tiny", "--nodes", 1000, "--seconds", seconds)
    p.wait_for("standing ready", 60)
    time.sleep(5)
    before = memory_used_mib()
    time.sleep(seconds - 6)
    after = memory_used_mib()
    code = p.wait(180)
    said, text = replays_of(p.out()), p.out() + p.err()
    print("\n".join("    " + line for line in text.splitlines() if "no value" in line or "seen in" in line or "warning" in line))
    row(f"graphs of 1000 small kernels for {seconds} s: the GPU's memory", f"{before}, then {after} MiB; {said.get('launches')} launches of {said.get('us', 0):.0f} us; exit {code}",
        "64 MiB more, 0", code == 0 and after <= before + 64)


def price(m):
    """What a launch of a graph of 500 small kernels takes."""
    argv = ["python3", m.stage / "replays.py", "--kind", "tiny", "--launches", 300]
    plain = [replays_of(m.run(argv).stdout) for _ in range(3)]
    base = median([p["us"] for p in plain])
    row("a launch of 500 small kernels, plain", f"{base:.0f} us, the call {median([p['call_us'] for p in plain]):.0f} us", "told")
    for how in ("whole", "nodes"):
        got, totals = [], {}
        for _ in range(3):
            r, _, totals = m.capture("price.jsonl", "--mode", "trace", "--graphs", how, "--", *argv)
            got.append(replays_of(r.stdout))
        us = median([g["us"] for g in got])
        row(f"the same in a trace, --graphs {how}", f"{us:.0f} us ({us / base:.2f}), the call {median([g['call_us'] for g in got]):.0f} us; {told(totals)}", "told")


def replays(m):
    begin = time.time()
    for kind in ("line", "branches"):
        records(m, kind)
        values(m, kind)
    records(m, "tiny")
    older(m)
    remade(m)
    endless(m)
    price(m)
    print(f"    {time.time() - begin:.0f} s")
