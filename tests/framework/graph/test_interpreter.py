"""Interpreted graphs: fused equals unfused, precisions, reductions of nothing."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.framework.graph.analyzed import Case, cases
from vkbackend.framework.graph.analyzer import ARITY, FusionAnalyzer
from vkbackend.framework.graph.interpreter import interpret


@given(cases(precisions=("fp16", "bf16", "fp32", "fp64")), st.booleans(), st.booleans())
def test_fused_equals_unfused(case: Case, reductions: bool, siblings: bool) -> None:
    graph, inputs, wanted = case
    fused = graph.fuse(wanted, reductions=reductions, siblings=siblings)
    got = interpret(graph, fused, inputs)
    expected = interpret(graph, graph.unfused(), inputs)
    assert set(wanted) <= got.keys()
    assert got.keys() == {n for kernel in fused.kernels for n in kernel.outputs}
    for number, value in got.items():
        np.testing.assert_array_equal(value, expected[number])
    assert fused.buffers_eliminated == len(graph.nodes) - len(got)


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [
        ("fp16", torch.float16),
        ("bf16", torch.bfloat16),
        ("fp64", torch.float64),
        ("int8", torch.int8),
        ("int32", torch.int32),
    ],
)
def test_casts_have_the_precision_that_they_name(
    precision: str, dtype: torch.dtype
) -> None:
    x = np.array([0.1, -1.9, 3.14159, 100.7, -0.0004], np.float32)
    graph = FusionAnalyzer()
    narrow = graph.add_node("cast", (5,), (graph.add_input((5,)),), to=precision)
    back = graph.add_node("cast", (5,), (narrow,), to="fp32")
    got = interpret(graph, graph.fuse(), {-1: x})[back]
    np.testing.assert_array_equal(got, torch.from_numpy(x).to(dtype).float().numpy())
    if precision != "fp64":
        assert (got != x).any()


def test_every_operation() -> None:
    x = np.array([[0.5, 1.5, 2.0], [3.0, 0.25, 1.0]], np.float32)
    t = torch.from_numpy(x)
    graph = FusionAnalyzer()
    leaf = graph.add_input((2, 3))
    expected = {
        "relu": t.relu(),
        "sigmoid": t.sigmoid(),
        "tanh": t.tanh(),
        "gelu": torch.nn.functional.gelu(t, approximate="tanh"),
        "sqrt": t.sqrt(),
        "rsqrt": t.rsqrt(),
        "exp": t.exp(),
        "log": t.log(),
        "neg": -t,
        "abs": t.abs(),
        "load": t,
        "add": t + t,
        "sub": t - t,
        "mul": t * t,
        "div": t / t,
        "max": t,
        "min": t,
        "pow": t**t,
    }
    numbers = {
        name: graph.add_node(name, (2, 3), (leaf,) * ARITY[name]) for name in expected
    }
    reductions = {
        "sum": t.sum(1, keepdim=True),
        "mean": t.mean(1, keepdim=True),
        "reduce_max": t.amax(1, keepdim=True),
        "reduce_min": t.amin(1, keepdim=True),
    }
    for name in reductions:
        numbers[name] = graph.add_node(name, (2, 1), (leaf,))
    whole = graph.add_node("sum", (1,), (leaf,))
    got = interpret(graph, graph.fuse(), {leaf: x})
    for name, value in {**expected, **reductions}.items():
        np.testing.assert_allclose(got[numbers[name]], value.numpy(), rtol=2e-6)
    assert got[whole].tolist() == [8.25]


@pytest.mark.parametrize("name", ["sum", "mean", "reduce_max", "reduce_min"])
def test_a_reduction_of_nothing_is_zero(name: str) -> None:
    graph = FusionAnalyzer()
    total = graph.add_node(name, (1,), (graph.add_input((0,)),))
    assert interpret(graph, graph.fuse(), {-1: np.ones(0)})[total].tolist() == [0.0]
