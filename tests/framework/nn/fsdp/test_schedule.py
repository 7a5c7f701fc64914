"""Units are gathered ahead of their use, freed after it, and exchanged late."""

from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend.framework import nn
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.nn.fsdp import schedule
from vkbackend.framework.nn.fsdp.unit import FlatParameters


@pytest.fixture(name="events")
def _events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what happens to units, by the widths of their layers."""
    found: list[str] = []

    def watch(name: str) -> None:
        method: Any = getattr(FlatParameters, name)

        def call(self: FlatParameters, *args: Any) -> Any:
            before = self.gathered
            result = method(self, *args)
            if name == "accumulate" or self.gathered is not before:
                found.append(f"{name} {self.entries[0].shape[0]}")
            return result

        monkeypatch.setattr(FlatParameters, name, call)

    for each in ("gather", "free", "accumulate"):
        watch(each)
    return found


def made(**options: Any) -> nn.FSDP:
    layers = [nn.Linear(width, width + 1) for width in (1, 2, 3)]
    model = nn.Sequential(*layers)
    return nn.FSDP(model, fw.distributed.init(), auto_wrap_policy="children", **options)


def test_order(events: list[str]) -> None:
    model = made()
    loss = model(fw.ones(1, 1)).sum()
    forward = [f"{what} {at}" for at in (2, 3, 4) for what in ("gather", "free")]
    assert events == forward
    events.clear()
    loss.backward()
    assert events == [
        *("gather 4", "gather 3", "free 4"),
        *("gather 2", "accumulate 4", "free 3"),
        *("accumulate 3", "free 2", "accumulate 2"),
    ]


def test_order_in_a_trace(
    events: list[str], gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next units are gathered first, and the last one stays for the way back."""
    model = made().to(gpu)

    @fw.jit
    def step(x: fw.Tensor) -> fw.Tensor:
        model.zero_grad()
        loss = model(x).sum()
        loss.backward()
        return loss.detach()

    step(fw.ones(1, 1, device=gpu))
    assert events == [
        *("gather 2", "gather 3", "free 2", "gather 4", "free 3"),
        *("gather 3", "free 4", "gather 2", "accumulate 4", "free 3"),
        *("accumulate 3", "free 2", "accumulate 2"),
    ]
    monkeypatch.setattr(schedule, "PREFETCH_SHARE", 1)
    again = fw.jit(step.__wrapped__)
    events.clear()
    again(fw.ones(1, 1, device=gpu))
    assert events[:3] == ["gather 2", "gather 3", "gather 4"]
    assert [each for each in events if each.startswith("gather")][3:] == [
        *("gather 3", "gather 2")
    ]


def test_what_stays_is_freed_at_the_end_of_a_trace(gpu: GpuDevice) -> None:
    """Also where no backward pass follows; one after it gathers again."""
    model = made().to(gpu)

    @fw.jit
    def forward(x: fw.Tensor) -> fw.Tensor:
        return model(x).sum().detach()

    for _ in range(3):
        found = forward(fw.ones(1, 1, device=gpu)).item()
        assert not any(
            each.gathered for unit in model._schedule.units for each in unit.flats
        )
    assert found == forward(fw.ones(1, 1, device=gpu)).item()
    assert forward.replays == 3


def test_gathered_until_backward(events: list[str]) -> None:
    model = made(reshard_after_forward=False)
    loss = model(fw.ones(1, 1)).sum()
    assert events == ["gather 2", "gather 3", "gather 4"]
    events.clear()
    loss.backward()
    assert not any(each.startswith("gather") for each in events)
    with fw.no_grad():
        events.clear()
        model(fw.ones(1, 1))
    assert sorted(events) == sorted(
        f"{what} {at}" for at in (2, 3, 4) for what in ("gather", "free")
    )


def test_errors_leave_nothing_gathered(events: list[str]) -> None:
    model = made()
    with pytest.raises(ValueError, match="2"):
        model(fw.ones(1, 2))
    assert events == ["gather 2", "free 2"]
    assert model.module[0].weight.shape == (2,)

    def fail(*_: Any) -> None:
        raise KeyError("a hook")

    handle = model.module[1].register_full_backward_pre_hook(fail)
    loss = model(fw.ones(1, 1)).sum()
    with pytest.raises(KeyError):
        loss.backward()
    handle.remove()
    events.clear()
    model(fw.ones(1, 1)).sum().backward()
    assert [each.grad is not None for each in model.parameters()] == [True] * 6
    assert sum(each.startswith("gather") for each in events) <= 6


def test_a_block_that_is_called_twice() -> None:
    plain = nn.Linear(2, 2)
    model = nn.FSDP(nn.Sequential(nn.Linear(2, 2)), fw.distributed.init())
    model.load_state_dict({f"0.{key}": x for key, x in plain.state_dict().items()})
    x = fw.ones(1, 2)
    plain(plain(x).tanh()).sum().backward()
    model(model(x).tanh()).sum().backward()
    for own, right in zip(model.parameters(), plain.parameters()):
        assert fw.allclose(own.grad, right.grad.reshape(-1))
