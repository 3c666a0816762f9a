# SPDX-License-Identifier: Apache-2.0
"""Operators and modules of a PyTorch program that marks none itself: run --torch."""
import json

from figures import iteration, number, told
from table import row

METRICS = "dram__bytes_read.sum,dram__bytes_write.sum"
LAUNCHES = 2500


def shares(rows):
    """Of the rows of a report by dir, layer and op, in percent: launches with an operator, those of the forward and of
    the backward pass that are in a layer of the model, and with any layer."""
    def part(of, among=lambda key: True):
        n = sum(r["launches"] for r in rows if among(r["key"]))
        return 100 * sum(r["launches"] for r in rows if among(r["key"]) and of(r["key"])) / n if n else 0.0

    def in_model(key):
        return "ResNet" in (key["layer"] or "").split("/")

    return {"op": part(lambda key: key["op"]), "layer": part(lambda key: key["layer"]),
            "fprop": part(in_model, lambda key: key["dir"] == "fprop"), "bprop": part(in_model, lambda key: key["dir"] == "bprop")}


def report(m, path):
    r = m.client("report", path, "--by", "dir,layer,op", "--columns", "time", "--columns", ":sum", "--json")
    return json.loads(r.stdout)["rows"] if r.returncode == 0 else []


def loss(text):
    return number(text, r"loss (\S+)$")


def training(m):
    argv = ["python3", m.stage / "net.py", "--iterations", 6, "--warmup", 2]
    plain = [m.run(argv, denied=False).stdout for _ in range(2)]
    path = m.work / "torch.gpuctr"
    r, kernels, totals = m.capture("torch.jsonl", "--torch=modules", "--metrics", METRICS, "--count", LAUNCHES, "-o", path, "--", *argv,
                                   timeout=300)
    row("--torch=modules: ResNet-18 with no marker of its own", f"exit {r.returncode}, {told(totals)}", f"exit 0, {LAUNCHES} kernels",
        r.returncode == 0 and len(kernels) == LAUNCHES)
    ours, theirs = loss(r.stdout), [loss(text) for text in plain]
    # Sums of atomics differ from run to run; hooks that changed a result would show at once.
    row("--torch=modules: loss", f"{ours:.4f}, plain {theirs[0]:.4f} and {theirs[1]:.4f}", "2 %", abs(ours - theirs[0]) <= 0.02 * abs(theirs[0]))
    rows = report(m, path)
    found = shares(rows)
    layers = sorted({x["key"]["layer"] for x in rows if x["key"]["layer"]})
    print("  layers:", " ".join(layers[:12]), f"... ({len(layers)})")
    row("--torch=modules: kernels with an operator", f"{found['op']:.1f} %", ">= 95 %", found["op"] >= 95)
    row("--torch=modules: kernels with a layer", f"{found['layer']:.1f} %", ">= 90 %", found["layer"] >= 90)
    row("--torch=modules: forward kernels in a layer of the model", f"{found['fprop']:.1f} %", ">= 80 %", found["fprop"] >= 80)
    row("--torch=modules: backward kernels with their forward's layer", f"{found['bprop']:.1f} %", ">= 90 %", found["bprop"] >= 90)
    row("--torch=modules: a layer by its path", "ResNet/layer1/0/conv1", "is there", any(x.endswith("ResNet/layer1/0/conv1") for x in layers))


def cost(m):
    """Of a program whose kernels no filter wants, so that what is left is the markers'."""
    argv = ["--metrics", METRICS, "--kernel", "regex:nothing", "--quiet", "--", "python3", m.stage / "net.py", "--iterations", 60]
    without, operators, modules = (iteration(m.client(*option, *argv, timeout=300).stdout) for option in ([], ["--torch"], ["--torch=modules"]))
    row("ResNet-18 iteration, nothing measured: plain run, --torch, --torch=modules", f"{without:.2f}, {operators:.2f}, {modules:.2f} ms")


def has_operator(kernel):
    return any(r["message"].startswith("aten::") for r in kernel["nvtx"])


def undisturbed(m):
    """Plain, measured, and measured with markers: what differs in the last alone is ours."""
    argv = ["--metrics", METRICS, "--", "python3", m.stage / "undisturbed.py"]
    plain = m.run(argv[3:], timeout=300, denied=False)
    without, _, _ = m.capture("without.jsonl", *argv)
    r, kernels, totals = m.capture("undisturbed.jsonl", "--torch=modules", *argv)
    said = [f"exit {p.returncode}, {(p.stdout.strip().splitlines() or [''])[-1]}" for p in (r, without, plain)]
    row("--torch=modules: a program with profilers, compiler and loaders of its own", f"{said[0]}; measured without {said[1]}; plain {said[2]}",
        "exit 0, as plain", r.returncode == 0 and said[0] == said[2])
    ours = [line for line in r.stderr.splitlines() if line.startswith("gpuctr: --torch:")]
    row("--torch=modules: nothing of ours went wrong in it", " ".join(ours) or "silent", "silent", not ours)
    last = kernels[-100:]
    n = sum(has_operator(k) for k in last)
    row("--torch=modules: back on behind its profilers", f"{n} of the last {len(last)} kernels with an operator", "9 of 10",
        bool(last) and n >= 0.9 * len(last))


def torch(m):
    training(m)
    cost(m)
    undisturbed(m)
