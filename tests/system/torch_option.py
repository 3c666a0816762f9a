#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_option FOLDER FAKE [TEST...]: what `run --torch` has Python load (the files in FOLDER), with the PyTorch of
tests in FAKE. Each test is a program that prints the log of that PyTorch, and what the log has to be."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
FOLDER, FAKE = (os.path.abspath(p) for p in sys.argv[1:3])
MODULES = """
import torch
class Leaf(torch.nn.Module):
    def forward(self, fail=None):
        torch.op("relu")
        if fail: raise fail
class Block(torch.nn.Module):
    def __init__(self): self.conv1 = Leaf(); self.conv2 = Leaf()
    def forward(self, fail=None): self.conv1(); self.conv2(fail)
class Layers(torch.nn.Module):
    pass
class Net(torch.nn.Module):
    def __init__(self): self.layers = Layers(); setattr(self.layers, "0", Block()); self.fc = Leaf()
    def forward(self, fail=None): getattr(self.layers, "0")(fail); self.fc()
net = Net()
"""
NET = """push Net, push layers.0, push conv1, marker relu, pop, push conv2, marker relu, pop, pop, push fc, marker relu, pop, pop"""
END = "\nprint(', '.join(torch.log))\n"


def environment(folder, path=(), mode="operators", fake=FAKE):
    env = dict(os.environ, PYTHONPATH=":".join([folder, *path, fake]), PYTHONDONTWRITEBYTECODE="1")
    env.pop("GPUCTR_TORCH", None)
    if mode:
        env["GPUCTR_TORCH"] = mode
    return env


def python(program, env, options=(), by=()):
    return subprocess.run([*by, sys.executable, *options, "-c", program], capture_output=True, text=True, timeout=60, env=env)


def run(program, mode="operators", options=(), path=()):
    return python(program, environment(FOLDER, path, mode), options)


def same(found, wanted):
    if found != wanted:
        raise AssertionError(f"\n  is      {found!r}\n  instead {wanted!r}")


def expect(program, log, mode="operators", err="", code=0, **more):
    r = run(program + END, mode, **more)
    same((r.returncode, r.stderr, r.stdout.strip()), (code, err, log))


def write(folder, name, text):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


# --- the import ---


def nothing_without_torch():
    same(run("import sys; print('gpuctr_torch' in sys.modules)").stdout, "False\n")


def run_path():
    """What sys.path has behind the program's own folder without us."""
    env = dict(os.environ, PYTHONPATH=FAKE)
    out = subprocess.run([sys.executable, "-c", "import sys; print('\\n'.join(sys.path[1:]))"], capture_output=True, text=True,
                         timeout=60, env=env).stdout
    return out.split("\n")[:-1]


def the_path_is_that_without_us():
    r = run("import sys, torch; print('\\n'.join(sys.path[1:]))")
    same(r.stdout.split("\n")[:-1], run_path())


def nothing_at_import():
    expect("import torch; torch.op('relu')", "op relu")


def nothing_unless_asked():
    expect("import torch; torch.cuda._lazy_init(); torch.op('relu')", "cuda, op relu", mode=None)
    expect("import torch; torch.cuda._lazy_init(); torch.op('relu')", "cuda, op relu", mode="other")


def another_sitecustomize_follows():
    with tempfile.TemporaryDirectory() as folder:
        write(folder, "sitecustomize.py", "import builtins\nbuiltins.theirs = __file__\n")
        r = run("import sys; print(theirs == sys.modules['sitecustomize'].__file__)", path=[folder])
        same((r.stdout, r.stderr), ("True\n", ""))
        expect("import torch; torch.cuda._lazy_init(); torch.op('relu')", "cuda, enable NVTX shapes, marker relu", path=[folder])


def another_sitecustomize_fails_as_without_us():
    with tempfile.TemporaryDirectory() as folder:
        for text in ("raise ValueError('theirs')\n", "import no_such_module\n"):
            write(folder, "sitecustomize.py", text)
            r = run("import torch; torch.cuda._lazy_init(); print(torch.log)", path=[folder])
            same((r.returncode, r.stdout), (0, "['cuda', 'enable NVTX shapes']\n"))
            same("Error in sitecustomize" in r.stderr, True)


def an_import_that_fails_is_tried_again():
    with tempfile.TemporaryDirectory() as folder:
        write(folder, "torch/__init__.py", "raise ImportError('broken')\n")
        expect(f"""
import sys
try: import torch
except ImportError as e: print(e)
sys.path.remove({folder!r})
import torch; torch.cuda._lazy_init(); torch.op("relu")""", "broken\ncuda, enable NVTX shapes, marker relu", path=[folder])


