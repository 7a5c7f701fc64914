"""Names of PyTorch's tensor types: "torch.LongTensor" is int64 on the host."""

from __future__ import annotations

from typing import Any

from ..base.device import CPU, Device
from ..base.dtype import (
    DType,
    DTypeLike,
    as_dtype,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from ..base.errors import DTypeError

TYPES = {
    "FloatTensor": float32,
    "DoubleTensor": float64,
    "HalfTensor": float16,
    "BFloat16Tensor": bfloat16,
    "ByteTensor": uint8,
    "CharTensor": int8,
    "ShortTensor": int16,
    "IntTensor": int32,
    "LongTensor": int64,
    "BoolTensor": bool_,
}
"""The dtype of each type."""


def type_name(dtype: DType, device: Device) -> str:
    """Return the name of a tensor's type."""
    kinds = [name for name, each in TYPES.items() if each is dtype]
    kind = kinds[0] if kinds else f"{dtype.name.replace('ui', 'UI')}Tensor"
    return f"torch.{'' if device is CPU else f'{device.type}.'}{kind}"


def dtype_of_type_name(given: Any) -> DTypeLike:
    """Return the dtype that a type's name, a type, or a dtype means.

    Raises
    ------
    DTypeError
        If there is no such type.
    """
    found: DTypeLike | None = getattr(given, "tensor_dtype", None)
    if found is not None:
        return found
    if isinstance(given, str) and given.endswith("Tensor"):
        module, _, kind = given.rpartition(".")
        if module in ("torch", "") and kind in TYPES:
            return TYPES[kind]
        raise DTypeError(
            f"type: {given!r} is unknown; accepted: dtypes, and torch."
            f"{', torch.'.join(TYPES)}"
        )
    return as_dtype(given)
