"""Rows of the op table for pooling and resizing."""

import itertools
import math
from typing import Any

import numpy as np
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

from tests.case import Bad, Case, Draw, Sample, sample
from vkbackend.framework import ops
from vkbackend.framework.base.errors import DTypeError, ShapeError
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.kernels.conv.window import Window
from vkbackend.framework.ops.pool.filter_weights import (
    Averages,
    Linear,
    Nearest,
    Rule,
    Shares,
    Smoothed,
)
from vkbackend.framework.ops.pool.resample import (
    resampled_at_once,
    resampled_rows,
    volumes_at_once,
)

SHRUNK = (
    Nearest(4, 2, 4 / 2, True),
    Nearest(7, 7, 1.0, True),
    Nearest(5, 13, 5 / 13, True),
)
GROWN = (
    Nearest(3, 7, 3 / 7, False),
    Nearest(4, 9, 1 / 2.3, False),
    Nearest(5, 5, 1.0, False),
)


def scattered(
    grad: np.ndarray, indices: np.ndarray, size: Any, window: Any = None
) -> Any:
    """Return gradients added up where the indices say."""
    batch, channels, *inner = grad.shape
    flat = batch * channels, math.prod(inner)
    out = np.zeros((flat[0], size[0] * size[1]), grad.dtype)
    places = (np.arange(flat[0])[:, None], indices.reshape(flat))
    np.add.at(out, places, grad.reshape(flat))
    return out.reshape(*grad.shape[:2], *size)


def nearest(x: np.ndarray, rules: tuple[Nearest, ...], back: bool) -> np.ndarray:
    """Return the products with the matrices of the nearest elements."""
    out = x.astype(np.float64)
    for dim, rule in enumerate(rules, start=1):
        matrix = np.eye(rule.size)[rule.places()]
        out = np.moveaxis(np.tensordot(out, matrix, (dim, 0 if back else 1)), -1, dim)
    return out.astype(x.dtype)


def weighted(x: np.ndarray, rule: Rule, back: bool = False) -> np.ndarray:
    """Return the product with the matrix that a rule stands for."""
    first, count, weights = rule.taps()
    matrix = np.zeros((rule.out, rule.size))
    for row, start, used, values in zip(matrix, first, count, weights):
        row[start : start + used] = values[:used]
    product = (matrix.T if back else matrix) @ x.astype(np.float64)
    return product.astype(x.dtype)


def volumes_weighted(
    x: np.ndarray, rules: tuple[Rule, Rule, Rule], back: bool = False
) -> np.ndarray:
    """Return the same along the last three of four dimensions."""
    for dim, rule in enumerate(rules, 1):
        moved = np.moveaxis(x.astype(np.float64), dim, -2)
        x = np.moveaxis(weighted(moved, rule, back), -2, dim).astype(x.dtype)
    return x


WINDOWS = Averages(7, 4, 3, 2, 1, "padded")
SMOOTH = Smoothed(7, 3, 7 / 3, True)

PLAIN = Window((2, 2), (2, 2), (0, 0), (1, 1))
DEEP = Window((2, 1), (3, 1), (0, 0), (1, 1))
TALL = Window((3, 1), (3, 1), (1, 0), (1, 1))
ONE = Window((1, 1), (1, 1), (0, 0), (1, 1))


def deepest(x: np.ndarray, deep: Window, flat: Window) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest of each window of volumes, and its position."""
    shape = len(x), deep.output(x.shape[1], 1)[0], *flat.output(*x.shape[2:])
    out, places = np.full(shape, -np.inf, x.dtype), np.zeros(shape, np.int32)
    for volume, d, h, w in np.ndindex(shape):
        starts = [
            at * step - pad
            for at, step, pad in zip(
                (d, h, w),
                (deep.stride[0], *flat.stride),
                (deep.padding[0], *flat.padding),
            )
        ]
        kernel = deep.kernel[0], *flat.kernel
        for tap in np.ndindex(kernel):
            at = tuple(start + step for start, step in zip(starts, tap))
            inside = all(0 <= n < size for n, size in zip(at, x.shape[1:]))
            if inside and x[volume][at] > out[volume, d, h, w]:
                out[volume, d, h, w] = x[volume][at]
                places[volume, d, h, w] = np.ravel_multi_index(at, x.shape[1:])
    return out, places


def largest_of_windows(
    x: np.ndarray,
    eighths: np.ndarray,
    kernel: tuple[int, ...],
    parts: tuple[int, ...],
    draws: tuple[int, ...],
) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest of each window that begins where samples say, in eighths."""
    shape, samples = (len(x), *parts), eighths.astype(np.float32) / 8
    out, places = np.zeros(shape, x.dtype), np.zeros(shape, np.int32)
    for volume, *part in np.ndindex(shape):
        window = []
        for dim, (size, taps, count) in enumerate(zip(x.shape[1:], kernel, parts)):
            draw, last = samples[volume, draws[dim]], size - taps
            step = draw.dtype.type(last / max(1, count - 1))
            first = int((part[dim] + draw) * step) - int(draw * step)
            first = last if part[dim] == count - 1 else first
            window.append(range(first, first + taps))
        at = max(itertools.product(*window), key=lambda at: x[volume][at])
        out[(volume, *part)] = x[volume][at]
        places[(volume, *part)] = np.ravel_multi_index(at, x.shape[1:])
    return out, places


