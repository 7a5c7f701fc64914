import threading

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base import inference
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import GradError


def test_blocks_are_counted_over_threads_and_hold_for_their_own() -> None:
    found = []
    with fw.inference_mode():
        assert inference.blocks == 1
        thread = threading.Thread(target=lambda: found.append(fw.ones(2)))
        thread.start()
        thread.join()
        with fw.inference_mode(False):
            found.append(fw.ones(2))
    assert inference.blocks == 0
    assert not any(each.is_inference() for each in found)


def test_results_on_a_device_are_inference_tensors(gpu: GpuDevice) -> None:
    x = fw.ones(4, device=gpu)
    with fw.inference_mode():
        made = [x * 2, x.softmax(0), x.sum(), fw.zeros(3, device=gpu), x.clone()]
        again = [x * 2, x.softmax(0), x.sum(), fw.zeros(3, device=gpu), x.clone()]
        view = x[1:]
        made[0].add_(1)
    assert all(each.is_inference() for each in (*made, *again))
    assert not view.is_inference()
    assert not (made[0] + 1).is_inference()
    with pytest.raises(GradError, match="outside of"):
        made[0].add_(1)
    assert made[0].tolist() == [3.0] * 4


def test_a_jitted_function_gives_inference_tensors_in_the_mode(gpu: GpuDevice) -> None:
    double = fw.jit(lambda x: x * 2)
    x = fw.ones(4, device=gpu)
    plain = [double(x) for _ in range(3)]
    with fw.inference_mode():
        inside = [double(x) for _ in range(3)]
    after = double(x)
    assert [each.is_inference() for each in plain] == [False] * 3
    assert [each.is_inference() for each in inside] == [True] * 3
    assert not after.is_inference()
