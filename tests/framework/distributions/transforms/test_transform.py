"""Transforms: inverses, equality, caches, shapes."""

import pytest

import vkbackend.framework as fw
import vkbackend.framework.distributions as ours


def test_inverse_of_the_inverse_and_equality() -> None:
    exp = ours.ExpTransform()
    assert exp.inv.inv is exp
    assert exp == ours.ExpTransform()
    assert exp.inv == ours.ExpTransform().inv
    assert exp != ours.TanhTransform()


def test_cached_pair() -> None:
    x = fw.tensor([9.0])
    cached = ours.TanhTransform(cache_size=1)
    assert cached.inv(cached(x)) is x
    with pytest.raises(ValueError, match="it must be 0 or 1"):
        ours.TanhTransform(cache_size=2)


def test_reshape_to_another_number_of_elements() -> None:
    with pytest.raises(ValueError, match="as many elements"):
        ours.ReshapeTransform((6,), (4,))
