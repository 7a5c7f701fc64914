"""Questions about tensors and other objects, as functions."""

from __future__ import annotations

from typing import Any

from .factories import a_tensor
from .storage import UntypedStorage
from .tensor import Tensor


def is_tensor(obj: object) -> bool:
    """Return whether an object is a tensor.

    Parameters
    ----------
    obj : object
        Any.
    """
    return isinstance(obj, Tensor)


def is_storage(obj: object) -> bool:
    """Return whether an object is a storage; see `Tensor.untyped_storage`.

    Parameters
    ----------
    obj : object
        Any.
    """
    return isinstance(obj, UntypedStorage)


def is_floating_point(input: Tensor) -> bool:
    """Return whether the dtype is a float one.

    Parameters
    ----------
    input : Tensor
        Any.
    """
    return a_tensor("is_floating_point", input).is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Return whether the dtype is a complex one.

    Parameters
    ----------
    input : Tensor
        Any.
    """
    return a_tensor("is_complex", input).is_complex()


def is_conj(input: Tensor) -> bool:
    """Return False: elements are stored as they are.

    Parameters
    ----------
    input : Tensor
        Any.
    """
    return a_tensor("is_conj", input).is_conj()


def is_signed(input: Tensor) -> bool:
    """Return whether the dtype has negative numbers.

    Parameters
    ----------
    input : Tensor
        Any.
    """
    return a_tensor("is_signed", input).is_signed()


def is_nonzero(input: Tensor) -> bool:
    """Return whether the only element is not 0; see `Tensor.is_nonzero`.

    Parameters
    ----------
    input : Tensor
        Of one element, any dtype.
    """
    return a_tensor("is_nonzero", input).is_nonzero()


def numel(input: Tensor) -> int:
    """Return the number of elements.

    Parameters
    ----------
    input : Tensor
        Any.
    """
    return a_tensor("numel", input).numel()


def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """Return a copy, on the tape.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    memory_format : object
        Without effect.
    """
    return a_tensor("clone", input).clone(memory_format=memory_format)


def detach(input: Tensor) -> Tensor:
    """Return the same elements off the tape; in-place changes are shared.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    """
    return a_tensor("detach", input).detach()


def typename(obj: Any) -> str:
    """Return the name of an object's type: of a tensor as `Tensor.type` does.

    Parameters
    ----------
    obj : object
        Any.
    """
    if isinstance(obj, Tensor):
        return str(obj.type())
    kind = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(kind, "__module__", None)
    plain = module in (None, "builtins")
    return str(kind.__qualname__) if plain else f"{module}.{kind.__qualname__}"
