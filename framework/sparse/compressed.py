"""Sparse matrices in compressed rows (CSR) or columns (CSC)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from .. import ops
from ..base.dtype import int64
from ..base.errors import DomainError
from ..base.memory_format import layout, sparse_coo, sparse_csc, sparse_csr
from ..tensor.tensor import Tensor
from ..tensor.wrapper import WrapperTensor
from .coo import ABOVE, SparseTensor
from .places import summed
from .printing import text_of


class CompressedTensor(WrapperTensor):
    """Sparse matrix whose rows, or columns, lie one after another.

    Attributes
    ----------
    bounds : Tensor, shape (rows + 1,), or (columns + 1,)
        Internal: where each row, or column, begins and ends.
    others : Tensor, shape (nnz,)
        Internal: the columns, or rows, of the elements.
    """

    __slots__ = ("bounds", "others")

    by_rows: ClassVar[bool]
    rules: ClassVar[Mapping[str, Callable[..., Any]]] = {}

    bounds: Tensor
    others: Tensor

    @classmethod
    def of(
        cls, bounds: Tensor, others: Tensor, values: Tensor, shape: Sequence[int]
    ) -> Any:
        """Return the matrix with these values; nothing is checked."""
        made = cls.over(values, shape)
        made.bounds, made.others = bounds, others
        return made

    def parts(self) -> tuple[Tensor, ...]:
        """Return values, bounds and the numbers along the other dimension."""
        return self.elements, self.bounds, self.others

    def static(self) -> tuple[Any, ...]:
        """Return the shape."""
        return (tuple(self.shape),)

    @classmethod
    def like(cls, parts: Sequence[Tensor], static: Sequence[Any]) -> Any:
        """Return a matrix of other values, bounds and numbers."""
        values, bounds, others = parts
        return cls.of(bounds, others, values, *static)

    def __repr__(self) -> str:
        names = ("crow", "col") if self.by_rows else ("ccol", "row")
        parts = {
            f"{names[0]}_indices": self.bounds,
            f"{names[1]}_indices": self.others,
            "values": self.elements,
        }
        return text_of(self, parts, self._nnz())

    def values(self) -> Tensor:
        """Return the values, (nnz,), on the tape."""
        return self.elements if self.elements.needs_grad else self.elements.detach()

    def _values(self) -> Tensor:
        """Return the values off the tape."""
        return self.elements.detach()

    def _nnz(self) -> int:
        """Return the number of stored elements."""
        return self.others.layout.shape[0]

    def sparse_dim(self) -> int:
        """Return 2."""
        return 2

    def dense_dim(self) -> int:
        """Return 0."""
        return 0

    def crow_indices(self) -> Tensor:
        """Return where each row begins and ends, (rows + 1,)."""
        return self._part("crow_indices", True, self.bounds)

    def col_indices(self) -> Tensor:
        """Return the column of each element, (nnz,)."""
        return self._part("col_indices", True, self.others)

    def ccol_indices(self) -> Tensor:
        """Return where each column begins and ends, (columns + 1,)."""
        return self._part("ccol_indices", False, self.bounds)

    def row_indices(self) -> Tensor:
        """Return the row of each element, (nnz,)."""
        return self._part("row_indices", False, self.others)

    def _part(self, name: str, by_rows: bool, part: Tensor) -> Tensor:
        if self.by_rows is not by_rows:
            raise DomainError(
                f"{name}: the tensor is {self.title}, which has none; convert it with"
                f" to_sparse_{'csr' if by_rows else 'csc'}()"
            )
        return part.detach()

    def _lines(self) -> Tensor:
        """Return the row, or column, of each element along the compressed dimension."""
        count = self._nnz()
        numbers = ops.arange_like(self.bounds, (count,), 0, 1, self.bounds.dtype)
        ends = self.bounds[1:]
        return ops.searchsorted(ends.contiguous(), numbers, right=True).to(int64)

    def row_numbers(self) -> Tensor:
        """Return the row of each element."""
        return self._lines() if self.by_rows else self.others

    def column_numbers(self) -> Tensor:
        """Return the column of each element."""
        return self.others if self.by_rows else self._lines()

    def to_sparse(
        self,
        sparse_dims: int | None = None,
        *,
        layout: Any = None,
        blocksize: Any = None,
        dense_dim: int | None = None,
    ) -> Any:
        """Return it in another sparse layout, or itself; see `Tensor.to_sparse`."""
        if layout is self.kind:
            return self
        pair = [self.row_numbers().to(int64), self.column_numbers().to(int64)]
        found = SparseTensor.of(
            ops.stack(pair), self.elements, self.shape, self.by_rows
        )
        return found.to_sparse(layout=sparse_coo if layout is None else layout)

    def to_sparse_coo(self) -> Any:
        """Return it in coordinate format."""
        return self.to_sparse()

    def to_sparse_csr(self, dense_dim: int | None = None) -> Any:
        """Return it in compressed rows."""
        return self.to_sparse(layout=sparse_csr)

    def to_sparse_csc(self, dense_dim: int | None = None) -> Any:
        """Return it in compressed columns."""
        return self.to_sparse(layout=sparse_csc)

    def to_dense(self, dtype: Any = None, *, masked_grad: bool = True) -> Tensor:
        """Return it with all elements, on the tape."""
        dense: Tensor = self.to_sparse().to_dense(dtype)
        return dense

    def transpose(self, dim0: int, dim1: int) -> Any:
        """Return it with its dimensions exchanged: rows become columns."""
        if {dim0 % 2, dim1 % 2} != {0, 1}:
            return self
        other = SparseCscTensor if self.by_rows else SparseCsrTensor
        return other.of(self.bounds, self.others, self.elements, self.shape[::-1])

    def t(self) -> Any:
        """Return it with its dimensions exchanged."""
        return self.transpose(0, 1)

    @property
    def T(self) -> Any:
        """It with its dimensions exchanged."""
        return self.transpose(0, 1)

    mT = T  # noqa: N815 - PyTorch's name

    def __getitem__(self, index: Any) -> Any:
        """Return what integers choose; see `SparseTensor`."""
        return self.to_sparse()[index]

    def sum(self, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        """Return the sum of all elements."""
        if dim is not None or keepdim:
            self._refuse("sum: dim")
        values = self.elements if dtype is None else self.elements.to(dtype)
        return ops.sum(values)

    def matmul(self, other: Any) -> Any:
        """Return the matrix product; dense, unless the other is sparse too."""
        return ABOVE["product"](self, other)

    mm = matmul

    def __matmul__(self, other: Any) -> Any:
        return ABOVE["product"](self, other)

    def stride(self, dim: int | None = None) -> Any:
        """Raise `DomainError`: it has no strides."""
        raise DomainError(f"stride: a {self.title} tensor has no strides")


class SparseCsrTensor(CompressedTensor):
    """Sparse matrix in compressed rows."""

    __slots__ = ()

    kind = sparse_csr
    title = "sparse CSR"
    is_sparse_csr = True
    by_rows = True


class SparseCscTensor(CompressedTensor):
    """Sparse matrix in compressed columns."""

    __slots__ = ()

    kind = sparse_csc
    title = "sparse CSC"
    by_rows = False


def compress(x: SparseTensor, kind: layout) -> Any:
    """Return a sparse matrix in compressed rows or columns."""
    if x.ndim != 2 or x.sparse_dim() != 2:
        raise DomainError(
            f"to_sparse: the tensor is {tuple(x.shape)} with {x.sparse_dim()} sparse"
            " dimensions; only matrices are compressed"
        )
    if kind is sparse_csc:
        return SparseCscTensor.of(*compress_rows(x.t().coalesce()), x.shape)
    return SparseCsrTensor.of(*compress_rows(x.coalesce()), x.shape)


def compress_rows(x: SparseTensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return bounds, columns and values of a coalesced matrix."""
    ones = ops.fill_like(x.places, (x._nnz(),), 1, int64)
    lengths = summed(x.places[0], ones, x.shape[0])
    zero = ops.fill_like(x.places, (1,), 0, int64)
    return ops.cat([zero, ops.cumsum(lengths, 0)]), x.places[1], x.elements


ABOVE["compress"] = compress
