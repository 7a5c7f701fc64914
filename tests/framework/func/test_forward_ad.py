"""Dual tensors are those of PyTorch: their tangents, errors and gradients."""

from typing import Any

import pytest
import torch

import vkbackend.framework as fw
from tests.torch_log import Log, assert_logs_agree
from vkbackend.framework.base.device import Device


def _tensors(log: Log) -> tuple[Any, Any, Any]:
    lib = log.library
    x = lib.tensor([1.0, 2.0], device=log.place)
    return lib.autograd.forward_ad, x, lib.tensor([1.0, 3.0], device=log.place)


def results(log: Log) -> None:
    lib = log.library
    ad, x, t = _tensors(log)
    with ad.dual_level():
        d = ad.make_dual(x, t)
        product = d * x
        summed = d.cumsum(0)
        with lib.no_grad():
            scaled = lib.cat([d * 3, x]) @ lib.cat([x, d])
        found = (d, product, summed, scaled, d.max(0)[0], d.unbind()[1], d.double())
        log.add(*[ad.unpack_dual(each).tangent for each in found])
        log.add(*[ad.unpack_dual(each).tangent for each in (x, d > 1, d.detach())])
    log.add(ad.unpack_dual(d).tangent)


def changes(log: Log) -> None:
    lib = log.library
    ad, x, t = _tensors(log)
    with ad.dual_level():
        d = ad.make_dual(x, t)
        y = d.clone()
        y.mul_(x)
        whole = lib.zeros(4, device=log.place)
        whole[:2] = d
        part = whole[1:]
        part *= 2
        y[0] = 5.0
        log.add(*[ad.unpack_dual(each).tangent for each in (y, whole, part)])
        log.add(y, whole, t)


def gradients(log: Log) -> None:
    """Ask for gradients of tangents, and for tangents of gradients."""
    lib = log.library
    ad, x, t = _tensors(log)
    x.requires_grad_()
    with ad.dual_level():
        y = (ad.make_dual(x, t) ** 3).sum()
        primal, tangent = ad.unpack_dual(y)
        log.add(primal, tangent)
        log.add(lib.autograd.grad(tangent, x, retain_graph=True)[0])
        (slope,) = lib.autograd.grad(y, x, create_graph=True)
        log.add(slope, ad.unpack_dual(slope).tangent)


def functions(log: Log) -> None:
    lib = log.library

    class Product(lib.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_forward(x, y)
            return x * y

        @staticmethod
        def jvp(ctx: Any, x_t: Any, y_t: Any) -> Any:
            x, y = ctx.saved_tensors
            return 10 * x_t * y + (0 if y_t is None else y_t * x)

    ad, x, t = _tensors(log)
    model = lib.nn.Linear(2, 1).to(log.place)
    with lib.no_grad():
        model.weight.fill_(0.5)
    weight = model.weight
    with ad.dual_level():
        log.add(ad.unpack_dual(Product.apply(ad.make_dual(x, t), x)).tangent)
        log.add(ad.unpack_dual(Product.apply(*[ad.make_dual(x, t)] * 2)).tangent)
        del model.weight
        model.weight = ad.make_dual(weight.detach(), lib.ones_like(weight))
        log.add(ad.unpack_dual(model(x)).tangent)


# PyTorch compiles its forward rules with what it has deprecated.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("program", [results, changes, gradients, functions])
def test_tangents_are_those_of_torch(program: Any, place: Device) -> None:
    assert_logs_agree(program, place)


def refusals(lib: Any) -> list[Any]:
    ad = lib.autograd.forward_ad
    x, places = lib.ones(2), lib.arange(2)

    def nested() -> None:
        with ad.dual_level():
            pass

    def twice() -> None:
        ad.make_dual(ad.make_dual(x, x), x)

    calls = [
        nested,
        twice,
        lambda: ad.make_dual(x, lib.ones(3)),
        lambda: ad.make_dual(places, x),
        lambda: ad.make_dual(x, places),
    ]
    found = []
    for call in calls:
        with ad.dual_level(), pytest.raises(Exception) as raised:  # noqa: PT011
            call()
        found.append(raised)
    with pytest.raises(Exception) as raised:  # noqa: PT011
        ad.make_dual(x, x)
    found.append(raised)
    with pytest.raises(Exception) as raised:  # noqa: PT011
        ad.exit_dual_level()
    return [*found, raised]


def test_errors_are_of_the_classes_of_torch() -> None:
    for own, wanted in zip(refusals(fw), refusals(torch), strict=True):
        assert isinstance(own.value, wanted.type), own.value
