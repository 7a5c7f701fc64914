"""Convolutions as large matrix products whose right operand is read from images.

Images are copied with their channels last, padded with zeros, so that 16 bytes hold
neighbouring channels of one pixel. The kernels of `gemm.select` then read each line of
the operand where a window lies, and no image is written out as columns: see
`glsl/conv/igemm_addressing.glsl`. The gradient by the filters sums over all pixels, in
parts.

The gradient by the images of a convolution with stride s is one with stride 1 as well.
Pixels whose coordinates, with the padding, leave the same rest when divided by s are a
phase: each phase has its own every s-th tap, and all phases see the same windows of
`grad`. So phases are rows of the product, side by side with channels.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ...base.dtype import DType, bfloat16, float16, float32
from ...base.shape import TensorSpec, ceil_div
from ...ir.kernel_call import MAX_GROUPS, Argument, Dispatch, Scratch, fold_grid
from ..gemm.pack import VECTOR_SIZE
from ..gemm.select import part_constants, tile_constants
from ..gemm.tiles import PLAIN, UNITS, Cut, Sizes, cuts, microseconds
from ..reduce import sum_rows
from ..shader_types import storage_defines
from .pack import Copied, Places, channels_last, filter_sums, filters
from .problem import Call

MAX_PARTS = 128
"""Parts of a depth: that of a gradient by filters is long, and its results are few."""

MOST_ELEMENTS = 1 << 31
"""Elements of an operand that may be copied, which takes as much memory again."""

MAX_GEOMETRIES = 256
"""Different sizes of images and filters that kernels are compiled for in a process."""

COPIED_BYTES_A_MICROSECOND = 1.4e6
"""Of operands, by their size before the copy, on an NVIDIA H200."""

COPY_MICROSECONDS = 8.0
"""Of the two kernels that copy operands, with their barriers."""

IMAGES, FILTERS, PHASES = range(3)
"""What the results of a product are; numbers of `conv/igemm_addressing.glsl`."""

OTHER_BLOCK = 32
OTHER_OPERATIONS_A_MICROSECOND = (24e6, 11e6, 18e6)
"""The kernels that copy nothing: edge of their tiles, and speed on an NVIDIA H200 by
what the results are (driver 580.159.04, 2026-11-21)."""

UNIT_SHARES = {
    (128, 64): (0.7, 1.0),
    (64, 128): (0.7, 1.0),
    (64, 64): (0.5, 0.83, 1.0),
}
"""The shares of tiles on matrix units: fewer workgroups than of a plain product fit on
a processor, for where windows lie takes registers."""

_geometries: set[tuple[object, ...]] = set()


class _Left(NamedTuple):
    """The left operand as it was copied: rows that are there, and vectors of a line."""

    copy: Copied
    padded: int
    line: int


class _Product(NamedTuple):
    """A convolution, or a gradient of one, as a product.

    Attributes
    ----------
    call : Call
    places : Places
        Of the right operand, which is read from images.
    source : str
        What the op calls these.
    rows : int
    out : TensorSpec
        The result.
    kind : int
        What it is.
    other : Sizes
        Of the product as the kernels that copy nothing compute it.
    constants : mapping
        More of `conv/igemm_addressing.glsl`.
    """

    call: Call
    places: Places
    source: str
    rows: int
    out: TensorSpec
    kind: int
    other: Sizes
    constants: dict[str, int] = {}  # noqa: RUF012 - never written to

    @property
    def mode(self) -> str:
        """`UNITS` or `PLAIN`."""
        return self.call.how.mode

    @property
    def dtype(self) -> DType:
        return self.out.dtype

    @property
    def width(self) -> int:
        """Elements of a vector."""
        return VECTOR_SIZE // self.dtype.itemsize

    @property
    def channel_vectors(self) -> int:
        return ceil_div(self.places.channels, self.width)

    @property
    def side_by_side(self) -> int:
        """Results of a row that lie side by side in memory."""
        plane = math.prod(self.places.grid)
        return {IMAGES: plane, FILTERS: self.sizes.n, PHASES: 1}[self.kind]

    @property
    def sizes(self) -> Sizes:
        line = math.prod(self.places.taps) * self.channel_vectors * self.width
        if self.kind == FILTERS:
            return Sizes(self.rows, line, self.places.number)
        return Sizes(self.rows, self.places.number, line)


def forward(call: Call, cut: Cut | None = None) -> list[Dispatch] | None:
    """Return the dispatches of a convolution that is quicker so, otherwise None.

    It is of one group. A `cut` of None chooses.
    """
    product = _forward_product(call)
    cut = cut or _choice(product, call.weight.numel, parts=not call.bias)
    if cut is None:
        return None
    left = _filters(product, cut, call, for_input=False)
    return _dispatches(product, cut, left, call.bias)


def forward_cuts(call: Call) -> dict[str, Cut]:
    """Return cuts that may be quickest for `forward`, by name."""
    return _likely_cuts(_forward_product(call), parts=not call.bias)


def _forward_product(call: Call) -> _Product:
    rows = call.weight.shape[0]
    places = _places_of(call)
    other = Sizes(rows, places.number, math.prod(call.weight.shape[1:]))
    return _Product(call, places, "x", rows, call.out, IMAGES, other)


def input_vjp(call: Call, cut: Cut | None = None) -> list[Dispatch] | None:
    """Return the dispatches of its gradient by the images, or None."""
    product = _input_product(call)
    if product is None:
        return None
    cut = cut or _choice(product, call.weight.numel)
    if cut is None:
        return None
    left = _filters(product, cut, call, for_input=True)
    return _dispatches(product, cut, left)


def input_cuts(call: Call) -> dict[str, Cut]:
    """Return cuts that may be quickest for `input_vjp`, by name."""
    product = _input_product(call)
    return {} if product is None else _likely_cuts(product)


def _input_product(call: Call) -> _Product | None:
    window, size = call.window, call.size
    stride, channels = window.stride, call.weight.shape[1]
    places = _phases_of(call)
    if places is None:
        return None
    kind, constants = IMAGES, {}
    if stride != (1, 1):
        kind = PHASES
        constants = {
            "CHANNELS": channels, "HEIGHT": size[0], "WIDTH_OUT": size[1],
            "PHASES_DOWN": stride[0], "PHASES_ACROSS": stride[1],
            "BEFORE_H": window.padding[0] % stride[0],
            "BEFORE_W": window.padding[1] % stride[1],
        }  # fmt: skip
    rows = math.prod(stride) * channels
    pixels = call.x.shape[0] * math.prod(size)
    depth = call.weight.shape[0] * math.prod(window.kernel)
    other = Sizes(channels, pixels, depth)
    return _Product(call, places, "grad_out", rows, call.x, kind, other, constants)


def _phases_of(call: Call) -> Places | None:
    """Return where the windows lie in `grad` that all phases of images see.

    None where both a stride and a dilation part what phases see.
    """
    window, found = call.window, []
    for k in range(2):
        step, gap, pad = window.stride[k], window.dilation[k], window.padding[k]
        if step > 1 and gap > 1:
            return None
        taps = ceil_div(window.kernel[k], step)
        first, last = pad // step, (call.size[k] - 1 + pad) // step
        found.append(((taps - 1) * gap - first, last - first + 1, taps))
    before, grid, taps_of = zip(*found)
    images, channels = call.out.shape[:2]
    return Places(
        images,
        channels,
        call.places,
        before,
        grid,
        taps=taps_of,
        gap=window.dilation,
    )


def weight_vjp(call: Call, cut: Cut | None = None) -> list[Dispatch] | None:
    """Return the dispatches of its gradient by the filters, or None."""
    product = _weight_product(call)
    cut = cut or _choice(product, call.out.numel)
    if cut is None:
        return None
    vectors = max(ceil_div(product.rows, product.width), cut.tile.m // product.width)
    lines = _steps(product, cut) * cut.tile.k
    images, channels = call.out.shape[:2]
    flat = Places(images, channels, call.places, (0, 0), call.places)
    copy = channels_last("grad_out", flat, product.dtype, vectors, lines)
    left = _Left(copy, vectors * product.width, vectors)
    return _dispatches(product, cut, left)


def weight_cuts(call: Call) -> dict[str, Cut]:
    """Return cuts that may be quickest for `weight_vjp`, by name."""
    return _likely_cuts(_weight_product(call))


def _weight_product(call: Call) -> _Product:
    rows, places = call.weight.shape[0], _places_of(call)
    other = Sizes(rows, math.prod(call.weight.shape[1:]), places.number)
    return _Product(call, places, "x", rows, call.weight, FILTERS, other)


def _places_of(call: Call) -> Places:
    window = call.window
    return Places(
        call.x.shape[0],
        call.x.shape[1],
        call.size,
        window.padding,
        call.places,
        window.stride,
        window.kernel,
        window.dilation,
    )


def _choice(product: _Product, left: int, *, parts: bool = True) -> Cut | None:
    """Return the quickest cut, or None where the kernels without copies are quicker.

    `left` is the size of the left operand; `parts` says whether the depth may be cut.
    """
    times = _times(product, parts=parts)
    if not times or not _may_compile(product):
        return None
    cut = min(times, key=lambda cut: times[cut])
    elements = left + product.places.pixels * product.places.channels
    copied = elements * product.dtype.itemsize / COPIED_BYTES_A_MICROSECOND
    time = times[cut] + copied + COPY_MICROSECONDS
    return cut if time < _other_microseconds(product) else None


def _likely_cuts(product: _Product, *, parts: bool = True) -> dict[str, Cut]:
    """Return the best cut into each tile, by name."""
    times = _times(product, parts=parts)
    slowest_first = sorted(times, key=lambda cut: -times[cut])
    best = {cut.tile: cut for cut in slowest_first}
    return {cut.name: cut for cut in best.values()}


def _times(product: _Product, *, parts: bool) -> dict[Cut, float]:
    """Return what cuts take by the model: none where there can be no product."""
    gpu, mode, sizes = product.call.gpu, product.mode, product.sizes
    wanted = (float16, bfloat16) if mode == UNITS else (float32,)
    if gpu.kind == "software" or product.dtype not in wanted or 0 in sizes:
        return {}
    # Of operands with the padding of the smallest tiles, which larger ones may double.
    right = product.places.pixels * product.channel_vectors * product.width
    results = max(sizes.m * sizes.n, product.out.numel)
    if max(right, sizes.m * sizes.k, results) >= MOST_ELEMENTS:
        return {}
    found = cuts(gpu, mode, sizes, MAX_PARTS if parts else 1)
    # Where the right operand lies is known for one step at a time.
    found = [cut for cut in found if cut.tile.stages == 1]
    return {cut: _microseconds(cut, mode, sizes) for cut in found}


def _microseconds(cut: Cut, mode: str, sizes: Sizes) -> float:
    """Return what the model of `gemm.tiles` says of the product's own kernel."""
    tile = cut.tile
    if mode == UNITS:
        tile = tile._replace(shares=UNIT_SHARES.get((tile.m, tile.n), tile.shares))
    return microseconds(cut._replace(tile=tile), mode, sizes)


