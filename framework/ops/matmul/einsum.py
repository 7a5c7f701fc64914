"""Einsum and tensordot: contractions lowered to batched GEMM."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...base.errors import ShapeError
from ...base.shape import Shape, normalize_dim
from ...base.validation import as_int, as_int_or_ints
from ...dispatch.autocast_policy import (
    autocast_low_precision_of_parts,
    autocast_promote_of_parts,
)
from ...dispatch.diagnosis import told
from ...dispatch.replayable import replayable
from ...eager.base_tensor import TensorCore
from ..reduce.sum import sum
from ..view import expand, permute, reshape
from .diagonal import diagonal
from .matmul import bmm, matmul

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor

_TERM = re.compile(r"([a-zA-Z]*)(\.\.\.)?([a-zA-Z]*)")


class _Named(NamedTuple):
    """Einsum operand: a tensor and a label for each of its dimensions.

    Labels are letters; those of dimensions that an ellipsis stands for are negative
    numbers, counted from the last of them.
    """

    tensor: Tensor
    labels: tuple[str | int, ...]


def _of_lists(given: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Return the equation and operands of operands that lists of numbers follow."""
    pairs, last = len(given) // 2, len(given) % 2
    sides = [_letters(given[2 * at + 1]) for at in range(pairs)]
    result = f"->{_letters(given[-1])}" if last else ""
    return ",".join(sides) + result, given[: 2 * pairs : 2]


def _letters(dims: Any) -> str:
    """Return the letters of dimensions by number: capitals first, as in PyTorch."""
    if isinstance(dims, TensorCore):
        dims = dims.tolist()
    if not isinstance(dims, list | tuple):
        raise TypeError(
            f"einsum: {told(dims)} follows an operand; it must be a list of numbers"
        )
    found = []
    for each in dims:
        if each is Ellipsis:
            found.append("...")
            continue
        number = as_int("einsum: a dimension", each)
        if not 0 <= number < len(_LETTERS):
            raise ShapeError(
                f"einsum: a dimension is {number}; it must be from 0 to"
                f" {len(_LETTERS) - 1}"
            )
        found.append(_LETTERS[number])
    return "".join(found)


# Not of `string`, whose templates take longer to import than all of this file.
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@autocast_low_precision_of_parts
@replayable
def einsum(equation: Any, *operands: Any) -> Tensor:
    """Return sums of products of elements, by Einstein's convention.

    Parameters
    ----------
    equation : str, or the first operand
        A letter for each dimension of each operand, operands separated by commas; then
        "->" and the letters of the result. "..." stands for any number of leading,
        middle or trailing dimensions, which broadcast. A letter twice in an operand
        takes the diagonal. Without "->" the result has the dimensions of "...", then
        the letters that occur once, in alphabetical order.
    *operands : Tensor, or a sequence of them
        Of one dtype. Dimensions of size 1 broadcast. Without an equation each operand
        is followed by its dimensions, as a list of numbers from 0 to 51 and perhaps
        `...`; a list at the end has those of the result.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If the equation is malformed, or does not fit the operands.

    Examples
    --------
    >>> from vkbackend.framework import ones
    >>> einsum("bik,bkj->bij", ones(2, 3, 4), ones(2, 4, 5)).shape
    torch.Size([2, 3, 5])
    """
    if isinstance(equation, TensorCore):
        equation, operands = _of_lists((equation, *operands))
    if not isinstance(equation, str):
        raise TypeError(
            f"einsum: equation is a {type(equation).__name__}; it must be a str"
        )
    if len(operands) == 1 and isinstance(operands[0], tuple | list):
        operands = tuple(operands[0])
    inputs, output = _parsed(equation, operands)
    sizes = _sizes(equation, inputs)
    named = [_diagonal(each) for each in inputs]
    while len(named) > 1:
        kept = {label for each in named[2:] for label in each.labels} | set(output)
        named[:2] = [_contracted(named[0], named[1], kept, sizes)]
    return _arranged(_summed(named[0], set(output)), output)


