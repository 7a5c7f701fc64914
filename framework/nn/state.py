"""Loading named tensors into those of a module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..autograd import no_grad
from ..errors import ShapeError, StateError
from ..tensor import Tensor


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict` did not find a counterpart for."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def load_state(
    name: str, own: Mapping[str, Tensor], given: Mapping[str, Tensor], strict: bool
) -> IncompatibleKeys:
    """Copy the tensors of `given` into those of the same name in `own`.

    Everything is checked before anything is changed.

    Parameters
    ----------
    name : str
        Whose state it is, for error messages.
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
    ShapeError
        If a shape differs, strict or not.
    """
    where = f"load_state_dict: the state does not fit {name}"
    missing = [key for key in own if key not in given]
    unexpected = [key for key in given if key not in own]
    if strict and (missing or unexpected):
        raise StateError(
            f"{where}: missing keys: {', '.join(missing) or 'none'};"
            f" unexpected keys: {', '.join(unexpected) or 'none'};"
            " strict=False ignores both"
        )
    shared = [key for key in own if key in given]
    wrong = [
        f"`{key}` is {given[key].shape}, the module's is {own[key].shape}"
        for key in shared
        if given[key].shape != own[key].shape
    ]
    if wrong:
        raise ShapeError(f"{where}: {'; '.join(wrong)}; shapes must be equal")
    with no_grad():
        for key in shared:
            own[key].copy_(given[key])
    return IncompatibleKeys(missing, unexpected)
