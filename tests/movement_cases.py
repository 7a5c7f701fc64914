"""Rows of the op table for creation and movement."""

from typing import Any

import numpy as np
import torch

import vkbackend.framework as fw
from tests.case import Bad, Case, sample
from vkbackend.framework import ops
from vkbackend.framework.base import philox
from vkbackend.framework.base.errors import DTypeError, ShapeError
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.eager.base_tensor import strided
from vkbackend.framework.ops.reinterpret import bits_as

STREAM = (1, 2, 3, 4)
SHAPES = ((7, 11), (), (0, 3), (37,))


SINGLE = ("float16", "bfloat16", "float32")


def drawn(
    name: str,
    oracle: Any,
    scale: float = 1.0,
    exact: bool = False,
    device_dtypes: tuple[str, ...] | None = None,
) -> Case:
    """Return the row of draws, whose shape and dtype are those of the argument."""
    op = REGISTRY[name]
    return Case(
        lambda x: op(x, STREAM, x.shape, x.dtype),
        tuple(sample(shape) for shape in SHAPES),
        lambda x: oracle(x.size, STREAM).astype(x.dtype).reshape(x.shape),
        exact=exact,
        # Draws are computed in float32, whatever they are stored in.
        device_dtypes=device_dtypes,
        gradient=False,
        scale=scale,
    )


def ramp(x: np.ndarray, start: float, step: float) -> np.ndarray:
    """Return numbers in the shape of `x`, computed in its dtype."""
    numbers = np.arange(x.size).astype(x.dtype).reshape(x.shape)
    return x.dtype.type(start) + x.dtype.type(step) * numbers


def band(x: np.ndarray, low: int, high: int) -> np.ndarray:
    """Return where column minus row is from `low` to `high`."""
    rows, columns = x.shape[-2:]
    return np.broadcast_to(
        np.tri(rows, columns, high, bool) & ~np.tri(rows, columns, low - 1, bool),
        x.shape,
    )


CREATION = {
    "fill_like": Case(
        fw.full_like,
        tuple(sample(shape, fill_value=1) for shape in SHAPES),
        lambda x, fill_value: np.full(x.shape, fill_value, x.dtype),
        lambda x, fill_value: torch.full_like(x, fill_value),
        exact=True,
        gradient=False,
        bad=(
            Bad(
                lambda ones: fw.full_like(ones(2, dtype="int32"), 2**31),
                DTypeError,
                "fill_like: 2147483648 is no int32, which holds -2147483648 to"
                " 2147483647; cast the tensor to a wider dtype first",
            ),
        ),
    ),
    "arange_like": Case(
        lambda x, start, step: ops.arange_like(x, x.shape, start, step, x.dtype),
        tuple(sample(shape, start=3, step=2) for shape in SHAPES),
        ramp,
        exact=True,
        gradient=False,
    ),
    "linspace_like": Case(
        lambda x: ops.linspace_like(
            x, x.shape, 1.0, 3.0, 2 / max(x.numel() - 1, 1), x.numel() - 1, x.dtype
        ),
        (sample((37,)), sample((7, 11)), sample((0, 3)), sample((2,))),
        lambda x: np.linspace(1, 3, x.size).astype(x.dtype).reshape(x.shape),
        gradient=False,
        scale=2,  # a product and a sum
    ),
    "band_like": Case(
        lambda x, low, high: ops.band_like(
            x, x.shape, *x.shape[-2:], low, high, x.dtype
        ),
        (
            sample((7, 11), low=-2, high=1),
            sample((3, 5, 4), low=0, high=9),
            sample((2, 2, 3, 1), low=-9, high=-1),
            sample((0, 3), low=0, high=1),
            sample((1, 1), low=0, high=0),
        ),
        band,
        gradient=False,
    ),
    "uniform_like": drawn("uniform_like", philox.uniform, exact=True),
    # Rounding of a logarithm and a root of float32, of numbers up to 6.
    "normal_like": drawn("normal_like", philox.normal, 4, device_dtypes=SINGLE),
    "exponential_like": drawn(
        "exponential_like", philox.exponential, 4, device_dtypes=SINGLE
    ),
    "integers_like": Case(
        lambda x, low, span: REGISTRY["integers_like"](
            x, STREAM, x.shape, low, span, x.dtype
        ),
        (
            *(sample(shape, low=-3, span=11) for shape in SHAPES),
            sample((37,), low=5, span=0),
        ),
        lambda x, low, span: (
            philox.integers(x.size, STREAM, span or 1 << 32)
            .astype(x.dtype)
            .reshape(x.shape)
            + x.dtype.type(low)
        ),
        gradient=False,
    ),
    "random_bits_like": drawn("random_bits_like", philox.bits),
}

