"""Binomial draws have the distribution's mean, and are whole numbers up to `count`."""

import pytest

import vkbackend.framework as fw


def test_draws() -> None:
    fw.manual_seed(0)
    count, prob = fw.full((200, 3), 5.0), fw.tensor([0.0, 0.5, 1.0])
    drawn = fw.binomial(count, prob)
    assert drawn.shape == (200, 3)
    assert {*drawn[:, 1].tolist()} <= {0.0, 1.0, 2.0, 3.0, 4.0, 5.0}
    assert fw.allclose(drawn.mean(0), fw.tensor([0.0, 2.5, 5.0]), atol=0.3)
    one, two = (fw.Generator().manual_seed(1) for _ in range(2))
    assert fw.equal(fw.binomial(count, prob, one), fw.binomial(count, prob, two))
    assert fw.binomial(fw.ones(0), fw.ones(0)).shape == (0,)
    with pytest.raises(TypeError, match="both must be of one float dtype"):
        fw.binomial(fw.tensor([1]), prob)
