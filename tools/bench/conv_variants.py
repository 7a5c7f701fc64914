"""Timing of convolutions with and without Winograd's minimal filtering.

`python -m vkbackend.tools.bench.conv_variants` times, on the Vulkan device, of each
shape the forward pass and both gradients: as chosen, by the other kernels alone, by
Winograd's alone (`kernels/conv/winograd.py`), with other tiles, and with other sizes of
the scratch memory of a piece. It prints a table for each: the quickest first, `*` is
what is chosen now. It ends after `--seconds` (50); `--shape
IMAGESxCHANNELSxHEIGHTxWIDTHxFILTERSxDOWNxACROSS` gives shapes, whose padding keeps the
sizes, with `xDILATION` where taps lie apart, `--only` a part of a title, `--precision`
that of float32 products.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import vkbackend.framework as fw
from vkbackend.framework import Tensor
from vkbackend.framework.base.dtype import float32
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.kernels.conv import winograd
from vkbackend.framework.kernels.conv.problem import Convolution
from vkbackend.framework.kernels.conv.window import Window
from vkbackend.framework.kernels.tensor_cores import PRECISIONS, convolution_mode

from ..exit_status import outcome
from .measure import device_to_measure
from .variants import Variant, print_table, timings


class Shape(NamedTuple):
    """Sizes of a convolution with a stride of 1 whose padding keeps the sizes."""

    images: int
    channels: int
    height: int
    width: int
    filters: int
    down: int
    across: int
    dilation: int = 1

    @property
    def window(self) -> Window:
        """Windows of the filters."""
        taps, apart = (self.down, self.across), (self.dilation, self.dilation)
        padding = self.dilation * (taps[0] // 2), self.dilation * (taps[1] // 2)
        return Window(taps, (1, 1), padding, apart)

    @property
    def name(self) -> str:
        """Return the sizes as `--shape` takes them."""
        sizes = self if self.dilation > 1 else self[:-1]
        return "x".join(map(str, sizes))

    @property
    def operations(self) -> float:
        """Floating-point operations of any pass, computed directly."""
        pixels = self.images * math.prod(self.window.output(self.height, self.width))
        return 2.0 * pixels * self.channels * self.filters * self.down * self.across


SHAPES = (
    Shape(4, 320, 64, 64, 320, 3, 3),
    Shape(64, 64, 56, 56, 64, 3, 3),
    Shape(16, 256, 1, 4096, 256, 1, 5),
    Shape(16, 256, 1, 4096, 256, 1, 3),
    Shape(64, 256, 14, 14, 256, 3, 3),
    Shape(64, 512, 7, 7, 512, 3, 3),
    Shape(1, 128, 256, 256, 128, 3, 3),
    Shape(8, 32, 128, 128, 32, 3, 3),
    Shape(32, 64, 56, 56, 64, 5, 5),
    Shape(32, 128, 28, 28, 128, 3, 3, 2),
    Shape(8, 128, 64, 64, 128, 3, 3, 4),
    Shape(16, 256, 1, 4096, 256, 1, 3, 4),
    Shape(16, 256, 1, 4096, 256, 1, 9),
    Shape(8, 128, 28, 28, 128, 7, 7),
)


class Table(NamedTuple):
    """A pass of one shape."""

    title: str
    run: Callable[[], Sequence[Tensor]]
    operations: float


def variants() -> list[Variant]:
    """Return the variants, what is chosen first."""
    own = [(winograd, "TAKEN", True)]
    small: dict[int, int] = {3: 2, 5: 2}
    tiles = [
        Variant(
            f"Winograd, {name} tiles",
            [*own, (winograd, "PLANE_TILES", plane), (winograd, "LINE_TILES", line)],
        )
        for name, plane, line in (
            ("small", small, small),
            ("large", winograd.PLANE_TILES, winograd.LARGE_LINE_TILES),
        )
    ]
    pieces = [
        Variant(
            f"Winograd, pieces of {size} MiB",
            [*own, (winograd, "MOST_BYTES", size << 20)],
        )
        for size in (24, 64)
    ]
    return [
        Variant("as chosen", []),
        Variant("without Winograd", [(winograd, "TAKEN", False)]),
        Variant("Winograd", own),
        *tiles,
        *pieces,
    ]


def tables(device: Any, shape: Shape) -> Iterator[Table]:
    """Yield the passes of a shape."""
    how = Convolution(shape.window, 1, convolution_mode(device, float32))
    size = shape.height, shape.width
    fw.manual_seed(0)
    x, weight, grad = (
        fw.randn(*each, device=device)
        for each in (
            (shape.images, shape.channels, *size),
            (shape.filters, shape.channels, *shape.window.kernel),
            (shape.images, shape.filters, *shape.window.output(*size)),
        )
    )
    fw.eval(x, weight, grad)
    forward, by_images, by_filters = (
        REGISTRY[name] for name in ("conv2d", "conv2d_input_vjp", "conv2d_weight_vjp")
    )
    rules: tuple[tuple[str, Callable[[], Sequence[Tensor]]], ...] = (
        ("forward", lambda: [forward(x, weight, None, how)]),
        ("by images", lambda: [by_images(grad, weight, None, size, how)]),
        ("by filters", lambda: [by_filters(grad, x, how)]),
    )
    for name, run in rules:
        yield Table(f"{name} {shape.name}", run, shape.operations)


def _shape(text: str) -> Shape:
    sizes = text.split("x")
    numbers = all(size.isdigit() and int(size) for size in sizes)
    if len(sizes) not in (7, 8) or not numbers:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be IMAGESxCHANNELSxHEIGHTxWIDTHxFILTERSxDOWNxACROSS,"
            " with xDILATION or without"
        )
    return Shape(*map(int, sizes))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m vkbackend.tools.bench.conv_variants",
        description="Time convolutions with and without Winograd's minimal filtering.",
    )
    parser.add_argument("--shape", nargs="+", type=_shape, default=list(SHAPES))
    parser.add_argument("--only", default="", help="a part of a title")
    parser.add_argument("--precision", choices=PRECISIONS, default="highest")
    parser.add_argument("--seconds", type=float, default=50.0)
    parser.add_argument("--device", help="an index or part of a name")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; the exit status is 1 where there is no device."""
    options = _parser().parse_args(arguments)
    return outcome("bench.conv_variants", lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    device = device_to_measure(options.device)
    if device is None:
        return 1
    print(device)
    until = time.monotonic() + options.seconds
    before = fw.get_float32_matmul_precision()
    fw.set_float32_matmul_precision(options.precision)
    try:
        for shape in options.shape:
            for table in tables(device, shape):
                if options.only not in table.title:
                    continue
                rows = list(timings(device, variants(), table.run, until))
                if rows:
                    print_table(table.title, rows, table.operations)
                if time.monotonic() > until:
                    return 0
    finally:
        fw.set_float32_matmul_precision(before)
    return 0


if __name__ == "__main__":
    sys.exit(main())
