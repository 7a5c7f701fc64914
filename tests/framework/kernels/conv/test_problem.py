"""Sizes of a convolution's images, filters and results, each from the two others."""

import pytest

import vkbackend
from tests.conv_cases import CONVOLUTIONS, window
from tests.framework.ops.convolutions import call_of
from vkbackend.framework.ir.kernel_call import divisor
from vkbackend.framework.kernels.conv.problem import divisors

pytestmark = pytest.mark.core


@pytest.mark.parametrize(("x", "weight", "options"), CONVOLUTIONS)
def test_each_from_the_others(
    discrete: vkbackend.DeviceInfo,
    x: tuple[int, ...],
    weight: tuple[int, ...],
    options: dict[str, int],
) -> None:
    groups = options.get("groups", 1)
    call = call_of(discrete, x, weight[0], window(weight, options), groups=groups)
    assert (call.x.shape, call.weight.shape) == (x, weight)
    assert call.how.x(call.out, call.weight, call.size) == call.x
    assert call.how.weight(call.out, call.x) == call.weight
    assert call.out.shape == (x[0], weight[0], *call.output_size)
    assert list(call.sizes().values()) == [*x, weight[0], *call.output_size, groups]


def test_divisors() -> None:
    found = divisors((5, 3))
    assert (found["plane_magic"], found["plane_shift"]) == divisor(15)
    assert (found["width_magic"], found["width_shift"]) == divisor(3)
