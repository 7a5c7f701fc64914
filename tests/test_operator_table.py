"""PyTorch's table of operators gives what it gives there, but for known differences."""

import sys

import pytest

import vkbackend
from tests.operator_table import KNOWN, SWEEPS, UNEXPLAINED, found_in, known, sweep_of

pytestmark = [pytest.mark.checkout, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def _own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep to itself what the table's import adds to the path."""
    monkeypatch.setattr(sys, "path", [*sys.path])


def check(sweep: str) -> None:
    pytest.importorskip("expecttest")  # which the table imports
    listed = {
        key.removeprefix(f"{sweep} "): number
        for keys in known().values()
        for key, number in keys.items()
        if sweep_of(key) == sweep
    }
    found = found_in(sweep)
    new = {key: each for key, each in found.items() if each > listed.get(key, 0)}
    gone = {key: each for key, each in listed.items() if each > found.get(key, 0)}
    assert not new
    assert not gone, f"fewer differ: write {KNOWN.name} anew by tests.operator_table"


def test_each_difference_has_a_reason() -> None:
    assert UNEXPLAINED not in known()


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
