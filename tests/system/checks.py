# SPDX-License-Identifier: Apache-2.0
"""What tests of the client's outputs have in common: conditions that must hold, and functions that are run one after
the other in a folder of their own, where a copy of the recording is run.gpuctr."""
import os
import shutil
import tempfile

failures = []


class Skip(Exception):
    """A function that cannot be run here; with the reason."""


def check(condition, what):
    if not condition:
        failures.append(what)
        print("FAIL", what)


def run_test(test):
    """Prints what cmocka would, which tests/skips.py reads."""
    before = len(failures)
    print(f"[ RUN      ] {test.__name__}")
    try:
        test()
    except Skip as e:
        print(f"SKIP: {e}")
        print(f"[  SKIPPED ] {test.__name__}")
        return
    print("[       OK ]" if len(failures) == before else "[  FAILED  ]", test.__name__)


def run_tests(tests, recording, prepare=None):
    """The exit status. What is temporary is made in the folder as well; prepare() makes what all tests need."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["TMPDIR"] = folder
        shutil.copy(recording, "run.gpuctr")
        if prepare:
            prepare()
        for test in tests:
            run_test(test)
        os.chdir("/")
    return 1 if failures else 0
