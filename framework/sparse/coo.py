"""Sparse tensors in coordinate format: the places of their elements, and the values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from .. import ops
from ..base.errors import DomainError, ShapeError
from ..base.memory_format import layout, sparse_coo, sparse_csc, sparse_csr
from ..base.shape import normalize_dim
from ..tensor.tensor import Tensor
from ..tensor.wrapper import WrapperTensor
from .places import keys_of, merged, places_of, summed
from .printing import text_of


class SparseTensor(WrapperTensor):
    """Tensor of which only some elements are stored, with their places (COO).

    `sparse_coo_tensor` makes one, or `Tensor.to_sparse`. It is a `Tensor`: what keeps
    zeros works on the stored elements, products with dense tensors are dense, and what
    else there is refuses it with `NotImplementedError`. Gradients flow to the values.

    Attributes
    ----------
    places : Tensor, shape (sparse_dim, nnz), int64
        Internal: where the elements are.
    coalesced : bool
        Internal: whether places are in row-major order, each once.
    """

    __slots__ = ("coalesced", "places")

    kind: ClassVar[layout] = sparse_coo
    title = "sparse COO"
    is_sparse = True
    rules: ClassVar[Mapping[str, Callable[..., Any]]] = {}

    places: Tensor
    coalesced: bool

    @classmethod
    def of(
        cls, places: Tensor, values: Tensor, shape: Sequence[int], coalesced: bool
    ) -> SparseTensor:
        """Return the tensor with these values in these places; nothing is checked."""
        made: SparseTensor = cls.over(values, shape)
        made.places, made.coalesced = places, coalesced
        return made

    def parts(self) -> tuple[Tensor, ...]:
        """Return values and places."""
        return self.elements, self.places

    def static(self) -> tuple[Any, ...]:
        """Return the shape, and whether it is coalesced."""
        return tuple(self.shape), self.coalesced

    @classmethod
    def like(cls, parts: Sequence[Tensor], static: Sequence[Any]) -> Any:
        """Return a tensor of other values and places."""
        values, places = parts
        return SparseTensor.of(places, values, *static)

    def __repr__(self) -> str:
        parts = {"indices": self.places, "values": self.elements}
        return text_of(self, parts, self._nnz())

    # What it is made of

    def _indices(self) -> Tensor:
        """Return the places, (sparse_dim, nnz), also if it is not coalesced."""
        return self.places.detach()

    def _values(self) -> Tensor:
        """Return the values off the tape, also if it is not coalesced."""
        return self.elements.detach()

    def indices(self) -> Tensor:
        """Return the places, (sparse_dim, nnz).

        Raises
        ------
        DomainError
            If it is not coalesced.
        """
        self._need_coalesced("indices")
        return self.places.detach()

    def values(self) -> Tensor:
        """Return the values, (nnz, ...), on the tape.

        Raises
        ------
        DomainError
            If it is not coalesced.
        """
        self._need_coalesced("values")
        return self.elements if self.elements.needs_grad else self.elements.detach()

    def _need_coalesced(self, what: str) -> None:
        if not self.coalesced:
            raise DomainError(
                f"{what}: a sparse tensor of shape {tuple(self.shape)} is not"
                " coalesced, so a place may come twice; call x.coalesce() first"
            )

    def _nnz(self) -> int:
        """Return the number of stored elements, or slices of them."""
        return self.places.layout.shape[1]

    def sparse_dim(self) -> int:
        """Return the number of dimensions that places tell."""
        return self.places.layout.shape[0]

    def dense_dim(self) -> int:
        """Return the number of dimensions of each stored slice."""
        return self.ndim - self.places.layout.shape[0]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Internal: sizes of the sparse dimensions."""
        return self.layout.shape[: self.sparse_dim()]

    def is_coalesced(self) -> bool:
        """Return whether places are in row-major order, each once."""
        return self.coalesced

    def _coalesced_(self, coalesced: bool) -> SparseTensor:
        """Set whether it is taken for coalesced, unchecked; return it."""
        self.coalesced = bool(coalesced)
        return self

    def coalesce(self) -> SparseTensor:
        """Return it with places in row-major order, each once, equal ones summed.

        How many there are is read by the host, which waits for it.
        """
        if self.coalesced:
            return self
        if self._nnz() < 2:
            return SparseTensor.of(self.places, self.elements, self.shape, True)
        places, values = merged(self.places, self.elements, self.sizes)
        return SparseTensor.of(places, values, self.shape, True)

    def gradient_of(self, grad: Tensor) -> SparseTensor:
        """Return the gradient of this tensor for one of its values.

        Of equal places each value has the gradient of the whole element.
        """
        if self.coalesced:
            made: SparseTensor = self.with_elements(grad)
            return made
        keys: Any = ops.unique(keys_of(self.places, self.sizes), return_inverse=True)
        kept, groups = keys
        none = grad.new_zeros((kept.numel(), *grad.shape[1:]))
        values = ops.index_copy(none, 0, groups, grad)
        places = places_of(kept, self.sizes)
        return SparseTensor.of(places, values, self.shape, False)

    # Conversions

    def to_dense(self, dtype: Any = None, *, masked_grad: bool = True) -> Tensor:
        """Return it with all elements, on the tape; equal places are summed."""
        sizes = self.sizes
        count = 1
        for size in sizes:
            count *= size
        keys = keys_of(self.places, sizes)
        found = summed(keys, self.elements, count).reshape(tuple(self.shape))
        return found if dtype is None else found.to(dtype)

    def to_sparse(
        self,
        sparse_dims: int | None = None,
        *,
        layout: Any = None,
        blocksize: Any = None,
        dense_dim: int | None = None,
    ) -> Any:
        """Return it in another sparse layout, or itself; see `Tensor.to_sparse`."""
        if layout is not None and layout is not sparse_coo:
            return self._compressed(layout)
        if sparse_dims is None or sparse_dims == self.sparse_dim():
            return self
        return self.to_dense().to_sparse(sparse_dims)

    def _compressed(self, layout: Any) -> Any:
        if layout not in (sparse_csr, sparse_csc):
            raise NotImplementedError(
                f"to_sparse: there is no layout {layout!r} here; use sparse_coo,"
                " sparse_csr or sparse_csc"
            )
        return ABOVE["compress"](self, layout)

    def to_sparse_coo(self) -> SparseTensor:
        """Return the tensor itself."""
        return self

    def to_sparse_csr(self, dense_dim: int | None = None) -> Any:
        """Return a matrix in compressed rows."""
        return self._compressed(sparse_csr)

    def to_sparse_csc(self, dense_dim: int | None = None) -> Any:
        """Return a matrix in compressed columns."""
        return self._compressed(sparse_csc)

    def sparse_mask(self, mask: Any) -> SparseTensor:
        """Return its elements in the places of another sparse tensor."""
        masked: SparseTensor = self.to_dense().sparse_mask(mask)
        return masked

    def sparse_resize_and_clear_(
        self, size: Sequence[int], sparse_dim: int, dense_dim: int
    ) -> SparseTensor:
        """Give it another shape without stored elements; return it."""
        shape = tuple(size)
        places = self.places.new_zeros((sparse_dim, 0))
        values = self.elements.detach().new_zeros((0, *shape[sparse_dim:]))
        self._take(SparseTensor.of(places, values, shape, True))
        return self

    def zero_(self) -> SparseTensor:
        """Drop all stored elements; return the tensor."""
        return self.sparse_resize_and_clear_(
            tuple(self.shape), self.sparse_dim(), self.dense_dim()
        )

    # Shape

    def permute(self, *order: Any, dims: Any = None) -> SparseTensor:
        """Return it with dimensions in another order, sparse ones before dense ones."""
        given = order if dims is None else dims
        if len(order) == 1 and not isinstance(order[0], int):
            given = order[0]
        wanted = [normalize_dim("permute", each, self.ndim) for each in given]
        return self._permuted(wanted)

    def _permuted(self, order: list[int]) -> SparseTensor:
        cut = self.sparse_dim()
        if sorted(order) != list(range(self.ndim)) or any(
            (at < cut) != (dim < cut) for at, dim in enumerate(order)
        ):
            raise ShapeError(
                f"permute: dims are {tuple(order)} for {cut} sparse and"
                f" {self.dense_dim()} dense dimensions; each of them must stay sparse"
                " or dense"
            )
        if order == list(range(self.ndim)):
            return self
        places, values = self.places, self.elements
        if order[:cut] != list(range(cut)):
            places = ops.stack([places[dim] for dim in order[:cut]])
        if order[cut:] != list(range(cut, self.ndim)):
            values = values.permute(0, *[dim - cut + 1 for dim in order[cut:]])
        shape = [self.shape[dim] for dim in order]
        same = self.coalesced and order[:cut] == list(range(cut))
        return SparseTensor.of(places, values, shape, same)

    def transpose(self, dim0: int, dim1: int) -> SparseTensor:
        """Return it with two dimensions exchanged, both sparse or both dense."""
        order = list(range(self.ndim))
        one = normalize_dim("transpose", dim0, self.ndim)
        two = normalize_dim("transpose", dim1, self.ndim)
        order[one], order[two] = two, one
        return self._permuted(order)

    def t(self) -> SparseTensor:
        """Return a matrix with its dimensions exchanged; a vector as it is."""
        if self.ndim > 2:
            raise ShapeError(
                f"t: x is {tuple(self.shape)}; it must have at most 2 dimensions"
            )
        return self if self.ndim < 2 else self.transpose(0, 1)

    @property
    def T(self) -> SparseTensor:
        """It with its dimensions in reverse order."""
        return self.permute(tuple(range(self.ndim))[::-1])

    @property
    def mT(self) -> SparseTensor:
        """It with its last two dimensions exchanged."""
        return self.transpose(-2, -1)

    def t_(self) -> SparseTensor:
        """Exchange the dimensions of this matrix; return it."""
        self._take(self.t())
        return self

    def transpose_(self, dim0: int, dim1: int) -> SparseTensor:
        """Exchange two dimensions of this tensor; return it."""
        self._take(self.transpose(dim0, dim1))
        return self

    def stride(self, dim: int | None = None) -> Any:
        """Return zeros: it has no strides."""
        return (0,) * self.ndim if dim is None else 0

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Return False: its elements have no order in memory."""
        return False

    def __getitem__(self, index: Any) -> Any:
        """Return what integers choose along the leading sparse dimensions."""
        given = index if isinstance(index, tuple) else (index,)
        found: Any = self
        for each in given:
            if not isinstance(each, int) or isinstance(each, bool):
                self._refuse("getitem: an index that is no int")
            found = found.select(0, each)
        return found

    def select(self, dim: int, index: int) -> Any:
        """Return a slice at one place of a dimension; how many it has is read."""
        at = normalize_dim("select", dim, self.ndim)
        size = self.shape[at]
        if not -size <= index < size:
            raise IndexError(
                f"select: index is {index} for dimension {at} of size {size}"
            )
        return ABOVE["select"](self, at, index % size)

    def unbind(self, dim: int = 0) -> tuple[Any, ...]:
        """Return the slices along a dimension."""
        at = normalize_dim("unbind", dim, self.ndim)
        return tuple([self.select(at, each) for each in range(self.shape[at])])

    def index_select(self, dim: int, index: Tensor) -> Any:
        """Return the slices that an index names; how many elements is read."""
        return ABOVE["index_select"](self, dim, index)

    def sum(self, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        """Return the sum over all dimensions, or some; see `sparse.sum`."""
        if keepdim:
            self._refuse("sum: keepdim")
        return ABOVE["sum"](self, dim, dtype)

    def norm(
        self, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None
    ) -> Tensor:
        """Return the norm of all elements."""
        if dim is not None or keepdim:
            self._refuse("norm: dim")
        return ops.norm(self.coalesce().elements, 2 if p == "fro" else p)

    def any(self, dim: Any = None, keepdim: bool = False) -> Tensor:
        """Return whether some element is not 0."""
        if dim is not None or keepdim:
            self._refuse("any: dim")
        return ops.any(self.coalesce().elements)

    def matmul(self, other: Any) -> Any:
        """Return the matrix product; dense, unless the other is sparse too."""
        return ABOVE["product"](self, other)

    mm = matmul

    def __matmul__(self, other: Any) -> Any:
        return ABOVE["product"](self, other)


ABOVE: dict[str, Callable[..., Any]] = {}
"""Functions of the modules above this one, by name."""