def _other_microseconds(product: _Product) -> float:
    """Return about what the kernels that copy nothing take."""
    rows, columns, depth, _ = product.other
    tiles = ceil_div(rows, OTHER_BLOCK) * ceil_div(columns, OTHER_BLOCK)
    operations = 2 * tiles * OTHER_BLOCK**2 * depth
    return operations / OTHER_OPERATIONS_A_MICROSECOND[product.kind]


def _steps(product: _Product, cut: Cut) -> int:
    return ceil_div(product.sizes.k, cut.tile.k)


def _filters(product: _Product, cut: Cut, call: Call, *, for_input: bool) -> _Left:
    """Return the left operand of `forward`, or of `input_vjp`."""
    lines = max(product.rows, cut.tile.m)
    line = _steps(product, cut) * cut.tile.k // product.width
    vectors = product.channel_vectors
    copy = filters(call, vectors, lines, line, for_input=for_input)
    return _Left(copy, lines, line)


def _dispatches(
    product: _Product, cut: Cut, left: _Left, bias: bool = False
) -> list[Dispatch] | None:
    """Return the copies, the product and, where it gives sums of parts, their sum."""
    tile, out, places = cut.tile, product.out, product.places
    steps = _steps(product, cut)
    part = ceil_div(steps, cut.parts)
    parts = ceil_div(steps, part)
    if parts > MAX_GROUPS or (bias and parts > 1):
        return None
    right = channels_last(product.source, places, out.dtype, product.channel_vectors)
    m, n, _, _ = product.sizes
    numel = m * n if product.kind == FILTERS else out.numel
    sums = Scratch("sums", 4 * parts * numel)
    partial = parts > 1 or product.kind == FILTERS
    push: dict[str, Argument] = {
        "a": left.copy.memory, "b": right.memory, "out_": sums if partial else "out",
        "m": m, "n": n, "k": part * tile.k, "total": steps * tile.k, "batches": 1,
        "a_stride": left.line, "b_stride": places.number,
        "a_batch": numel, "b_batch": 0,
        "last_row": left.padded - tile.m, "last_column": n,
    }  # fmt: skip
    if bias:
        push["bias"] = "bias"
    kernel = "matmul/gemm_simt" if product.mode == PLAIN else "matmul/gemm_coopmat"
    grid = fold_grid(ceil_div(m, tile.m) * ceil_div(n, tile.n), parts)
    constants = _constants(product, cut, left, part)
    defines = _defines(product, cut, partial=partial, bias=bias)
    found = [left.copy.dispatch, right.dispatch]
    found.append(Dispatch(kernel, grid, push, constants, defines))
    if product.kind == FILTERS:
        found.append(filter_sums(sums, out, parts, product.channel_vectors))
    elif partial:
        found.append(sum_rows(product.call.gpu, sums, out, parts, numel))
    return found


