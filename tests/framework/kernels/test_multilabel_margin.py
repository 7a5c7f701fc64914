"""How many dispatches the multi-label margin loss takes, and of what workgroups."""

import dataclasses

import pytest

from vkbackend import DeviceInfo
from vkbackend.driver.target import LOOP_LIMIT
from vkbackend.framework.base.dtype import float32, int64
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import Dispatch, StridedSpec
from vkbackend.framework.kernels.multilabel_margin import multilabel_margin_dispatches


def dispatches(
    info: DeviceInfo, shape: tuple[int, int], counts: bool = False
) -> list[Dispatch]:
    layout = Layout.contiguous(shape)
    x, labels = (StridedSpec(shape, dtype, layout) for dtype in (float32, int64))
    return multilabel_margin_dispatches(info, x, labels, counts)


def test_workgroups_have_the_classes_of_a_row(discrete: DeviceInfo) -> None:
    for classes, workgroup in ((3, 32), (129, 64), (1000, 256), (4096, 256)):
        (found,) = dispatches(discrete, (5, classes))
        assert found.constants["LOCAL_X"] == workgroup
    assert found.grid == (20, 1, 1)


def test_counts_of_long_rows_start_from_zeros(discrete: DeviceInfo) -> None:
    assert len(dispatches(discrete, (5, 1024), counts=True)) == 1
    zeros, kernel = dispatches(discrete, (5, 1025), counts=True)
    assert zeros.push["count"] == 5 * 1025
    assert kernel.push["parts"] == 2


def test_long_rows_are_refused_on_software(discrete: DeviceInfo) -> None:
    software = dataclasses.replace(discrete, kind="software")
    assert dispatches(software, (1, 1000))[-1].constants["LOCAL_X"] == 64
    with pytest.raises(ShapeError, match="multilabel_margin_loss: one result would"):
        dispatches(software, (1, LOOP_LIMIT))
