"""Element-wise work in the kernel of a matrix product: when, and with what result."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.kernels.conv.test_implicit_gemm import emulated_products
from tests.framework.kernels.gemm.test_pack import emulate
from tests.framework.ops.large import as_discrete, change_costs, change_model
from tests.hardware import skip_where_it_crashes
from vkbackend import DeviceInfo
from vkbackend.framework import nn
from vkbackend.framework.autotune import autotune
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import DTYPES
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.codegen import epilogue_fusion
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.ir.kernel_call import Dispatch, StridedSpec
from vkbackend.framework.kernels import tensor_cores
from vkbackend.framework.kernels.gemm import candidates, select, small
from vkbackend.framework.kernels.gemm.gemv import skinny_gemm
from vkbackend.framework.scheduler.plan import built_plans
from vkbackend.framework.scheduler.scheduler import unfused

Function = Callable[..., Any]
Shapes = tuple[tuple[int, ...], ...]


@pytest.fixture(params=["gemm_tiled", "gemm_simt"])
def kernel(
    request: pytest.FixtureRequest, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Let products run on kernels for GPUs; software devices have their own."""
    skip_where_it_crashes(gpu.gpu.info)
    monkeypatch.setattr(small, "uses_subgroup_tiles", lambda _: False)

    def large(info: DeviceInfo, *rest: Any) -> list[Dispatch] | None:
        if request.param == "gemm_tiled":
            return None
        discrete = dataclasses.replace(info, kind="discrete")
        return select.large_tile_gemm(discrete, *rest)

    monkeypatch.setattr(candidates, "large_tile_gemm", large)
    change_costs(monkeypatch, smallest=1, packed_smallest=1)
    gpu.plans.clear()
    yield f"matmul/{request.param}"
    gpu.plans.clear()


def counted(gpu: GpuDevice, function: Function, operands: list[fw.Tensor]) -> Any:
    """Return the results, and how many kernels made them."""
    for operand in operands:
        # What tests the units at their first use runs kernels too.
        tensor_cores.product_mode(gpu, operand.dtype)
    fw.eval()
    before = gpu.gpu.counters.snapshot()
    results = function(*operands)
    fw.eval()
    return results, (gpu.gpu.counters.snapshot() - before).dispatches


def both(x: fw.Tensor, w: fw.Tensor, b: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor]:
    hidden = x @ w + b
    return hidden, hidden.relu()


def twice(x: fw.Tensor, w: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor]:
    product = x @ w
    return product + 1, product.sum(dim=1)


JOINED: dict[str, tuple[Function, Shapes]] = {
    "bias and activation": (
        lambda x, w, b: nn.functional.gelu(x @ w + b),
        ((96, 48), (48, 64), (64,)),
    ),
    "scale and residual": (
        lambda x, w, b, r: (x @ w + b).relu() * 0.5 + r,
        ((2, 70, 48), (48, 68), (68,), (2, 70, 68)),
    ),
    "a factor for each row": (
        lambda x, w, s: (x @ w) * s,
        ((2, 70, 48), (48, 64), (2, 70, 1)),
    ),
    "a cast": (lambda x, w: (x @ w.T).to(fw.int32), ((100, 33), (64, 33))),
    "two results": (both, ((70, 48), (48, 64), (64,))),
    "in the order of the product": (
        lambda x, w: (x @ w).transpose(0, 1) + 1,
        ((70, 48), (48, 64)),
    ),
    "convolution": (
        lambda x, w, b: nn.functional.conv2d(x, w, b, padding=1).relu() * 0.5,
        ((2, 3, 10, 6), (7, 3, 3, 3), (7,)),
    ),
    "convolution and residual": (
        lambda x, w, r: (nn.functional.conv2d(x, w) + r).relu(),
        ((2, 3, 12, 10), (5, 3, 3, 3), (2, 5, 10, 8)),
    ),
    "linear": (
        lambda x, w, b: nn.functional.linear(x, w, b).relu(),
        ((3, 40, 48), (64, 48), (64,)),
    ),
}
CORE = ("scale and residual", "convolution")
APART: dict[str, tuple[Function, Shapes, int]] = {
    "odd rows": (lambda x, w: (x @ w).relu(), ((70, 48), (48, 65)), 2),
    "odd images": (
        lambda x, w: nn.functional.conv2d(x, w).relu(),
        ((2, 3, 9, 9), (4, 3, 3, 3)),
        2,
    ),
    "transposed": (
        lambda x, w, v: (x @ w).transpose(0, 1) + v,
        ((70, 48), (48, 64), (64, 70)),
        2,
    ),
    "read twice": (twice, ((96, 48), (48, 64)), 2),
    "another product": (
        lambda x, w, v: (x @ w) * (x @ v),
        ((96, 48), (48, 64), (48, 64)),
        2,
    ),
}