INNER = Layout((2, 3), (11, 2), 13)
"""A region of a tensor of 7 rows and 11 columns: rows 1 and 2, columns 2, 4 and 6."""


def as_bytes_and_back(x: fw.Tensor) -> fw.Tensor:
    """Return the numbers whose bytes are those of others."""
    count = x.numel() * x.dtype.itemsize
    found = bits_as(x.detach(), x.dtype, fw.uint8, (count,))
    return bits_as(found, found.dtype, x.dtype, x.shape)


def placed(base: np.ndarray, source: np.ndarray, layout: Layout) -> np.ndarray:
    """Return `base` with a region replaced, as NumPy does it."""
    out = base.copy()
    strided(out.reshape(-1), layout)[...] = source
    return out


def windows(x: Any, dimension: int, size: int, step: int) -> Any:
    """Return windows of a PyTorch tensor."""
    return x.unfold(dimension, size, step)


def padded(x: Any, pad: Any, mode: str = "constant", value: float = 0) -> Any:
    """Return a PyTorch tensor padded, in dtypes that its function does not take too."""
    if mode == "constant":
        return torch.nn.functional.pad(x, pad, mode, value)
    wide = torch.nn.functional.pad(x.double()[None], pad, mode)[0]
    return wide.to(x.dtype)


