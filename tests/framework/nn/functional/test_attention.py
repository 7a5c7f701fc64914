"""Attention under PyTorch's signature."""

from tests.framework.nn.functional.beside import beside, drawn
from vkbackend.framework.base.device import Device


def test_keywords(place: Device) -> None:
    arrays = [drawn(2, 4, 5, 8, seed=k) for k in range(3)]
    beside("scaled_dot_product_attention", place, *arrays, is_causal=True, scale=0.3)
    shared = [arrays[0], *(drawn(2, 2, 5, 8, seed=k) for k in range(2))]
    beside("scaled_dot_product_attention", place, *shared, enable_gqa=True)
