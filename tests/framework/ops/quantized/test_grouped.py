"""Grouped products with quantized matrices beside those with their elements."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.ops.quantized import grouped


@pytest.mark.parametrize(
    "format", ["q4_k", pytest.param("q8_0", marks=pytest.mark.wide)]
)
def test_products_are_those_of_the_elements(format: str, place: Any) -> None:
    rng = np.random.default_rng(0)
    weight = fw.quantize(rng.standard_normal((3, 5, 256)).astype(np.float32), format)
    elements = weight.dequantize().numpy()
    blocks = weight.blocks.to(place)
    x = rng.standard_normal((4, 256)).astype(np.float32)
    numbers = np.array([2, 0, 0, 1], np.int32)
    given = fw.tensor(x, device=place), blocks
    found = grouped.quantized_gather_mm(
        *given, fw.tensor(numbers, device=place), format
    )
    wanted = np.einsum("tk,tnk->tn", x, elements[numbers])
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-3)


def test_gradient_of_the_input(place: Any) -> None:
    rng = np.random.default_rng(1)
    weight = fw.quantize(rng.standard_normal((3, 5, 32)).astype(np.float32), "q8_0")
    elements = weight.dequantize().numpy()
    x = fw.tensor(
        rng.standard_normal((4, 32), np.float32), device=place, requires_grad=True
    )
    offs = fw.tensor([1, 1, 4], dtype=fw.int32, device=place)
    out = grouped.quantized_grouped_mm(x, weight.blocks.to(place), offs, "q8_0")
    grad = rng.standard_normal((4, 5)).astype(np.float32)
    out.backward(fw.tensor(grad, device=place))
    wanted = np.einsum("tn,tnk->tk", grad, elements[[0, 2, 2, 2]])
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-4, atol=1e-4)
