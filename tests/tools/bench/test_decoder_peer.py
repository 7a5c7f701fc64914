"""The decoder in PyTorch has the parameters of ours, and computes the same."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework import lora
from vkbackend.tools.bench.decoder_peer import (
    add_adapters,
    copy_weights,
    torch_cache,
    torch_decoder,
    torch_tensor,
)
from vkbackend.tools.models.shapes import random_model, shape_config

torch = pytest.importorskip("torch")

SIZES = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
}


@pytest.fixture(params=["llama-8b", "qwen3-1.7b"])
def both(request: pytest.FixtureRequest) -> Any:
    config = shape_config(request.param) | SIZES
    model = random_model(config, None, fw.device("cpu"), fw.float32)
    peer = torch_decoder(torch, config)
    copy_weights(torch, model, peer)
    return config, model, peer


def test_logits_are_ours(both: Any) -> None:
    _, model, peer = both
    tokens = np.random.default_rng(0).integers(0, 96, (2, 7))
    ours = model(fw.tensor(tokens)).numpy()
    theirs = peer(torch.from_numpy(tokens)).detach().numpy()
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_steps_with_a_cache_are_those_of_the_whole_text(both: Any) -> None:
    config, _, peer = both
    tokens = torch.randint(0, 96, (2, 6))
    cache = torch_cache(torch, config, 2, 12, peer.lm_head.weight)
    with torch.no_grad():
        whole = peer(tokens)
        found = [peer(tokens[:, :4], cache)]
        found += [peer(tokens[:, at : at + 1], cache) for at in (4, 5)]
    torch.testing.assert_close(torch.cat(found, 1), whole[:, 3:], atol=1e-5, rtol=1e-5)
    assert cache.position.item() == 6


def test_adapters_are_ours(both: Any) -> None:
    _, model, peer = both
    lora.add(model, 4, 8.0)
    for each in lora.parameters(model):
        each.data.copy_(fw.randn(each.shape) * 0.1)
    add_adapters(torch, peer, 4, 8.0)
    copy_weights(torch, model, peer)
    tokens = np.arange(10).reshape(2, 5)
    ours = model(fw.tensor(tokens)).detach().numpy()
    theirs = peer(torch.from_numpy(tokens))
    np.testing.assert_allclose(ours, theirs.detach().numpy(), atol=1e-5)
    theirs.sum().backward()
    names = {name for name, each in peer.named_parameters() if each.grad is not None}
    assert names == {
        name for name, each in model.named_parameters() if each.requires_grad
    }


def test_elements_are_the_same_bits() -> None:
    values = fw.randn(5)
    found = torch_tensor(torch, values.to(fw.bfloat16))
    assert found.dtype is torch.bfloat16
    assert (found.float().numpy() == values.to(fw.bfloat16).float().numpy()).all()
    assert (torch_tensor(torch, values).numpy() == values.numpy()).all()
