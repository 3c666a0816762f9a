#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""which_metric CLIENT SOURCE: each name that docs/which-metric.md tells one to ask for is there on GH100, by CUPTI's own
word, and each that it says nvprof had leads to a metric. Skips where there is no CUPTI."""

import fnmatch
import pathlib
import re
import subprocess
import sys

CLIENT, SOURCE = (pathlib.Path(a).resolve() for a in sys.argv[1:3])


def metrics(*words):
    return subprocess.run([CLIENT, "metrics", "--chip", "GH100", *words], capture_output=True, text=True, timeout=100, check=False)


listed = metrics()
if listed.returncode and ("no-cupti" in listed.stderr or "cupti-too-old" in listed.stderr):
    print(f"SKIP: {listed.stderr.splitlines()[0]}")
    sys.exit(77)
known = {line.split()[0] for line in listed.stdout.splitlines() if line}
rows = re.findall(r"^\| [^|]+ \| ([^|]+) \| ([^|]*) \| [^|]+ \|$", (SOURCE / "docs/which-metric.md").read_text(), re.M)[1:]
wrong = [] if len(rows) >= 15 and len(known) > 3000 else [f"{len(rows)} rows, {len(known)} metrics"]
for ours, nvprof in rows:
    for word in re.findall(r"`'?([^`']+)'?`", ours):
        # Columns of reports and options are not metrics; a preset has no rollup.
        for name in [] if word.startswith(("dram_band", "of_peak", "l2_hit", "--", "report")) else word.split(","):
            if not fnmatch.filter(known, name.split(".")[0]):
                wrong.append(f"GH100 has no {name}")
    for name in re.findall(r"`([a-z]\w*_\w+)`", nvprof):
        r = metrics(name)
        if "as nvprof called it" not in r.stderr:
            wrong.append(f"{name} leads nowhere: {r.stderr}")
print("\n".join(wrong) or f"{len(rows)} questions")
sys.exit(1 if wrong else 0)
