"""Tensors of data that there is: Python's numbers, arrays, buffers, other tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.device import default_device
from ..base.dtype import DTypeLike, as_dtype, decode
from ..base.symbolic_number import is_symbolic, live
from .factories import DeviceLike, full
from .tensor import Tensor


def tensor(
    data: Any,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Return a tensor with a copy of `data`.

    Parameters
    ----------
    data : array_like or Tensor
        Numbers, nested sequences of them or of tensors of one element, or a NumPy
        array.
    dtype : DType, str or None
        None takes that of an array or tensor; of Python's numbers bool, int64 or the
        default float dtype.
    device : Device, str or None
        Where the copy goes; None means where a tensor is, else the default device.
    requires_grad : bool, default False
        Whether `backward` computes a gradient for it; needs a float dtype.
    pin_memory : bool, default False
        Has no effect.

    Raises
    ------
    ValueError
        If sequences within a sequence differ in length.
    DTypeError
        If the elements are no real numbers, or do not fit the dtype.
    """
    if device is None:
        device = data.device if isinstance(data, Tensor) else default_device()
    found = _one_symbol(data) if live else None
    if found is not None:
        return full(*found, dtype, device, requires_grad)
    return Tensor.from_data(data, dtype, device, requires_grad)


def _one_symbol(data: Any) -> tuple[tuple[int, ...], Any] | None:
    """Return the shape and the element of data that are one symbolic number."""
    if is_symbolic(data):
        return (), data
    if type(data) not in (list, tuple) or not data:
        return None
    parts = [_one_symbol(each) for each in data]
    first = parts[0]
    if first is None or any(
        each is None or each[0] != first[0] or each[1] is not first[1] for each in parts
    ):
        return None
    return (len(data), *first[0]), first[1]


def as_tensor(
    data: Any, dtype: DTypeLike | None = None, device: DeviceLike = None
) -> Tensor:
    """Return `data` itself if it is such a tensor, otherwise a tensor of it.

    Parameters
    ----------
    data : array_like or Tensor
        A tensor is moved and cast on the tape; whatever else `tensor` takes is copied.
    dtype : DType, str or None
        None keeps that of a tensor or array; see `tensor`.
    device : Device, str or None
        None keeps that of a tensor; for whatever else it is the default device.
    """
    if isinstance(data, Tensor):
        return data.to(device=device, dtype=dtype)
    return tensor(data, dtype, device)


def asarray(
    obj: Any,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return an object as a tensor.

    Parameters
    ----------
    obj : array_like or Tensor
        What `tensor` takes.
    dtype, device
        As in `tensor`.
    copy : bool or None
        True copies a tensor, too. False is accepted for tensors that need no copy;
        whatever else there is, is copied.
    requires_grad : bool, default False
        Whether `backward` computes a gradient for it.

    Raises
    ------
    ValueError
        If a copy is needed and `copy` is False.
    """
    made = as_tensor(obj, dtype, device)
    if made is obj and copy:
        made = tensor(obj)
    elif copy is False and made is not obj:
        raise ValueError(
            f"asarray: copy is False, but a {type(obj).__name__} becomes a tensor only"
            " by a copy; leave copy out"
        )
    return made.requires_grad_() if requires_grad else made


def from_numpy(array: np.ndarray, device: DeviceLike = None) -> Tensor:
    """Return a tensor with a copy of a NumPy array's elements.

    On the host, too, where PyTorch shares the memory.

    Parameters
    ----------
    array : numpy.ndarray
        The result has its shape and dtype.
    device : Device, str or None
        None means the host.

    Raises
    ------
    TypeError
        If it is no NumPy array.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(
            f"from_numpy: a {type(array).__name__} is no NumPy array; use tensor"
        )
    return Tensor.from_data(array, device=device)


def frombuffer(
    buffer: Any,
    *,
    dtype: DTypeLike,
    count: int = -1,
    offset: int = 0,
    requires_grad: bool = False,
) -> Tensor:
    """Return a one-dimensional tensor with a copy of the elements in a buffer.

    Parameters
    ----------
    buffer : object with the buffer protocol
        bytes, for example.
    dtype : DType or str
    count : int, default -1
        Number of elements; -1 means all.
    offset : int, default 0
        Of the first one, in bytes.
    requires_grad : bool, default False
        Whether `backward` computes a gradient for it.

    Raises
    ------
    ValueError
        If the buffer is too small.
    """
    kind = as_dtype(dtype)
    array = np.frombuffer(buffer, kind.storage, count, offset)
    made = Tensor.from_data(decode(array, kind), kind)
    return made.requires_grad_(requires_grad)


class _Capsule:
    """What `__dlpack__` returned, as an object that has the method."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def to_dlpack(tensor: Tensor) -> Any:
    """Return what `from_dlpack` of any library takes, of a tensor on the tape, too.

    Parameters
    ----------
    tensor : Tensor
        On the host.
    """
    return tensor.detach().__dlpack__()


def from_dlpack(
    ext_tensor: Any, device: DeviceLike = None, copy: bool | None = None
) -> Tensor:
    """Return a tensor with a copy of what another library's host tensor holds.

    Parameters
    ----------
    ext_tensor : object with `__dlpack__`
        In host memory; PyTorch and NumPy have such objects. What `to_dlpack` returns
        will do, once.
    device : Device, str or None, default the host
        Where the copy goes.
    copy : bool, optional
        False raises: the memory is never shared.

    Raises
    ------
    ValueError
        If `copy` is False.
    """
    if copy is False:
        raise ValueError(
            "from_dlpack: copy is False, but the elements are copied; leave copy out"
        )
    if not hasattr(ext_tensor, "__dlpack__"):
        ext_tensor = _Capsule(ext_tensor)
    return Tensor.from_data(np.from_dlpack(ext_tensor), device=device)
