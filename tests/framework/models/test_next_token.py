from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.models.small import CONFIG, small_llama
from vkbackend.errors import ArgumentError
from vkbackend.framework import lora, nn
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError

SEQUENCES = [[1, 2, 3, 4], [5, 6, 7], [8, 9, 10, 1, 2, 3], [4, 4]]
HEADS = {"num_key_value_heads": 2, "head_dim": 4}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {"sliding_window": 3},
    "mixtral": {"num_local_experts": 3, "sliding_window": None},
    "qwen2": {},
    "qwen3": HEADS,
    "gemma2": {
        **HEADS,
        "query_pre_attn_scalar": 4,
        "sliding_window": 3,
        "hidden_activation": "gelu_pytorch_tanh",
    },
    "phi": {"partial_rotary_factor": 0.5, "hidden_act": "gelu_new"},
    "phi3": {"sliding_window": None},
    "gpt2": {"n_positions": 16, "n_embd": 8, "n_layer": 2, "n_head": 2},
}
CLASSES = {
    "gpt2": "GPT2",
    "phi": "Phi",
    "phi3": "Phi3",
    "gemma2": "Gemma",
    "qwen2": "Qwen",
    "qwen3": "Qwen",
}


def family(name: str) -> nn.Module:
    """Return a small model of a family, with random parameters."""
    config = fw.models.ModelConfig(CONFIG | {"model_type": name} | FAMILIES[name])
    model = getattr(fw.models, CLASSES.get(name, "Llama"))(config).eval()
    rng = np.random.default_rng(0)
    with fw.no_grad():
        for each in model.parameters():
            each.copy_(fw.tensor(0.5 * rng.standard_normal(each.shape, np.float32)))
    found: nn.Module = model
    return found


@pytest.mark.parametrize("name", FAMILIES)
def test_packed_losses_are_those_of_sequences_alone(name: str, place: Device) -> None:
    model = family(name).to(place)
    packed = fw.models.pack(SEQUENCES, 8, place)
    got = fw.models.loss(
        model,
        packed.tokens,
        packed.targets,
        documents=packed.documents,
        reduction="sum",
        chunk=5,
    )
    want = 0.0
    for each in SEQUENCES:
        logits = model(fw.tensor([each], device=place))[0, :-1]
        after = fw.tensor(each[1:], device=place)
        want += nn.functional.cross_entropy(logits, after, reduction="sum").item()
    np.testing.assert_allclose(got.item(), want, rtol=1e-4)


def test_targets_are_the_tokens_after_each(place: Device) -> None:
    model = small_llama().to(place)
    packed = fw.models.pack(SEQUENCES, 8, place)
    for reduction in ("none", "mean"):
        want = fw.models.loss(
            model,
            packed.tokens,
            packed.targets,
            documents=packed.documents,
            reduction=reduction,
        )
        got = fw.models.loss(
            model, packed.tokens, documents=packed.documents, reduction=reduction
        )
        np.testing.assert_array_equal(
            got.detach().cpu().numpy(), want.detach().cpu().numpy()
        )
    tokens = packed.tokens[1:]
    logits = model(tokens)[:, :-1].reshape(7, -1)
    want = nn.functional.cross_entropy(logits, tokens[0, 1:])
    np.testing.assert_allclose(
        fw.models.loss(model, tokens).item(), want.item(), rtol=1e-5
    )


def test_heads_that_are_quantized_or_have_an_adapter() -> None:
    model = small_llama(hidden_size=32, head_dim=16)
    tokens = fw.tensor([[1, 2, 3, 4, 5, 6]])
    want = fw.models.loss(model, tokens).item()
    lora.add(model, 2, targets=["lm_head"])
    np.testing.assert_allclose(fw.models.loss(model, tokens).item(), want, rtol=1e-5)
    lora.remove(model)
    nn.quantize(model, "q8_0", skip=["model.*"])
    got = fw.models.loss(model, tokens, chunk=2)
    np.testing.assert_allclose(got.item(), want, rtol=0.05)


def test_wrong_use_is_refused() -> None:
    tokens = fw.zeros((1, 3), dtype=fw.int64)
    with pytest.raises(ArgumentError, match="the Linear has no `lm_head`"):
        fw.models.loss(nn.Linear(2, 2), tokens)
    with pytest.raises(ShapeError, match=r"targets are \(1, 2\); tokens are \(1, 3\)"):
        fw.models.loss(small_llama(), tokens, tokens[:, 1:])
    with pytest.raises(ShapeError, match=r"tokens are \(3,\)"):
        fw.models.loss(small_llama(), tokens[0])
