"""Modules without initial values."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from .. import init
from ..module import Module

M = TypeVar("M", bound=Module)


def skip_init(module_cls: type[M], *args: Any, **kwargs: Any) -> M:
    """Return a module whose parameters and buffers are arbitrary.

    Parameters
    ----------
    module_cls : class
        A module class that takes `device`.
    *args, **kwargs
        Its arguments.

    Raises
    ------
    RuntimeError
        If it is no module class, or takes no `device`.

    Notes
    -----
    Functions of `nn.init` draw nothing meanwhile, so that no generator goes on.
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(
            f"skip_init: {module_cls!r} was given; it must be a subclass of nn.Module"
        )
    if "device" not in inspect.signature(module_cls).parameters:
        known = inspect.signature(module_cls.__init__).parameters.values()
        if all(each.kind is not each.VAR_KEYWORD for each in known):
            raise RuntimeError(
                f"skip_init: {module_cls.__name__} takes no device; it must"
            )
    with init._skipped():
        made = module_cls(*args, **kwargs)
    return made.to_empty(device=kwargs.get("device"))