def other_finders_ask_ours():
    """In front of ours, or behind it, where a .pth file has put one; neither heeds that it may be asked itself."""
    for place in ("0", "1"):
        expect(f"""
import sys
class Theirs:
    def find_spec(self, name, path=None, target=None):
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self else None
            if spec: return spec
sys.meta_path.insert({place}, Theirs())
import torch; torch.cuda._lazy_init(); torch.op("relu")""", "cuda, enable NVTX shapes, marker relu")


# A finder that returns the same loader each time, behind ours.
CACHING = """
import importlib.machinery, importlib.util, sys
class Theirs:
    kept = None
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            self.kept = self.kept or importlib.machinery.PathFinder.find_spec(name, path, target)
            return self.kept
theirs = Theirs(); sys.meta_path.insert(1, theirs)
"""


def what_was_found_may_be_found_again():
    expect(CACHING + """
importlib.util.find_spec("torch"); importlib.util.find_spec("torch")
import torch; torch.cuda._lazy_init(); torch.op("relu")
print("exec_module" in vars(theirs.kept.loader))""", "False\ncuda, enable NVTX shapes, marker relu")


def what_was_found_need_not_be_imported():
    r = run(CACHING + "importlib.util.find_spec('torch'); print('torch' in sys.modules)")
    same((r.returncode, r.stdout, r.stderr), (0, "False\n", ""))


def a_loader_that_others_watch_too():
    expect(CACHING + """
def watch(name):
    execute = theirs.kept.loader.exec_module
    theirs.kept.loader.exec_module = lambda module: (print(name), execute(module))
theirs.find_spec("torch"); watch("before"); importlib.util.find_spec("torch"); watch("behind")
import torch; torch.cuda._lazy_init(); print(torch.log)
from threading import Thread
ours = Thread._bootstrap_inner; importlib.reload(torch); print(Thread._bootstrap_inner is ours)""",
           "behind\nbefore\n['cuda', 'enable NVTX shapes']\nbehind\nbefore\nTrue")


def another_torch_is_left_alone():
    with tempfile.TemporaryDirectory() as folder:
        write(folder, "torch/__init__.py", "log = ['mine']\n")
        r = run("import torch; print(torch.log)", path=[folder])
        same((r.returncode, r.stdout, r.stderr.count("\n")), (0, "['mine']\n", 1))
        same(r.stderr.startswith("gpuctr: --torch: operators stay unknown: AttributeError: "), True)


# --- operators ---


def on_with_cuda():
    expect("import torch; torch.op('a'); torch.cuda._lazy_init(); torch.op('b'); torch.cuda._lazy_init()",
           "op a, cuda, enable NVTX shapes, marker b")


def off_at_the_end():
    program = """
import atexit, torch
atexit.register(lambda: print(torch.log))
torch.cuda._lazy_init()"""
    same(run(program).stdout, "['cuda', 'enable NVTX shapes', 'disable NVTX']\n")


def a_profiler_of_the_program_goes_first():
    for name, state in (("emit_nvtx", "NVTX"), ("profile", "KINETO")):
        body = {"NVTX": "marker b", "KINETO": "op b"}[state]
        sync = "synchronize, " if state == "NVTX" else ""
        expect(f"""
import torch
torch.cuda._lazy_init()
torch.op("a")
with torch.autograd.profiler.{name}(): torch.op("b")
torch.op("c")""", f"cuda, enable NVTX shapes, marker a, {sync}disable NVTX, enable {state}, {body}, synchronize, disable {state}, "
            "enable NVTX shapes, marker c")


def a_profiler_that_was_there_before_cuda():
    expect("""
import torch
with torch.autograd.profiler.profile():
    torch.cuda._lazy_init()
    torch.op("a")
torch.op("b")""", "enable KINETO, cuda, op a, synchronize, disable KINETO, enable NVTX shapes, marker b")


def a_profiler_that_fails_to_begin():
    expect("""
import torch
torch.cuda._lazy_init()
try: torch.autograd.profiler._enable_profiler(None, set())
except AttributeError: print("theirs")
torch.op("a")""", "theirs\ncuda, enable NVTX shapes, disable NVTX, enable NVTX shapes, marker a")


def threads_that_begin_later():
    expect("""
import threading, torch
def work(): torch.op("a")
torch.cuda._lazy_init()
t = threading.Thread(target=work); t.start(); t.join()""", "cuda, enable NVTX shapes, enable NVTX shapes, marker a, disable NVTX")


def the_main_thread_follows_another_one():
    expect(MODULES + """
import threading
t = threading.Thread(target=torch.cuda._lazy_init); t.start(); t.join()
torch.op("a")
leaf = Leaf(); leaf(); leaf()""", "cuda, enable NVTX shapes, disable NVTX, op a, enable NVTX shapes, marker relu, marker relu")


