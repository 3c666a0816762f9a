# SPDX-License-Identifier: Apache-2.0
"""Turns on PyTorch's NVTX markers, as torch.autograd.profiler.emit_nvtx(record_shapes=True) does, in a program that
does not do so itself; with "modules" also an NVTX range for each forward of a module.

When: as the last step of the program's own initialisation of CUDA. emit_nvtx synchronises when it begins, which would
initialise CUDA on the first GPU in every process that imports torch, and so break fork(). So this module calls only the
functions below emit_nvtx, which touch no GPU.

Where: PyTorch keeps its profiler's state for each thread, and hands it to the threads of autograd by itself. The
markers are turned on in the thread that initialises CUDA, in every threading.Thread that begins later, and, if another
thread initialises CUDA, in the main thread with the next module that it runs. They are turned off at the thread's end,
because PyTorch warns of a profiler that is left on.

Who goes first: the program. While a profiler of the program is on in a thread, our markers are off there.

The first error is printed, later ones are not, and the program runs on."""
import atexit
import functools
import os
import sys
import threading
import warnings
import weakref

# Classes that wrap a module: the inner module gets the range, with the wrapper's name. Names, as not all are imported.
WRAPPERS = {"DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "OptimizedModule", "CheckpointWrapper"}


class Told:
    """Prints one line at most in each process."""

    def __init__(self):
        self.done = False

    def say(self, error):
        if not self.done:
            self.done = True
            try:
                sys.stderr.write("gpuctr: --torch: %s: %s\n" % (type(error).__name__, error))
            except Exception:
                pass


told = Told()


def guarded(function):
    """Returns None if the function raises."""

    @functools.wraps(function)
    def call(*args):
        try:
            return function(*args)
        except Exception as error:
            told.say(error)
            return None

    return call


# --- markers of operators ---


class Here(threading.local):
    """The state of this thread."""

    on = False  # our markers are on
    aside = False  # our markers are off while a profiler of the program is on


here = Here()


class Markers:
    def __init__(self, torch):
        self.profiler = torch.autograd.profiler
        self.is_enabled = getattr(torch.autograd, "_profiler_enabled", lambda: here.on)
        # PyTorch's own functions: make_way() replaces those in the module.
        self.enable, self.disable = self.profiler._enable_profiler, self.profiler._disable_profiler
        self.cuda = False  # the program has initialised CUDA in this process

    def configuration(self):
        """ProfilerConfig got more arguments from version to version, so the longest list is tried first."""
        p = self.profiler
        experimental = getattr(p, "_ExperimentalConfig", lambda: None)()
        args = [p.ProfilerState.NVTX, True, False, False, False, False, experimental]
        for n in (7, 6, 5, 4):
            try:
                return p.ProfilerConfig(*args[:n])
            except TypeError as error:
                wrong = error
        raise wrong

    @guarded
    def turn_on(self):
        if here.on or not self.cuda:
            return
        if self.is_enabled():
            here.aside = True
            return
        self.enable(self.configuration(), set())
        here.on = True
        # Code that inductor has compiled names its kernels while this is set.
        getattr(self.profiler, "_run_on_profiler_start", lambda: None)()

    @guarded
    def turn_off(self):
        """Returns whether the markers were on."""
        was_on, here.on = here.on, False
        if was_on and self.is_enabled():
            self.disable()
        return was_on

    def enable_theirs(self, enable):
        @functools.wraps(enable)
        def call(*args, **kwargs):
            was_on = self.turn_off()
            try:
                result = enable(*args, **kwargs)
            except BaseException:
                if was_on:
                    self.turn_on()
                raise
            here.aside = bool(was_on) or here.aside
            return result

        return call

    def disable_theirs(self, disable):
        @functools.wraps(disable)
        def call(*args, **kwargs):
            try:
                return disable(*args, **kwargs)
            finally:
                self.come_back()

        return call

    @guarded
    def come_back(self):
        if here.aside and not self.is_enabled():
            here.aside = False
            self.turn_on()

    def make_way(self):
        """All of PyTorch's profilers in Python, emit_nvtx too, begin and end by calling these names."""
        p = self.profiler
        p._enable_profiler, p._disable_profiler = self.enable_theirs(self.enable), self.disable_theirs(self.disable)
        try:
            from torch.autograd import profiler_legacy as old
            old._enable_profiler_legacy = self.enable_theirs(old._enable_profiler_legacy)
            old._disable_profiler_legacy = self.disable_theirs(old._disable_profiler_legacy)
        except (ImportError, AttributeError):
            pass  # this version lacks the module or its functions

    @guarded
    def on_cuda(self):
        """This thread has just initialised CUDA. Called again if a later step of the initialisation failed."""
        if self.cuda:
            return
        self.make_way()
        self.cuda = True
        atexit.register(self.turn_off)
        self.turn_on()

    @guarded
    def in_child(self):
        """A child forked from a process with CUDA, such as a data loader, cannot use CUDA."""
        if self.cuda:
            self.cuda = False
            self.turn_off()
            getattr(self.profiler, "_run_on_profiler_stop", lambda: None)()

    def follow_threads(self):
        run = threading.Thread._bootstrap_inner

        @functools.wraps(run)
        def bootstrap(thread):
            if self.cuda:
                self.turn_on()
            try:
                run(thread)
            finally:
                self.turn_off()

        threading.Thread._bootstrap_inner = bootstrap


# --- ranges of modules ---


def never():
    return False


class Tree:
    """The names of the modules within one: "conv1", or "layers.0" if the container has no forward of its own. They are
    found by identity, because a module may define its own equality, and kept for as long as the module lives."""

    FREE = 16

    def __init__(self, outer, on_end):
        self.outer = weakref.ref(outer, on_end)
        self.names = {}  # id: (reference, name)
        self.strangers = 0
        self.walk(outer)

    def walk(self, outer):
        for name, module in outer.named_modules():
            if module is not outer:
                # The weak reference calls end(reference), so pop() gets the reference as its default.
                end = functools.partial(self.names.pop, id(module))
                self.names[id(module)] = (weakref.ref(module, end), name)

    def get(self, module):
        reference, name = self.names.get(id(module), (never, None))
        return name if reference() is module else None

    def may_walk(self):
        """A model may grow, but may also make new modules in each forward, or run modules that are not part of it. So
        the tree is walked for the first unknown modules, and then each time their number has doubled."""
        self.strangers += 1
        return self.strangers <= self.FREE or self.strangers & (self.strangers - 1) == 0

    def find(self, outer, module):
        name = self.get(module)
        if name is None and self.may_walk():
            self.walk(outer)
            name = self.get(module)
        return name or type(module).__name__


class Names:
    def __init__(self):
        self.trees = {}  # by the id of the outer module

    def forget(self, key, _):
        """Empties the tree, because its weak references' callbacks refer to its dict."""
        tree = self.trees.pop(key, None)
        if tree:
            tree.names.clear()

    def find(self, outer, module):
        tree = self.trees.get(id(outer))
        if tree is None or tree.outer() is not outer:
            tree = self.trees[id(outer)] = Tree(outer, functools.partial(self.forget, id(outer)))
        return tree.find(outer, module)


class Stack(threading.local):
    """The modules whose forward this thread runs: (module, its name, whether it has an open range)."""

    def __init__(self):
        self.open = []


class Modules:
    def __init__(self, torch, markers):
        self.nvtx, self.markers = torch.cuda.nvtx, markers
        self.is_tracing = getattr(torch._C, "_get_tracing_state", lambda: None)
        self.names, self.stack = Names(), Stack()
        self.handles = []

    def name(self, module):
        """Directly within a wrapper, the wrapper's name; of the outermost module, also within a wrapper, the class."""
        if not self.stack.open:
            return type(module).__name__
        outer, name, is_open = self.stack.open[-1]
        if is_open:
            return self.names.find(outer, module)
        return name or type(module).__name__

    def pop(self):
        if self.stack.open.pop()[2]:
            self.nvtx.range_pop()

    def push(self, module):
        """The outermost module does not run within itself: ranges open then are left from a forward that raised."""
        if not self.markers.cuda or self.is_tracing() is not None:
            return
        if self.stack.open and self.stack.open[0][0] is module:
            while self.stack.open:
                self.pop()
        is_wrapper = type(module).__name__ in WRAPPERS
        name = None if is_wrapper and not self.stack.open else self.name(module)
        if not is_wrapper:
            self.nvtx.range_push(name)
        self.stack.open.append((module, name, not is_wrapper))

    def leave(self, module):
        """Ends the module's range, and ranges that were left open within it."""
        if any(entry[0] is module for entry in self.stack.open):
            while self.stack.open[-1][0] is not module:
                self.pop()
            self.pop()

    def give_up(self, error):
        told.say(error)
        for handle in self.handles:
            handle.remove()
        self.handles = []


def find_is_compiling(torch):
    """PyTorch's compiler takes this for True in the hooks below, so its code contains nothing of them."""
    for place in ("compiler", "_utils"):
        found = getattr(getattr(torch, place, None), "is_compiling", None)
        if found:
            return found
    return never


# Functions and names of this module, because the compiler looks for both by the module's name.
is_compiling = never
modules = None
late = None


def before_forward(module, args):
    if is_compiling():
        return
    try:
        modules.push(module)
    except Exception as error:
        modules.give_up(error)


def after_forward(module, args, result):
    if is_compiling():
        return
    try:
        modules.leave(module)
    except Exception as error:
        modules.give_up(error)


def register_after(hooks):
    """Older versions call no hook after a forward that has raised; there Modules.push() tidies up."""
    try:
        return hooks.register_module_forward_hook(after_forward, always_call=True)
    except TypeError:
        return hooks.register_module_forward_hook(after_forward)


@guarded
def begin_modules(torch, markers):
    global modules
    if modules:
        return
    modules = Modules(torch, markers)
    hooks = torch.nn.modules.module
    # The compiler warns of our hooks, which it takes for the program's.
    warnings.filterwarnings("ignore", message=r"Using `torch\.compile\(module\)` when there are global hooks")
    modules.handles = [hooks.register_module_forward_pre_hook(before_forward), register_after(hooks)]


# --- the main thread, if another thread has initialised CUDA ---


class Late:
    def __init__(self, markers):
        self.markers, self.handle = markers, None

    def look(self):
        if threading.current_thread() is threading.main_thread():
            self.handle.remove()
            self.markers.turn_on()


def on_any_forward(module, args):
    if is_compiling():
        return
    try:
        late.look()
    except Exception as error:
        told.say(error)


@guarded
def wait_for_main(torch, markers):
    global late
    if late is None and threading.current_thread() is not threading.main_thread():
        late = Late(markers)
        late.handle = torch.nn.modules.module.register_module_forward_pre_hook(on_any_forward)


def begin(torch, with_modules):
    """To be called when torch was imported. Raises if this PyTorch lacks what we use."""
    global is_compiling
    markers = Markers(torch)
    is_compiling = find_is_compiling(torch)

    def on_cuda():
        markers.on_cuda()
        wait_for_main(torch, markers)
        if with_modules:
            begin_modules(torch, markers)

    markers.follow_threads()
    os.register_at_fork(after_in_child=markers.in_child)
    torch.cuda._lazy_call(on_cuda)
