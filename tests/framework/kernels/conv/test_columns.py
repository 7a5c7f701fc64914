"""Windows as columns, and back: `tests/conv_cases.py` has the results."""

import vkbackend
from vkbackend.framework.base.dtype import float32, float64
from vkbackend.framework.base.shape import TensorSpec
from vkbackend.framework.kernels.conv.columns import col2im_dispatch, im2col_dispatch
from vkbackend.framework.kernels.conv.window import Window

DEEP = Window((3, 1), (1, 1), (1, 0), (1, 1))


def test_lines_of_whole_vectors_are_copied_by_these() -> None:
    shape = (2, 3, 4, 8)
    for dtype, quads in ((float32, 1), (float64, 0)):
        found = im2col_dispatch(TensorSpec(shape, dtype), DEEP)
        assert found.constants["QUADS"] == quads
        assert found.push["in_width"] == (2 if quads else 8)
    wide = DEEP._replace(kernel=(3, 2))
    assert im2col_dispatch(TensorSpec(shape, float32), wide).constants["QUADS"] == 0


def test_a_bias_is_of_channels(discrete: vkbackend.DeviceInfo) -> None:
    out = TensorSpec((2, 3, 4, 8), float32)
    found = col2im_dispatch(discrete, out, DEEP, bias=True)
    assert (found.push["bias"], found.push["channels"]) == ("bias", 3)
    assert found.constants["HAS_BIAS"] == 1
    assert col2im_dispatch(discrete, out, DEEP).push["bias"] == "x"
