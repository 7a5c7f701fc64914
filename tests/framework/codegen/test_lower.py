"""From nodes to programs, with no device; then random programs against op by op."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vkbackend
import vkbackend.framework as fw
from tests.compare import TOLERANCES
from tests.framework.codegen.graphs import apply, memory, result
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import bool_, float16, float32, int8, uint8
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.codegen.ir.program import Access, Pattern, Reference
from vkbackend.framework.codegen.lower import LoweredKernel, build_kernel
from vkbackend.framework.ir.lazy_graph import Node, Operand


def kernel(*nodes: Node, wanted: int = 1) -> LoweredKernel:
    """Return the kernel of nodes of which the last ones' values are wanted."""
    return build_kernel(nodes, {id(node.outputs[0]) for node in nodes[-wanted:]})


def test_chain() -> None:
    x, w = memory((7, 11)), memory((7, 11))
    product = apply("mul", x, w)
    total = apply("add", result(product), 2.5)
    built = kernel(product, total, apply("relu", result(total)))
    assert built.name == "mul_add_relu"
    assert built.program.column_rank == 1
    assert built.program.accesses == (Access("linear", "float32"),) * 2
    assert built.program.scalars == ("float",)
    assert [step.arguments for step in built.program.instructions] == [
        (Reference("in", 0), Reference("in", 1)),
        (Reference("op", 0), Reference("scalar", 0)),
        (Reference("op", 1),),
    ]
    assert [output.instruction for output in built.program.outputs] == [2]
    assert [(name, value) for name, value, _ in built.inputs] == [
        ("in0", x.value),
        ("in1", w.value),
    ]
    assert built.words == [("quads", 20)]
    assert built.scalars == [(1, 0)]
    assert built.grid == (1, 1, 1)


def test_software_devices_take_more_at_once() -> None:
    node = apply("neg", memory((1000, 1000)))
    one, other = (
        build_kernel([node], {id(node.outputs[0])}, software)
        for software in (False, True)
    )
    assert (one.grid, one.workgroup) == ((977, 1, 1), 256)
    assert (other.grid, other.workgroup) == ((977, 1, 1), 64)
    assert (one.program.rounds, other.program.rounds) == (1, 4)
    assert one.program == other.program._replace(rounds=1)


def test_one_operand_is_read_once() -> None:
    x = memory((8,))
    square = apply("mul", x, x)
    built = kernel(square, apply("add", result(square), x))
    assert len(built.program.accesses) == 1


def test_several_outputs() -> None:
    first = apply("exp", memory((8,)))
    second = apply("neg", result(first))
    built = kernel(first, second, wanted=2)
    assert [output.instruction for output in built.program.outputs] == [0, 1]
    assert [value for _, value in built.outputs] == [
        first.outputs[0],
        second.outputs[0],
    ]


@pytest.mark.parametrize(
    ("layout", "dtype", "access", "pattern", "offset"),
    [
        (Layout((8, 12), (12, 1)), float32, "linear", None, 0),
        (Layout((8, 12), (12, 1), 8), float32, "linear", None, 32),
        (Layout((8, 12), (0, 0), 3), float32, "scalar", None, 12),
        (Layout((8, 12), (0, 1)), float32, "vec4", (("0", "1"), False), 0),
        (Layout((8, 12), (20, 1), 4), float32, "vec4", (("s", "1"), False), 16),
        (Layout((8, 12), (1, 0)), float32, "splat", (("1", "0"), False), 0),
        (Layout((8, 12), (1, 8)), float32, "gather", (("1", "s"), False), 0),
        # Rows that start between groups of four.
        (Layout((8, 12), (13, 1)), float32, "gather", (("s", "1"), False), 0),
        (Layout((8, 12), (12, 1), 2), float32, "gather", (("1",), False), 8),
        (Layout((7, 11), (0, 1)), float32, "gather", (("0", "1"), False), 0),
        # Addresses are of whole words, so the start of narrow elements is pushed.
        (Layout((8, 12), (12, 1), 3), uint8, "gather", (("1",), True), 0),
        (Layout((8, 12), (12, 1), 8), uint8, "linear", None, 8),
        (Layout((8, 12), (0, 0), 3), uint8, "splat", (("0",), True), 0),
        (Layout((8, 12), (20, 1), 4), float16, "vec4", (("s", "1"), False), 8),
    ],
)
def test_how_an_operand_is_read(
    layout: Layout, dtype: Any, access: str, pattern: Any, offset: int
) -> None:
    built = kernel(apply("copy", memory((), dtype, layout)))
    (found,) = built.program.accesses
    assert (found.kind, found.dtype) == (access, dtype.name)
    wanted = () if pattern is None else (Pattern((), *pattern),)
    assert built.program.patterns == wanted
    assert built.inputs[0][2] == offset


def test_dimensions_are_merged_over_all_operands() -> None:
    x, row = memory((3, 5, 7)), memory((7,))
    assert kernel(apply("add", x, memory((3, 5, 7)))).program.column_rank == 1
    built = kernel(apply("add", x, row))
    assert built.program.column_rank == 2
    words = dict(built.words)
    assert (words["quads"], words["last"], words["size1"]) == (27, 104, 7)


def test_numbers_take_the_type_that_is_computed_in() -> None:
    node = apply("where", memory((8,), bool_), 1, 0, compute=int8)
    assert kernel(node).program.scalars == ("int", "int")
    node = apply("eq", memory((8,), bool_), True, result=bool_)
    assert kernel(node).program.scalars == ("uint",)


def test_sizes_are_no_part_of_the_program() -> None:
    programs = {
        kernel(apply("add", memory((rows, 8)), memory((8,)))).program
        for rows in (2, 3, 1000)
    }
    assert len(programs) == 1


