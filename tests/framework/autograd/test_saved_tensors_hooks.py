from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.torch_log import Log, assert_logs_agree
from vkbackend.framework.autograd import graph, saved_tensors
from vkbackend.framework.autograd.tape import GradNode
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import GradError


def hooks(log: Log) -> None:
    class Product(log.library.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            x, y = ctx.saved_tensors
            return grad * y, grad * x

    def pack(x: Any) -> Any:
        log.add("pack", x)
        return "packed", x * 2

    def unpack(packed: Any) -> Any:
        log.add("unpack", packed[1])
        return packed[1]

    x, y = log.tensor([1.0, 2.0]), log.tensor([3.0, 4.0])
    with log.library.autograd.graph.saved_tensors_hooks(pack, unpack):
        product = x * y
        other = Product.apply(x, y)
    (first,) = log.library.autograd.grad(product.sum(), x, create_graph=True)
    log.add(first)
    other.sum().backward()
    log.add(x.grad, y.grad)


def changed(log: Log) -> None:
    x = log.tensor([1.0, 2.0])
    with log.library.autograd.graph.allow_mutation_on_saved_tensors():
        y = x * 1
        z = y * y
        y.add_(1)
        z.sum().backward()
    log.add(x.grad)


@pytest.mark.parametrize("program", [changed])
def test_hooks_are_those_of_torch(program: Any, place: Device) -> None:
    assert_logs_agree(program, place)


def test_nodes_keep_what_the_hook_packs() -> None:
    log = Log(fw, "cpu")
    hooks(log)
    names = [each[0] for each in log.entries if isinstance(each[0], str)]
    assert names == ["pack"] * 4 + ["unpack"] * 4
    assert log.entries[-1] == [[6, 8], [2, 4]]
    assert saved_tensors.make_node is GradNode


def test_saved_tensors_wait_on_the_host(place: Device) -> None:
    x = fw.tensor([0.5, 1.5], device=place, requires_grad=True)
    with graph.save_on_cpu():
        y = (x.exp() * x).sum()
    y.backward()
    data = x.detach().numpy()
    np.testing.assert_allclose(x.grad.numpy(), np.exp(data) * (1 + data), rtol=1e-6)


def test_hooks_can_be_refused() -> None:
    with graph.disable_saved_tensors_hooks("not here"):
        with pytest.raises(GradError, match="not here"), graph.save_on_cpu():
            pass
    assert saved_tensors.make_node is GradNode
