"""Timing of attention kernels with other tiles, for the choice of constants.

`python -m vkbackend.tools.bench.attention_tiles` times, on the Vulkan device, of each
shape the forward pass and both gradients on tensor cores with every tile of
`kernels/attention/coopmat.py` (`FORWARD_TILES`, `GRADIENT_TILES`) that there is room
for, without and with `causal`; the same in float32 without tensor cores, with the tiles
of `kernels/attention/simt.py` (`CANDIDATES`), and in small tiles, and on tensor cores
with the precision "high"; and the split-KV
kernels of few queries with other constants of `kernels/attention/split.py`, and without
them. It prints a table for each: the quickest first, `*` is what is chosen now. What
differs from that by more than rounding is wrong. It ends after `--seconds` (55);
`--only few`, `tiles`, `simt`, `high` or a part of a title chooses tables,
`--shape BATCHxHEADSxKEY_HEADSxQUERIESxKEYSxHEAD` gives shapes.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import vkbackend.framework as fw
from vkbackend.framework import Tensor, ops
from vkbackend.framework.base.dtype import DTYPES
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.kernels.attention import coopmat, simt, split

from ..exit_status import outcome
from .measure import device_to_measure
from .variants import Variant, print_table, timings


class Shape(NamedTuple):
    """Sizes of an attention."""

    batch: int
    heads: int
    key_heads: int
    queries: int
    keys: int
    head: int

    @property
    def operations(self) -> float:
        """Floating-point operations of the forward pass."""
        return 4.0 * self.batch * self.heads * self.queries * self.keys * self.head


SHAPES = (
    Shape(4, 16, 16, 4096, 4096, 128),
    Shape(4, 16, 16, 4096, 4096, 64),
    Shape(4, 16, 16, 4096, 4096, 80),
)
FLOAT32 = (
    Shape(4, 16, 16, 4096, 4096, 128),
    Shape(8, 12, 12, 1024, 1024, 64),
    Shape(4, 16, 16, 1024, 1024, 80),
)
FEW = (
    Shape(4, 32, 32, 1, 4096, 128),
    Shape(1, 32, 8, 1, 4096, 128),
    Shape(4, 32, 8, 4, 4096, 128),
    Shape(4, 32, 32, 16, 4096, 128),
    Shape(16, 16, 16, 1, 1024, 64),
)
DTYPES_OF_FEW = ("float32", "float16")

GROUPS = ("few", "tiles", "simt", "high")
"""Tables of few queries, of tensor cores, and of float32 without them and with."""

GRADIENTS = ("attention/flash_dq", "attention/flash_dkv")


class Table(NamedTuple):
    """A kernel of one shape with its variants, the chosen one first."""

    title: str
    variants: Sequence[Variant]
    run: Callable[[], Sequence[Tensor]]
    operations: float


def tile_variants(
    device: Any, kernel: str, shape: Shape, causal: bool, dtype: str = "float16"
) -> list[Variant]:
    """Return the tiles of a tensor-core kernel that a device has room for.

    That which is chosen is the first; it may be none.
    """
    table = coopmat.TILES_OF_FLOAT32 if dtype == "float32" else coopmat.TILES
    tiles = table[kernel]
    most = next((most for most in tiles if shape.head <= most), coopmat.MOST_HEAD)
    pair = tiles.get(most)
    every = coopmat.GRADIENT_TILES if kernel in GRADIENTS else coopmat.FORWARD_TILES
    found = [] if pair else [Variant("without tensor cores", [])]
    own = [pair[causal]] if pair else []
    for tile in (*own, *(each for each in every if each not in own)):
        if tile.fits(device.gpu.info, most, DTYPES[dtype]):
            first, second = pair or (tile, tile)
            changed = (first, tile) if causal else (tile, second)
            name = f"{tile.subgroups} subgroups, {tile.stripes} stripes, {tile.span}"
            name += ", in turn" if tile.in_turn else ""
            name += f", {tile.stages} stages" if tile.stages > 1 else ""
            found.append(Variant(name, [(tiles, most, changed)]))
    return found


def simt_variants(device: Any, kernel: str, head: int) -> list[Variant]:
    """Return the large register tiles that a device has room for, and small tiles.

    That which is chosen is the first.
    """
    info = device.gpu.info
    found = [Variant("as chosen", [])]
    if head > simt.MOST_HEAD or info.target.wide_subgroups:
        return found
    found.append(Variant("small tiles", [(simt.USED, kernel, False)]))
    tiles = simt.TILES[kernel]
    most = next(most for most in tiles if head <= most)
    for tile in simt.CANDIDATES:
        if tile.fits(info, head):
            name = (
                f"{tile.invocations} invocations, {tile.block}x{tile.span} in"
                f" {tile.rows}x{tile.columns}, slabs of {tile.slab}"
            )
            found.append(
                Variant(name, [(tiles, most, tile), (simt.USED, kernel, True)])
            )
    return found


def split_variants() -> list[Variant]:
    """Return variants of the split-KV kernels, and that without them."""
    found = [Variant("as chosen", [])]
    for name, values in (
        ("GROUPS", (2, 4, 16, 32)),
        ("LEAST_SLICE", (64, 256)),
        ("MOST_ROWS", (4, 16)),
        ("INVOCATIONS", (64, 256)),
        ("INVOCATIONS_OF_ROWS", (32, 128)),
        ("TILE_BYTES", (1 << 13, 1 << 15)),
        ("MOST_QUERIES", (0,)),
    ):
        for value in values:
            found.append(Variant(f"{name} = {value}", [(split, name, value)]))
    return found


def _vectors(
    device: Any, shape: Shape, dtype: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return random queries, keys, values and gradients of results."""
    fw.manual_seed(0)
    found = [
        fw.randn(shape.batch, heads, rows, shape.head, device=device).to(dtype)
        for heads, rows in (
            (shape.heads, shape.queries),
            (shape.key_heads, shape.keys),
            (shape.key_heads, shape.keys),
            (shape.heads, shape.queries),
        )
    ]
    fw.eval(*found)
    return found[0], found[1], found[2], found[3]


