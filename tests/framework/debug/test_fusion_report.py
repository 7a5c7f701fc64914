"""Reports of fusion: counts, bytes, boundaries, sources, what is covered."""

from pathlib import Path

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework import nn, optim
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.codegen import partitioner
from vkbackend.framework.debug.fusion_report import Boundary
from vkbackend.framework.graph.analyzer import FusionAnalyzer

pytestmark = pytest.mark.core


def ones(gpu: GpuDevice, *shape: int) -> fw.Tensor:
    tensor = fw.tensor(np.ones(shape, np.float32), device=gpu)
    fw.eval(tensor)
    return tensor


def test_a_chain(gpu: GpuDevice) -> None:
    """(n - 1) * elements * size for a chain of n."""
    x = ones(gpu, 1000)
    report = fw.fusion_report(lambda: fw.eval((x * 2 + 1).relu() - 3))
    assert (report.kernels_before, report.kernels_after) == (4, 1)
    assert report.bytes_saved == 3 * 1000 * 4
    (schedule,) = report.schedules
    (kernel,) = schedule.kernels
    assert kernel.operations == tuple(
        f"{name} (1000,) float32" for name in ("mul", "add", "relu", "sub")
    )
    assert (kernel.values_read, kernel.values_written) == (1, 1)
    assert "void main()" in kernel.glsl
    assert schedule.boundaries == ()


def test_the_analyzer_says_the_same(gpu: GpuDevice) -> None:
    names = ("relu", "sigmoid", "exp", "neg", "abs")
    graph = FusionAnalyzer()
    at = graph.add_input((1024,))
    for name in names:
        at = graph.add_node(name, (1024,), (at,))
    expected = graph.fuse()
    x = ones(gpu, 1024)

    def program() -> None:
        value = x
        for name in names:
            value = getattr(fw.ops, name)(value)
        fw.eval(value)

    report = fw.fusion_report(program)
    assert report.bytes_saved == expected.memory_saved == (len(names) - 1) * 4096
    assert report.kernels_before == expected.original_kernels
    assert report.kernels_after == expected.fused_kernels


def test_what_is_held_is_not_saved(gpu: GpuDevice) -> None:
    x = ones(gpu, 100)

    def program() -> None:
        middle = x * 2
        last = middle + 1
        fw.eval(middle, last)

    report = fw.fusion_report(program)
    assert (report.kernels_after, report.bytes_saved) == (1, 0)
    assert report.schedules[0].kernels[0].values_written == 2


@pytest.mark.usefixtures("long_graphs")
def test_why_neighbours_stay_apart(gpu: GpuDevice) -> None:
    square, row = ones(gpu, 6, 6), ones(gpu, 6)

    def product() -> None:
        fw.eval((square + 1) @ square)

    def turned() -> None:
        made = square + 1
        fw.eval(made.mT + made)

    def broadcast() -> None:
        fw.eval((row + 1) * square)

    def many() -> None:
        x = square
        for _ in range(partitioner.MAX_OPERATIONS + 1):
            x = x + 1
        fw.eval(x)

    found = [
        [boundary.reason for boundary in fw.fusion_report(run).schedules[0].boundaries]
        for run in (product, turned, broadcast, many)
    ]
    assert found == [
        ["hand-written: bmm"],
        [partitioner.PLACES],
        [f"{partitioner.SHAPES}: (6,) and (6, 6)"],
        [partitioner.OPERATIONS],
    ]


def test_counts_are_those_of_the_device(
    gpu: GpuDevice, device: vkbackend.Device
) -> None:
    x, y = ones(gpu, 8, 8), ones(gpu, 8, 8)

    def program() -> None:
        fw.eval((x @ y + 1) * 2)

    before = device.counters.snapshot()
    report = fw.fusion_report(program)
    dispatches = (device.counters - before).dispatches
    assert report.kernels_after == dispatches < report.kernels_before
    assert report.dispatches == dispatches
    assert report.schedules[0].kernels[0].beside == ()


def test_kernels_side_by_side_are_one_dispatch(
    gpu: GpuDevice, device: vkbackend.Device
) -> None:
    shapes = ((16, 8), (16,), (3,), (16,))
    parameters = [nn.Parameter(ones(gpu, *shape)) for shape in shapes]
    for each in parameters:
        each.grad = ones(gpu, *each.shape)
    optimizer = optim.AdamW(parameters, lr=0.1)
    before = device.counters.snapshot()
    report = fw.fusion_report(optimizer.step)
    assert (device.counters - before).dispatches == report.dispatches == 1
    kernels = report.schedules[0].kernels
    assert [kernel.beside for kernel in kernels] == [
        tuple(other for other in range(4) if other != number) for number in range(4)
    ]
    text = report.text()
    assert f"{report.kernels_before} -> 4 kernels in 1 dispatch," in text
    assert "    in one dispatch with kernel 2, 3, 4\n" in text
    assert "in 1 dispatch" in report.svg()


