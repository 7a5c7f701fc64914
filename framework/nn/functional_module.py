"""Functional modules: layers that apply a function with options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from ..base.parameters import parameter_stars
from ..tensor.tensor import Tensor
from .module import Module

NO_OPTIONS = frozenset({"size_average", "reduce", "device", "dtype"})
"""Parameters of `__init__` that say how to make a layer, not what it does."""


class FunctionalModule(Module):
    """Module that applies a function with its own attributes as options.

    Subclasses name the function in the class statement. Options are the parameters of
    their `__init__`, unless they list others: it keeps each as an attribute under the
    function's name for it.

    Examples
    --------
    >>> class Cut(FunctionalModule, function=ops.clamp_max):
    ...     def __init__(self, max: float) -> None:
    ...         super().__init__()
    ...         self.max = max
    >>> Cut(2.0), Cut(2.0)(fw.tensor([1.0, 3.0])).tolist()
    (Cut(max=2.0), [1.0, 2.0])
    """

    options: ClassVar[tuple[str, ...]] = ()
    """Names of the options."""

    shown: ClassVar[tuple[str, ...] | None] = None
    """Those that `repr` shows; None means all."""

    _function: ClassVar[Callable[..., Any]]

    def __init_subclass__(
        cls, function: Callable[..., Any] | None = None, **options: Any
    ) -> None:
        super().__init_subclass__(**options)
        if function is not None:
            cls._function = staticmethod(function)
        if "__init__" in vars(cls) and "options" not in vars(cls):
            names = tuple(parameter_stars(cls.__init__))[1:]
            cls.options = tuple(name for name in names if name not in NO_OPTIONS)

    def forward(self, input: Tensor) -> Any:
        """Return the function's result."""
        options = {name: getattr(self, name) for name in self.options}
        return type(self)._function(input, **options)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        names = self.options if self.shown is None else self.shown
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