def tile_tables(
    device: Any, shape: Shape, dtype: str, masks: Sequence[bool] = (False, True)
) -> Iterator[Table]:
    """Yield the tables of the kernels on tensor cores, without `causal` and with it."""
    if not coopmat.trusts_tensor_cores(device, DTYPES[dtype]):
        print(f"{dtype}: this device has no tensor cores for it", file=sys.stderr)
        return
    vectors = _vectors(device, shape, dtype)
    precision = " high" if dtype == "float32" else ""
    for causal in masks:
        mask = " causal" if causal else ""
        for kernel, run, operations in _runs(shape, vectors, causal, True):
            yield Table(
                f"{kernel} {dtype}{precision} {_sizes(shape)}{mask}",
                tile_variants(device, kernel, shape, causal, dtype),
                run,
                operations,
            )


def simt_tables(device: Any, shape: Shape) -> Iterator[Table]:
    """Yield the tables of the float32 kernels without tensor cores."""
    vectors = _vectors(device, shape, "float32")
    for kernel, run, operations in _runs(shape, vectors, False, False):
        variants = simt_variants(device, kernel, shape.head)
        yield Table(f"{kernel} float32 {_sizes(shape)}", variants, run, operations)


def high_tables(device: Any, shape: Shape) -> Iterator[Table]:
    """Yield the tables of the float32 kernels on tensor cores."""
    before = fw.get_float32_matmul_precision()
    fw.set_float32_matmul_precision("high")
    try:
        yield from tile_tables(device, shape, "float32", (False,))
    finally:
        fw.set_float32_matmul_precision(before)


def _sizes(shape: Shape) -> str:
    return "x".join(map(str, shape))


