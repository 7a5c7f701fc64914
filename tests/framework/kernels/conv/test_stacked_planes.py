"""Planes of windows stacked as channels: `ops/conv/test_conv3d.py` has the results."""

import vkbackend
from tests.framework.kernels.conv.test_window_grid import deep_call
from vkbackend.framework.ir.kernel_call import Dispatch, Scratch
from vkbackend.framework.kernels.conv import stacked_planes
from vkbackend.framework.kernels.conv.problem import ConvCall
from vkbackend.framework.kernels.conv.stacked_planes import stacked
from vkbackend.framework.kernels.conv.window import Window


def rule(call: ConvCall) -> list[Dispatch]:
    """Return a dispatch with each of an op's memories."""
    push = {"x": "x", "grad": "grad_out", "weight": "weight", "out_": "out"}
    return [Dispatch("conv/depthwise", (1, 1, 1), push)]


def test_taps_along_depth_are_channels(discrete: vkbackend.DeviceInfo) -> None:
    call = deep_call(discrete, 7, 3, 2, 1, 1)
    # Windows of a pixel are of one image.
    found = stacked(call)
    assert (found.x.shape, found.planes) == ((2, 9, 8, 2), 1)
    assert found.weight.shape == (5, 9, 1, 1)
    assert found.out.shape == (2, 5, 8, 2)
    window = Window((2, 1), (1, 1), (0, 0), (1, 1))
    how = call.how._replace(window=window)
    call = call._replace(how=how)
    found = stacked(call)
    assert (found.x.shape, found.planes) == ((8, 9, 2, 2), 4)
    assert found.how.depth is None


def test_stacks_are_scratch_memory(discrete: vkbackend.DeviceInfo) -> None:
    call = deep_call(discrete, 7, 3, 2, 1, 1)
    stacks = Scratch("stacked planes", 4 * 2 * 9 * 4 * 4)
    copied, product = stacked_planes.forward(call, rule)
    assert (copied.push["x"], copied.push["out_"]) == ("x", stacks)
    assert (product.push["x"], product.push["out_"]) == (stacks, "out")
    product, joined = stacked_planes.input_vjp(call, rule)
    assert product.push["out_"] == joined.push["x"] == stacks
    assert joined.push["out_"] == "out"
    assert stacked_planes.weight_vjp(call, rule)[0] == copied
    assert stacked_planes.microseconds(call) > 0
