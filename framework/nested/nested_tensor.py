"""Nested tensors: sequences of different lengths, one behind the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from .. import ops
from ..base.errors import DomainError, ShapeError
from ..base.memory_format import jagged, layout
from ..base.shape import normalize_dim
from ..tensor.tensor import Tensor
from ..tensor.wrapper import WrapperTensor
from .ragged import RaggedSize


class NestedTensor(WrapperTensor):
    """Batch of sequences of different lengths, of the jagged layout.

    `nested.nested_tensor` makes one. Its shape is (sequences, ragged, ...), or with the
    ragged dimension third after `transpose(1, 2)`. Element-wise operations, `linear`,
    norms and softmax of the last dimension work on all elements at once.

    Attributes
    ----------
    ragged : RaggedSize
        Internal: the size that differs.
    ragged_dim : int
        Internal: which dimension has it, 1 or 2.
    """

    __slots__ = ("ragged", "ragged_dim")

    kind: ClassVar[layout] = jagged
    title = "nested"
    is_nested = True
    rules: ClassVar[Mapping[str, Callable[..., Any]]] = {}

    ragged: RaggedSize
    ragged_dim: int

    @classmethod
    def of(cls, values: Tensor, ragged: RaggedSize, ragged_dim: int = 1) -> Any:
        """Return the tensor of all elements, (elements, ...); nothing is checked."""
        rest = list(values.layout.shape[1:])
        rest.insert(ragged_dim - 1, ragged)
        made = cls.over(values, (ragged.offsets.shape[0] - 1, *rest))
        made.ragged, made.ragged_dim = ragged, ragged_dim
        return made

    def parts(self) -> tuple[Tensor, ...]:
        """Return elements and offsets."""
        return self.elements, self.ragged.offsets

    def static(self) -> tuple[Any, ...]:
        """Return the ragged size, and its dimension."""
        return self.ragged, self.ragged_dim

    @classmethod
    def like(cls, parts: Sequence[Tensor], static: Sequence[Any]) -> Any:
        """Return a tensor of other elements and offsets."""
        values, offsets = parts
        ragged, ragged_dim = static
        kept = offsets is ragged.offsets
        return cls.of(values, ragged if kept else RaggedSize(offsets), ragged_dim)

    def with_elements(self, elements: Tensor) -> Any:
        """Return a tensor with other elements in sequences of the same lengths."""
        return NestedTensor.of(elements, self.ragged, self.ragged_dim)

    def clone(self, *, memory_format: Any = None) -> Any:
        """Return a copy of the elements, on the tape."""
        return self.with_elements(self.elements.clone())

    def __repr__(self) -> str:
        sizes = ", ".join(map(repr, self.shape))
        grad = ", requires_grad=True" if self.requires_grad else ""
        return (
            f"NestedTensor(size=({sizes}), offsets={self.ragged.offsets},"
            f" contiguous=True{grad})"
        )

    def numel(self) -> int:
        """Return the number of elements of all sequences."""
        return self.elements.numel()

    def __len__(self) -> int:
        return self.shape[0]

    def values(self) -> Tensor:
        """Return all elements, one sequence behind the other, on the tape."""
        return self.elements if self.ragged_dim == 1 else self.elements.transpose(0, 1)

    def offsets(self) -> Tensor:
        """Return where each sequence begins and ends, (sequences + 1,)."""
        return self.ragged.offsets

    def lengths(self) -> None:
        """Return None: sequences lie without gaps."""

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Return whether sequences lie one behind the other."""
        return self.ragged_dim == 1

    def contiguous(self, memory_format: Any = None) -> Any:
        """Return the tensor itself."""
        return self

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """Return the sequences; their lengths are read the first time."""
        if dim != 0:
            self._refuse(f"unbind: dimension {dim}")
        found = []
        bounds = self.ragged.bounds()
        for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist()):
            part = self.elements.narrow(0, start, end - start)
            found.append(part if self.ragged_dim == 1 else part.transpose(0, 1))
        return tuple(found)

    def __iter__(self) -> Any:
        return iter(self.unbind())

    def __getitem__(self, index: Any) -> Any:
        """Return one sequence."""
        if type(index) is not int:
            self._refuse("getitem: an index that is no int")
        return self.unbind()[index]

    def transpose(self, dim0: int, dim1: int) -> Any:
        """Return it with dimensions exchanged: 1 and 2, or two without the ragged."""
        one = normalize_dim("transpose", dim0, self.ndim)
        two = normalize_dim("transpose", dim1, self.ndim)
        if {one, two} == {1, 2}:
            return NestedTensor.of(self.elements, self.ragged, 3 - self.ragged_dim)
        if 0 in (one, two) or self.ragged_dim in (one, two):
            self._refuse(f"transpose: dimensions {dim0} and {dim1}")
        at = [each if each < self.ragged_dim else each - 1 for each in (one, two)]
        places = [each if each else 1 for each in at]
        return self.with_elements(self.elements.transpose(*places))

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Any:
        """Return it with one dimension, behind the ragged one, split into several."""
        at = normalize_dim("unflatten", dim, self.ndim)
        if at <= self.ragged_dim:
            self._refuse(f"unflatten: dimension {dim}")
        return self.with_elements(self.elements.unflatten(at - 1, tuple(sizes)))

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Any:
        """Return it with dimensions behind the ragged one as one."""
        start = normalize_dim("flatten", start_dim, self.ndim)
        end = normalize_dim("flatten", end_dim, self.ndim)
        if start <= self.ragged_dim:
            self._refuse(f"flatten: dimension {start_dim}")
        return self.with_elements(self.elements.flatten(start - 1, end - 1))

    def matmul(self, other: Tensor) -> Any:
        """Return the product of each sequence with one matrix."""
        if isinstance(other, WrapperTensor) or other.ndim != 2:
            self._refuse("matmul: an operand that is no matrix")
        return self.with_elements(self.elements @ other)

    __matmul__ = matmul

    def sum(self, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        """Return the sum of all elements, of each sequence (dim=1), or behind it."""
        return self._reduced("sum", dim, keepdim, dtype)

    def mean(self, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        """Return the mean of all elements, of each sequence (dim=1), or behind it."""
        return self._reduced("mean", dim, keepdim, dtype)

    def _reduced(self, name: str, dim: Any, keepdim: bool, dtype: Any) -> Any:
        values = self.elements if dtype is None else self.elements.to(dtype)
        function: Any = ops.sum if name == "sum" else ops.mean
        if dim is None:
            return function(values)
        given = [dim] if isinstance(dim, int) else list(dim)
        dims = [normalize_dim(name, each, self.ndim) for each in given]
        if dims == [self.ragged_dim] == [1]:
            total = ops.index_add(
                values.new_zeros((self.shape[0], *values.shape[1:])),
                0,
                self.ragged.owners(values),
                values,
            )
            if name == "mean":
                lengths = self.ragged.offsets.diff().to(values.dtype)
                total = total / lengths.reshape((-1, *[1] * (values.ndim - 1)))
            return total.unsqueeze(1) if keepdim else total
        if min(dims) <= self.ragged_dim:
            self._refuse(f"{name}: dimension {dim}")
        return self.with_elements(function(values, [at - 1 for at in dims], keepdim))

    def to_padded_tensor(self, padding: float, output_size: Any = None) -> Tensor:
        """Return a dense tensor, of sequences padded to one length; on the tape.

        That is the longest one's; of `nested_tensor_from_jagged` it is `max_seqlen`,
        or without it the number of all elements.

        Parameters
        ----------
        padding : float
            What stands behind shorter sequences.
        output_size : sequence of int or None
            The shape; None means that of the longest sequence.

        Raises
        ------
        ShapeError
            If `output_size` is smaller.
        """
        width, rest = self.ragged.width, tuple(self.elements.shape[1:])
        if width is None:
            width = self.ragged.longest()
        found = padded(self, width, padding)
        if self.ragged_dim == 2:
            found = found.transpose(1, 2)
        if output_size is None:
            return found
        wanted = tuple(output_size)
        if len(wanted) != found.ndim or any(
            size < own for size, own in zip(wanted, found.shape)
        ):
            raise ShapeError(
                f"to_padded_tensor: output_size is {wanted}; it must be at least"
                f" {tuple(found.shape)}, as elements are {rest}"
            )
        pads: list[int] = []
        for size, own in zip(reversed(wanted), reversed(found.shape)):
            pads += [0, size - own]
        bigger: Tensor = ops.pad(found, tuple(pads), value=padding)
        return bigger

    def on_rows(self, name: str, function: Callable[[Tensor], Tensor]) -> Any:
        """Return a function of the dimensions behind the ragged one."""
        if self.ragged_dim != 1:
            self._refuse(f"{name}: a transposed tensor")
        return self.with_elements(function(self.elements))

    def to_dense(self, dtype: Any = None, *, masked_grad: bool = True) -> Tensor:
        """Refuse: a shape for it is `to_padded_tensor`'s."""
        self._refuse("to_dense")


def padded(x: NestedTensor, width: int, padding: float) -> Tensor:
    """Return sequences padded to a length: (sequences, width, ...)."""
    values, count = x.elements, x.shape[0]
    rest = tuple(values.shape[1:])
    base = ops.fill_like(values.detach(), (count * width, *rest), padding, values.dtype)
    rows = x.ragged.rows(width, values)
    return ops.index_copy(base, 0, rows, values).reshape((count, width, *rest))


def unpadded(x: Tensor, like: NestedTensor) -> Any:
    """Return the sequences of a padded tensor, (sequences, width, ...)."""
    width = x.shape[1]
    flat = x.reshape((x.shape[0] * width, *x.shape[2:]))
    values = ops.index_select(flat, 0, like.ragged.rows(width, flat))
    return NestedTensor.of(values, like.ragged, like.ragged_dim)


def same_lengths(name: str, x: NestedTensor, y: NestedTensor) -> None:
    """Raise `DomainError` if two tensors have not the same ragged size."""
    if x.ragged is not y.ragged or x.ragged_dim != y.ragged_dim:
        raise DomainError(
            f"{name}: nested tensors of shapes {tuple(x.shape)} and {tuple(y.shape)} do"
            " not have the same ragged size; make one of the offsets of the other"
        )