def _constants(product: _Product, cut: Cut, left: _Left, part: int) -> dict[str, int]:
    """Return the product's constants; `part` is the steps of a part of its depth."""
    tile, along_k = cut.tile, int(product.kind != FILTERS)
    constants = {
        **tile_constants(product.call.gpu, tile, product.mode),
        **part_constants(tile, product.mode, _steps(product, cut), part),
        **product.places.constants(product.channel_vectors),
        **product.constants,
        "RESULTS": product.kind,
        "A_ALONG_K": along_k,
        "B_ALONG_K": along_k,
        "DEPTH": part * tile.k,
        "A_STRIDE": left.line,
    }
    if product.mode == PLAIN:
        exist = left.padded == product.rows and product.sizes.n % tile.n == 0
        constants["DIRECT"] = int(exist and product.side_by_side % 4 == 0)
    return constants


def _defines(
    product: _Product, cut: Cut, *, partial: bool, bias: bool
) -> dict[str, str]:
    defines = {**storage_defines(product.dtype, out_acc=partial), "PATCHES": "1"}
    if bias:
        defines["BIAS"] = "1"
    stored = 4 if partial else product.dtype.itemsize
    if cut.wide and product.mode == UNITS:
        if product.dtype is float16:
            defines["DEVICE_ROUNDING"] = "1"
        if product.side_by_side % (VECTOR_SIZE // stored) == 0:
            defines["WIDE_STORES"] = "1"
    return defines


def _may_compile(product: _Product) -> bool:
    """Return whether kernels are there for these sizes, or may be compiled for them."""
    places = product.places.constants(product.channel_vectors)
    key = (product.dtype, product.kind, product.rows, *places.values())
    if key not in _geometries and len(_geometries) >= MAX_GEOMETRIES:
        return False
    _geometries.add(key)
    return True
