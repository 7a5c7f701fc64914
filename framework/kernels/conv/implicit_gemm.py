"""Implicit GEMM convolutions in NHWC: the right operand is gathered from images.

Images are packed as NHWC, padded with zeros, so that 16 bytes hold neighbouring
channels of one pixel. The kernels of `gemm.select` then gather each line of the operand
by output pixel and filter tap, without im2col: see `glsl/conv/igemm_addressing.glsl`.
The gradient by the filters (wgrad) has all pixels as K, with split-K.

The gradient by the images (dgrad) of a convolution with stride s is decomposed into
stride phases, each a convolution with stride 1. Pixels whose padded coordinates are
congruent modulo s are a phase: each phase has every s-th filter tap, and all phases
gather the same windows of `grad`. So phases are rows of the GEMM, beside channels.

Of volumes, taps along depth are further ones, at each place of a window of planes, and
stride phases along depth are products of their own, whose planes lie between each
other.

Groups of few channels are taken in bundles, whose filters are a block-diagonal matrix:
a bundle fills the rows of a tile, and the products with zeros cost less than idle rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ...base.dtype import DType, bfloat16, float16, float32
from ...base.shape import TensorSpec, ceil_div
from ...ir.kernel_call import (
    MAX_GROUPS,
    Argument,
    BufferOffset,
    Dispatch,
    Scratch,
    fold_grid,
)
from ..gemm.cost_model import microseconds, tile_configs
from ..gemm.pack import VECTOR_SIZE
from ..gemm.select import split_constants, tile_constants
from ..gemm.tiles import (
    SCALED_FLOAT16,
    SIMT,
    TENSOR_CORES,
    GemmSize,
    Tile,
    TileConfig,
    vector_width,
)
from ..gpu_model import model_of
from ..reduce import sum_rows
from ..shader_types import storage_defines
from . import stacked_planes
from .largest import of_channels, of_images
from .pack import Copy, channels_last, filter_sums, filters
from .problem import ConvCall, volume_constants
from .window_grid import (
    DepthTaps,
    WindowGrid,
    depth_phases,
    phase_grid,
    volumes_together,
    window_grid,
)

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

MAX_SPLITS = 128
"""Largest split-K count: wgrad has a large K and few results."""

MOST_ELEMENTS = 1 << 31
"""Largest operand that is packed, in elements; packing takes its memory again."""

MAX_GEOMETRIES = 256
"""Most image and filter sizes that kernels are specialized for in a process."""

FRAGMENT_ROWS = 16
"""Rows that a subgroup of tensor cores stores at once."""

IMAGES, FILTERS, PHASES = range(3)
"""Result layouts of a GEMM; numbers of `conv/igemm_addressing.glsl`."""

SCANNED_BYTES = 4
"""Bytes of an element that is read for its largest magnitude before it is packed."""

NCHW_BLOCK = 32
"""Tile edge of the NCHW kernels, which pack nothing."""

_geometries: set[tuple[object, ...]] = set()


class _LeftOperand(NamedTuple):
    """Packed left operand: padded rows, and vectors of a line."""

    copy: Copy
    padded: int
    line: int


class _ImplicitGemm(NamedTuple):
    """Implicit GEMM of a convolution or of one of its gradients.

    Attributes
    ----------
    call : ConvCall
    windows : WindowGrid
        Of the right operand, which is gathered from images.
    source : str
        The op's name for the images.
    rows : int
    out : TensorSpec
        The result.
    kind : int
        Result layout, of `conv/igemm_addressing.glsl`.
    nchw_size : GemmSize
        Problem size of the NCHW kernels, which pack nothing; groups are its batch.
    constants : mapping
        Further constants of `conv/igemm_addressing.glsl`.
    deep : DepthTaps or None
        Planes of the filters, if windows are along depth.
    first_plane : int, default 0
        Plane of a volume that is the first result.
    bundle : int, default 1
        Groups in a bundle.
    splits : bool, default True
        Whether split-K is allowed.
    """

    call: ConvCall
    windows: WindowGrid
    source: str
    rows: int
    out: TensorSpec
    kind: int
    nchw_size: GemmSize
    constants: dict[str, int] = {}  # noqa: RUF012 - never written to
    deep: DepthTaps | None = None
    first_plane: int = 0
    bundle: int = 1
    splits: bool = True

    @property
    def mode(self) -> str:
        """`TENSOR_CORES`, `SCALED_FLOAT16` or `SIMT`."""
        mode = self.call.how.mode
        costs = model_of(self.call.gpu).gemm[mode]
        return SIMT if math.prod(self.nchw_size) < costs.simt_below else mode

    @property
    def scaled(self) -> bool:
        """Whether float32 is scaled to float16."""
        return self.mode == SCALED_FLOAT16

    @property
    def dtype(self) -> DType:
        return self.out.dtype

    @property
    def taps(self) -> int:
        """Taps of a window."""
        return math.prod(self.windows.taps) * self.windows.deep

    @property
    def width(self) -> int:
        """Elements of a vector."""
        return vector_width(self.mode)

    @property
    def channel_vectors(self) -> int:
        """Vectors of a pixel."""
        return ceil_div(self.windows.channels, self.width)

    @property
    def bundles(self) -> int:
        return self.call.how.groups // self.bundle

    @property
    def bundle_vectors(self) -> int:
        """Vectors of a pixel that a row is made of."""
        if self.bundles == 1:
            return self.channel_vectors
        return self.windows.channels // self.bundles // self.width

    @property
    def bundle_rows(self) -> int:
        """Rows of a bundle, of one stride phase."""
        rows = self.constants["CHANNELS"] if self.kind == PHASES else self.rows
        return rows // self.bundles

    @property
    def together(self) -> int:
        """Stride phases whose results are neighbours of a line, and so are their rows.

        Tensor cores store results from shared memory, lines of pixels at once. The sums
        of SIMT kernels leave out taps that a phase has not, which together fewer can.
        """
        if self.kind != PHASES or self.mode == SIMT:
            return 1
        across = self.constants["PHASES_ACROSS"]
        return across if FRAGMENT_ROWS % across == 0 else 1

    @property
    def side_by_side(self) -> int:
        """Contiguous results of a row."""
        plane = math.prod(self.windows.grid)
        return {IMAGES: plane, FILTERS: self.sizes.n, PHASES: 1}[self.kind]

    @property
    def sizes(self) -> GemmSize:
        line = self.taps * self.bundle_vectors * self.width
        if self.kind == FILTERS:
            return GemmSize(self.rows, line, self.windows.number)
        return GemmSize(self.rows, self.windows.number, line)


def forward(
    call: ConvCall, config: TileConfig | None = None, limit: float = math.inf
) -> list[Dispatch] | None:
    """Return the implicit GEMM where it is the quicker kernel, otherwise None.

    A `config` of None takes the cost model's choice, which must take less than `limit`
    microseconds.
    """
    product = _forward_product(call)
    config = config or _best_config(product, call.weight.numel, limit)
    if config is None:
        return _unsplit(forward, call, limit)
    product = _bundled(product, config.tile)
    left = _filters(product, config, call, for_input=False)
    return _dispatches(product, config, left)


def forward_configs(call: ConvCall) -> dict[str, TileConfig]:
    """Return the tile configurations worth benchmarking for `forward`, by name."""
    return _likely_configs(_forward_product(call))


def _forward_product(call: ConvCall) -> _ImplicitGemm:
    rows = call.weight.shape[0]
    windows = window_grid(call)
    groups, depth = call.how.groups, math.prod(call.weight.shape[1:])
    nchw_size = GemmSize(rows // groups, windows.number, depth, groups)
    # The sums of slices take no epilogue, which mostly follows a bias.
    return _ImplicitGemm(
        call, windows, "x", rows, call.out, IMAGES, nchw_size,
        volume_constants(call.result_planes), _all_planes(call, outermost=True),
        splits=not call.bias,
    )  # fmt: skip


def _all_planes(call: ConvCall, *, outermost: bool = False) -> DepthTaps | None:
    """Return all planes of filters, if there are windows along depth."""
    depth = call.how.depth
    return None if depth is None else DepthTaps(depth.kernel[0], outermost=outermost)


def input_vjp(
    call: ConvCall, config: TileConfig | None = None, limit: float = math.inf
) -> list[Dispatch] | None:
    """Return the dispatches of the gradient by the images (dgrad), or None.

    `config` and `limit` are as in `forward`.
    """
    products = _input_products(call)
    found: list[Dispatch] = []
    for product in products:
        best = config or _best_config(product, call.weight.numel, limit)
        if best is None:
            return _unsplit(input_vjp, call, limit)
        product = _bundled(product, best.tile)
        left = _filters(product, best, call, for_input=True)
        made = _dispatches(product, best, left)
        if made is None:
            return None
        # All depth phases gather from the same packed images.
        found += [each for each in made if each not in found]
    return found or None


def input_vjp_configs(call: ConvCall) -> dict[str, TileConfig]:
    """Return the tile configurations worth benchmarking for `input_vjp`, by name."""
    products = _input_products(call)
    return _likely_configs(products[0]) if products else {}


def _input_products(call: ConvCall) -> list[_ImplicitGemm]:
    """Return the GEMM of each stride phase along depth, or none."""
    windows = phase_grid(call)
    if windows is None:
        return []
    if call.how.depth is None:
        return [_input_product(call, windows, volume_constants(call.planes))]
    return [
        _depth_product(call, windows._replace(depth=grid), deep)
        for grid, deep in depth_phases(call)
    ]


def _depth_product(
    call: ConvCall, windows: WindowGrid, deep: DepthTaps
) -> _ImplicitGemm:
    """Return the GEMM of a stride phase along depth, which has these taps."""
    depth, grid = call.how.depth, windows.depth
    assert depth is not None, "there are windows along depth"
    assert grid is not None, "and their grid"
    step = depth.stride[0]
    volume = {"PLANES": grid.grid}
    if step > 1:
        volume |= {"RESULT_PLANES": call.planes, "RESULT_STEP": step}
    product = _input_product(call, windows, volume)
    first = (deep.first - depth.padding[0]) % step
    deep = deep._replace(outermost=product.kind == IMAGES)
    return product._replace(deep=deep, first_plane=first, splits=step == 1)


def _input_product(
    call: ConvCall, windows: WindowGrid, volume: dict[str, int]
) -> _ImplicitGemm:
    """Return the GEMM of windows of `grad`; `volume` has constants of its results."""
    window, size = call.window, call.size
    stride, groups = window.stride, call.how.groups
    channels = call.weight.shape[1] * groups
    kind, constants = IMAGES, volume
    if stride != (1, 1):
        kind = PHASES
        constants = volume | {
            "CHANNELS": channels, "HEIGHT": size[0], "WIDTH_OUT": size[1],
            "PHASES_DOWN": stride[0], "PHASES_ACROSS": stride[1],
            "BEFORE_H": window.padding[0] % stride[0],
            "BEFORE_W": window.padding[1] % stride[1],
        }  # fmt: skip
    rows = math.prod(stride) * channels
    images = windows.number // math.prod(windows.grid)
    depth = call.weight.shape[0] // groups * math.prod(window.kernel) * windows.deep
    nchw_size = GemmSize(channels // groups, images * math.prod(size), depth, groups)
    return _ImplicitGemm(
        call, windows, "grad_out", rows, call.x, kind, nchw_size, constants
    )


def weight_vjp(
    call: ConvCall, config: TileConfig | None = None, limit: float = math.inf
) -> list[Dispatch] | None:
    """Return the dispatches of the gradient by the filters (wgrad), or None.

    `config` and `limit` are as in `forward`.
    """
    product = _weight_product(call)
    config = config or _best_config(product, call.out.numel, limit)
    if config is None:
        return _unsplit(weight_vjp, call, limit)
    product = _bundled(product, config.tile)
    vectors = max(ceil_div(product.rows, product.width), config.tile.m // product.width)
    lines = _steps(product, config) * config.tile.k
    images, channels = call.out.shape[:2]
    size = call.output_size
    flat = WindowGrid(images, channels, size, (0, 0), size, planes=call.result_planes)
    largest = of_channels(call.gpu, "grad_out", flat) if product.scaled else None
    copy = channels_last(
        "grad_out", flat, product.dtype, vectors, lines, largest, by_channel=True
    )
    left = _LeftOperand(copy, vectors * product.width, vectors)
    return _dispatches(product, config, left)


def weight_vjp_configs(call: ConvCall) -> dict[str, TileConfig]:
    """Return the tile configurations worth benchmarking for `weight_vjp`, by name."""
    return _likely_configs(_weight_product(call))


def _weight_product(call: ConvCall) -> _ImplicitGemm:
    rows, windows = call.weight.shape[0], window_grid(call)
    columns, groups = math.prod(call.weight.shape[1:]), call.how.groups
    nchw_size = GemmSize(rows // groups, columns, windows.number, groups)
    return _ImplicitGemm(
        call, windows, "x", rows, call.weight, FILTERS, nchw_size,
        deep=_all_planes(call),
    )  # fmt: skip


def _bundled(product: _ImplicitGemm, tile: Tile) -> _ImplicitGemm:
    """Return the GEMM with bundles of as few groups as fill a tile's rows."""
    groups = product.call.how.groups
    for bundle in range(1, groups):
        found = product._replace(bundle=bundle)
        whole = groups % bundle == 0 and found.bundle_rows % tile.m == 0
        if whole and product.windows.channels // found.bundles % product.width == 0:
            return found
    return product._replace(bundle=groups)


