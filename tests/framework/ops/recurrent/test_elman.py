"""Steps of an Elman layer: masks, and NumPy's steps beside the recorded ones."""

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.recurrent.twin import check_host_steps
from vkbackend.framework.base.device import Device
from vkbackend.framework.ops.recurrent import rnn_steps


def test_rectified_with_a_mask(place: Device, rng: np.random.Generator) -> None:
    gates, h, weight = (
        fw.tensor(rng.normal(size=size).astype("f4"), device=place)
        for size in ((4, 2, 3), (2, 3), (3, 3))
    )
    whole = fw.ones((4, 2, 1), dtype="bool", device=place)
    expected = rnn_steps(gates, h, weight, None, True)
    assert_close(rnn_steps(gates, h, weight, whole, True), expected.numpy())
    none = rnn_steps(gates, h, weight, ~whole, True)
    assert_close(none, np.broadcast_to(h.numpy(), (4, 2, 3)), exact=True)


@pytest.mark.parametrize("rectified", [False, True])
def test_host_steps_are_the_recorded_ones(rectified: bool) -> None:
    check_host_steps(
        lambda mask, *given: rnn_steps(*given, mask, rectified),
        *[(4, 3, 5), (3, 5), (5, 5)],
    )