MOVEMENT = {
    "transposed_copy": Case(
        lambda x: REGISTRY["transposed_copy"](x.transpose(0, 1)),
        (sample((17, 33)), sample((70, 130)), sample((1, 1)), sample((0, 5))),
        lambda x: x.T,
        torch=lambda x: x.T,
        exact=True,
    ),
    "flipped_transpose": Case(
        lambda x: REGISTRY["flipped_transpose"](x.transpose(0, 1), (1,)),
        (sample((17, 33)), sample((70, 130)), sample((1, 1)), sample((0, 5))),
        lambda x: np.flip(x.T, 1),
        torch=lambda x: x.T.flip(1),
        exact=True,
    ),
    "lazy_copy": Case(
        lambda x: REGISTRY["lazy_copy"](x),
        tuple(sample(shape) for shape in SHAPES),
        np.copy,
        torch.clone,
        exact=True,
    ),
    "view": Case(
        lambda x, shape: x.reshape(shape),
        (
            sample((6, 10), shape=(4, -1)),
            sample((7, 11), shape=(7, 1, 11)),
            sample((0, 3), shape=(3, 0, 5)),
            sample((1,), shape=()),
        ),
        lambda x, shape: x.reshape(shape),
        lambda x, shape: x.reshape(shape),
        exact=True,
        bad=(
            Bad(
                lambda ones: ones(2, 3).reshape(4, 2),
                ShapeError,
                "reshape: (2, 3) has 6 elements; (4, 2) does not hold as many",
            ),
            Bad(
                lambda ones: ones(3, 2).mT.view(6),
                ShapeError,
                "view: strides (1, 2) of shape (2, 3) do not allow a view as (6,);"
                " use reshape",
            ),
        ),
    ),
    "permute": Case(
        lambda x, dims: x.permute(dims),
        (
            sample((3, 5, 7), dims=(2, 0, 1)),
            sample((), dims=()),
            sample((0, 3), dims=(1, 0)),
        ),
        lambda x, dims: np.transpose(x, dims),
        torch.permute,
        exact=True,
        bad=(
            Bad(
                lambda ones: ones(2, 3).permute(0, 0),
                ShapeError,
                "permute: dims are (0, 0); they must name each of the 2 dimensions"
                " once",
            ),
        ),
    ),
    "expand": Case(
        lambda x, shape: x.expand(shape),
        (
            sample((3, 1), shape=(5, 3, 7)),
            sample((), shape=(2, 0)),
            sample((0, 1), shape=(2, 0, 3)),
        ),
        np.broadcast_to,
        lambda x, shape: x.expand(shape),
        exact=True,
        bad=(
            Bad(
                lambda ones: ones(3).expand(1),
                ShapeError,
                "expand: (3,) does not expand to (1,); each size is 0 or more, or -1"
                " where there is one to keep",
            ),
        ),
    ),
    "slice": Case(
        lambda x, index: x[index],
        (
            sample((7, 11), index=(slice(1, 6, 2), slice(None, None, 3))),
            sample((7, 11), index=(Ellipsis, -1)),
            sample((3, 5, 7), index=(None, 2, Ellipsis, slice(4, 100))),
            sample((5,), index=slice(3, 3)),
            sample((0, 3), index=(slice(None), 1)),
            sample((1, 1), index=(0, slice(None))),
        ),
        lambda x, index: x[index],
        lambda x, index: x[index],
        exact=True,
        bad=(
            Bad(
                lambda ones: ones(2, 3)[2],
                ShapeError,
                "index: 2 is out of range: dimension 0 has size 2",
            ),
            Bad(
                lambda ones: ones(2, 3)[::0],
                ShapeError,
                "index: the step is 0; it must be another number",
            ),
            Bad(
                lambda ones: ones(2)[0, 0],
                ShapeError,
                "index: 2 indices for a tensor of shape (2,)",
            ),
            Bad(
                lambda ones: ones(2)[1.0],
                ShapeError,
                "index: 1.0 cannot index; ints, slices, None, Ellipsis and arrays of"
                " integers or bools can",
            ),
        ),
    ),
    "bits_as": Case(
        as_bytes_and_back,
        (sample((7, 11)), sample((0, 3)), sample((1,)), sample((2, 3, 4))),
        np.copy,
        exact=True,
        gradient=False,  # bits have none
    ),
    "strided_scatter": Case(
        ops.strided_scatter,
        (
            sample((7, 11), (2, 3), layout=INNER),
            sample((3, 5), (0, 5), layout=Layout((0, 5), (5, 1), 0)),
            sample((3, 5), (0, 2, 0), layout=Layout((0, 2, 0), (2, 0, 0), 3)),
            sample((1,), (1,), layout=Layout((1,), (1,), 0)),
        ),
        placed,
        exact=True,
        bad=(
            Bad(
                lambda ones: ops.strided_scatter(
                    ones(4), ones(2, 2), Layout((2, 2), (1, 1), 0)
                ),
                ShapeError,
                "strided_scatter: elements of shape (2, 2) with strides (1, 1) share"
                " memory; change a copy instead",
            ),
        ),
    ),
    "as_strided": Case(
        lambda x, layout: REGISTRY["as_strided"](x, layout),
        (
            sample((7, 11), layout=INNER),
            sample((0, 5), layout=Layout((5, 0), (1, 5), 0)),
            sample((1,), layout=Layout((1, 1), (1, 1), 0)),
        ),
        lambda x, layout: strided(np.ascontiguousarray(x).reshape(-1), layout),
        exact=True,
    ),
    "move": Case(
        lambda x: REGISTRY["move"](x, x.device, fw.device("cpu")),
        (sample((7, 11)), sample(()), sample((0, 3))),
        np.copy,
        exact=True,
    ),
    "diagonal": Case(
        ops.diagonal,
        (
            sample((7, 11), offset=2),
            sample((7, 4), offset=-3),
            sample((3, 5, 4), offset=1, dim1=2, dim2=0),
            sample((3, 2), offset=2),
            sample((0, 3), offset=0),
            sample((1, 1), offset=0),
        ),
        lambda x, offset, dim1=0, dim2=1: np.diagonal(x, offset, dim1, dim2),
        torch.diagonal,
        exact=True,
        bad=(
            Bad(
                lambda ones: ops.diagonal(ones(2, 3), 0, 1, -1),
                ShapeError,
                "diagonal: dim1 and dim2 are both 1; they must differ",
            ),
        ),
    ),
    "unfold": Case(
        ops.unfold,
        (
            sample((7, 11), dimension=1, size=3, step=2),
            sample((37,), dimension=0, size=5, step=1),
            sample((5, 3, 2), dimension=0, size=2, step=3),
            sample((4,), dimension=0, size=4, step=1),
            sample((0, 3), dimension=1, size=2, step=1),
            sample((1,), dimension=0, size=1, step=1),
        ),
        torch=windows,
        exact=True,
        bad=(
            Bad(
                lambda ones: ops.unfold(ones(2, 3), 1, 4, 1),
                ShapeError,
                "unfold: size 4, step 1 for dimension 1 of size 3; the step must be at"
                " least 1 and the window fit",
            ),
        ),
    ),
    "remap": Case(
        ops.pad,
        (
            sample((7, 11), pad=(2, 1, 0, 3), value=1),
            sample((7, 11), pad=(-2, 4, 1, -3)),
            sample((3, 5, 8), pad=(2, 4, 4, 0), mode="reflect"),
            sample((3, 5, 8), pad=(3, 9, 0, 2), mode="replicate"),
            sample((3, 5, 8), pad=(0, 8, 3, 2), mode="circular"),
            sample((0, 3), pad=(1, 1, 1, 1)),
            sample((1,), pad=(2, 0)),
        ),
        torch=padded,
        exact=True,
        bad=(
            Bad(
                lambda ones: ops.pad(ones(2, 3), (1, 1), "wrap"),
                ShapeError,
                "pad: mode is 'wrap'; it must be one of ('constant', 'circular',"
                " 'reflect', 'replicate')",
            ),
            Bad(
                lambda ones: ops.pad(ones(3), (1, 1, 1, 1)),
                ShapeError,
                "pad: 4 paddings for 1 dimensions; there must be two for each, or for"
                " the last ones",
            ),
            Bad(
                lambda ones: ops.pad(ones(3), (3, 0), "reflect"),
                ShapeError,
                "pad: (3, 0) for dimension 0 of size 3 in mode 'reflect'; there are not"
                " enough elements",
            ),
            Bad(
                lambda ones: ops.pad(ones(3), (-2, -2)),
                ShapeError,
                "pad: (-2, -2) takes more than the 3 elements of dimension 0",
            ),
        ),
    ),
    "concat_strided": Case(
        lambda *parts, dim: ops.cat([part.mT for part in parts], dim),
        (
            sample((3, 7), (3, 7), dim=0),
            sample(*[(4, 2, 3, 5)] * 3, dim=1),
            sample(*[(2, 3, 5)] * 4, dim=-1),
            sample(*[(2, 3, 4, 5)] * 6, dim=2),
            sample((1, 1), (1, 1), dim=0),
            sample((0, 3), (0, 3), dim=1),
        ),
        lambda *parts, dim: np.concatenate(
            [part.swapaxes(-1, -2) for part in parts], dim
        ),
        lambda *parts, dim: torch.cat([part.mT for part in parts], dim),
        exact=True,
    ),
    "concat": Case(
        lambda *parts, dim: ops.cat(parts, dim),
        (
            sample((7, 3), (7, 5), dim=1),
            sample((2, 3), (4, 3), (0, 3), (1, 3), dim=0),
            sample(*[(3, k, 2) for k in range(1, 12)], dim=-2),
            sample((7,), dim=0),
            sample((1,), (1,), dim=0),
        ),
        lambda *parts, dim: np.concatenate(parts, dim),
        lambda *parts, dim: torch.cat(parts, dim),
        exact=True,
        bad=(
            Bad(
                lambda ones: ops.cat([ones(2, 3), ones(2, 4)]),
                ShapeError,
                "cat: shapes (2, 3) and (2, 4) differ outside of dimension 0; there"
                " they must be equal",
            ),
            Bad(
                lambda ones: ops.cat([]),
                ShapeError,
                "cat: there are no tensors; at least one is needed",
            ),
        ),
    ),
}
