"""PyTorch's table of operators gives what it gives there, but for known differences."""

import sys

import pytest

import vkbackend
from tests.operator_table import KNOWN, SWEEPS, found_in

pytestmark = [
    pytest.mark.wide,
    pytest.mark.checkout,
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(autouse=True)
def _own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep to itself what the table's import adds to the path."""
    monkeypatch.setattr(sys, "path", [*sys.path])


def known(sweep: str) -> dict[str, int]:
    """Return the differences of a sweep that are written down."""
    found = {}
    for line in KNOWN.read_text().splitlines():
        if line.startswith(f"{sweep} "):
            key, _, number = line.removeprefix(f"{sweep} ").rpartition(" ")
            found[key] = int(number)
    return found


def check(sweep: str) -> None:
    pytest.importorskip("expecttest")  # which the table imports
    found, listed = found_in(sweep), known(sweep)
    new = {key: each for key, each in found.items() if each > listed.get(key, 0)}
    gone = {key: each for key, each in listed.items() if each > found.get(key, 0)}
    assert not new
    assert not gone, f"fewer differ: write {KNOWN.name} anew by tests.operator_table"


@pytest.mark.parametrize("sweep", [each for each in SWEEPS if each[:4] == "host"])
def test_on_the_host(sweep: str) -> None:
    check(sweep)


def test_on_a_device(device: vkbackend.Device) -> None:
    if "llvmpipe" not in device.info.name:
        pytest.skip("the known differences are those of lavapipe")
    check("lavapipe float32")
