import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.ops.elementwise.order import after


def test_the_value_is_the_first(place: Device) -> None:
    x = fw.tensor([[1.0, 2.0], [3.0, 4.0]], dtype="bfloat16", device=place)
    other = fw.full((2, 3), float("nan"), device=place)
    made = after(x, other)
    assert made.dtype is fw.bfloat16
    np.testing.assert_array_equal(made.float().cpu().numpy(), [[1, 2], [3, 4]])


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize("jitted", [False, True])
def test_work_runs_one_after_the_other(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch, jitted: bool
) -> None:
    """Each of the products with much between takes the memory of one."""
    statistics = gpu.gpu.pool.counts
    x, weight = fw.ones((64, 16), device=gpu), fw.ones((16, 8192), device=gpu)
    count, size = 8, 4 * 64 * 8192

    def work(x: fw.Tensor, weight: fw.Tensor) -> fw.Tensor:
        found: list[fw.Tensor] = []
        for _ in range(count):
            part = after(x, found[-1]) if found else x
            found.append((part @ weight).softmax(1) @ weight.mT)
        return fw.cat(found)

    run = fw.jit(work) if jitted else work
    fw.eval(x, weight)
    before = statistics.in_use
    monkeypatch.setattr(statistics, "peak_in_use", before)
    with fw.no_grad():
        fw.eval(run(x, weight))
    assert statistics.peak_in_use - before < count * size / 2
