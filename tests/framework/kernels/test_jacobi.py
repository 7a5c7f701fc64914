"""Launches of Jacobi sweeps."""

import dataclasses

import pytest

import vkbackend
from vkbackend.framework.base.dtype import float16, float32, float64, int32
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import BufferOffset, Scratch, StridedSpec
from vkbackend.framework.kernels import jacobi
from vkbackend.framework.kernels.gpu_model import model_of
from vkbackend.framework.kernels.jacobi import (
    jacobi_block,
    jacobi_dispatches,
    jacobi_fits,
    jacobi_players,
)


def given(dtype: object, *shape: int) -> StridedSpec:
    return StridedSpec(shape, dtype, Layout.contiguous(shape))  # type: ignore[arg-type]


def test_blocks(device: vkbackend.Device) -> None:
    info = dataclasses.replace(
        device.info, max_workgroup_invocations=1024, max_shared_memory=32 << 10
    )
    assert jacobi_block(info, float32, 500) == 16
    assert jacobi_block(info, float32, 4096) == 32
    small = dataclasses.replace(info, max_workgroup_invocations=256)
    assert jacobi_block(small, float32, 4096) == 16
    assert jacobi_block(info, float16, 500) == 0
    if info.shader_float64:
        assert jacobi_block(info, float64, 4096) == 16
    assert not jacobi_fits(1 << 16, 50, 50)
    assert not jacobi_fits(2, 1 << 15, 1 << 15)


def test_all_blocks_meet(
    device: vkbackend.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [jacobi_players(rows, 16) for rows in (1, 32, 33, 64)] == [2, 2, 4, 4]
    monkeypatch.setattr(jacobi, "FUSED_GROUPS", 0)
    x, state = given(float32, 3, 70, 170), given(int32, 3, 3)
    steps = jacobi_dispatches(device.info, x, state, 100, 10.0, 16)[2:]
    # 2 sweeps of 5 rounds
    assert len(steps) == 2 * 5 * 3
    names = [step.kernel.removeprefix("linalg/jacobi_") for step in steps[:3]]
    assert names == ["gram", "rotate", "apply"]
    gram, rotate, apply = steps[:3]
    assert (gram.grid, rotate.grid, apply.grid) == ((3, 2, 3), (3, 1, 3), (2, 3, 3))
    assert [step.push["round_"] for step in steps[::3]] == [*range(5), *range(5)]
    flags = [step.push["before"] for step in steps[::15]]
    assert flags == [BufferOffset("info", 0), BufferOffset("info", 12)]
    assert steps[-2].push["now"] == BufferOffset("info", 24)
    assert rotate.constants == {"LOCAL_X": 256, "INNER": 2}
    size = 3 * 3 * 2 * 32 * 32 * 4
    assert gram.push["grams"] == Scratch("grams", size)


def test_few_workgroups_make_their_rotations_themselves(
    device: vkbackend.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of 18 and 1800 workgroups the first
    most = 100 / model_of(device.info).multiprocessors
    monkeypatch.setattr(jacobi, "FUSED_GROUPS", most)
    x, state = given(float32, 3, 70, 170), given(int32, 3, 3)
    steps = jacobi_dispatches(device.info, x, state, 100, 10.0, 16)[2:]
    assert len(steps) == 2 * 5 * 2
    gram, apply = steps[:2]
    assert "ROTATES" not in gram.defines
    assert apply.defines["ROTATES"] == "1"
    assert apply.push["now"] == BufferOffset("info", 12)
    many = given(float32, 300, 70, 170), given(int32, 3, 300)
    assert len(jacobi_dispatches(device.info, *many, 100, 10.0, 16)) == 2 + 2 * 5 * 3
    doubles = given(float64, 3, 70, 170)
    steps = jacobi_dispatches(device.info, doubles, state, 100, 10.0, 16)[2:]
    assert [step.defines.get("DOUBLE") for step in steps] == ["1"] * 30
