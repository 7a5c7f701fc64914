"""Module hooks: what users have called around `forward`, and around states.

The order is PyTorch's: the hooks before `forward`, which may replace its arguments;
`forward`; the hooks after it, which may replace its result. Full backward hooks are
called with gradients by an identity at the results and another one at the arguments.
"""

from __future__ import annotations

import functools
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..autograd.function import Function
from ..autograd.grad_mode import is_grad_enabled
from ..base import trace_hooks
from ..base.hooks import RemovableHandle
from ..tensor.tensor import Tensor

if TYPE_CHECKING:
    from .module import Module

Hooks = OrderedDict[int, Callable[..., Any]]

used = False
"""Whether a module has had hooks, or was compiled: a quick test for the common case."""


class ModuleHooks:
    """Hooks of a module; another object, of the same dicts, after each change.

    Attributes
    ----------
    forward_pre, forward : OrderedDict
        Called before and after `forward`.
    backward_pre, backward : OrderedDict
        Called before and after its gradients are computed.
    backward_old : OrderedDict
        Called after the gradients of the last op; not beside those of `backward`.
    with_kwargs, always : set of int
        Ids of the hooks that take keyword arguments, and of those that are called even
        if `forward` raises an error.
    state_pre, state_post, load_pre, load_post : OrderedDict
        Called before and after the module's part of a state is made, or loaded.
    compiled : callable or None
        What is called instead of the module.
    """

    NAMES = (
        "forward_pre",
        "forward",
        "backward_pre",
        "backward",
        "backward_old",
        "state_pre",
        "state_post",
        "load_pre",
        "load_post",
    )

    def __init__(self) -> None:
        self.forward_pre: Hooks = OrderedDict()
        self.forward: Hooks = OrderedDict()
        self.backward_pre: Hooks = OrderedDict()
        self.backward: Hooks = OrderedDict()
        self.backward_old: Hooks = OrderedDict()
        self.state_pre: Hooks = OrderedDict()
        self.state_post: Hooks = OrderedDict()
        self.load_pre: Hooks = OrderedDict()
        self.load_post: Hooks = OrderedDict()
        self.with_kwargs: set[int] = set()
        self.always: set[int] = set()
        self.compiled: Callable[..., Any] | None = None

    def renewed(self) -> ModuleHooks:
        """Return another object with the same dicts, which guards of `jit` see."""
        made = ModuleHooks.__new__(ModuleHooks)
        made.__dict__.update(self.__dict__)
        return made


_EMPTY = ModuleHooks()

everywhere = ModuleHooks()
"""Hooks of all modules."""


def hooks_of(module: Module) -> ModuleHooks:
    """Return the hooks of a module, made where it has none."""
    found: ModuleHooks | None = module.__dict__.get("_hooks")
    if found is None:
        _changed()
        found = module.__dict__["_hooks"] = ModuleHooks()
    return found


def hooks_or_none(module: Any) -> ModuleHooks:
    """Return the hooks of a module, or an object without any."""
    found: ModuleHooks = module.__dict__.get("_hooks", _EMPTY)
    return found


def _changed() -> None:
    global used
    used = True
    trace_hooks.structure_changed()


def put(
    module: Module | None,
    kind: str,
    hook: Callable[..., Any],
    *,
    prepend: bool = False,
    with_kwargs: bool = False,
    always: bool = False,
) -> RemovableHandle:
    """Register a hook of a kind at a module, or at all of them; return its handle."""
    own = everywhere if module is None else hooks_of(module)

    def renew() -> None:
        _changed()
        if module is not None:
            module.__dict__["_hooks"] = hooks_of(module).renewed()

    handle = RemovableHandle(getattr(own, kind), on_remove=renew)
    hooks: Hooks = getattr(own, kind)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    if with_kwargs:
        own.with_kwargs.add(handle.id)
    if always:
        own.always.add(handle.id)
    renew()
    return handle


def put_backward(
    module: Module, hook: Callable[..., Any], *, old: bool, prepend: bool = False
) -> RemovableHandle:
    """Register a backward hook of either kind, of which a module has one."""
    own = hooks_of(module)
    if own.backward if old else own.backward_old:
        raise RuntimeError(
            f"{type(module).__name__}: register_backward_hook and"
            " register_full_backward_hook are both called; a module has hooks of one"
            " kind"
        )
    kind = "backward_old" if old else "backward"
    return put(module, kind, hook, prepend=prepend)


