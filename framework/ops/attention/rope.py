"""Rotary position embedding."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import FLOAT, SINGLE, float32, float64
from ...base.errors import ShapeError
from ...base.shape import TensorSpec
from ...base.validation import as_int
from ...dispatch.declare import primitive
from ...dispatch.replayable import replayable
from ...eager.base_tensor import TensorCore
from ...ir.kernel_call import Argument, Dispatch, StridedSpec, divisor
from ...kernels.linear import linear_dispatch
from ...kernels.reduce import need_countable
from ...kernels.shader_types import statistic_dtype, storage_defines
from ..elementwise.exponential import exp2
from ..elementwise.trigonometric import cos, sin
from ..reduce.common import as_dtype_of, in_storage
from ..source import arange_like
from ..view import reshape, unsqueeze

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

_TABLE = (float32, float64)


# No device computes the tables in float64.
@primitive(
    dtypes={"x": FLOAT, "cosine": _TABLE, "sine": _TABLE},
    device_dtypes={"x": SINGLE},
    typed="x",
)
def _rotate(
    x: Tensor, cosine: Tensor, sine: Tensor, interleaved: bool, inverse: bool
) -> Tensor:
    """Rotate pairs of `x` (batch, ..., length, size) by angles, or back.

    `cosine` and `sine` are (1 or batch, length, size / 2) and get no gradient.
    """


@_rotate.spec
def _rotate_spec(x: TensorSpec, **_: object) -> TensorSpec:
    return x


@_rotate.kernel
def _rotate_kernel(
    gpu: DeviceInfo,
    x: StridedSpec,
    cosine: StridedSpec,
    sine: StridedSpec,
    interleaved: bool,
    inverse: bool,
) -> Dispatch:
    need_countable("attention/rope", x)
    pairs, length = x.shape[-1] // 2, x.shape[-2]
    rows = x.numel // (2 * pairs)
    span = rows // x.shape[0]
    push: dict[str, Argument] = {name: name for name in ("x", "cosine", "sine")}
    push |= {"out_": "out", "rows": rows, "pairs": pairs, "tables": cosine.shape[0]}
    push |= {"table_rows": length}
    for name, size in (("pairs", pairs), ("span", span), ("rows", length)):
        push[f"{name}_magic"], push[f"{name}_shift"] = divisor(size)
    constants = {"INTERLEAVED": int(interleaved), "INVERSE": int(inverse)}
    defines = storage_defines(x.dtype)
    return linear_dispatch("attention/rope", rows * pairs, push, constants, defines)


@_rotate.vjp
def _rotate_vjp(
    grad: Tensor, cosine: Tensor, sine: Tensor, interleaved: bool, inverse: bool
) -> tuple[Tensor, None, None]:
    return _rotate(grad, cosine, sine, interleaved, not inverse), None, None


@_rotate.reference
def _rotate_reference(
    x: np.ndarray,
    cosine: np.ndarray,
    sine: np.ndarray,
    interleaved: bool,
    inverse: bool,
) -> np.ndarray:
    size = x.shape[-1]
    around = (cosine.shape[0], *(1,) * (x.ndim - 3), *cosine.shape[1:])
    c, s = cosine.reshape(around), sine.reshape(around) * (-1 if inverse else 1)
    out = np.empty_like(x)
    half = size // 2
    first = slice(0, None, 2) if interleaved else slice(0, half)
    second = slice(1, None, 2) if interleaved else slice(half, None)
    a, b = x[..., first], x[..., second]
    out[..., first], out[..., second] = a * c - b * s, b * c + a * s
    return out


@replayable
def rope(
    x: Tensor,
    positions: Tensor | int = 0,
    *,
    theta: float = 10000.0,
    interleaved: bool = False,
) -> Tensor:
    """Return vectors whose pairs of elements are turned in proportion to a position.

    Pair i turns by position * theta ** (-2 i / size).

    Parameters
    ----------
    x : Tensor, shape (batch, ..., length, size), float
        `size` is even. Two dimensions are one batch.
    positions : Tensor, shape (length,) or (batch, length), or int
        Of each vector; an integer is the position of the first.
    theta : float, default 10000
        Ratio of the fastest to the slowest turn, nearly.
    interleaved : bool, default False
        Whether pairs are neighbours; otherwise one element is of each half.

    Returns
    -------
    Tensor, shape and dtype of `x`
        Angles are computed in float32 at least; `positions` get no gradient.

    Raises
    ------
    ShapeError
        If shapes do not fit.

    Notes
    -----
    Source: Su et al., RoFormer, arXiv:2104.09864.
    """
    if len(x.layout.shape) < 2 or x.layout.shape[-1] % 2:
        raise ShapeError(
            f"rope: x is {tuple(x.shape)}; it must be (..., length, size) with an even"
            " size"
        )
    length, pairs = x.layout.shape[-2], x.layout.shape[-1] // 2
    source = x if len(x.layout.shape) > 2 else unsqueeze(x, 0)
    wide = statistic_dtype(x.dtype)
    if isinstance(positions, TensorCore) and positions.ndim:
        places = as_dtype_of(positions.detach(), wide)
    else:
        first = as_int("rope: positions", positions, "an int or a tensor")
        places = arange_like(x, (length,), first, 1, wide)
    places = places if places.ndim == 2 else unsqueeze(places, 0)
    if places.shape not in ((1, length), (source.shape[0], length)):
        raise ShapeError(
            f"rope: positions are {tuple(places.shape)}, x is {tuple(x.shape)};"
            " positions must"
            f" be ({length},) or ({source.shape[0]}, {length})"
        )
    if x.numel() == 0:
        return x
    turns = exp2(arange_like(x, (pairs,), 0, -math.log2(theta) / pairs, wide))
    angles = unsqueeze(places, 2) * turns
    out = _rotate(in_storage(source), cos(angles), sin(angles), interleaved, False)
    out = as_dtype_of(out, x.dtype)
    return reshape(out, x.layout.shape)
