"""Graphs: insertion, erasure, checks and text."""

import copy
from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend.framework import fx


def small() -> tuple[fx.Graph, fx.Node, fx.Node]:
    """Return the graph of `exp`, its parameter and its node."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(fw.exp, (x,))
    graph.output(y)
    return graph, x, y


def test_nodes_are_inserted_in_order() -> None:
    graph, x, y = small()
    with graph.inserting_after(x):
        graph.call_method("neg", (x,))
        graph.call_method("abs", (x,))
    with graph.inserting_before(y):
        graph.call_method("sin", (x,))
    with graph.inserting_before():
        graph.get_attr("w")
    names = [node.name for node in graph.nodes]
    assert names == ["w", "x", "neg", "abs_1", "sin", "exp", "output"]
    assert len(graph.nodes) == 7
    assert graph.output_node().args == (y,)
    assert graph.find_nodes(op="call_method", target="sin")[0].name == "sin"


def test_used_nodes_are_not_erased() -> None:
    graph, x, y = small()
    with pytest.raises(RuntimeError, match="erase_node: exp has 1 users, output"):
        graph.erase_node(y)
    graph.output_node().args = (x,)
    graph.erase_node(y)
    assert not graph.eliminate_dead_code()
    assert [*x.users] == [graph.output_node()]


def test_nodes_of_other_graphs_are_refused() -> None:
    _, x, _ = small()
    with pytest.raises(ValueError, match="the argument x is in another graph"):
        fx.Graph().call_function(fw.exp, (x,))


def test_lint_finds_what_cannot_run() -> None:
    graph, x, y = small()
    graph.lint()
    x.prepend(y)
    with pytest.raises(RuntimeError, match="exp takes x, which comes after it"):
        graph.lint()
    other, _, _ = small()
    with other.inserting_before(other.output_node()):
        other.get_attr("weight")
    other.owning_module = fw.nn.Linear(1, 1, bias=False)
    other.lint()
    other.owning_module = fw.nn.ReLU()
    with pytest.raises(RuntimeError, match="get_attr of 'weight', which the module"):
        other.lint()


def test_a_copy_has_nodes_of_its_own() -> None:
    graph, x, y = small()
    x.meta["k"] = 1
    copied = copy.deepcopy(graph)
    assert str(copied) == str(graph)
    assert not {*copied.nodes} & {*graph.nodes}
    assert next(iter(copied.nodes)).meta == {"k": 1}
    values: dict[fx.Node, Any] = {}
    result, node = fx.Graph().graph_copy(graph, values, return_output_node=True)
    assert (result, node) == (values[y], graph.output_node())


def test_names_are_unique_and_legal(capsys: pytest.CaptureFixture[str]) -> None:
    graph = fx.Graph()
    names = [graph.placeholder(each).name for each in ("a", "a", "sum", "if", "b.0")]
    assert names == ["a", "a_1", "sum_1", "if_1", "b_0"]
    graph.print_tabular()
    assert capsys.readouterr().out.splitlines()[0].split() == [
        *("opcode", "name", "target", "args", "kwargs")
    ]
