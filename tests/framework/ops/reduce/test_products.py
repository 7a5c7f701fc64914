"""Sums of products in vec4 loads and in chunks, as a GPU takes them."""

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.twin import draw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.ops.reduce.products import _product_sums


@pytest.mark.parametrize(("shape", "dim"), [((3, 65_536), 1), ((20_011, 3), 0)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_chunks(shape: tuple[int, ...], dim: int, dtype: str, quads: GpuDevice) -> None:
    x, y = (draw(*shape, seed=k).astype(dtype) for k in range(2))
    given = [fw.tensor(each, device=quads) for each in (x, y)]
    found = _product_sums(*given, (dim,), fw.float32)
    products = x.astype(np.float64) * y.astype(np.float64)
    wanted = products.sum(dim, keepdims=True).astype(np.float32)
    assert_close(found, wanted, scale=400)  # of tens of thousands of terms