def _unsplit(
    rule: Callable[[ConvCall, TileConfig | None, float], list[Dispatch] | None],
    call: ConvCall,
    limit: float,
) -> list[Dispatch] | None:
    """Return what a pass answers without scaling, where with it it answers nothing."""
    if call.how.mode != SCALED_FLOAT16:
        return None
    return rule(call._replace(how=call.how._replace(mode=SIMT)), None, limit)


def _best_config(product: _ImplicitGemm, left: int, limit: float) -> TileConfig | None:
    """Return the quickest tile configuration, or None where others are quicker.

    `left` is the size of the left operand; `limit` the microseconds of another kernel,
    beside those for NCHW.
    """
    model = model_of(product.call.gpu)
    ranked = _ranked_configs(product)
    if not ranked or not _may_compile(product):
        return None
    config, time = ranked[0]
    elements = left + product.windows.pixels * product.windows.channels
    copied = elements * product.dtype.itemsize / model.copied_bytes_per_microsecond
    if product.scaled:
        copied += elements * SCANNED_BYTES / model.scaled_bytes_per_microsecond
    time = time + copied + model.copy_microseconds
    nchw = nchw_microseconds(product.call.gpu, product.nchw_size, product.kind)
    if product.call.how.depth is not None:
        nchw += stacked_planes.microseconds(product.call)
    return config if time < min(nchw, limit) else None


