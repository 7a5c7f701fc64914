"""Attention of several heads with its projections, beside PyTorch's."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.nn.functional.beside import Fixed, beside, drawn
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import DTypeError, ShapeError
from vkbackend.framework.nn import functional as F  # noqa: N812 - PyTorch's usual name

EMBED, HEADS = 6, 2
CAUSAL = np.triu(np.ones((3, 3), bool), 1)
PADDING = np.array([[False, False, True], [False, True, False]])

CALLS: list[dict[str, Any]] = [
    {},
    {"attn_mask": CAUSAL, "is_causal": True, "need_weights": False},
    {"key_padding_mask": PADDING, "average_attn_weights": False},
    {"attn_mask": drawn(4, 3, 3), "key_padding_mask": drawn(2, 3)},
    {"bias_k": drawn(1, 1, 6), "bias_v": drawn(1, 1, 6), "add_zero_attn": True,
     "attn_mask": CAUSAL, "key_padding_mask": PADDING},
    {"static_k": drawn(4, 3, 3), "static_v": drawn(4, 3, 3), "need_weights": False},
]  # fmt: skip


def arguments(options: dict[str, Any], batch: tuple[int, ...] = (2,)) -> list[Any]:
    tokens = [drawn(3, *batch, EMBED, seed=k) for k in range(3)]
    weights = [drawn(18, EMBED), drawn(18)]
    given = [options.pop(key, None) for key in ("bias_k", "bias_v")]
    zero = options.pop("add_zero_attn", False)
    return [
        *tokens, EMBED, HEADS, *weights, *given, zero, 0.0,
        drawn(6, EMBED, seed=5), drawn(6, seed=5),
    ]  # fmt: skip


@pytest.mark.parametrize("options", CALLS)
def test_is_as_in_torch(options: dict[str, Any], place: Device) -> None:
    rest = dict(options)
    given = arguments(rest)
    weighted = rest.get("need_weights", True)
    if not weighted:  # PyTorch gives None beside the result.
        rest["need_weights"] = False
    beside("multi_head_attention_forward", place, *given, scale=32, **rest)


def test_without_batch(place: Device) -> None:
    rest = {"key_padding_mask": PADDING[0], "attn_mask": CAUSAL}
    given = arguments({}, ())
    beside("multi_head_attention_forward", place, *given, scale=32, **rest)


def test_attention_to_itself(place: Device) -> None:
    given = [fw.tensor(each, device=place) if isinstance(each, np.ndarray) else each
             for each in arguments({})]  # fmt: skip
    alias = given[0].view(given[0].shape)
    given[1:3] = given[0], alias
    expected, _ = F.multi_head_attention_forward(*given)
    given[2] = given[0]
    found, _ = F.multi_head_attention_forward(*given)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)


def test_separate_weights(place: Device) -> None:
    tokens = [drawn(3, 2, 6), drawn(4, 2, 5), drawn(4, 2, 7)]
    fixed = [Fixed(drawn(18)), None, None, False, 0.0, drawn(6, 6), drawn(6)]
    beside(
        "multi_head_attention_forward",
        place,
        *tokens, EMBED, HEADS, None, *fixed,
        use_separate_proj_weight=True,
        q_proj_weight=drawn(6, 6),
        k_proj_weight=drawn(6, 5),
        v_proj_weight=drawn(6, 7),
        scale=32,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"is_causal": True}, ShapeError, "is_causal needs attn_mask"),
        ({"attn_mask": fw.ones((2, 3))}, ShapeError, r"attn_mask is \(2, 3\)"),
        ({"attn_mask": fw.ones((3, 3), "int32")}, DTypeError, "attn_mask is int32"),
        ({"num_heads": 4}, ShapeError, "num_heads 4"),
        ({"in_proj_weight": None}, ShapeError, "give in_proj_weight"),
        ({"value": fw.ones((2, 2, 6))}, ShapeError, "must be as many"),
    ],
)
def test_bad_arguments(options: Any, error: type[Exception], text: str) -> None:
    names = [
        "query", "key", "value", "embed_dim_to_check", "num_heads", "in_proj_weight",
        "in_proj_bias", "bias_k", "bias_v", "add_zero_attn", "dropout_p",
        "out_proj_weight", "out_proj_bias",
    ]  # fmt: skip
    values = [
        fw.tensor(each) if isinstance(each, np.ndarray) else each
        for each in arguments({})
    ]
    with pytest.raises(error, match=text):
        F.multi_head_attention_forward(**(dict(zip(names, values)) | options))
