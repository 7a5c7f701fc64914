"""Clipping plans: the same as PyTorch's, and only on unshared gradients."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import optim
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.optim import clip_plan

SHAPES = ((3, 7), (11,), (), (2, 3, 4))


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clip_plan, "_plan_caches", type(clip_plan._plan_caches)())


class Pair:
    """Parameters here and in PyTorch."""

    def __init__(self, gpu: GpuDevice, rng: np.random.Generator) -> None:
        self.gpu, self.rng = gpu, rng
        self.mine = [fw.zeros(s, device=gpu, requires_grad=True) for s in SHAPES]
        self.other = [torch.zeros(s, requires_grad=True) for s in SHAPES]

    def renew(self) -> None:
        """Give both new gradients."""
        for x, y in zip(self.mine, self.other):
            grad = np.asarray(self.rng.normal(size=x.shape), np.float32)
            x.grad, y.grad = fw.tensor(grad, device=self.gpu), torch.tensor(grad)

    def clip(self, max_norm: float) -> None:
        """Clip both, and compare."""
        found = optim.clip_grad_norm_(self.mine, max_norm)
        expected = torch.nn.utils.clip_grad_norm_(self.other, max_norm)
        assert_close(found, expected.numpy())
        self.compare()

    def compare(self) -> None:
        for x, y in zip(self.mine, self.other):
            assert y.grad is not None
            assert_close(x.grad, y.grad.numpy())


def kept(gpu: GpuDevice) -> int:
    return len(clip_plan._plan_caches[gpu].ready)


@pytest.fixture
def pair(gpu: GpuDevice, rng: np.random.Generator) -> Pair:
    return Pair(gpu, rng)


def test_new_gradients_are_clipped_alike(pair: Pair) -> None:
    for _ in range(4):
        pair.renew()
        pair.clip(0.5)
        pair.clip(0.25)
    assert kept(pair.gpu) == 2
    assert clip_plan._plan_caches[pair.gpu].misses == 0


def test_pending_gradients_are_computed_first(pair: Pair) -> None:
    for turn in range(4):
        pair.renew()
        for x, y in zip(pair.mine, pair.other):
            assert x.grad is not None
            assert y.grad is not None
            x.grad, y.grad = (x.grad * 2.0).exp(), (y.grad * 2.0).exp()
        before = pair.gpu.gpu.counters.snapshot()
        pair.clip(0.5)
        if turn:
            # One submission for both; the others read what is compared.
            change = pair.gpu.gpu.counters.snapshot() - before
            assert change.submits <= 1 + 2 * (1 + len(SHAPES))


def test_what_others_hold_stays(pair: Pair) -> None:
    for _ in range(4):
        pair.renew()
        held = [x.grad.numpy() for x in pair.mine if x.grad is not None]
        copies = [x.grad.alias() for x in pair.mine if x.grad is not None]
        pair.clip(0.5)
        for copy, expected in zip(copies, held):
            assert (copy.numpy() == expected).all()


def test_a_gradient_that_is_shared(gpu: GpuDevice) -> None:
    x, y = (fw.zeros(3, device=gpu, requires_grad=True) for _ in range(2))
    for turn in range(6):
        x.grad = fw.tensor([3.0, 0.0, 0.0], device=gpu)
        y.grad = x.grad if turn % 2 else fw.tensor([0.0, 4.0, 0.0], device=gpu)
        norm = optim.clip_grad_norm_([x, y], 1.0)
        assert norm.item() == pytest.approx(18**0.5 if turn % 2 else 5.0)


def test_others_see_that_it_changed(gpu: GpuDevice) -> None:
    x = fw.zeros(3, device=gpu, requires_grad=True)
    for _ in range(4):
        x.grad = fw.ones(3, device=gpu)
        version = x.grad.array.version
        optim.clip_grad_norm_([x], 1.0)
        assert x.grad.array.version > version


def test_a_norm_is_not_written_over(pair: Pair) -> None:
    norms, expected = [], []
    for _ in range(5):
        pair.renew()
        norms.append(optim.clip_grad_norm_(pair.mine, 1.0))
        expected.append(torch.nn.utils.clip_grad_norm_(pair.other, 1.0))
    for norm, wanted in zip(norms, expected):
        assert_close(norm, wanted.numpy())


def test_other_layouts_are_another_kind(pair: Pair) -> None:
    def turn(x: Any) -> Any:
        return fw.tensor(np.ascontiguousarray(x.numpy().T), device=pair.gpu).mT

    for number in range(6):
        pair.renew()
        if number % 2:
            pair.mine[0].grad = turn(pair.mine[0].grad)
        pair.clip(0.5)
    assert kept(pair.gpu) == 2


def test_calls_that_never_come_again_are_not_recorded_for_long(pair: Pair) -> None:
    for turn in range(20):
        pair.renew()
        pair.clip(0.5 + turn)
    assert clip_plan._plan_caches[pair.gpu].misses == 20
    assert kept(pair.gpu) <= clip_plan.MAX_PLANS


def test_it_is_the_same_within_jit(pair: Pair) -> None:
    x = pair.mine[1]

    def step() -> Sequence[Any]:
        x.grad = x * 0.0 + 2.0
        return optim.clip_grad_norm_([x], 1.0), x.grad.detach()

    expected = 2 * 11**0.5
    replayed = fw.jit(step)
    for run in (step, step, step, replayed, replayed, step):
        norm, grad = run()
        assert norm.item() == pytest.approx(expected)
        assert grad.numpy() == pytest.approx(2 / expected)
