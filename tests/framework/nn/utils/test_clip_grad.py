"""Clipping beside PyTorch's."""

import math
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device


def parameters(
    place: Device, rng: np.random.Generator
) -> tuple[list[nn.Parameter], list[torch.nn.Parameter]]:
    """Return parameters with gradients, and one without."""
    ours, theirs = [], []
    for shape in ((2, 3), (5,), (1,)):
        grad = rng.normal(size=shape).astype("f4")
        ours.append(nn.Parameter(fw.zeros(shape, device=place)))
        theirs.append(torch.nn.Parameter(torch.zeros(shape)))
        if shape != (1,):
            ours[-1].grad = fw.tensor(grad, device=place)
            theirs[-1].grad = torch.tensor(grad)
    return ours, theirs


CALLS: dict[str, Any] = {
    "2": lambda u, p: u.clip_grad_norm_(p, 0.5),
    "1": lambda u, p: u.clip_grad_norm_(p, 0.5, norm_type=1),
    "3": lambda u, p: u.clip_grad_norm_(p, 0.5, 3.0, foreach=True),
    "inf": lambda u, p: u.clip_grad_norm_(iter(p), 0.5, math.inf),
    "-inf": lambda u, p: u.clip_grad_norm_(p, 0.01, -math.inf),
    "0": lambda u, p: u.clip_grad_norm_(p, 0.5, 0.0),
    "not reached": lambda u, p: u.clip_grad_norm_(p, 100),
    "one": lambda u, p: u.clip_grad_norm_(p[0], 0.1),
    "none": lambda u, p: u.clip_grad_norm_([], 0.1),
    "value": lambda u, p: u.clip_grad_value_(p, 0.3),
    "total": lambda u, p: u.get_total_norm([each.grad for each in p[:2]], 1.0),
    "given": lambda u, p: u.clip_grads_with_norm_(
        p, 0.5, u.get_total_norm([p[0].grad])
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_are_pytorchs(call: str, place: Device, rng: np.random.Generator) -> None:
    ours, theirs = parameters(place, rng)
    found = CALLS[call](nn.utils, ours)
    expected = CALLS[call](torch.nn.utils, theirs)
    if expected is None:
        assert found is None
    else:
        assert_close(found, expected.numpy(), scale=4)
    for mine, other in zip(ours[:2], theirs[:2]):
        assert other.grad is not None
        assert_close(mine.grad, other.grad.numpy(), scale=4)


def test_squares_beyond_float16(place: Device) -> None:
    gradients = [fw.full((n,), 200.0, dtype=fw.float16, device=place) for n in (9, 16)]
    found = nn.utils.get_total_norm(gradients)
    assert found.dtype is fw.float16
    assert found.item() == 1000.0


def test_what_is_not_finite_can_be_refused() -> None:
    p = nn.Parameter(fw.zeros(2))
    p.grad = fw.tensor([1.0, math.inf])
    with pytest.raises(RuntimeError, match=r"the norm of order 2\.0 is inf"):
        nn.utils.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)
    assert p.grad.tolist() == [1.0, math.inf]
