"""How reductions of bags are launched."""

import dataclasses

import pytest

from vkbackend import DeviceInfo
from vkbackend.framework.base.dtype import DTYPES, int64
from vkbackend.framework.base.shape import Layout, TensorSpec
from vkbackend.framework.ir.kernel_call import StridedSpec
from vkbackend.framework.kernels.bag_reduce import bag_reduce_dispatch, has_long_bags


@pytest.mark.parametrize(
    ("width", "dtype", "offset", "quads", "segment"),
    [
        (4096, "float32", 0, True, 128),
        (4096, "float16", 0, True, 256),
        (4096, "float32", 2, False, 512),
        (8191, "float32", 0, False, 512),
        (16, "bfloat16", 4, True, 4),
        (16, "float64", 0, False, 16),
    ],
)
def test_launches(
    width: int, dtype: str, offset: int, quads: bool, segment: int, discrete: DeviceInfo
) -> None:
    layout = Layout.contiguous((100, width))._replace(offset=offset)
    weight = StridedSpec((100, width), DTYPES[dtype], layout)
    out = TensorSpec((30, width), DTYPES[dtype])
    given = weight, TensorSpec((120,), int64), None, out, "mean", -1, "", {}, {}
    found = bag_reduce_dispatch(discrete, *given)
    assert ("QUADS" in found.defines) == quads
    assert found.push["segment"] == segment
    count = found.push["count"]
    assert isinstance(count, int)
    assert (
        found.grid[0] * found.grid[1] * 256
        >= count
        >= 30 * width // (4 if quads else 1)
    )
    assert found.push["each"] == 4


def test_long_bags(discrete: DeviceInfo) -> None:
    assert has_long_bags(discrete, 100_000, 16, 64)
    assert not has_long_bags(discrete, 100_000, 4096, 64)
    assert not has_long_bags(discrete, 100_000, 16, 1 << 14)
    software = dataclasses.replace(discrete, kind="software")
    assert not has_long_bags(software, 100_000, 16, 64)
