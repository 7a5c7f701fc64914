"""From the nodes of one kernel to its program and its run-time words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..dispatch import Grid, divisor, linear_grid
from ..dtype import DType
from ..shape import Layout, ceil_div, collapse
from .expr import (
    Access,
    Instruction,
    Output,
    Pattern,
    Program,
    Reference,
)

if TYPE_CHECKING:
    from ..graph import Node, Operand, Value

WORKGROUP = 256
"""Invocations per workgroup of a fused kernel."""


class FusedKernel(NamedTuple):
    """A program, and where its arguments come from.

    Attributes
    ----------
    name : str
        The ops joined by "_", for people.
    program : Program
        What decides the GLSL.
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
    """

    name: str
    program: Program
    grid: Grid
    inputs: list[tuple[str, Value, int]]
    outputs: list[tuple[str, Value]]
    words: list[tuple[str, int]]
    scalars: list[tuple[int, int]]


def build_kernel(nodes: Sequence[Node], wanted: set[int]) -> FusedKernel:
    """Return the kernel that runs `nodes` and writes the values in `wanted`.

    Parameters
    ----------
    nodes : sequence of Node
        Element-wise nodes of one shape, in order.
    wanted : set of int
        `id` of each value that must reach memory.
    """
    return _Build(nodes, wanted).kernel()


class _Build:
    def __init__(self, nodes: Sequence[Node], wanted: set[int]) -> None:
        self.nodes = nodes
        self.wanted = wanted
        self.layout = nodes[0].layouts[0]
        self.operands: dict[tuple[int, Layout], Operand] = {}
        self.scalars: list[tuple[int, int]] = []
        self.scalar_types: list[str] = []
        self.patterns: dict[tuple[Pattern, tuple[int, ...], int], int] = {}
        self.inputs: list[tuple[str, Value, int]] = []

    def kernel(self) -> FusedKernel:
        made = {id(node.outputs[0]): k for k, node in enumerate(self.nodes)}
        for node in self.nodes:
            for operand in node.inputs:
                if id(operand.value) not in made:
                    key = (id(operand.value), operand.layout)
                    self.operands.setdefault(key, operand)
        accesses = self._accesses()
        instructions = []
        for k, node in enumerate(self.nodes):
            instructions.append(self._instruction(k, node, made, accesses))
        outputs = [
            (k, node.outputs[0])
            for k, node in enumerate(self.nodes)
            if id(node.outputs[0]) in self.wanted
        ]
        program = Program(
            rank=len(self.sizes),
            whole_quads=self.whole_quads,
            patterns=tuple(pattern for pattern, _, _ in self.patterns),
            accesses=tuple(accesses),
            scalars=tuple(self.scalar_types),
            instructions=tuple(instructions),
            outputs=tuple(Output(k, value.dtype.name) for k, value in outputs),
        )
        return FusedKernel(
            name="_".join(node.op.name for node in self.nodes)[:80],
            program=program,
            grid=linear_grid(ceil_div(self.layout.numel, 4), WORKGROUP),
            inputs=self.inputs,
            outputs=[(f"out{k}", value) for k, (_, value) in enumerate(outputs)],
            words=self._words(),
            scalars=self.scalars,
        )

    def _accesses(self) -> list[Access]:
        """Decide how each operand is read, collapsing dimensions over all of them."""
        walked = {
            key: operand
            for key, operand in self.operands.items()
            if not _is_linear(operand.layout) and not _is_scalar(operand)
        }
        self.sizes, strides = collapse(
            self.layout.shape, [operand.layout.strides for operand in walked.values()]
        )
        self.whole_quads = self.sizes[-1] % 4 == 0
        walks = dict(zip(walked, strides))
        accesses = []
        for k, (key, operand) in enumerate(self.operands.items()):
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
            kind = "linear" if _is_linear(operand.layout) else "scalar"
            return Access(kind, dtype.name), start
        kind = self._kind(strides, start)
        # An address counts bytes of whole words, so a narrow element is reached by
        # an offset inside the kernel.
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

    def _instruction(
        self, k: int, node: Node, made: dict[int, int], accesses: list[Access]
    ) -> Instruction:
        params = dict(node.params)
        compute = params["compute"]
        assert isinstance(compute, DType)
        if node.op.source is not None:
            return self._made(k, node, accesses)
        assert node.op.glsl is not None
        tensors = dict(zip(node.op.tensor_names(node.params), node.inputs))
        scalars = {name: at for at, (name, _) in enumerate(node.scalars)}
        arguments = []
        for name in node.op.operands:
            if name in tensors:
                arguments.append(self._reference(tensors[name], made))
            else:
                kind = "uint" if compute.glsl == "bool" else compute.glsl
                arguments.append(self._scalar(k, scalars[name], kind))
        return Instruction(
            node.op.glsl,
            node.op.operands,
            (compute.name,) * len(arguments),
            tuple(arguments),
            node.outputs[0].dtype.name,
        )

    def _made(self, k: int, node: Node, accesses: list[Access]) -> Instruction:
        """Add a source that reads no memory, and the op's expression over it."""
        op, compute = node.op, dict(node.params)["compute"]
        assert isinstance(op.source, tuple)
        assert isinstance(compute, DType)
        kind, dtype = op.source
        words = 0 if kind == "index" else 4
        stream = [self._scalar(k, at, "uint") for at in range(words)]
        first = stream[0].number if stream else -1
        accesses.append(Access(kind, dtype.name, first))
        numbers = [
            self._scalar(k, at, compute.glsl) for at in range(words, len(node.scalars))
        ]
        made = compute.name if kind == "index" else dtype.name
        return Instruction(
            op.glsl or "",
            op.operands,
            (made, *[compute.name] * len(numbers)),
            (Reference("in", len(accesses) - 1), *numbers),
            node.outputs[0].dtype.name,
        )

    def _reference(self, operand: Operand, made: dict[int, int]) -> Reference:
        if id(operand.value) in made:
            return Reference("op", made[id(operand.value)])
        key = (id(operand.value), operand.layout)
        return Reference("in", list(self.operands).index(key))

    def _scalar(self, k: int, at: int, kind: str) -> Reference:
        self.scalars.append((k, at))
        self.scalar_types.append(kind)
        return Reference("scalar", len(self.scalars) - 1)

    def _words(self) -> list[tuple[str, int]]:
        words = [("quads", ceil_div(self.layout.numel, 4))]
        if not self.patterns:
            return words
        if not self.whole_quads:
            words.append(("last", self.layout.numel - 1))
        for dim, size in enumerate(self.sizes[1:], start=1):
            magic, shift = divisor(size)
            words += [
                (f"size{dim}", size),
                (f"magic{dim}", magic),
                (f"shift{dim}", shift),
            ]
        for k, (pattern, strides, start) in enumerate(self.patterns):
            if pattern.offset:
                words.append((f"p{k}_offset", start))
            words += [
                (f"p{k}_{dim}", stride)
                for dim, (step, stride) in enumerate(zip(pattern.steps, strides))
                if step == "s"
            ]
        return words


def _is_linear(layout: Layout) -> bool:
    """Whether aligned groups of four elements can be read in order."""
    return layout.is_contiguous and layout.offset % 4 == 0


def _is_scalar(operand: Operand) -> bool:
    """Whether every element is the same one, at an address of whole words."""
    layout, size = operand.layout, operand.value.dtype.itemsize
    broadcast = all(s == 0 or n == 1 for s, n in zip(layout.strides, layout.shape))
    return broadcast and layout.offset * size % 4 == 0
