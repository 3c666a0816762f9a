# SPDX-License-Identifier: Apache-2.0
"""Modules with global hooks, which see an exception only where they were registered for that."""
_before, _after = {}, {}


class _Handle:
    count = 0

    def __init__(self, hooks, hook, always):
        _Handle.count += 1
        self.hooks, self.key = hooks, _Handle.count
        hooks[self.key] = (hook, always)

    def remove(self):
        self.hooks.pop(self.key, None)


def register_module_forward_pre_hook(hook):
    return _Handle(_before, hook, False)


def register_module_forward_hook(hook, *, always_call=False):
    return _Handle(_after, hook, always_call)


class Module:
    def __setattr__(self, name, value):
        if isinstance(value, Module):
            self._children()[name] = value
        object.__setattr__(self, name, value)

    def _children(self):
        return self.__dict__.setdefault("_modules", {})

    def named_children(self):
        return list(self._children().items())

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, child in self.named_children():
            yield from child.named_modules(prefix + "." + name if prefix else name)

    def __call__(self, *args):
        for hook, _ in (*_before.values(),):
            hook(self, args)
        try:
            result = self.forward(*args)
        except Exception:
            for hook, always in (*_after.values(),):
                if always:
                    hook(self, args, None)
            raise
        for hook, _ in (*_after.values(),):
            hook(self, args, result)
        return result
