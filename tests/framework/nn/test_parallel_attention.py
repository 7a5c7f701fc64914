"""Heads on several ranks attend as those of one process do, with their gradients."""

import copy
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.rank_threads import as_threads
from vkbackend.framework import nn
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.communication.group import Group

CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "fused": ({}, {"need_weights": False}),
    "causal": ({"batch_first": True}, {"need_weights": False, "is_causal": True}),
    "weights": ({}, {}),
    "each head": ({"bias": False}, {"average_attn_weights": False}),
    "more keys": ({"add_bias_kv": True, "add_zero_attn": True}, {}),
    "other sizes": ({"kdim": 3, "vdim": 5}, {}),
    "masks": ({}, {"attn_mask": fw.randn(8, 2, 3)}),
}


@pytest.mark.parametrize("name", CASES)
def test_heads_are_divided(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    settings, options = CASES[name]
    fw.manual_seed(4)
    alone = nn.MultiheadAttention(8, 4, **settings)
    nn.init.normal_(alone.out_proj.weight)
    models = [copy.deepcopy(alone), nn.MultiheadAttention(8, 4, **settings)]
    query, key = fw.randn(2, 2, 8), fw.randn(3, 2, settings.get("kdim", 8))
    value = fw.randn(3, 2, settings.get("vdim", 8))
    alike = name == "causal"

    def run(model: nn.Module) -> tuple[list[np.ndarray], nn.Module]:
        given = [each.clone().requires_grad_() for each in (query, key, value)]
        out, weights = model(*(given[:1] * 3 if alike else given), **options)
        loss = out.square().sum()
        if weights is not None:
            loss = loss + (weights * fw.arange(float(weights.shape[-1]))).sum()
        loss.backward()
        found = [out, weights, *(each.grad for each in given)]
        return [x.detach().numpy() for x in found if x is not None], model

    def work(group: Group) -> Any:
        model = nn.ParallelMultiheadAttention(models[group.rank], group)
        found, _ = run(model)
        state, whole = nn.whole_state_dict(model), model.whole()
        assert whole.num_heads == 4
        for key, each in whole.state_dict().items():
            assert fw.equal(each, alone.state_dict()[key])
            assert fw.equal(each, state[key])
        for p in model.parameters():
            p.data = p.grad
        return found, nn.whole_state_dict(model)

    expected, _ = run(alone)
    for found, grads in as_threads(monkeypatch, 2, 4096).run(work):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
        for key, p in alone.named_parameters():
            np.testing.assert_allclose(
                grads[key].numpy(), p.grad.numpy(), rtol=1e-4, atol=1e-5, err_msg=key
            )


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(group: Group) -> None:
        with pytest.raises(ShapeError, match="num_heads is 1; it must be a multiple"):
            nn.ParallelMultiheadAttention(nn.MultiheadAttention(2, 1), group)
        model = nn.ParallelMultiheadAttention(nn.MultiheadAttention(4, 2), group)
        with pytest.raises(ShapeError, match=r"is \(3, 1, 1\); its first dimension"):
            model(fw.ones(1, 1, 4), attn_mask=fw.ones(3, 1, 1))

    as_threads(monkeypatch, 2).run(work)