def _parsed(
    equation: str, operands: Sequence[Tensor]
) -> tuple[list[_Named], tuple[str | int, ...]]:
    """Return operands with their labels, and the labels of the result."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands) or not operands:
        raise ShapeError(
            f"einsum: {equation!r} names {len(terms)} operands;"
            f" {len(operands)} are given"
        )
    inputs = []
    for term, tensor in zip(terms, operands):
        first, dots, last = _split(equation, term)
        covered = tensor.ndim - len(first) - len(last)
        if covered < 0 or (covered and not dots):
            raise ShapeError(
                f"einsum: {term!r} of {equation!r} does not fit a tensor of shape"
                f" {tuple(tensor.shape)}; it must name each of its {tensor.ndim}"
                " dimensions"
            )
        inputs.append(_Named(tensor, (*first, *range(-covered, 0), *last)))
    return inputs, _output(equation, right if arrow else None, inputs)


def _split(equation: str, term: str) -> tuple[str, bool, str]:
    """Return the letters before the ellipsis, whether there is one, those after it."""
    found = _TERM.fullmatch(term)
    if found is None:
        raise ShapeError(
            f"einsum: {term!r} of {equation!r} is no list of dimensions;"
            " it must be letters, with '...' at most once"
        )
    return found[1], found[2] is not None, found[3]


def _output(
    equation: str, written: str | None, inputs: Sequence[_Named]
) -> tuple[str | int, ...]:
    labels = [label for each in inputs for label in each.labels]
    dots = sorted({label for label in labels if isinstance(label, int)})
    letters = [label for label in labels if isinstance(label, str)]
    if written is None:
        return (*dots, *sorted(x for x in set(letters) if letters.count(x) == 1))
    first, has_dots, last = _split(equation, written)
    unknown = set(first + last) - set(letters)
    if unknown or len(set(first + last)) < len(first + last):
        raise ShapeError(
            f"einsum: the result of {equation!r} has {written!r};"
            " its letters must be the operands', each once"
        )
    return (*first, *(dots if has_dots else ()), *last)


def _sizes(equation: str, inputs: Sequence[_Named]) -> dict[str | int, int]:
    """Return the size that each label stands for."""
    sizes: dict[str | int, int] = {}
    for each in inputs:
        for label, size in zip(each.labels, each.tensor.shape):
            known = sizes.get(label, 1)
            if size != known and 1 not in (size, known):
                name = f"{label!r}" if isinstance(label, str) else "'...'"
                raise ShapeError(
                    f"einsum: {name} of {equation!r} has sizes {known} and {size};"
                    " they must be equal or 1"
                )
            sizes[label] = size if known == 1 else known
    return sizes


def _diagonal(named: _Named) -> _Named:
    """Return an operand in which no label occurs twice."""
    x, labels = named
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            rest = [dim for dim in range(x.ndim) if dim not in (first, second)]
            size = max(x.shape[first], x.shape[second])
            square = permute(x, (*rest, first, second))
            square = expand(square, (*square.shape[:-2], size, size))
            x = diagonal(square, 0, -2, -1)
            labels = (*(labels[dim] for dim in rest), label)
    return _Named(x, labels)


def _summed(named: _Named, kept: set[str | int]) -> _Named:
    """Return an operand summed over the labels that occur nowhere else."""
    x, labels = named
    dims = tuple(dim for dim, label in enumerate(labels) if label not in kept)
    if not dims:
        return named
    total = sum(x, dims).to(x.dtype)
    return _Named(total, tuple(label for label in labels if label in kept))


def _arranged(named: _Named, labels: Iterable[str | int]) -> Tensor:
    """Return the tensor with its dimensions in the order of the labels.

    Labels that it has not become dimensions of size 1.
    """
    x, present = named
    wanted = tuple(labels)
    order = [present.index(label) for label in wanted if label in present]
    x = permute(x, tuple(order))
    sizes = iter(x.shape)
    return reshape(x, tuple(next(sizes) if label in present else 1 for label in wanted))


def _contracted(
    a: _Named, b: _Named, kept: set[str | int], sizes: dict[str | int, int]
) -> _Named:
    """Return the contraction of two operands over the labels that are not kept."""
    a = _summed(a, kept | set(b.labels))
    b = _summed(b, kept | set(a.labels))
    shared = [label for label in a.labels if label in b.labels]
    batch = [label for label in shared if label in kept]
    depth = [label for label in shared if label not in kept]
    rows = [label for label in a.labels if label not in shared]
    columns = [label for label in b.labels if label not in shared]
    labels = (*batch, *rows, *columns)
    if not depth:
        return _Named(_arranged(a, labels) * _arranged(b, labels), labels)
    left = _stacked(a, (batch, rows, depth), sizes)
    right = _stacked(b, (batch, depth, columns), sizes)
    return _Named(reshape(bmm(left, right), _all(labels, sizes)), labels)


def _all(labels: Iterable[str | int], sizes: dict[str | int, int]) -> Shape:
    return tuple(sizes[label] for label in labels)


def _stacked(
    named: _Named,
    parts: tuple[list[str | int], list[str | int], list[str | int]],
    sizes: dict[str | int, int],
) -> Tensor:
    """Return an operand with the labels of each part as one dimension."""
    labels = [label for part in parts for label in part]
    full = expand(_arranged(named, labels), _all(labels, sizes))
    return reshape(full, tuple(math.prod(_all(part, sizes)) for part in parts))


def _without_ones(
    x: Tensor, other: Tensor, dims: list[int], others: list[int]
) -> Tensor:
    """Return `x` summed over those dimensions which meet one of size 1."""
    sizes, sizes_of_other = x.layout.shape, other.layout.shape
    ones = [
        dim
        for dim, own in zip(dims, others)
        if sizes_of_other[own] == 1 and sizes[dim] != 1
    ]
    return sum(x, ones, True, dtype=x.dtype) if ones else x


@autocast_promote_of_parts
@replayable
def tensordot(
    a: Tensor, b: Tensor, dims: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Tensor:
    """Return products of elements summed over some dimensions of both tensors.

    Parameters
    ----------
    a, b : Tensor
        Of one dtype.
    dims : int or (sequence of int, sequence of int), default 2
        How many of the last dimensions of `a` meet the first of `b`, in order; or which
        of `a` meet which of `b`.

    Returns
    -------
    Tensor
        The remaining dimensions of `a`, then those of `b`.

    Raises
    ------
    ShapeError
        If there are no such dimensions, or their sizes differ and neither is 1.

    Notes
    -----
    A dimension that meets one of size 1 is summed, as in PyTorch.
    """
    wanted = "an int, or a sequence of ints for each tensor"
    if isinstance(dims, list | tuple) and len(dims) == 2:
        given = (as_int_or_ints("tensordot: dims", each) for each in dims)
        pair = [(each,) if isinstance(each, int) else each for each in given]
    else:
        dims = as_int("tensordot: dims", dims, wanted)
        if not 0 <= dims <= min(len(a.layout.shape), len(b.layout.shape)):
            raise ShapeError(
                f"tensordot: dims is {dims}; it must be from 0 to the number of"
                f" dimensions of a {tuple(a.shape)} and of b {tuple(b.shape)}"
            )
        pair = [
            tuple(range(len(a.layout.shape) - dims, len(a.layout.shape))),
            tuple(range(dims)),
        ]
    first = [normalize_dim("tensordot", dim, len(a.layout.shape)) for dim in pair[0]]
    second = [normalize_dim("tensordot", dim, len(b.layout.shape)) for dim in pair[1]]
    if len(first) == len(second):
        a, b = _without_ones(a, b, first, second), _without_ones(b, a, second, first)
    met, others = (
        [a.layout.shape[dim] for dim in first],
        [b.layout.shape[dim] for dim in second],
    )
    if met != others or len({*first}) < len(first) or len({*second}) < len(second):
        raise ShapeError(
            f"tensordot: dims {tuple(first)} of a {tuple(a.shape)} and {tuple(second)}"
            " of b"
            f" {tuple(b.shape)} do not match; their sizes must be equal, each"
            " dimension once"
        )
    rest_a = [dim for dim in range(len(a.layout.shape)) if dim not in first]
    rest_b = [dim for dim in range(len(b.layout.shape)) if dim not in second]
    rows = tuple(a.layout.shape[dim] for dim in rest_a)
    columns = tuple(b.layout.shape[dim] for dim in rest_b)
    depth = math.prod(met)
    left = reshape(permute(a, (*rest_a, *first)), (math.prod(rows), depth))
    right = reshape(permute(b, (*second, *rest_b)), (depth, math.prod(columns)))
    return reshape(matmul(left, right), (*rows, *columns))
