"""Averages of weights, beside PyTorch's."""

import inspect
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim import swa_utils as theirs

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import nn
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.optim import SGD, swa_utils

AVERAGES: dict[str, tuple[str | None, tuple[float, ...]]] = {
    "equal": (None, ()),
    "swa": ("get_swa_avg_fn", ()),
    "swa of all": ("get_swa_multi_avg_fn", ()),
    "ema": ("get_ema_avg_fn", (0.9,)),
    "ema of all": ("get_ema_multi_avg_fn", (0.9,)),
}


def average(library: Any, name: str) -> dict[str, Any]:
    maker, args = AVERAGES[name]
    if maker is None:
        return {}
    keyword = "multi_avg_fn" if "multi" in maker else "avg_fn"
    return {keyword: getattr(library, maker)(*args)}


def pair(device: Any = "cpu") -> tuple[nn.Module, torch.nn.Module]:
    other = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    own = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    state = {name: each.numpy().copy() for name, each in other.state_dict().items()}
    own.load_state_dict({name: fw.tensor(each) for name, each in state.items()})
    return own.to(device), other


def assert_states_equal(own: nn.Module, other: torch.nn.Module) -> None:
    mine, expected = own.state_dict(), other.state_dict()
    assert list(mine) == list(expected)
    for name, each in expected.items():
        assert_close(mine[name].numpy(), each.numpy())


@pytest.mark.filterwarnings("ignore:jit. step runs without replay")
@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("use_buffers", [False, True])
@pytest.mark.parametrize("name", AVERAGES)
def test_averages_are_pytorchs(
    gpu: GpuDevice, name: str, use_buffers: bool, jitted: bool
) -> None:
    if use_buffers and name == "swa of all":
        pytest.skip("PyTorch's function takes no integers")
    model, other = pair(gpu)
    ours = swa_utils.AveragedModel(
        model, use_buffers=use_buffers, **average(swa_utils, name)
    )
    expected = theirs.AveragedModel(
        other, use_buffers=use_buffers, **average(theirs, name)
    )
    assert_states_equal(ours, expected)
    optimizer = SGD(model.parameters(), lr=0.01)
    other_optimizer = torch.optim.SGD(other.parameters(), lr=0.01)
    batch = torch.linspace(-1.0, 1.0, 12).reshape(4, 3) ** 2
    weight = torch.linspace(0.5, 2.0, 8).reshape(4, 2)

    def step(x: fw.Tensor, w: fw.Tensor) -> None:
        optimizer.zero_grad()
        (model(x) * w).sum().backward()
        optimizer.step()
        ours.update_parameters(model)

    run = fw.jit(step) if jitted else step
    for _ in range(5):
        run(*(fw.tensor(each.numpy()).to(gpu) for each in (batch, weight)))
        other_optimizer.zero_grad()
        (other(batch) * weight).sum().backward()
        other_optimizer.step()
        expected.update_parameters(other)
        assert_states_equal(ours, expected)


def test_updates_are_replayed(gpu: GpuDevice) -> None:
    model, _ = pair(gpu)
    ours = swa_utils.AveragedModel(
        model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.5)
    )

    @fw.jit
    def update(x: fw.Tensor) -> fw.Tensor:
        ours.update_parameters(model)
        return x + 1.0

    x = fw.ones(3, device=gpu)
    update(x)
    with fw.no_grad():
        model[0].weight.add_(1.0)
    value = model[0].weight[0, 0].item()
    for _ in range(5):
        update(x)
    assert (update.traces, update.replays) == (2, 4)
    expected = value - 1.0 / 32
    assert ours.module[0].weight[0, 0].item() == pytest.approx(expected, rel=1e-6)
    assert ours.n_averaged.item() == 6


def test_two_functions_or_another_structure_are_refused() -> None:
    model, _ = pair()
    with pytest.raises(AssertionError, match="avg_fn and multi_avg_fn were given"):
        swa_utils.AveragedModel(
            model,
            avg_fn=swa_utils.get_swa_avg_fn(),
            multi_avg_fn=swa_utils.get_swa_multi_avg_fn(),
        )
    averaged = swa_utils.AveragedModel(model)
    with pytest.raises(ValueError, match="update_parameters: the model's tensors"):
        averaged.update_parameters(nn.Linear(3, 2))
    assert averaged.n_averaged.item() == 0
    for maker in (swa_utils.get_ema_avg_fn, swa_utils.get_ema_multi_avg_fn):
        with pytest.raises(ValueError, match=r"decay is 1\.5; it must be between"):
            maker(1.5)


