"""Analysed graphs on a device: the same results, and one kernel for each chain."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import vkbackend
import vkbackend.framework as fw
from tests.framework.graph.analyzed import Case, cases
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import GraphError
from vkbackend.framework.codegen.rowwise_kernel import fuses_rows
from vkbackend.framework.graph.analyzer import (
    FusedKernel,
    FusionAnalyzer,
    FusionResult,
)
from vkbackend.framework.graph.interpreter import interpret
from vkbackend.framework.graph.run import run_fused
from vkbackend.framework.scheduler.plan import built_plans


@pytest.mark.core
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cases(most=8))
def test_fused_equals_unfused_and_the_oracle(place: Device, case: Case) -> None:
    graph, inputs, wanted = case
    fused = run_fused(graph, graph.fuse(wanted), inputs, place)
    apart = run_fused(graph, graph.unfused(), inputs, place)
    oracle = interpret(graph, graph.unfused(), inputs)
    for number, value in fused.items():
        got = value.numpy()
        np.testing.assert_allclose(got, apart[number].numpy(), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(got, oracle[number], rtol=1e-5, atol=1e-5)


@pytest.mark.core
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cases(most=20, memory=()))
@pytest.mark.long
def test_the_scheduler_makes_the_same_kernels(gpu: GpuDevice, case: Case) -> None:
    """Given the graph as a whole; copies, which join in it, are left out."""
    graph, inputs, wanted = case
    expected = graph.fuse(wanted, reductions=fuses_rows(gpu.gpu.info), siblings=False)
    outputs = tuple(sorted(n for kernel in expected.kernels for n in kernel.outputs))
    read = {source for node in graph.nodes for source in node.inputs}
    live_out = tuple(n for n in outputs if n in wanted or n not in read)
    everything = tuple(range(len(graph.nodes)))
    leaves = tuple(node.id for node in graph.inputs)
    whole = FusionResult(
        (FusedKernel(everything, leaves, live_out),), len(graph.nodes), 0
    )
    with built_plans() as plans:
        report = fw.fusion_report(lambda: run_fused(graph, whole, inputs, gpu))
    (plan,) = plans
    kernels = [kernel.nodes for kernel in expected.kernels]
    assert list(map(tuple, plan.kernel_groups)) == kernels
    if not plan.rematerialised:
        (schedule,) = report.schedules
        assert report.bytes_saved == expected.memory_saved
        for kernel, reported in zip(expected.kernels, schedule.kernels, strict=True):
            assert reported.values_read == len(kernel.inputs)
            assert reported.values_written == len(kernel.outputs)


@pytest.mark.core
def test_casts(gpu: GpuDevice) -> None:
    x = np.linspace(-100, 100, 15, dtype=np.float32).reshape(3, 5)
    for precision in ("fp16", "bf16", "int8", "int32"):
        graph = FusionAnalyzer()
        leaf = graph.add_input((3, 5))
        narrow = graph.add_node("cast", (3, 5), (leaf,), to=precision)
        doubled = graph.add_node("abs", (3, 5), (narrow,))
        back = graph.add_node("cast", (3, 5), (doubled,), to="fp32")
        got = run_fused(graph, graph.fuse(), {leaf: x}, gpu)[back].numpy()
        expected = interpret(graph, graph.fuse(), {leaf: x})[back]
        np.testing.assert_array_equal(got, expected)
        assert (got != np.abs(x)).any()


@pytest.mark.core
def test_a_chain_is_one_dispatch(gpu: GpuDevice, device: vkbackend.Device) -> None:
    graph = FusionAnalyzer()
    x, y = graph.add_input((4,)), graph.add_input((4,))
    total = graph.add_node("add", (4,), (graph.add_node("relu", (4,), (x,)), y))
    given = {x: np.array([-1.0, 0.0, 1.0, 2.0]), y: np.full(4, 10.0)}
    for result, kernels in ((graph.fuse(), 1), (graph.unfused(), 2)):
        before = device.counters.snapshot()
        got = run_fused(graph, result, given, gpu)[total]
        assert (device.counters - before).dispatches == kernels == result.fused_kernels
        assert got.tolist() == [10, 10, 11, 12]


def test_nothing_reduced_is_zero(place: Device) -> None:
    graph = FusionAnalyzer()
    total = graph.add_node("mean", (1,), (graph.add_input((0,)),))
    got = run_fused(graph, graph.fuse(), {-1: np.ones(0)}, place)
    assert got[total].tolist() == [0.0]


def test_a_missing_input(place: Device) -> None:
    graph = FusionAnalyzer()
    graph.add_node("relu", (2,))
    with pytest.raises(GraphError, match="the input -1 is missing"):
        run_fused(graph, graph.fuse(), {}, place)
