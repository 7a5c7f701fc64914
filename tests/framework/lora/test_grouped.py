"""Adapters of experts: what they compute, merged and not, and their files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.models.small import small_llama
from vkbackend.framework import lora
from vkbackend.framework.base.errors import FileFormatError
from vkbackend.framework.io.serialization import load, save
from vkbackend.framework.lora.grouped import LoRAGrouped

TOKENS = np.array([[1, 2, 3, 4, 5, 6, 7]])
SIZES = {"hidden_size": 32, "intermediate_size": 32}


def mixture(format: str | None = None) -> Any:
    """Return a small Mixtral, with quantized experts or without."""
    model = small_llama(model_type="mixtral", num_local_experts=3, **SIZES)  # type: ignore[arg-type]
    if format is not None:
        fw.nn.quantize(model, format)
        experts = model.model.layers[0].block_sparse_moe.experts
        assert isinstance(experts.gate, fw.nn.QGroupedLinear)
    return model


def randomized(model: Any) -> Any:
    rng = np.random.default_rng(1)
    with fw.no_grad():
        for each in lora.parameters(model):
            each.copy_(fw.tensor(rng.standard_normal(each.shape, np.float32) / 8))
    return model


def logits(model: Any, place: Any = "cpu") -> np.ndarray:
    with fw.no_grad():
        found: np.ndarray = model(fw.tensor(TOKENS, device=place)).numpy()
    return found


@pytest.mark.parametrize("format", [None, "q8_0"])
def test_merged_experts_are_those_with_adapters(format: str | None) -> None:
    model = mixture(format)
    before = logits(model)
    names = lora.add(model, 2, 8, targets=["w1", "w2", "w3", "q_proj"])
    assert len(names) == 2 * 4
    np.testing.assert_array_equal(logits(model), before)
    with_adapters = logits(randomized(model))
    assert np.abs(with_adapters - before).max() > 0.1
    # One token, whose experts are gathered, has the same.
    with fw.no_grad():
        alone = model(fw.tensor(TOKENS[:, :1])).numpy()
    np.testing.assert_allclose(alone[0, 0], with_adapters[0, 0], rtol=1e-4, atol=1e-4)
    lora.merge(model, requantize=format is not None)
    change = np.abs(logits(model) - with_adapters).mean()
    assert change < (1e-5 if format is None else 0.1) * np.abs(with_adapters).mean()
    lora.unmerge(model)
    bound = 1e-5 if format is None else 0
    np.testing.assert_allclose(logits(model), with_adapters, rtol=bound, atol=bound)


def test_gradients_are_those_of_each_matrix(place: Any) -> None:
    rng = np.random.default_rng(0)
    base = fw.nn.QGroupedLinear.from_grouped(fw.nn.GroupedLinear(3, 32, 5), "q8_0")
    layer = LoRAGrouped(base, lora.layers.Settings(2, 4.0, 0.0, False))
    with fw.no_grad():
        layer.lora_B.weight.copy_(fw.tensor(rng.standard_normal((3, 5, 2), np.float32)))
    weight, a, b = (
        torch.tensor(each.numpy(), requires_grad=True)
        for each in (
            base.weight.dequantize(),
            layer.lora_A.weight.detach(),
            layer.lora_B.weight.detach(),
        )
    )
    x = rng.standard_normal((4, 32)).astype(np.float32)
    groups = [0, 2, 2, 2]
    whole = weight.detach() + 2 * b @ a
    wanted = torch.einsum("tk,tnk->tn", torch.tensor(x), whole[groups])
    wanted.square().sum().backward()
    layer = layer.to(place)
    offs = fw.tensor([1, 1, 4], device=place)
    found = layer(fw.tensor(x, device=place), offs=offs)
    found.square().sum().backward()
    np.testing.assert_allclose(
        found.detach().numpy(), wanted.detach().numpy(), rtol=1e-4, atol=1e-4
    )
    for factor, of in ((layer.lora_A, a), (layer.lora_B, b)):
        assert factor.weight.grad is not None
        assert of.grad is not None
        np.testing.assert_allclose(
            factor.weight.grad.numpy(), of.grad.numpy(), rtol=1e-4, atol=1e-3
        )


def test_files_have_a_layer_for_each_expert(tmp_path: Path) -> None:
    model = mixture()
    lora.add(model, 2, 8, targets=["w1", "w2", "w3"])
    wanted = logits(randomized(model))
    lora.save(model, tmp_path)
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert config["target_modules"] == ["w1", "w2", "w3"]
    path = tmp_path / "adapter_model.safetensors"
    stored: Any = load(path)
    first = "base_model.model.model.layers.0.block_sparse_moe.experts"
    assert stored[f"{first}.2.w1.lora_A.weight"].shape == (2, 32)
    assert len(stored) == 2 * 3 * 3 * 2
    other = mixture()
    lora.load(other, tmp_path)
    np.testing.assert_array_equal(logits(other), wanted)
    # Into quantized experts; those of the file, as they are.
    rough = mixture("q8_0")
    lora.load(rough, tmp_path)
    for name in ("gate", "up", "down"):
        layers = (
            getattr(each.model.layers[1].block_sparse_moe.experts, name)
            for each in (rough, model)
        )
        ours, theirs = (each.lora_B.weight.detach().numpy() for each in layers)
        np.testing.assert_array_equal(ours, theirs)
    del stored[f"{first}.1.w2.lora_B.weight"]
    save(stored, path)
    with pytest.raises(
        FileFormatError, match=r"experts\.1\.w2\.lora_B\.weight` is mis"
    ):
        lora.load(mixture(), tmp_path)
