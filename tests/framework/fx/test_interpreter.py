"""Interpreters run graphs node by node."""

from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend.framework import fx


class Names(fx.Interpreter):
    """Notes the nodes that run."""

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Return the names, and the result."""
        self.names: list[str] = []
        return self.names, super().run(*args, **kwargs)

    def run_node(self, n: fx.Node) -> Any:
        """Note a node."""
        self.names.append(n.name)
        return super().run_node(n)


def test_nodes_run_in_order() -> None:
    module = fx.symbolic_trace(lambda x, y=3: (x + y).exp())
    names, result = Names(module).run(fw.zeros(1) - 3)
    assert names == ["x", "y", "add", "exp", "output"]
    assert result.item() == 1.0
    with pytest.raises(RuntimeError, match="no value for x"):
        fx.Interpreter(module).run()


def test_results_are_dropped_after_their_last_use() -> None:
    module = fx.symbolic_trace(lambda x: x.exp().neg())
    interpreter = fx.Interpreter(module)
    interpreter.run(fw.zeros(1))
    assert [node.name for node in interpreter.env] == ["neg", "output"]
    kept = fx.Interpreter(module, garbage_collect_values=False)
    kept.run(fw.zeros(1))
    assert len(kept.env) == 4


def test_given_results_do_not_run() -> None:
    module = fx.symbolic_trace(lambda x: x.exp().neg())
    exp = module.graph.find_nodes(op="call_method")[0]
    x = next(iter(module.graph.nodes))
    names, result = Names(module).run(initial_env={x: None, exp: fw.ones(1)})
    assert (names, result.item()) == (["neg", "output"], -1.0)


def test_transforming_keeps_the_parameters() -> None:
    model = fx.symbolic_trace(fw.nn.Sequential(fw.nn.Linear(2, 2), fw.nn.ReLU()))
    copied = fx.Transformer(model).transform()
    x = fw.ones(1, 2)
    assert fw.equal(copied(x), model(x))
    assert next(copied.parameters()) is next(model.parameters())
