"""The analyzer: the reference's nine tests with their values, and its promises."""

import numpy as np
import pytest

from vkbackend.framework.base.errors import GraphError
from vkbackend.framework.graph.analyzer import FusedKernel, FusionAnalyzer, FusionResult
from vkbackend.framework.graph.interpreter import interpret


def chain(*names: str, size: int = 1024) -> FusionAnalyzer:
    graph = FusionAnalyzer()
    for number, name in enumerate(names):
        graph.add_node(name, (size,), (number - 1,) if number else ())
    return graph


def test_reference_1_an_empty_graph() -> None:
    result = FusionAnalyzer().fuse()
    assert (result.fused_kernels, result.kernel_reduction) == (0, 0.0)
    assert (result.memory_saved, result.buffers_eliminated) == (0, 0)


def test_reference_2_one_node_saves_nothing() -> None:
    result = chain("relu").fuse()
    assert (result.fused_kernels, result.memory_saved) == (1, 0)
    assert result.kernel_reduction == 0.0


def test_reference_3_a_chain_is_one_kernel() -> None:
    result = chain("relu", "sigmoid", "exp").fuse()
    assert result.fused_kernels == 1
    assert result.memory_saved == (3 - 1) * 1024 * 4
    assert result.kernel_reduction == pytest.approx(2 / 3)
    assert result.kernel_reduction > 0.5


def test_reference_4_a_reduction_divides() -> None:
    """Two kernels at least, unless reductions join: then one, as on a device."""
    graph = FusionAnalyzer()
    x = graph.add_node("relu", (1024,))
    total = graph.add_node("sum", (1,), (x,))
    graph.add_node("exp", (1,), (total,))
    assert graph.fuse(reductions=False).fused_kernels == 3
    assert graph.fuse().fused_kernels == 1


def test_reference_5_relu_then_add() -> None:
    graph = FusionAnalyzer()
    x, y = graph.add_input((4,)), graph.add_input((4,))
    total = graph.add_node("add", (4,), (graph.add_node("relu", (4,), (x,)), y))
    result = graph.fuse()
    assert result.fused_kernels == 1
    given = {x: np.array([-1.0, 0.0, 1.0, 2.0]), y: np.full(4, 10.0)}
    assert interpret(graph, result, given)[total].tolist() == [10, 10, 11, 12]


def test_reference_6_a_missing_input() -> None:
    graph = chain("relu")
    with pytest.raises(GraphError, match="the input -1 is missing; given: "):
        interpret(graph, graph.fuse(), {})


def test_reference_7_lengths_that_differ() -> None:
    graph = FusionAnalyzer()
    x, y = graph.add_input((4,)), graph.add_input((3,))
    with pytest.raises(ValueError, match=r"\(4,\).*\(3,\)"):
        graph.add_node("add", (4,), (x, y))
    graph = chain("relu", size=4)
    with pytest.raises(GraphError, match=r"has shape \(3,\); it must be \(4,\)"):
        interpret(graph, graph.fuse(), {-1: np.ones(3)})


def test_reference_8_three_nodes_with_one_output_eliminate_two() -> None:
    result = chain("relu", "sigmoid", "exp").fuse()
    assert result.kernels[0] == FusedKernel((0, 1, 2), (-1,), (2,))
    assert result.kernels[0].buffers_eliminated == 2
    assert result.buffers_eliminated == 2


def test_reference_9_summary() -> None:
    kernel = FusedKernel((0,), (), (0,))
    result = FusionResult((kernel,) * 3, 10, 65536)
    assert result.summary() == "10 -> 3 kernels (70.0 % reduction), 64.0 KB saved"


def test_a_users_output_survives() -> None:
    graph = chain("relu", "sigmoid", "exp")
    result = graph.fuse(outputs=[1])
    assert result.kernels == (FusedKernel((0, 1, 2), (-1,), (1, 2)),)
    assert result.memory_saved == 1024 * 4


def test_a_store_keeps_what_it_stores() -> None:
    graph = chain("relu", "exp")
    graph.add_node("store", (1024,), (0,))
    kernels = graph.fuse().kernels
    assert kernels == (
        FusedKernel((0, 1), (-1,), (0, 1)),
        FusedKernel((2,), (0,), (2,)),
    )


def test_inputs_are_listed_once() -> None:
    graph = FusionAnalyzer()
    x = graph.add_input((8,))
    double = graph.add_node("add", (8,), (x, x))
    graph.add_node("mul", (8,), (double, x))
    assert graph.fuse().kernels == (FusedKernel((0, 1), (x,), (1,)),)


def test_a_value_used_twice_by_one_consumer_joins() -> None:
    graph = FusionAnalyzer()
    x = graph.add_node("relu", (8,))
    graph.add_node("mul", (8,), (x, x))
    assert graph.fuse().fused_kernels == 1


