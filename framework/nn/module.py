"""Module, the base of every layer and model: calls, hooks, modes, text."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

from vkbackend.collector import defer_collections, deferral, resume_collections

from ..autograd.grad_mode import grad_mode
from ..base import trace_hooks
from ..base.hooks import RemovableHandle
from ..dispatch.diagnosis import explain_constructor, explain_method
from ..jit import jit
from ..tensor.tensor import Tensor
from . import module_hooks
from .module_conversion import ModuleConversion
from .module_tree import MODULE
from .parameter import zero_gradient

Self = TypeVar("Self", bound="Module")


class Module(ModuleConversion):
    """A function with parameters; subclasses assign attributes and define `forward`.

    Parameters, modules and buffers are found among the attributes, in the order in
    which they were first assigned. Their names in `state_dict` are paths with dots.
    A subclass with an `__init__` calls `super().__init__()` first.

    Attributes
    ----------
    training : bool
        Whether layers such as dropout behave as in training; see `train` and `eval`.

    Raises
    ------
    TypeError
        If an attribute that is a parameter, a buffer or a module is assigned something
        else than one, or None.
    AttributeError
        If one is assigned before `super().__init__()`.

    Examples
    --------
    >>> class Scale(nn.Module):
    ...     def __init__(self) -> None:
    ...         super().__init__()
    ...         self.factor = nn.Parameter(fw.ones(3))
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> Scale()(fw.tensor([1.0, 2.0, 3.0])).tolist()
    [1.0, 2.0, 3.0]
    """

    call_super_init: bool = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if (args or kwargs) and not self.call_super_init:
            raise TypeError(
                f"{type(self).__name__}.__init__: {len(args) + len(kwargs)} arguments"
                " came to Module.__init__(), which takes none"
            )
        super().__init__()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        explain_constructor(cls)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the result; each subclass defines it."""
        raise NotImplementedError(
            f"{type(self).__name__}.forward: it is not defined;"
            " a module is called through it"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call `forward`, with the hooks around it."""
        deferred = not deferral.active and defer_collections()
        try:
            if trace_hooks.running or module_hooks.used:
                return self._call(args, kwargs)
            return self.forward(*args, **kwargs)
        except (AttributeError, TypeError) as error:
            explain_method(error, self, type(self).forward, args, kwargs)
            raise
        finally:
            if deferred:
                resume_collections(tape=grad_mode.top.value)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a module in a process where one has hooks, or in a trace."""
        if trace_hooks.running:
            self._notify_trace()
        hooks: module_hooks.ModuleHooks | None = self.__dict__.get("_hooks")
        if hooks is not None and hooks.compiled is not None:
            return hooks.compiled(*args, **kwargs)
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """Call `forward`, with the hooks around it, not compiled."""
        if not module_hooks.has_any(self):
            return self.forward(*args, **kwargs)
        return module_hooks.call(self, args, kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Let calls of this module go through `fw.jit`, in place.

        Arguments are those of `fw.jit`; PyTorch's are accepted without an effect.
        """
        known = {"fullgraph", "dynamic", "backend", "mode", "options", "disable"}
        options = {name: each for name, each in kwargs.items() if name not in known}
        module_hooks.compile_module(self, jit(self._call_impl, **options))

    def _fingerprint(self) -> list[object]:
        """Return the guarded state: attributes, storages and `requires_grad`."""
        found: list[object] = []
        for name, value in vars(self).items():
            found += [name, value]
            if isinstance(value, Tensor):
                found += [value.array, value.requires_grad]
        return found

    # Hooks

    def register_forward_pre_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
    ) -> RemovableHandle:
        """Call `hook(module, args)` before `forward`.

        Parameters
        ----------
        hook : callable
            What it returns, unless None, takes the place of the arguments.
        prepend : bool, default False
            Whether it is called before those that are registered already.
        with_kwargs : bool, default False
            Whether it is called `hook(module, args, kwargs)` and returns both.

        Returns
        -------
        RemovableHandle
        """
        return module_hooks.put(
            self, "forward_pre", hook, prepend=prepend, with_kwargs=with_kwargs
        )

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after `forward`.

        Parameters
        ----------
        hook : callable
            What it returns, unless None, takes the place of the result.
        prepend : bool, default False
            Whether it is called before those that are registered already.
        with_kwargs : bool, default False
            Whether it is called `hook(module, args, kwargs, output)`.
        always_call : bool, default False
            Whether it is called even if `forward` raises an error; the output is None
            then.

        Returns
        -------
        RemovableHandle
        """
        return module_hooks.put(
            self,
            "forward",
            hook,
            prepend=prepend,
            with_kwargs=with_kwargs,
            always=always_call,
        )

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_output)` before gradients of the module are computed.

        What it returns, unless None, takes the place of the results' gradients.
        """
        return module_hooks.put(self, "backward_pre", hook, prepend=prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when gradients are computed.

        Both are tuples: of the arguments, with None for what is no tensor or needs no
        gradient, and of the results. What it returns, unless None, takes the place of
        the arguments' gradients.
        """
        return module_hooks.put_backward(self, hook, old=False, prepend=prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` after the last op's gradient.

        `grad_input` are the gradients of the inputs of the one op that made the
        result, `grad_output` are those of the result. What it returns, unless None,
        takes the place of `grad_input`. Kept for old programs:
        `register_full_backward_hook` gives the gradients of the module's arguments.

        Raises
        ------
        RuntimeError
            If the module has a full backward hook; a module has hooks of one kind.
        """
        return module_hooks.put_backward(self, hook, old=True)

    @property
    def _forward_hooks(self) -> module_hooks.Hooks:
        return module_hooks.hooks_of(self).forward

    @property
    def _forward_pre_hooks(self) -> module_hooks.Hooks:
        return module_hooks.hooks_of(self).forward_pre

    @property
    def _backward_hooks(self) -> module_hooks.Hooks:
        return module_hooks.hooks_of(self).backward

    # Changes to everything at once

    def train(self: Self, mode: bool = True) -> Self:
        """Set `training` here and below, by each child's own `train`; return self."""
        if not isinstance(mode, bool):
            raise ValueError(f"train: mode is {mode!r}; it must be a bool")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self: Self) -> Self:
        """Set `training` to False here and below; return self."""
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Set whether gradients are computed for the parameters; return self."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of the parameters, or set them to zero."""
        for parameter in self.parameters():
            zero_gradient(parameter, set_to_none)

    def apply(self: Self, fn: Callable[[Module], object]) -> Self:
        """Call a function with everything below, then with this module; return self."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    # Text

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows; layers define it."""
        return ""

    def __repr__(self) -> str:
        lines = [f"({name}): {child!r}" for name, child in self._named_in_repr()]
        name, extra = self._get_name(), self.extra_repr()
        if not lines:
            if "\n" not in extra:
                return f"{name}({extra})"
            lines = extra.split("\n")
            extra = ""
        body = "\n".join([extra, *lines] if extra else lines)
        return f"{name}(\n{textwrap.indent(body, '  ')}\n)"

    def _named_in_repr(self) -> list[tuple[str, Any]]:
        """Return the names and modules that `repr` lists, those without one too."""
        registry = self.__dict__.get("_registry", {})
        return [
            (name, self.__dict__.get(name))
            for name, role in registry.items()
            if role is MODULE
        ]
