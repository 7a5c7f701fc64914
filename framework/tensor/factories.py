"""Tensor factories: creation functions, run on the device of the result.

Sizes are given as numbers or as one sequence; a dtype and a device may follow them, by
name or, as in NumPy, by position: `zeros(2, 3)`, `zeros((2, 3), "int32")`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import ops
from ..base.device import Device, GpuDevice, default_device
from ..base.device import find_device as get_device
from ..base.dtype import (
    DTYPES,
    DType,
    DTypeLike,
    as_dtype,
    bool_,
    default_dtype,
    float32,
    int64,
)
from ..base.errors import ShapeError
from ..base.memory_format import check_layout, check_memory_format
from ..base.shape import Layout, Shape
from ..base.validation import sizes_of
from ..ir.lazy_graph import Array, Value
from .inplace import assign
from .legacy import uninitialized
from .relayout import resize
from .tensor import Tensor

DeviceLike = Device | str | int | None


def full(
    size: Shape | int,
    fill_value: float,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    *,
    out: Tensor | None = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return a tensor with every element `fill_value`.

    Parameters
    ----------
    size : sequence of int or int
        Its shape.
    fill_value : number
    dtype : DType, str or None
        None means bool, int64 or the default float dtype, by the kind of the number.
    device : Device, str or None
        None means the default device.
    requires_grad : bool, default False
        Whether `backward` computes a gradient for it.
    out : Tensor or None
        Its elements are replaced by the result; of the same shape.
    layout : layout or None
        `strided`, the only one.
    pin_memory : bool, default False
        Has no effect.
    """
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    kind = _kind_of(fill_value) if dtype is None else as_dtype(dtype)
    sizes, like = sizes_of("full", size), anchor(place_of(device))
    made: Tensor = ops.fill_like(like, sizes, fill_value, kind)
    return finished("full", made, requires_grad, out, layout)


