"""Conversions to sparse tensors, and what only those have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from ...base.errors import DomainError
from ...base.memory_format import sparse_csc, sparse_csr

if TYPE_CHECKING:
    from ...base.memory_format import layout as layout_token
    from ..tensor import Tensor

CONVERSIONS: dict[str, Callable[..., Any]] = {}
"""Conversions to sparse tensors, whose package is above this one."""


def _refuse(name: str, wanted: str) -> NoReturn:
    raise DomainError(
        f"{name}: the tensor is strided; it must be {wanted}: call to_sparse()"
    )


class SparseMethods:
    """What `Tensor` has of sparse tensors; a dense one can be converted."""

    __slots__ = ()

    def to_sparse(
        self: Tensor,
        sparse_dims: int | None = None,
        *,
        layout: layout_token | None = None,
        blocksize: Any = None,
        dense_dim: int | None = None,
    ) -> Any:
        """Return the elements that are not zero, with their places.

        How many there are is read by the host, which waits for it.

        Parameters
        ----------
        sparse_dims : int or None
            How many leading dimensions are sparse; None means all.
        layout : layout or None
            None means `sparse_coo`; `sparse_csr` and `sparse_csc` take matrices.
        blocksize, dense_dim : None
            Not taken, as there are no block layouts.

        Raises
        ------
        ShapeError
            If there are not as many dimensions.
        """
        return CONVERSIONS["to_sparse"](
            self, sparse_dims, layout=layout, blocksize=blocksize, dense_dim=dense_dim
        )

    def to_sparse_coo(self: Tensor) -> Any:
        """Return it as a sparse COO tensor; see `to_sparse`."""
        return CONVERSIONS["to_sparse"](self)

    def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Any:
        """Return a matrix in compressed rows; `dense_dim` as in `to_sparse`.

        Parameters
        ----------
        dense_dim : int or None
            As in `to_sparse`.
        """
        return CONVERSIONS["to_sparse"](self, layout=sparse_csr)

    def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> Any:
        """Return a matrix in compressed columns; `dense_dim` as in `to_sparse`.

        Parameters
        ----------
        dense_dim : int or None
            As in `to_sparse`.
        """
        return CONVERSIONS["to_sparse"](self, layout=sparse_csc)

    def sparse_mask(self: Tensor, mask: Any) -> Any:
        """Return the elements in the places of a sparse COO tensor of the same shape.

        Parameters
        ----------
        mask : SparseTensor, shape of this one
            The places.

        Raises
        ------
        NotImplementedError
            If the mask is no sparse COO tensor.
        ShapeError
            If shapes differ.
        """
        return CONVERSIONS["sparse_mask"](self, mask)

    def sparse_dim(self: Tensor) -> int:
        """Return the number of sparse dimensions: 0 of a dense tensor."""
        return 0

    def dense_dim(self: Tensor) -> int:
        """Return the number of dense dimensions: all of a dense tensor."""
        return self.ndim

    def coalesce(self: Tensor) -> Any:
        """Raise `DomainError`: the tensor is not sparse."""
        _refuse("coalesce", "sparse COO")

    def is_coalesced(self: Tensor) -> bool:
        """Raise `DomainError`: the tensor is not sparse."""
        _refuse("is_coalesced", "sparse COO")

    def indices(self: Tensor) -> Any:
        """Raise `DomainError`: the tensor is not sparse."""
        _refuse("indices", "sparse COO")

    def values(self: Tensor) -> Any:
        """Raise `DomainError`: the tensor is not sparse."""
        _refuse("values", "sparse")

    def crow_indices(self: Tensor) -> Any:
        """Raise `DomainError`: the tensor is not sparse."""
        _refuse("crow_indices", "sparse CSR")

    def col_indices(self: Tensor) -> Any:
        """Raise `DomainError`: the tensor is not sparse."""
        _refuse("col_indices", "sparse CSR")

    def ccol_indices(self: Tensor) -> Any:
        """Raise `DomainError`: the tensor is not sparse."""
        _refuse("ccol_indices", "sparse CSC")

    def row_indices(self: Tensor) -> Any:
        """Raise `DomainError`: the tensor is not sparse."""
        _refuse("row_indices", "sparse CSC")

    def _indices(self: Tensor) -> Any:
        """Raise `DomainError`: the tensor is not sparse."""
        _refuse("_indices", "sparse COO")

    def _values(self: Tensor) -> Any:
        """Raise `DomainError`: the tensor is not sparse."""
        _refuse("_values", "sparse")

    def _nnz(self: Tensor) -> int:
        """Raise `DomainError`: the tensor is not sparse."""
        _refuse("_nnz", "sparse")
