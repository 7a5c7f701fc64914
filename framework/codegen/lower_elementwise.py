"""Lowering of an element-wise kernel group to a program and its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..base.dtype import DTYPES, DType
from ..base.shape import Layout, ceil_div, collapse
from ..ir.kernel_call import Grid, divisor, fold_grid, linear_grid
from .glsl.lavapipe import DIGIT_BYTES, DIGIT_WORDS
from .ir.program import (
    MAX_PUSH,
    Access,
    Instruction,
    Output,
    Pattern,
    Program,
    Reference,
    field_size,
    push_fields,
)
from .ir.row_program import RowProgram

if TYPE_CHECKING:
    from ..ir.lazy_graph import Node, Operand, Value

WORKGROUP = 256
"""Invocations per workgroup of a fused kernel."""

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


NARROW = {
    "normal_gate": "quick_gate",
    "normal_slope": "quick_slope",
    "precise_erf": "quick_erf",
    "precise_exp": "quick_full_exp",
    "precise_log": "quick_log",
    "precise_tanh": "quick_tanh",
    "logistic": "quick_logistic",
    "gated": "quick_gated",
    "softly_gated": "quick_softly_gated",
}
"""GLSL functions precise enough for 2-byte results, by the exact ones."""


def _narrowed(glsl: str) -> str:
    """Return an expression precise enough for 2-byte results."""
    function, bracket, rest = glsl.partition("(")
    return NARROW.get(function, function) + bracket + rest


class LoweredKernel(NamedTuple):
    """Lowered kernel: a program, its grid and the sources of its arguments.

    Attributes
    ----------
    name : str
        The ops joined by "_", for reports.
    program : Program
        Program, which determines the GLSL.
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
    rounds : int
        Vectors of four elements per invocation, of element-wise programs.
    lanes : int
        Workgroup size for uniform vector loads, see `glsl.lavapipe`; 0 without.
    """

    name: str
    program: Program | RowProgram
    grid: Grid
    inputs: list[tuple[str, Value, int]]
    outputs: list[tuple[str, Value]]
    words: list[tuple[str, float]]
    scalars: list[tuple[int, int]]
    workgroup: int = WORKGROUP
    rounds: int = 1
    lanes: int = 0


def build_kernel(
    nodes: Sequence[Node],
    live_out: set[int],
    software: bool = False,
    product: Value | None = None,
    lanes: int = 0,
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
    """
    built = _ElementwiseLowering(nodes, live_out, product).kernel(software)
    return (
        _with_uniform_loads(built, lanes)
        if lanes and _fits_uniform_loads(built)
        else built
    )


def _fits_uniform_loads(kernel: LoweredKernel) -> bool:
    """Whether every operand fits uniform vector loads, and they are worth it."""
    program, words = kernel.program, dict(kernel.words)
    assert isinstance(program, Program)
    moved = [access for access in program.accesses if access.kind != "scalar"]
    dtypes = [access.dtype for access in moved]
    dtypes += [output.dtype for output in program.outputs]
    size = sum(field_size(kind) for _, kind in push_fields(program))
    return (
        4 * words["quads"] >= MIN_UNIFORM_LOAD_ELEMENTS
        and all(access.kind == "linear" for access in moved)
        and all(DTYPES[dtype].itemsize == 4 for dtype in dtypes)
        and size + DIGIT_BYTES <= MAX_PUSH
    )


def _with_uniform_loads(kernel: LoweredKernel, lanes: int) -> LoweredKernel:
    vec4s = int(dict(kernel.words)["quads"])
    return kernel._replace(
        grid=fold_grid(ceil_div(vec4s, lanes * BLOCK_ROUNDS)),
        words=[*kernel.words, *DIGIT_WORDS],
        workgroup=lanes,
        rounds=BLOCK_ROUNDS,
        lanes=lanes,
    )


