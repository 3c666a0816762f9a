#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""by_hand SOURCE BUILD: the commands of "Debug by hand" in docs/hacking.md that need neither root nor a GPU do what they say,
pasted as they stand. The sockets stand in a folder of the test's."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from checks import Skip, check, failures, run_test  # noqa: E402

SOURCE, BUILD = (pathlib.Path(a).resolve() for a in sys.argv[1:3])


def blocks():
    text = (SOURCE / "docs/hacking.md").read_text().split("## Debug by hand\n")[1].split("\n## ")[0]
    return [b for b in re.findall(r"(?:^    .*\n)+", text, re.MULTILINE) if "sudo" not in b]


def paste(block, before=""):
    """What is in the background ends with the shell. Where libraries are is the block's to say."""
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "LD_PRELOAD")}
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        script = re.sub(r"(?:\$PWD/|(?<![/\w]))build(?=/)", str(BUILD), block.replace("/tmp/g/", f"{folder}/"))
        r = subprocess.run(["bash", "-e", "-c", f"trap 'kill $(jobs -p); wait' EXIT\n{before}\n{script}"], cwd=SOURCE, capture_output=True,
                           text=True, timeout=120, env={**environment, "TMPDIR": folder})
    return r


def a_recording_is_played():
    first, *_ = blocks()
    if not any(pathlib.Path(p).exists() for p in ("/usr/local/cuda/lib64/libcupti.so", "/opt/cuda/lib64/libcupti.so")):
        raise Skip("the CUDA toolkit's CUPTI is not there")
    r = paste(first)
    check(r.returncode == 0 and "716 measured" in r.stderr and "RECORDED" in r.stderr, f"{r.returncode} {r.stdout} {r.stderr}")


def the_fakes_are_measured():
    _, second, *_ = blocks()
    r = paste(second, f"export GPUCTR_AGENT={BUILD}/client/agent/libgpuctr-agent.so")
    check(r.returncode == 0 and "1,000 measured" in r.stderr, f"{r.returncode} {r.stdout} {r.stderr}")


for test in a_recording_is_played, the_fakes_are_measured:
    run_test(test)
sys.exit(1 if failures else 0)
