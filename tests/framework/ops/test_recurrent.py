"""Recurrent ops: a mask that is true everywhere changes nothing."""

import numpy as np

import vkbackend.framework as fw
from tests.compare import assert_close
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
