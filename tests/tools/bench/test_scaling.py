"""The page about several GPUs has what the model computes."""

from dataclasses import replace

import pytest

from tests.tree import ROOT
from vkbackend.tools.bench import scaling
from vkbackend.tools.bench.scaling import LAYOUTS, Layout, Step


@pytest.mark.checkout
def test_the_page_has_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert scaling.main() == 0
    assert capsys.readouterr().out in (ROOT / "docs" / "SCALING.md").read_text("utf-8")


def test_two_cards_are_as_measured() -> None:
    """At 256 and 1024 MB, within 5 %; what is measured has latencies too."""
    for transport, size, seconds in (
        ("host", 2**28, 9.881e-3),
        ("host", 2**30, 38.795e-3),
    ):
        found = Layout(transport, 2).exchange(size)
        assert seconds * 0.95 < found <= seconds


def test_one_card_exchanges_nothing() -> None:
    for transport in ("host", "cuda", "mpi"):
        assert Layout(transport, 1).visible(Step("", 1, 1e9)) == 0


def test_what_is_hidden_needs_time_to_compute() -> None:
    layout, step = Layout("host", 2), Step("", 1.0, 1e9)
    whole = layout.exchange(step.gradients)
    assert layout.visible(step) < whole / 10
    assert layout.visible(replace(step, seconds=0.0)) == whole


@pytest.mark.parametrize("layout", LAYOUTS.values())
def test_more_bytes_take_longer(layout: Layout) -> None:
    assert 0 < layout.exchange(1e6) < layout.exchange(2e6)