def _likely_configs(product: _ImplicitGemm) -> dict[str, TileConfig]:
    """Return the best configuration of each tile by name, the quickest first."""
    best: dict[Tile, TileConfig] = {}
    for config, _ in _ranked_configs(product):
        best.setdefault(config.tile, config)
    return {config.name: config for config in best.values()}


def _ranked_configs(product: _ImplicitGemm) -> list[tuple[TileConfig, float]]:
    """Return tile configurations with modelled times, the quickest first.

    Empty if the kernel does not take the convolution.
    """
    costs = model_of(product.call.gpu).gemm[product.mode]
    rows: dict[int, set[int]] = {}
    for tile in (*costs.tiles, *costs.gathered_tiles):
        rows.setdefault(_bundled(product, tile).bundle, set()).add(tile.m)
    found: list[tuple[TileConfig, float]] = []
    for bundle, those in rows.items():
        found += _timed_configs(product._replace(bundle=bundle), those)
    return sorted(found, key=lambda each: each[1])


def _timed_configs(
    product: _ImplicitGemm, rows: set[int]
) -> list[tuple[TileConfig, float]]:
    """Return the configurations of tiles of these rows, with modelled times."""
    gpu, mode, sizes = product.call.gpu, product.mode, product.sizes
    wanted = (float16, bfloat16) if mode == TENSOR_CORES else (float32,)
    if not gpu.target.fast_shared_memory or 0 in sizes or product.dtype not in wanted:
        return []
    # Operands padded for the smallest tiles; larger tiles may double the padding.
    right = product.windows.pixels * product.channel_vectors * product.width
    results = max(sizes.m * sizes.n, product.out.numel)
    if max(right, sizes.m * sizes.k, results) >= MOST_ELEMENTS:
        return []
    # The packed images are one allocation.
    vectors = product.windows.pixels * product.channel_vectors
    if VECTOR_SIZE * vectors > gpu.max_allocation_size:
        return []
    model, found = model_of(gpu), []
    efficiency = model.gathered_efficiency if mode != SIMT else {}
    whole, inside = product.windows.tap_planes()
    most = MAX_SPLITS if product.splits else 1
    for config in tile_configs(gpu, mode, sizes, most, gathered=True):
        tile = config.tile
        rate = efficiency.get((tile.m, tile.n), tile.efficiency)
        gathered = config._replace(tile=tile._replace(efficiency=rate))
        # Addresses of the right operand are computed one K step ahead only.
        if tile.stages == 1 and tile.m in rows:
            time = microseconds(model, gathered, mode, sizes)
            if (
                product.deep is not None
                and product.deep.outermost
                and config.splits == 1
            ):
                time *= inside / whole  # for tiles of planes of one depth
            found.append((config, time))
    return found


