from typing import Any

import numpy as np

import vkbackend.framework as fw
from tests.framework.models.small import CONFIG


def made(kind: str, place: Any, **settings: Any) -> fw.nn.Module:
    config = fw.models.ModelConfig(CONFIG | {"model_type": kind} | settings)
    model: Any = {"llama": fw.models.Llama, "qwen2": fw.models.Qwen}[kind](config)
    fw.models.initialize(model, place, fw.bfloat16, std=0.1)
    return model  # type: ignore[no-any-return]  # either class


def test_matrices_are_drawn_and_norms_stay(place: Any) -> None:
    fw.manual_seed(0)
    model = made("qwen2", place, tie_word_embeddings=True, vocab_size=999)
    found = {name: each.float().numpy() for name, each in model.state_dict().items()}
    table = found["model.embed_tokens.weight"]
    assert abs(table.std() - 0.1) < 0.01
    assert found["lm_head.weight"] is not table
    np.testing.assert_array_equal(found["lm_head.weight"], table)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert (found["model.layers.0.self_attn.q_proj.bias"] == 0).all()
    assert (found["model.norm.weight"] == 1).all()
    kinds = {(each.dtype, each.device) for each in model.parameters()}
    assert kinds == {(fw.bfloat16, fw.device(place))}
    assert all(each.requires_grad for each in model.parameters())
    assert model(fw.tensor([[1, 2]], device=place)).shape == (1, 2, 999)
