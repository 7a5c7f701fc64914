"""Tiles of the steps of recurrent layers."""

import dataclasses
import itertools
from typing import Any

import pytest

import vkbackend
from tests.hardware import as_hardware
from vkbackend.driver.device_info import MatrixShape
from vkbackend.framework.base.dtype import (
    DType,
    bfloat16,
    float16,
    float32,
    float64,
    int32,
)
from vkbackend.framework.base.shape import Layout, ceil_div
from vkbackend.framework.ir.kernel_call import (
    MAX_GROUPS,
    BufferOffset,
    Scratch,
    StridedSpec,
)
from vkbackend.framework.kernels import recurrent
from vkbackend.framework.kernels.gpu_model import model_of
from vkbackend.framework.kernels.recurrent import (
    PARTS,
    PERSISTENT_WORKGROUP,
    SHARED,
    SLICES_OF_K,
    WORKGROUP,
    Steps,
    backward_dispatches,
    coopmat_tile,
    forward_dispatches,
    on_tensor_cores,
    persistent_tile,
    step_tile,
    steps_fit,
)
from vkbackend.shader import compiler

SIZES = (1, 3, 4, 8, 17, 64, 100, 256, 1000)


def given(*shape: int, dtype: DType = float32) -> StridedSpec:
    return StridedSpec(shape, dtype, Layout.contiguous(shape))


@pytest.mark.parametrize("parts", sorted({*PARTS.values()}))
def test_tiles_of_all_sizes(device: vkbackend.Device, parts: int) -> None:
    for batch, units in itertools.product(SIZES, SIZES):
        for depth in (units, 4 * units):
            tile = step_tile(device.info, batch, units, depth, parts)
            constants = tile.constants()
            assert tile.columns == tile.units * parts
            assert tile.columns % 4 == tile.rows % 4 == 0
            assert 1 <= tile.local <= WORKGROUP
            assert tile.quads % tile.slices == 0
            assert 16 * constants["STAGED"] <= SHARED
            sums = tile.slices * tile.rows * tile.columns
            assert 4 * constants["STAGED"] >= sums


def test_small_steps_are_cut_until_they_fill_a_device(device: vkbackend.Device) -> None:
    groups = model_of(device.info).multiprocessors

    def launched(batch: int, units: int) -> tuple[int, int]:
        tile = step_tile(device.info, batch, units, units, 4)
        count = ceil_div(batch, tile.rows) * ceil_div(units, tile.units)
        return tile.rows * tile.columns, count

    area, count = launched(64, 32 * groups)
    assert area == 16 * 32
    assert count >= 4 * groups
    smaller, fewer = launched(8, groups)
    assert smaller < area
    assert fewer < count
    # One sequence has no states for larger tiles.
    assert step_tile(device.info, 1, 1 << 14, 256, 4).rows == 4


def test_which_steps_have_kernels(device: vkbackend.Device) -> None:
    target = dataclasses.replace(device.info.target, cheap_barriers=True)
    info = dataclasses.replace(device.info)
    info.__dict__["target"] = target
    assert steps_fit(info, float32, 64, 256, 4)
    for dtype in (float16, bfloat16):
        assert steps_fit(info, dtype, 64, 256, 4) == info.storage_16bit
    assert not steps_fit(info, float64, 64, 256, 4)
    assert not steps_fit(info, int32, 64, 256, 4)
    most = recurrent.LARGEST // (4 * 64 * 64)
    assert steps_fit(info, float32, most, 64, 4)
    assert not steps_fit(info, float32, most + 1, 64, 4)
    # However small tiles become, a launch has as many along y.
    assert steps_fit(info, float32, 4 * MAX_GROUPS, 1, 4)
    assert not steps_fit(info, float32, 4 * MAX_GROUPS + 1, 1, 4)
    for least in ("max_workgroup_invocations", "max_shared_memory"):
        poor = dataclasses.replace(info, **{least: 128})
        poor.__dict__["target"] = target
        assert not steps_fit(poor, float32, 64, 256, 4)
    info.__dict__["target"] = dataclasses.replace(target, cheap_barriers=False)
    assert not steps_fit(info, float32, 64, 256, 4)


@pytest.fixture
def nvidia(device: vkbackend.Device) -> vkbackend.DeviceInfo:
    """Return what an H200 says of the limits that tiles depend on, without matrices."""
    more: dict[str, Any] = dict.fromkeys(("min_subgroup_size", "max_subgroup_size"), 32)
    more |= {"subgroup_shuffle": True, "cooperative_matrix": ()}
    return as_hardware(device.info, vendor_id=0x10DE, **more)


