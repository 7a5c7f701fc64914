"""Interrupts and errors in a training step, as many as a gate has time for.

`tests.interrupts` tries all of them.
"""

import threading

import pytest

import vkbackend
import vkbackend.framework as fw
from tests.interrupts import KINDS, Check, inject, quiet, storm, sweep

# What a kernel cannot be built for is not traced again, which is said.
pytestmark = pytest.mark.filterwarnings("ignore:jit. made runs without replay")

EVERY = 661
"""Lines from one that is tried to the next."""

SIGNALS = 6


@pytest.fixture(scope="module", params=["eager", "jit"])
def check(request: pytest.FixtureRequest, device: vkbackend.Device) -> Check:
    jitted = request.param == "jit"
    return Check(fw.device(device.name), "SGD" if jitted else "AdamW", jitted)


def kinds_of(check: Check) -> list[str]:
    return [kind for kind, (jitted, _) in KINDS.items() if jitted is check.jitted]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("which", [0, 1])
def test_an_interrupt_loses_nothing(which: int, check: Check) -> None:
    count, failures = sweep(check, kinds_of(check)[which], EVERY, first=17)
    assert failures == []
    assert count > 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("which", [0, 1])
def test_nor_do_two_of_them(which: int, check: Check) -> None:
    count, failures = sweep(check, kinds_of(check)[which], 2 * EVERY, 99, twice=True)
    assert failures == []
    assert count > 0


@pytest.mark.parametrize("error", ["no memory", "no memory any more", "no kernel"])
@pytest.mark.parametrize("place", ["memory", "submission"])
def test_an_error_loses_nothing(error: str, place: str, check: Check) -> None:
    places = {
        "memory": ("allocate_each", "allocate"),
        "submission": ("submit", "submit again"),
    }
    name = places[place][check.jitted]
    found = [inject(check, kind, name, error) for kind in kinds_of(check)]
    assert [failure for _, failures in found for failure in failures] == []
    assert sum(count for count, _ in found) > 0


def test_signals_lose_nothing(check: Check) -> None:
    assert threading.current_thread() is threading.main_thread()
    with quiet():
        failures = storm(check, SIGNALS, seed=1)
    assert failures == []
