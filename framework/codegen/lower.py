"""Lowering of a kernel group to a program and its arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..base.dtype import DTYPES, DType
from ..base.shape import Collapsed, Layout, ceil_div, collapse
from ..ir.kernel_call import Grid, divisor, fold_grid, linear_grid
from .glsl import tiles as tile_sizes
from .glsl.expression import has_loops
from .ir.program import (
    DIGIT_WORDS,
    MAX_PUSH,
    TILE_WORDS,
    Access,
    Fold,
    Instruction,
    KernelProgram,
    Output,
    Pattern,
    Reference,
    fields_size,
    push_fields,
    stride_names,
)
from .ir.reductions import Reduction, ReductionStep, RowSpace, reduction
from .ir.subnormal import compared_by_bits

if TYPE_CHECKING:
    from ..ir.lazy_graph import Node, Operand, Value

WORKGROUP = 256
"""Invocations per workgroup of an element-wise kernel."""

SOFTWARE_WORKGROUP = 64
SOFTWARE_ROUNDS = 4
"""Vectors of four elements per invocation on a software device.

An invocation costs as much there as a load (lavapipe 22.3, measured).
"""

BLOCK_ROUNDS = 16
"""Vectors of four elements per invocation with uniform vector loads.

Fewer leave more overhead per workgroup, more take long to compile.
"""

MIN_UNIFORM_LOAD_ELEMENTS = 1 << 17
"""Elements from which a software device uses uniform loads, slower to compile."""

MIN_TILE_EDGE = 16
"""Size of dimensions below which most of a tile would be empty."""

NARROW = {
    "normal_gate": "quick_gate",
    "normal_slope": "quick_slope",
    "precise_acos": "quick_acos",
    "precise_acosh": "quick_acosh",
    "precise_asin": "quick_asin",
    "precise_asinh": "quick_asinh",
    "precise_atanh": "quick_atanh",
    "precise_cos": "quick_cos",
    "precise_cosh": "quick_cosh",
    "precise_erf": "quick_erf",
    "precise_erfinv": "quick_erfinv",
    "precise_exp": "quick_full_exp",
    "precise_lgamma": "quick_lgamma",
    "precise_log": "quick_log",
    "precise_log10": "quick_log10",
    "precise_log1p": "quick_log1p",
    "precise_log2": "quick_log2",
    "precise_sin": "quick_sin",
    "precise_sinh": "quick_sinh",
    "precise_tan": "quick_tan",
    "precise_tanh": "quick_tanh",
    "power": "quick_power",
    "entropy_term": "quick_entropy_term",
    "logistic": "quick_logistic",
    "gated": "quick_gated",
    "softly_gated": "quick_softly_gated",
    "sine_quotient": "quick_sine_quotient",
    "log_add_exp": "quick_log_add_exp",
    "log_add_exp2": "quick_log_add_exp2",
    "log_logistic": "quick_log_logistic",
    "log_of_odds": "quick_log_of_odds",
    "softplus_of": "quick_softplus_of",
    "truncated_remainder": "quick_truncated_remainder",
    "floored_remainder": "quick_floored_remainder",
}
"""GLSL functions precise enough for 2-byte results, by the exact ones."""


class LoweredKernel(NamedTuple):
    """Lowered kernel: a program, its grid and the sources of its arguments.

    Attributes
    ----------
    name : str
        The ops joined by "_", for reports.
    program : KernelProgram
        KernelProgram, which determines the GLSL.
    grid : tuple of int
        Workgroups.
    inputs : list of (str, Value, int)
        Argument name, value and offset in bytes.
    outputs : list of (str, Value)
        Argument name and value.
    words : list of (str, int)
        Counts, sizes and strides by argument name.
    scalars : list of (int, int)
        For argument s0, s1, ...: position in `nodes` and in the node's scalars.
    workgroup : int
        Invocations per workgroup.
    """

    name: str
    program: KernelProgram
    grid: Grid
    inputs: list[tuple[str, Value, int]]
    outputs: list[tuple[str, Value]]
    words: list[tuple[str, float]]
    scalars: list[tuple[int, int]]
    workgroup: int


class Tile(NamedTuple):
    """Tiles of a kernel that reads operands across its rows: see `glsl.tiles`.

    Attributes
    ----------
    operands : tuple of int
        Numbers of these operands.
    size : (int, int)
        Rows and columns of a tile.
    rows, between, columns : int
        Rows, those between two of them, and elements of one.
    """

    operands: tuple[int, ...]
    size: tuple[int, int]
    rows: int
    between: int
    columns: int

    def words(self) -> list[tuple[str, float]]:
        """Return the sizes by argument name."""
        return list(zip(TILE_WORDS, self[2:]))

    def grid(self, count: int) -> Grid:
        """Return the workgroups for so many elements."""
        down = ceil_div(self.rows, self.size[0])
        across = ceil_div(self.columns, self.size[1])
        return fold_grid(across * down * (count // (self.rows * self.columns)))


def with_values(kernel: LoweredKernel, swap: Callable[[Any], Any]) -> LoweredKernel:
    """Return the kernel with other values, or with what stands for them."""
    return kernel._replace(
        inputs=[(name, swap(value), at) for name, value, at in kernel.inputs],
        outputs=[(name, swap(value)) for name, value in kernel.outputs],
    )


def structure_of(
    nodes: Sequence[Node], live_out: Collection[int], first: Sequence[Value] = ()
) -> tuple[Hashable, list[Value]]:
    """Return what decides the kernel of nodes, but for their values, and those.

    Kernels of equal structure are the same `with_values`. `first` are values that are
    numbered before those of the nodes.
    """
    places: dict[int, int] = {}
    values: list[Value] = []
    for value in first:
        places[id(value)] = len(values)
        values.append(value)
    wiring: list[object] = []
    for node in nodes:
        wiring.append(node.signature)
        wiring.append(id(node.outputs[0]) in live_out)
        for value in (*node.values, *node.outputs):
            key = id(value)
            place = places.get(key)
            if place is None:
                place = places[key] = len(values)
                values.append(value)
            wiring.append(place)
    return tuple(wiring), values


def build_kernel(
    nodes: Sequence[Node],
    live_out: set[int],
    software: bool = False,
    product: Value | None = None,
    lanes: int = 0,
    by_bits: bool = False,
    coalesces: bool = False,
) -> LoweredKernel:
    """Return the kernel that runs `nodes` and writes the values in `live_out`.

    Parameters
    ----------
    nodes : sequence of Node
        Element-wise nodes of one shape, in order.
    live_out : set of int
        `id` of each live-out value.
    software : bool, default False
        Whether the device is a software one whose compiler allows branches in loops.
    product : Value or None
        Value passed in registers instead of loaded; see `epilogue_fusion`.
    lanes : int, default 0
        Subgroup size of a software device for uniform vector loads; 0 disables them.
    by_bits : bool, default False
        Compare floats by their bits; see `ir.subnormal`.
    coalesces : bool, default False
        Neighbouring loads of a subgroup are one transaction.
    """
    space = RowSpace(nodes[0].layouts[0].shape, 0)
    lowering = Lowering(nodes, live_out, space, product, by_bits)
    vec4s = ceil_div(space.columns, 4)
    if lanes and 4 * vec4s >= MIN_UNIFORM_LOAD_ELEMENTS:
        program = lowering.program._replace(rounds=BLOCK_ROUNDS, lanes=lanes)
        if fits_uniform_loads(program):
            grid = fold_grid(ceil_div(vec4s, lanes * BLOCK_ROUNDS))
            return lowering.kernel(program, grid, lanes)
    workgroup = SOFTWARE_WORKGROUP if software else WORKGROUP
    program = lowering.program._replace(rounds=SOFTWARE_ROUNDS if software else 1)
    tile = lowering.tile() if coalesces and product is None else None
    if tile is not None:
        tiled = lowering.kernel(
            program._replace(tile=tile.operands),
            tile.grid(space.columns),
            tile_sizes.WORKGROUP,
        )
        return tiled._replace(words=[*tiled.words, *tile.words()])
    grid = linear_grid(ceil_div(vec4s, program.rounds), workgroup)
    return lowering.kernel(program, grid, workgroup)


def fits_uniform_loads(program: KernelProgram) -> bool:
    """Whether per-element operands fit uniform loads.

    Functions that loop do not: unrolled, they would take minutes to compile.
    """
    moved = [access for access in program.accesses if not access.per_row]
    return (
        all(_is_block(program, access) for access in moved)
        and fields_size(push_fields(program)) <= MAX_PUSH
        and not has_loops(program)
    )


def _is_block(program: KernelProgram, access: Access) -> bool:
    """Whether an operand is contiguous, or one row of it is read by all rows."""
    if access.kind != "vec4":
        return access.kind == "linear"
    rows, columns, offset = program.patterns[access.pattern]
    return set(rows) == {"0"} and columns == ("1",) and not offset


def operands_of(nodes: Sequence[Node]) -> dict[tuple[int, Layout], Operand]:
    """Return the operands that a kernel loads, in order, by value `id` and layout."""
    inside = {id(node.outputs[0]) for node in nodes}
    return {
        (id(operand.value), operand.layout): operand
        for node in nodes
        for operand in node.inputs
        if id(operand.value) not in inside
    }


class Lowering:
    """Lowering of nodes over one space; element-wise ones have no rows.

    Attributes
    ----------
    program : KernelProgram
        The nodes with the loop nest of an element-wise kernel.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        live_out: set[int],
        space: RowSpace,
        product: Value | None = None,
        by_bits: bool = False,
    ) -> None:
        self.nodes = nodes
        self.space = space
        self.product = product
        self.has_rows = any(node.op.reduction for node in nodes)
        self.accesses: list[Access] = []
        self.patterns: dict[tuple[Pattern, tuple[int, ...], int], int] = {}
        self.inputs: list[tuple[str, Value, int]] = []
        self.steps: list[Instruction | Fold] = []
        self.made: dict[int, Reference] = {}
        self.scalars: list[tuple[int, int]] = []
        self.scalar_types: list[str] = []
        self.factors: dict[tuple[str, float], int] = {}
        self._read_operands()
        for k, node in enumerate(nodes):
            result = self._reduce(node) if node.op.reduction else self._compute(k, node)
            self.made[id(node.outputs[0])] = result
        self.written = [
            node.outputs[0] for node in nodes if id(node.outputs[0]) in live_out
        ]
        self.program = KernelProgram(
            row_rank=len(self.row_sizes),
            column_rank=len(self.column_sizes),
            vec4=self.vec4,
            patterns=tuple(pattern for pattern, _, _ in self.patterns),
            accesses=tuple(self.accesses),
            scalars=tuple(self.scalar_types),
            factors=tuple(kind for kind, _ in self.factors),
            instructions=tuple(self.steps),
            outputs=tuple(
                Output(self.made[id(value)].number, value.dtype.name)
                for value in self.written
            ),
        )
        if by_bits:
            self.program = compared_by_bits(self.program)

    def tile(self) -> Tile | None:
        """Return the tiles in which operands are read across rows; None if none are."""
        *outer, columns = self.column_sizes
        found: dict[int, list[int]] = {}
        for k, access in enumerate(self.accesses):
            if access.kind != "gather":
                continue
            steps = self.program.patterns[access.pattern].columns
            for dim, (step, edge) in enumerate(zip(steps, outer)):
                if step == "1" and steps[-1] == "s" and edge >= MIN_TILE_EDGE:
                    found.setdefault(dim, []).append(k)
        if not found or columns < MIN_TILE_EDGE:
            return None
        itemsize = [DTYPES[access.dtype].itemsize for access in self.accesses]
        dim = max(found, key=lambda dim: sum(itemsize[k] for k in found[dim]))
        # What shared memory has no room for is read as without tiles.
        operands: list[int] = []
        for k in found[dim]:
            size = tile_sizes.size_of([itemsize[each] for each in (*operands, k)])
            shared = [
                tile_sizes.shared_bytes(itemsize[each], size) for each in (*operands, k)
            ]
            if sum(shared) <= tile_sizes.MOST_SHARED:
                operands.append(k)
        size = tile_sizes.size_of([itemsize[k] for k in operands])
        between = math.prod(outer[dim + 1 :])
        return Tile(tuple(operands), size, outer[dim], between, columns)

    def kernel(
        self, program: KernelProgram, grid: Grid, workgroup: int
    ) -> LoweredKernel:
        """Return the kernel of a program that has the loop nest of a device."""
        return LoweredKernel(
            name="_".join(node.op.name for node in self.nodes)[:80],
            program=program,
            grid=grid,
            inputs=self.inputs,
            outputs=[(f"out{k}", value) for k, value in enumerate(self.written)],
            words=self._words(program),
            scalars=self.scalars,
            workgroup=workgroup,
        )

    def _words(self, program: KernelProgram) -> list[tuple[str, float]]:
        """Return counts, sizes, strides and factors by argument name."""
        words: list[tuple[str, float]] = []
        count = self.space.columns
        if self.has_rows:
            words.append(("rows", self.space.rows))
            words.append(("columns", count // 4 if self.vec4 else count))
            words += [(f"factor{k}", value) for (_, value), k in self.factors.items()]
        else:
            words.append(("quads", ceil_div(count, 4)))
            if not self.vec4:
                words.append(("last", count - 1))
        if self.patterns:
            words += _size_words("row_", self.row_sizes)
            words += _size_words("", self.column_sizes)
        for k, (pattern, strides, start) in enumerate(self.patterns):
            if pattern.offset:
                words.append((f"p{k}_offset", start))
            words += [
                (name, stride)
                for (name, step), stride in zip(stride_names(k, pattern), strides)
                if step == "s"
            ]
        return [*words, *DIGIT_WORDS] if program.lanes else words

    def _read_operands(self) -> None:
        """Choose each operand's access, collapsing dimensions over all of them."""
        shape, split = self.space
        operands = operands_of(self.nodes)
        self.numbers = {key: k for k, key in enumerate(operands)}
        walked = {
            key: self._sides(operand.layout)
            for key, operand in operands.items()
            if not self._is_linear(operand.layout) and not _is_scalar(operand)
        }
        columns = collapse(shape[split:], [inner for _, inner in walked.values()])
        rows = Collapsed((), ((),) * len(walked))
        if self.has_rows:
            rows = collapse(shape[:split], [outer for outer, _ in walked.values()])
        self.row_sizes, self.column_sizes = rows.shape, columns.shape
        vectors = columns.shape[-1] % 4 == 0
        self.vec4 = vectors or (not walked and not self.has_rows)
        walks = dict(zip(walked, zip(rows.strides, columns.strides)))
        for k, (key, operand) in enumerate(operands.items()):
            value = operand.value
            if value is self.product:
                self.accesses.append(Access("product", value.dtype.name))
                continue
            access, offset = self._access(operand, walks.get(key))
            self.accesses.append(access)
            self.inputs.append((f"in{k}", value, offset * value.dtype.itemsize))

    def _sides(self, layout: Layout) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return strides over rows and over columns."""
        shape, split = self.space
        inner = layout.strides[split:]
        if layout.shape != shape:
            inner = (0,) * (len(shape) - split)
        return layout.strides[:split], inner

    def _is_linear(self, layout: Layout) -> bool:
        """Whether aligned vectors of four elements are contiguous."""
        contiguous = layout.shape == self.space.shape and layout.is_contiguous
        return contiguous and layout.offset % 4 == 0

    def _access(
        self,
        operand: Operand,
        walk: tuple[tuple[int, ...], tuple[int, ...]] | None,
    ) -> tuple[Access, int]:
        """Return the access, and the start offset that goes into the address."""
        dtype, start = operand.value.dtype, operand.layout.offset
        if walk is None:
            linear = self._is_linear(operand.layout)
            kind = "linear" if linear else "scalar"
            return Access(kind, dtype.name, per_row=not linear), start
        rows, columns = walk
        per_row = self.has_rows and all(
            step == 0 or size == 1 for step, size in zip(columns, self.column_sizes)
        )
        kind = self._kind(rows, columns, start)
        # An address counts bytes of whole words, so a narrow element needs an offset
        # inside the kernel.
        pushed = 0 if dtype.itemsize >= 4 or kind == "vec4" else start
        pattern = Pattern(_steps(rows), _steps(columns), pushed > 0)
        key = (pattern, (*rows, *columns), pushed)
        index = self.patterns.setdefault(key, len(self.patterns))
        return Access(kind, dtype.name, index, per_row), start - pushed

    def _kind(self, rows: tuple[int, ...], columns: tuple[int, ...], start: int) -> str:
        *outer, last = columns
        if self.vec4 and last == 0 and not self.has_rows:
            return "splat"
        aligned = all(step % 4 == 0 for step in (*rows, *outer, start))
        return "vec4" if self.vec4 and last == 1 and aligned else "gather"

    def _add(self, step: Instruction | Fold) -> Reference:
        self.steps.append(step)
        return Reference("op", len(self.steps) - 1)

    def _is_of_row(self, node: Node) -> bool:
        return node.layouts[0].shape != self.space.shape

    def _compute(self, k: int, node: Node) -> Reference:
        """Add the instruction of element-wise node number `k`."""
        params = dict(node.params)
        compute, per_row = params["compute"], self._is_of_row(node)
        assert isinstance(compute, DType)
        if node.op.source is not None:
            return self._draw(k, node, compute)
        tensors = dict(zip(node.op.tensor_names(node.params), node.inputs))
        scalars = {name: at for at, (name, _) in enumerate(node.scalars)}
        arguments = []
        for name in node.op.operands:
            if name in tensors:
                arguments.append(self._reference(tensors[name]))
            elif compute.is_complex:
                # Both parts follow each other.
                part, at = compute.to_real().glsl, scalars[name]
                arguments.append(self._scalar(k, at, part))
                self._scalar(k, at + 1, part)
            else:
                kind = "uint" if compute.glsl == "bool" else compute.glsl
                arguments.append(self._scalar(k, scalars[name], kind))
        result = node.outputs[0].dtype
        glsl = node.op.complex_glsl if compute.is_complex else node.op.glsl
        assert glsl is not None
        # A condition of bools is no number on the way.
        types = tuple(
            "bool" if f"bool({name})" in glsl and self._is_bool(given) else compute.name
            for name, given in zip(node.op.operands, arguments)
        )
        return self._add(
            Instruction(
                _narrowed(glsl) if result.is_float and result.itemsize == 2 else glsl,
                node.op.operands,
                types,
                tuple(arguments),
                result.name,
                per_row,
            )
        )

    def _draw(self, k: int, node: Node, compute: DType) -> Reference:
        """Add a source without memory, and the op's expression over it."""
        op, per_row = node.op, self._is_of_row(node)
        assert isinstance(op.source, tuple)
        kind, dtype = op.source
        words = 0 if kind == "index" else 4
        stream = [self._scalar(k, at, "uint") for at in range(words)]
        first = stream[0].number if stream else -1
        numbers = [
            self._scalar(k, at, compute.glsl) for at in range(words, len(node.scalars))
        ]
        self.accesses.append(Access(kind, dtype.name, first, per_row))
        drawn = Reference("in", len(self.accesses) - 1)
        return self._add(
            Instruction(
                op.glsl or "",
                op.operands,
                (
                    compute.name if kind == "index" else dtype.name,
                    *[compute.name] * len(numbers),
                ),
                (drawn, *numbers),
                node.outputs[0].dtype.name,
                per_row,
            )
        )

    def _reference(self, operand: Operand) -> Reference:
        """Return the reference of an operand: an access or an instruction."""
        made = self.made.get(id(operand.value))
        key = (id(operand.value), operand.layout)
        return Reference("in", self.numbers[key]) if made is None else made

    def _is_bool(self, reference: Reference) -> bool:
        """Whether an operand is of bools in memory, or of an instruction."""
        if reference.source == "op":
            step = self.steps[reference.number]
            return not isinstance(step, Fold) and step.result == "bool"
        if reference.source == "in":
            return self.accesses[reference.number].dtype == "bool"
        return False

    def _scalar(self, k: int, at: int, kind: str) -> Reference:
        self.scalars.append((k, at))
        self.scalar_types.append(kind)
        return Reference("scalar", len(self.scalars) - 1)

    def _factor(self, value: float, made: Reduction) -> Reference:
        """Return a factor that depends on sizes, as an argument of the kernel."""
        key = (made.compute.glsl, value)
        return Reference("factor", self.factors.setdefault(key, len(self.factors)))

    def _reduce(self, node: Node) -> Reference:
        """Add the steps of a reduction."""
        (source,), (out,) = node.inputs, node.outputs
        assert node.op.reduction is not None
        params = dict(node.params)
        made = reduction(node.op.reduction, source.value.dtype, out.dtype, params)
        values = {"x": self._reference(source)}
        for step in made.steps:
            values[step.name] = self._reduction_step(step, made, values)
        scale = [] if made.scale == 1 else [self._factor(made.scale, made)]
        if not scale and made.compute is out.dtype:
            return values["out"]
        return self._add(
            Instruction(
                "x * y" if scale else "x",
                ("x", "y") if scale else ("x",),
                (made.compute.name,) * (1 + len(scale)),
                (values["out"], *scale),
                out.dtype.name,
                per_row=True,
            )
        )

    def _reduction_step(
        self, step: ReductionStep, made: Reduction, values: dict[str, Reference]
    ) -> Reference:
        name = made.compute.name
        if "per_count" in step.over and "per_count" not in values:
            values["per_count"] = self._factor(1 / self.space.columns, made)
        arguments = tuple(values[each] for each in step.over)
        if step.fold:
            return self._add(Fold(step.glsl, (name,), (arguments[0],), name))
        types = (name,) * len(arguments)
        return self._add(
            Instruction(step.glsl, step.over, types, arguments, name, step.per_row)
        )


def _narrowed(glsl: str) -> str:
    """Return an expression precise enough for 2-byte results."""
    function, bracket, rest = glsl.partition("(")
    return NARROW.get(function, function) + bracket + rest


def _is_scalar(operand: Operand) -> bool:
    """Whether every element is the same one, at an address of whole words."""
    layout, size = operand.layout, operand.value.dtype.itemsize
    broadcast = all(s == 0 or n == 1 for s, n in zip(layout.strides, layout.shape))
    return broadcast and layout.offset * size % 4 == 0


def _steps(strides: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(str(step) if step in (0, 1) else "s" for step in strides)


def _size_words(side: str, sizes: tuple[int, ...]) -> list[tuple[str, float]]:
    """Return the arguments that split a linear index into coordinates."""
    words: list[tuple[str, float]] = []
    for dim, size in enumerate(sizes[1:], start=1):
        magic, shift = divisor(size)
        words.append((f"{side}size{dim}", size))
        words += [(f"{side}magic{dim}", magic), (f"{side}shift{dim}", shift)]
    return words
