# SPDX-License-Identifier: Apache-2.0
"""Turns on PyTorch's NVTX markers, as torch.autograd.profiler.emit_nvtx(record_shapes=True) does, in a program that
does not do so itself; with modules also a range for each forward of a module.

When: as the last step of the program's own initialisation of CUDA. emit_nvtx synchronises at its begin, which would
initialise CUDA in every process that imports torch, on its first GPU, and so spoil fork(); what it calls below that
touches no GPU.

Where: PyTorch keeps the state of its profiler for each thread, and hands it to the threads of autograd by itself. It is
turned on in the thread that initialises CUDA, in every threading.Thread that begins later, and, where CUDA was
initialised by another one, in the main thread with the next module that it runs. It is turned off with the thread,
because PyTorch warns of what is left on.

Who goes first: the program. While a profiler of its own is on in a thread, ours is off there.

What may go wrong is told once, and the program runs on."""
import atexit
import functools
import os
import sys
import threading
import warnings
import weakref

# Modules that stand around another one: it gets their name, and they have none. By name: they need not be imported.
WRAPPERS = {"DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "OptimizedModule", "CheckpointWrapper"}


class Told:
    """One line for each process."""

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
    """None when it fails."""

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
    """Of this thread."""

    on = False  # our markers
    aside = False  # a profiler of the program's has their place


here = Here()


class Markers:
    def __init__(self, torch):
        self.profiler = torch.autograd.profiler
        self.is_enabled = getattr(torch.autograd, "_profiler_enabled", lambda: here.on)
        # What is in the module is replaced below; these are PyTorch's own.
        self.enable, self.disable = self.profiler._enable_profiler, self.profiler._disable_profiler
        self.cuda = False  # the program has initialised it, in this process

    def configuration(self):
        """Its arguments grew in number from version to version; those of today come first."""
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
        """Whether it was on."""
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
        """Every profiler of PyTorch's Python, emit_nvtx too, begins and ends by these names."""
        p = self.profiler
        p._enable_profiler, p._disable_profiler = self.enable_theirs(self.enable), self.disable_theirs(self.disable)
        try:
            from torch.autograd import profiler_legacy as old
            old._enable_profiler_legacy = self.enable_theirs(old._enable_profiler_legacy)
            old._disable_profiler_legacy = self.disable_theirs(old._disable_profiler_legacy)
        except (ImportError, AttributeError):
            pass  # a version without it

    @guarded
    def on_cuda(self):
        """CUDA has just been initialised by this thread. Comes again when that failed behind us."""
        if self.cuda:
            return
        self.make_way()
        self.cuda = True
        atexit.register(self.turn_off)
        self.turn_on()

    @guarded
    def in_child(self):
        """A child that was forked from a process with CUDA cannot use it: loaders of data, for instance."""
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
    """The names of the modules within one: "conv1", or "layers.0" where what holds it has no forward of its own. They
    are kept by identity, because a module may say itself what it is equal to, and each for as long as it lives."""

    FREE = 16

    def __init__(self, outer, on_end):
        self.outer = weakref.ref(outer, on_end)
        self.names = {}  # id: (reference, name)
        self.strangers = 0
        self.walk(outer)

    def walk(self, outer):
        for name, module in outer.named_modules():
            if module is not outer:
                # The reference that has ended is what pop() then gets as its default.
                end = functools.partial(self.names.pop, id(module))
                self.names[id(module)] = (weakref.ref(module, end), name)

    def get(self, module):
        reference, name = self.names.get(id(module), (never, None))
        return name if reference() is module else None

    def may_walk(self):
        """A model may grow, but one may also make modules anew in each forward, or run some that are none of its
        own: the tree is walked for the first strangers, and then each time that their number has doubled."""
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
        """Emptied, because the references in it lead back to it."""
        tree = self.trees.pop(key, None)
        if tree:
            tree.names.clear()

    def find(self, outer, module):
        tree = self.trees.get(id(outer))
        if tree is None or tree.outer() is not outer:
            tree = self.trees[id(outer)] = Tree(outer, functools.partial(self.forget, id(outer)))
        return tree.find(outer, module)


class Stack(threading.local):
    """The modules whose forward this thread is in: (module, its name, whether a range is open for it)."""

    def __init__(self):
        self.open = []


class Modules:
    def __init__(self, torch, markers):
        self.nvtx, self.markers = torch.cuda.nvtx, markers
        self.is_tracing = getattr(torch._C, "_get_tracing_state", lambda: None)
        self.names, self.stack = Names(), Stack()
        self.handles = []

    def name(self, module):
        """Behind a wrapper that of the wrapper; for the outermost, and what is in a wrapper alone, its class."""
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
        """The outermost is not run within itself: what is open then was left by what no hook has seen end."""
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
        """And what it had left open within itself."""
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
    """PyTorch's compiler reads the hooks below and takes this for True: nothing of them is left in what it makes."""
    for place in ("compiler", "_utils"):
        found = getattr(getattr(torch, place, None), "is_compiling", None)
        if found:
            return found
    return never


# Functions of this module, and names of it, because the compiler looks for both by the module's name.
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
    """Older versions call no hook where forward has raised; Modules.push() tidies up there."""
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
    # The compiler warns, of hooks that it thinks the program's own.
    warnings.filterwarnings("ignore", message=r"Using `torch\.compile\(module\)` when there are global hooks")
    modules.handles = [hooks.register_module_forward_pre_hook(before_forward), register_after(hooks)]


# --- the main thread, where another one has initialised CUDA ---


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
    """torch has just been imported. Raises where it is not the PyTorch that we know."""
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
