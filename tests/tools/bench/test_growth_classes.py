"""Classes of kernels: each runs at its least size, on the host."""

import pytest

import vkbackend.framework as fw
from vkbackend.tools.bench.growth import FIRST
from vkbackend.tools.bench.growth_classes import CLASSES, Inputs, KernelClass


def test_names_are_different() -> None:
    names = [each.name for each in CLASSES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.name)
def test_least_and_next_size(kind: KernelClass) -> None:
    inputs = Inputs(fw.device("cpu"), 1 << 20)
    least = max(FIRST, kind.least)
    works = []
    for size in (least, 2 * least):
        made = kind.make(inputs, size)
        assert all(isinstance(each, fw.Tensor) for each in made.run())
        works.append(made.work)
    assert 0 < works[0] < works[1]


def test_inputs_are_views_of_one_tensor() -> None:
    inputs = Inputs(fw.device("cpu"), 1 << 20)
    a, b = inputs.floats(10), inputs.floats(4, 3)
    assert a.data_ptr() == b.data_ptr()
    assert inputs.integers(7, 100).max().item() < 7