def a_forked_child_is_left_alone():
    expect(MODULES + """
import os, sys
torch.cuda._lazy_init(); net.fc()
if os.fork() == 0:
    torch.log.clear(); net.fc()
    print(torch.log, torch.autograd.profiler._is_profiler_enabled, flush=True); os._exit(0)
os.wait()""", "['op relu'] False\ncuda, enable NVTX shapes, push Leaf, marker relu, pop", mode="modules")


def a_child_that_was_forked_within_a_profiler():
    expect("""
import os, torch
torch.cuda._lazy_init()
profile = torch.autograd.profiler.profile().__enter__()
if os.fork() == 0:
    torch.log.clear(); torch.autograd.profiler._disable_profiler(); torch.op("a"); print(torch.log, flush=True); os._exit(0)
os.wait(); torch.log.clear(); profile.__exit__(); torch.op("a")""",
           "['disable KINETO', 'op a']\nsynchronize, disable KINETO, enable NVTX shapes, marker a")


def spawned_children_have_it():
    with tempfile.TemporaryDirectory() as folder:
        write(folder, "net.py", """
import multiprocessing, torch
def work(): torch.cuda._lazy_init(); torch.op("a"); print(torch.log, flush=True)
if __name__ == "__main__":
    p = multiprocessing.get_context("spawn").Process(target=work); p.start(); p.join()
""")
        r = run(f"import runpy, sys; sys.argv = ['net.py']; sys.path.insert(0, {folder!r}); import subprocess; "
                f"subprocess.run([sys.executable, {folder + '/net.py'!r}])")
        same((r.stdout, r.stderr), ("['cuda', 'enable NVTX shapes', 'marker a']\n", ""))


def what_goes_wrong_is_told_once():
    program = """
import sys, threading, torch
def broken(*args): raise RuntimeError("ours is broken")
torch.autograd.profiler.ProfilerConfig = broken
torch.cuda._lazy_init()
t = threading.Thread(target=torch.op, args=("a",)); t.start(); t.join()
torch.op("b")
print(torch.log)
sys.exit(7)"""
    r = run(program)
    same((r.returncode, r.stdout, r.stderr), (7, "['cuda', 'op a', 'op b']\n", "gpuctr: --torch: RuntimeError: ours is broken\n"))


def an_older_configuration():
    expect("""
import torch
from torch.autograd import ProfilerConfig
torch.autograd.profiler.ProfilerConfig = lambda a, b, c, d: ProfilerConfig(a, b, c, d, 0, 0, 0)
del torch.autograd.profiler._ExperimentalConfig
torch.cuda._lazy_init()""", "cuda, enable NVTX shapes")


# --- modules ---


def modules_by_their_names():
    expect(MODULES + "net(); torch.cuda._lazy_init(); net()",
           "op relu, op relu, op relu, cuda, enable NVTX shapes, " + NET, mode="modules")
    expect(MODULES + "torch.cuda._lazy_init(); net.fc()", "cuda, enable NVTX shapes, marker relu")


def wrappers_have_no_name():
    expect(MODULES + """
class DistributedDataParallel(torch.nn.Module):
    def __init__(self, module): self.module = module
    def forward(self): self.module()
class Outer(torch.nn.Module):
    def __init__(self): self.inner = DistributedDataParallel(Leaf())
    def forward(self): self.inner()
torch.cuda._lazy_init(); DistributedDataParallel(net)(); Outer()()""",
           f"cuda, enable NVTX shapes, {NET}, push Outer, push inner, marker relu, pop, pop", mode="modules")


def a_forward_that_raises():
    failed = "push Net, push layers.0, push conv1, marker relu, pop, push conv2, marker relu, pop, pop, pop"
    program = MODULES + """
{0}
torch.cuda._lazy_init()
try: net({1})
except BaseException as e: print(type(e).__name__)
net()"""
    expect(program.format("", "ValueError()"), f"ValueError\ncuda, enable NVTX shapes, {failed}, {NET}", mode="modules")
    # What no hook sees is tidied up with the next forward: an exit, or any exception in an older version.
    expect(program.format("", "SystemExit()"), f"SystemExit\ncuda, enable NVTX shapes, {failed}, {NET}", mode="modules")
    old = """
register = torch.nn.modules.module.register_module_forward_hook
torch.nn.modules.module.register_module_forward_hook = lambda hook: register(hook)"""
    expect(program.format(old, "ValueError()"), f"ValueError\ncuda, enable NVTX shapes, {failed}, {NET}", mode="modules")


def a_module_that_came_later():
    expect(MODULES + """
torch.cuda._lazy_init(); net(); torch.log.clear()
net.fc = Leaf(); net()""", NET, mode="modules")


