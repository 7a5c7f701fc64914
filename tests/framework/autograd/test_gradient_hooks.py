"""Hooks, kept gradients and what else a tensor tells of the tape, beside PyTorch's."""

import pytest

import vkbackend.framework as fw
from tests.torch_log import Log, assert_logs_agree
from vkbackend.framework.base.device import Device


def order(log: Log) -> None:
    x = log.tensor([1.0, 2.0])
    y = x * x
    z = (y * y).sum()
    y.register_hook(lambda grad: log.add("first", grad))
    y.retain_grad()
    handle = y.register_hook(lambda grad: grad * 2)
    y.grad_fn.register_hook(lambda grads, outputs: log.add("after", grads, outputs))
    y.grad_fn.register_prehook(lambda outputs: log.add("before", outputs))
    x.register_post_accumulate_grad_hook(lambda leaf: log.add("added", leaf.grad))
    x.register_hook(lambda grad: log.add("leaf", grad))
    z.backward(retain_graph=True)
    log.add(y.grad, x.grad, y.retains_grad, x.retains_grad, y.is_leaf, y.output_nr)
    handle.remove()
    x.grad = y.grad = None
    z.backward(inputs=[x])
    log.add(x.grad, y.grad)


def replaced(log: Log) -> None:
    x = log.tensor([2.0])
    y = x * 3
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 5,))
    with x.register_hook(lambda grad: grad + 1):
        y.sum().backward(retain_graph=True)
    log.add(x.grad)
    y.sum().backward()
    log.add(x.grad)
    accumulate = (x * 1).grad_fn.next_functions[0][0]
    accumulate.register_hook(lambda *_: log.add("accumulated"))
    log.add(accumulate.variable is x)
    (x * 1).sum().backward()


def kept_in_place(log: Log) -> None:
    x = log.tensor([1.0])
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    y.sum().backward()
    log.add(y.grad, x.grad, y.retains_grad)


@pytest.mark.parametrize("program", [order, replaced, kept_in_place])
def test_hooks_are_those_of_torch(program: object, place: Device) -> None:
    assert_logs_agree(program, place)  # type: ignore[arg-type]  # a function


def refusals(log: Log) -> None:
    x = log.tensor([1.0, 2.0])
    y, plain = x * 2, log.tensor([1], grad=False)
    log.refused(lambda: setattr(y, "requires_grad", False))
    log.refused(lambda: setattr(x, "requires_grad", 1))
    log.refused(lambda: setattr(plain, "requires_grad", True))
    log.refused(lambda: plain.requires_grad_())
    log.refused(lambda: setattr(x, "grad", 1.0))
    log.refused(lambda: setattr(x, "grad", log.tensor([1.0])))
    log.refused(lambda: setattr(x, "grad", x))
    log.refused(plain.retain_grad)
    log.refused(lambda: plain.register_hook(print))
    log.refused(lambda: y.register_post_accumulate_grad_hook(print))
    log.refused((x * 2)[0].detach_)
    x.register_hook(lambda grad: 3)
    log.refused(y.sum().backward)
    z = log.tensor([1.0])
    z.register_hook(lambda grad: log.library.ones(5))
    log.refused((z * 2).sum().backward)
    log.add(y.detach_().requires_grad, y.is_leaf, x._version)
    with log.library.no_grad():
        x.add_(1)
    log.add(x._version)


def test_refusals_are_those_of_torch() -> None:
    assert_logs_agree(refusals)


def test_the_gradient_of_a_result_warns() -> None:
    x = fw.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="retain_grad"):
        assert (x * 2).grad is None


def test_a_jitted_step_sees_hooks_come_and_go(place: Device) -> None:
    x = fw.ones(2, device=place, requires_grad=True)

    @fw.jit
    def step() -> fw.Tensor:
        x.grad = None
        (x * 3).sum().backward()
        return x.grad * 1

    assert [step().tolist() for _ in range(3)] == [[3, 3]] * 3
    handle = x.register_hook(lambda grad: grad * 2)
    assert [step().tolist() for _ in range(3)] == [[6, 6]] * 3
    handle.remove()
    assert step().tolist() == [3, 3]
