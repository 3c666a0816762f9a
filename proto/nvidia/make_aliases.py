#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_aliases.py TEXT HEADER: generates the table of aliases.c from aliases.txt."""

import json
import pathlib
import sys


def make(text):
    section = None
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            name, means = line.split(" = ")
            means, _, how = means.partition(" | ")
            of_nvprof = "true" if section == "nvprof" else "false"
            yield f"{{ {json.dumps(name)}, {json.dumps(means)}, {json.dumps(how) if how else 'NULL'}, {of_nvprof} }},"


text, header = map(pathlib.Path, sys.argv[1:])
header.write_text("\n".join(make(text.read_text())) + "\n")
