"""`grad` and `backward` beside PyTorch's."""

import pytest

from tests.torch_log import Log, assert_logs_agree
from vkbackend.framework.base.device import Device


def gradients(log: Log) -> None:
    autograd, x = log.library.autograd, log.tensor([1.0, 2.0, 3.0])
    y = x * 2
    z = (y * y).sum()
    other = log.tensor([1.0])
    log.add(autograd.grad(z, [x, y], retain_graph=True))
    log.add(autograd.grad(z, [x, other], retain_graph=True, allow_unused=True))
    log.add(autograd.grad(z, [x, other], retain_graph=True, materialize_grads=True))
    log.add(autograd.grad([z, y], x, [None, log.tensor([1.0, 0.0, 2.0])]))
    log.add(autograd.grad(other, other))
    (first,) = autograd.grad((x**3).sum(), x, create_graph=True)
    log.add(first.requires_grad, autograd.grad(first.sum(), x))
    rows = log.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 2.0]])
    log.add(autograd.grad(x * x, x, rows, is_grads_batched=True))


def accumulation(log: Log) -> None:
    autograd, x = log.library.autograd, log.tensor([1.0, 2.0])
    autograd.backward([x.sum(), (x * x).sum()])
    log.add(x.grad)
    y = x * 3
    (y * y).sum().backward(inputs=y)
    log.add(y.grad, x.grad)
    (x * 2).backward(gradient=log.tensor([1.0, 3.0], grad=False), inputs=[x])
    log.add(x.grad)


def refusals(log: Log) -> None:
    autograd, x = log.library.autograd, log.tensor([1.0, 2.0])
    y = x * 2
    z = (y * y).sum()
    log.refused(lambda: autograd.grad(z, log.tensor([1.0]), retain_graph=True))
    log.refused(lambda: autograd.grad(y, x))
    log.refused(lambda: autograd.grad(z, log.tensor([1.0], grad=False)))
    log.refused(lambda: autograd.grad(log.tensor([1.0], grad=False), x))
    log.refused(lambda: autograd.grad(z, []))
    log.refused(lambda: autograd.grad(z, x, allow_unused=False, materialize_grads=True))
    log.refused(lambda: y.backward(1.0))
    log.refused(lambda: z.backward(inputs=[]))
    z.backward()
    log.refused(z.backward)


@pytest.mark.parametrize("program", [gradients, accumulation])
def test_gradients_are_those_of_torch(program: object, place: Device) -> None:
    assert_logs_agree(program, place)  # type: ignore[arg-type]  # a function


@pytest.mark.torch213
def test_refusals_are_those_of_torch() -> None:
    assert_logs_agree(refusals)


def only_what_is_needed(log: Log) -> None:
    x, y = log.tensor([2.0]), log.tensor([3.0])
    left, right = x * 2, y * 2
    right.register_hook(lambda grad: log.add("not needed"))
    left.register_hook(lambda grad: log.add("needed", grad))
    log.add(log.library.autograd.grad(left * right, left))


def test_rules_that_no_input_needs_do_not_run() -> None:
    assert_logs_agree(only_what_is_needed)


def accumulated_in_place(log: Log) -> None:
    x, y = log.tensor([1.0, 2.0]), log.tensor([3.0])
    flat = log.library.zeros(3, device=log.place)
    x.grad, y.grad = flat[:2], flat[2:]
    (x * x).sum().backward()
    (y * y).sum().backward()
    log.add(flat, x.grad)
    first = x.grad
    (x * 3).sum().backward()
    log.add(flat, first is x.grad)
    z = log.tensor([1.0])
    (z * 2).sum().backward()
    before = z.grad
    (z * 3).sum().backward()
    log.add(before, before is z.grad)


def test_gradients_are_added_in_their_storage(place: Device) -> None:
    assert_logs_agree(accumulated_in_place, place)
