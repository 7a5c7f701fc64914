"""Proxies of one trace, and what they refuse."""

import operator

import pytest

import vkbackend.framework as fw
from vkbackend.framework import fx


def targets(graph: fx.Graph) -> list[object]:
    """Return the targets of a graph's calls."""
    return [node.target for node in graph.nodes if node.op.startswith("call")]


def test_operators_are_functions() -> None:
    graph = fx.Graph()
    x = fx.Proxy(graph.placeholder("x"))
    _ = x + 1, 2 - x, x[0], ~x, abs(x), x @ x, x.shape[0], x.keys()
    expected = [operator.add, operator.sub, operator.getitem, operator.invert]
    expected += [operator.abs, operator.matmul, getattr, operator.getitem, "keys"]
    assert targets(graph) == expected


def test_tensors_beside_proxies() -> None:
    module = fx.symbolic_trace(lambda x: fw.ones(2) + x * fw.exp(fw.zeros(2)))
    kinds = [node.op for node in module.graph.nodes]
    assert kinds.count("get_attr") == 2
    assert module(fw.ones(2)).tolist() == [2.0, 2.0]


def test_proxies_of_two_traces_do_not_mix() -> None:
    first, second = (fx.Proxy(fx.Graph().placeholder("x")) for _ in range(2))
    with pytest.raises(fx.TraceError, match="proxies of 2 traces"):
        fw.add(first, second)  # type: ignore[arg-type]  # for tensors


def test_elements_are_not_set() -> None:
    x = fx.Proxy(fx.Graph().placeholder("x"))
    with pytest.raises(TypeError, match="elements of the proxy x are set"):
        x[0] = 1
