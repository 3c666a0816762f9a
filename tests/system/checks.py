# SPDX-License-Identifier: Apache-2.0
"""What tests of the client's outputs have in common: conditions that must hold, and functions that are run one after
the other in a folder of their own, where a copy of the recording is run.gpuctr."""
import os
import shutil
import tempfile

failures = []


def check(condition, what):
    if not condition:
        failures.append(what)
        print("FAIL", what)


def run_tests(tests, recording, prepare=None):
    """The exit status. What is temporary is made in the folder as well; prepare() makes what all tests need."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["TMPDIR"] = folder
        shutil.copy(recording, "run.gpuctr")
        if prepare:
            prepare()
        for test in tests:
            before = len(failures)
            test()
            print("ok  " if len(failures) == before else "FAIL", test.__name__)
        os.chdir("/")
    return 1 if failures else 0