def operands_of(gpu: GpuDevice, shapes: Shapes, dtype: str) -> list[fw.Tensor]:
    rng = np.random.default_rng(3)
    return [
        fw.tensor(rng.standard_normal(shape).astype(np.float32), dtype, gpu)
        for shape in shapes
    ]


def compare(got: Any, wanted: Any) -> None:
    """Compare bit by bit: an epilogue rounds where a kernel of its own would."""
    pairs = zip(got, wanted) if isinstance(got, tuple) else [(got, wanted)]
    for one, other in pairs:
        np.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.core] if name in CORE else [])
        for name in JOINED
    ],
)
def test_joined_is_the_same(gpu: GpuDevice, kernel: str, name: str) -> None:
    function, shapes = JOINED[name]
    operands = operands_of(gpu, shapes, "float32")
    got, kernels = counted(gpu, function, operands)
    sources = [list(plan.sources.values()) for plan in gpu.plans.values()]
    with unfused(gpu):
        wanted, _ = counted(gpu, function, operands)
    compare(got, wanted)
    # A depth that is no whole tile is packed, in a kernel for each operand.
    assert kernels == 1 or (kernel == "matmul/gemm_simt" and kernels <= 3)
    assert any("void epilogue(" in source for found in sources for source in found)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_floats(gpu: GpuDevice, kernel: str, dtype: str) -> None:
    if not gpu.gpu.info.storage_16bit:
        pytest.skip("the device cannot store 16-bit floats")
    function, shapes = JOINED["scale and residual"]
    operands = operands_of(gpu, shapes, dtype)
    counted(gpu, function, operands)  # matrix units are tried before their first use
    got, kernels = counted(gpu, function, operands)
    with unfused(gpu):
        wanted, _ = counted(gpu, function, operands)
    compare(got, wanted)
    assert kernels == 1 or (kernel == "matmul/gemm_simt" and kernels <= 3)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_sum_of_slices_takes_an_epilogue(
    quads: GpuDevice, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    """Slices of K whose sums are added up by a kernel of its own."""
    gpu = quads
    skip_where_it_crashes(gpu.gpu.info)
    if dtype == "float16" and not gpu.gpu.info.storage_16bit:
        pytest.skip("the device cannot store 16-bit floats")
    pair = candidates._Slices(0, 2, 0, 24), candidates._Slices(2, 1, 48, 5)
    monkeypatch.setattr(candidates, "_slices", lambda *_: list(pair))
    monkeypatch.setattr(candidates, "large_tile_gemm", lambda *_: None)
    monkeypatch.setattr(candidates, "skinny_gemm", lambda *_: None)
    function = ON_UNITS["all"]
    operands = operands_of(gpu, ((9, 53), (53, 20), (20,), (9, 20)), dtype)
    got, kernels = counted(gpu, function, operands)
    sources = [list(plan.sources.values()) for plan in gpu.plans.values()]
    with unfused(gpu):
        wanted, _ = counted(gpu, function, operands)
    compare(got, wanted)
    assert kernels == 3
    assert any(
        "slices" in source and "void epilogue(" in source
        for found in sources
        for source in found
    )


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("stride", "padding", "sizes", "fuses"),
    [
        (1, 1, ((2, 16, 6, 8), (16, 20, 3, 3), (2, 20, 6, 8)), True),
        # Results of stride phases lie apart.
        (2, 0, ((2, 16, 3, 4), (16, 20, 2, 2), (2, 20, 6, 8)), False),
    ],
)
def test_a_gradient_by_images_takes_an_epilogue(
    gpu: GpuDevice,
    monkeypatch: pytest.MonkeyPatch,
    dtype: str,
    stride: int,
    padding: int,
    sizes: Shapes,
    fuses: bool,
) -> None:
    """That of `relu`, and a sum with another gradient, as of a residual block."""

    def function(grad: fw.Tensor, w: fw.Tensor, x: fw.Tensor) -> fw.Tensor:
        own = nn.functional.conv_transpose2d(grad, w, stride=stride, padding=padding)
        return fw.where(x > 0, own + x, 0)

    for _ in emulated_products(gpu, monkeypatch):
        operands = operands_of(gpu, sizes, dtype)
        got, _ = counted(gpu, function, operands)
        sources = [
            text for plan in gpu.plans.values() for text in plan.sources.values()
        ]
        with unfused(gpu):
            wanted, _ = counted(gpu, function, operands)
        compare(got, wanted)
        assert any("void epilogue(" in text for text in sources) == fuses


