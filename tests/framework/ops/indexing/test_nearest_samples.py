"""Elements of images nearest to places: which, and how many dispatches they take."""

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.ops.indexing.nearest_samples import nearest_samples


def test_elements_are_those_of_numpy() -> None:
    x = np.arange(12, dtype=np.float32).reshape(1, 2, 6)
    places = np.array([[[-1, -1], [1, 1], [0, 0.6], [3, 0]]], np.float32)
    options = (2, 3), "zeros", True
    out, index, weights = nearest_samples(fw.tensor(x), fw.tensor(places), *options)
    assert index.tolist() == [[[0, 5, 4, -1]]]
    assert weights.numpy().all()
    assert out.tolist() == [[[0, 5, 4, 0], [6, 11, 10, 0]]]


def test_a_gradient_by_the_grid_costs_nothing(gpu: GpuDevice) -> None:
    x, places = fw.rand(1, 2, 6, device=gpu), fw.rand(1, 4, 2, device=gpu)
    counts = []
    for needed in (False, True):
        fw.eval(x, places)
        before = gpu.gpu.counters.dispatches
        given = x, places.detach().requires_grad_(needed)
        fw.eval(nearest_samples(*given, (2, 3), "border", False)[0])
        counts.append(gpu.gpu.counters.dispatches - before)
    assert counts == [2, 2]
