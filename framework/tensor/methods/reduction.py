"""Methods for functions of the elements along dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from ... import ops
from .operand import Number

if TYPE_CHECKING:
    from ...base.dtype import DTypeLike
    from ...ops.reduce.minmax import ValuesIndices
    from ...ops.reduce.sum import Dims
    from ..tensor import Tensor


class ReductionMethods:
    """What `Tensor` has of `ops` that reduce, scan and normalise; see there."""

    __slots__ = ()

    def sum(
        self: Tensor,
        dim: Dims = None,
        keepdim: bool = False,
        *,
        dtype: DTypeLike | None = None,
    ) -> Tensor:
        """See `ops.sum`."""
        return ops.sum(self, dim, keepdim, dtype=dtype)

    def mean(
        self: Tensor,
        dim: Dims = None,
        keepdim: bool = False,
        *,
        dtype: DTypeLike | None = None,
    ) -> Tensor:
        """See `ops.mean`."""
        return ops.mean(self, dim, keepdim, dtype=dtype)

    def prod(
        self: Tensor,
        dim: Dims = None,
        keepdim: bool = False,
        *,
        dtype: DTypeLike | None = None,
    ) -> Tensor:
        """See `ops.prod`."""
        return ops.prod(self, dim, keepdim, dtype=dtype)

    def nansum(
        self: Tensor,
        dim: Dims = None,
        keepdim: bool = False,
        *,
        dtype: DTypeLike | None = None,
    ) -> Tensor:
        """See `ops.nansum`."""
        return ops.nansum(self, dim, keepdim, dtype=dtype)

    def nanmean(
        self: Tensor,
        dim: Dims = None,
        keepdim: bool = False,
        *,
        dtype: DTypeLike | None = None,
    ) -> Tensor:
        """See `ops.nanmean`."""
        return ops.nanmean(self, dim, keepdim, dtype=dtype)

    def amax(self: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
        """See `ops.amax`."""
        return ops.amax(self, dim, keepdim)

    def amin(self: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
        """See `ops.amin`."""
        return ops.amin(self, dim, keepdim)

    def all(self: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
        """See `ops.all`."""
        return ops.all(self, dim, keepdim)

    def any(self: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
        """See `ops.any`."""
        return ops.any(self, dim, keepdim)

    def logsumexp(self: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
        """See `ops.logsumexp`."""
        return ops.logsumexp(self, dim, keepdim)

    def argmax(self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """See `ops.argmax`."""
        return ops.argmax(self, dim, keepdim)

    def argmin(self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """See `ops.argmin`."""
        return ops.argmin(self, dim, keepdim)

    @overload
    def max(self: Tensor) -> Tensor: ...
    @overload
    def max(self: Tensor, dim: Tensor) -> Tensor: ...
    @overload
    def max(self: Tensor, dim: int, keepdim: bool = False) -> ValuesIndices: ...
    def max(
        self: Tensor, dim: Tensor | int | None = None, keepdim: bool = False
    ) -> Tensor | ValuesIndices:
        """See `ops.max`."""
        return ops.max(self, dim, keepdim)  # type: ignore[arg-type]  # dim may be a tensor

    @overload
    def min(self: Tensor) -> Tensor: ...
    @overload
    def min(self: Tensor, dim: Tensor) -> Tensor: ...
    @overload
    def min(self: Tensor, dim: int, keepdim: bool = False) -> ValuesIndices: ...
    def min(
        self: Tensor, dim: Tensor | int | None = None, keepdim: bool = False
    ) -> Tensor | ValuesIndices:
        """See `ops.min`."""
        return ops.min(self, dim, keepdim)  # type: ignore[arg-type]  # dim may be a tensor

    def median(
        self: Tensor, dim: int | None = None, keepdim: bool = False
    ) -> Tensor | ValuesIndices:
        """See `ops.median`."""
        return ops.median(self, dim, keepdim)

    def var(
        self: Tensor, dim: Dims = None, *, correction: Number = 1, keepdim: bool = False
    ) -> Tensor:
        """See `ops.var`."""
        return ops.var(self, dim, correction=correction, keepdim=keepdim)

    def std(
        self: Tensor, dim: Dims = None, *, correction: Number = 1, keepdim: bool = False
    ) -> Tensor:
        """See `ops.std`."""
        return ops.std(self, dim, correction=correction, keepdim=keepdim)

    def norm(
        self: Tensor, p: Number | str = 2, dim: Dims = None, keepdim: bool = False
    ) -> Tensor:
        """See `ops.norm`."""
        return ops.norm(self, p, dim, keepdim)

    def count_nonzero(self: Tensor, dim: Dims = None) -> Tensor:
        """See `ops.count_nonzero`."""
        return ops.count_nonzero(self, dim)

    def cumsum(self: Tensor, dim: int, *, dtype: DTypeLike | None = None) -> Tensor:
        """See `ops.cumsum`."""
        return ops.cumsum(self, dim, dtype=dtype)

    def cumprod(self: Tensor, dim: int, *, dtype: DTypeLike | None = None) -> Tensor:
        """See `ops.cumprod`."""
        return ops.cumprod(self, dim, dtype=dtype)

    def diff(self: Tensor, n: int = 1, dim: int = -1) -> Tensor:
        """See `ops.diff`."""
        return ops.diff(self, n, dim)

    def trace(self: Tensor) -> Tensor:
        """See `ops.trace`."""
        return ops.trace(self)

    def softmax(
        self: Tensor, dim: int = -1, *, dtype: DTypeLike | None = None
    ) -> Tensor:
        """See `ops.softmax`."""
        return ops.softmax(self, dim, dtype=dtype)

    def log_softmax(
        self: Tensor, dim: int = -1, *, dtype: DTypeLike | None = None
    ) -> Tensor:
        """See `ops.log_softmax`."""
        return ops.log_softmax(self, dim, dtype=dtype)
