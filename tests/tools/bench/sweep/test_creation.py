"""Functions without a name of one tensor function."""

import vkbackend.framework as fw
from vkbackend.tools.bench.sweep.creation import CREATION


def test_results_are_where_the_tensor_is() -> None:
    like = fw.ones(16, dtype=fw.float16)
    for name in ("arange", "linspace", "full", "rand", "randn"):
        found = CREATION[name](fw, like)
        assert (found.shape, found.dtype) == (like.shape, like.dtype)
    assert CREATION["nn.GRU"](fw, fw.ones(3, 2, 4)).shape == (3, 2, 4)
