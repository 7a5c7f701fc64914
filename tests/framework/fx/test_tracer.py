"""Traces have PyTorch's nodes and code, and compute the same."""

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.fx_programs import PROGRAMS, block, numbers
from vkbackend.framework import fx, interception

torch = pytest.importorskip("torch")
torch_fx = pytest.importorskip("torch.fx")


@pytest.fixture(autouse=True)
def _functions_are_left_as_they_were() -> Iterator[None]:
    yield
    gc.collect()
    interception.update()


def leaves(value: Any) -> list[Any]:
    """Return the arrays and numbers of a result."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [leaf for each in value for leaf in leaves(each)]
    return [np.asarray(value.detach().numpy() if hasattr(value, "detach") else value)]


def nodes_of(module: Any) -> list[tuple[str, str, str]]:
    """Return kind, name and name of the target of each node."""
    return [
        (node.op, node.name, getattr(node.target, "__name__", node.target))
        for node in module.graph.nodes
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_do_as_with_pytorch(name: str) -> None:
    ours, arguments = PROGRAMS[name](fw, fx)
    theirs, their_arguments = PROGRAMS[name](torch, torch_fx)
    assert nodes_of(ours) == nodes_of(theirs)
    # Theirs begins with the names of wrapped functions.
    assert ours.code.strip("\n") == theirs.code[theirs.code.index("def ") :]
    assert str(ours.graph) == str(theirs.graph)
    found, wanted = ours(*arguments), theirs(*their_arguments)
    for one, other in zip(leaves(found), leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    run = fx.Interpreter(ours).run(*arguments)
    for one, other in zip(leaves(run), leaves(found), strict=True):
        np.testing.assert_array_equal(one, other)


def test_branches_are_refused() -> None:
    def branch(x: Any) -> Any:
        return x if x.sum() > 0 else -x

    with pytest.raises(fx.TraceError, match="a branch depends on the value of gt"):
        fx.symbolic_trace(branch)
    with pytest.raises(fx.TraceError, match="iterated over"):
        fx.symbolic_trace(lambda x: [each for each in x])
    with pytest.raises(RuntimeError, match=r"len\(\) of the proxy x"):
        fx.symbolic_trace(lambda x: len(x))


def test_modules_and_functions_are_as_before_a_failed_trace() -> None:
    call = fw.nn.Module.__call__
    with pytest.raises(ZeroDivisionError):
        fx.symbolic_trace(lambda x: 1 // 0)
    assert fw.nn.Module.__call__ is call
    assert fw.exp(fw.zeros(1)).item() == 1.0


def scaled(x: Any, by: int) -> Any:
    """Compute what a trace does not look into."""
    return x * by if by > 1 else x


fx.wrap("scaled")


def test_wrapped_functions_are_one_node() -> None:
    module = fx.symbolic_trace(lambda x: scaled(x, 3) + scaled(1, 2))
    names = [node.name for node in module.graph.nodes]
    assert names == ["x", "scaled", "add", "output"]
    assert module(fw.ones(1)).tolist() == [5.0]
    assert scaled(2, 2) == 4
    with pytest.raises(RuntimeError, match="wrap: 3 is given"):
        fx.wrap(3)


def test_a_subclass_says_what_is_a_leaf() -> None:
    class Whole(fx.Tracer):
        def is_leaf_module(self, m: fw.nn.Module, module_qualified_name: str) -> bool:
            return module_qualified_name == "seq" or super().is_leaf_module(
                m, module_qualified_name
            )

    model = block(fw)
    graph = Whole().trace(model)
    called = [node.target for node in graph.find_nodes(op="call_module")]
    assert called == ["lin", "seq"]
    x = numbers(fw, 3, 2)
    assert fw.equal(fx.GraphModule(model, graph)(x)["z"], model(x)["z"])


def test_given_arguments_are_constants() -> None:
    def chosen(x: Any, flag: bool) -> Any:
        return x.exp() if flag else x

    module = fx.symbolic_trace(chosen, concrete_args={"flag": True})
    assert "exp" in [node.name for node in module.graph.nodes]


def test_modules_elsewhere_are_refused() -> None:
    other = fw.nn.Linear(1, 1)
    with pytest.raises(NameError, match="a Linear is called that is not below"):
        fx.symbolic_trace(lambda x: other(x))


def test_a_trace_is_trained_as_its_module(gpu: Any) -> None:
    model = fw.nn.Sequential(fw.nn.Linear(2, 4), fw.nn.Tanh(), fw.nn.Linear(4, 1))
    traced = fx.symbolic_trace(model).to(gpu)
    optimizer = fw.optim.SGD(traced.parameters(), lr=0.1)
    x = numbers(fw, 8, 2).to(gpu)
    losses = []
    for _ in range(3):
        loss = (traced(x) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[2] < losses[0]
    assert [*traced.state_dict()] == [*model.state_dict()]
