# SPDX-License-Identifier: Apache-2.0
"""The table that a run ends with: what, figure, bound, verdict."""
import json

rows = []


def row(what, figure, bound="", good=None):
    """good: True or False when there is a verdict, None when the figure is only told."""
    verdict = "" if good is None else "ok" if good else "MISSED"
    rows.append((what, figure, bound, verdict))
    print(f"  {what}: {figure} [{bound}] {verdict}", flush=True)


def finish(path):
    """Prints and keeps the table; True when nothing was missed."""
    width = min(50, max(len(str(r[0])) for r in rows))
    print()
    for what, figure, bound, verdict in rows:
        print(f"{str(what):{width}}  {figure}  [{bound}]  {verdict}")
    missed = sum(r[3] == "MISSED" for r in rows)
    print(f"\n{sum(r[3] == 'ok' for r in rows)} passed, {missed} failed")
    json.dump(rows, open(path, "w"), indent=1, default=str)
    return missed == 0
