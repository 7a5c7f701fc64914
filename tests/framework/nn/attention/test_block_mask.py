"""Masks of blocks beside PyTorch's."""

from typing import Any

import numpy as np
import pytest
from torch.nn.attention import flex_attention as theirs

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.nn.attention import flex_attention as ours


def causal(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q >= k


def window(b: Any, h: Any, q: Any, k: Any) -> Any:
    return (q - k).abs() <= 3


def test_blocks_are_those_of_torch() -> None:
    for mod, sizes, block in (
        (causal, (1, 1, 300, 300), 128),
        (window, (2, 3, 40, 24), (16, 8)),
    ):
        made = ours.create_block_mask(mod, *sizes, BLOCK_SIZE=block)
        wanted = theirs.create_block_mask(mod, *sizes, device="cpu", BLOCK_SIZE=block)
        assert made.shape == wanted.shape
        assert made.seq_lengths == wanted.seq_lengths
        assert made.BLOCK_SIZE == wanted.BLOCK_SIZE
        assert made.numel() == wanted.numel()
        assert made.sparsity() == pytest.approx(wanted.sparsity())
        assert made.to_dense().tolist() == wanted.to_dense().tolist()
        for name in ("kv", "full_kv", "q", "full_q"):
            for part in (f"{name}_num_blocks", f"{name}_indices"):
                one, other = getattr(made, part), getattr(wanted, part)
                assert str(one.dtype) == str(other.dtype)
                assert one.tolist() == other.tolist(), part
        part, their = made[:, :, :1], wanted[:, :, :1]
        assert part.to_dense().tolist() == their.to_dense().tolist()
    assert ours.create_mask(causal, None, 2, 3, 4).shape == (1, 2, 3, 4)
    scores = ours.create_mask(
        lambda s, b, h, q, k: fw.where(q >= k, s, -np.inf), 1, 1, 3, 3
    )
    assert scores.tolist() == [
        [[[True, False, False], [True] * 2 + [False], [True] * 3]]
    ]


def test_a_mask_of_blocks_alone(rng: np.random.Generator) -> None:
    made = ours.BlockMask.from_kv_blocks(
        fw.tensor([[[1, 2]]], dtype="int32"),
        fw.tensor([[[[1, 0], [0, 1]]]], dtype="int32"),
        BLOCK_SIZE=2,
    )
    q, k, v = (fw.tensor(rng.normal(size=(1, 1, 4, 3))) for _ in range(3))
    seen = np.array([[0, 0, 1, 1]] * 2 + [[1] * 4] * 2, bool)
    wanted = fw.nn.functional.scaled_dot_product_attention(q, k, v, fw.tensor(seen))
    assert_close(ours.flex_attention(q, k, v, block_mask=made), wanted, scale=4)
    assert "sparsity=25.00%" in repr(made)
    assert made.to_string() == "  ::\n::::"


def test_refusals() -> None:
    with pytest.raises(ShapeError, match="at least 1"):
        ours.create_block_mask(causal, 0, 1, 2, 4)
    with pytest.raises(RuntimeError, match="no function"):
        ours.and_masks(causal, 3)
    with pytest.raises(AssertionError):
        ours.BlockMask.from_kv_blocks(fw.ones(1), fw.ones(1, 1), fw.ones(1))
