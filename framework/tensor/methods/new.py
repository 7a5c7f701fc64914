"""Methods that make tensors like another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import ops
from ...base.device import find_device
from ...base.dtype import DTypeLike, as_dtype
from ...base.memory_format import check_layout
from ...base.validation import as_shape, sizes_of
from ..legacy import legacy_data, uninitialized
from .operand import Number

if TYPE_CHECKING:
    from ...base.device import Device
    from ...base.dtype import DType
    from ...base.shape import Shape
    from ..tensor import Tensor

DeviceLike = Any


class NewMethods:
    """New tensors, of the dtype and on the device of this one if not said otherwise.

    The keywords are those of `full`.
    """

    __slots__ = ()

    def new_tensor(
        self: Tensor,
        data: Any,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
        requires_grad: bool = False,
        layout: Any = None,
        pin_memory: bool = False,
    ) -> Tensor:
        """Return a tensor with a copy of data.

        Parameters
        ----------
        data : array_like or Tensor
            What `tensor` takes; cast to the dtype.
        dtype, device : optional
            None means those of this tensor.
        requires_grad : bool, default False
            Whether `backward` computes a gradient for it.
        layout, pin_memory
            As in `full`.
        """
        check_layout("new_tensor", layout)
        kind, place = _wanted(self, dtype, device)
        made: Tensor = type(self).results.from_data(data, kind, place, requires_grad)
        return made

    def new_full(
        self: Tensor,
        size: Shape | int,
        fill_value: Number,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
        requires_grad: bool = False,
        layout: Any = None,
        pin_memory: bool = False,
    ) -> Tensor:
        """Return a tensor with every element one number.

        Parameters
        ----------
        size : sequence of int or int
            Its shape.
        fill_value : number
            Cut to an integer where the dtype is one.
        dtype, device : optional
            None means those of this tensor.
        requires_grad : bool, default False
            Whether `backward` computes a gradient for it.
        layout, pin_memory
            As in `full`.

        Raises
        ------
        ShapeError
            If a size is below 0.
        """
        check_layout("new_full", layout)
        return _filled(self, size, fill_value, dtype, device, requires_grad)

    def new_zeros(
        self: Tensor,
        *size: Any,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
        requires_grad: bool = False,
        layout: Any = None,
        pin_memory: bool = False,
    ) -> Tensor:
        """Return a tensor of zeros.

        Parameters
        ----------
        *size : int, or one sequence of int
            Its shape.
        dtype, device : optional
            None means those of this tensor.
        requires_grad : bool, default False
            Whether `backward` computes a gradient for it.
        layout, pin_memory
            As in `full`.

        Raises
        ------
        ShapeError
            If a size is below 0.
        """
        check_layout("new_zeros", layout)
        return _filled(self, as_shape(size), 0, dtype, device, requires_grad)

    def new_ones(
        self: Tensor,
        *size: Any,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
        requires_grad: bool = False,
        layout: Any = None,
        pin_memory: bool = False,
    ) -> Tensor:
        """Return a tensor of ones.

        Parameters
        ----------
        *size : int, or one sequence of int
            Its shape.
        dtype, device : optional
            None means those of this tensor.
        requires_grad : bool, default False
            Whether `backward` computes a gradient for it.
        layout, pin_memory
            As in `full`.

        Raises
        ------
        ShapeError
            If a size is below 0.
        """
        check_layout("new_ones", layout)
        return _filled(self, as_shape(size), 1, dtype, device, requires_grad)

    def new_empty(
        self: Tensor,
        *size: Any,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
        requires_grad: bool = False,
        layout: Any = None,
        pin_memory: bool = False,
    ) -> Tensor:
        """Return a tensor whose elements are arbitrary.

        Parameters
        ----------
        *size : int, or one sequence of int
            Its shape.
        dtype, device : optional
            None means those of this tensor.
        requires_grad : bool, default False
            Whether `backward` computes a gradient for it.
        layout, pin_memory
            As in `full`.

        Raises
        ------
        ShapeError
            If a size is below 0.
        """
        check_layout("new_empty", layout)
        sizes = sizes_of("new_empty", as_shape(size))
        kind, place = _wanted(self, dtype, device)
        made: Tensor = uninitialized(type(self), "new_empty", sizes, None, kind, place)
        return made.requires_grad_(requires_grad)

    def new_empty_strided(
        self: Tensor,
        size: Shape,
        stride: Shape,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
        requires_grad: bool = False,
        layout: Any = None,
        pin_memory: bool = False,
    ) -> Tensor:
        """Return a tensor of any strides, in elements; its elements are arbitrary.

        Parameters
        ----------
        size, stride : sequence of int
            Of each dimension.
        dtype, device : optional
            None means those of this tensor.
        requires_grad : bool, default False
            Whether `backward` computes a gradient for it.
        layout, pin_memory
            As in `full`.

        Raises
        ------
        ShapeError
            If there are not as many strides as sizes, or one is below 0.
        """
        name = "new_empty_strided"
        check_layout(name, layout)
        kind, place = _wanted(self, dtype, device)
        sizes = sizes_of(name, size)
        made: Tensor = uninitialized(type(self), name, sizes, stride, kind, place)
        return made.requires_grad_(requires_grad)

    def new(self: Tensor, *data: Any, device: DeviceLike = None) -> Tensor:
        """Return a tensor of sizes, or of data, as the class `Tensor` does.

        Parameters
        ----------
        *data : int, or one sequence, ndarray or Tensor
            Sizes, or elements.
        device : Device, str or None
            None means the tensor's.
        """
        kind, place = _wanted(self, None, device)
        made: Tensor = legacy_data(type(self), data, kind, place)
        return made


def _wanted(
    like: Tensor, dtype: DTypeLike | None, device: DeviceLike
) -> tuple[DType, Device]:
    """Return the dtype and the device given, or else those of a tensor."""
    return (
        like.dtype if dtype is None else as_dtype(dtype),
        like.device if device is None else find_device(device),
    )


def _filled(
    like: Tensor,
    size: Any,
    value: Number,
    dtype: DTypeLike | None,
    device: DeviceLike,
    requires_grad: bool,
) -> Tensor:
    kind, place = _wanted(like, dtype, device)
    sizes = sizes_of("new_full", size)
    anchor: Any = like.detach()
    if place is not like.device:
        anchor = uninitialized(type(like), "new_full", (), None, kind, place)
    made: Tensor = ops.fill_like(anchor, sizes, value, kind)
    return made.requires_grad_(requires_grad) if requires_grad else made