def _hook_last_node(module: Module, own: ModuleHooks, result: Any) -> None:
    """Register old backward hooks at the node of the first tensor of a result."""
    while not isinstance(result, Tensor):
        if isinstance(result, dict):
            result = next(e for e in result.values() if isinstance(e, Tensor))
        else:
            result = result[0]
    if result.grad_fn is not None:
        for hook in own.backward_old.values():
            result.grad_fn.register_hook(functools.partial(hook, module))


def drop_forward_pre(module: Module, hook: Callable[..., Any]) -> None:
    """Remove a hook before `forward`, by the hook itself."""
    own = hooks_of(module)
    for key in [key for key, each in own.forward_pre.items() if each is hook]:
        del own.forward_pre[key]
        own.with_kwargs.discard(key)
    _changed()
    module.__dict__["_hooks"] = own.renewed()


def call(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of a module with the hooks around it."""
    own = hooks_or_none(module)
    called: set[int] = set()
    results: list[Any] = []
    try:
        return _call(module, own, args, kwargs, called, results)
    except Exception:
        given = args, kwargs, results[-1] if results else None
        for hooks in (everywhere, own):
            for key, hook in tuple(hooks.forward.items()):
                if key in hooks.always and key not in called:
                    _late(module, hook, key in hooks.with_kwargs, *given)
        raise


def _late(
    module: Module,
    hook: Callable[..., Any],
    named: bool,
    args: Any,
    kwargs: Any,
    result: Any,
) -> None:
    """Call a hook after an error; errors of its own are printed, not raised."""
    try:
        if named:
            hook(module, args, kwargs, result)
        else:
            hook(module, args, result)
    except Exception as error:
        sys.stderr.write(
            f"{type(module).__name__}: a forward hook with always_call raised"
            f" {error!r}, beside the error of forward\n"
        )


def _call(
    module: Module,
    own: ModuleHooks,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    called: set[int],
    results: list[Any],
) -> Any:
    args, kwargs = _before(module, own, args, kwargs)
    watched = own.backward or own.backward_pre
    watched = watched or everywhere.backward or everywhere.backward_pre
    pass_ = _BackwardPass(module, own) if watched else None
    if pass_ is not None:
        args = pass_.at_inputs(args)
    result = module.forward(*args, **kwargs)
    for hooks in (everywhere, own):
        for key, hook in tuple(hooks.forward.items()):
            results[:] = [result]
            called.add(key)
            if key in hooks.with_kwargs:
                answer = hook(module, args, kwargs, result)
            else:
                answer = hook(module, args, result)
            if answer is not None:
                result = answer
    if own.backward_old:
        _hook_last_node(module, own, result)
    return result if pass_ is None else pass_.at_outputs(result)


def _before(
    module: Module, own: ModuleHooks, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments after the hooks that may replace them."""
    for hooks in (everywhere, own):
        for key, hook in tuple(hooks.forward_pre.items()):
            if key in hooks.with_kwargs:
                answer = hook(module, args, kwargs)
                if answer is None:
                    continue
                if not isinstance(answer, tuple) or len(answer) != 2:
                    raise RuntimeError(
                        f"{type(module).__name__}: a forward pre-hook with_kwargs"
                        f" returned a {type(answer).__name__}; it must return None, or"
                        " a tuple of the new args and kwargs"
                    )
                args, kwargs = answer
            else:
                answer = hook(module, args)
                if answer is not None:
                    args = answer if isinstance(answer, tuple) else (answer,)
    return args, kwargs


class _BackwardPass:
    """The full backward hooks of one call of a module."""

    def __init__(self, module: Module, own: ModuleHooks) -> None:
        self._module = module
        self._before = [*everywhere.backward_pre.values(), *own.backward_pre.values()]
        self._after = [*everywhere.backward.values(), *own.backward.values()]
        self._taped = False
        self._inputs = 0
        self._places: list[int] = []
        self._outputs = 0
        self._output_places: list[int] = []
        self._grads: tuple[Any, ...] | None = None

    def at_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments, with their gradients going through the hooks."""
        self._inputs = len(args)
        places = [at for at, each in enumerate(args) if isinstance(each, Tensor)]
        if not is_grad_enabled() or not any(args[at].requires_grad for at in places):
            return args
        self._taped, self._places = True, places
        passed = _AtInputs.apply(self, *[args[at] for at in places])
        found = list(args)
        for at, each in zip(places, passed):
            found[at] = each
        return tuple(found)

    def at_outputs(self, result: Any) -> Any:
        """Return the results, with their gradients going through the hooks.

        They are a tensor, or those in a tuple: the others have no hooks in PyTorch.
        """
        if not isinstance(result, tuple):
            return self.at_outputs((result,))[0]
        places = [at for at, each in enumerate(result) if isinstance(each, Tensor)]
        if not is_grad_enabled() or not any(result[at].requires_grad for at in places):
            return result
        self._outputs, self._output_places = len(result), places
        passed = _AtOutputs.apply(self, *[result[at] for at in places])
        found = [*result]
        for at, each in zip(places, passed):
            found[at] = each
        kind: Any = type(result)
        return kind._make(found) if hasattr(kind, "_make") else kind(found)

    def outputs_done(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the gradients of the results after the hooks on them."""
        whole: list[Any] = [None] * self._outputs
        for at, each in zip(self._output_places, grads):
            whole[at] = each
        grads = tuple(whole)
        for hook in self._before:
            answer = hook(self._module, grads)
            if answer is not None:
                grads = self._checked(answer, len(grads), "pre-hook")
        self._grads = grads
        if not self._taped:
            self._answers((None,) * self._inputs)
        return tuple([grads[at] for at in self._output_places])

    def inputs_done(self, grads: Sequence[Any]) -> tuple[Any, ...]:
        """Return the gradients of the arguments after the hooks on them.

        Results that are in other structures than a tuple have no hooks.
        """
        if self._grads is None:
            return tuple(grads)
        whole: list[Any] = [None] * self._inputs
        for at, each in zip(self._places, grads):
            whole[at] = each
        answers = self._answers(tuple(whole))
        return tuple([answers[at] for at in self._places])

    def _answers(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in self._after:
            answer = hook(self._module, grads, self._grads)
            if answer is not None:
                grads = self._checked(answer, len(grads), "hook")
        return grads

    def _checked(self, answer: Any, count: int, name: str) -> tuple[Any, ...]:
        found = answer if isinstance(answer, tuple) else (answer,)
        if len(found) != count:
            raise RuntimeError(
                f"{type(self._module).__name__}: a full backward {name} returned"
                f" {len(found)} gradients; it must return {count}, or None"
            )
        return found


class _AtInputs(Function):
    """Identity at the arguments of a module with full backward hooks."""

    @staticmethod
    def forward(ctx: Any, pass_: _BackwardPass, *tensors: Tensor) -> Any:
        """Return the tensors."""
        ctx.pass_ = pass_
        return _passed(ctx, tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Return the gradients after the hooks, at first zeros where there is none."""
        return None, *ctx.pass_.inputs_done(grads)


class _AtOutputs(Function):
    """Identity at the results of a module with full backward hooks."""

    @staticmethod
    def forward(ctx: Any, pass_: _BackwardPass, *tensors: Tensor) -> Any:
        """Return the tensors."""
        ctx.pass_ = pass_
        ctx.set_materialize_grads(False)
        return _passed(ctx, tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Return the gradients after the hooks."""
        return None, *ctx.materialized(ctx.pass_.outputs_done(grads))


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Register a forward pre-hook of all modules; see `Module`."""
    return put(None, "forward_pre", hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Register a forward hook of all modules; see `Module`."""
    return put(None, "forward", hook, with_kwargs=with_kwargs, always=always_call)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Register a full backward pre-hook of all modules; see `Module`."""
    return put(None, "backward_pre", hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Register a full backward hook of all modules; see `Module`."""
    return put(None, "backward", hook)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Do what `register_module_full_backward_hook` does.

    PyTorch's gives other gradients where `forward` has several operations.
    """
    return register_module_full_backward_hook(hook)


def has_any(module: Module) -> bool:
    """Return whether a call of a module is more than its `forward`."""
    return module.__dict__.get("_hooks") is not None or bool(global_hooks())


def global_hooks() -> bool:
    """Return whether there are hooks of all modules."""
    return bool(
        everywhere.forward
        or everywhere.forward_pre
        or everywhere.backward
        or everywhere.backward_pre
    )


def compile_module(module: Module, compiled: Callable[..., Any]) -> None:
    """Let a module's calls go to a compiled function."""
    hooks = hooks_of(module).renewed()
    hooks.compiled = compiled
    _changed()
    module.__dict__["_hooks"] = hooks


def _passed(ctx: Any, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return tensors; those that require no gradient do not afterwards, either."""
    ctx.mark_non_differentiable(*[each for each in tensors if not each.requires_grad])
    return tensors
