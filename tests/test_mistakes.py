"""What PyTorch refuses is refused, by errors of the same class that read well.

`tests/data/mistakes.txt` has three lines for each mistake: the call, the class of
PyTorch's error, and our error.
"""

import sys
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from tests.mistakes import is_of, refusal

LINES = (Path(__file__).parent / "data" / "mistakes.txt").read_text().splitlines()
ROWS = list(zip_longest(LINES[::3], LINES[1::3], LINES[2::3]))
# What a wrong argument may still do among ten thousand calls: fall, never rise.
UNCLEAR, PASSED = 11, 108


# A device does not look at these values, or says so when the result is read.
VALUES = (
    "m.multinomial(m.tensor([-1.0",
    "m.bernoulli(m.tensor([2.0",
    "m.normal(m.zeros(3), -m.ones(3))",
    "F.one_hot(m.tensor([5]), 3)",
    "x.masked_scatter_(b, m.ones(1))",
    "F.gaussian_nll_loss(x, x, -m.ones(3, 4))",
)


def wrong(rows: list[tuple[str, str, str]]) -> list[str]:
    """Return the calls that raise something else than the rows have."""
    found = []
    for call, kind, text in rows:
        error = refusal(call, fw)
        said = f"{type(error).__name__}: {error}"
        if said != text.strip() or not is_of(error, kind.strip()):
            found.append(f"{call}\n    {said}")
    return found


def test_mistakes_are_refused() -> None:
    assert wrong(ROWS) == []


@pytest.mark.wide
def test_pytorch_refuses_them() -> None:
    kinds = [(call, kind.strip()) for call, kind, _ in ROWS]
    assert [each for each in kinds if not is_of(refusal(each[0], torch), each[1])] == []


@pytest.mark.wide
def test_mistakes_are_refused_on_a_device(device: vkbackend.Device) -> None:
    before = fw.get_default_device()
    fw.set_default_device(device.name)
    try:
        accepted = [call for call, *_ in ROWS if refusal(call, fw) is None]
    finally:
        fw.set_default_device(before)
    assert [call for call in accepted if not call.startswith(VALUES)] == []


@pytest.mark.wide
@pytest.mark.filterwarnings("ignore")
def test_arguments_of_a_wrong_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])  # PyTorch's tables add to it
    pytest.importorskip("expecttest")
    from tests.wrong_kinds import tried

    np.random.seed(0)
    unclear, passed = tried()
    assert len(unclear) <= UNCLEAR, unclear
    assert len(passed) <= PASSED, passed
