from collections.abc import Callable

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.ops.large import change_model, forget_plans
from tests.hardware import skip_where_it_crashes
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.dtype import float32
from vkbackend.framework.base.errors import DTypeError, IndexRangeError, ShapeError
from vkbackend.framework.base.quantized_format import FORMATS
from vkbackend.framework.kernels import quantized
from vkbackend.framework.ops.quantized import product
from vkbackend.framework.ops.quantized.decode import decode
from vkbackend.framework.ops.quantized.encode import encode
from vkbackend.framework.ops.quantized.product import (
    GATES,
    dequantize_blocks,
    gated_quantized_linear,
    quantized_embedding,
    quantized_linear,
)

Make = Callable[..., fw.Tensor]


def weights(
    name: str, rows: int, blocks: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return blocks, and their elements, of an odd number of blocks in a row."""
    kind = FORMATS[name]
    columns = blocks * kind.multiple
    given = encode(rng.standard_normal((rows, columns)).astype(np.float32), kind)
    return given, decode(given, kind, columns)


@pytest.mark.core
@pytest.mark.parametrize("name", FORMATS)
def test_dequantized_bits(name: str, make: Make, rng: np.random.Generator) -> None:
    """Of any bytes with finite scales the bits are those of NumPy."""
    kind = FORMATS[name]
    size = kind.row_size(3 * kind.multiple)
    given = rng.integers(0, 120, (5, size), np.uint8)
    want = decode(given, kind, 3 * kind.multiple)
    got = dequantize_blocks(make(given), name, want.shape[1], float32).numpy()
    np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))


@pytest.mark.core
@pytest.mark.parametrize("name", FORMATS)
def test_few_rows(name: str, make: Make, rng: np.random.Generator) -> None:
    given, elements = weights(name, 37, 3, rng)
    x = rng.standard_normal((1, elements.shape[1])).astype(np.float32)
    got = quantized_linear(make(x), make(given), None, name).numpy()
    np.testing.assert_allclose(got, x @ elements.T, rtol=1e-5, atol=1e-4)


VARIANTS = [(False, True, 0), (False, False, 2), (True, False, 1), (True, True, 2)]


@pytest.mark.parametrize(("ahead", "shuffles", "turns"), VARIANTS)
@pytest.mark.parametrize("name", FORMATS)
def test_order_of_loads_and_sums(
    name: str,
    ahead: bool,
    shuffles: bool,
    turns: int,
    half_place: Device,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Columns' loads before others, sums by shuffles, and columns in turn."""
    for kind in ("OF_NIBBLES", "OF_BYTES", "OF_ROWS"):
        tuning = getattr(quantized, kind)._replace(ahead=ahead, resident=turns)
        monkeypatch.setattr(quantized, kind, tuning)
    if shuffles:
        monkeypatch.setattr(
            quantized, "full_subgroup", lambda gpu, _: gpu.subgroup_size
        )
        monkeypatch.setattr(quantized, "OUTPUTS", (12, 4))
    change_model(monkeypatch, multiprocessors=1)
    forget_plans()
    (given, first), (gate, second) = (weights(name, 37, 9, rng) for _ in range(2))
    rows = rng.standard_normal((3, first.shape[1])) / 8
    x = fw.tensor(rows, "float16", half_place)
    given, gate = (fw.tensor(each, device=half_place) for each in (given, gate))
    product = quantized_linear(x, given, None, name).float().numpy()
    gated = gated_quantized_linear(x[:1], gate, given, name, "silu").float().numpy()
    forget_plans()
    floats = x.float().numpy().astype(np.float64)
    want, g = floats @ first.T, floats[:1] @ second.T
    np.testing.assert_allclose(product, want, rtol=2.0**-10, atol=2e-3)
    np.testing.assert_allclose(
        gated, g / (1 + np.exp(-g)) * want[:1], rtol=2e-3, atol=4e-3
    )


def check_rows(rows: int, dtype: str, most: float, place: Device) -> None:
    """Compare a product and a bias with NumPy."""
    rng = np.random.default_rng(rows)
    given, elements = weights("q4_k", 67, 1, rng)
    x = fw.tensor(rng.standard_normal((rows, 1, 256)), dtype, place)
    bias = fw.tensor(rng.standard_normal(67), dtype, place)
    blocks = fw.tensor(given, device=place)
    got = quantized_linear(x, blocks, bias, "q4_k")
    assert got.shape == (rows, 1, 67)
    assert got.dtype is x.dtype
    want = x.float().numpy().astype(np.float64) @ elements.T + bias.float().numpy()
    change = np.abs(got.float().numpy() - want).max()
    assert change < most * np.abs(want).max()


# As many rows as one pass takes and fewer, several passes, a temporary matrix.
ROWS = [3, 7, product.MOST_GEMV_ROWS + 1]


@pytest.mark.parametrize("rows", ROWS)
def test_more_rows_and_a_bias(rows: int, place: Device) -> None:
    check_rows(rows, "float32", 1e-6, place)


@pytest.mark.parametrize("rows", ROWS)
def test_rows_of_bfloat16(rows: int, half_place: Device) -> None:
    check_rows(rows, "bfloat16", 5e-3, half_place)


def test_depth_beyond_shared_memory(make: Make, rng: np.random.Generator) -> None:
    given, elements = weights("int4_g32", 5, 129, rng)
    x = rng.standard_normal((3, elements.shape[1])).astype(np.float32)
    got = quantized_linear(make(x), make(given), None, "int4_g32").numpy()
    np.testing.assert_allclose(got, x @ elements.T, rtol=1e-5, atol=1e-3)


def test_layouts_of_activations_and_blocks(
    make: Make, rng: np.random.Generator
) -> None:
    given, elements = weights("q8_0", 40, 3, rng)
    x = rng.standard_normal((96, 2)).astype(np.float32)
    blocks = make(given)[1::2]
    got = quantized_linear(make(x).T, blocks, None, "q8_0").numpy()
    np.testing.assert_allclose(got, x.T @ elements[1::2].T, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("rows", [2, 40])
def test_gradients_of_input_and_bias(
    rows: int, make: Make, rng: np.random.Generator
) -> None:
    given, elements = weights("q6_k", 7, 1, rng)
    x = make(rng.standard_normal((rows, 256)), "float32", True)
    bias = make(np.zeros(7), "float32", True)
    weight = rng.standard_normal((rows, 7)).astype(np.float32)
    out = quantized_linear(x, make(given), bias, "q6_k")
    (out * make(weight)).sum().backward()
    assert x.grad is not None
    assert bias.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), weight @ elements, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(bias.grad.numpy(), weight.sum(0), rtol=1e-5, atol=1e-5)


def test_no_elements_are_kept_for_the_gradient(
    gpu: GpuDevice, rng: np.random.Generator
) -> None:
    given, elements = weights("q8_0", 64, 8, rng)
    blocks = fw.tensor(given, device=gpu)
    x = fw.ones((40, elements.shape[1]), device=gpu, requires_grad=True)
    saved: list[fw.Tensor] = []
    with fw.autograd.graph.saved_tensors_hooks(
        lambda each: saved.append(each) or each, lambda each: each
    ):
        quantized_linear(x, blocks, None, "q8_0")
    assert [each.dtype.name for each in saved] == ["uint8"]


def test_float64(make: Make, rng: np.random.Generator) -> None:
    given, elements = weights("q5_1", 3, 2, rng)
    x = rng.standard_normal((2, 64))
    try:
        tensor = make(x)
        got = quantized_linear(tensor, make(given), None, "q5_1").numpy()
    except DTypeError:
        pytest.skip("the device has no float64")
    np.testing.assert_allclose(got, x @ elements.T, rtol=1e-12, atol=1e-12)


def test_autocast_gives_few_bits(half_place: Device, rng: np.random.Generator) -> None:
    given, _ = weights("q8_0", 3, 2, rng)
    x, blocks = fw.ones((2, 64), device=half_place), fw.tensor(given, device=half_place)
    with fw.autocast(half_place.type, fw.bfloat16):
        assert quantized_linear(x, blocks, None, "q8_0").dtype is fw.bfloat16


def test_rows_of_a_table(make: Make, rng: np.random.Generator) -> None:
    given, elements = weights("q4_0", 11, 3, rng)
    index = np.array([[3, 10], [0, 3]])
    got = quantized_embedding(make(index), make(given), "q4_0", 96, float32)
    np.testing.assert_array_equal(got.numpy(), elements[index])


def test_no_row_of_a_table(make: Make, rng: np.random.Generator) -> None:
    given, _ = weights("q4_0", 11, 1, rng)
    with pytest.raises(IndexRangeError):
        quantized_embedding(make([11]), make(given), "q4_0", 32, float32).numpy()
    with pytest.raises(DTypeError, match="index is float32; it must be an integer"):
        quantized_embedding(make([1.0]), make(given), "q4_0", 32, float32)


def test_refusals() -> None:
    x, blocks = fw.zeros((2, 64)), fw.zeros((3, 68), dtype="uint8")
    with pytest.raises(ShapeError, match="of 32 columns in q8_0 take 34 bytes"):
        quantized_linear(x[:, :32], blocks, None, "q8_0")
    with pytest.raises(ShapeError, match=r"bias is \(2,\); it must be \(3,\)"):
        quantized_linear(x, blocks, fw.zeros(2), "q8_0")
    with pytest.raises(ShapeError, match="x needs a dimension, blocks two"):
        quantized_linear(x, blocks[0], None, "q8_0")


HALVES = ("bfloat16", "float16")


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", FORMATS)
def test_sums_of_16_bit_activations(
    name: str, dtype: str, half_place: Device, rng: np.random.Generator
) -> None:
    """Activations of any size within a row: only the result is rounded to 16 bits."""
    given, elements = weights(name, 37, 3, rng)
    sizes = np.exp(1.5 * rng.standard_normal((3, elements.shape[1])))
    x = fw.tensor(rng.standard_normal(sizes.shape) * sizes, dtype, half_place)
    got = quantized_linear(x, fw.tensor(given, device=half_place), None, name)
    floats = x.float().numpy().astype(np.float64)
    want = floats @ elements.T
    rounding = 2.0**-8 if dtype == "bfloat16" else 2.0**-11
    # Activations are multiples of 2^-14 of the largest of a piece, or of less.
    bound = rounding * np.abs(want) + 2e-4 * np.abs(floats).max() * np.sqrt(want.size)
    assert (np.abs(got.float().numpy() - want) <= bound).all()


@pytest.mark.parametrize("dtype", HALVES)
def test_extreme_16_bit_activations(dtype: str, half_place: Device) -> None:
    """Zeros, the least, the greatest and what is not finite, in rows of their own."""
    elements = np.arange(-16, 16).astype(np.float32)[None] / 16
    blocks = fw.tensor(encode(elements, FORMATS["q8_0"]), device=half_place)
    least, greatest = {
        "bfloat16": (2.0**-80, 2.0**100),
        "float16": (2.0**-24, 2.0**15),
    }[dtype]
    rows = [0.0, least, greatest, np.inf, np.nan, 1.0]
    x = np.zeros((len(rows), 32), np.float32)
    x[:, 3] = rows
    x[5, 20] = -0.5
    got = quantized_linear(fw.tensor(x, dtype, half_place), blocks, None, "q8_0")
    found = got.float().numpy()[:, 0]
    code = decode(encode(elements, FORMATS["q8_0"]), FORMATS["q8_0"], 32)[0].astype(
        float
    )
    want = [0.0, least * code[3], greatest * code[3], code[3] - 0.5 * code[20]]
    # The least float16 is 2^-24.
    np.testing.assert_allclose(found[[0, 1, 2, 5]], want, rtol=5e-3, atol=2.0**-25)
    assert not np.isfinite(found[3])
    assert np.isnan(found[4])


GATED = [
    (activation, name)
    for activation in GATES
    for name in ("q4_k", "q8_0", "q6_k", "int4_g32")
]


@pytest.mark.core
@pytest.mark.parametrize(("activation", "name"), GATED)
def test_gated_products(
    activation: str, name: str, make: Make, rng: np.random.Generator
) -> None:
    """As the layers one by one, of rows of one pass and of more, of odd columns."""
    gate, first = weights(name, 37, 3, rng)
    blocks, second = weights(name, 37, 3, rng)
    x = rng.standard_normal((3, 1, first.shape[1])).astype(np.float32) / 8
    got = gated_quantized_linear(make(x), make(gate), make(blocks), name, activation)
    approximate = "tanh" if activation == "gelu_tanh" else None
    g = torch.from_numpy(x.astype(np.float64) @ first.T)
    want = (
        torch.nn.functional.gelu(g, approximate=approximate)
        if approximate
        else torch.nn.functional.silu(g)
    ).numpy() * (x.astype(np.float64) @ second.T)
    assert got.shape == (3, 1, 37)
    np.testing.assert_allclose(got.numpy(), want, rtol=2e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", HALVES)
def test_gated_products_of_16_bits(
    dtype: str, half_place: Device, rng: np.random.Generator
) -> None:
    (gate, first), (blocks, second) = (weights("q4_k", 40, 1, rng) for _ in range(2))
    x = fw.tensor(rng.standard_normal((1, 256)) / 8, dtype, half_place)
    gate, blocks = (fw.tensor(each, device=half_place) for each in (gate, blocks))
    got = gated_quantized_linear(x, gate, blocks, "q4_k", "silu")
    floats = x.float().numpy().astype(np.float64)
    g = floats @ first.T
    want = g / (1 + np.exp(-g)) * (floats @ second.T)
    rounding = 2.0**-8 if dtype == "bfloat16" else 2.0**-11
    np.testing.assert_allclose(got.float().numpy(), want, rtol=rounding, atol=2e-3)


@pytest.mark.parametrize("sizes", [(64, 32), (64, 32, 20), (64, 32, 20, 64, 24)])
def test_products_of_one_operand_are_one_dispatch(
    sizes: tuple[int, ...], gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of sizes that alone would have other tiles; the largest that fills the device."""
    skip_where_it_crashes(gpu.gpu.info)
    fw.manual_seed(0)
    layers = [
        nn.QLinear.from_linear(nn.Linear(512, n, bias=False), "q8_0").to(gpu)
        for n in sizes
    ]
    x = fw.randn(1, 512, device=gpu)
    wanted = [layer(x).numpy() for layer in layers]
    few, many = (sum(-(-size // n) for size in sizes) for n in (16, 4))
    for groups, outputs in ((4, 16), (min(few, 8), 16), (many, 4)):
        change_model(monkeypatch, gemv_groups=groups)
        forget_plans()
        with gpu.gpu.profile() as profile:
            found = [layer(x) for layer in layers]
            fw.eval(*found)
        (span,) = profile.spans
        assert f"OUTPUTS={outputs} " in span.name
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-5, atol=1e-6)
    forget_plans()