def _runs(
    shape: Shape,
    vectors: tuple[Tensor, Tensor, Tensor, Tensor],
    causal: bool,
    tensor_cores: bool,
) -> Iterator[tuple[str, Callable[[], Sequence[Tensor]], float]]:
    """Yield the forward pass and both gradients: kernel, run, operations."""
    q, k, v, grad = vectors
    forward, by_queries, by_keys = (
        REGISTRY[name]
        for name in ("flash_attention", "flash_query_grad", "flash_key_grad")
    )
    rest = (shape.head**-0.5, causal, 0.0, tensor_cores)
    out, sums = forward(q, k, v, None, None, *rest)
    delta = (out.transpose(1, 2).float() * grad.float()).sum(3)
    given = (q, k, v, None, None, grad, sums, delta, *rest)
    fw.eval(sums, delta)
    operations = shape.operations * (0.5 if causal else 1.0)
    yield (
        "attention/flash",
        lambda: [forward(q, k, v, None, None, *rest)[0]],
        operations,
    )
    yield "attention/flash_dq", lambda: [by_queries(*given)], operations * 1.5
    yield "attention/flash_dkv", lambda: list(by_keys(*given)), operations * 2.0


def few_table(device: Any, shape: Shape, dtype: str) -> Table:
    """Return the table of the split-KV kernels."""
    q, k, v, _ = _vectors(device, shape, dtype)
    shared = shape.heads != shape.key_heads

    def attend() -> Sequence[Tensor]:
        return [ops.scaled_dot_product_attention(q, k, v, enable_gqa=shared)]

    title = f"few queries {dtype} {'x'.join(map(str, shape))}"
    return Table(title, split_variants(), attend, shape.operations)


def _tables(device: Any, shapes: Sequence[Shape] | None, only: str) -> Iterator[Table]:
    """Yield the tables that are wanted, those of few queries first."""
    if only in ("", "few"):
        for shape in [x for x in shapes or FEW if x.queries <= split.MOST_QUERIES]:
            for dtype in DTYPES_OF_FEW:
                yield few_table(device, shape, dtype)
    if only in ("", "tiles"):
        for shape in [x for x in shapes or SHAPES if x.queries > split.MOST_QUERIES]:
            yield from tile_tables(device, shape, "float16")
    if only in ("", "simt"):
        for shape in [x for x in shapes or FLOAT32 if x.queries > split.MOST_QUERIES]:
            yield from simt_tables(device, shape)
    if only in ("", "high"):
        for shape in [x for x in shapes or FLOAT32 if x.queries > split.MOST_QUERIES]:
            yield from high_tables(device, shape)


def _shape(text: str) -> Shape:
    sizes = text.split("x")
    if len(sizes) != 6 or not all(size.isdigit() and int(size) for size in sizes):
        raise argparse.ArgumentTypeError(
            f"{text!r} must be BATCHxHEADSxKEY_HEADSxQUERIESxKEYSxHEAD"
        )
    return Shape(*map(int, sizes))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m vkbackend.tools.bench.attention_tiles",
        description="Time attention kernels with other tiles.",
    )
    parser.add_argument(
        "--only", default="", help=f"{', '.join(GROUPS)}, or a part of a title"
    )
    parser.add_argument("--shape", nargs="+", type=_shape)
    parser.add_argument("--seconds", type=float, default=55.0)
    parser.add_argument("--device", help="an index or part of a name")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; the exit status is 1 where there is no device."""
    options = _parser().parse_args(arguments)
    return outcome("bench.attention_tiles", lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    device = device_to_measure(options.device)
    if device is None:
        return 1
    print(device)
    until = time.monotonic() + options.seconds
    group = options.only if options.only in GROUPS else ""
    for table in _tables(device, options.shape, group):
        if not group and options.only not in table.title:
            continue
        rows = list(timings(device, table.variants, table.run, until))
        if rows:
            print_table(table.title, rows, table.operations)
        if time.monotonic() > until:
            break
    return 0


if __name__ == "__main__":
    sys.exit(main())
