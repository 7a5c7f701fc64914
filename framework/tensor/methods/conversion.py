"""Methods that move a tensor to a device, or give it another dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ... import ops
from ...base.device import CPU, Device, find_device
from ...base.dtype import (
    DTYPES,
    DType,
    DTypeLike,
    as_dtype,
    bfloat16,
    bool_,
    complex32,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from ...base.memory_format import check_memory_format
from ...eager.base_tensor import TensorCore
from ..type_names import dtype_of_type_name, type_name

if TYPE_CHECKING:
    from ..tensor import Tensor

Bool = bool


class ConversionMethods:
    """What `Tensor` has of conversions; each returns the tensor itself if it is so.

    `non_blocking` and `memory_format` have no effect.
    """

    __slots__ = ()

    def to(
        self: Tensor,
        *target: Any,
        dtype: DTypeLike | None = None,
        device: Device | str | int | None = None,
        tensor: Tensor | None = None,
        non_blocking: Bool = False,
        copy: Bool = False,
        memory_format: Any = None,
    ) -> Tensor:
        """Return the tensor on a device, in a dtype, or both; itself if it is so.

        Parameters
        ----------
        *target : Device, DType, str or Tensor
            A device ("cpu", "gpu", a device's name) and a dtype, or one of them, or a
            tensor that has them; `non_blocking` and `copy` may follow.
        dtype, device, tensor
            The same by name.
        non_blocking : bool, default False
            Has no effect: nothing is waited for in any case.
        copy : bool, default False
            Return a copy also if there is nothing to convert.
        memory_format : memory_format or None
            Has no effect.

        Raises
        ------
        TypeError
            If an argument is none of these.
        NoVulkanError
            If there is no such device.
        """
        if target:
            if (
                len(target) == 1
                and type(target[0]) is DType
                and not copy
                and device is None
            ):
                if memory_format is not None:
                    check_memory_format("to", memory_format)
                kind = target[0]
                if self.array.value.dtype is kind:
                    return self
                return ops.cast(self, as_dtype(kind) if kind is complex32 else kind)
            first, *rest = target
            if isinstance(first, TensorCore):
                dtype, device = first.dtype, first.device
            elif _is_dtype(first):
                dtype = first
            else:
                if first is not None:
                    device = first
                if rest and not isinstance(rest[0], Bool):
                    given = rest.pop(0)
                    dtype = dtype if given is None else given
            if len(rest) > 2:
                raise TypeError(
                    f"to: {len(target)} arguments are given; it takes a device, a"
                    " dtype, non_blocking and copy"
                )
            copy = copy or (len(rest) == 2 and rest[1])
        elif tensor is not None:
            dtype, device = tensor.dtype, tensor.device
        check_memory_format("to", memory_format)
        out = self if device is None else moved(self, find_device(device))
        wanted = out.dtype if dtype is None else as_dtype(dtype)
        out = out if wanted is out.dtype else ops.cast(out, wanted)
        return ops.copy(out) if copy and out is self else out

    def type(
        self: Tensor,
        dtype: DTypeLike | None = None,
        non_blocking: Bool = False,
    ) -> Any:
        """Return the name of the tensor's type, or the tensor in another dtype.

        Parameters
        ----------
        dtype : DType, str or type
            Also the name of a type, "torch.LongTensor", or the type, `LongTensor`.
            None asks for the name.
        non_blocking : bool, default False
            Has no effect.
        """
        if dtype is None:
            return type_name(self.dtype, self.device)
        return self.to(dtype_of_type_name(dtype))

    def to_gpu(self: Tensor, device: Device | str | None = None) -> Tensor:
        """Return the tensor on the best Vulkan device, or on the one named.

        Parameters
        ----------
        device : Device, str or None
            As "gpu:1"; None means the best.
        """
        return moved(self, find_device("gpu" if device is None else device))

    def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
        """Return the tensor on the host.

        Parameters
        ----------
        memory_format : object
            Without effect.
        """
        return moved(self, CPU)

    def cuda(
        self: Tensor,
        device: Any = None,
        non_blocking: Bool = False,
        memory_format: Any = None,
    ) -> Tensor:
        """Raise: there is no CUDA; `to("gpu")` moves to the Vulkan device.

        Parameters
        ----------
        device, non_blocking, memory_format : object
            As PyTorch's, without effect.

        Raises
        ------
        NoVulkanError
            Always.
        """
        return moved(self, find_device("cuda"))

    def type_as(self: Tensor, other: Tensor) -> Tensor:
        """Return the tensor in the dtype and on the device of another.

        Parameters
        ----------
        other : Tensor
            Any shape.
        """
        return self.to(other)

    def float(self: Tensor, memory_format: Any = None) -> Tensor:
        """Return the tensor as float32.

        Parameters
        ----------
        memory_format : object
            Without effect.
        """
        if memory_format is not None:
            check_memory_format("float", memory_format)
        return _cast(self, float32)

    def double(self: Tensor, memory_format: Any = None) -> Tensor:
        """Return the tensor as float64.

        Parameters
        ----------
        memory_format : object
            Without effect.
        """
        if memory_format is not None:
            check_memory_format("double", memory_format)
        return _cast(self, float64)

    def half(self: Tensor, memory_format: Any = None) -> Tensor:
        """Return the tensor as float16.

        Parameters
        ----------
        memory_format : object
            Without effect.
        """
        if memory_format is not None:
            check_memory_format("half", memory_format)
        return _cast(self, float16)

    def bfloat16(self: Tensor, memory_format: Any = None) -> Tensor:
        """Return the tensor as bfloat16.

        Parameters
        ----------
        memory_format : object
            Without effect.
        """
        if memory_format is not None:
            check_memory_format("bfloat16", memory_format)
        return _cast(self, bfloat16)

    def byte(self: Tensor, memory_format: Any = None) -> Tensor:
        """Return the tensor as uint8.

        Parameters
        ----------
        memory_format : object
            Without effect.
        """
        if memory_format is not None:
            check_memory_format("byte", memory_format)
        return _cast(self, uint8)

    def char(self: Tensor, memory_format: Any = None) -> Tensor:
        """Return the tensor as int8.

        Parameters
        ----------
        memory_format : object
            Without effect.
        """
        if memory_format is not None:
            check_memory_format("char", memory_format)
        return _cast(self, int8)

    def short(self: Tensor, memory_format: Any = None) -> Tensor:
        """Return the tensor as int16.

        Parameters
        ----------
        memory_format : object
            Without effect.
        """
        if memory_format is not None:
            check_memory_format("short", memory_format)
        return _cast(self, int16)

    def int(self: Tensor, memory_format: Any = None) -> Tensor:
        """Return the tensor as int32.

        Parameters
        ----------
        memory_format : object
            Without effect.
        """
        if memory_format is not None:
            check_memory_format("int", memory_format)
        return _cast(self, int32)

    def long(self: Tensor, memory_format: Any = None) -> Tensor:
        """Return the tensor as int64.

        Parameters
        ----------
        memory_format : object
            Without effect.
        """
        if memory_format is not None:
            check_memory_format("long", memory_format)
        return _cast(self, int64)

    def bool(self: Tensor, memory_format: Any = None) -> Tensor:
        """Return whether each element is not zero.

        Parameters
        ----------
        memory_format : object
            Without effect.
        """
        if memory_format is not None:
            check_memory_format("bool", memory_format)
        return _cast(self, bool_)

    def cfloat(self: Tensor, memory_format: Any = None) -> Tensor:
        """Return the tensor as complex64.

        Parameters
        ----------
        memory_format : object
            Without effect.
        """
        if memory_format is not None:
            check_memory_format("cfloat", memory_format)
        return _cast(self, complex64)

    def cdouble(self: Tensor, memory_format: Any = None) -> Tensor:
        """Return the tensor as complex128.

        Parameters
        ----------
        memory_format : object
            Without effect.
        """
        if memory_format is not None:
            check_memory_format("cdouble", memory_format)
        return _cast(self, complex128)


def moved(x: Tensor, target: Device) -> Tensor:
    """Return a tensor on another device; differentiable."""
    return x if x.device is target else ops.move(x, x.device, target)


def _cast(x: Tensor, dtype: DType) -> Tensor:
    return x if x.dtype is dtype else ops.cast(x, dtype)


def _is_dtype(value: object) -> Bool:
    if isinstance(value, str):
        return value in DTYPES
    return isinstance(value, DType | type | np.dtype)