POOLING = {
    "fractional_max_pool": Case(
        # Of whole numbers, which take no gradient.
        lambda x, eighths, **options: REGISTRY["fractional_max_pool"](
            x, eighths.to("float32") / 8, **options
        ),
        (
            *(
                Sample(
                    (
                        Draw(shape),
                        Draw((shape[0], len(shape) - 1), 0, 8, "int32"),
                    ),
                    {"kernel": kernel, "parts": parts, "draws": draws},
                )
                for shape, kernel, parts, draws in (
                    ((2, 7, 11), (2, 3), (4, 5), (1, 0)),
                    ((2, 5, 4, 7), (2, 1, 3), (3, 4, 1), (0, 1, 2)),
                    ((0, 5, 4), (2, 2), (3, 2), (1, 0)),
                    ((1, 1, 1), (1, 1), (1, 1), (1, 0)),
                )
            ),
        ),
        largest_of_windows,
        exact=True,
    ),
    "max_pool2d": Case(
        ops.max_pool2d,
        (
            sample((2, 3, 7, 11), kernel_size=2),
            sample((2, 3, 8, 8), kernel_size=3, stride=2, padding=1),
            sample(
                (1, 2, 11, 9),
                kernel_size=(3, 2),
                stride=(1, 2),
                padding=(1, 0),
                dilation=(2, 1),
            ),
            sample((2, 3, 8, 9), kernel_size=2, stride=(2, 4), ceil_mode=True),
            sample((0, 3, 4, 4), kernel_size=2),
            sample((1, 1, 1, 1), kernel_size=1),
        ),
        torch=F.max_pool2d,
        exact=True,
        bad=(
            Bad(
                lambda ones: ops.max_pool2d(ones(5, 5), 2),
                ShapeError,
                "max_pool2d: x is (5, 5); it must be 4-D, or 3-D without a batch",
            ),
            Bad(
                lambda ones: ops.max_pool2d(ones(1, 3, 5, 5), 2, padding=2),
                ShapeError,
                "max_pool2d: padding is (2, 2); it must be at most half of the kernel"
                " (2, 2)",
            ),
            Bad(
                lambda ones: ops.max_pool2d(ones(1, 3, 5, 5), 6),
                ShapeError,
                "max_pool2d: a window of (6, 6) with dilation (1, 1) does not fit an"
                " image of (5, 5) with padding (0, 0)",
            ),
        ),
    ),
    "max_pool2d_input_vjp": Case(
        REGISTRY["max_pool2d_input_vjp"],
        (
            # Windows that do not overlap get each position once at most.
            *(
                Sample(
                    (Draw(shape), Draw(shape, 0, 4, "int32")),
                    {"size": (2, 2), "window": window},
                )
                for window in (PLAIN, None)
                for shape in ((2, 3, 1, 1), (0, 3, 1, 1), (1, 1, 1, 1))
            ),
        ),
        scattered,
        exact=True,
    ),
    "adaptive_max_pool2d": Case(
        ops.adaptive_max_pool2d,
        (
            sample((2, 3, 7, 11), output_size=(3, 4)),
            sample((3, 5, 9), output_size=(7, None)),
            sample((2, 3, 8, 8), output_size=2),
            sample((0, 3, 5, 5), output_size=2),
            sample((1, 1, 1, 1), output_size=1),
        ),
        torch=F.adaptive_max_pool2d,
        exact=True,
        bad=(
            Bad(
                lambda ones: ops.adaptive_max_pool2d(ones(3, 5, 5), (2, 0)),
                ShapeError,
                "adaptive_max_pool2d: output_size is (2, 0); it must be one number or"
                " (height, width), each at least 1",
            ),
            Bad(
                lambda ones: ops.adaptive_max_pool2d(ones(3, 0, 5), 2),
                ShapeError,
                "adaptive_max_pool2d: x is (1, 3, 0, 5), output_size (2, 2); sizes must"
                " be from 1 to 65536",
            ),
        ),
    ),
    "nearest": Case(
        REGISTRY["nearest"],
        (
            sample((3, 4, 7, 5), rules=SHRUNK, back=False),
            sample((3, 2, 7, 13), rules=SHRUNK, back=True),
            sample((2, 3, 4, 5), rules=GROWN, back=False),
            sample((2, 7, 9, 5), rules=GROWN, back=True),
            sample((0, 3, 4, 5), rules=GROWN, back=False),
            sample((1, 1, 1, 1), rules=(Nearest(1, 1, 1.0, False),) * 3, back=False),
        ),
        nearest,
    ),
    "max_pool3d": Case(
        REGISTRY["max_pool3d"],
        (
            sample((2, 7, 5, 11), deep=DEEP, flat=PLAIN),
            sample(
                (3, 4, 6, 3), deep=DEEP, flat=Window((3, 1), (3, 1), (1, 0), (1, 1))
            ),
            sample((0, 4, 4, 4), deep=DEEP, flat=PLAIN),
            sample((1, 1, 1, 1), deep=ONE, flat=ONE),
        ),
        deepest,
        exact=True,
    ),
    "resample2d": Case(
        resampled_at_once,
        (
            sample((3, 7, 5), row_rule=WINDOWS, column_rule=Shares(5, 3)),
            sample((2, 7, 11), row_rule=SMOOTH, column_rule=Linear(11, 4, 2.75, True)),
            sample((2, 4, 3), row_rule=WINDOWS, column_rule=Shares(5, 3), back=True),
            sample((0, 7, 5), row_rule=WINDOWS, column_rule=Shares(5, 3)),
            sample((1, 1, 1), row_rule=Shares(1, 1), column_rule=Shares(1, 1)),
        ),
        lambda x, row_rule, column_rule, back=False: weighted(
            weighted(x, row_rule, back).swapaxes(1, 2), column_rule, back
        ).swapaxes(1, 2),
        scale=4,
    ),
    "resample3d": Case(
        volumes_at_once,
        (
            sample((2, 4, 7, 5), rules=(Shares(4, 3), WINDOWS, Shares(5, 3))),
            sample(
                (2, 3, 7, 11),
                rules=(Linear(3, 5, 0.6, False), SMOOTH, Linear(11, 4, 2.75, True)),
            ),
            sample(
                (2, 3, 4, 3), rules=(Shares(4, 3), WINDOWS, Shares(5, 3)), back=True
            ),
            sample((0, 4, 7, 5), rules=(Shares(4, 3), WINDOWS, Shares(5, 3))),
            sample((1, 1, 1, 1), rules=(Shares(1, 1),) * 3),
        ),
        volumes_weighted,
        scale=4,
    ),
    "resample": Case(
        resampled_rows,
        (
            sample((3, 7, 5), rule=Averages(7, 4, 3, 2, 1, "padded")),
            sample((3, 7, 5), rule=Linear(7, 11, 7 / 11, False)),
            sample((3, 7, 5), rule=Smoothed(7, 3, 7 / 3, True)),
            sample((3, 7, 5), rule=Shares(7, 5), back=False),
            sample((3, 5, 4), rule=Shares(7, 5), back=True),
            sample((0, 7, 5), rule=Shares(7, 5)),
            sample((1, 1, 1), rule=Shares(1, 1)),
        ),
        weighted,
        bad=(
            Bad(
                lambda ones: ops.avg_pool2d(ones(3, 5, 5), 2, divisor_override=0),
                ShapeError,
                "avg_pool2d: divisor_override is 0; it must be another number",
            ),
            Bad(
                lambda ones: ops.avg_pool2d(ones(3, 5, 5, dtype="int32"), 2),
                DTypeError,
                "avg_pool2d: `x` is int32; accepted: float16, bfloat16, float32,"
                " float64; call x.float() first",
            ),
            Bad(
                lambda ones: ops.interpolate(ones(3, 5, 5), 2, mode="bilinear"),
                ShapeError,
                "interpolate: mode is 'bilinear' for x of shape (3, 5, 5); a 3-D tensor"
                " takes nearest, nearest-exact, area, linear",
            ),
            Bad(
                lambda ones: ops.interpolate(ones(3, 5, 5), 2, align_corners=True),
                ShapeError,
                "interpolate: align_corners is True; mode 'nearest' has no corners to"
                " align, so leave it out",
            ),
            Bad(
                lambda ones: ops.interpolate(ones(3, 5, 5), 2, antialias=True),
                ShapeError,
                "interpolate: antialias is for modes 'bilinear' and 'bicubic', not"
                " 'nearest'",
            ),
            Bad(
                lambda ones: ops.interpolate(ones(3, 5, 5)),
                ShapeError,
                "interpolate: size is None and scale_factor is None; one of them must"
                " be given",
            ),
            Bad(
                lambda ones: ops.interpolate(ones(3, 5, 5), scale_factor=-1.0),
                ShapeError,
                "interpolate: scale_factor is -1.0; it must be one number or 1, each"
                " above 0",
            ),
            Bad(
                lambda ones: ops.interpolate(ones(3, 5, 5), scale_factor=0.1),
                ShapeError,
                "interpolate: dimension 2 goes from 5 to 0 elements; both must be from"
                " 1 to 16777216",
            ),
        ),
    ),
}
