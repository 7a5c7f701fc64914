"""PyTorch's old tensor types, `LongTensor` and its like, one for each dtype."""

from __future__ import annotations

from typing import Any

from ..base.dtype import DType
from .legacy import legacy_data
from .tensor import Tensor
from .type_names import TYPES


class TensorType(type):
    """Class of the types: an instance is a tensor of the dtype on the host."""

    tensor_dtype: DType

    def __call__(cls, *data: Any, device: Any = None) -> Any:
        """Return a tensor of sizes, or of data, as `Tensor` does."""
        return legacy_data(Tensor, data, cls.tensor_dtype, device)

    def __instancecheck__(cls, value: object) -> bool:
        if not isinstance(value, Tensor) or value.is_gpu:
            return False
        return value.dtype is cls.tensor_dtype


def _type_of(name: str) -> Any:
    dtype = TYPES[name]
    doc = f"Return a {dtype.name} tensor of sizes, or of data; see `Tensor`."
    return TensorType(
        name, (), {"tensor_dtype": dtype, "__doc__": doc, "__module__": __name__}
    )


FloatTensor = _type_of("FloatTensor")
DoubleTensor = _type_of("DoubleTensor")
HalfTensor = _type_of("HalfTensor")
BFloat16Tensor = _type_of("BFloat16Tensor")
ByteTensor = _type_of("ByteTensor")
CharTensor = _type_of("CharTensor")
ShortTensor = _type_of("ShortTensor")
IntTensor = _type_of("IntTensor")
LongTensor = _type_of("LongTensor")
BoolTensor = _type_of("BoolTensor")
