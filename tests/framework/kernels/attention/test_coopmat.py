"""Attention on matrix units, which are emulated, as on NVIDIA's devices."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.framework.ops.large import relative_error
from tests.framework.ops.twin import draw
from vkbackend import DeviceInfo
from vkbackend.errors import ShaderError
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import DType, bfloat16, float16, float32
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import Dispatch, StridedSpec
from vkbackend.framework.kernels.attention import coopmat, flash
from vkbackend.framework.kernels.attention.coopmat import (
    FORWARD_TILES,
    GRADIENT_TILES,
    KERNELS,
    MOST_HEAD,
    TILES,
    AttentionTile,
    fits,
    passes,
    tensor_core_dispatch,
    trusts_tensor_cores,
)
from vkbackend.framework.ops.attention import sdpa
from vkbackend.shader import compiler

# Roundings of factors and results.
BOUND = {"float16": 5e-4, "bfloat16": 4e-3, "float32": 4e-5}
SHAPES = {
    # Batch, heads, heads of keys, queries, keys, sizes of a key and of a value: several
    # tiles and blocks, what is padded, and fewer keys than queries. Vectors of 48, for
    # each size is compiled.
    "shared": (1, 4, 2, 70, 131, 48, 48),
    "padded": (2, 1, 1, 37, 65, 40, 33),
    "few keys": (1, 2, 2, 140, 5, 48, 48),
}


@pytest.fixture
def emulated(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> Iterator[GpuDevice]:
    """Return the device, which is taken for one whose matrix units passed."""
    if not gpu.gpu.info.storage_16bit:
        pytest.skip("the device has no 16-bit storage")
    defines = coopmat.storage_defines

    def emulating(dtype: DType) -> Mapping[str, str]:
        return {**defines(dtype), "EMULATED": "1"}

    monkeypatch.setattr(coopmat, "storage_defines", emulating)
    monkeypatch.setattr(sdpa, "_wants_matrix", lambda *_: False)
    trusted = {(gpu, dtype): True for dtype in (float16, bfloat16, float32)}
    monkeypatch.setattr(coopmat, "_trusted", trusted)
    # Emulated products take shared memory of their own.
    tile = AttentionTile(4, 2, 32, stages=2)
    monkeypatch.setitem(TILES["attention/flash"], 64, (tile, tile))
    gpu.plans.clear()
    yield gpu
    fw.eval()
    gpu.plans.clear()


@pytest.fixture
def high_precision() -> Iterator[None]:
    """Let float32 products be those of two parts each."""
    fw.set_float32_matmul_precision("high")
    yield
    fw.set_float32_matmul_precision("highest")


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the kernels for matrix units that have been asked for, as they come."""
    seen: list[str] = []

    def noted(kernel: str, *rest: Any) -> Any:
        found = tensor_core_dispatch(kernel, *rest)
        seen.append(found.kernel)
        return found

    monkeypatch.setattr(flash, "tensor_core_dispatch", noted)
    return seen


def twins(
    device: GpuDevice, dtype: str, *shapes: tuple[int, ...]
) -> tuple[list[fw.Tensor], list[torch.Tensor]]:
    """Return random tensors, and what they hold for torch in float64."""
    own = [
        fw.tensor(draw(*shape, seed=k), dtype, device).requires_grad_()
        for k, shape in enumerate(shapes)
    ]
    exact = [torch.from_numpy(x.detach().float().numpy()).double() for x in own]
    return own, [x.requires_grad_() for x in exact]


# The others are kernels that software compiles for seconds.
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("dtype", "causal", "shape"),
    [
        ("float16", False, "padded"),
        ("bfloat16", True, "shared"),
        *(
            pytest.param(dtype, causal, shape, marks=pytest.mark.wide)
            for dtype, causal, shape in (
                ("float16", False, "shared"),
                ("float16", False, "few keys"),
                ("bfloat16", True, "padded"),
                ("bfloat16", True, "few keys"),
            )
        ),
        *(
            pytest.param(dtype, causal, shape, marks=pytest.mark.gpu)
            for dtype, causal in (("float16", True), ("bfloat16", False))
            for shape in SHAPES
        ),
    ],
)
def test_is_as_in_torch(
    dtype: str, shape: str, causal: bool, emulated: GpuDevice, kernels: list[str]
) -> None:
    compare_with_torch(emulated, dtype, causal, *SHAPES[shape])
    assert sorted(kernels) == sorted(KERNELS.values())


