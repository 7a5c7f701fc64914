"""GEMMs of quantized weights, decoded on load for tensor cores."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

from ...base.dtype import DType, uint8
from ...base.shape import Layout, Shape, TensorSpec
from ...ir.kernel_call import (
    MAX_GROUPS,
    Argument,
    Dispatch,
    IndexSlot,
    Scratch,
    StridedSpec,
)
from ..quantized import NIBBLES, dequantize_dispatch
from .grouped import ROW_SITE, grouped_rows_dispatches
from .select import decoded_gemm
from .skinny import MOST_ROWS, skinny_coopmat
from .tiles import SIMT

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...base.quantized_format import QuantizedFormat


MOST_ROWS_OF_NIBBLES, MOST_ROWS_OF_BYTES = 256, 128
"""Rows up to which decoding on load, for each tile of rows anew, is quicker than a
temporary copy: of formats with four bits an element, and of those with more."""


def decoding_gemm(
    gpu: DeviceInfo,
    x: StridedSpec,
    blocks: StridedSpec,
    kind: QuantizedFormat,
    has_bias: bool = False,
) -> list[Dispatch] | None:
    """Return the dispatches of a product that decodes weights on load, or None.

    Parameters
    ----------
    gpu : DeviceInfo
        With tensor cores for the dtype of `x`.
    x : StridedSpec, shape (rows, k), float16 or bfloat16
    blocks : StridedSpec, shape (columns, row_size), uint8
    kind : QuantizedFormat
    has_bias : bool, default False
        Whether there is `bias`, which at most `MOST_ROWS` rows take.
    """
    columns, row_size = blocks.shape
    if x.shape[0] <= MOST_ROWS:
        names = "x", "blocks"
        return skinny_coopmat(gpu, x, columns, row_size, kind, names, has_bias)
    if has_bias:
        return None
    return decoded_gemm(gpu, x, columns, row_size, kind)


def decoding_grouped_gemm(
    gpu: DeviceInfo, x: StridedSpec, blocks: StridedSpec, kind: QuantizedFormat
) -> list[Dispatch] | None:
    """Return the dispatches of a product of groups of rows, or None.

    Parameters
    ----------
    gpu : DeviceInfo
        With tensor cores for the dtype of `x`.
    x : StridedSpec, shape (rows, k), float16 or bfloat16
    blocks : StridedSpec, shape (groups, columns, row_size), uint8
    kind : QuantizedFormat
    """
    groups, columns, row_size = blocks.shape
    if not 0 < groups <= MAX_GROUPS:
        return None
    told: dict[str, Argument] = {"offsets": "offs"}
    told |= {"error": IndexSlot(ROW_SITE, x.shape[0])}
    return decoded_gemm(gpu, x, columns, row_size, kind, groups, told)


def decoded_groups(
    gpu: DeviceInfo, x: StridedSpec, blocks: StridedSpec, kind: QuantizedFormat
) -> list[Dispatch]:
    """Return the dispatches of a product of groups of rows with decoded weights.

    Parameters
    ----------
    gpu, x, blocks, kind
        As of `decoding_grouped_gemm`; any device.
    """
    groups, columns, _ = blocks.shape
    k = x.shape[1]
    out = TensorSpec((groups, columns, k), x.dtype)
    elements = Scratch("elements", out.numel * x.dtype.itemsize)
    decoding = dequantize_dispatch(gpu, blocks, kind, out)
    turned = Layout((groups, k, columns), (columns * k, 1, k), 0)
    weights = StridedSpec(turned.shape, x.dtype, turned)
    named: dict[Argument, Argument] = {"a": "x", "b": elements}
    products = grouped_rows_dispatches(gpu, x, weights, SIMT)
    return [
        dataclasses.replace(decoding, push={**decoding.push, "out_": elements}),
        *(
            dataclasses.replace(
                each, push={key: named.get(v, v) for key, v in each.push.items()}
            )
            for each in products
        ),
    ]


@functools.lru_cache(maxsize=1024)
def takes_decoding_grouped_gemm(
    gpu: DeviceInfo, dtype: DType, x: Shape, blocks: Shape, kind: QuantizedFormat
) -> bool:
    """Return whether `decoding_grouped_gemm` takes operands of these shapes."""
    most = _most_rows(kind) * blocks[0]
    return (
        x[0] <= most
        and decoding_grouped_gemm(gpu, _spec(x, dtype), _spec(blocks, uint8), kind)
        is not None
    )


@functools.lru_cache(maxsize=1024)
def takes_decoding_gemm(
    gpu: DeviceInfo,
    dtype: DType,
    sizes: tuple[int, int, int],
    row_size: int,
    kind: QuantizedFormat,
) -> bool:
    """Return whether `decoding_gemm` takes a product of (rows, k, columns)."""
    rows, k, columns = sizes
    given = _spec((rows, k), dtype), _spec((columns, row_size), uint8)
    return rows <= _most_rows(kind) and decoding_gemm(gpu, *given, kind) is not None


def _most_rows(kind: QuantizedFormat) -> int:
    return MOST_ROWS_OF_NIBBLES if kind.family in NIBBLES else MOST_ROWS_OF_BYTES


def _spec(shape: Shape, dtype: DType) -> StridedSpec:
    return StridedSpec(shape, dtype, Layout.contiguous(shape))
