"""Types of arguments, as programs annotate their functions with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from .base.device import Device as _Device
from .base.dtype import DType as _DType
from .base.philox import Generator
from .base.public_names import public_names as _public_names
from .base.shape import Size
from .tensor.storage import TypedStorage as Storage
from .tensor.tensor import Tensor

__all__ = ["Device", "FileLike", "Generator", "Number", "Size", "Storage", "Tensor"]

_int: TypeAlias = int
_float: TypeAlias = float
_bool: TypeAlias = bool
_complex: TypeAlias = complex
_dtype: TypeAlias = _DType
_device: TypeAlias = _Device
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_symsize: TypeAlias = _size
_dispatchkey: TypeAlias = str
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrTensorsOrGradEdge: TypeAlias = Tensor | Sequence[Tensor]

Number: TypeAlias = int | float | bool
Device: TypeAlias = _Device | str | int | None
FileLike: TypeAlias = str | bytes


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
