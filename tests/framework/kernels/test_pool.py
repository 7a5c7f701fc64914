"""Which kernel pools what, over how many elements."""

import dataclasses

import pytest

from vkbackend import DeviceInfo
from vkbackend.framework.base.dtype import DType, float32, float64
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import StridedSpec
from vkbackend.framework.kernels.conv.window import Window
from vkbackend.framework.kernels.pool import (
    max_pool2d_dispatch,
    max_pool2d_grad_dispatch,
)

PAIRS = Window((2, 2), (2, 2), (0, 0), (1, 1))


def images(*shape: int) -> StridedSpec:
    return StridedSpec(shape, float32, Layout.contiguous(shape))


@pytest.mark.parametrize("window", [PAIRS, None])
def test_each_result_has_an_invocation(
    window: Window | None, discrete: DeviceInfo
) -> None:
    forward = max_pool2d_dispatch(discrete, images(3, 5, 8, 12), (4, 6), window)
    assert forward.grid[0] == -(-3 * 5 * 4 * 6 // forward.constants["LOCAL_X"])
    assert (forward.push["in_width"], forward.push["out_width"]) == (12, 6)
    back = max_pool2d_grad_dispatch(discrete, images(3, 5, 4, 6), (8, 12), window)
    count = 3 * 5 * 8 * 12 // (4 if "QUADS" in back.defines else 1)
    assert back.grid[0] == -(-count // back.constants["LOCAL_X"])
    assert ("QUADS" in back.defines) == (window is not None)
    assert (back.push["in_width"], back.push["out_width"]) == (12, 6)
    assert forward.kernel.startswith("pool/adaptive") == (window is None)
    assert back.kernel == f"{forward.kernel}_vjp"
    assert ("KERNEL_H" in forward.constants) == (window is not None)


def test_parts_too_large_for_a_software_device_are_refused(
    discrete: DeviceInfo,
) -> None:
    software = dataclasses.replace(discrete, kind="software")
    with pytest.raises(ShapeError, match="adaptive_max_pool2d"):
        max_pool2d_dispatch(software, images(1, 1, 999, 999), (1, 1), None)


@pytest.mark.parametrize(("width", "dtype"), [(14, float32), (12, float64)])
def test_gradients_of_lines_that_are_no_quads_have_an_invocation_each(
    width: int, dtype: DType, discrete: DeviceInfo
) -> None:
    shape = 3, 5, 4, width // 2
    grad = StridedSpec(shape, dtype, Layout.contiguous(shape))
    found = max_pool2d_grad_dispatch(discrete, grad, (8, width), PAIRS)
    assert "QUADS" not in found.defines
