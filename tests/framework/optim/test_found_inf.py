"""Steps that are skipped on the device."""

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework import optim
from vkbackend.framework.base.device import Device
from vkbackend.framework.optim.found_inf import SKIPPED, without_skipped


def guarded(optimizer: optim.Optimizer, x: fw.Tensor, skip: bool) -> None:
    x.grad = fw.ones_like(x)
    optimizer.step_unless(fw.tensor(skip, device=x.device))


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.AdamW])
def test_a_skipped_step_is_none(kind: type[optim.Optimizer], place: Device) -> None:
    start = np.arange(6, dtype=np.float32).reshape(2, 3)
    found, expected = (
        fw.tensor(start, device=place, requires_grad=True) for _ in range(2)
    )
    one, other = kind([found], lr=0.1), kind([expected], lr=0.1)
    view = found.detach()[1]
    for skip in (True, False, True, False):
        version = found.array.version
        guarded(one, found, skip)
        assert found.array.version > version
        if not skip:
            guarded(other, expected, skip)
        assert found.tolist() == expected.tolist()
        assert view.tolist() == found.tolist()[1]
    assert not np.array_equal(found.detach().numpy(), start)


def test_parameters_that_join_later_count_for_themselves(place: Device) -> None:
    xs = [fw.ones(2, device=place, requires_grad=True) for _ in range(2)]
    optimizer = optim.Adam(xs, lr=0.1)
    for k, skip in enumerate((True, False, True, False)):
        for x in xs[: 1 + (k > 0)]:
            x.grad = fw.ones_like(x)
        optimizer.step_unless(fw.tensor(skip, device=place))
    states = optimizer.state_dict()["state"]
    assert [states[k]["step"] for k in range(2)] == [2, 2]
    assert xs[0].tolist() == xs[1].tolist()


def test_plain_steps_go_on_from_skipped_ones(place: Device) -> None:
    found, expected = (fw.ones(3, device=place, requires_grad=True) for _ in range(2))
    one, other = optim.Adam([found], lr=0.1), optim.Adam([expected], lr=0.1)
    guarded(one, found, True)
    for _ in range(3):
        for optimizer, x in ((one, found), (other, expected)):
            x.grad = x.detach() * 2
            optimizer.step()
    assert found.tolist() == pytest.approx(expected.tolist(), rel=1e-6)
    assert one.state_dict()["state"][0]["step"] == 3


def test_a_state_without_skipped_steps_counts_all() -> None:
    state = {"step": 5, SKIPPED: fw.tensor(2.0), "exp_avg": None}
    assert without_skipped(state) == {"step": 3, "exp_avg": None}
    assert state["step"] == 5
    assert without_skipped({"step": 5}) == {"step": 5}