def nchw_microseconds(gpu: DeviceInfo, size: GemmSize, kind: int) -> float:
    """Return the estimated time of the NCHW kernels, which pack nothing.

    Parameters
    ----------
    gpu : DeviceInfo
    size : GemmSize
        Groups are its batch.
    kind : int
        Result layout: `IMAGES`, `FILTERS` or `PHASES`.
    """
    rows, columns, depth, groups = size
    tiles = ceil_div(rows, NCHW_BLOCK) * ceil_div(columns, NCHW_BLOCK)
    operations = 2 * tiles * NCHW_BLOCK**2 * depth * groups
    return operations / model_of(gpu).nchw_operations_per_microsecond[kind]


def _steps(product: _ImplicitGemm, config: TileConfig) -> int:
    return ceil_div(product.sizes.k, config.tile.k)


def _filters(
    product: _ImplicitGemm, config: TileConfig, call: ConvCall, *, for_input: bool
) -> _LeftOperand:
    """Return the left operand of `forward`, or of `input_vjp`."""
    lines = max(product.rows, config.tile.m)
    line = _steps(product, config) * config.tile.k // product.width
    copy = filters(
        call,
        product.bundle_vectors,
        lines,
        line,
        for_input=for_input,
        scaled=product.scaled,
        bundle=product.bundle,
        deep=product.deep,
        together=product.together,
    )
    return _LeftOperand(copy, lines, line)


