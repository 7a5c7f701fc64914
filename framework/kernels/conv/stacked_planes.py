"""Windows along the depth of volumes, through the kernels for images.

The taps along depth become channels: the planes of a window are stacked in scratch
memory, and one convolution over images does the rest. Its gradient by the volumes is
summed up from such stacks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ...base.shape import TensorSpec
from ...ir.kernel_call import Dispatch, Scratch, with_memory
from ..gpu_model import model_of
from .columns import col2im_dispatch, im2col_dispatch
from .problem import ConvCall

Rule = Callable[[ConvCall], Dispatch | Sequence[Dispatch]]
"""What computes a convolution of images."""


def stacked(call: ConvCall) -> ConvCall:
    """Return the convolution of planes whose channels have the taps along depth.

    Windows of one pixel are those of one image, of all planes.
    """
    planes, taps = call.result_planes, call.weight.shape[2]
    volumes, (high, wide) = call.volumes, call.size
    channels, dtype = call.x.shape[1] * taps, call.x.dtype
    weight = (call.weight.shape[0], call.weight.shape[1] * taps, *call.window.kernel)
    pixel = call.window.kernel == (1, 1) and call.size == call.output_size
    if pixel and call.window.stride == (1, 1):
        planes, high = 1, high * planes
    x = TensorSpec((volumes * planes, channels, high, wide), dtype)
    how = call.how._replace(depth=None)
    filters = TensorSpec(weight, dtype)
    out = how.out(x, filters)
    return ConvCall(call.gpu, how, x, filters, out, call.bias, planes)


def microseconds(call: ConvCall) -> float:
    """Return the modelled time of stacking planes, or of summing them up."""
    model = model_of(call.gpu)
    copied = _stacks(call).numel * call.x.dtype.itemsize
    return copied / model.copied_bytes_per_microsecond + model.copy_microseconds


def forward(call: ConvCall, rule: Rule) -> list[Dispatch]:
    """Return the dispatches of a convolution, by those for images."""
    return _of_stacks(call, rule(stacked(call)))


def weight_vjp(call: ConvCall, rule: Rule) -> list[Dispatch]:
    """Return the dispatches of the gradient by the filters (wgrad)."""
    return _of_stacks(call, rule(stacked(call)))


def input_vjp(call: ConvCall, rule: Rule) -> list[Dispatch]:
    """Return the dispatches of the gradient by the volumes (dgrad)."""
    assert call.how.depth is not None, "there are windows along depth"
    found = rule(stacked(call)._replace(bias=False))
    made = [found] if isinstance(found, Dispatch) else found
    stacks = _scratch(call)
    joined = col2im_dispatch(call.gpu, _lines(call), call.how.depth, call.bias)
    return [
        *with_memory(made, {"out": stacks}),
        *with_memory([joined], {"x": stacks}),
    ]


def _of_stacks(call: ConvCall, found: Dispatch | Sequence[Dispatch]) -> list[Dispatch]:
    """Return dispatches whose images are the stacked planes of `x`."""
    assert call.how.depth is not None, "there are windows along depth"
    made = [found] if isinstance(found, Dispatch) else found
    stacks = _scratch(call)
    copied = im2col_dispatch(_lines(call), call.how.depth)
    return [*with_memory([copied], {"out": stacks}), *with_memory(made, {"x": stacks})]


def _lines(call: ConvCall) -> TensorSpec:
    """Return the volumes with their planes as lines."""
    shape = (call.volumes, call.x.shape[1], call.planes, math.prod(call.size))
    return TensorSpec(shape, call.x.dtype)


def _stacks(call: ConvCall) -> TensorSpec:
    """Return the stacked planes of windows."""
    volumes, channels, _, plane = _lines(call).shape
    shape = (volumes, channels, call.weight.shape[2], call.result_planes, plane)
    return TensorSpec(shape, call.x.dtype)


def _scratch(call: ConvCall) -> Scratch:
    stacks = _stacks(call)
    return Scratch("stacked planes", stacks.numel * stacks.dtype.itemsize)
