"""Which modules of a tree are wrapped in another module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ..nn import ModuleDict, ModuleList, MultiheadAttention
from ..nn.module import Module

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "enable_wrap",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
    "wrap",
]

_WRAPPERS: list[tuple[Callable[..., Module], dict[str, Any]]] = []


@contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """Let `wrap` make modules of a class within a block, with these keywords."""
    _WRAPPERS.append((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _WRAPPERS.pop()


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """Return a module wrapped within `enable_wrap`, and as it is elsewhere."""
    if not _WRAPPERS:
        return module
    made, keywords = _WRAPPERS[-1]
    return made(module, **{**keywords, **wrap_overrides})


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Return True, of each module."""
    return True


def transformer_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    transformer_layer_cls: set[type[Module]],
) -> bool:
    """Return whether to go on below a module, or whether it is one of some classes."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def lambda_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    lambda_fn: Callable[[Module], bool],
) -> bool:
    """Return whether to go on below a module, or what a function says of it."""
    return recurse or lambda_fn(module)


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = 100_000_000,
    force_leaf_modules: set[type[Module]] | None = None,
    exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:
    """Return whether to go on below a module, or whether it has enough parameters.

    `MultiheadAttention` is never divided and lists are never wrapped, unless other
    classes are given.
    """
    leaves = tuple(force_leaf_modules or (MultiheadAttention,))
    excluded = tuple(exclude_wrap_modules or (ModuleList, ModuleDict))
    large = nonwrapped_numel >= min_num_params
    if recurse:
        return large and not isinstance(module, leaves)
    return large and not isinstance(module, excluded)


class ModuleWrapPolicy:
    """Wraps the modules of some classes."""

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._module_classes = set(module_classes)
        self._module_classes_str = str(self._module_classes)

    def __call__(
        self, module: Module, recurse: bool, *args: Any, **kwargs: Any
    ) -> bool:
        """Return whether to go on below a module, or whether it is wrapped."""
        return recurse or isinstance(module, tuple(self._module_classes))

    def __repr__(self) -> str:
        """Return the classes too."""
        return f"{super().__repr__()}({self._module_classes_str})"


class CustomPolicy:
    """Wraps the modules of which a function returns True, or the wrapper's keywords."""

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn
