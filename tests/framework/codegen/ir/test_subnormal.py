"""Comparisons by the bits: as NumPy's of subnormal numbers, NaN, zeros, infinities."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.codegen.ir.program import (
    Access,
    Instruction,
    KernelProgram,
    Output,
    Reference,
)
from vkbackend.framework.codegen.ir.subnormal import compared_by_bits
from vkbackend.framework.scheduler.plan import built_plans

INF = float("inf")

SIZES = 0.0, 1e-45, 1e-40, 2e-40, 1.2e-38, 1.0, 3e38, np.inf
EDGES = np.float32([*SIZES, *(-each for each in SIZES), np.nan])
FIRST, SECOND = (each.ravel() for each in np.meshgrid(EDGES, EDGES))

OF_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
OF_ONE: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "bool": (lambda x: x.bool(), lambda x: x != 0),
    "sign": (fw.sign, lambda x: (x > 0).astype("f4") - (x < 0)),
    "logical_not": (fw.logical_not, np.logical_not),
    "nonzero": (lambda x: fw.nonzero(x)[:, 0], np.flatnonzero),
    "count_nonzero": (fw.count_nonzero, np.count_nonzero),
    "any": (lambda x: x[:6].any(), lambda x: x[:6].any()),
    "all": (lambda x: x[1:8].all(), lambda x: x[1:8].all()),
    "where": (lambda x: fw.where(x.bool(), 2.0, 3.0), lambda x: np.where(x, 2, 3)),
    "with a number": (lambda x: x > 1e-40, lambda x: x > np.float32(1e-40)),
    "rows": (lambda x: (x < 0).sum(-1), lambda x: (x < 0).sum(-1)),
}


@pytest.fixture
def by_bits(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> Iterator[GpuDevice]:
    """Return the device, which is taken for one that flushes subnormal numbers."""
    info = gpu.gpu.info
    target = dataclasses.replace(info.target, flushes_subnormals=True)
    monkeypatch.setitem(info.__dict__, "target", target)
    gpu.plans.clear()
    yield gpu
    fw.eval()
    gpu.plans.clear()


@pytest.mark.parametrize("name", OF_TWO)
def test_of_two(name: str, by_bits: GpuDevice) -> None:
    x, y = (fw.tensor(each, device=by_bits) for each in (FIRST, SECOND))
    found = getattr(fw, name)(x, y).numpy()
    np.testing.assert_array_equal(found, OF_TWO[name](FIRST, SECOND))


@pytest.mark.parametrize("name", OF_ONE)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_of_one(name: str, dtype: str, by_bits: GpuDevice) -> None:
    x = fw.tensor(EDGES, device=by_bits).to(dtype)
    ours, wanted = OF_ONE[name]
    np.testing.assert_array_equal(
        ours(x).float().numpy(), np.float32(wanted(x.float().numpy()))
    )


def program(glsl: str, kind: str, names: str, takes: str, gives: str) -> KernelProgram:
    """Return an element-wise program of one expression over operands of a dtype."""
    listed = tuple(names.split())
    return KernelProgram(
        row_rank=0,
        column_rank=1,
        vec4=True,
        patterns=(),
        accesses=tuple(Access("linear", kind) for _ in listed),
        scalars=(),
        factors=(),
        instructions=(
            Instruction(
                glsl,
                listed,
                (takes,) * len(listed),
                tuple(Reference("in", k) for k in range(len(listed))),
                gives,
            ),
        ),
        outputs=(Output(0, gives),),
    )


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (("x < y", "float32", "x y", "float32", "bool"), "smaller_number(x, y)"),
        (("x >= y", "bfloat16", "x y", "bfloat16", "bool"), "larger_or_same(x, y)"),
        (("x", "float32", "x", "bool", "bool"), "is_nonzero(x)"),
        (("x < y", "int32", "x y", "int32", "bool"), "x < y"),
        (("x < y", "float64", "x y", "float64", "bool"), "x < y"),
        (("x < y", "float16", "x y", "float16", "bool"), "x < y"),
        (("x < 0 ? 0 : x", "float32", "x", "float32", "float32"), "x < 0 ? 0 : x"),
    ],
)
def test_what_is_written(given: tuple[str, str, str, str, str], wanted: str) -> None:
    (step,) = compared_by_bits(program(*given)).instructions
    assert step.glsl == wanted


@pytest.mark.parametrize(
    "bounds",
    [
        *((0.0, 1.0), (-2e-40, 1e-40), (-0.0, 0.0), (-1.0, -0.0), (-INF, 0.0)),
        *((0.0, INF), (-1e-38, 1e-40), (1e-40, 3e-40), (-3e-40, -1e-40)),
        *((-1.0, 1.0), (1.2e-38, 2.0), (-2.0, -1.2e-38), (-INF, INF), (0.5, 0.5)),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_clamp(bounds: tuple[float, float], dtype: str, by_bits: GpuDevice) -> None:
    given = torch.tensor(EDGES).to(getattr(torch, dtype)).requires_grad_()
    x = fw.tensor(EDGES, device=by_bits).to(dtype).requires_grad_()
    wanted, found = given.clamp(*bounds), x.clamp(*bounds)
    wanted.sum().backward()
    found.sum().backward()
    assert given.grad is not None
    expected = wanted.detach().float().numpy()
    ours = found.detach().float().numpy()
    np.testing.assert_array_equal(ours, expected)
    np.testing.assert_array_equal(x.grad.float().numpy(), given.grad.float().numpy())
    if abs(bounds[0]) >= 1.2e-38 or bounds[0] <= 0 <= bounds[1]:
        np.testing.assert_array_equal(np.signbit(ours[:-1]), np.signbit(expected[:-1]))


@pytest.mark.parametrize("low", [-0.5, 0.5])
def test_bounds_that_are_normal_are_compared_as_floats(
    low: float, by_bits: GpuDevice
) -> None:
    x = fw.tensor(EDGES, device=by_bits)
    with built_plans() as plans:
        fw.eval(x.clamp(low, 0.5), x.clamp(0, 0.5))
    text = "".join([source for one in plans for source in one.sources.values()])
    assert "? high : x < low" in text
    assert "below_bound(x, low)" in text
