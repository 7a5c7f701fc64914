"""Random programs that change tensors in place; `tests.inplace_programs` runs more."""

import pytest

import vkbackend
import vkbackend.framework as fw
from tests import inplace_program
from tests.inplace_program import Given, InPlaceProgram
from tests.inplace_programs import check
from tests.inplace_steps import inplace_programs
from tests.program import Ref, Step
from tests.search import search
from vkbackend.framework.base.device import CPU

PROGRAMS = 8

SMALL = InPlaceProgram(
    seed=1,
    inputs=(
        Given((2, 3), "float32", fed=False, grad=False),
        Given((3,), "float32", fed=True, grad=False),
        Given((3,), "float32", fed=False, grad=True),
    ),
    steps=(
        Step("repeat", (Ref(1), (1, 1))),
        Step("getitem", (Ref(0), (slice(None), 1))),
        Step("add_", (Ref(3), 2)),
        Step("setitem", (Ref(4), (0,), 7)),
        Step("roll", (Ref(2), 3)),
    ),
)


def test_devices_and_torch_agree(device: vkbackend.Device) -> None:
    devices = [CPU, fw.device(device.name)]
    search(inplace_programs(), lambda made: check(made, devices), PROGRAMS, 0)


def test_text_of_a_program() -> None:
    assert repr(SMALL) == (
        "\nseed 1"
        "\nv0 = input((2, 3), float32)"
        "\nv1 = input((3,), float32, fed)"
        "\nv2 = input((3,), float32, requires_grad=True)"
        "\nv3 = repeat(v1, (1, 1))"
        "\nv4 = getitem(v0, (slice(None, None, None), 1))"
        "\nv5 = add_(v3, 2)"
        "\nv6 = setitem(v4, (0,), 7)"
        "\nv7 = roll(v2, 3)"
    )


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("repeat", lambda lib, x, times: x.reshape(1, 3) if lib is fw else x[None] + 0),
        ("getitem", lambda lib, x, at: x[at].clone() if lib is fw else x[at]),
        ("roll", lambda lib, x, n: x.detach() if lib is fw else x * 1),
        ("add_", lambda lib, x, n: x.add_(n + (lib is fw))),
    ],
)
def test_what_is_wrong_is_found(
    name: str, wrong: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(SMALL, [CPU])
    monkeypatch.setitem(inplace_program.FUNCTIONS, name, wrong)
    with pytest.raises(AssertionError) as raised:
        check(SMALL, [CPU])
    assert repr(SMALL) in str(raised.value)


@pytest.mark.core
def test_what_is_wrong_under_jit_is_found(
    device: vkbackend.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = fw.device(device.name)
    check(SMALL, [place])
    calls = []

    def wrong(lib: object, x: fw.Tensor, index: object, value: int) -> fw.Tensor:
        calls.append(lib is fw)
        x[index] = value + (sum(calls) > 1)
        return x

    monkeypatch.setitem(inplace_program.FUNCTIONS, "setitem", wrong)
    with pytest.raises(AssertionError, match="call 0 under jit: v0"):
        check(SMALL, [place])
