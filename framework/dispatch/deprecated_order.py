"""Deprecated orders of arguments: numbers before the tensors that they multiply.

PyTorch takes `add(input, alpha, other)`, `addcmul(input, value, tensor1, tensor2)` and
`addmm(beta, input, alpha, mat1, mat2)` too, as older programs write; methods have the
tensor itself before these.
"""

from __future__ import annotations

import warnings
from typing import Any

from ..eager.base_tensor import TensorCore

SCALED = {"add": "alpha", "sub": "alpha", "addcmul": "value", "addcdiv": "value"}
"""The keyword of the number, which is given after the first argument."""
PRODUCTS = frozenset({"addmm", "addmv", "addr", "addbmm", "baddbmm"})
"""What takes `beta` and `alpha`, each before what it multiplies."""
TENSORS = {"add": 2, "sub": 2}
"""How many tensors there are, where it is not three."""


def in_order(
    name: str, args: tuple[Any, ...]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return the arguments of a call in a deprecated order as they are given today.

    Parameters
    ----------
    name : str
        The function's.
    args : tuple
        The positional arguments, which the function has refused.

    Returns
    -------
    tuple of tuple and dict, or None
        Tensors and keywords; None where this is no such call.

    Warns
    -----
    UserWarning
        That the order is deprecated.
    """
    if name not in SCALED and name not in PRODUCTS:
        return None
    if name in TENSORS and len(args) == 3 and not isinstance(args[2], TensorCore):
        return _number_last(name, args)
    tensors = tuple(each for each in args if isinstance(each, TensorCore))
    numbers = [each for each in args if isinstance(each, int | float | complex)]
    words = [SCALED[name]] if name in SCALED else ["beta", "alpha"]
    fits = len(tensors) == TENSORS.get(name, 3) and 1 <= len(numbers) <= len(words)
    if not fits or len(tensors) + len(numbers) != len(args):
        return None
    places = range(len(args) - len(tensors) + 1, len(args))
    if any(not isinstance(args[place], TensorCore) for place in places):
        return None
    if name in SCALED and args[0] is not tensors[0]:
        return None
    found = dict(zip(words, numbers))
    _warn(name, found)
    return tensors, found


def _number_last(
    name: str, args: tuple[Any, ...]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return a tensor and a number, which is multiplied by the number before it."""
    tensor, factor, number = args
    real = int | float | complex
    if not (isinstance(tensor, TensorCore) and isinstance(factor, real)):
        return None
    if not isinstance(number, real):
        return None
    found = {SCALED[name]: factor}
    _warn(name, found)
    return (tensor, number), found


def _warn(name: str, found: dict[str, Any]) -> None:
    given = ", ".join(f"{word}={number}" for word, number in found.items())
    warnings.warn(
        f"{name}: numbers are given before the tensors, a deprecated order; write"
        f" {given} behind them",
        UserWarning,
        stacklevel=4,
    )
