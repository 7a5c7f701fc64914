"""Gradients, Jacobians and their compositions, beside PyTorch's."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.torch_log import Log, assert_logs_agree
from vkbackend.framework.base.device import Device

# PyTorch's own.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Attempted to insert:UserWarning"),
]


def wave(x: Any) -> Any:
    return x.sin() * x.sum()


# From a library's `func` and tensors of 4, of 3 by 4, and of 4 elements.
ROWS: dict[str, Any] = {
    "grad": lambda f, x, xs, v: f.grad(lambda x: wave(x).sum())(x),
    "twice": lambda f, x, xs, v: f.grad(
        lambda x: f.grad(lambda y: (y**3).sum())(x).sum()
    )(x),
    "several": lambda f, x, xs, v: f.grad(lambda x, y: (x * y * y).sum(), (0, 1))(x, v),
    "value": lambda f, x, xs, v: f.grad_and_value(lambda x: (x * x).sum())(x),
    "aux": lambda f, x, xs, v: f.grad(lambda x: ((x * x).sum(), x * 3), has_aux=True)(
        x
    ),
    "vjp": lambda f, x, xs, v: f.vjp(wave, x)[1](v),
    "vjp of dicts": lambda f, x, xs, v: f.vjp(lambda d: {"y": d["x"] * v}, {"x": x})[1](
        {"y": v}
    )[0]["x"],
    "batched vjp": lambda f, x, xs, v: f.vmap(f.vjp(wave, x)[1])(xs),
    "jvp": lambda f, x, xs, v: f.jvp(wave, (x,), (v,)),
    "batched jvp": lambda f, x, xs, v: f.vmap(lambda v: f.jvp(wave, (x,), (v,))[1])(xs),
    "linearize": lambda f, x, xs, v: f.linearize(wave, x)[1](v),
    "jacrev": lambda f, x, xs, v: f.jacrev(wave, chunk_size=3)(x),
    "jacfwd": lambda f, x, xs, v: f.jacfwd(lambda x: wave(x)[:3])(x),
    "jacobians": lambda f, x, xs, v: f.jacrev(
        lambda x, y: (x[:, None] * y[:2], y), (0, 1)
    )(x, v),
    "hessian": lambda f, x, xs, v: f.hessian(lambda x: wave(x).sum())(x),
    "rev rev": lambda f, x, xs, v: f.jacrev(f.jacrev(lambda x: wave(x).sum()))(x),
    "rev fwd": lambda f, x, xs, v: f.jacrev(f.jacfwd(lambda x: wave(x).sum()))(x),
    "grad of vmap": lambda f, x, xs, v: f.grad(
        lambda x: f.vmap(lambda row: (row * x).sin().sum())(xs).sum()
    )(x),
    "vmap of grad": lambda f, x, xs, v: f.vmap(
        f.grad(lambda x, row: (row * x).sin().sum()), (None, 0)
    )(x, xs),
    "vmap vmap grad": lambda f, x, xs, v: f.vmap(
        f.vmap(f.grad(lambda a, b: (a * b).sin()), (None, 0)), (0, None)
    )(x, v),
    "vmap of hessian": lambda f, x, xs, v: f.vmap(f.hessian(lambda x: wave(x).sum()))(
        xs
    ),
    "vmap of jacfwd": lambda f, x, xs, v: f.vmap(f.jacfwd(wave))(xs),
}


def flat(value: Any) -> list[np.ndarray]:
    if isinstance(value, tuple | list):
        return [each for part in value for each in flat(part)]
    return [value.detach().cpu().numpy()]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ROWS)
def test_transforms_are_those_of_torch(name: str, place: Device) -> None:
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(each).astype(np.float32) for each in [4, (3, 4), 4]]
    wanted = ROWS[name](torch.func, *[torch.tensor(each) for each in given])
    found = ROWS[name](fw.func, *[fw.tensor(each, device=place) for each in given])
    for own, other in zip(flat(found), flat(wanted), strict=True):
        assert own.shape == other.shape
        np.testing.assert_allclose(own, other, rtol=2e-5, atol=2e-5)


def tape(log: Log) -> None:
    func, x = log.library.func, log.tensor([1.0, 2.0])
    inner = func.grad(lambda y: (y**3).sum())
    log.add(inner(x.detach()).requires_grad, inner(x).requires_grad)
    log.add(log.library.autograd.grad(inner(x).sum(), x))
    log.add(func.grad(lambda y: (y * x).sum())(x.detach()).requires_grad)
    with log.library.no_grad():
        log.add(inner(x), inner(x).requires_grad)
    log.add(func.vjp(lambda y: y * 2, x.detach())[0].requires_grad)
    log.add(x.grad is None)


def refusals(log: Log) -> None:
    func, x = log.library.func, log.tensor([1.0, 2.0], grad=False)
    log.refused(lambda: func.grad(lambda x: x * 2)(x))
    log.refused(lambda: func.grad(lambda x: 2.0)(x))
    log.refused(lambda: func.grad(lambda x: x.sum(), argnums=1)(x))
    log.refused(lambda: func.vjp(lambda x: x * 2, x)[1](log.tensor([1.0])))
    log.refused(lambda: func.jvp(lambda x: x * 2, (x,), (log.tensor([1.0]),)))


@pytest.mark.parametrize("program", [tape, refusals])
def test_the_tape_outside_is_as_with_torch(program: Any) -> None:
    assert_logs_agree(program)


def test_transforms_are_replayed_under_jit(place: Device) -> None:
    per_row = fw.func.vmap(fw.func.grad(lambda x: (x**3).sum()))
    run = fw.jit(lambda x: per_row(x) * 2)
    for k in range(4):
        x = fw.full((2, 3), float(k), device=place)
        assert run(x).tolist() == [[6 * k * k] * 3] * 2


def test_functions_of_jit_run_within_transforms(place: Device) -> None:
    square = fw.jit(lambda x: (x * x).sum())
    x = fw.tensor([[1.0, 2.0], [3.0, 4.0]], device=place)
    for _ in range(3):
        assert square(x).item() == 30
        assert fw.func.vmap(square)(x).tolist() == [5, 25]
        assert fw.func.grad(square)(x[0]).tolist() == [2, 4]
        assert fw.func.vmap(fw.func.grad(square))(x).tolist() == [[2, 4], [6, 8]]