class KernelOperands:
    """Kernel operands: lowers nodes to instructions and their references.

    Attributes
    ----------
    operands : dict
        Operands loaded from memory, in order, by value and layout.
    made : dict of int to int
        The instruction that makes a value, by `id`.
    scalars, scalar_types : list
        Run-time scalars: their sources, and their GLSL types.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        inside = {id(node.outputs[0]) for node in nodes}
        self.operands: dict[tuple[int, Layout], Operand] = {
            (id(operand.value), operand.layout): operand
            for node in nodes
            for operand in node.inputs
            if id(operand.value) not in inside
        }
        self.made: dict[int, int] = {}
        self.scalars: list[tuple[int, int]] = []
        self.scalar_types: list[str] = []

    def draw(self, node: Node, kind: str, dtype: str, first: int) -> Reference:
        """Return a reference to a draw from the random stream, or to an index."""
        raise NotImplementedError

    def instruction(self, k: int, node: Node) -> Instruction:
        """Return the instruction of element-wise node number `k`."""
        params = dict(node.params)
        compute = params["compute"]
        assert isinstance(compute, DType)
        if node.op.source is not None:
            return self._drawn(k, node)
        assert node.op.glsl is not None
        tensors = dict(zip(node.op.tensor_names(node.params), node.inputs))
        scalars = {name: at for at, (name, _) in enumerate(node.scalars)}
        arguments = []
        for name in node.op.operands:
            if name in tensors:
                arguments.append(self.reference(tensors[name]))
            else:
                kind = "uint" if compute.glsl == "bool" else compute.glsl
                arguments.append(self._scalar(k, scalars[name], kind))
        result, glsl = node.outputs[0].dtype, node.op.glsl
        return Instruction(
            _narrowed(glsl) if result.itemsize == 2 else glsl,
            node.op.operands,
            (compute.name,) * len(arguments),
            tuple(arguments),
            result.name,
        )

    def _drawn(self, k: int, node: Node) -> Instruction:
        """Add a source without memory, and the op's expression over it."""
        op, compute = node.op, dict(node.params)["compute"]
        assert isinstance(op.source, tuple)
        assert isinstance(compute, DType)
        kind, dtype = op.source
        words = 0 if kind == "index" else 4
        stream = [self._scalar(k, at, "uint") for at in range(words)]
        first = stream[0].number if stream else -1
        numbers = [
            self._scalar(k, at, compute.glsl) for at in range(words, len(node.scalars))
        ]
        made = compute.name if kind == "index" else dtype.name
        return Instruction(
            op.glsl or "",
            op.operands,
            (made, *[compute.name] * len(numbers)),
            (self.draw(node, kind, dtype.name, first), *numbers),
            node.outputs[0].dtype.name,
        )

    def reference(self, operand: Operand) -> Reference:
        """Return the reference of an operand: an access or an instruction."""
        if id(operand.value) in self.made:
            return Reference("op", self.made[id(operand.value)])
        key = (id(operand.value), operand.layout)
        return Reference("in", list(self.operands).index(key))

    def _scalar(self, k: int, at: int, kind: str) -> Reference:
        self.scalars.append((k, at))
        self.scalar_types.append(kind)
        return Reference("scalar", len(self.scalars) - 1)


