"""Tensors that share some of their memory, but not all of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..base.errors import ShapeError
from ..base.shape import Layout
from ..eager.base_tensor import TensorCore


def refuse_partial_overlap(name: str, out: TensorCore, given: Iterable[Any]) -> None:
    """Refuse arguments that share a part of the memory which is written.

    One that shares all of it, in the same order, is taken, and so is one with gaps
    between its elements, of which nobody knows.

    Parameters
    ----------
    name : str
        The function's.
    out : Tensor
        What is written.
    given : iterable
        Arguments; tensors among them are looked at, also in tuples and lists.

    Raises
    ------
    ShapeError
        If one of them does.
    """
    for each in given:
        if isinstance(each, tuple | list):
            refuse_partial_overlap(name, out, each)
        elif (
            isinstance(each, TensorCore)
            and each.array is out.array
            and _overlap_in_part(each.layout, out.layout)
        ):
            raise ShapeError(
                f"{name}: an argument of shape {tuple(each.shape)} shares a part of its"
                f" memory with what is written, of shape {tuple(out.shape)}; clone() it"
                " first"
            )


def _overlap_in_part(one: Layout, two: Layout) -> bool:
    """Return whether two layouts of one storage share a part of their elements."""
    if one is two or not one.numel or not two.numel:
        return False
    if not (_is_dense(one) and _is_dense(two)):
        return False
    if one.offset == two.offset and one.numel == two.numel:
        return _moving(one) != _moving(two)
    first, last = (one, two) if one.offset < two.offset else (two, one)
    return first.offset + first.numel > last.offset


def _is_dense(layout: Layout) -> bool:
    """Return whether the elements lie side by side in some order of dimensions."""
    expected = 1
    for stride, size in sorted(_moving(layout), key=lambda pair: pair[0]):
        if stride != expected:
            return False
        expected *= size
    return True


def _moving(layout: Layout) -> list[tuple[int, int]]:
    """Return the strides and sizes of dimensions of more than one element."""
    pairs = zip(layout.strides, layout.shape, strict=True)
    return [(stride, size) for stride, size in pairs if size > 1]