@pytest.fixture
def skinny(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> Iterator[GpuDevice]:
    """Let products of few rows run on the kernels that GPUs have for them."""
    skip_where_it_crashes(gpu.gpu.info)
    change_model(monkeypatch, gemv_smallest=1)
    for _ in as_discrete(monkeypatch, "skinny_gemm", skinny_gemm):
        yield gpu


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("turned", [True, False])
def test_products_of_few_rows_take_an_epilogue(
    skinny: GpuDevice, dtype: str, turned: bool
) -> None:
    if dtype == "bfloat16" and not skinny.gpu.info.storage_16bit:
        pytest.skip("the device cannot store 16-bit floats")

    def gated(x: fw.Tensor, w: fw.Tensor, g: fw.Tensor, r: fw.Tensor) -> fw.Tensor:
        w = w.T if turned else w
        return nn.functional.silu(g) * (x @ w) + r

    for rows in (1, 3):
        size = (44, 64) if turned else (64, 40)
        columns = size[1 - turned]
        shapes = ((rows, 64), size, (rows, columns), (rows, columns))
        operands = operands_of(skinny, shapes, dtype)
        got, kernels = counted(skinny, gated, operands)
        with unfused(skinny):
            wanted, _ = counted(skinny, gated, operands)
        compare(got.float(), wanted.float())
        assert kernels == 1


def test_columns_of_few_rows_stay_apart(skinny: GpuDevice) -> None:
    """What is stored across rows has no neighbours in a row."""
    operands = operands_of(skinny, ((200, 64), (64, 4), (200, 4)), "float32")
    got, kernels = counted(skinny, lambda x, w, r: x @ w + r, operands)
    with unfused(skinny):
        wanted, _ = counted(skinny, lambda x, w, r: x @ w + r, operands)
    compare(got, wanted)
    assert kernels == 2


@pytest.mark.parametrize("format", ["q8_0", "q4_k", "int4_g128"])
def test_quantized_products_take_an_epilogue(gpu: GpuDevice, format: str) -> None:
    skip_where_it_crashes(gpu.gpu.info)
    linear = nn.Linear(256, 20).requires_grad_(False)
    layer = nn.QLinear.from_linear(linear, format).to(gpu)

    def added(x: fw.Tensor, r: fw.Tensor) -> fw.Tensor:
        return layer(x).relu() * 0.5 + r

    for rows in (1, 7):
        operands = operands_of(gpu, ((rows, 256), (rows, 20)), "float32")
        got, kernels = counted(gpu, added, operands)
        with unfused(gpu):
            wanted, _ = counted(gpu, added, operands)
        compare(got, wanted)
        assert kernels == 1


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_matrix_units_round_as_memory_does(gpu: GpuDevice, dtype: str) -> None:
    """A compiler may leave out rounding and its reverse."""

    def widened(x: fw.Tensor, w: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor]:
        return (x @ w).float(), nn.functional.gelu(x @ w.T + w[0])

    operands = operands_of(gpu, ((256, 256), (256, 256)), dtype)
    got, _ = counted(gpu, widened, operands)
    with unfused(gpu):
        wanted, _ = counted(gpu, widened, operands)
    for fused, alone in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(fused.float().numpy(), alone.float().numpy())


@pytest.mark.parametrize("name", APART)
def test_what_stays_apart(gpu: GpuDevice, kernel: str, name: str) -> None:
    function, shapes, least = APART[name]
    operands = operands_of(gpu, shapes, "float32")
    got, kernels = counted(gpu, function, operands)
    with unfused(gpu):
        wanted, _ = counted(gpu, function, operands)
    compare(got, wanted)
    assert kernels >= least


def test_a_product_that_is_held_is_stored(gpu: GpuDevice, kernel: str) -> None:
    x, w = operands_of(gpu, ((64, 64), (64, 64)), "float32")
    product = x @ w
    summed = product + 1
    fw.eval()
    np.testing.assert_array_equal(summed.numpy(), product.numpy() + np.float32(1))


def test_numbers_change_without_a_new_kernel(gpu: GpuDevice, kernel: str) -> None:
    x, w = operands_of(gpu, ((64, 64), (64, 64)), "float32")
    plain = (x @ w).numpy()
    for number in (0.5, 2.0, 4.0):
        before = gpu.gpu.counters.snapshot()
        got = ((x @ w) * number).numpy()
        np.testing.assert_array_equal(got, plain * np.float32(number))
        built = (gpu.gpu.counters.snapshot() - before).pipeline_builds
        assert built <= (number == 0.5)


def test_too_many_arguments_stay_apart(gpu: GpuDevice, kernel: str) -> None:
    shapes = ((64, 64), (64, 64), *[(64, 64)] * 9)
    operands = operands_of(gpu, shapes, "float32")

    def added(x: fw.Tensor, w: fw.Tensor, *others: fw.Tensor) -> fw.Tensor:
        # Not the same again and again: such steps are divided into blocks.
        functions = fw.add, fw.maximum, fw.sub, fw.minimum, fw.atan2
        total = x @ w
        for function, other in zip(itertools.cycle(functions), others):
            total = function(total, other)
        return total

    got, kernels = counted(gpu, added, operands)
    with unfused(gpu):
        wanted, _ = counted(gpu, added, operands)
    compare(got, wanted)
    assert kernels == 2


@pytest.mark.core
def test_gradients(gpu: GpuDevice, kernel: str) -> None:
    x, w, b = operands_of(gpu, ((64, 48), (48, 64), (64,)), "float32")
    grads = []
    for fused in (True, False):
        leaves = [fw.tensor(t.numpy(), None, gpu, True) for t in (x, w, b)]
        if fused:
            nn.functional.gelu(leaves[0] @ leaves[1] + leaves[2]).sum().backward()
            fw.eval()
        else:
            with unfused(gpu):
                nn.functional.gelu(leaves[0] @ leaves[1] + leaves[2]).sum().backward()
                fw.eval()
        grads.append([leaf.grad.numpy() for leaf in leaves])
    for one, other in zip(*grads):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_a_replay_joins_what_reads_a_bias_that_it_changes(
    gpu: GpuDevice, kernel: str
) -> None:
    """Only what replaces an operand element by element stays apart, in its place."""
    x, w, b = operands_of(gpu, ((96, 48), (48, 64), (64,)), "float32")
    held = w.numpy(), b.numpy()

    def step(x: fw.Tensor) -> fw.Tensor:
        out = (x @ w + b).relu()
        b.add_(out.sum(dim=0))
        w.sub_((x.mT @ out) * 0.5)
        return out

    expected = [step(x).numpy() for _ in range(3)]
    changed = w.numpy(), b.numpy()
    for tensor, array in zip((w, b), held):
        tensor.copy_(fw.tensor(array, device=gpu))
    replayed = fw.jit(step)
    with built_plans() as plans:
        replayed(x)
    for tensor, array in zip((w, b), held):
        tensor.copy_(fw.tensor(array, device=gpu))
    for each in expected:
        np.testing.assert_array_equal(replayed(x).numpy(), each)
    for tensor, array in zip((w, b), changed):
        np.testing.assert_array_equal(tensor.numpy(), array)
    names = [
        launch.pipeline.name.split()[0] for plan in plans for launch in plan.launches
    ]
    assert any(name.startswith(f"{kernel}+add") for name in names)


ON_UNITS: dict[str, Function] = {
    "bias and activation": lambda x, w, b, r: nn.functional.gelu(x @ w + b),
    "residual": lambda x, w, b, r: x @ w + r,
    "scale": lambda x, w, b, r: (x @ w) * 0.125,
    "a cast": lambda x, w, b, r: (x @ w).to(
        fw.float16 if x.dtype is fw.float32 else fw.float32
    ),
    "all": lambda x, w, b, r: (x @ w + b).relu() * 0.5 + r,
}


@pytest.fixture(params=["float16", "half_sums", "bfloat16", "pairs"])
def units(
    request: pytest.FixtureRequest, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Let products of every size run on matrix units, and say which dtype they take."""
    dtype = {"half_sums": "float16", "pairs": "float32"}.get(request.param)
    for name in ("_settings", "_modes"):
        monkeypatch.setattr(tensor_cores, name, dict(getattr(tensor_cores, name)))
    fw.set_float32_matmul_precision("high" if request.param == "pairs" else "highest")
    tensor_cores.allow_float16_accumulation(request.param == "half_sums")
    change_costs(monkeypatch, smallest=1, packed_smallest=1, simt_below=0)
    found = dtype or request.param
    if not tensor_cores.product_mode(gpu, DTYPES[found]):
        pytest.skip("the device has no such matrix units")
    gpu.plans.clear()
    yield found
    gpu.plans.clear()


@pytest.mark.parametrize("own", ["matmul/gemm_coopmat", "matmul/pack"])
def test_a_verdict_gives_way_to_a_kernel_with_a_place(gpu: GpuDevice, own: str) -> None:
    """What was measured alone has no place; the op's own choice may have one."""

    def dispatches(info: DeviceInfo, *_: Any) -> Sequence[Dispatch]:
        name = autotune.choice(info, "which?")
        return [Dispatch(own if name == autotune.DEFAULT else name, (1, 1, 1), {})]

    op = SimpleNamespace(
        input_specs=lambda _: {}, dispatches=dispatches, tuning_key=lambda _: "which?"
    )
    node: Any = SimpleNamespace(op=op, params=())
    found = {}
    for measured in ("matmul/pack", "matmul/gemm_tiled"):
        with autotune.forced_candidate("which?", measured):
            (found[measured],) = epilogue_fusion._with_hook(gpu.gpu.info, node)
    assert found["matmul/pack"].kernel == own
    assert found["matmul/gemm_tiled"].kernel == "matmul/gemm_tiled"


@pytest.mark.parametrize(("n", "dtype"), [(72, "bfloat16"), (68, "float32")])
def test_on_emulated_units(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch, n: int, dtype: str
) -> None:
    """What is read in whole vectors is loaded before, at edges of tiles too."""
    modes = {"float32": tensor_cores.SCALED_FLOAT16}
    mode = modes.get(dtype, tensor_cores.TENSOR_CORES)
    monkeypatch.setattr(select, "is_scaling_worthwhile", lambda *_: True)
    change_costs(monkeypatch, (mode,), simt_below=0)
    emulated = emulate(gpu, monkeypatch, mode, {})
    next(emulated)
    operands = operands_of(gpu, ((2, 70, 96), (96, n), (n,), (2, 70, n)), dtype)
    got, launches = counted(gpu, ON_UNITS["all"], operands)
    with unfused(gpu):
        wanted, apart = counted(gpu, ON_UNITS["all"], operands)
    np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-6, atol=1e-6)
    assert launches < apart
    next(emulated, None)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ON_UNITS)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    "sizes",
    [(256, 128, 64), (131, 260, 77), (40, 700, 96), (2, 200, 136, 128), (64, 64, 4096)],
)
def test_on_matrix_units(
    gpu: GpuDevice, units: str, name: str, turned: bool, sizes: tuple[int, ...]
) -> None:
    *rows, n, k = sizes
    shapes = ((*rows, k), (n, k) if turned else (k, n), (n,), (*rows, n))
    x, w, b, r = operands_of(gpu, shapes, units)
    operands = [x, w.transpose(0, 1) if turned else w, b, r]
    got, _ = counted(gpu, ON_UNITS[name], operands)
    sources = [
        source for plan in gpu.plans.values() for source in plan.sources.values()
    ]
    with unfused(gpu):
        wanted, _ = counted(gpu, ON_UNITS[name], operands)
    # The longest depth may be in parts, which a kernel of its own sums.
    assert any("void epilogue(" in text for text in sources)
    # The same sums, rounded at the same places; one rounding more or less of gelu.
    step = {"float32": 1e-6, "float16": 2**-10, "bfloat16": 2**-7}[units]
    np.testing.assert_allclose(
        got.numpy(), wanted.numpy(), rtol=2 * step, atol=2 * step
    )


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_products_are_of_a_class_wherever_their_operands_start(
    dtype: str, gpu: GpuDevice, discrete: DeviceInfo
) -> None:
    """Their kernels depend on the start by alignment alone; see `dispatch_class`."""
    product, infos = REGISTRY["bmm"], (gpu.gpu.info, discrete)
    sizes = (1, 96, 64), (5, 8, 32), (64, 64, 1), (160, 128, 96)
    for info, (m, k, n) in itertools.product(infos, sizes):
        for start in (0, 1, 4, 16, 48):
            made = []
            for more in (0, 64, 192):
                shapes = {"a": (2, m, k), "b": (2, k, n)}
                specs = {
                    name: StridedSpec(
                        shape,
                        DTYPES[dtype],
                        Layout.contiguous(shape)._replace(offset=start + more),
                    )
                    for name, shape in shapes.items()
                }
                params = {"tensors": ("a", "b"), "mode": ""}
                made.append(product.dispatches(info, specs, params))
            assert made[0] == made[1] == made[2]