def test_a_known_schedule_is_reported_and_stays_known(
    gpu: GpuDevice, device: vkbackend.Device
) -> None:
    x = ones(gpu, 50)

    def program() -> None:
        fw.eval(x * 7 + 5)

    program()
    plans = len(gpu.plans)
    before = device.counters.snapshot()
    assert fw.fusion_report(program).kernels_before == 2
    assert len(gpu.plans) == plans
    assert (device.counters - before).pipeline_builds == 0


def test_everything_so_far(gpu: GpuDevice) -> None:
    x = ones(gpu, 51)
    fw.eval(x * 7 + 5)
    whole = fw.fusion_report()
    assert any(
        kernel.operations == ("mul (51,) float32", "add (51,) float32")
        for schedule in whole.schedules
        for kernel in schedule.kernels
    )
    # Graphs of which nobody wanted a result have no kernels.
    busy = [schedule for schedule in whole.schedules if schedule.kernels]
    assert whole.kernels_before >= whole.kernels_after >= len(busy)


def test_what_is_pending_belongs_to_what_came_before(gpu: GpuDevice) -> None:
    pending = ones(gpu, 9) * 3
    report = fw.fusion_report(lambda: None)
    assert report.schedules == ()
    assert str(report) == "fusion: 0 -> 0 kernels, 0 bytes never reach memory"
    assert pending.tolist() == [3.0] * 9


def test_an_error_leaves_everything_as_it_was(gpu: GpuDevice) -> None:
    plans = gpu.plans
    with pytest.raises(ZeroDivisionError):
        fw.fusion_report(lambda: 1 // 0)
    assert gpu.plans is plans


def test_text_and_files(gpu: GpuDevice, tmp_path: Path) -> None:
    x = ones(gpu, 1024)
    report = fw.fusion_report(lambda: fw.eval((x * 2).exp() @ x))
    lines = str(report).splitlines()
    assert lines[0] == "fusion: 3 -> 2 kernels, 4.0 KiB never reach memory"
    assert lines[2].startswith(f"schedule 1 on {gpu.name}: 3 -> 2 kernels")
    assert lines[3] == "  kernel 1, generated, reads 1, writes 1, saves 4.0 KiB"
    assert lines[-1] == "  boundary 1 -> 2: hand-written: bmm"
    assert "void main" not in str(report)
    report.save(tmp_path / "report.txt")
    assert "    | void main" in (tmp_path / "report.txt").read_text(encoding="utf-8")
    report.save(tmp_path / "report.svg")
    assert (tmp_path / "report.svg").read_text(encoding="utf-8") == report.svg()
    assert "hand-written: bmm" in report.svg()


def test_schedules_that_nobody_keeps_are_reported(gpu: GpuDevice) -> None:
    x = ones(gpu, 52)

    def program() -> None:
        fw.eval(x * 7 + 5)
        gpu.plans.clear()
        fw.fusion_report(lambda: fw.eval(x * 8 + 6))

    assert fw.fusion_report(program).kernels_before == 4


def test_a_graph_by_hand_is_not_fused(gpu: GpuDevice) -> None:
    graph = fw.graph.ComputeGraph()
    shape = (8, 1, 1, 1)
    x = graph.add_leaf(ones(gpu, 8), shape)
    silu = graph.add_op(fw.graph.TensorOp.SILU, shape, [x])
    graph.add_op(fw.graph.TensorOp.MUL, shape, [silu, x])
    report = fw.fusion_report(graph.run)
    assert (report.kernels_before, report.kernels_after) == (2, 2)
    (boundary,) = report.schedules[0].boundaries
    assert boundary == Boundary(0, 1, partitioner.SWITCHED_OFF)


def test_a_trace_is_reported_where_it_is_made(gpu: GpuDevice) -> None:
    step = fw.jit(lambda x: (x * 2 + 1).relu() @ x)
    x = ones(gpu, 8, 8)
    report = fw.fusion_report(step, x)
    assert (report.kernels_before, report.kernels_after) == (4, 2)
    assert report.bytes_saved == 2 * 8 * 8 * 4
    assert fw.fusion_report(step, x).schedules == ()


def test_a_result_that_nobody_reads_is_reported(gpu: GpuDevice) -> None:
    x = fw.ones(1000, device=gpu)
    report = fw.fusion_report(lambda: (x * 2 + 1).relu())
    assert (report.kernels_before, report.kernels_after) == (3, 1)