@pytest.mark.parametrize("training", [False, True])
def test_running_statistics_are_computed_anew(gpu: GpuDevice, training: bool) -> None:
    model, other = pair(gpu)
    batches = [torch.linspace(-1.0, k, 12).reshape(4, 3) for k in (1.0, 2.0, 5.0)]
    theirs.update_bn(batches, other.train(training))
    loader = [(fw.tensor(each.numpy()), 0) for each in batches]
    swa_utils.update_bn(loader, model.train(training), gpu)
    assert_states_equal(model, other)
    assert model.training is training
    assert model[1].momentum == 0.1


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 1, 3])
def test_the_rate_moves_to_a_constant_one(strategy: Any, epochs: int) -> None:
    own, other = pair()
    ours = swa_utils.SWALR(SGD(own.parameters(), lr=1.0), 0.1, epochs, strategy)
    expected = theirs.SWALR(
        torch.optim.SGD(other.parameters(), lr=1.0), 0.1, epochs, strategy
    )
    for _ in range(5):
        assert ours.get_last_lr() == pytest.approx(expected.get_last_lr(), abs=1e-12)
        ours.optimizer.step()
        expected.optimizer.step()
        ours.step()
        expected.step()
    resumed = swa_utils.SWALR(SGD(own.parameters(), lr=1.0), 0.1, epochs, strategy)
    resumed.load_state_dict(expected.state_dict())
    assert resumed.state_dict() == ours.state_dict()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"anneal_strategy": "sine"}, "anneal_strategy is 'sine'"),
        ({"anneal_epochs": -1}, "anneal_epochs is -1"),
        ({"swa_lr": [0.1, 0.2]}, "swa_lr has 2 numbers; there are 1 groups"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    own, _ = pair()
    optimizer = SGD(own.parameters(), lr=1.0)
    with pytest.raises(ValueError, match=message):
        swa_utils.SWALR(optimizer, **{"swa_lr": 0.1, **options})
    assert "swa_lr" not in optimizer.param_groups[0]


@pytest.mark.parametrize("name", theirs.__all__)
def test_signatures_are_pytorchs(name: str) -> None:
    ours, expected = (
        [
            (each.name, each.kind, each.default)
            for each in inspect.signature(getattr(library, name)).parameters.values()
        ]
        for library in (swa_utils, theirs)
    )
    assert ours == expected


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler:UserWarning")
def test_either_library_goes_on_from_a_state_of_the_other() -> None:
    """Averages, statistics and the rate."""

    def parts(library: Any) -> tuple[Any, Any, Any]:
        space: Any = library.optim.swa_utils
        model = library.nn.Sequential(
            library.nn.Linear(2, 2), library.nn.BatchNorm1d(2)
        )
        averaged = space.AveragedModel(model, use_buffers=True)
        made = library.optim.SGD(model.parameters(), lr=0.5)
        return model, averaged, space.SWALR(made, 0.1, anneal_epochs=4)

    def advance(library: Any, model: Any, averaged: Any, rates: Any) -> None:
        with library.no_grad():
            for each in model.parameters():
                each.mul_(1.5)
        model(library.tensor([[1.0, 2.0], [3.0, 5.0]]))
        averaged.update_parameters(model)
        rates.step()

    def numbers(averaged: Any, rates: Any) -> list[np.ndarray]:
        found = [each.numpy() for each in averaged.state_dict().values()]
        return [*found, np.array(rates.get_last_lr())]

    ours, other = parts(fw), parts(torch)
    ours[0].load_state_dict(other[0].state_dict())
    for _ in range(3):
        advance(fw, *ours)
        advance(torch, *other)
    swapped = parts(fw), parts(torch)
    arrays = {name: each.numpy() for name, each in ours[1].state_dict().items()}
    swapped[0][1].load_state_dict(other[1].state_dict())
    swapped[1][1].load_state_dict({k: torch.tensor(v) for k, v in arrays.items()})
    for (model, _, rates), (known, _, given) in zip(swapped, (other, ours)):
        state = known.state_dict().items()
        copied = {name: torch.tensor(each.numpy()) for name, each in state}
        model.load_state_dict(copied)
        rates.load_state_dict(given.state_dict())
        rates.optimizer.param_groups[0]["lr"] = given.get_last_lr()[0]
    for _ in range(3):
        for library, trained in (
            (fw, ours),
            (torch, other),
            *zip((fw, torch), swapped),
        ):
            advance(library, *trained)
    expected = numbers(*other[1:])
    for trained in (ours, *swapped):
        for found, wanted in zip(numbers(*trained[1:]), expected):
            np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)
