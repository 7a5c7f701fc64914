"""Jacobians, Hessians and products with them, beside PyTorch's."""

from typing import Any

import pytest
import torch

from tests.torch_log import Log, assert_logs_agree

torch.autograd.functional  # noqa: B018 - it has to be there


def of(log: Log, name: str) -> Any:
    return getattr(log.library.autograd.functional, name)


def products(log: Log) -> None:
    def func(x: Any, y: Any) -> Any:
        return x * y.sum(), (x * x).sum()

    x, y = log.tensor([1.0, 2.0], grad=False), log.tensor([3.0, 4.0, 5.0], grad=False)
    one, vector = log.tensor(2.0, grad=False), log.tensor([1.0, -1.0], grad=False)
    wide = log.tensor([1.0, 0.0, 2.0], grad=False)
    log.add(of(log, "vjp")(func, (x, y), (vector, one)))
    log.add(of(log, "jvp")(func, (x, y), (vector, wide)))
    log.add(of(log, "vjp")(lambda x: (x * x).sum(), x))
    log.add(of(log, "jacobian")(func, (x, y)))
    log.add(of(log, "jacobian")(lambda x: x * x * x, x, vectorize=True))
    log.add(of(log, "jacobian")(lambda x: y * 1, x))


def second_order(log: Log) -> None:
    def func(x: Any, y: Any) -> Any:
        return (x * x * x).sum() * y.sum()

    x, y = log.tensor([1.0, 2.0], grad=False), log.tensor([3.0, 4.0, 5.0], grad=False)
    vectors = log.tensor([1.0, -1.0], grad=False), log.tensor([1.0, 0.0, 2.0], False)
    for name in ("hvp", "vhp"):
        log.add(of(log, name)(func, (x, y), vectors))
    log.add(of(log, "hessian")(func, (x, y)))
    log.add(of(log, "hessian")(lambda x: (x * x).sum(), x))
    x = log.tensor([1.0, 2.0])
    hessian = of(log, "hessian")(lambda x: (x * x * x).sum(), x, create_graph=True)
    log.add(hessian.requires_grad, log.library.autograd.grad(hessian.sum(), x))
    result, product = of(log, "jvp")(
        lambda x: x * x, x, vectors[0], create_graph=True, strict=True
    )
    log.add(result.requires_grad, log.library.autograd.grad(product.sum(), x))


def refusals(log: Log) -> None:
    x, y = log.tensor([1.0, 2.0], grad=False), log.tensor([3.0, 4.0], grad=False)
    log.refused(lambda: of(log, "vjp")(lambda x: x * 2, x))
    log.refused(lambda: of(log, "jvp")(lambda x: x * 2, x))
    log.refused(lambda: of(log, "vjp")(lambda x: x * 2, x, log.tensor([1.0])))
    log.refused(lambda: of(log, "vjp")(lambda x: y * 2, x, y, strict=True))
    log.refused(lambda: of(log, "jacobian")(lambda x: y * 2, x, strict=True))
    log.refused(lambda: of(log, "hessian")(lambda x: x * 2, x))
    log.refused(lambda: of(log, "jacobian")(lambda x: 3, x))
    log.refused(lambda: of(log, "jacobian")(lambda x: x, x, strategy="forward-mode"))


@pytest.mark.parametrize("program", [products, second_order, refusals])
def test_results_are_those_of_torch(program: Any) -> None:
    assert_logs_agree(program)
