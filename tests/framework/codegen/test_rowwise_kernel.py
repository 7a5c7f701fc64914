"""Reductions with the work around them: programs, tiles, and what kernels compute."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vkbackend
import vkbackend.framework as fw
from tests.compare import TOLERANCES
from tests.framework.codegen import rows
from tests.framework.codegen.graphs import apply, memory, result
from tests.framework.codegen.rows import (
    GPU,
    SOFTWARE,
    device_info,
    kernel,
    program,
    reduce,
)
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import float32, float64
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.codegen.ir.program import Access, Fold
from vkbackend.framework.codegen.ir.reductions import (
    ENOUGH_ROWS,
    MOST_COLUMNS,
    SMALL,
    RowSpace,
)
from vkbackend.framework.codegen.rowwise_kernel import (
    RowTile,
    build_rows,
    fuses_rows,
    row_space,
    row_tile,
)
from vkbackend.framework.scheduler import lowering_cache, plan


def test_softmax() -> None:
    built = kernel(rows.softmax(), GPU)
    assert built.name == "amax_sub_exp_sum_div"
    assert (built.grid, built.workgroup) == ((64, 1, 1), 128)
    assert built.words == [("rows", 64), ("columns", 256)]
    made = program(rows.softmax(), GPU)
    assert (made.group, made.rounds, made.exact, made.vec4) == (128, 2, True, True)
    assert made.accesses == (Access("linear", "float32"),)
    assert [isinstance(step, Fold) for step in made.instructions] == [
        True, False, False, True, False,
    ]  # fmt: skip
    per_row = [step.per_row for step in made.instructions]
    assert per_row == [True, False, False, True, False]


def test_exponentials_of_rows_are_those_of_elements() -> None:
    x = memory((64, 1024))
    greatest = reduce("amax", x)
    apart = apply("sub", x, rows.rows_of(greatest, (64, 1024)))
    steps = program([greatest, apart, apply("exp", result(apart))], GPU).instructions
    assert steps[-1].glsl == "precise_exp(x)"


def test_sizes_are_no_part_of_the_program() -> None:
    assert program(rows.softmax(64), GPU) == program(rows.softmax(100), GPU)
    long = [program(rows.softmax(64, columns), SOFTWARE) for columns in (8, 64, 1024)]
    assert len(set(long)) == 1


def test_how_operands_are_read() -> None:
    accesses = {
        access.kind: access for access in program(rows.normalised(), GPU).accesses
    }
    assert accesses["vec4"] == Access("vec4", "float32", 0)
    node = rows.odd()
    assert not program(node, GPU).vec4


def test_what_does_not_fit_into_registers_is_read_again() -> None:
    assert program(rows.softmax(64, 32768), GPU).rounds == 8
    assert program(rows.softmax(64, 32768, float64), GPU).rounds == 0


@pytest.mark.parametrize(
    ("gpu", "size", "tile"),
    [
        (GPU, (4096, 64), RowTile(16, 128, 1)),
        (GPU, (4096, 256), RowTile(32, 128, 2)),
        (GPU, (4096, 4096), RowTile(512, 512, 2)),
        (GPU, (4096, 8192), RowTile(512, 512, 4)),
        (GPU, (4096, 5000), RowTile(512, 512, 3)),
        (GPU, (4096, 16384), RowTile(512, 512, 8)),
        (GPU, (4096, 16388), RowTile(1024, 1024, 5)),
        (GPU, (4096, 40000), RowTile(1024, 1024, 0)),
        (GPU, (4096, 3), RowTile(1, 128, 1)),
        (SOFTWARE, (4096, 64), RowTile(1, 8, 0)),
        (SOFTWARE, (4, 4096), RowTile(8, 8, 0)),
    ],
)
def test_tiles(gpu: Any, size: tuple[int, int], tile: RowTile) -> None:
    assert row_tile(gpu, *size) == tile


@pytest.mark.parametrize(
    ("gpu", "shape", "fits"),
    [
        (GPU, (1, SMALL), True),
        (GPU, (1, SMALL + 4), False),
        (GPU, (ENOUGH_ROWS, MOST_COLUMNS), True),
        (GPU, (ENOUGH_ROWS, MOST_COLUMNS + 4), False),
        (SOFTWARE, (64, 8192), True),
        (SOFTWARE, (64, 8196), False),
        (SOFTWARE, (8, 8192), False),
    ],
)
def test_long_rows_need_company(gpu: Any, shape: tuple[int, int], fits: bool) -> None:
    space = row_space(reduce("sum", memory(shape)), gpu)
    assert space == (RowSpace(shape, 1 if shape[0] > 1 else 0) if fits else None)


def test_no_rows_where_compilers_are_slow() -> None:
    slow = device_info("software", 8, shader_int64=False)
    assert row_space(reduce("sum", memory((64, 64))), slow) is None


# What kernels compute.


def softmax(x: fw.Tensor) -> fw.Tensor:
    power = (x - x.amax(-1, keepdim=True)).exp()
    return power / power.sum(-1, keepdim=True)


def log_softmax(x: fw.Tensor) -> fw.Tensor:
    apart = x - x.amax(-1, keepdim=True)
    return apart - apart.exp().sum(-1, keepdim=True).log()


def layer_norm(x: fw.Tensor) -> fw.Tensor:
    apart = x - x.mean(-1, keepdim=True)
    variance = (apart * apart).mean(-1, keepdim=True)
    return apart * (variance + 1e-5).rsqrt() * x[0] + 1


def cross_entropy(x: fw.Tensor) -> fw.Tensor:
    return -(log_softmax(x) * (x > 0).to(x.dtype)).sum(-1)


def everything(x: fw.Tensor) -> fw.Tensor:
    return ((x * 2).mean() + 1) * x


def standard(x: fw.Tensor) -> fw.Tensor:
    return (x - x.mean(-1, keepdim=True)) / (ops.var(x, -1, keepdim=True) + 1).sqrt()


def product_first(x: fw.Tensor) -> fw.Tensor:
    return softmax(x * x)


PLAIN = (
    softmax,
    log_softmax,
    layer_norm,
    cross_entropy,
    everything,
    standard,
    product_first,
)
SIZES = ((40, 64), (3, 7), (40, 37), (5, 4, 6), (2, 1, 8), (1, 600), (100, 3))


@pytest.mark.core
@pytest.mark.parametrize("function", PLAIN)
@pytest.mark.parametrize("shape", SIZES)
def test_one_kernel_computes_what_the_host_does(
    function: Callable[[fw.Tensor], fw.Tensor], shape: tuple[int, ...], gpu: GpuDevice
) -> None:
    data = np.random.default_rng(1).uniform(-2, 2, shape).astype(np.float32)
    x = fw.tensor(data, device=gpu)
    fw.eval()
    before = gpu.gpu.counters.snapshot()
    found = function(x)
    fw.eval()
    if fuses_rows(gpu.gpu.info):
        assert (gpu.gpu.counters - before).dispatches == 1
    expected = function(fw.tensor(data, device="cpu")).numpy()
    within = TOLERANCES["float32"]
    scale = 4 * math.sqrt(shape[-1])
    np.testing.assert_allclose(
        found.numpy(), expected, within.relative * scale, within.absolute * scale
    )


def views(x: fw.Tensor) -> list[fw.Tensor]:
    """Return the same numbers, or some of them, in other arrangements."""
    cut = [x.T, x[::2], x[:, 1:], x[:, ::3]]
    return [*cut, x[1:2].expand(x.shape), x[:, :1].expand(x.shape)]


@pytest.mark.core
@pytest.mark.parametrize("which", range(6))
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_views_are_read_where_they_are(dtype: str, which: int, gpu: GpuDevice) -> None:
    data = np.random.default_rng(2).uniform(-2, 2, (36, 40)).astype(np.float32)
    x = fw.tensor(data, device=gpu).to(dtype)
    other = fw.tensor(data, device="cpu").to(dtype)
    found = softmax(views(x)[which]).float().numpy()
    expected = softmax(views(other)[which]).float().numpy()
    within = TOLERANCES[dtype]
    np.testing.assert_allclose(found, expected, within.relative * 8, within.absolute)


@pytest.mark.core
@pytest.mark.parametrize("shape", [(3, 40), (40, 12), (40, 7)])
@pytest.mark.parametrize(
    "dtype",
    [
        "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"
    ],
)  # fmt: skip
def test_whole_numbers(dtype: str, shape: tuple[int, int], gpu: GpuDevice) -> None:
    if dtype.endswith("64") and not gpu.gpu.info.shader_int64:
        pytest.skip("the device has no 64-bit integers")
    data = np.random.default_rng(3).integers(0, 100, shape).astype(dtype)
    x = fw.tensor(data, device=gpu)
    y = ops.where(x == x, x, x)
    sums, products = y.sum(-1) + 1, ops.prod(y, -1, keepdim=True) * 3
    with np.errstate(all="ignore"):
        wide = np.uint64 if dtype == "uint64" else np.int64
        if not gpu.gpu.info.shader_int64:
            wide = np.int32
        assert (sums.numpy() == data.sum(-1, dtype=wide) + 1).all()
        times = np.prod(data, -1, dtype=wide, keepdims=True) * wide(3)
        assert (products.numpy() == times).all()
    greatest, least = y.amax(-1, keepdim=True) == y, y.amin(-1, keepdim=True) == y
    assert (greatest.numpy() == (data == data.max(-1, keepdims=True))).all()
    assert (least.numpy() == (data == data.min(-1, keepdims=True))).all()


@pytest.mark.core
def test_float64(gpu: GpuDevice) -> None:
    if not gpu.gpu.info.shader_float64:
        pytest.skip("the device has no float64")
    data = np.random.default_rng(4).uniform(-1, 1, (33, 21))
    found = layer_norm(fw.tensor(data, device=gpu)).numpy()
    expected = layer_norm(fw.tensor(data, device="cpu")).numpy()
    np.testing.assert_allclose(found, expected, 1e-13, 1e-13)


@pytest.mark.core
@pytest.mark.parametrize("columns", [8, 7])
def test_infinities_and_nan(columns: int, gpu: GpuDevice) -> None:
    data = np.zeros((6, columns), np.float32)
    data[1, 3], data[2, 3], data[3, 3] = np.nan, np.inf, -np.inf
    data[4], data[5] = -np.inf, np.inf
    for name in ("amax", "amin", "sum", "mean"):
        found = getattr(fw.tensor(data, device=gpu) * 1, name)(-1) * 1
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(found.numpy(), getattr(np, name)(data, -1))
    with np.errstate(all="ignore"):
        apart = np.exp(data - data.max(-1, keepdims=True))
        expected = apart / apart.sum(-1, keepdims=True)
    np.testing.assert_allclose(
        softmax(fw.tensor(data, device=gpu)).numpy(), expected, 1e-6
    )


@pytest.mark.core
@pytest.mark.device
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_exponentials_are_the_same_in_one_kernel_and_in_two(
    dtype: str, gpu: GpuDevice
) -> None:
    rng = np.random.default_rng(4)
    data = (rng.standard_normal((70, 48)) * np.logspace(-3, 3, 48)).astype(dtype)
    data[3, 5], data[4, 6], data[5, 7] = np.nan, np.inf, -np.inf
    data[6] = -np.inf
    data[7] = 40 - np.arange(48) * 2.3
    x = fw.tensor(data, device=gpu)
    fused = (x - x.amax(1, keepdim=True)).exp()
    greatest = x.amax(1, keepdim=True)
    fw.eval(greatest)
    apart = x - greatest
    fw.eval(apart)
    np.testing.assert_array_equal(fused.numpy(), apart.exp().numpy())


def test_an_element_equals_its_greatest_one(gpu: GpuDevice) -> None:
    # Whether it was computed once or in each pass: x * y + z, not contracted.
    rng = np.random.default_rng(5)
    parts = [rng.uniform(-1, 1, (50, 33)).astype(np.float32) for _ in range(3)]
    x, y, z = (fw.tensor(part, device=gpu) for part in parts)
    found = x * y + z
    chosen = (found == found.amax(-1, keepdim=True)).int().sum(-1)
    assert (chosen.numpy() == 1).all()


@pytest.mark.core
def test_random_numbers_are_those_of_the_elements(gpu: GpuDevice) -> None:
    for columns in (8, 7):
        x = fw.ones((40, columns), device=gpu)
        fw.manual_seed(8)
        apart = ops.dropout(x, 0.5)
        fw.eval()
        fw.manual_seed(8)
        together = ops.dropout(x, 0.5)
        total = together.sum(-1)
        np.testing.assert_array_equal(total.numpy(), apart.numpy().sum(-1))
        np.testing.assert_array_equal(together.numpy(), apart.numpy())


# Random programs, run fused and op by op.

UNARY = ("neg", "exp", "relu", "tanh")
BINARY = ("add", "sub", "mul", "maximum")
REDUCED = ("sum", "mean", "amax", "amin", "var", "logsumexp")
SHAPES = ((3, 5), (40, 8), (1, 5), (3, 1), (40, 1), (2, 3, 4))


class Builder:
    """Applies drawn steps to a growing list of tensors."""

    def __init__(self, leaves: list[fw.Tensor], flush: bool) -> None:
        self.tensors = list(leaves)
        self.flush = flush

    def step(self, kind: str, name: str, first: int, second: int) -> None:
        """Add the result of one step; what does not fit is left out."""
        x = self.tensors[first % len(self.tensors)]
        if kind == "unary":
            made = getattr(ops, name)(x)
        elif kind == "turn":
            made = x.transpose(-1, -2)
        elif kind == "drop":
            if len(self.tensors) > 3:
                del self.tensors[first % len(self.tensors)]
            return
        elif kind == "reduce":
            dims = ((-1,), (-1,), (-2, -1), (0,))[second % 4]
            keywords = {"correction": 0} if name == "var" else {}
            function = getattr(ops, name)
            made = function(x, dims, keepdim=second % 3 > 0, **keywords)
        else:
            try:
                made = getattr(ops, name)(x, self.tensors[second % len(self.tensors)])
            except ShapeError:
                return
        # Keeps the numbers of long programs in range.
        self.tensors.append(made if made.ndim > 1 else made.reshape((1, -1)))
        if kind in ("pair", "reduce"):
            self.tensors[-1] = self.tensors[-1].tanh()
        if self.flush:
            fw.eval()


KINDS = {
    "unary": UNARY, "pair": BINARY, "reduce": REDUCED, "turn": ("",), "drop": ("",)
}  # fmt: skip


@st.composite
def steps(draw: st.DrawFn) -> tuple[str, str, int, int]:
    kind = draw(st.sampled_from(["pair", "pair", "reduce", "reduce", *KINDS]))
    name = draw(st.sampled_from(KINDS[kind]))
    return kind, name, draw(st.integers(0, 30)), draw(st.integers(0, 30))


def values(
    shapes: list[tuple[int, ...]],
    drawn: list[tuple[str, str, int, int]],
    gpu: GpuDevice,
    flush: bool,
) -> list[np.ndarray]:
    """Return every result that is still held at the end, then the leaves' gradients."""
    rng = np.random.default_rng(0)
    data = [rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
    inputs = [fw.tensor(each, device=gpu, requires_grad=True) for each in data]
    builder = Builder(inputs, flush)
    for each in drawn:
        builder.step(*each)
    results = builder.tensors
    total: Any = sum((tensor * tensor).mean() for tensor in results)
    if flush:
        fw.eval()
    total.backward()
    fw.eval()
    grads = [leaf.grad for leaf in inputs if leaf.grad is not None]
    return [tensor.detach().numpy() for tensor in (*results, *grads)]


@pytest.mark.core
@settings(max_examples=5)
@given(
    st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3),
    st.lists(steps(), min_size=1, max_size=12),
)
def test_fused_is_unfused(
    device: vkbackend.Device,
    shapes: list[tuple[int, ...]],
    drawn: list[tuple[str, str, int, int]],
) -> None:
    gpu = fw.device(device.name)
    assert isinstance(gpu, GpuDevice)
    fused = values(shapes, drawn, gpu, flush=False)
    unfused = values(shapes, drawn, gpu, flush=True)
    within = TOLERANCES[float32.name]
    for one, other in zip(fused, unfused, strict=True):
        # Sums are taken in another order.
        np.testing.assert_allclose(
            one, other, within.relative * 32, within.absolute * 32
        )