def layer(kind: str, batch: int, units: int, dtype: DType, steps: int = 64) -> Steps:
    gates = PARTS[kind] * units
    return Steps(steps, batch, units, dtype, gates, units, 5 + PARTS[kind])


@pytest.mark.parametrize("kind", PARTS)
def test_persistent_tiles_of_all_sizes(
    kind: str, device: vkbackend.Device, nvidia: vkbackend.DeviceInfo
) -> None:
    found = 0
    for info, dtype in itertools.product((device.info, nvidia), (float32, bfloat16)):
        for batch, units in itertools.product(SIZES, SIZES):
            steps = layer(kind, batch, units, dtype)
            tile = persistent_tile(info, steps)
            if tile is None:
                continue
            found += 1
            lines = PERSISTENT_WORKGROUP // SLICES_OF_K
            assert tile.each * lines >= steps.columns > (tile.each - 1) * lines
            assert tile.quads * 4 * SLICES_OF_K >= units
            assert tile.rows % tile.together == 0
            assert tile.items * PERSISTENT_WORKGROUP >= tile.rows * units
            assert 1 <= tile.held <= tile.each * tile.quads
            shuffles = recurrent._shuffles(info)
            assert shuffles or info is not nvidia
            memory = tile.shared_memory(shuffles, dtype.itemsize)
            assert memory <= info.max_shared_memory
    assert found > 2 * len(SIZES)


def test_whose_weights_stay_in_registers(nvidia: vkbackend.DeviceInfo) -> None:
    for kind, units, halves in (
        ("TANH", 256, 352),
        ("GRU", 128, 192),
        ("LSTM", 128, 160),
    ):
        for dtype, most in ((float32, units), (float16, halves)):
            assert persistent_tile(nvidia, layer(kind, 64, most, dtype)) is not None
            assert persistent_tile(nvidia, layer(kind, 64, 2 * most, dtype)) is None
    small = persistent_tile(nvidia, layer("TANH", 8, 256, float32))
    assert small is not None
    assert small.rows == 1
    large = persistent_tile(nvidia, layer("TANH", 1024, 128, float32))
    assert large is not None
    assert large.rows > 4
    # Weights are loaded in the time of the launches of few steps.
    assert persistent_tile(nvidia, layer("TANH", 64, 256, float32, steps=1)) is None
    # Places in the gates are numbers of 31 bits.
    many = layer("LSTM", 64, 128, float32, steps=1 << 16)
    assert persistent_tile(nvidia, many) is None


def test_all_steps_are_one_launch(nvidia: vkbackend.DeviceInfo) -> None:
    (found,) = forward_dispatches(
        nvidia, "LSTM", given(64, 9, 512), given(9, 128), masked=True
    )
    assert found.grid == (9, 1, 1)
    assert (found.push["h0"], found.push["cells"]) == ("h0", "c0")
    assert {"MASKED", "SHUFFLES", "VECTORS"} < found.defines.keys()
    kept = given(64, 9, 1)
    (back,) = backward_dispatches(
        nvidia, given(64, 9, 256), given(64, 9, 4, 128), kept, cells=True
    )
    assert back.push["cells_out"] == "cells"
    assert (back.push["kept_pitch"], back.push["kept_step"]) == (1, 0)
    assert {"CELLS", "KEPT", "SHUFFLES", "VECTORS"} < back.defines.keys()


def with_tensor_cores(info: vkbackend.DeviceInfo) -> vkbackend.DeviceInfo:
    """Return the device with cooperative matrices of 16-bit floats."""
    flags = {"vulkan_memory_model", "subgroup_size_control", "full_subgroups"}
    flags |= {"cooperative_matrices", "storage_16bit", "shader_float16", "bfloat16"}
    flags |= {"bfloat16_cooperative_matrix"}
    shapes = tuple(
        MatrixShape(16, 16, 16, kind, kind, "float32", "float32", "subgroup", False)
        for kind in ("float16", "bfloat16")
    )
    supported = info.supported | flags
    return dataclasses.replace(info, cooperative_matrix=shapes, supported=supported)