def _dispatches(
    product: _ImplicitGemm, config: TileConfig, left: _LeftOperand
) -> list[Dispatch] | None:
    """Return the packing, the GEMM and, with split-K, the reduction of its slices."""
    tile, out, windows = config.tile, product.out, product.windows
    steps = _steps(product, config)
    split_steps = ceil_div(steps, config.splits)
    splits = ceil_div(steps, split_steps)
    if splits > (MAX_GROUPS if product.splits else 1):
        return None
    right = _images(product)
    m, n, _, _ = product.sizes
    numel = m * n if product.kind == FILTERS else out.numel
    sums = Scratch("sums", 4 * splits * numel)
    partial = splits > 1 or product.kind == FILTERS
    first = windows.first_vector(product.channel_vectors) * VECTOR_SIZE
    start = product.first_plane * math.prod(product.call.size) * out.dtype.itemsize
    push: dict[str, Argument] = {
        "a": left.copy.memory,
        "b": BufferOffset(right.memory, first) if first else right.memory,
        "out_": sums if partial else BufferOffset("out", start) if start else "out",
        "m": m, "n": n, "k": split_steps * tile.k, "total": steps * tile.k,
        "batches": 1,
        "a_stride": left.line, "b_stride": windows.number,
        "a_batch": numel, "b_batch": 0,
        "last_row": left.padded - tile.m, "last_column": n,
    }  # fmt: skip
    if product.call.bias:
        push["bias"] = "bias"
    kernel = "matmul/gemm_simt" if product.mode == SIMT else "matmul/gemm_coopmat"
    grid = fold_grid(ceil_div(m, tile.m) * ceil_div(n, tile.n), splits)
    constants = _constants(product, config, left, split_steps)
    defines = _defines(product, config, partial=partial)
    scaled = None
    if left.copy.exponents is not None and right.exponents is not None:
        scaled = left.copy.exponents, right.exponents
        if product.kind != FILTERS:
            push["row_exponents"], push["column_exponents"] = scaled
    found = [*left.copy.dispatches, *right.dispatches]
    found.append(Dispatch(kernel, grid, push, constants, defines))
    if product.kind == FILTERS:
        pitch, groups = product.bundle_vectors * product.width, product.call.how.groups
        summed = filter_sums(sums, out, splits, pitch, groups, product.bundle, scaled)
        found.append(summed)
    elif partial:
        found.append(sum_rows(product.call.gpu, sums, out, splits, numel))
    return found