def test_a_layout_of_rows_and_columns() -> None:
    layout = Layout((5, 3, 7), (84, 28, 2), 3)
    node = reduce("sum", memory((), float32, layout))
    made = program([node, rows.apply("neg", rows.result(node))], GPU)
    assert made.patterns[0].rows == ("s",)
    assert made.patterns[0].columns == ("s",)
    assert dict(kernel([node], GPU).words)["p0_row0"] == 28


def like_gpu(gpu: GpuDevice, shuffling: bool) -> vkbackend.DeviceInfo:
    """Return what a device says of itself, but that it is no software one."""
    info = gpu.gpu.info
    return dataclasses.replace(
        info,
        kind="discrete",
        min_subgroup_size=info.subgroup_size,
        max_subgroup_size=info.subgroup_size,
        subgroup_shuffle=shuffling and info.subgroup_shuffle,
        max_workgroup_invocations=64,
    )


@pytest.mark.core
@pytest.mark.parametrize("shuffling", [False, True])
@pytest.mark.parametrize("shape", [(40, 64), (3, 7), (70, 130), (9, 601), (3, 5000)])
def test_kernels_of_gpus(
    shape: tuple[int, int],
    shuffling: bool,
    gpu: GpuDevice,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not fuses_rows(gpu.gpu.info):
        pytest.skip("the device has no kernels over rows")
    info = like_gpu(gpu, shuffling)
    rules = (
        (lowering_cache, "build_chosen_rows", build_rows),
        (plan, "row_space", row_space),
    )
    for module, name, function in rules:
        changed = functools.partial(_with_info, function, info)
        monkeypatch.setattr(module, name, changed)
    gpu.plans.clear()
    data = np.random.default_rng(6).uniform(-2, 2, shape).astype(np.float32)
    x, other = fw.tensor(data, device=gpu), fw.tensor(data, device="cpu")
    within = TOLERANCES["float32"]
    scale = 4 * math.sqrt(shape[-1])
    for function in PLAIN:
        found, expected = function(x).numpy(), function(other).numpy()
        relative, absolute = within.relative * scale, within.absolute * scale
        np.testing.assert_allclose(found, expected, relative, absolute)
    gpu.plans.clear()


def _with_info(
    function: Callable[..., Any], info: Any, *arguments: Any, lanes: int = 0
) -> Any:
    return function(*arguments[:-1], info)


def test_zeros_of_both_signs_have_one_greatest_and_one_least(gpu: GpuDevice) -> None:
    for shape in ((70, 48), (3, 512), (300, 512), (5, 7)):
        data = np.zeros(shape, np.float32)
        data[:, 1::2] = -0.0
        x = fw.tensor(data, device=gpu)
        for greatest, negative in ((x.amax(-1, True), False), (x.amin(-1, True), True)):
            fused = fw.copysign(fw.ones_like(x), x * 0 + greatest * 1)
            assert (np.signbit(greatest.numpy()) == negative).all()
            apart = fw.copysign(fw.ones_like(x), x * 0 + greatest * 1)
            np.testing.assert_array_equal(fused.numpy(), apart.numpy())