def zeros(
    *sizes: Any,
    size: Any = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return a tensor of zeros.

    Parameters
    ----------
    *sizes : int, or one sequence of int
        Its shape; none means a tensor without dimensions.
    size : sequence of int or None
        The shape by keyword instead.
    dtype : DType, str or None
        None means the default float dtype.
    device, requires_grad, out, layout, pin_memory
        As in `full`.

    Raises
    ------
    ShapeError
        If a size is below 0, or `out` has elements and another shape.
    """
    shape, kind, place = wanted("zeros", sizes, dtype, device, size)
    made: Tensor = ops.fill_like(anchor(place), shape, 0, kind)
    return finished("zeros", made, requires_grad, out, layout)


def ones(
    *sizes: Any,
    size: Any = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return a tensor of ones.

    Parameters
    ----------
    *sizes : int, or one sequence of int
        Its shape; none means a tensor without dimensions.
    size : sequence of int or None
        The shape by keyword instead.
    dtype : DType, str or None
        None means the default float dtype.
    device, requires_grad, out, layout, pin_memory
        As in `full`.

    Raises
    ------
    ShapeError
        If a size is below 0, or `out` has elements and another shape.
    """
    shape, kind, place = wanted("ones", sizes, dtype, device, size)
    made: Tensor = ops.fill_like(anchor(place), shape, 1, kind)
    return finished("ones", made, requires_grad, out, layout)


def scalar_tensor(
    s: float,
    *,
    dtype: DTypeLike | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return a number as a tensor without dimensions.

    Parameters
    ----------
    s : number
    dtype : DType, str or None
        None means the default float dtype, also for an int or a bool, as in PyTorch.
    layout, device, pin_memory, requires_grad
        As in `full`.
    """
    kind = default_dtype() if dtype is None else dtype
    return full(
        (),
        s,
        dtype=kind,
        device=device,
        requires_grad=requires_grad,
        layout=layout,
        pin_memory=pin_memory,
    )


def empty(
    *sizes: Any,
    size: Any = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
    layout: Any = None,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return a tensor whose elements are whatever the memory holds.

    Parameters
    ----------
    *sizes : int, or one sequence of int
        Its shape; none means a tensor without dimensions.
    size : sequence of int or None
        The shape by keyword instead.
    dtype : DType, str or None
        None means the default float dtype.
    device, requires_grad, out, layout, pin_memory
        As in `full`.
    memory_format : memory format or None
        Without effect.

    Raises
    ------
    ShapeError
        If a size is below 0, or `out` has elements and another shape.
    """
    shape, kind, place = wanted("empty", sizes, dtype, device, size)
    check_memory_format("empty", memory_format)
    made = uninitialized(Tensor, "empty", shape, None, kind, place)
    return finished("empty", made, requires_grad, out, layout)


def empty_strided(
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
    size : sequence of int
    stride : sequence of int
        Elements from one place of each dimension to the next.
    dtype : DType, str or None
        None means the default float dtype.
    device, requires_grad, layout, pin_memory
        As in `full`.

    Raises
    ------
    ShapeError
        If there are not as many strides as sizes, or one is below 0.
    """
    shape, kind, place = wanted("empty_strided", (size,), dtype, device)
    made = uninitialized(Tensor, "empty_strided", shape, stride, kind, place)
    return finished("empty_strided", made, requires_grad, None, layout)


def zeros_like(
    input: Tensor,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    *,
    layout: Any = None,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return zeros in the shape of `input`, in row-major order.

    Parameters
    ----------
    input : Tensor
    dtype : DType, str or None
        None means that of `input`.
    device : Device, str or None
        None means that of `input`.
    requires_grad : bool, default False
        Whether `backward` computes a gradient for it.
    layout, pin_memory, memory_format
        Without effect.

    Raises
    ------
    TypeError
        If `input` is no tensor.
    """
    return _like("zeros_like", input, 0, dtype, device, requires_grad, memory_format)


def ones_like(
    input: Tensor,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    *,
    layout: Any = None,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return ones in the shape of `input`, in row-major order.

    Parameters
    ----------
    input : Tensor
    dtype : DType, str or None
        None means that of `input`.
    device : Device, str or None
        None means that of `input`.
    requires_grad : bool, default False
        Whether `backward` computes a gradient for it.
    layout, pin_memory, memory_format
        Without effect.

    Raises
    ------
    TypeError
        If `input` is no tensor.
    """
    return _like("ones_like", input, 1, dtype, device, requires_grad, memory_format)


def full_like(
    input: Tensor,
    fill_value: float,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    *,
    layout: Any = None,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return one number in the shape of `input`, in row-major order.

    Parameters
    ----------
    input : Tensor
    fill_value : number, or Tensor of one element
        Cut to an integer where the dtype is one.
    dtype : DType, str or None
        None means that of `input`.
    device : Device, str or None
        None means that of `input`.
    requires_grad : bool, default False
        Whether `backward` computes a gradient for it.
    layout, pin_memory, memory_format
        Without effect.

    Raises
    ------
    TypeError
        If `input` is no tensor.
    DTypeError
        If the number is beyond an integer dtype.
    """
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    return _like("full_like", input, value, dtype, device, requires_grad, memory_format)


def empty_like(
    input: Tensor,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    *,
    layout: Any = None,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return a tensor in the shape of `input` whose elements are arbitrary.

    Parameters
    ----------
    input : Tensor
    dtype : DType, str or None
        None means that of `input`.
    device : Device, str or None
        None means that of `input`.
    requires_grad : bool, default False
        Whether `backward` computes a gradient for it.
    layout, pin_memory, memory_format
        Without effect.

    Raises
    ------
    TypeError
        If `input` is no tensor.
    """
    x = a_tensor("empty_like", input)
    kind = x.dtype if dtype is None else as_dtype(dtype)
    place = x.device if device is None else device
    made = empty(x.layout.shape, dtype=kind, device=place, memory_format=memory_format)
    return made.requires_grad_(requires_grad)


def _like(
    name: str,
    input: Tensor,
    value: float,
    dtype: DTypeLike | None,
    device: DeviceLike,
    requires_grad: bool,
    memory_format: Any,
) -> Tensor:
    x = a_tensor(name, input)
    check_memory_format(name, memory_format)
    like = x if device is None else anchor(place_of(device))
    kind = x.dtype if dtype is None else as_dtype(dtype)
    made: Tensor = ops.fill_like(like, x.layout.shape, value, kind)
    return made.requires_grad_(requires_grad) if requires_grad else made


def _kind_of(value: object) -> DType:
    """Return the dtype of a tensor filled with a number."""
    if isinstance(value, bool | np.bool_):
        return bool_
    if isinstance(value, complex | np.complexfloating):
        return default_dtype().to_complex()
    return int64 if isinstance(value, int | np.integer) else default_dtype()


def place_of(device: DeviceLike) -> Device:
    """Return the device that a factory is given, or the default one."""
    return default_device() if device is None else get_device(device)


def finished(
    name: str, made: Tensor, requires_grad: bool, out: Tensor | None, layout: Any
) -> Tensor:
    """Return what a factory made, in `out` if that is given.

    Raises
    ------
    TypeError
        If the layout is not `strided`.
    ShapeError
        If `out` has elements and another shape.
    """
    if layout is not None:
        check_layout(name, layout)
    if out is None:
        return made.requires_grad_(requires_grad) if requires_grad else made
    if not a_tensor(name, out).numel() and out.shape != made.shape:
        resize(out, made.shape)
    if out.layout.shape != made.layout.shape:
        raise ShapeError(
            f"{name}: out is {tuple(out.shape)}, the result {tuple(made.shape)}; they"
            " must be the same"
        )
    return assign(out, made)


def a_tensor(name: str, value: object) -> Tensor:
    """Return an argument that must be a tensor."""
    if not isinstance(value, Tensor):
        kind = type(value).__name__
        raise TypeError(f"{name}: a {kind} is given; it must be a tensor")
    return value


def anchor(device: Device) -> Tensor:
    """Return a tensor that says where a new one goes; it has no elements to read."""
    if device.anchor is None:
        if not isinstance(device, GpuDevice):
            device.anchor = Tensor.from_host(np.zeros((), np.float32), device)
        else:
            array = Array(Value(1, float32))
            device.anchor = Tensor.make(array, Layout.contiguous(()), device)
    found: Tensor = device.anchor
    return found


_INTEGERS = frozenset({int})


def wanted(
    name: str,
    size: Sequence[Any],
    dtype: DTypeLike | None,
    device: DeviceLike,
    named: Any = None,
) -> tuple[Shape, DType, Device]:
    """Return shape, dtype and device from sizes that these may follow by position.

    `named` are sizes given by the name `size`.

    Raises
    ------
    ShapeError
        If a size is below 0.
    """
    sizes: object = ()
    if named is None and _INTEGERS.issuperset(map(type, size)):
        rest, sizes = [], tuple(size)
    else:
        rest = list(size) if named is None else [named, *size]
    if rest and not isinstance(rest[0], str | DType | Device | type | np.dtype):
        sizes = rest.pop(0)
    if _is_whole(sizes):
        sizes = [sizes]
        while rest and _is_whole(rest[0]):
            sizes.append(rest.pop(0))
    for given in rest:
        if given is None:
            continue
        if isinstance(given, Device) or (
            isinstance(given, str) and given not in DTYPES
        ):
            device = given
        else:
            dtype = given
    kind = default_dtype() if dtype is None else as_dtype(dtype)
    return sizes_of(name, sizes), kind, place_of(device)


def _is_whole(value: object) -> bool:
    """Return whether a size is one number, also in a tensor of one element."""
    if isinstance(value, int | np.integer):
        return True
    return isinstance(value, Tensor) and not value.ndim
