"""What programs for `torch.func` call beside the transforms."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ..base.errors import GradArgumentError
from ..nn import BatchNorm1d, BatchNorm2d, BatchNorm3d, Module
from ..tensor.tensor import Tensor
from .batched_tensor import real_of

Root = TypeVar("Root", bound=Module)


def functionalize(
    func: Callable[..., Any], *, remove: str = "mutations"
) -> Callable[..., Any]:
    """Return the function: changes in place make new values here in any case.

    Parameters
    ----------
    func : callable
    remove : {"mutations", "mutations_and_views"}
        Accepted.

    Raises
    ------
    GradArgumentError
        If `remove` is something else.
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise GradArgumentError(
            f'functionalize: remove is {remove!r}; it must be "mutations" or'
            ' "mutations_and_views"'
        )

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return call


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """Return the real tensor behind a batched one, with all batches in front.

    Parameters
    ----------
    tensor : Tensor
        Any; one that is not batched is returned as it is.
    recurse : bool, default True
        Without effect: all levels of batches are taken off.
    """
    return real_of(tensor)


def replace_all_batch_norm_modules_(root: Root) -> Root:
    """Have batch norms use the statistics of each batch, and keep none; return root.

    Running statistics are changed in place, which a batch of `vmap` cannot do.

    Parameters
    ----------
    root : Module
        Itself a batch norm, or one that has them.
    """
    for module in root.modules():
        if isinstance(module, BatchNorm1d | BatchNorm2d | BatchNorm3d):
            module.running_mean = module.running_var = None
            module.num_batches_tracked = None
            module.track_running_stats = False
    return root
