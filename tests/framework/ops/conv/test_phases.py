"""Transposed convolutions whose results are planes between each other."""

from typing import Any

import pytest

import vkbackend.framework as fw
from tests.framework.ops.twin import Make, as_in_torch
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.kernels.conv.problem import Convolution
from vkbackend.framework.kernels.conv.window import Window
from vkbackend.framework.kernels.gemm.tiles import BF16X3, SIMT
from vkbackend.framework.ops.conv import phases
from vkbackend.framework.ops.conv.phases import Phases, writes_phases


@pytest.fixture(autouse=True)
def taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "LEAST_RESULTS", 0)


CALLS: list[tuple[tuple[tuple[int, ...], ...], dict[str, Any]]] = [
    (((2, 4, 5, 6, 7), (4, 3, 3, 3, 3), (3,)), {"stride": 2, "padding": 1}),
    (
        ((2, 4, 5, 6, 7), (4, 3, 3, 3, 3), (3,)),
        {"stride": 2, "padding": 1, "output_padding": 1},
    ),
    (((2, 4, 5, 6, 4), (4, 3, 4, 4, 4)), {"stride": 2, "padding": 1}),
    (((2, 4, 4, 3, 3), (4, 2, 5, 2, 3), (4,)), {"stride": 3, "groups": 2}),
    (((2, 4, 3, 4, 4), (4, 2, 4, 3, 3), (2,)), {"stride": (4, 1, 1)}),
    (((1, 4, 3, 3, 4), (4, 2, 3, 2, 2), (2,)), {"stride": (2, 1, 1), "dilation": 3}),
]


@pytest.mark.parametrize(("shapes", "options"), CALLS)
def test_result_and_gradients(
    shapes: tuple[tuple[int, ...], ...], options: dict[str, Any], make: Make
) -> None:
    import torch.nn.functional as F  # noqa: N812 - its own documentation's name

    as_in_torch(
        make, ops.conv_transpose3d, F.conv_transpose3d, *shapes, scale=20, **options
    )


def test_nothing_is_copied(gpu: GpuDevice) -> None:
    """Windows of the phase of two taps, its filters, and a product of each phase."""
    if not gpu.gpu.info.shader_float64:
        pytest.skip("other dtypes have several kernels, by device")
    x = fw.ones((2, 4, 4, 6, 6), "float64", gpu)
    weight = fw.ones((4, 4, 3, 3, 3), "float64", gpu)
    bias = fw.ones((4,), "float64", gpu)
    fw.eval(x, weight, bias)
    for more in (0, 1):
        before = gpu.gpu.counters.snapshot()
        fw.eval(ops.conv_transpose3d(x, weight, bias, 2, 1, more))
        assert (gpu.gpu.counters.snapshot() - before).dispatches == 5


def test_which_are_written_where_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    window = Window((3, 3), (2, 2), (1, 1), (1, 1))
    how, two = Convolution(window, 1, SIMT), Phases(2, 7)
    assert writes_phases(2 * phases.LEAST_RESULTS, two, how)
    assert not writes_phases(phases.LEAST_RESULTS, two, how)
    assert not writes_phases(phases.MOST_RESULTS, two, how)
    assert not writes_phases(1 << 30, Phases(5, 7), how)
    assert not writes_phases(1 << 30, Phases(1, 7), how)
    assert not writes_phases(1 << 30, two, how._replace(mode=BF16X3))
    pixel = window._replace(kernel=(1, 1), stride=(1, 1))
    assert not writes_phases(1 << 30, two, how._replace(window=pixel))
    assert [two.count(k) for k in range(2)] == [4, 3]