def test_a_view_of_one_value_is_another_operand() -> None:
    x = memory((8, 8))
    flipped = Operand(x.value, x.layout.permute((1, 0)))
    built = kernel(apply("add", x, flipped))
    assert [access.kind for access in built.program.accesses] == ["linear", "gather"]


# Random programs, run fused and op by op.

UNARY = ("neg", "abs", "exp", "relu", "sigmoid", "tanh", "sign")
BINARY = ("add", "sub", "mul", "maximum", "minimum")
SHAPES = ((3, 5), (4, 8), (1, 5), (3, 1), (4, 1), (1, 8), (1, 1))
SMOOTH = tuple(name for name in UNARY if name != "sign")


class Builder:
    """Applies drawn steps to a growing list of tensors."""

    def __init__(self, leaves: list[fw.Tensor], flush: bool) -> None:
        self.tensors = list(leaves)
        self.flush = flush

    def step(
        self, kind: str, name: str, first: int, second: int, number: float
    ) -> None:
        """Add the result of one step; what does not fit is left out."""
        x = self.tensors[first % len(self.tensors)]
        y = self.tensors[second % len(self.tensors)]
        if kind == "unary":
            made = getattr(ops, name)(x)
        elif kind == "number":
            made = getattr(ops, name)(x, number)
        elif kind == "view":
            made = {0: x.T, 1: x[::2], 2: x[:, 1:], 3: x[:1].expand(x.shape)}[
                second % 4
            ]
        elif kind == "where":
            made = ops.where(x > number, x, number)
        elif kind == "drop":
            if len(self.tensors) > 4:
                del self.tensors[first % len(self.tensors)]
            return
        else:
            try:
                made = getattr(ops, name)(x, y)
            except ShapeError:
                return
        if made.numel():
            # Keeps the numbers of long programs in range.
            self.tensors.append(made.tanh() if kind == "pair" else made)
        if self.flush:
            fw.eval()


KINDS = {
    "unary": UNARY,
    "number": ("add", "sub", "mul"),
    "pair": BINARY,
    "view": ("",),
    "where": ("",),
    "drop": ("",),
}


@st.composite
def steps(draw: st.DrawFn) -> tuple[str, str, int, int, float]:
    kind = draw(st.sampled_from(["unary", "number", "pair", "pair", "view", *KINDS]))
    return (
        kind,
        draw(st.sampled_from(KINDS[kind])),
        draw(st.integers(0, 30)),
        draw(st.integers(0, 30)),
        draw(st.sampled_from([-0.5, 0.25, 1.5])),
    )


def leaves(shapes: list[tuple[int, int]], gpu: GpuDevice) -> list[fw.Tensor]:
    rng = np.random.default_rng(0)
    return [
        fw.tensor(rng.uniform(-1, 1, shape).astype(np.float32), device=gpu)
        for shape in shapes
    ]


def values(
    shapes: list[tuple[int, int]],
    program: list[tuple[str, str, int, int, float]],
    gpu: GpuDevice,
    flush: bool,
) -> list[np.ndarray]:
    """Return every result that is still held at the end, then the leaves' gradients."""
    inputs = [leaf.requires_grad_() for leaf in leaves(shapes, gpu)]
    builder = Builder(inputs, flush)
    for each in program:
        builder.step(*each)
    results = builder.tensors
    found = [tensor.detach().numpy() for tensor in results] if flush else []
    total = sum((tensor * tensor).sum() for tensor in results)
    total.backward()
    if not flush:
        fw.eval()
        found = [tensor.detach().numpy() for tensor in results]
    return found + [leaf.grad.numpy() for leaf in inputs if leaf.grad is not None]


@pytest.mark.core
@settings(max_examples=5)
@given(
    st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3),
    st.lists(steps(), min_size=1, max_size=12),
)
def test_fused_is_unfused(
    device: vkbackend.Device,
    shapes: list[tuple[int, int]],
    program: list[tuple[str, str, int, int, float]],
) -> None:
    gpu = fw.device(device.name)
    assert isinstance(gpu, GpuDevice)
    fused = values(shapes, program, gpu, flush=False)
    unfused = values(shapes, program, gpu, flush=True)
    within = TOLERANCES["float32"]
    for one, other in zip(fused, unfused, strict=True):
        # A fused multiplication and addition may round once instead of twice.
        np.testing.assert_allclose(one, other, within.relative * 8, within.absolute * 8)


@pytest.mark.core
@pytest.mark.parametrize(
    "dtype", ["float16", "int8", "uint8", "int16", "uint16", "bool"]
)
def test_narrow_values_are_the_same_in_registers(dtype: str, gpu: GpuDevice) -> None:
    data = np.arange(-64, 64).astype(dtype)
    x = fw.tensor(data, device=gpu)
    if dtype == "bool":
        found = ops.where(x, x != x.float(), x == x).float()
        expected = np.where(data, data != data, True).astype(np.float32)
    else:
        scale = 1000 if dtype == "float16" else 3
        found = ((x * scale) * scale + x).float() * 0.5
        with np.errstate(all="ignore"):
            wrapped = data * data.dtype.type(scale) * data.dtype.type(scale) + data
        expected = wrapped.astype(np.float32) * np.float32(0.5)
    np.testing.assert_array_equal(found.numpy(), expected)


def test_a_condition_of_bools_is_no_number() -> None:
    x = memory((4, 8))
    above = apply("gt", x, 0.5, result=bool_)
    steps = kernel(above, apply("where", result(above), x, 2.0)).program.instructions
    assert steps[1].types == ("bool", "float32", "float32")
    mask = memory((4, 8), bool_)
    given = apply("where", mask, x, 2.0, compute=float32)
    assert kernel(given).program.instructions[0].types[0] == "bool"
