"""Random programs, as many as a gate has time for; the module runs more."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from tests import program as program_module
from tests.program import (
    NORMALISATIONS,
    Input,
    Program,
    Ref,
    Step,
    check,
    last_uses,
    torch_function,
)
from tests.program_steps import programs
from tests.search import search
from vkbackend.framework import ops
from vkbackend.framework.base.device import CPU

PARTS = 6
PROGRAMS_OF_A_PART = 25

SMALL = Program(
    seed=3,
    inputs=(Input((2, 3), True),),
    steps=(
        Step("tanh", (Ref(0),)),
        Step("argmax", (Ref(1), -1), {"keepdim": True}),
        Step("sum", (Ref(1),), {"dim": (0,)}),
    ),
    kept=frozenset({2, 3}),
)


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(part, marks=pytest.mark.wide if part else pytest.mark.core)
        for part in range(PARTS)
    ],
)
def test_device_host_and_torch_agree(part: int, device: vkbackend.Device) -> None:
    devices = [CPU, fw.device(device.name)]
    search(programs(), lambda made: check(made, devices), PROGRAMS_OF_A_PART, part)


def test_text_of_a_program() -> None:
    assert repr(SMALL) == (
        "\nseed 3"
        "\nv0 = input(2, 3), requires_grad=True"
        "\nv1 = tanh(v0)"
        "\nv2 = argmax(v1, -1, keepdim=True)   # compared"
        "\nv3 = sum(v1, dim=(0,))   # compared"
    )


def test_values_are_let_go_of_after_their_last_use() -> None:
    assert last_uses(SMALL) == [[], [], [1]]


@pytest.mark.parametrize(
    ("name", "wrong", "text"),
    [
        ("tanh", lambda x: ops.tanh(x) * 1.001, r"v3: 3 of 3 differ, first "),
        ("tanh", lambda x: ops.tanh(x.detach()), r"v0 has no gradient"),
        ("sum", lambda x, dim: ops.sum(x, dim, True), r"v3 is \(1, 3\), not \(3,\)"),
        ("argmax", lambda x, dim, keepdim: ops.argmin(x, dim, keepdim), "v2"),
    ],
)
def test_what_is_wrong_is_found(
    name: str, wrong: object, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(SMALL, [CPU])
    monkeypatch.setitem(program_module.OURS, name, wrong)
    with pytest.raises(AssertionError, match=text) as raised:
        check(SMALL, [CPU])
    assert repr(SMALL) in str(raised.value)


def test_equal_numbers_may_come_in_any_order() -> None:
    twin = Step("cat", ((Ref(0), Ref(0)), -1))
    tied = replace(SMALL, steps=(twin, *SMALL.steps[1:]))
    with np.errstate(all="raise"):
        check(tied, [CPU])


ROWS_OF_TWO: dict[str, tuple[tuple[int, ...], tuple[Any, ...]]] = {
    "layer_norm": ((9, 2), ((2,), None)),
    "rms_norm": ((9, 2), ((2,), None, 1e-5)),
    "group_norm": ((9, 2, 2), (2, None)),
    "instance_norm": ((9, 2, 2), (None, None, None, None)),
    "batch_norm": ((2, 9), (None, None, None, None)),
    "normalize": ((9, 2), (2.0, 1)),
}


@pytest.mark.parametrize("name", NORMALISATIONS)
def test_gradients_that_nearly_cancel_are_allowed_their_roundings(name: str) -> None:
    shape, given = ROWS_OF_TWO[name]
    keywords = {"training": True} if name == "batch_norm" else {}
    x = torch.from_numpy(np.random.default_rng(0).uniform(-2, 2, shape))
    apart = NORMALISATIONS[name](lambda each: each, x, *given)
    torch.testing.assert_close(apart, torch_function(name)(x, *given, **keywords))
    steps = Step(name, (Ref(0), *given), keywords), Step("mul", (Ref(1), 30.0))
    again = Step("mul", (Ref(2), Ref(2)))
    program = Program(0, (Input(shape, True),), (*steps, again), frozenset({3}))
    check(program, [CPU])
