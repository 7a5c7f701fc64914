"""What the pool reserves is little more than what is in use."""

import importlib.util

import pytest

from tests.fragmentation import TRAININGS, random_patterns, training


def test_random_sizes() -> None:
    """Memory that was cut up for one pattern serves the next; spans cannot move."""
    peaks = random_patterns(24_000)
    reserved, in_use = peaks["small"]
    assert reserved <= 1.2 * in_use
    for reserved, in_use in peaks.values():
        assert reserved <= 1.65 * in_use


@pytest.mark.device
@pytest.mark.parametrize(
    "name",
    [
        name if name == "digits" else pytest.param(name, marks=pytest.mark.wide)
        for name in TRAININGS
    ],
)
@pytest.mark.long
def test_trainings(name: str) -> None:
    if name == "digits" and importlib.util.find_spec("sklearn") is None:
        pytest.skip("the images come from scikit-learn")
    reserved, in_use = training(name)
    assert reserved <= 1.3 * in_use
