"""Keys of places, and sums of equal ones."""

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework.base.device import Device
from vkbackend.framework.sparse.places import keys_of, merged, places_of


def test_keys_and_places_are_each_others(
    place: Device, rng: np.random.Generator
) -> None:
    sizes = 3, 5, 2
    places = rng.integers(0, sizes, (11, 3)).T
    keys = keys_of(fw.tensor(places, device=place), sizes)
    assert keys.tolist() == np.ravel_multi_index(tuple(places), sizes).tolist()
    assert places_of(keys, sizes).tolist() == places.tolist()


def test_equal_places_are_summed(place: Device) -> None:
    places = fw.tensor([[1, 0, 1], [0, 1, 0]], device=place)
    for values in ([1.0, 2.0, 3.0], [True, False, False]):
        kept, sums = merged(places, fw.tensor(values, device=place), (2, 2))
        assert kept.tolist() == [[0, 1], [1, 0]]
        assert sums.tolist() == [values[1], values[0] + (values[2] or 0)]
