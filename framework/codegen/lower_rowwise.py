"""Lowering of a row-wise kernel group to a program and its arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..base.dtype import DTYPES
from ..base.shape import Layout, Shape, ceil_div, collapse
from ..ir.kernel_call import fold_grid
from .glsl.lavapipe import DIGIT_WORDS, MAX_UNIFORM
from .glsl.lavapipe_rowwise import fits_uniform_loads
from .ir.program import Instruction, Output, Reference
from .ir.reductions import Reduction, ReductionStep, reduction, split_of
from .ir.row_program import Fold, RowAccess, RowPattern, RowProgram, passes
from .lower_elementwise import (
    MIN_UNIFORM_LOAD_ELEMENTS,
    KernelOperands,
    LoweredKernel,
    is_linear,
    is_scalar,
    size_words,
)

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..ir.lazy_graph import Node, Operand, Value

WORKGROUP = 128
SOFTWARE_WORKGROUP = 8
"""Invocations per workgroup, unless one row takes more."""

SOFTWARE_ROWS = 32
"""Rows from which a software device uses one invocation per row, the quickest."""

MOST_GROUP = 1024
COMFORTABLE_GROUP = 512
"""Most invocations of a GPU per row, if they can hold the row in registers.

With 1024 fewer workgroups are resident: softmax 8192 x 8192 on an NVIDIA H200, driver
580.159.04, took 0.1460 ms with them and 0.1327 with 512 (2026-11-21).
"""

WANTED_ROUNDS = 2
MOST_ROUNDS = 8
"""Most vectors of four elements that an invocation of a GPU holds in registers."""

SMALL = 32768
"""Elements up to which a fused reduction is used, however few rows there are."""

ENOUGH_ROWS = 64
MOST_COLUMNS = 65536
SOFTWARE_COLUMNS = 8192
"""Longest rows within the loop limit of software devices: `ir.kernel_call`."""

BLOCKS_TOGETHER = 4
"""Rows per workgroup with uniform vector loads: it costs 0.1 us to start one."""

MIN_BLOCK_COLUMNS = 128
MAX_BLOCK_COLUMNS = 1024
"""Longest rows with uniform vector loads; longer ones compile for long."""

MAX_REGISTERS = 96
MAX_WORKGROUP_REGISTERS = 40960
"""32-bit registers for elements, per invocation and per workgroup."""


class RowSpace(NamedTuple):
    """Row space: the shape of elements, and the leading dimensions that are rows."""

    shape: Shape
    split: int

    @property
    def rows(self) -> int:
        """Number of rows."""
        return math.prod(self.shape[: self.split])

    @property
    def columns(self) -> int:
        """Elements per row."""
        return math.prod(self.shape[self.split :])


class RowTile(NamedTuple):
    """Row tile: invocations per row, invocations per workgroup, and rounds."""

    group: int
    workgroup: int
    rounds: int


def row_tile(gpu: DeviceInfo, rows: int, columns: int) -> RowTile:
    """Return the row tile of a device.

    Parameters
    ----------
    gpu : DeviceInfo
    rows, columns : int
    """
    fours = ceil_div(columns, 4)
    if not gpu.target.cheap_barriers:
        if rows >= SOFTWARE_ROWS or not subgroup_of(gpu):
            return RowTile(1, SOFTWARE_WORKGROUP, 0)
        return RowTile(gpu.subgroup_size, gpu.subgroup_size, 0)
    desired = max(ceil_div(fours, WANTED_ROUNDS), min(fours, 32))
    group = min(most_group(gpu), 1 << (desired - 1).bit_length())
    if fours <= MOST_ROUNDS * COMFORTABLE_GROUP:
        group = min(group, COMFORTABLE_GROUP)
    return tile_of(gpu, group, columns)


def most_group(gpu: DeviceInfo) -> int:
    """Return the most invocations of a GPU per row."""
    most = min(MOST_GROUP, gpu.max_workgroup_invocations)
    return min(most, gpu.subgroup_size**2) if subgroup_of(gpu) else most


def tile_of(gpu: DeviceInfo, group: int, columns: int) -> RowTile:
    """Return the tile of `group` invocations, in registers if the row fits."""
    rounds = ceil_div(ceil_div(columns, 4), group)
    workgroup = max(group, min(most_group(gpu), WORKGROUP))
    return RowTile(group, workgroup, 0 if rounds > MOST_ROUNDS else rounds)


def subgroup_of(gpu: DeviceInfo) -> int:
    """Return the subgroup size if it is uniform and shuffles are supported, else 0."""
    alike = gpu.min_subgroup_size == gpu.max_subgroup_size == gpu.subgroup_size
    return gpu.subgroup_size if gpu.subgroup_shuffle and alike else 0


def build_rows(
    nodes: Sequence[Node],
    live_out: set[int],
    gpu: DeviceInfo,
    lanes: int = 0,
    tile: RowTile | None = None,
) -> LoweredKernel:
    """Return the kernel that runs `nodes` and writes the values in `live_out`.

    Parameters
    ----------
    nodes : sequence of Node
        Reductions over the same rows, and element-wise nodes of their elements or of
        their results, in order.
    live_out : set of int
        `id` of each live-out value.
    gpu : DeviceInfo
        Device of the plan.
    lanes : int, default 0
        Subgroup size of a software device for uniform vector loads, see
        `glsl.lavapipe`; 0 disables them.
    tile : RowTile or None
        Row tile, without uniform vector loads; None chooses.
    """
    space = space_of_all(nodes)
    group = subgroup_of(gpu)
    if tile or not _profits_from_uniform_loads(space, gpu):
        tile = tile or row_tile(gpu, space.rows, space.columns)
        return _RowwiseLowering(nodes, live_out, space, tile, gpu).kernel()
    whole = RowTile(group, BLOCKS_TOGETHER * group, space.columns // (4 * group))
    if lanes:
        built = _RowwiseLowering(nodes, live_out, space, whole, gpu).kernel()
        assert isinstance(built.program, RowProgram)
        if fits_uniform_loads(built.program):
            return built._replace(words=[*built.words, *DIGIT_WORDS], lanes=lanes)
    # Uniform loads depend on what is fused; the summation order must not.
    walked = whole._replace(rounds=0)
    return _RowwiseLowering(
        nodes, live_out, space, walked, gpu, block_order=True
    ).kernel()


def _profits_from_uniform_loads(space: RowSpace, gpu: DeviceInfo) -> bool:
    """Whether rows are whole vectors of a software device, within the length limits.

    Shorter ones gain nothing, longer ones compile for long.
    """
    lanes = subgroup_of(gpu)
    return (
        gpu.target.uniform_loads
        and lanes >= 4
        and space.columns % (4 * lanes) == 0
        and MIN_BLOCK_COLUMNS <= space.columns <= MAX_BLOCK_COLUMNS
        and space.rows * space.columns >= MIN_UNIFORM_LOAD_ELEMENTS
        and space.rows <= MAX_UNIFORM
    )


def space_of(node: Node) -> RowSpace | None:
    """Return the row space of a reduction, if it reduces rows."""
    if node.op.reduction is None:
        return None
    shape, dims = node.inputs[0].layout.shape, dict(node.params)["dims"]
    assert isinstance(dims, tuple)
    split = split_of(shape, dims)
    return None if split is None else RowSpace(shape, split)


def space_of_all(nodes: Sequence[Node]) -> RowSpace:
    """Return the common row space of the reductions in one kernel."""
    return next(space for space in map(space_of, nodes) if space)


def fuses_rows(gpu: DeviceInfo) -> bool:
    """Return whether a device has generated row kernels.

    The compiler of SwiftShader, the software device without 64-bit integers, takes
    minutes for functions with branches that are called in a loop.
    """
    return gpu.target.compiles_row_kernels


def row_space(node: Node, gpu: DeviceInfo) -> RowSpace | None:
    """Return the row space of a reduction to fuse into one kernel; else None.

    Long rows are fused only if there are enough of them to occupy the device.
    """
    space = space_of(node)
    if space is None or not fuses_rows(gpu):
        return None
    return space if fits_one_kernel(space, not gpu.target.hides_latency) else None


def fits_one_kernel(space: RowSpace, software: bool = False) -> bool:
    """Whether one kernel should reduce these rows; see `row_space`."""
    rows, columns = space.rows, space.columns
    most = SOFTWARE_COLUMNS if software else MOST_COLUMNS
    enough = SOFTWARE_ROWS if software else ENOUGH_ROWS
    return columns <= most and (rows >= enough or rows * columns <= SMALL)


class _RowwiseLowering(KernelOperands):
    def __init__(
        self,
        nodes: Sequence[Node],
        live_out: set[int],
        space: RowSpace,
        tile: RowTile,
        gpu: DeviceInfo,
        block_order: bool = False,
    ) -> None:
        super().__init__(nodes)
        self.block_order = block_order
        self.nodes = nodes
        self.live_out = live_out
        self.space = space
        self.tile = tile
        self.limits_registers = gpu.target.limits_registers
        self.subgroup = subgroup_of(gpu)
        self.steps: list[Instruction | Fold] = []
        self.per_row: list[bool] = []
        self.accesses: list[RowAccess] = []
        self.patterns: dict[tuple[RowPattern, tuple[int, ...], int], int] = {}
        self.inputs: list[tuple[str, Value, int]] = []
        self.factors: dict[tuple[str, float], int] = {}

    def kernel(self) -> LoweredKernel:
        self._read_operands()
        for k, node in enumerate(self.nodes):
            if node.op.reduction is None:
                self._add(self.instruction(k, node), self._is_of_row(node))
            else:
                self._reduce(node)
            self.made[id(node.outputs[0])] = len(self.steps) - 1
        values = [node.outputs[0] for node in self.nodes]
        written = [value for value in values if id(value) in self.live_out]
        group, workgroup, _ = self.tile
        return LoweredKernel(
            name="_".join(node.op.name for node in self.nodes)[:80],
            program=self._program(written),
            grid=fold_grid(ceil_div(self.space.rows, workgroup // group)),
            inputs=self.inputs,
            outputs=[(f"out{k}", value) for k, value in enumerate(written)],
            words=self._words(),
            scalars=self.scalars,
            workgroup=workgroup,
        )

    def _program(self, written: Sequence[Value]) -> RowProgram:
        group, _, rounds = self.tile
        whole = 4 * group * rounds if rounds else 4 * group if group == 1 else 0
        exact = whole > 0 and self.space.columns % whole == 0
        program = RowProgram(
            row_rank=len(self.sizes[0]),
            column_rank=len(self.sizes[1]),
            neighbours=self.space.columns % 4 == 0,
            vec4=self.vec4,
            block_order=self.block_order,
            group=group,
            subgroup=self.subgroup,
            rounds=rounds,
            exact=exact,
            patterns=tuple(pattern for pattern, _, _ in self.patterns),
            accesses=tuple(self.accesses),
            scalars=tuple(self.scalar_types),
            factors=tuple(kind for kind, _ in self.factors),
            instructions=tuple(self.steps),
            per_row=tuple(self.per_row),
            outputs=tuple(Output(self.made[id(v)], v.dtype.name) for v in written),
        )
        registers = rounds * 4 * _registers(program)
        if self.limits_registers and registers > min(
            MAX_REGISTERS, MAX_WORKGROUP_REGISTERS // self.tile.workgroup
        ):
            return program._replace(rounds=0, exact=False)
        return program

    def _is_of_row(self, node: Node) -> bool:
        return node.layouts[0].shape != self.space.shape

    def _add(self, step: Instruction | Fold, per_row: bool) -> Reference:
        self.steps.append(step)
        self.per_row.append(per_row)
        return Reference("op", len(self.steps) - 1)

    def _dtype(self, reference: Reference) -> str:
        if reference.source == "in":
            return self.accesses[reference.number].dtype
        return self.steps[reference.number].result

    def _reduce(self, node: Node) -> None:
        """Add the steps of a reduction."""
        (source,), (out,) = node.inputs, node.outputs
        assert node.op.reduction is not None
        params = dict(node.params)
        made = reduction(node.op.reduction, source.value.dtype, out.dtype, params)
        values = {"x": self.reference(source)}
        for step in made.steps:
            values[step.name] = self._lower_step(step, made, values)
        scale = [] if made.scale == 1 else [self._factor(made.scale, made)]
        if scale or made.compute is not out.dtype:
            self._add(
                Instruction(
                    "x * y" if scale else "x",
                    ("x", "y") if scale else ("x",),
                    (made.compute.name,) * (1 + len(scale)),
                    (values["out"], *scale),
                    out.dtype.name,
                ),
                True,
            )

    def _lower_step(
        self, step: ReductionStep, made: Reduction, values: dict[str, Reference]
    ) -> Reference:
        name = made.compute.name
        if "per_count" in step.over and "per_count" not in values:
            values["per_count"] = self._factor(1 / self.space.columns, made)
        arguments = tuple(values[each] for each in step.over)
        if step.fold:
            return self._add(Fold(step.glsl, (name,), (arguments[0],), name), True)
        types = (name,) * len(arguments)
        new = Instruction(step.glsl, step.over, types, arguments, name)
        return self._add(new, step.per_row)

    def _factor(self, value: float, made: Reduction) -> Reference:
        """Return a factor that depends on sizes, as an argument of the kernel."""
        key = (made.compute.glsl, value)
        return Reference("factor", self.factors.setdefault(key, len(self.factors)))

    def draw(self, node: Node, kind: str, dtype: str, first: int) -> Reference:
        self.accesses.append(RowAccess(kind, dtype, self._is_of_row(node), first))
        return Reference("in", len(self.accesses) - 1)

    def _sides(self, layout: Layout) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return strides over rows and over columns."""
        split, shape = self.space.split, self.space.shape
        inner = layout.strides[split:]
        if layout.shape != shape:
            inner = (0,) * (len(shape) - split)
        return layout.strides[:split], inner

    def _read_operands(self) -> None:
        """Choose each operand's access, collapsing dimensions over all of them."""
        shape, split = self.space
        walked = {
            key: self._sides(operand.layout)
            for key, operand in self.operands.items()
            if not self._is_linear(operand.layout) and not is_scalar(operand)
        }
        rows = collapse(shape[:split], [row for row, _ in walked.values()])
        columns = collapse(shape[split:], [column for _, column in walked.values()])
        self.sizes = (rows.shape, columns.shape)
        self.vec4 = columns.shape[-1] % 4 == 0
        walks = dict(zip(walked, zip(rows.strides, columns.strides)))
        for k, (key, operand) in enumerate(self.operands.items()):
            access, offset = self._access(operand, walks.get(key))
            self.accesses.append(access)
            size = operand.value.dtype.itemsize
            self.inputs.append((f"in{k}", operand.value, offset * size))

    def _is_linear(self, layout: Layout) -> bool:
        return layout.shape == self.space.shape and is_linear(layout)

    def _access(
        self,
        operand: Operand,
        walk: tuple[tuple[int, ...], tuple[int, ...]] | None,
    ) -> tuple[RowAccess, int]:
        """Return the access, and the start offset that goes into the address."""
        dtype, start = operand.value.dtype, operand.layout.offset
        if walk is None:
            if is_scalar(operand):
                return RowAccess("single", dtype.name, True), start
            return RowAccess("linear", dtype.name, False), start
        row, column = walk
        per_row = all(
            step == 0 or size == 1 for step, size in zip(column, self.sizes[1])
        )
        outer = (*row, *column[:-1], start)
        aligned = self.vec4 and all(step % 4 == 0 for step in outer)
        kind = "quad" if aligned and column[-1] == 1 else "gather"
        pushed = 0 if dtype.itemsize >= 4 or kind == "quad" else start
        pattern = RowPattern(_steps(row), _steps(column), pushed > 0)
        key = (pattern, (*row, *column), pushed)
        index = self.patterns.setdefault(key, len(self.patterns))
        return RowAccess(kind, dtype.name, per_row, index), start - pushed

    def _words(self) -> list[tuple[str, float]]:
        columns = self.space.columns // 4 if self.vec4 else self.space.columns
        words: list[tuple[str, float]] = [("rows", self.space.rows)]
        words.append(("columns", columns))
        words += [(f"factor{k}", value) for (_, value), k in self.factors.items()]
        if self.patterns:
            words += size_words("row_", self.sizes[0])
            words += size_words("column_", self.sizes[1])
        for k, (pattern, strides, start) in enumerate(self.patterns):
            if pattern.offset:
                words.append((f"p{k}_offset", start))
            names = [f"row{dim}" for dim in range(len(pattern.rows))]
            names += [f"column{dim}" for dim in range(len(pattern.columns))]
            words += [
                (f"p{k}_{name}", stride)
                for name, stride in zip(names, strides)
                if stride > 1
            ]
        return words


def _steps(strides: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(str(step) if step in (0, 1) else "s" for step in strides)


def _registers(program: RowProgram) -> int:
    """Return the peak of 32-bit registers per element kept between passes."""
    walks = passes(program, keep=True).passes
    most = 0
    for number in range(1, len(walks)):
        later = {key for other in walks[number:] for key in other.kept}
        for other in walks[number:]:
            later -= {Reference("in", k) for k in other.loads}
            later -= {Reference("op", n) for n in other.steps}
        most = max(most, sum(_words_of(program, key) for key in later))
    return most


def _words_of(program: RowProgram, reference: Reference) -> int:
    source, number = reference
    if source == "in":
        return ceil_div(DTYPES[program.accesses[number].dtype].itemsize, 4)
    return ceil_div(DTYPES[program.instructions[number].result].itemsize, 4)
