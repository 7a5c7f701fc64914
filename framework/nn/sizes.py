"""Sizes for each dimension of a window, as layers of one's own take them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any, TypeVar

from ..tensor.tensor import Tensor

__all__ = ["consume_prefix_in_state_dict_if_present"]

T = TypeVar("T")

_size_any_t = int | tuple[int, ...]
_size_1_t = int | tuple[int]
_size_2_t = int | tuple[int, int]
_size_3_t = int | tuple[int, int, int]
_size_4_t = int | tuple[int, int, int, int]
_size_6_t = int | tuple[int, int, int, int, int, int]
_size_any_opt_t = int | None | tuple[int | None, ...]
_size_2_opt_t = int | None | tuple[int | None, int | None]
_size_3_opt_t = int | None | tuple[int | None, int | None, int | None]
_ratio_any_t = float | tuple[float, ...]
_ratio_2_t = float | tuple[float, float]
_ratio_3_t = float | tuple[float, float, float]
_tensor_list_t = Tensor | list[Tensor]
_maybe_indices_t = Tensor | tuple[Tensor, Tensor]


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that repeats a number `n` times, and makes others a tuple."""

    def parse(x: Any) -> tuple[Any, ...]:
        """Return one value for each dimension."""
        if isinstance(x, Iterable):
            return tuple(x)
        return tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: Iterable[T], n: int) -> tuple[T, ...]:
    """Return the elements in reverse order, each `n` times, as padding has them."""
    return tuple(x for x in [*t][::-1] for _ in range(n))


def consume_prefix_in_state_dict_if_present(
    state_dict: dict[str, Any], prefix: str
) -> None:
    """Take a prefix off the names of a state, in place.

    Parameters
    ----------
    state_dict : dict
    prefix : str
        For example "module.", which a wrapper left.
    """
    for name in [*state_dict]:
        if name.startswith(prefix):
            state_dict[name[len(prefix) :]] = state_dict.pop(name)
