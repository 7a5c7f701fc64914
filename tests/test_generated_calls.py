"""Generated calls of every function give what PyTorch's give, or are refused alike."""

from collections import Counter

import pytest

import vkbackend
from tests.generated_calls import (
    KNOWN,
    SWEEPS,
    UNEXPLAINED,
    differences,
    functions,
    known,
    sweep_of,
)

pytestmark = [pytest.mark.checkout, pytest.mark.filterwarnings("ignore")]


def check(sweep: str) -> None:
    listed = {
        key: number
        for keys in known().values()
        for key, number in keys.items()
        if sweep_of(key) == sweep
    }
    where, calls = sweep.split()[0], {}
    found: Counter[str] = Counter()
    for each in differences(sweep):
        key = f"{where} {each.call.partition('(')[0]} {each.kind}"
        found[key] += 1
        calls.setdefault(key, (each.call, each.detail))
    new = {key: calls[key] for key, n in found.items() if n > listed.get(key, 0)}
    gone = {key: n for key, n in listed.items() if n > found.get(key, 0)}
    assert not new
    assert not gone, f"fewer differ: write {KNOWN.name} anew by tests.generated_calls"


def test_each_difference_has_a_reason() -> None:
    assert UNEXPLAINED not in known()


def test_functions_are_found() -> None:
    names = {each.name for each in functions("torch")}
    assert {"torch.add", "torch.sort", "torch.index_put_"} <= names


@pytest.mark.wide
@pytest.mark.parametrize("sweep", [each for each in SWEEPS if each[:4] == "host"])
def test_on_the_host(sweep: str) -> None:
    check(sweep)


@pytest.mark.wide
@pytest.mark.parametrize("sweep", [each for each in SWEEPS if each[:4] != "host"])
def test_on_a_device(sweep: str, device: vkbackend.Device) -> None:
    if "llvmpipe" not in device.info.name:
        pytest.skip("the known differences are those of lavapipe")
    check(sweep)
