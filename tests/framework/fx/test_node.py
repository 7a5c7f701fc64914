"""Nodes: their arguments, users and places."""

import pytest

import vkbackend.framework as fw
from vkbackend.framework import fx


def small() -> tuple[fx.Graph, fx.Node, fx.Node, fx.Node]:
    """Return a graph, its parameter, and two nodes that take it."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    first = graph.call_function(fw.exp, (x,))
    second = graph.call_function(fw.add, (x, [first, {"k": x}]), {"alpha": first})
    return graph, x, first, second


def test_users_follow_the_arguments() -> None:
    _, x, first, second = small()
    assert second.all_input_nodes == [x, first]
    assert [*x.users] == [first, second]
    second.args = (first, 1)
    assert [*x.users] == [first]
    second.insert_arg(1, x)
    second.update_arg(0, 3)
    second.update_kwarg("alpha", x)
    assert second.args == (3, x, 1)
    assert not first.users
    second.replace_input_with(x, first)
    assert second.args == (3, first, 1)
    assert [*x.users] == [first]


def test_uses_are_replaced() -> None:
    graph, x, first, second = small()
    x.meta["note"] = 1
    with graph.inserting_after(x):
        new = graph.call_function(fw.neg, (x,))
    changed = x.replace_all_uses_with(
        new, lambda user: user is second, propagate_meta=True
    )
    assert changed == [second]
    assert new.meta == {"note": 1}
    assert [*new.users] == [second]
    with pytest.raises(ValueError, match="has meta of its own"):
        first.replace_all_uses_with(new, propagate_meta=True)


def test_nodes_are_moved() -> None:
    graph, x, first, second = small()
    first.prepend(second)
    assert [*graph.nodes] == [x, second, first]
    assert (x.next, first.prev) == (second, second)
    first.append(second)
    assert [*reversed(graph.nodes)] == [second, first, x]
    with pytest.raises(ValueError, match="in another graph"):
        fx.Graph().placeholder("y").append(x)


def test_wrong_nodes_are_refused() -> None:
    graph = fx.Graph()
    with pytest.raises(ValueError, match="op is 'call'"):
        graph.create_node("call", "x")
    with pytest.raises(ValueError, match="target of call_function is 'relu'"):
        graph.create_node("call_function", "relu")


def test_structures_are_mapped() -> None:
    pair = fw.ValuesIndices(1, 2)  # type: ignore[arg-type]  # any values
    value = [pair, (slice(1, 2), {"k": 3})]
    doubled = fx.map_aggregate(value, lambda each: each and each * 2)
    assert doubled == [(2, 4), (slice(2, 4), {"k": 6})]
    assert type(doubled[0]) is fw.ValuesIndices
    assert fx.map_arg(value, lambda node: 0) == value


def test_what_changes_something_is_impure() -> None:
    graph, x, first, _ = small()
    assert x.is_impure()
    assert not first.is_impure()
    assert graph.call_method("add_", (x, 1)).is_impure()
    assert not graph.call_method("__len__", (x,)).is_impure()
