"""Storages as PyTorch's programs ask for them: what can be told, not changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..base.device import Device
    from ..base.dtype import DType
    from ..base.shape import Layout
    from .tensor import Tensor


class UntypedStorage:
    """The storage of a tensor, in bytes; two are equal if they are the same storage.

    Parameters
    ----------
    tensor : Tensor
    """

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor.detach()

    @property
    def device(self) -> Device:
        """Device of the elements."""
        return self._tensor.device

    def data_ptr(self) -> int:
        """Return a number that tells which storage it is; see `Tensor.data_ptr`."""
        return id(self._tensor.array)

    def nbytes(self) -> int:
        """Return the size in bytes."""
        value = self._tensor.array.value
        return value.numel * value.dtype.itemsize

    def size(self) -> int:
        """Return the number of elements: of bytes."""
        return self.nbytes()

    def __len__(self) -> int:
        return self.size()

    def element_size(self) -> int:
        """Return the size of an element in bytes."""
        return 1

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UntypedStorage):
            return NotImplemented
        return type(other) is type(self) and other.data_ptr() == self.data_ptr()

    def __hash__(self) -> int:
        return self.data_ptr()


class TypedStorage(UntypedStorage):
    """The storage of a tensor, in elements.

    Parameters
    ----------
    tensor : Tensor
    """

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self._tensor.dtype

    def size(self) -> int:
        """Return the number of elements."""
        return self._tensor.array.value.numel

    def element_size(self) -> int:
        """Return the size of an element in bytes."""
        return self._tensor.dtype.itemsize

    def untyped(self) -> UntypedStorage:
        """Return the same storage in bytes."""
        return UntypedStorage(self._tensor)

    def tolist(self) -> list[Any]:
        """Return the elements, in the order of memory; waits for them."""
        layout: Layout = type(self._tensor.layout).contiguous((self.size(),))
        found: list[Any] = self._tensor.view_of(layout).tolist()
        return found

    def __getitem__(self, index: int) -> Any:
        return self.tolist()[index]
