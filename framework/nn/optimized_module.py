"""What `fw.compile` makes of a module."""

from __future__ import annotations

from typing import Any

from .module import Module


class OptimizedModule(Module):
    """Module that calls another, `_orig_mod`, whose attributes it shows as its own.

    Parameters
    ----------
    mod : Module
        What is called. Its parameters keep being its own; in `state_dict` and
        `named_parameters` their paths begin with "_orig_mod.".
    dynamo_ctx
        Has no effect.

    Notes
    -----
    A training program calls a module and goes backward outside it, so the call itself
    is not replayed: `fw.jit` the whole step for that.
    """

    def __init__(self, mod: Module, dynamo_ctx: Any = None) -> None:
        super().__init__()
        super().__setattr__("_orig_mod", mod)

    @property
    def training(self) -> bool:  # type: ignore[override]
        """Whether the module is in training mode."""
        return bool(self._orig_mod.training)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self._orig_mod(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        mod = self.__dict__.get("_orig_mod")
        # Of copies and pickles, whose methods are asked for, this module is a part.
        if mod is None or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        mod = self.__dict__.get("_orig_mod")
        if mod is None or name == "_orig_mod" or name in self.__dict__:
            super().__setattr__(name, value)
        else:
            setattr(mod, name, value)

    def __delattr__(self, name: str) -> None:
        if name in self.__dict__:
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def __len__(self) -> int:
        return len(self._orig_mod)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})
