"""Rows of the op table: quantized weights."""

import numpy as np

import vkbackend.framework as fw
from tests.case import Bad, Case, Draw, Sample, sample
from vkbackend.framework.base.dtype import float32
from vkbackend.framework.base.errors import DTypeError, ShapeError
from vkbackend.framework.base.quantized_format import find_format
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.ops.quantized.decode import decode

FORMAT = "q4_0"


def blocks(*shape: int) -> Draw:
    """Return bytes of which two are a finite float16."""
    return Draw(shape, 0, 60, "uint8")


def elements(given: np.ndarray, columns: int) -> np.ndarray:
    return decode(given, find_format(FORMAT), columns)


def levels(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    sizes = scale.astype(np.float32)
    wide = x if x.dtype == np.float64 else x.astype(np.float32)
    found = np.clip(np.rint(wide * (1 / sizes)) + 2, 0, 7) - 2
    return (found.astype(np.float32) * sizes).astype(x.dtype)


def product(
    x: np.ndarray, given: np.ndarray, bias: np.ndarray | None = None
) -> np.ndarray:
    out = x.astype(np.float64) @ elements(given, x.shape[1]).T
    return (out if bias is None else out + bias).astype(x.dtype)


def gated(x: np.ndarray, gate: np.ndarray, given: np.ndarray) -> np.ndarray:
    g, u = (product(x.astype(np.float64), each) for each in (gate, given))
    return (g / (1 + np.exp(-g)) * u).astype(x.dtype)


def gated_floats(x: np.ndarray, gate: np.ndarray, up: np.ndarray) -> np.ndarray:
    g, u = (x.astype(np.float64) @ each.astype(np.float64).T for each in (gate, up))
    return (g / (1 + np.exp(-g)) * u).astype(x.dtype)


def gathered(x: np.ndarray, given: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    rows = np.repeat(x, len(numbers) // max(1, len(x)), 0)
    found = [product(row[None], given[i]) for row, i in zip(rows, numbers, strict=True)]
    return np.concatenate([*found, np.zeros((0, given.shape[1]), x.dtype)])


def gated_gathered(
    x: np.ndarray, gate: np.ndarray, given: np.ndarray, numbers: np.ndarray
) -> np.ndarray:
    wide = x.astype(np.float64)
    g, u = (gathered(wide, each, numbers) for each in (gate, given))
    return (g / (1 + np.exp(-g)) * u).astype(x.dtype)


def grouped(x: np.ndarray, given: np.ndarray) -> np.ndarray:
    ends = [len(x) // 3, len(x) // 3, len(x)]
    spans = zip([0, *ends[:-1]], ends, strict=True)
    parts = [product(x[a:b], each) for each, (a, b) in zip(given, spans, strict=True)]
    return np.concatenate(parts)


def grouped_offsets(x: fw.Tensor) -> fw.Tensor:
    ends = [len(x) // 3, len(x) // 3, len(x)]
    return fw.tensor(ends, dtype=fw.int32, device=x.device)


QUANTIZED = {
    "dequantize_blocks": Case(
        lambda x: REGISTRY["dequantize_blocks"](x, FORMAT, 64, float32),
        (sample((7, 36)), sample((0, 36))),
        lambda x: elements(x, 64),
        exact=True,
        gradient=False,
        bad=(
            Bad(
                lambda ones: REGISTRY["dequantize_blocks"](
                    ones(2, 35, dtype="uint8"), FORMAT, 64, float32
                ),
                ShapeError,
                "dequantize_blocks: blocks is (2, 35); rows of 64 columns in q4_0 take"
                " 36 bytes",
            ),
            Bad(
                lambda ones: REGISTRY["dequantize_blocks"](
                    ones(2, 36, dtype="uint8"), FORMAT, 65, float32
                ),
                ShapeError,
                "dequantize_blocks: there are 65 columns; q4_0 takes a multiple of 32"
                " above 0",
            ),
        ),
    ),
    "quantized_gemv": Case(
        lambda x, given: REGISTRY["quantized_gemv"](x, given, None, FORMAT),
        (
            Sample((Draw((3, 96)), blocks(37, 54))),
            Sample((Draw((0, 32)), blocks(3, 18))),
        ),
        product,
        gradient=False,
        scale=20,  # dozens of terms of size 4, in any order
        bad=(
            Bad(
                lambda ones: REGISTRY["quantized_gemv"](
                    ones(2, 32, dtype="int32"), ones(2, 18, dtype="uint8"), None, FORMAT
                ),
                DTypeError,
                "quantized_gemv: `x` is int32; accepted: float32, float16, bfloat16;"
                " call x.float() first",
            ),
        ),
    ),
    "quantized_gemm": Case(
        lambda x, given: REGISTRY["quantized_gemm"](x, given, None, FORMAT),
        (
            Sample((Draw((11, 96)), blocks(37, 54))),
            Sample((Draw((0, 32)), blocks(3, 18))),
        ),
        product,
        gradient=False,
        scale=20,  # dozens of terms of size 4, in any order
    ),
    "quantized_grouped_gemm": Case(
        lambda x, given: REGISTRY["quantized_grouped_gemm"](
            x, given, grouped_offsets(x), FORMAT
        ),
        (
            Sample((Draw((11, 96)), blocks(3, 37, 54))),
            Sample((Draw((0, 32)), blocks(3, 5, 18))),
        ),
        grouped,
        gradient=False,
        scale=20,
    ),
    "gated_quantized_gemv": Case(
        lambda x, gate, given: REGISTRY["gated_quantized_gemv"](
            x, gate, given, FORMAT, "silu"
        ),
        (
            Sample((Draw((3, 96), -0.01, 0.01), blocks(37, 54), blocks(37, 54))),
            Sample((Draw((0, 32)), blocks(3, 18), blocks(3, 18))),
        ),
        gated,
        gradient=False,
        scale=20,
    ),
    "gated_gemv": Case(
        lambda x, gate, up: REGISTRY["gated_gemv"](x, gate, up, "silu"),
        (
            Sample((Draw((3, 104), -0.3, 0.3), Draw((37, 104)), Draw((37, 104)))),
            Sample((Draw((0, 8)), Draw((3, 8)), Draw((3, 8)))),
        ),
        gated_floats,
        gradient=False,
        scale=20,
        bad=(
            Bad(
                lambda ones: REGISTRY["gated_gemv"](
                    *(
                        ones(*each, dtype="float16")
                        for each in [(1, 12)] + [(3, 12)] * 2
                    ),
                    "silu",
                ),
                ShapeError,
                "gated_gemv: x is (1, 12), gate (3, 12), up (3, 12); they must be"
                " (rows, k), and twice (columns, k), k a multiple of 8",
            ),
        ),
    ),
    "quantized_product": Case(
        lambda x, given, bias: REGISTRY["quantized_product"](x, given, bias, FORMAT),
        (
            Sample((Draw((5, 64)), blocks(11, 36), Draw((11,)))),
            Sample((Draw((0, 32)), blocks(3, 18), Draw((3,)))),
        ),
        product,
        scale=20,
    ),
    "quantized_gather_mm": Case(
        lambda x, given, numbers: REGISTRY["quantized_gather_mm"](
            x, given, numbers, FORMAT
        ),
        (
            Sample((Draw((3, 96)), blocks(4, 37, 54), Draw((6,), 0, 4, "int32"))),
            Sample((Draw((0, 32)), blocks(2, 3, 18), Draw((0,), 0, 2, "int32"))),
        ),
        gathered,
        gradient=False,
        scale=20,
    ),
    "gated_quantized_gather_mm": Case(
        lambda x, gate, given, numbers: REGISTRY["gated_quantized_gather_mm"](
            x, gate, given, numbers, FORMAT, "silu"
        ),
        (
            Sample(
                (
                    Draw((3, 96), -0.01, 0.01),
                    blocks(4, 37, 54),
                    blocks(4, 37, 54),
                    Draw((6,), 0, 4, "int32"),
                )
            ),
            Sample(
                (
                    Draw((0, 32)),
                    blocks(2, 3, 18),
                    blocks(2, 3, 18),
                    Draw((0,), 0, 2, "int32"),
                )
            ),
        ),
        gated_gathered,
        gradient=False,
        scale=20,
    ),
    "fake_quantize": Case(
        lambda x, scale: REGISTRY["fake_quantize"](
            x, scale.float(), scale.float() * 0 + 2, 0, 7
        ),
        (
            Sample((Draw((7, 11)), Draw((11,), 0.2, 0.4))),
            Sample((Draw((3, 1, 5)), Draw((1, 1), 0.2, 0.4))),
            Sample((Draw((0, 3)), Draw((3,), 0.2, 0.4))),
            Sample((Draw((1,)), Draw((1,), 0.2, 0.4))),
        ),
        levels,
        gradient=False,  # of steps
    ),
    "quantized_grouped_mm": Case(
        lambda x, given: REGISTRY["quantized_grouped_mm"](
            x, given, grouped_offsets(x), FORMAT
        ),
        (
            Sample((Draw((11, 64)), blocks(3, 11, 36))),
            Sample((Draw((0, 32)), blocks(3, 3, 18))),
        ),
        grouped,
        scale=20,
    ),
}
