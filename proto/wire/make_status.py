#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_status.py GPUCTR_H HEADER: generates the rows of status.c, in which GPUCTR_E_NO_GPU is "no-gpu"."""

import pathlib
import re
import sys

CODE = re.compile(r"^\tGPUCTR_((?:E_)?(\w+)) = \d+,", re.M)

public, header = map(pathlib.Path, sys.argv[1:])
codes = public.read_text().split("enum gpuctr_error_code {")[1].split("};")[0]
rows = [f'{{ GPUCTR_{code}, "{name.lower().replace("_", "-")}" }},' for code, name in CODE.findall(codes)]
header.write_text("\n".join(rows) + "\n")
