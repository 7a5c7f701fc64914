"""Trainer: the steps that one would write, replayed or not."""

from typing import Any

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from tests.memory_limit import room_for
from vkbackend.framework import nn, optim
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.optim.trainer import FRESH_CLOSURES


def data(count: int = 5) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(4)
    return [
        (
            rng.normal(size=(9, 4)).astype(np.float32),
            rng.integers(0, 3, 9).astype(np.int32),
        )
        for _ in range(count)
    ]


def model_on(place: Device) -> nn.Module:
    fw.manual_seed(2)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).to(place)


@pytest.mark.parametrize("max_norm", [None, 0.1])
@pytest.mark.parametrize("use_jit", [False, True])
def test_steps_are_those_written_out(
    use_jit: bool, max_norm: float | None, place: Device
) -> None:
    found, expected = model_on(place), model_on(place)
    trainer = optim.Trainer(
        optim.AdamW(found.parameters(), 1e-2), max_norm=max_norm, use_jit=use_jit
    )
    optimizer = optim.AdamW(expected.parameters(), 1e-2)

    def loss_of(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        return nn.functional.cross_entropy(found(x), y)

    losses = []
    for x, y in data():
        loss = trainer.train_step(loss_of, x, fw.tensor(y))
        optimizer.zero_grad()
        other = nn.functional.cross_entropy(
            expected(fw.tensor(x, device=place)), fw.tensor(y, device=place)
        )
        other.backward()
        if max_norm is not None:
            optim.clip_grad_norm_(expected.parameters(), max_norm)
        optimizer.step()
        assert float(loss) == float(other)
        losses.append(float(loss))
    for one, two in zip(found.parameters(), expected.parameters()):
        np.testing.assert_array_equal(one.detach().numpy(), two.detach().numpy())
    assert trainer.steps == len(losses)
    assert trainer.epoch_avg_loss() == pytest.approx(np.mean(losses), rel=1e-6)
    trainer.reset_epoch()
    assert (trainer.steps, trainer.epoch_avg_loss()) == (0, 0.0)
    last = float(trainer.train_step(loss_of, *data()[0]))
    assert trainer.epoch_avg_loss() == pytest.approx(last, rel=1e-6)


@pytest.mark.core
def test_a_warm_step_is_one_submission(gpu: GpuDevice) -> None:
    model = model_on(gpu)
    trainer = optim.Trainer(optim.AdamW(model.parameters()))
    batches = [(fw.tensor(x, device=gpu), fw.tensor(y, device=gpu)) for x, y in data(6)]

    def loss_of(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        return nn.functional.cross_entropy(model(x), y)

    for k, batch in enumerate(batches):
        before = gpu.gpu.counters.snapshot()
        trainer.train_step(loss_of, *batch)
        change = gpu.gpu.counters - before
        if k >= 2:
            assert (change.submits, change.host_reads, change.uploads) == (1, 0, 0)


def test_fresh_closures_are_not_traced_for_ever(place: Device) -> None:
    found, expected = model_on(place), model_on(place)
    trainer = optim.Trainer(optim.SGD(found.parameters(), 0.1))
    other = optim.Trainer(optim.SGD(expected.parameters(), 0.1), use_jit=False)

    def loss_of(model: nn.Module, batch: Any) -> fw.Tensor:
        x, y = (fw.tensor(each, device=place) for each in batch)
        return nn.functional.cross_entropy(model(x), y)

    for batch in data(FRESH_CLOSURES + 3):
        one = trainer.train_step(lambda batch=batch: loss_of(found, batch))
        two = other.train_step(lambda batch=batch: loss_of(expected, batch))
        assert float(one) == float(two)
    assert len(trainer._replayed) == FRESH_CLOSURES


def test_the_bound_must_be_positive() -> None:
    optimizer = optim.SGD([fw.ones(1, requires_grad=True)], 0.1)
    with pytest.raises(ValueError, match="max_norm is 0"):
        optim.Trainer(optimizer, max_norm=0)


@pytest.mark.parametrize("use_jit", [False, True])
@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_it_goes_on_after_a_step_that_did_not_end(
    use_jit: bool,
    error: type[BaseException],
    gpu: GpuDevice,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was unscaled in it does not count for the next."""
    model = nn.Linear(2, 1).to(gpu)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    trainer = optim.Trainer(
        optimizer, max_norm=1.0, use_jit=use_jit, scaler=fw.GradScaler(init_scale=8.0)
    )
    x, y = fw.ones((4, 2), device=gpu), fw.ones((4, 1), device=gpu)

    def loss(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        return nn.functional.mse_loss(model(x), y)

    def failing(*_: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(optim.trainer, "clip_grad_norm_", failing)
        with pytest.raises(error):
            trainer.train_step(loss, x, y)
    before = model.weight.detach().numpy()
    trainer.train_step(loss, x, y)
    assert trainer.steps == 1
    assert (model.weight.detach().numpy() != before).all()


@pytest.mark.parametrize("taken", [False, True])
def test_a_step_counts_if_the_device_makes_it(
    taken: bool, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_on(gpu)
    trainer = optim.Trainer(optim.SGD(model.parameters(), lr=0.1))
    x, y = (fw.tensor(each, device=gpu) for each in data(1)[0])

    def loss(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        return nn.functional.cross_entropy(model(x), y)

    losses = [trainer.train_step(loss, x, y).item() for _ in range(3)]
    submit = vkbackend.Recording.submit

    def interrupted(*args: Any) -> None:
        if taken:
            submit(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(vkbackend.Recording, "submit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            trainer.train_step(loss, x, y)
    assert trainer.steps == 3 + taken
    if not taken:
        assert trainer.epoch_avg_loss() == pytest.approx(np.mean(losses))


@pytest.mark.parametrize("use_jit", [pytest.param(False, marks=pytest.mark.wide), True])
def test_a_step_without_memory_does_not_count(use_jit: bool, gpu: GpuDevice) -> None:
    model = nn.Linear(4, 3).to(gpu)
    trainer = optim.Trainer(optim.SGD(model.parameters(), lr=0.1), use_jit=use_jit)

    def loss(x: fw.Tensor) -> fw.Tensor:
        return model(x).square().mean()

    small, large = fw.ones((2, 4), device=gpu), fw.ones((3_000_000, 4), device=gpu)
    fw.eval()
    with room_for(gpu.gpu, 0), pytest.raises(MemoryError):
        trainer.train_step(loss, large)
    assert trainer.steps == 0
    mean = trainer.train_step(loss, small).item()
    assert (trainer.steps, trainer.epoch_avg_loss()) == (1, mean)