def test_the_diamond_whose_other_operand_comes_later() -> None:
    """A greedy chain would run 0 and 3 before the copy 2 that 3 needs."""
    graph = FusionAnalyzer()
    x = graph.add_input((4,))
    a = graph.add_node("relu", (4,), (x,))
    b = graph.add_node("neg", (4,), (x,))
    c = graph.add_node("copy", (4,), (b,))
    d = graph.add_node("add", (4,), (a, c))
    result = graph.fuse(siblings=False)
    given = {x: np.array([-2.0, -1.0, 1.0, 2.0])}
    assert interpret(graph, result, given)[d].tolist() == [2, 1, 0, 0]
    assert [kernel.nodes for kernel in result.kernels] == [(b,), (c,), (a, d)]


def test_softmax_and_layer_norm_are_one_kernel() -> None:
    graph = FusionAnalyzer()
    x = graph.add_input((4, 8))
    greatest = graph.add_node("reduce_max", (4, 1), (x,))
    power = graph.add_node(
        "exp", (4, 8), (graph.add_node("sub", (4, 8), (x, greatest)),)
    )
    total = graph.add_node("sum", (4, 1), (power,))
    graph.add_node("div", (4, 8), (power, total))
    result = graph.fuse()
    assert [kernel.inputs for kernel in result.kernels] == [(x,)]
    assert result.memory_saved == 4 * (2 * 32 + 2 * 4)


def test_without_reductions_softmax_is_four_kernels() -> None:
    graph = FusionAnalyzer()
    x = graph.add_input((4, 8))
    greatest = graph.add_node("reduce_max", (4, 1), (x,))
    apart = graph.add_node("sub", (4, 8), (x, greatest))
    power = graph.add_node("exp", (4, 8), (apart,))
    total = graph.add_node("sum", (4, 1), (power,))
    graph.add_node("div", (4, 8), (power, total))
    kernels = graph.fuse(reductions=False).kernels
    assert [kernel.nodes for kernel in kernels] == [(0,), (1, 2), (3,), (4,)]


def test_other_shapes_stay_apart() -> None:
    graph = FusionAnalyzer()
    x = graph.add_node("relu", (8,))
    graph.add_node("add", (4, 8), (x, graph.add_input((4, 8))))
    assert graph.fuse().fused_kernels == 2


def test_what_has_a_reduction_kernel_of_its_own() -> None:
    """Rows too long for one kernel, and rows of one element."""
    for shape, total in (((1 << 20,), (1,)), ((4, 1), (4, 1))):
        graph = FusionAnalyzer()
        x = graph.add_node("relu", shape)
        graph.add_node("sum", total, (x,))
        assert graph.fuse().fused_kernels == 2


def test_a_reduction_over_everything_joins() -> None:
    graph = FusionAnalyzer()
    x = graph.add_node("relu", (4, 8))
    graph.add_node("div", (4, 8), (x, graph.add_node("sum", (1,), (x,))))
    assert graph.fuse().kernels == (FusedKernel((0, 1, 2), (-1,), (2,)),)


def test_siblings_share_a_kernel() -> None:
    graph = FusionAnalyzer()
    x = graph.add_input((8,))
    graph.add_node("relu", (8,), (x,))
    graph.add_node("exp", (8,), (x,))
    graph.add_node("neg", (8,))
    assert [kernel.nodes for kernel in graph.fuse().kernels] == [(0, 1), (2,)]
    assert graph.fuse(siblings=False).fused_kernels == 3


def test_unfused() -> None:
    result = chain("relu", "exp").unfused()
    assert [kernel.nodes for kernel in result.kernels] == [(0,), (1,)]
    assert result.summary() == "2 -> 2 kernels (0.0 % reduction), 0.0 KB saved"


def test_bytes_follow_the_precision() -> None:
    graph = FusionAnalyzer()
    x = graph.add_input((100,), "fp64")
    half = graph.add_node("cast", (100,), (x,), to="fp16")
    graph.add_node("exp", (100,), (half,))
    assert graph.fuse().memory_saved == 200


def test_what_does_not_fit() -> None:
    graph = FusionAnalyzer()
    x = graph.add_input((4, 2))
    whole = graph.add_input((4, 2), "int32")
    rows = [
        ("frobnicate", (4, 2), (x,), "", "'frobnicate' with 1 inputs is unknown"),
        ("relu", (4, 2), (x, x), "", "'relu' with 2 inputs is unknown"),
        ("relu", (4, 2), (7,), "", "there is no node 7"),
        ("relu", (4, 2), (-3,), "", "there is no node -3"),
        ("relu", (4, 3), (x,), "", r"relu of \(4, 2\) is not of shape \(4, 3\)"),
        ("sum", (2, 1), (x,), "", r"sum of \(4, 2\) is not of shape \(2, 1\)"),
        ("add", (4, 2), (x, whole), "", "not fp32 and int32; cast one of them"),
        ("exp", (4, 2), (whole,), "", "exp takes floats, not int32"),
        ("cast", (4, 2), (x,), "fp8", "the precision 'fp8' is unknown"),
    ]
    for op, shape, inputs, to, message in rows:
        with pytest.raises(GraphError, match=message):
            graph.add_node(op, shape, inputs, to=to)
    with pytest.raises(GraphError, match="the precision 'fp8' is unknown"):
        graph.add_input((4,), "fp8")
    assert graph.nodes == []
