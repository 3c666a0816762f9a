# SPDX-License-Identifier: Apache-2.0
"""What an executable of tests left out, which meson counts as passed if nothing failed."""
import re


def inner_skips(stdout):
    """(name, reason) of each of its tests that skipped, from what cmocka and fixture_skip() print."""
    skips, reason = [], None
    for line in stdout.splitlines():
        event = re.match(r"\[ +(RUN|SKIPPED) +\] (.+)", line)
        if event and event[1] == "SKIPPED":
            skips.append((event[2], reason or "no reason printed"))
        if event:
            reason = None
        elif line.startswith("SKIP: "):
            reason = line[len("SKIP: "):].strip()
    return skips


def has_passed_any(stdout):
    return re.search(r"^\[ +OK \] ", stdout, re.M) is not None
