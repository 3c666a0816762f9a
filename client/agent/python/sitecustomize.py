# SPDX-License-Identifier: Apache-2.0
"""`gpuctr-client run --torch` puts this file's folder in front of PYTHONPATH, so every Python of the program loads it.

It waits for the import of torch, then starts gpuctr_torch.py beside it, and hands over to the sitecustomize that it
hides, if there is one. It removes its folder from sys.path at once, so that the program sees the path that it would
have without us. A Python that never imports torch has one comparison more at each import. Any Python may load this
file, also an old one, so it is written for all of them."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def say(text):
    try:
        sys.stderr.write("gpuctr: --torch: %s\n" % text)
    except Exception:
        pass


def begin(torch):
    """Prints an error rather than raising it, so that the program runs on."""
    try:
        sys.path.insert(0, HERE)
        try:
            import gpuctr_torch
        finally:
            sys.path.remove(HERE)
        gpuctr_torch.begin(torch, os.environ["GPUCTR_TORCH"] == "modules")
    except Exception as error:
        say("operators stay unknown: %s: %s" % (type(error).__name__, error))


def give_back(loader, ours, theirs):
    """Restores the loader's exec_module, unless another tool has replaced ours meanwhile, and calls ours itself."""
    if vars(loader).get("exec_module") is not ours:
        return
    if theirs is None:
        del loader.exec_module
    else:
        loader.exec_module = theirs


class Finder(object):
    """Finds torch by the finders behind it, and hooks the loader to know when torch was executed. The loader itself is
    kept, because others look at its type."""

    def __init__(self):
        self.asking = set()  # threads in find_spec()
        self.done = False

    def find_spec(self, name, path=None, target=None):
        """A finder that ours asks may ask all finders, ours among them: then ours does not answer."""
        if name != "torch":
            return None
        from _thread import get_ident
        thread = get_ident()
        if thread in self.asking:
            return None
        self.asking.add(thread)
        try:
            return self.ask(name, path, target)
        finally:
            self.asking.discard(thread)

    def ask(self, name, path, target):
        """Asks only the finders behind ours: Python asks those in front, which may be asking ours at this moment."""
        finders = list(sys.meta_path)
        behind = finders[finders.index(self) + 1:] if self in finders else []
        for finder in behind:
            spec = finder.find_spec(name, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None:
                self.watch(spec.loader)
                return spec
        return None

    def watch(self, loader):
        """A finder may return the same loader twice, and the program may call find_spec() without an import."""
        try:
            execute, theirs = loader.exec_module, vars(loader).get("exec_module")
            if getattr(execute, "is_gpuctr", False):
                return

            def exec_module(module):
                give_back(loader, exec_module, theirs)
                execute(module)
                self.end(module)

            exec_module.is_gpuctr = True
            loader.exec_module = exec_module
        except Exception as error:
            say("operators stay unknown: the import of torch cannot be followed: %s" % error)

    def end(self, module):
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        if not self.done:
            self.done = True
            begin(module)


def follow():
    if "torch" in sys.modules:
        begin(sys.modules["torch"])
    else:
        sys.meta_path.insert(0, Finder())


def hand_over():
    """Imports the sitecustomize behind ours. If there is none, the import fails and ours stays. Python's site module
    reports other errors in it, as it would without us."""
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