def compare_with_torch(
    device: GpuDevice,
    dtype: str,
    causal: bool,
    batch: int,
    heads: int,
    key_heads: int,
    queries: int,
    keys: int,
    head: int,
    value_head: int,
) -> None:
    own, theirs = twins(
        device,
        dtype,
        (batch, heads, queries, head),
        (batch, key_heads, keys, head),
        (batch, key_heads, keys, value_head),
        (batch, heads, queries, value_head),
    )
    given: dict[str, Any] = {"is_causal": causal, "enable_gqa": heads != key_heads}
    out = ops.scaled_dot_product_attention(*own[:3], **given)
    expected = F.scaled_dot_product_attention(*theirs[:3], **given)
    out.backward(own[3].detach())
    expected.backward(theirs[3].detach())
    errors = [relative_error(out.detach().float().numpy(), expected.detach().numpy())]
    for mine, other in zip(own[:3], theirs):
        assert mine.grad is not None
        assert other.grad is not None
        errors.append(relative_error(mine.grad.float().numpy(), other.grad.numpy()))
    assert max(errors) <= BOUND[dtype], errors


# Few vectors, for lavapipe before 23 ends emulated products after 65,535 rounds.
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("tiles", "causal", "sizes"),
    [
        # More than half of the own vectors are in shared memory at no time.
        ([AttentionTile(4, 2, 16)] * 3, False, (1, 1, 1, 150, 70, 16, 16)),
        (
            [AttentionTile(2, 2, 32), AttentionTile(4, 1, 16), AttentionTile(2, 1, 32)],
            True,
            (1, 4, 2, 37, 40, 24, 28),
        ),
    ],
)
@pytest.mark.usefixtures("high_precision")
def test_float32_in_two_parts(
    tiles: list[AttentionTile],
    causal: bool,
    sizes: tuple[int, int, int, int, int, int, int],
    emulated: GpuDevice,
    kernels: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {kernel: {64: (tile, tile)} for kernel, tile in zip(KERNELS, tiles)}
    monkeypatch.setattr(coopmat, "TILES_OF_FLOAT32", given)
    compare_with_torch(emulated, "float32", causal, *sizes)
    assert sorted(kernels) == sorted(KERNELS.values())


@pytest.mark.parametrize("causal", [False, pytest.param(True, marks=pytest.mark.wide)])
@pytest.mark.usefixtures("high_precision")
def test_gradients_by_keys_and_values_in_two_dispatches(
    causal: bool, emulated: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    tile = AttentionTile(4, 2, 16)
    given = {kernel: {64: (tile, tile)} for kernel in KERNELS}
    monkeypatch.setattr(coopmat, "TILES_OF_FLOAT32", given)
    monkeypatch.setattr(coopmat, "MOST_HEAD_TOGETHER", 0)
    compare_with_torch(emulated, "float32", causal, 1, 1, 1, 150, 70, 16, 16)


def test_what_is_two_dispatches() -> None:
    both = Dispatch(KERNELS["attention/flash_dkv"], (1, 1, 1), {})
    for dtype, head, count in ((float32, 64, 1), (float32, 80, 2), (float16, 128, 1)):
        q = StridedSpec((1, 1, 5, head), dtype, Layout.contiguous((1, 1, 5, head)))
        found = coopmat.apart(both, q)
        assert len(found) == count
        assert len({each.constants.get("RESULT") for each in found}) == count


@pytest.mark.usefixtures("high_precision")
def test_a_gradient_without_tiles_takes_no_tensor_cores(
    emulated: GpuDevice, kernels: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tile = AttentionTile(4, 2, 16)
    given = {kernel: {64: (tile, tile)} for kernel in KERNELS}
    given["attention/flash_dkv"] = {}
    monkeypatch.setattr(coopmat, "TILES_OF_FLOAT32", given)
    compare_with_torch(emulated, "float32", False, 1, 1, 1, 150, 70, 16, 16)
    dq = KERNELS["attention/flash_dq"]
    assert sorted(kernels) == sorted([KERNELS["attention/flash"], dq])


@pytest.mark.usefixtures("high_precision")
def test_float32_is_exact_unless_the_precision_is_lower(
    emulated: GpuDevice, kernels: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tile = AttentionTile(2, 1, 16)
    given = {kernel: {64: (tile, tile)} for kernel in KERNELS}
    monkeypatch.setattr(coopmat, "TILES_OF_FLOAT32", given)
    x = fw.tensor(draw(1, 1, 40, 16), device=emulated)
    for precision, taken in (("highest", 0), ("high", 1), ("highest", 1)):
        fw.set_float32_matmul_precision(precision)
        ops.scaled_dot_product_attention(x, x, x).numpy()
        assert len(kernels) == taken
    fw.set_float32_matmul_precision("medium")
    ops.scaled_dot_product_attention(x, x, x).numpy()
    monkeypatch.setattr(coopmat, "FLOAT32_ON_TENSOR_CORES", False)
    assert not trusts_tensor_cores(emulated, float32)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("tile", "causal", "head"),
    [
        (AttentionTile(2, 2, 16, in_turn=True), True, 80),
        (AttentionTile(2, 1, 16, stages=2), True, 48),
        pytest.param(AttentionTile(4, 2, 32, True), False, 48, marks=pytest.mark.wide),
        pytest.param(AttentionTile(1, 1, 32, True), True, 48, marks=pytest.mark.wide),
        pytest.param(AttentionTile(4, 2, 32), False, 80, marks=pytest.mark.wide),
        pytest.param(
            AttentionTile(4, 2, 32, stages=2), False, 64, marks=pytest.mark.wide
        ),
        pytest.param(
            AttentionTile(2, 2, 32, stages=2), True, 80, marks=pytest.mark.wide
        ),
    ],
)
def test_other_tiles(
    tile: AttentionTile,
    causal: bool,
    head: int,
    emulated: GpuDevice,
    kernels: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Keys and values that take turns in shared memory or are there twice."""
    monkeypatch.setitem(TILES, "attention/flash", {MOST_HEAD: (tile, tile)})
    shapes = [(2, 2, 77, head), (2, 2, 70, head), (2, 2, 70, head)]
    own, theirs = twins(emulated, "float16", *shapes)
    mask = None if causal else draw(77, 70, seed=5) > -0.3
    if mask is not None:
        mask[:, 0] = True
    with fw.no_grad():
        out = ops.scaled_dot_product_attention(
            *own,
            None if mask is None else fw.tensor(mask, "bool", emulated),
            is_causal=causal,
        )
    expected = F.scaled_dot_product_attention(
        *theirs, None if mask is None else torch.from_numpy(mask), is_causal=causal
    )
    assert (
        relative_error(out.float().numpy(), expected.detach().numpy())
        <= BOUND["float16"]
    )
    assert kernels == ["attention/flash_coopmat"]


@pytest.mark.parametrize("kind", ["bool", "float16"])
def test_masks(kind: str, emulated: GpuDevice, kernels: list[str]) -> None:
    """The third query sees nothing, the fourth only the last key."""
    own, theirs = twins(emulated, "float16", *[(2, 2, 70, 16)] * 2)
    mask = draw(2, 1, 70, 70, seed=5)
    if kind == "bool":
        mask = mask > -0.3
        mask[:, :, 2] = False
        mask[:, :, 3] = np.arange(70) == 69
    given = fw.tensor(mask, kind, emulated)
    exact = torch.from_numpy(mask if kind == "bool" else given.float().numpy())
    exact = exact if kind == "bool" else exact.double()
    out = ops.scaled_dot_product_attention(own[0], own[1], own[0], given)
    expected = F.scaled_dot_product_attention(theirs[0], theirs[1], theirs[0], exact)
    if kind == "bool":
        assert not out.detach().float().numpy()[:, :, 2].any()
    expected = torch.where(exact.any(-1, keepdim=True), expected, 0.0)
    weights = draw(*expected.shape, seed=9).astype(np.float16)
    out.backward(fw.tensor(weights, device=emulated))
    expected.backward(torch.from_numpy(weights).double())
    errors = [relative_error(out.detach().float().numpy(), expected.detach().numpy())]
    for mine, other in zip(own, theirs):
        assert mine.grad is not None
        assert other.grad is not None
        errors.append(relative_error(mine.grad.float().numpy(), other.grad.numpy()))
    assert max(errors) <= BOUND["float16"], errors
    assert sorted(kernels) == sorted(KERNELS.values())


def test_dropout_is_that_of_the_host(emulated: GpuDevice, kernels: list[str]) -> None:
    arrays = [draw(1, 2, n, 16, seed=n).astype(np.float16) for n in (37, 70, 70)]
    found = []
    for device, dtype in (("cpu", "float32"), (emulated, "float16")):
        fw.manual_seed(3)
        x = [fw.tensor(each, dtype, device).requires_grad_() for each in arrays]
        out = ops.scaled_dot_product_attention(*x, dropout_p=0.3)
        out.sum().backward()
        results = [out.detach(), *(each.grad for each in x)]
        found.append([each.float().numpy() for each in results if each is not None])
    for one, other in zip(*found):
        assert relative_error(other, one.astype(np.float64)) <= BOUND["float16"]
    assert len(kernels) == 3


def test_scores_that_grow_and_weights_that_vanish(emulated: GpuDevice) -> None:
    """Maxima are replaced in every tile, and sums scaled, for some rows."""
    q, k, v = (draw(1, 1, n, 48, seed=n) for n in (20, 200, 201))
    k *= np.linspace(0, 12, 200, dtype=np.float32)[:, None]
    own = [fw.tensor(x, "float16", emulated) for x in (q, k, v[:, :, :200])]
    exact = [torch.from_numpy(x.float().numpy()).double() for x in own]
    out = ops.scaled_dot_product_attention(*own, scale=1.0).float().numpy()
    expected = F.scaled_dot_product_attention(*exact, scale=1.0).numpy()
    assert relative_error(out, expected) <= BOUND["float16"]


def test_infinite_and_undefined_values_stay_with_their_rows(
    emulated: GpuDevice,
) -> None:
    q, k, v = (draw(1, 1, 40, 48, seed=n) for n in range(3))
    q[0, 0, 7] = np.nan
    v[0, 0, 30, 3] = np.inf
    own = [fw.tensor(x, "float16", emulated) for x in (q, k, v)]
    out = ops.scaled_dot_product_attention(*own).float().numpy()[0, 0]
    assert np.isnan(out[7]).all()
    others = np.delete(out, 7, 0)
    assert np.isposinf(others[:, 3]).all()
    assert np.isfinite(np.delete(others, 3, 1)).all()


def test_what_the_kernels_cannot_do_goes_another_way(
    emulated: GpuDevice, kernels: list[str]
) -> None:
    def attend(size: int = 48, dtype: str = "float16", **given: Any) -> None:
        x = fw.tensor(draw(1, 1, 5, size), dtype, emulated)
        fw.eval(ops.scaled_dot_product_attention(x, x, x, **given))

    attend(dtype="float32")
    attend(size=144)
    attend(size=7)
    attend(scale=-1.0)
    attend(scale=0.0)
    assert kernels == []
    attend()
    assert len(kernels) == 1


@pytest.mark.wide
def test_vectors_that_lie_apart_or_askew_are_copied(
    emulated: GpuDevice, kernels: list[str]
) -> None:
    flat = fw.tensor(draw(3 * 40 * 2 * 48 + 1), "float16", emulated)
    askew = flat[1:].reshape(3, 1, 40, 2, 48).transpose(2, 3)
    apart = flat[:-1].reshape(3, 1, 40, 2, 48).transpose(2, 3)
    for x in (askew, apart):
        q, k, v = (x[i] for i in range(3))
        out = ops.scaled_dot_product_attention(q, k, v).float().numpy()
        exact = [torch.from_numpy(each.float().numpy()).double() for each in (q, k, v)]
        expected = F.scaled_dot_product_attention(*exact).numpy()
        assert relative_error(out, expected) <= BOUND["float16"]
    assert len(kernels) == 2


def placed(*shape: int, offset: int = 0, strides: tuple[int, ...] = ()) -> StridedSpec:
    layout = Layout.contiguous(shape)
    layout = Layout(shape, strides or layout.strides, offset)
    return StridedSpec(shape, float16, layout)


def test_fits() -> None:
    good = placed(2, 3, 40, 64)
    assert fits([good, good, good], 0.5)
    assert not fits([good, good, good], -0.5)
    assert not fits([good, good, good], float("inf"))
    for bad in (
        placed(2, 3, 40, 64, offset=4),
        placed(2, 3, 40, 64, strides=(7684, 2560, 64, 1)),
        placed(2, 3, 40, 64, strides=(7680, 64, 192, 2)),
        placed(2, 3, 40, 32),
    ):
        assert not fits([good, good, bad], 0.5)
    long = placed(2, 3, 40, 144)
    assert not fits([long, long, long], 0.5)
    # The stride of a single row does not count.
    single = placed(2, 3, 1, 64, strides=(192, 64, 3, 1))
    assert fits([single, good, good], 0.5)


@pytest.mark.wide
def test_the_test_accepts_what_is_right_and_refuses_what_is_not(
    emulated: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With vectors of the other tests, whose kernels are compiled.
    monkeypatch.setattr(coopmat, "_TEST", (2, 1, 70, 90, 48))
    assert passes(emulated, float16)
    monkeypatch.setitem(coopmat._ERRORS, float16, 1e-5)
    assert not passes(emulated, float16)

    def refuses(*_: Any) -> None:
        raise ShaderError("no such matrices")

    monkeypatch.setattr(coopmat, "run_detached", refuses)
    monkeypatch.setitem(coopmat._ERRORS, float16, 1e-3)
    assert not passes(emulated, float16)


def test_devices_are_tested_once_and_only_where_they_offer(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def tested(device: GpuDevice, dtype: DType, *_: Any) -> bool:
        tried.append(dtype)
        return dtype is float16

    monkeypatch.setattr(coopmat, "_trusted", {})
    monkeypatch.setattr(coopmat, "tested", tested)
    if gpu.gpu.info.kind == "software":
        assert not trusts_tensor_cores(gpu, float16)
    monkeypatch.setattr(coopmat, "_trusted", {})
    monkeypatch.setattr(coopmat, "offers", lambda *_: True)
    monkeypatch.setattr(coopmat, "_holds", lambda *_: True)
    tried.clear()
    dtypes = (float16, float16, bfloat16, float32)
    found = [trusts_tensor_cores(gpu, dtype) for dtype in dtypes]
    assert found == [True, True, False, False]
    assert tried == [float16, bfloat16]
    assert not trusts_tensor_cores(fw.device("cpu"), float16)


def test_subgroups_and_memory_of_the_kernels(gpu: GpuDevice) -> None:
    info = dataclasses.replace(
        gpu.gpu.info,
        subgroup_size=32,
        subgroup_shuffle=True,
        subgroup_arithmetic=True,
        max_shared_memory=49152,
    )
    assert all(coopmat._holds(info, dtype) for dtype in (float16, float32))
    for change in (
        {"subgroup_size": 64},
        {"subgroup_shuffle": False},
        {"max_shared_memory": 32768},
    ):
        assert not coopmat._holds(dataclasses.replace(info, **change), float16)


@pytest.mark.parametrize("dtype", ["FLOAT16", "BFLOAT16", "FLOAT32"])
@pytest.mark.parametrize("kernel", sorted(KERNELS.values()))
def test_kernels_for_matrix_units_are_valid(kernel: str, dtype: str) -> None:
    source, _ = compiler.load_kernel_source(kernel)
    defines = {"DTYPE": f"DTYPE_{dtype}"}
    if dtype == "FLOAT16":
        defines["DEVICE_ROUNDING"] = "1"
    words = compiler.compile_glsl(source, name=kernel, defines=defines)
    assert compiler.validate_spirv(words) is None


def test_every_kernel_has_cuts() -> None:
    assert TILES.keys() == KERNELS.keys()
    for tiles in TILES.values():
        assert max(tiles) == coopmat.MOST_HEAD


def test_tiles_to_time_have_what_is_chosen(discrete: DeviceInfo) -> None:
    for kernel, tiles in TILES.items():
        each = FORWARD_TILES if kernel == "attention/flash" else GRADIENT_TILES
        assert {tile for pair in tiles.values() for tile in pair} <= set(each)
    assert AttentionTile(4, 2, 32, in_turn=True).shared_memory(128) <= 49152
    assert AttentionTile(4, 2, 32, in_turn=True).fits(discrete, 128)
    assert not AttentionTile(8, 2, 64).fits(discrete, 128)


@pytest.mark.gpu
def test_this_device_passes_what_it_offers(gpu: GpuDevice) -> None:
    for dtype, mode in (
        (float16, coopmat.TENSOR_CORES),
        (bfloat16, coopmat.TENSOR_CORES),
        (float32, coopmat.TENSOR_CORES),
    ):
        if coopmat._holds(gpu.gpu.info, dtype) and coopmat.offers(
            gpu.gpu.info, dtype, mode
        ):
            assert passes(gpu, dtype)
