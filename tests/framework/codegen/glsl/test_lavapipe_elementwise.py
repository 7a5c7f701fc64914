"""Element-wise kernels that read blocks: their text, then what they compute."""

from collections.abc import Iterator

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.codegen.graphs import apply, memory, result
from tests.framework.ops.special import need
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import DTYPES, float32
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.codegen import lower
from vkbackend.framework.codegen.glsl.kernel import emit
from vkbackend.framework.codegen.lower import (
    MIN_UNIFORM_LOAD_ELEMENTS,
    LoweredKernel,
    build_kernel,
)
from vkbackend.framework.graph.compute_graph import Node
from vkbackend.shader import compiler

SHAPE = (MIN_UNIFORM_LOAD_ELEMENTS,)


def chain(shape: tuple[int, ...] = SHAPE) -> list[Node]:
    product = apply("mul", memory(shape), memory(shape))
    total = apply("add", result(product), 2.5)
    return [product, total, apply("relu", result(total))]


def built(nodes: list[Node], lanes: int = 8, wanted: int = 1) -> LoweredKernel:
    ids = {id(node.outputs[0]) for node in nodes[-wanted:]}
    return build_kernel(nodes, ids, software=True, lanes=lanes)


def test_large_kernels_of_software_devices_read_blocks() -> None:
    made = built(chain())
    assert (made.program.lanes, made.workgroup, made.program.rounds) == (
        8,
        8,
        lower.BLOCK_ROUNDS,
    )
    assert made.grid == (
        MIN_UNIFORM_LOAD_ELEMENTS // (4 * 8 * lower.BLOCK_ROUNDS),
        1,
        1,
    )
    assert dict(made.words)["digit[7]"] == 7
    assert built(chain(), lanes=0).program.lanes == 0
    assert built(chain((MIN_UNIFORM_LOAD_ELEMENTS - 4,))).program.lanes == 0


@pytest.mark.parametrize(
    "nodes",
    [
        [apply("fmod", memory(SHAPE), memory(SHAPE))],
        [apply("add", memory((512, 256)), memory((256,)))],
        [apply("neg", memory((), float32, Layout((512, 256), (1, 512), 0)))],
    ],
    ids=["loop", "broadcast", "transposed"],
)
def test_operands_that_are_no_blocks_are_read_as_before(nodes: list[Node]) -> None:
    made = built(nodes)
    assert (made.program.lanes, made.program.rounds) == (0, lower.SOFTWARE_ROUNDS)
    assert "digit[7]" not in dict(made.words)


def test_arguments_must_fit_beside_the_digits() -> None:
    nodes = [apply("add", memory(SHAPE), memory(SHAPE))]
    while built(nodes).program.lanes:
        nodes.append(apply("add", result(nodes[-1]), memory(SHAPE)))
    # Addresses, and the number of fours: 96 bytes.
    assert len(nodes) == 10


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_shader_is_valid_and_loads_before_it_branches(lanes: int) -> None:
    made = built(chain(), lanes, wanted=2)
    source = emit(made.program, True)
    assert compiler.validate_spirv(compiler.compile_glsl(source, name="blocks")) is None
    main = source[source.index("void main()") :]
    depth = 0
    for line in main.splitlines():
        depth += line.count("if (") - line.count("}") * (depth > 0)
        assert "pick(" not in line or depth == 0


@pytest.fixture
def blocks(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> Iterator[GpuDevice]:
    """Return the device, with small kernels in blocks too."""
    monkeypatch.setattr(lower, "MIN_UNIFORM_LOAD_ELEMENTS", 4096)
    gpu.plans.clear()
    yield gpu
    fw.eval()
    gpu.plans.clear()


@pytest.mark.core
@pytest.mark.parametrize("count", [4096, 4097, 4607, 4608, 10239, 1 << 17])
def test_values(blocks: GpuDevice, count: int) -> None:
    rng = np.random.default_rng(count)
    x, w, b = (rng.standard_normal(count, dtype=np.float32) for _ in range(3))
    scale = np.float32(rng.standard_normal())
    tensors = [fw.tensor(each, device=blocks) for each in (x, w, b)]
    product = tensors[0] * tensors[1]
    shifted = product + tensors[2] * float(scale)
    out = shifted.relu()
    fw.eval(product, out)
    np.testing.assert_array_equal(product.numpy(), x * w)
    np.testing.assert_allclose(
        out.numpy(), np.maximum(x * w + b * scale, 0), rtol=1e-6, atol=1e-6
    )


@pytest.mark.core
@pytest.mark.parametrize("count", [4608, 5001])
@pytest.mark.parametrize("name", ["bool", "int8", "float16", "int64", "complex64"])
def test_elements_of_every_size(blocks: GpuDevice, name: str, count: int) -> None:
    need(DTYPES[name], blocks)
    numbers = np.random.default_rng(4).integers(-9, 9, (2, count), np.int32)
    x, y = (fw.tensor(each, device=blocks).to(DTYPES[name]) for each in numbers)
    fw.eval(x, y)
    left, right = x.numpy(), y.numpy()
    np.testing.assert_array_equal((x * y).numpy(), left * right)
    np.testing.assert_array_equal((x != y).numpy(), left != right)
    if name != "complex64":
        np.testing.assert_array_equal(x.float().numpy(), left.astype(np.float32))
    np.testing.assert_array_equal(y.clone().numpy(), right)


@pytest.mark.core
def test_scalars_in_memory_and_integers(blocks: GpuDevice) -> None:
    numbers = np.arange(5000, dtype=np.int32) - 2500
    x = fw.tensor(numbers, device=blocks)
    one = fw.tensor(np.array(3, np.int32), device=blocks)
    np.testing.assert_array_equal((x * one - 7).numpy(), numbers * 3 - 7)


@pytest.mark.core
@pytest.mark.parametrize("count", [4608, 5000])
def test_results_over_operands(blocks: GpuDevice, count: int) -> None:
    data = np.random.default_rng(3).standard_normal(count, dtype=np.float32)
    x = fw.tensor(data, device=blocks)

    @fw.jit
    def steps(x: fw.Tensor) -> fw.Tensor:
        return ((x * 2.0).cumsum(0) * 0.0 + x).relu()

    for _ in range(3):
        np.testing.assert_array_equal(steps(x).numpy(), np.maximum(data, 0))
    for _ in range(5):
        x = x + 1.0
        fw.eval(x)
        data = data + np.float32(1)
    np.testing.assert_array_equal(x.numpy(), data)


@pytest.mark.core
def test_scalars_that_change_in_a_replay(blocks: GpuDevice) -> None:
    weight = fw.tensor(np.ones(4608, np.float32), device=blocks, requires_grad=True)
    optimizer = fw.optim.SGD([weight], lr=0.5)

    @fw.jit
    def step() -> None:
        optimizer.zero_grad()
        (weight * weight).sum().backward()
        optimizer.step()

    for lr in (0.25, 0.125, 0.25):
        optimizer.param_groups[0]["lr"] = lr
        step()
    expected = np.float32(1 - 0.5) * np.float32(1 - 0.25) * np.float32(1 - 0.5)
    np.testing.assert_allclose(weight.detach().numpy(), expected, rtol=1e-6)