def _images(product: _ImplicitGemm) -> Copy:
    """Return the packed images of a GEMM."""
    windows, by_channel = product.windows, product.kind == FILTERS
    largest = None
    if product.scaled:
        rule = of_channels if by_channel else of_images
        largest = rule(product.call.gpu, product.source, windows)
    return channels_last(
        product.source,
        windows,
        product.dtype,
        product.channel_vectors,
        largest=largest,
        by_channel=by_channel,
    )


def _constants(
    product: _ImplicitGemm, config: TileConfig, left: _LeftOperand, split_steps: int
) -> dict[str, int]:
    """Return the GEMM's constants; `split_steps` are pipeline steps per split."""
    tile, along_k = config.tile, int(product.kind != FILTERS)
    constants = {
        **tile_constants(product.call.gpu, tile, product.mode),
        **split_constants(tile, product.mode, _steps(product, config), split_steps),
        **_window_constants(product),
        **product.constants,
        "RESULTS": product.kind,
        "A_ALONG_K": along_k,
        "B_ALONG_K": along_k,
        "DEPTH": split_steps * tile.k,
        "A_STRIDE": left.line,
    }
    if product.together > 1:
        constants["PHASES_TOGETHER"] = product.together
    if product.kind == PHASES and split_steps == _steps(product, config):
        constants["FILTER_LINES"], constants["FILTER_COLUMNS"] = (
            product.call.window.kernel
        )
    grid = product.windows.depth
    if constants.get("PLANES_FIRST") and split_steps == _steps(product, config):
        assert grid is not None, "planes are those of windows along depth"
        constants["OWN_PLANES"] = product.windows.planes
        constants["FRONT"] = grid.front % (1 << 32)
        constants["DEEP_STEP"], constants["DEEP_GAP"] = grid.step, grid.gap
    if product.mode == SIMT:
        exist = left.padded == product.rows and product.sizes.n % tile.n == 0
        constants["DIRECT_STORE"] = int(exist and product.side_by_side % 4 == 0)
    return constants


def _window_constants(product: _ImplicitGemm) -> dict[str, int]:
    """Return the constants of the right operand's windows."""
    vectors = product.bundle_vectors
    constants = product.windows.constants(product.channel_vectors)
    constants["CHANNEL_VECTORS"] = vectors * product.windows.deep
    if product.windows.depth is not None:
        constants["PLANE_VECTORS"] = vectors
    if product.deep is not None and product.deep.outermost:
        constants["PLANES_FIRST"] = 1
        constants["VOLUMES"] = volumes_together(product.windows)
    if product.bundles > 1:
        constants["BUNDLE_ROWS"] = product.bundle_rows
        constants["BUNDLE"] = vectors
    return constants


def _defines(
    product: _ImplicitGemm, config: TileConfig, *, partial: bool
) -> dict[str, str]:
    defines = {**storage_defines(product.dtype, out_acc=partial), "IMPLICIT_GEMM": "1"}
    if product.call.bias:
        defines["BIAS"] = "1"
    if product.scaled and product.kind == FILTERS:
        defines["SCALED_SUMS"] = "1"
    stored = 4 if partial else product.dtype.itemsize
    if config.wide and product.mode != SIMT:
        if product.dtype is float16:
            defines["DEVICE_ROUNDING"] = "1"
        if product.side_by_side % (VECTOR_SIZE // stored) == 0:
            defines["WIDE_STORES"] = "1"
    return defines


def _may_compile(product: _ImplicitGemm) -> bool:
    """Return whether a kernel specialized for these sizes exists or may be added."""
    windows = _window_constants(product).values()
    key = (product.dtype, product.mode, product.kind, product.rows, *windows)
    if key not in _geometries and len(_geometries) >= MAX_GEOMETRIES:
        return False
    _geometries.add(key)
    return True
