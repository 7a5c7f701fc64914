"""Constants that calls which are recorded read again."""

import numpy as np

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework.base import trace_hooks
from vkbackend.framework.eager.node_recorder import NodeRecorder
from vkbackend.framework.ops.shape_constant import MOST_BYTES, shape_constant


def test_small_ones_are_reported(device: vkbackend.Device) -> None:
    place = fw.device(device.name)
    like, recorder = fw.zeros(2, device=place), NodeRecorder(place)
    many = MOST_BYTES // 4 + 1
    with trace_hooks.listening(recorder):
        small = shape_constant(like, np.arange(3, dtype=np.float32), fw.float16)
        shape_constant(like, np.zeros(many, np.float32))
    assert recorder.constants == [small.array]
    assert small.tolist() == [0.0, 1.0, 2.0]
    assert small.dtype is fw.float16
