"""Which kernel takes rows of logits, and with what gradient."""

import dataclasses

import pytest

from vkbackend import DeviceInfo
from vkbackend.framework.base.dtype import float32, int32, int64
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import StridedSpec
from vkbackend.framework.kernels.cross_entropy import grad_dispatch, loss_dispatches


def rows(*shape: int) -> StridedSpec:
    return StridedSpec(shape, float32, Layout.contiguous(shape))


def test_rows_in_registers_on_hardware_only(discrete: DeviceInfo) -> None:
    if not discrete.subgroup_arithmetic:
        pytest.skip("the device has no subgroup arithmetic")
    labels = StridedSpec((9,), int32, Layout.contiguous((9,)))
    software = dataclasses.replace(discrete, kind="software")
    (step,) = loss_dispatches(discrete, rows(9, 1024), labels, (-100, 0.1))
    assert step.kernel == "loss/cross_entropy_registers"
    assert step.constants["SMOOTHED"] == 1
    (step,) = loss_dispatches(software, rows(9, 1024), labels, (-100, 0.1))
    assert step.kernel == "loss/cross_entropy"


def test_a_gradient_has_an_invocation_per_logit() -> None:
    labels = StridedSpec((9,), int64, Layout.contiguous((9,)))
    step = grad_dispatch(rows(9, 57), labels, "share", (-100, 0.0), shared=True)
    assert step.grid == (3, 1, 1)
    assert step.constants == {"LOCAL_X": 256, "LABEL_WORDS": 2, "SHARED": 1}
