"""Module conversion: everything of a module to a device, to a dtype, or both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..autograd.grad_mode import no_grad
from ..base.device import Device
from ..base.device import find_device as get_device
from ..base.dtype import DTYPES, DType, DTypeLike, as_dtype, float16, float32, float64
from ..base.dtype import bfloat16 as bfloat16_
from ..tensor.factories import empty, empty_like
from ..tensor.tensor import Tensor
from .module_state import ModuleState
from .module_tree import BUFFER, PARAMETER
from .parameter import is_lazy

Self = TypeVar("Self", bound="ModuleConversion")


class ModuleConversion(ModuleState):
    """Base of modules that moves and casts parameters and buffers in place."""

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Move everything to a device, float tensors to a dtype, in place; return self.

        Called as `to(device, dtype, non_blocking)`, `to(dtype, non_blocking)`,
        `to(tensor, non_blocking)` or with these keywords.

        Parameters
        ----------
        device : Device, str or int, optional
            "cpu", "gpu" or a device's name.
        dtype : DType or str, optional
            A float or complex dtype; buffers and parameters that are neither keep
            theirs.
        tensor : Tensor, optional
            Its device and dtype are taken.
        non_blocking, memory_format
            Accepted, as in PyTorch, without an effect.

        Raises
        ------
        TypeError
            If the dtype is neither, or an argument is unknown.
        """
        device, dtype = _destination(args, kwargs)
        if dtype is not None and not dtype.is_differentiable:
            raise TypeError(
                f"{type(self).__name__}.to: dtype is {dtype.name}; modules are cast to"
                " float or complex dtypes only"
            )

        def convert(tensor: Tensor) -> Tensor:
            wanted = dtype if tensor.dtype.is_differentiable else None
            return tensor.to(device=device, dtype=wanted)

        return self._apply(convert)

    def to_gpu(self: Self, device: Device | str | None = None) -> Self:
        """Move to the best Vulkan device, or the one named, in place; return self."""
        return self._apply(lambda tensor: tensor.to_gpu(device))

    def cuda(self: Self, device: Device | str | int | None = None) -> Self:
        """Do what `Tensor.cuda` does with everything, in place; return self."""

        def convert(tensor: Any) -> Tensor:
            moved: Tensor = tensor.cuda(device)
            return moved

        return self._apply(convert)

    def cpu(self: Self) -> Self:
        """Move to the host in place; return self."""
        return self._apply(Tensor.cpu)

    def to_empty(
        self: Self, *, device: Device | str | int | None, recurse: bool = True
    ) -> Self:
        """Move to a device without the elements, which are arbitrary then."""

        def convert(tensor: Tensor) -> Tensor:
            made: Any = empty_like
            place = tensor.device if device is None else device
            result: Tensor = made(tensor, device=place)
            return result

        return self._apply(convert, recurse=recurse)

    def type(self: Self, dst_type: DTypeLike) -> Self:
        """Cast all parameters and buffers, in place; return self."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def float(self: Self) -> Self:
        """Cast what is of a float dtype to float32, in place; return self."""
        return self._cast_floats(float32)

    def double(self: Self) -> Self:
        """Cast what is of a float dtype to float64, in place; return self."""
        return self._cast_floats(float64)

    def half(self: Self) -> Self:
        """Cast what is of a float dtype to float16, in place; return self."""
        return self._cast_floats(float16)

    def bfloat16(self: Self) -> Self:
        """Cast what is of a float dtype to bfloat16, in place; return self."""
        return self._cast_floats(bfloat16_)

    def _cast_floats(self: Self, dtype: DType) -> Self:
        return self._apply(
            lambda tensor: tensor.to(dtype) if tensor.dtype.is_float else tensor
        )

    def share_memory(self: Self) -> Self:
        """Do what `Tensor.share_memory_` does with everything; return self."""

        def convert(tensor: Any) -> Tensor:
            shared: Tensor = tensor.share_memory_()
            return shared

        return self._apply(convert)

    def _apply(
        self: Self, fn: Callable[[Tensor], Tensor], recurse: bool = True
    ) -> Self:
        """Replace the elements of everything by what a function returns for it."""
        if recurse:
            for child in self.children():
                child._apply(fn)
        with no_grad():
            for _, parameter in self._registered(PARAMETER):
                parameter.data = fn(_elements(parameter))
                if parameter.grad is not None:
                    parameter.grad = fn(parameter.grad)
            for name, tensor in self._registered(BUFFER):
                if name not in self._host_buffers:
                    tensor.data = fn(_elements(tensor))
        return self


def _elements(tensor: Tensor) -> Tensor:
    """Return a tensor, or what holds device and dtype of one without a shape yet."""
    if not is_lazy(tensor):
        return tensor
    return empty(0, device=tensor.device, dtype=tensor.dtype)


def _destination(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Device | None, DType | None]:
    """Return device and dtype of the arguments of `to`."""
    device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    tensor = kwargs.pop("tensor", kwargs.pop("other", None))
    for name in ("non_blocking", "memory_format", "copy"):
        kwargs.pop(name, None)
    if kwargs:
        raise TypeError(
            f"to: unknown keywords {', '.join(kwargs)}; it takes device, dtype, tensor,"
            " non_blocking and memory_format"
        )
    rest = list(args)
    if rest and isinstance(rest[0], Tensor):
        tensor = rest.pop(0)
    elif rest and not _is_dtype(rest[0]):
        first = rest.pop(0)
        device = device if first is None else first
        if rest and not isinstance(rest[0], bool):
            second = rest.pop(0)
            dtype = dtype if second is None else second
    elif rest:
        dtype = rest.pop(0)
    if len(rest) > 2 or any(not isinstance(each, bool) for each in rest):
        raise TypeError(
            "to: the arguments are no device, dtype or tensor; call to(device, dtype),"
            " to(dtype) or to(tensor)"
        )
    if tensor is not None:
        device, dtype = tensor.device, tensor.dtype
    return (
        None if device is None else get_device(device),
        None if dtype is None else as_dtype(dtype),
    )


def _is_dtype(value: object) -> bool:
    return isinstance(value, DType) or (isinstance(value, str) and value in DTYPES)
