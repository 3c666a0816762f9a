# SPDX-License-Identifier: Apache-2.0
"""What `gpuctr-client run --torch` puts in front of PYTHONPATH, so that every Python of the program loads it.

It waits for the import of torch, which gpuctr_torch.py beside it then follows, and hands over to the sitecustomize
that it stands before, if there is one. Its folder leaves sys.path at once: the program sees the path that it would
have without us. A Python that never imports torch has one comparison more at each import. Any Python may load this
file, an old one too, so it is written for all of them."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def say(text):
    try:
        sys.stderr.write("gpuctr: --torch: %s\n" % text)
    except Exception:
        pass


def begin(torch):
    """The program runs on whatever happens here."""
    try:
        sys.path.insert(0, HERE)
        try:
            import gpuctr_torch
        finally:
            sys.path.remove(HERE)
        gpuctr_torch.begin(torch, os.environ["GPUCTR_TORCH"] == "modules")
    except Exception as error:
        say("operators stay unknown: %s: %s" % (type(error).__name__, error))


class Finder(object):
    """Finds torch as the others do, and is told when it has been executed. The loader stays the one that was found:
    others look at its type."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        for finder in list(sys.meta_path):
            spec = finder.find_spec(name, path, target) if finder is not self and hasattr(finder, "find_spec") else None
            if spec is not None:
                self.watch(spec.loader)
                return spec
        return None

    def watch(self, loader):
        try:
            execute = loader.exec_module

            def exec_module(module):
                del loader.exec_module
                execute(module)
                self.leave()
                begin(module)

            loader.exec_module = exec_module
        except Exception as error:
            say("operators stay unknown: the import of torch cannot be followed: %s" % error)

    def leave(self):
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def follow():
    if "torch" in sys.modules:
        begin(sys.modules["torch"])
    else:
        sys.meta_path.insert(0, Finder())


def hand_over():
    """To the sitecustomize behind us. Where there is none the import fails, which site expects of ours as well, and
    ours stays. What goes wrong in it is told by site, as it would be without us."""
    ours = sys.modules.pop("sitecustomize", None)
    sys.path[:] = [folder for folder in sys.path if folder != HERE]
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
        if ours is not None:
            sys.modules["sitecustomize"] = ours


if os.environ.get("GPUCTR_TORCH") in ("operators", "modules") and sys.version_info >= (3, 7):
    follow()
hand_over()
