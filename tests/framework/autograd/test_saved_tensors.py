"""What gradient rules keep of a call."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.autograd.engine import Saved
from vkbackend.framework.autograd.saved_tensors import tape_recorder
from vkbackend.framework.dispatch.op import REGISTRY


def rule(**arguments: Any) -> tuple[str, str]:
    return "a", "b"


def kept(wanted: tuple[str, ...], given: tuple[str, ...]) -> Any:
    parameters = ("a", "b", "size"), ("a", "b"), ("out", "rest")
    return tape_recorder("op", (rule, wanted), parameters, given)


def test_each_name_is_found() -> None:
    a = fw.ones(2, requires_grad=True)
    b, out, rest = fw.ones(3), fw.zeros(4), fw.zeros(5)
    wanted = ("grad", "a", "b_spec", "size", "out", "rest", "needs")
    tape = kept(wanted, ("a", "b"))
    tape.record((a, b, 7), (a, b), (out, rest), (a.spec, b.spec))
    assert out.requires_grad
    assert not rest.requires_grad
    node = out.grad_node
    assert node is not None
    saved = node.saved
    assert saved is not None
    assert list(saved) == list(wanted[1:])
    assert (saved["size"], saved["b_spec"], saved["needs"]) == (
        7,
        b.spec,
        (True, False),
    )
    edges = {name: saved[name].edge for name in ("a", "out", "rest")}
    assert edges == {"a": 0, "out": None, "rest": -1}
    assert saved["a"].tensor().tolist() == [1.0, 1.0]


def test_an_absent_tensor_is_an_argument_and_gets_no_gradient() -> None:
    a, out = fw.ones(2, requires_grad=True), fw.zeros(2)
    tape = kept(("b", "b_spec", "needs"), ("a",))
    tape.record((a, 3.0, 0), (a,), (out,), (a.spec,))
    node = out.grad_node
    assert node is not None
    assert node.saved == {"b": 3.0, "b_spec": None, "needs": (True, False)}
    assert node.apply() == ("a",)


def test_a_saved_tensor_is_a_snapshot_of_where_it_was() -> None:
    x = fw.tensor(np.ones(3, np.float32), requires_grad=True)
    y = x * x
    assert y.grad_node is not None
    saved = next(iter((y.grad_node.saved or {}).values()))
    assert isinstance(saved, Saved)
    x.array, x.layout = fw.zeros(4).array, fw.zeros(4).layout
    assert saved.tensor().tolist() == [1.0, 1.0, 1.0]


def test_a_rule_declared_later_is_used() -> None:
    op = REGISTRY["neg"]
    assert op.tape_recorder(("x",)) is op.tape_recorder(("x",))
    assert op.tape_recorder(("x",)).rule is op.rule


@pytest.mark.parametrize("subclass", [fw.Tensor, fw.nn.Parameter])
def test_results_are_plain_tensors(subclass: type[fw.Tensor]) -> None:
    x = fw.ones(2) if subclass is fw.Tensor else subclass(fw.ones(2))
    assert type(x * x) is fw.Tensor
