"""Methods for functions of the elements along dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from ... import ops
from ...base.validation import several

if TYPE_CHECKING:
    from ...ops.reduce.minmax import ValuesIndices
    from ..tensor import Tensor


class ReductionMethods:
    """What `Tensor` has of `ops` that reduce, scan and normalise; see there."""

    __slots__ = ()

    sum = ops.sum
    mean = ops.mean
    prod = ops.prod
    nansum = ops.nansum
    nanmean = ops.nanmean
    amax = ops.amax
    amin = ops.amin
    all = ops.all
    any = ops.any
    logsumexp = ops.logsumexp
    argmax = ops.argmax
    argmin = ops.argmin

    @overload
    def max(self: Tensor) -> Tensor: ...
    @overload
    def max(self: Tensor, dim: Tensor) -> Tensor: ...
    @overload
    def max(self: Tensor, *, other: Tensor) -> Tensor: ...
    @overload
    def max(self: Tensor, dim: int, keepdim: bool = False) -> ValuesIndices: ...
    @overload
    def max(self: Tensor, *, axis: int, keepdim: bool = False) -> ValuesIndices: ...
    def max(
        self: Tensor,
        dim: Tensor | int | None = None,
        keepdim: bool = False,
        *,
        axis: int | None = None,
        other: Tensor | None = None,
    ) -> Tensor | ValuesIndices:
        """Return the largest element; along a dimension, also where it is.

        Parameters
        ----------
        dim : int, Tensor or None
            None takes all elements. A tensor means `maximum`.
        keepdim : bool, default False
            Keep the dimension with size 1.
        axis : int or None
            Another name of `dim`.
        other : Tensor or None
            Another name of a `dim` that is a tensor.

        Returns
        -------
        Tensor, or ValuesIndices
            With a dimension (values, indices): NaN if there is one, and of equal ones
            the first.

        Raises
        ------
        ShapeError
            If there are no elements to choose from.
        """
        given = [each for each in (dim, axis, other) if each is not None]
        if len(given) > 1:
            raise TypeError("max: dim, axis and other are one argument; give one")
        over: Any = given[0] if given else None
        found: Tensor | ValuesIndices = ops.max(self, over, keepdim)
        return found

    @overload
    def min(self: Tensor) -> Tensor: ...
    @overload
    def min(self: Tensor, dim: Tensor) -> Tensor: ...
    @overload
    def min(self: Tensor, *, other: Tensor) -> Tensor: ...
    @overload
    def min(self: Tensor, dim: int, keepdim: bool = False) -> ValuesIndices: ...
    @overload
    def min(self: Tensor, *, axis: int, keepdim: bool = False) -> ValuesIndices: ...
    def min(
        self: Tensor,
        dim: Tensor | int | None = None,
        keepdim: bool = False,
        *,
        axis: int | None = None,
        other: Tensor | None = None,
    ) -> Tensor | ValuesIndices:
        """Return the smallest element; along a dimension, also where it is.

        Parameters
        ----------
        dim : int, Tensor or None
            None takes all elements. A tensor means `minimum`.
        keepdim : bool, default False
            Keep the dimension with size 1.
        axis : int or None
            Another name of `dim`.
        other : Tensor or None
            Another name of a `dim` that is a tensor.

        Returns
        -------
        Tensor, or ValuesIndices
            With a dimension (values, indices): NaN if there is one, and of equal ones
            the first.

        Raises
        ------
        ShapeError
            If there are no elements to choose from.
        """
        given = [each for each in (dim, axis, other) if each is not None]
        if len(given) > 1:
            raise TypeError("min: dim, axis and other are one argument; give one")
        over: Any = given[0] if given else None
        found: Tensor | ValuesIndices = ops.min(self, over, keepdim)
        return found

    median = ops.median
    var = ops.var
    std = ops.std
    norm = ops.norm

    def count_nonzero(self: Tensor, *dim: Any, **named: Any) -> Tensor:
        """Return how many elements are not 0; see `ops.count_nonzero`.

        Parameters
        ----------
        *dim, **named : int, or one sequence of int
            Over which dimensions, as `dim`; none means all.
        """
        return ops.count_nonzero(self, *several(dim), **named)

    cumsum = ops.cumsum
    cumprod = ops.cumprod
    diff = ops.diff
    trace = ops.trace
    softmax = ops.softmax
    log_softmax = ops.log_softmax