# Modules that are none of the outer one's, with modules of their own or around one that stays, or that take another
# one's place in it; each new and at a place of its own.
ANEW = MODULES + """
import gc, weakref
class Around(torch.nn.Module):
    def __init__(self, module): self.module = module
    def forward(self): self.module()
class Anew(torch.nn.Module):
    walks = 0
    def __init__(self): self.fc = Leaf()
    def forward(self):
        new = [Leaf(), Block(), Around(self.fc)]; held.extend(new)
        self.changed = Leaf(); held.append(self.changed)
        for module in new + [self.fc, self.changed]: module()
        torch.log.clear()
    def named_modules(self, *args): Anew.walks += 1; return super().named_modules(*args)
held, anew = [], Anew(); torch.cuda._lazy_init(); gc.disable()
def many():
    for i in range(3000): anew()
    held.clear()
def count(): return sum(type(o) is weakref.ref for o in gc.get_objects())
anew(); held.clear(); before = count(); many(); left = count() - before
"""


def modules_made_anew_leave_nothing():
    r = run(ANEW + "print(max(left, 0), Anew.walks < 40)", mode="modules")
    same((r.stdout, r.stderr), ("0 True\n", ""))


def a_module_that_came_after_many_others():
    """It has its class's name at first, and its own not long after that."""
    r = run(ANEW + """
anew.late = Leaf()
def forward(): anew.late(); anew.named = anew.named or "push late" in torch.log; torch.log.clear()
anew.forward, anew.named = forward, False
for i in range(10000): anew()
print(anew.named)""", mode="modules")
    same((r.stdout, r.stderr), ("True\n", ""))


def a_module_that_says_what_it_equals():
    expect(MODULES + """
Leaf.__eq__ = lambda a, b: 1 / 0
torch.cuda._lazy_init(); net()""", "cuda, enable NVTX shapes, " + NET, mode="modules")


def nothing_of_it_is_compiled_or_traced():
    expect(MODULES + """
torch.cuda._lazy_init()
torch.compiler.compiling = True; net.fc(); torch.compiler.compiling = False
torch._C.tracing = object(); net.fc(); torch._C.tracing = None
net.fc()""", "cuda, enable NVTX shapes, marker relu, marker relu, push Leaf, marker relu, pop", mode="modules")


def hooks_that_fail_are_taken_out():
    expect(MODULES + """
def broken(message): raise RuntimeError("no NVTX")
torch.cuda.nvtx.range_push = broken
torch.cuda._lazy_init(); net.fc(); net.fc()""", "cuda, enable NVTX shapes, marker relu, marker relu", mode="modules",
           err="gpuctr: --torch: RuntimeError: no NVTX\n")


# --- how Python is started ---


def isolated_pythons_run_as_without_us():
    for option in ("-I", "-E", "-S"):
        r = run(f"import sys; print({FOLDER!r} in str(sys.modules.get('sitecustomize')))", options=[option])
        same((option, r.returncode, r.stdout, r.stderr), (option, 0, "False\n", ""))


def copy_into(folder, name, source):
    """Without what a Python has left in it."""
    return shutil.copytree(source, os.path.join(folder, name), ignore=shutil.ignore_patterns("__pycache__"))


def the_folder_may_be_read_only():
    """To a Python that would keep its bytecode there. Root gives up that it may write everywhere, and stays the user who
    may run this Python, which can lie in its home."""
    by = ["setpriv", "--inh-caps", "-dac_override", "--bounding-set", "-dac_override"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as folder:
        copy = copy_into(folder, "python", FOLDER)
        env = environment(copy, fake=copy_into(folder, "fake", FAKE))
        del env["PYTHONDONTWRITEBYTECODE"]
        os.chmod(copy, 0o555)
        try:
            r = python(f"import os, sys, torch; torch.cuda._lazy_init(); print(torch.log, os.access({copy!r}, os.W_OK), "
                       "sys.modules['gpuctr_torch'].__file__)", env, by=by)
            same((r.stdout, r.stderr), (f"['cuda', 'enable NVTX shapes'] False {copy}/gpuctr_torch.py\n", ""))
            same(sorted(os.listdir(copy)), ["gpuctr_torch.py", "sitecustomize.py"])
        finally:
            os.chmod(copy, 0o755)


def main():
    tests = [f for name, f in globals().items() if callable(f) and getattr(f, "__module__", "") == "__main__" and not f.__code__.co_argcount
             and name not in ("main", "run_path")]
    failed = 0
    for test in tests:
        if sys.argv[3:] and test.__name__ not in sys.argv[3:]:
            continue
        try:
            test()
            print(f"ok    {test.__name__}")
        except AssertionError as error:
            failed += 1
            print(f"FAIL  {test.__name__}: {error}")
    sys.exit(1 if failed else 0)


main()
