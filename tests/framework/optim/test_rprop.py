"""Averaged SGD and Rprop: averages and options; steps are in `test_counting`."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework import optim


def test_averages() -> None:
    x = fw.tensor([1.0], requires_grad=True)
    optimizer = optim.ASGD([x], lr=0.5, lambd=0, t0=0)
    for _ in range(4):
        x.grad = fw.ones(1)
        optimizer.step()
    # Of step 1 to 4 the shares are 1, 1, 1 / 2 and 1 / 3.
    np.testing.assert_allclose(optimizer.state[x]["ax"].numpy(), [-0.5], 1e-6)


def test_a_schedulers_rate_comes_a_step_later_as_in_torch() -> None:
    found = []
    for lib in (torch, fw):
        x = lib.tensor([1.0], requires_grad=True)

        def made(x: Any = x, lib: Any = lib) -> Any:
            optimizer = lib.optim.ASGD([x], lr=0.5, lambd=0.1, t0=1)
            return optimizer, lib.optim.lr_scheduler.StepLR(optimizer, 2, 0.1)

        optimizer, schedule = made()
        values = []
        for step in range(6):
            if step == 3:
                state = optimizer.state_dict(), schedule.state_dict()
                optimizer, schedule = made()
                optimizer.load_state_dict(state[0])
                schedule.load_state_dict(state[1])
            x.grad = lib.ones(1)
            optimizer.step()
            schedule.step()
            values += [x.item(), float(optimizer.state_dict()["state"][0]["eta"])]
        found.append(values)
    np.testing.assert_allclose(found[1], found[0], 1e-6)


def test_bad_options_are_named() -> None:
    with pytest.raises(ValueError, match=r"Rprop: etas are \(0.5, 0.9\)"):
        optim.Rprop([fw.ones(2, requires_grad=True)], etas=(0.5, 0.9))