class _ElementwiseLowering(KernelOperands):
    def __init__(
        self, nodes: Sequence[Node], live_out: set[int], product: Value | None
    ) -> None:
        super().__init__(nodes)
        self.product = product
        self.nodes = nodes
        self.live_out = live_out
        self.layout = nodes[0].layouts[0]
        self.patterns: dict[tuple[Pattern, tuple[int, ...], int], int] = {}
        self.inputs: list[tuple[str, Value, int]] = []

    def kernel(self, software: bool) -> LoweredKernel:
        self.made = {id(node.outputs[0]): k for k, node in enumerate(self.nodes)}
        self.accesses = self._accesses()
        instructions = [self.instruction(k, node) for k, node in enumerate(self.nodes)]
        outputs = [
            (k, node.outputs[0])
            for k, node in enumerate(self.nodes)
            if id(node.outputs[0]) in self.live_out
        ]
        program = Program(
            rank=len(self.sizes),
            whole_quads=self.whole_quads or not self.patterns,
            patterns=tuple(pattern for pattern, _, _ in self.patterns),
            accesses=tuple(self.accesses),
            scalars=tuple(self.scalar_types),
            instructions=tuple(instructions),
            outputs=tuple(Output(k, value.dtype.name) for k, value in outputs),
        )
        workgroup = SOFTWARE_WORKGROUP if software else WORKGROUP
        rounds = SOFTWARE_ROUNDS if software else 1
        return LoweredKernel(
            name="_".join(node.op.name for node in self.nodes)[:80],
            program=program,
            grid=linear_grid(ceil_div(self.layout.numel, 4 * rounds), workgroup),
            inputs=self.inputs,
            outputs=[(f"out{k}", value) for k, (_, value) in enumerate(outputs)],
            words=self._words(),
            scalars=self.scalars,
            workgroup=workgroup,
            rounds=rounds,
        )

    def draw(self, node: Node, kind: str, dtype: str, first: int) -> Reference:
        self.accesses.append(Access(kind, dtype, first))
        return Reference("in", len(self.accesses) - 1)

    def _accesses(self) -> list[Access]:
        """Choose each operand's access, collapsing dimensions over all of them."""
        walked = {
            key: operand
            for key, operand in self.operands.items()
            if not is_linear(operand.layout) and not is_scalar(operand)
        }
        self.sizes, strides = collapse(
            self.layout.shape, [operand.layout.strides for operand in walked.values()]
        )
        self.whole_quads = self.sizes[-1] % 4 == 0
        walks = dict(zip(walked, strides))
        accesses = []
        for k, (key, operand) in enumerate(self.operands.items()):
            if operand.value is self.product:
                accesses.append(Access("product", operand.value.dtype.name))
                continue
            access, offset = self._access(operand, walks.get(key))
            accesses.append(access)
            size = operand.value.dtype.itemsize
            self.inputs.append((f"in{k}", operand.value, offset * size))
        return accesses

    def _access(
        self, operand: Operand, strides: tuple[int, ...] | None
    ) -> tuple[Access, int]:
        """Return the access, and the start offset that goes into the address."""
        dtype, start = operand.value.dtype, operand.layout.offset
        if strides is None:
            kind = "linear" if is_linear(operand.layout) else "scalar"
            return Access(kind, dtype.name), start
        kind = self._kind(strides, start)
        # An address counts bytes of whole words, so a narrow element needs an offset
        # inside the kernel.
        pushed = 0 if dtype.itemsize >= 4 or kind == "row" else start
        pattern = Pattern(
            tuple(str(step) if step in (0, 1) else "s" for step in strides), pushed > 0
        )
        index = self.patterns.setdefault((pattern, strides, pushed), len(self.patterns))
        return Access(kind, dtype.name, index), start - pushed

    def _kind(self, strides: tuple[int, ...], start: int) -> str:
        if not self.whole_quads:
            return "gather"
        if strides[-1] == 0:
            return "splat"
        outer = (*strides[:-1], start)
        if strides[-1] == 1 and all(step % 4 == 0 for step in outer):
            return "row"
        return "gather"

    def _words(self) -> list[tuple[str, float]]:
        words: list[tuple[str, float]] = [("quads", ceil_div(self.layout.numel, 4))]
        if not self.patterns:
            return words
        if not self.whole_quads:
            words.append(("last", self.layout.numel - 1))
        words += size_words("", self.sizes)
        for k, (pattern, strides, start) in enumerate(self.patterns):
            if pattern.offset:
                words.append((f"p{k}_offset", start))
            words += [
                (f"p{k}_{dim}", stride)
                for dim, (step, stride) in enumerate(zip(pattern.steps, strides))
                if step == "s"
            ]
        return words


def is_linear(layout: Layout) -> bool:
    """Whether aligned vectors of four elements are contiguous."""
    return layout.is_contiguous and layout.offset % 4 == 0


def is_scalar(operand: Operand) -> bool:
    """Whether every element is the same one, at an address of whole words."""
    layout, size = operand.layout, operand.value.dtype.itemsize
    broadcast = all(s == 0 or n == 1 for s, n in zip(layout.strides, layout.shape))
    return broadcast and layout.offset * size % 4 == 0


def size_words(side: str, sizes: tuple[int, ...]) -> list[tuple[str, float]]:
    """Return the arguments that split a linear index into coordinates."""
    words: list[tuple[str, float]] = []
    for dim, size in enumerate(sizes[1:], start=1):
        magic, shift = divisor(size)
        words.append((f"{side}size{dim}", size))
        words += [(f"{side}magic{dim}", magic), (f"{side}shift{dim}", shift)]
    return words