def test_tiles_on_tensor_cores(
    nvidia: vkbackend.DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recurrent, "LEAST_PRODUCTS", 0)
    info = with_tensor_cores(nvidia)
    for kind, batch, units in itertools.product(
        PARTS, (1, 16, 37, 64, 500), (128, 1008)
    ):
        steps = layer(kind, batch, units, bfloat16)
        tile = coopmat_tile(info, steps, PARTS[kind])
        assert tile is not None
        assert tile.padded == (batch < tile.rows)
        assert not tile.padded or tile.rows == 16
        assert tile.columns == tile.units * PARTS[kind]
        assert tile.shared_memory <= info.max_shared_memory
    # A tile for each multiprocessor, or larger ones that read weights less often.
    few = coopmat_tile(info, layer("LSTM", 16, 1024, float16), 4)
    many = coopmat_tile(info, layer("LSTM", 64, 1024, float16), 4)
    assert few is not None
    assert many is not None
    assert few[:2] == (16, 16)
    assert many[:2] == (32, 16)


def test_which_steps_take_tensor_cores(nvidia: vkbackend.DeviceInfo) -> None:
    info = with_tensor_cores(nvidia)
    assert on_tensor_cores(info, float16, 1024)
    assert not on_tensor_cores(nvidia, float16, 1024)
    for dtype, units in ((float32, 1024), (float16, 1000), (float16, 64)):
        assert not on_tensor_cores(info, dtype, units)
    assert steps_fit(info, float16, 64, 1024, 4)
    assert not steps_fit(nvidia, float16, 64, 1024, 4)
    assert not steps_fit(info, float16, 128, 1024, 4)
    # Small ones take no longer without.
    assert coopmat_tile(info, layer("LSTM", 64, 512, float16), 4) is not None
    assert coopmat_tile(info, layer("LSTM", 64, 256, float16), 4) is None
    step, *_ = forward_dispatches(
        info, "LSTM", given(9, 16, 4096, dtype=float16), given(16, 1024), masked=False
    )
    assert "COOPMAT" in step.defines
    assert step.grid == (64, 1, 1)
    back, *_ = backward_dispatches(
        info,
        given(9, 40, 1024, dtype=float16),
        given(9, 40, 3, 1024),
        None,
        cells=False,
    )
    assert "COOPMAT" in back.defines


@pytest.mark.parametrize("dtype", ["FLOAT16", "BFLOAT16"])
@pytest.mark.parametrize(
    ("kernel", "form"),
    [
        ("step", {"CELL": "LSTM", "MASKED": "1"}),
        ("step", {"CELL": "GRU", "BIASED": "1"}),
        ("step_vjp", {"OUTPUTS": "4", "CELLS": "1", "KEPT": "1"}),
    ],
)
def test_cooperative_matrices_are_valid(
    kernel: str, form: dict[str, str], dtype: str
) -> None:
    source, _ = compiler.load_kernel_source(f"recurrent/{kernel}")
    defines = {"DTYPE": f"DTYPE_{dtype}", "COOPMAT": "1", **form}
    words = compiler.compile_glsl(source, name=f"{kernel}.comp", defines=defines)
    assert compiler.validate_spirv(words) is None


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each step a launch."""
    monkeypatch.setattr(recurrent, "persistent_tile", lambda *_: None)


@pytest.mark.usefixtures("launches")
def test_each_step_reads_what_the_one_before_wrote(device: vkbackend.Device) -> None:
    steps = forward_dispatches(
        device.info, "LSTM", given(3, 2, 20), given(2, 5), masked=False
    )
    assert [each.push["before"] for each in steps] == [
        BufferOffset("h0", 0),
        BufferOffset("out", 0),
        BufferOffset("out", 2 * 10 * 4),
    ]
    assert [each.push["cells"] for each in steps] == [
        BufferOffset("c0", 0),
        BufferOffset("out", 5 * 4),
        BufferOffset("out", (2 * 10 + 5) * 4),
    ]
    assert "VECTORS" not in steps[0].defines
    (aligned,) = forward_dispatches(
        device.info, "GRU", given(1, 2, 24), given(2, 8), masked=True
    )
    assert {"VECTORS", "MASKED"} < aligned.defines.keys()


@pytest.mark.usefixtures("launches")
def test_cells_go_back_through_two_buffers(device: vkbackend.Device) -> None:
    back = backward_dispatches(
        device.info, given(3, 2, 10), given(3, 2, 4, 5), None, cells=True
    )
    read = [each.push["cells"] for each in back]
    written = [each.push["cells_out"] for each in back]
    assert read[1:] == written[:-1]
    assert written[-1] == "cells"
    assert all(isinstance(each, Scratch) for each in read)
    assert [each.push["depth"] for each in back] == [0, 20, 20]
