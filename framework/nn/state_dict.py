"""State dict loading: named tensors into those of a module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..autograd.engine import no_grad
from ..base import trace_hooks
from ..base.dtype import can_cast
from ..base.errors import DTypeError, ShapeError, StateError
from ..eager.base_tensor import evaluate
from ..tensor.inplace import restorer, transaction
from ..tensor.tensor import Tensor


class IncompatibleKeys(NamedTuple):
    """Keys of `load_state_dict` without a counterpart."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def load_state(
    name: str, own: Mapping[str, Tensor], given: Mapping[str, Tensor], strict: bool
) -> IncompatibleKeys:
    """Copy the tensors of `given` into those of the same name in `own`.

    Everything is checked, and computed, before anything is changed; an interrupt leaves
    all of the old tensors, or all of the new.

    Parameters
    ----------
    name : str
        Name of the module, for error messages.
    own : mapping of str to Tensor
        Changed in place.
    given : mapping of str to Tensor
        On any device, in any dtype that casts.
    strict : bool
        Whether the names must be the same on both sides.

    Raises
    ------
    StateError
        If `strict` and names differ.
    TypeError
        If the state is no mapping, or a value no tensor.
    ShapeError
        If a shape differs, strict or not.
    DTypeError
        If floats are given for integers or bools, or integers for bools.
    """
    where = f"load_state_dict: the state does not fit {name}"
    if not isinstance(given, Mapping):
        raise TypeError(
            f"{where}: it is of type {type(given).__name__};"
            " it must be a dict of tensors, as state_dict() gives"
        )
    missing = [key for key in own if key not in given]
    unexpected = [key for key in given if key not in own]
    if strict and (missing or unexpected):
        raise StateError(
            f"{where}: missing keys: {', '.join(missing) or 'none'};"
            f" unexpected keys: {', '.join(map(str, unexpected)) or 'none'};"
            " strict=False ignores both"
        )
    shared = [key for key in own if key in given]
    others = [
        f"`{key}` is of type {type(given[key]).__name__}"
        for key in shared
        if not isinstance(given[key], Tensor)
    ]
    if others:
        raise TypeError(f"{where}: {'; '.join(others)}; it must be a tensor")
    wrong = [
        f"`{key}` is {tuple(given[key].shape)}, the module's is {tuple(own[key].shape)}"
        for key in shared
        if given[key].shape != own[key].shape
    ]
    if wrong:
        raise ShapeError(f"{where}: {'; '.join(wrong)}; shapes must be equal")
    kinds = [
        f"`{key}` is {given[key].dtype.name}, the module's is {own[key].dtype.name}"
        for key in shared
        if not can_cast(given[key].dtype, own[key].dtype)
    ]
    if kinds:
        raise DTypeError(f"{where}: {'; '.join(kinds)}; cast it first")
    with no_grad():
        # Conversions may fail, so they come first: no part is loaded alone.
        ready = [given[key].to(own[key].device).to(own[key].dtype) for key in shared]
        if ready and not trace_hooks.running:
            evaluate(*ready)

        def copy() -> None:
            for key, tensor in zip(shared, ready):
                own[key].copy_(tensor)

        transaction(copy, restorer(own[key] for key in shared))
    return IncompatibleKeys(missing, unexpected)
