"""Attributes of tensors: layout, device and kind, by PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import ops
from ...base.device import CPU, META, opened_devices
from ...base.errors import ShapeError
from ...base.shape import Layout, normalize_dim
from ...dispatch.diagnosis import explained
from ...eager.base_tensor import need_tensors
from ...ir.derived_storage import layout_in_source
from ..inplace import assign
from ..storage import TypedStorage, UntypedStorage

if TYPE_CHECKING:
    from ..tensor import Tensor


class AttributeMethods:
    """What `Tensor` tells of itself."""

    __slots__ = ()

    is_cuda = False
    is_mps = False
    is_xpu = False
    is_sparse = False
    is_sparse_csr = False
    is_quantized = False
    is_mkldnn = False
    is_nested = False
    names: tuple[None, ...]

    @property
    def is_cpu(self: Tensor) -> bool:
        """Whether the elements are on the host."""
        return self.device is CPU

    @property
    def is_meta(self: Tensor) -> bool:
        """Whether the tensor has no elements, on the meta device."""
        return self.device is META

    @property
    def is_vulkan(self: Tensor) -> bool:
        """Whether the elements are on a Vulkan device."""
        return self.is_gpu

    @property
    def itemsize(self: Tensor) -> int:
        """Size of one element in bytes."""
        return self.dtype.itemsize

    @property
    def nbytes(self: Tensor) -> int:
        """Size of all elements in bytes."""
        return self.numel() * self.dtype.itemsize

    def ndimension(self: Tensor) -> int:
        """Return the number of dimensions."""
        return self.ndim

    def stride(self: Tensor, dim: int | None = None) -> Any:
        """Return the strides in elements, or the stride of one dimension.

        Parameters
        ----------
        dim : int or None
            The dimension; None means all.
        """
        strides = layout_in_source(self.array, self.layout).strides
        if dim is None:
            return strides
        return strides[normalize_dim("stride", dim, self.ndim)]

    def storage_offset(self: Tensor) -> int:
        """Return where in the storage the first element is, in elements."""
        return layout_in_source(self.array, self.layout).offset

    def dim_order(self: Tensor) -> tuple[int, ...]:
        """Return the dimensions in the order of their strides, outermost first."""
        strides = self.layout.strides
        return tuple(sorted(range(self.ndim), key=lambda dim: -strides[dim]))

    def data_ptr(self: Tensor) -> int:
        """Return a number that tells where the first element is.

        Tensors that begin at the same element of the same storage have the same; it
        stays the same when elements change in place, and is 0 on the meta device. It is
        no address to be read: a change in place gives a storage other memory.
        """
        if self.device is META:
            return 0
        return id(self.array) + self.layout.offset * self.dtype.itemsize

    def untyped_storage(self: Tensor) -> UntypedStorage:
        """Return what tells of the storage, in bytes."""
        return UntypedStorage(self)

    def storage(self: Tensor) -> TypedStorage:
        """Return what tells of the storage, in elements."""
        return TypedStorage(self)

    def get_device(self: Tensor) -> int:
        """Return the number of the Vulkan device, -1 on the host."""
        number = self.device.index
        return -1 if number is None else number

    def is_complex(self: Tensor) -> bool:
        """Return whether the dtype is a complex one."""
        return self.dtype.is_complex

    def is_conj(self: Tensor) -> bool:
        """Return False: elements are stored as they are."""
        return False

    def is_neg(self: Tensor) -> bool:
        """Return False: elements are stored as they are."""
        return False

    def resolve_conj(self: Tensor) -> Tensor:
        """Return the tensor itself."""
        need_tensors("resolve_conj", input=self)
        return self

    def resolve_neg(self: Tensor) -> Tensor:
        """Return the tensor itself."""
        need_tensors("resolve_neg", input=self)
        return self

    def conj(self: Tensor) -> Tensor:
        """Return the complex conjugates; of real numbers the tensor itself."""
        return ops.conj(self)

    @property
    def real(self: Tensor) -> Tensor:
        """A view of the real parts, which may be set; of real numbers the tensor."""
        return ops.real(self)

    @real.setter
    def real(self: Tensor, value: Tensor | float) -> None:
        assign(ops.real(self), value)

    @property
    def imag(self: Tensor) -> Tensor:
        """A view of the imaginary parts, which may be set.

        Raises
        ------
        DTypeError
            If the numbers are real.
        """
        return ops.imag(self)

    @imag.setter
    def imag(self: Tensor, value: Tensor | float) -> None:
        assign(ops.imag(self), value)

    def is_signed(self: Tensor) -> bool:
        """Return whether the dtype has negative numbers."""
        return self.dtype.is_signed

    def is_inference(self: Tensor) -> bool:
        """Return whether its storage was made in `inference_mode`."""
        return self.array.version < 0

    def is_nonzero(self: Tensor) -> bool:
        """Return whether the only element is not 0; waits for it.

        Raises
        ------
        ShapeError
            If there is not exactly one element.
        """
        if self.numel() != 1:
            raise ShapeError(
                f"is_nonzero: the tensor has shape {tuple(self.shape)}; it must have"
                " one element"
            )
        return bool(self.item())

    @property
    def name(self: Tensor) -> None:
        """None: tensors have no names."""

    def to_dense(
        self: Tensor, dtype: Any = None, *, masked_grad: bool = True
    ) -> Tensor:
        """Return the tensor itself, which is dense; in a dtype if one is given.

        Parameters
        ----------
        dtype : DType, str or None
            None keeps the tensor's.
        masked_grad : bool
            Without effect.
        """
        return self if dtype is None else self.to(dtype)

    def is_distributed(self: Tensor) -> bool:
        """Return False: one process has all of it."""
        return False

    def record_stream(self: Tensor, s: Any) -> None:
        """Do nothing: memory is kept until the work that uses it is done.

        Parameters
        ----------
        s : Stream
            Any.
        """

    def pin_memory(self: Tensor, device: Any = None) -> Tensor:
        """Return a copy in host memory that a card reaches, which it copies by itself.

        Moving it to the card then takes no copy by the host; nor does moving what was
        read from a card, as by `cpu()`, which is in such memory already. The tensor
        itself is returned if that gains nothing: where it is pinned, on a device or on
        the tape, and where no card with memory of its own is in use.

        Parameters
        ----------
        device : object
            Without effect: it is the first card in use.
        """
        cards = [each.gpu for each in opened_devices() if each.gpu.transfer.pins]
        taped = self.requires_grad or not self.numel()
        if not cards or taped or not self.is_cpu or self.is_pinned():
            return self
        elements = self.stored().reshape(-1)
        pinned = cards[0].transfer.pinned(elements.nbytes)
        room = np.frombuffer(pinned, elements.dtype)
        np.copyto(room, elements)
        layout = Layout.contiguous(tuple(self.shape))
        return type(self).from_stored(room, layout, CPU, self.dtype)

    def is_pinned(self: Tensor, device: Any = None) -> bool:
        """Return whether a card in use reaches the elements; see `pin_memory`.

        Parameters
        ----------
        device : object
            Without effect.
        """
        buffer = self.array.value.buffer
        if not self.is_cpu or not isinstance(buffer, np.ndarray) or not buffer.size:
            return False
        data = buffer.view(np.uint8).data
        return any(each.gpu.transfer.is_pinned(data) for each in opened_devices())

    def is_shared(self: Tensor) -> bool:
        """Return False: no storage is shared with other processes."""
        return False

    def share_memory_(self: Tensor) -> Tensor:
        """Raise `NotImplementedError`: storages cannot be shared among processes."""
        raise NotImplementedError(
            "share_memory_: tensors cannot be shared with other processes; send arrays"
            " with multiprocessing.shared_memory"
        )

    @explained
    def is_set_to(self: Tensor, tensor: Tensor) -> bool:
        """Return whether another tensor has the same storage, shape and strides.

        Parameters
        ----------
        tensor : Tensor
            The other one.
        """
        return self.array is tensor.array and self.layout == tensor.layout

    def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
        """Replace each element by a Python function of it; on the host only.

        Parameters
        ----------
        callable : callable
            Takes a number and returns one, which is cast to this dtype.

        Raises
        ------
        TypeError
            If the elements are on a device.
        """
        return _mapped(self, "apply_", callable)

    def map_(
        self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]
    ) -> Tensor:
        """Replace each element by a Python function of it and another's; host only.

        Parameters
        ----------
        tensor : Tensor
            Of a shape that broadcasts with this one.
        callable : callable
            Takes two numbers and returns one, which is cast to this dtype.

        Raises
        ------
        TypeError
            If the elements are on a device.
        """
        return _mapped(self, "map_", callable, tensor)


def _mapped(
    x: Tensor, name: str, function: Callable[..., Any], *others: Tensor
) -> Tensor:
    if x.is_gpu or any(each.is_gpu for each in others):
        raise TypeError(f"{name}: a tensor is on {x.device}; it works on the host only")
    arrays = [each.host_copy() for each in (x, *others)]
    columns = [each.ravel().tolist() for each in np.broadcast_arrays(*arrays)]
    found = np.array([function(*each) for each in zip(*columns)], x.dtype.numpy)
    return assign(x, type(x).results.from_host(found.reshape(x.shape), x.device))
