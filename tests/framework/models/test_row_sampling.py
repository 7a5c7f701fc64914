"""Sampling of rows: the settings of each, and what it draws."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.models.row_sampling import (
    RowSettings,
    SamplingSteps,
    draw,
    drawn,
)
from vkbackend.framework.models.sampling import Sampling, processed

SETTINGS = [
    Sampling(),
    Sampling(0.7),
    Sampling(1.3, top_k=4),
    Sampling(0.9, top_p=0.6),
    Sampling(1.1, min_p=0.2, top_k=50),
    Sampling(0.8, 5, 0.7, 0.05),
]


@pytest.mark.parametrize("settings", [SETTINGS, SETTINGS[:2], SETTINGS[:1]])
def test_rows_draw_by_their_own_settings(settings: list[Sampling], place: Any) -> None:
    rng = np.random.default_rng(0)
    given = rng.standard_normal((len(settings), 13), np.float32) * 2
    logits = fw.tensor(given, device=place)
    rows = RowSettings(len(settings), 13, place)
    for row, each in enumerate(settings):
        rows.begin(row, each, [])
    newest = fw.zeros((len(settings), 1), dtype="int64", device=place)
    steps = SamplingSteps.of(settings)
    for number in (0.0, 0.3, 0.77, 1 - 2.0**-24):
        numbers = fw.full((len(settings), 1), number, device=place)
        tokens, _ = draw(logits, newest, numbers, rows.numbers, None, steps)
        found = tokens.tolist()
        for row, each in enumerate(settings):
            own = processed(logits[row : row + 1], each)
            wanted = own.argmax(-1, keepdim=True)
            if each.temperature:
                wanted = drawn(own, numbers[:1])
            assert found[row] == wanted.tolist()[0]


def test_rows_that_ask_for_it_are_sorted(
    place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {0: Sampling(0.7), 3: Sampling(0.9, top_p=0.6), 5: Sampling(1.1, 3)}
    settings |= {1: Sampling(0.8, min_p=0.3), 6: Sampling()}
    given = np.random.default_rng(0).standard_normal((8, 13), np.float32)
    logits = fw.tensor(given, device=place)
    rows = RowSettings(8, 13, place)
    for row, each in settings.items():
        rows.begin(row, each, [])
    steps = SamplingSteps.of([*settings.values()], 8)
    filtered = rows.filtered(settings, steps.filters)
    assert filtered is not None
    assert sorted({*filtered.tolist()}) == [1, 3, 5]
    newest = fw.zeros((8, 1), dtype="int64", device=place)
    sizes = []
    sort = fw.ops.sort

    def noted(x: fw.Tensor, *rest: Any, **options: Any) -> Any:
        sizes.append(tuple(x.shape))
        return sort(x, *rest, **options)

    monkeypatch.setattr(fw.ops, "sort", noted)
    for number in (0.3, 0.77):
        given = newest, fw.full((8, 1), number, device=place), rows.numbers, None
        whole, _ = draw(logits, *given, steps)
        part, _ = draw(logits, *given, steps, filtered)
        assert part.tolist() == whole.tolist()
    assert sizes == [(8, 13), (4, 13)] * 2


def test_what_a_batch_needs() -> None:
    assert SamplingSteps.of(SETTINGS[:1]) == (False, False, False)
    assert SamplingSteps.of(SETTINGS[:2]) == (True, False, False)
    assert SamplingSteps.of(SETTINGS) == (True, 4, False)
    assert SamplingSteps.of(SETTINGS[:5], 16) == (True, 4, False)
    assert SamplingSteps.of(SETTINGS[2:], 3) == (True, 3, False)
    # What leaves all tokens is no filter, and greedy rows do not filter.
    assert SamplingSteps.of([Sampling(1.0, top_p=1, min_p=0)]) == (True, False, False)
    assert SamplingSteps.of([Sampling(top_k=3)]) == (False, False, False)
    assert SamplingSteps.of([Sampling(repetition_penalty=2)]) == (False, False, True)


def test_draws_follow_the_chances() -> None:
    chances = np.array([[0.0, 0.5, 0.0, 0.125, 0.375, 0.0]], np.float32)
    with np.errstate(divide="ignore"):
        logits = fw.tensor(np.log(chances).repeat(8, 0))
    numbers = (np.arange(8, dtype=np.float32)[:, None] + 0.5) / 8
    found = drawn(logits, fw.tensor(numbers)).numpy()[:, 0]
    np.testing.assert_array_equal(found, [1, 1, 1, 1, 3, 4, 4, 4])
    ends = fw.tensor([[0.0], [1 - 2.0**-24]])
    assert drawn(logits[:2], ends).tolist() == [[1], [4]]


def test_a_penalty_counts_what_a_row_has() -> None:
    rows = RowSettings(2, 4)
    penal = Sampling(repetition_penalty=2.0)
    rows.begin(0, penal, [3])
    rows.begin(1, Sampling(), [3])
    logits = fw.tensor([[1.0, 1.5, 1.2, 2.0]] * 2)
    steps, numbers = SamplingSteps(False, False, True), fw.zeros(2, 1)
    newest = fw.tensor([[3], [3]])
    drawn_tokens = []
    for _ in range(3):
        newest, rows.seen = draw(
            logits, newest, numbers, rows.numbers, rows.seen, steps
        )
        drawn_tokens.append(newest[:, 0].tolist())
    assert drawn_tokens == [[1, 3], [2, 3], [0, 3]]
    # Another text begins without the tokens of the one before.
    rows.begin(0, penal, [1])
    newest = fw.tensor([[1], [1]])
    found, _ = draw(logits, newest, numbers, rows.numbers, rows.seen, steps)
    assert found[:, 0].tolist() == [3, 3]
