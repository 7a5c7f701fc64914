"""Attention by ops on the whole matrix of weights, against PyTorch."""

from collections.abc import Callable

import pytest
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.framework.ops.twin import as_in_torch
from vkbackend.framework import ops
from vkbackend.framework.ops.attention.composed import composed_attention

Make = Callable[..., fw.Tensor]


def test_mask_with_a_gradient(make: Make) -> None:
    twin = F.scaled_dot_product_attention
    shapes = [(2, 3, 7, 4), (2, 3, 5, 4), (2, 3, 5, 4), (3, 7, 5)]
    as_in_torch(make, ops.scaled_dot_product_attention, twin, *shapes)


@pytest.mark.parametrize("causal", [False, True])
def test_heads_that_share_keys(causal: bool, make: Make) -> None:
    as_in_torch(
        make,
        lambda q, k, v: composed_attention(q, k, v, None, 0.5, causal, 0.0),
        lambda q, k, v: F.scaled_dot_product_attention(
            q, k, v, is_causal=causal, scale=0.5, enable_gqa=True
        ),
        (2, 4, 7, 4),
        (2, 2, 7, 4),
        (2, 2, 7, 5),
    )
