"""Adapters of experts' fused parameters, in files of the package peft's layout."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.lora.test_grouped import mixture, randomized
from tests.framework.models.saved import SIZES, TOKENS, logits, saved, torch
from vkbackend.errors import ArgumentError
from vkbackend.framework import lora
from vkbackend.framework.base.errors import FileFormatError, ShapeError
from vkbackend.framework.io.serialization import load, save

KINDS: dict[str, dict[str, Any]] = {
    "Mixtral": {**SIZES, "num_key_value_heads": 2, "num_local_experts": 3},
    "Qwen3Moe": {
        **SIZES,
        "head_dim": 8,
        "num_experts": 5,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 24,
        "norm_topk_prob": True,
    },
}
EXPERTS = "model.layers.{}.mlp.experts"
ALPHA = 6


def adapted_file(
    folder: Path, model: Any, places: dict[str, str], ranks: dict[str, int]
) -> None:
    """Write an adapter, and add what it makes to a model of transformers.

    Source of the layout: the package peft, `ParamWrapper` of `tuners/lora/layer.py`.
    """
    folder.mkdir()
    rng = torch.Generator().manual_seed(0)
    tensors = {}
    for layer in range(2):
        for parameter, place in places.items():
            module = model.get_submodule(EXPERTS.format(layer))
            weight = getattr(module, parameter)
            experts, rows, columns = weight.shape
            rank = ranks.get(parameter, 2)
            a = torch.randn(experts * rank, columns, generator=rng) / 4
            b = torch.randn(rows, rank * experts, generator=rng) / 4
            change = torch.einsum(
                "ore,eri->eoi",
                b.reshape(rows, rank, experts),
                a.reshape(experts, rank, columns),
            )
            scale = (ALPHA + rank) / rank if parameter in ranks else ALPHA / rank
            with torch.no_grad():
                weight += scale * change
            name = f"base_model.model.{EXPERTS.format(layer)}{place}"
            tensors[f"{name}.lora_A.weight"] = fw.tensor(a.numpy())
            tensors[f"{name}.lora_B.weight"] = fw.tensor(b.numpy())
    save(tensors, folder / "adapter_model.safetensors")
    config: dict[str, Any] = {"peft_type": "LORA", "r": 2, "lora_alpha": ALPHA}
    config["target_parameters"] = [f"experts.{each}" for each in places]
    config["rank_pattern"] = {rf".*\.{each}": rank for each, rank in ranks.items()}
    config["alpha_pattern"] = {each: ALPHA + rank for each, rank in ranks.items()}
    (folder / "adapter_config.json").write_text(json.dumps(config))


BOTH = {"gate_up_proj": ".base_layer", "down_proj": ""}


@pytest.mark.parametrize(
    ("kind", "places", "ranks"),
    [
        ("Mixtral", BOTH, {}),
        ("Qwen3Moe", BOTH, {"gate_up_proj": 3}),
        ("Qwen3Moe", {"down_proj": ""}, {}),
        ("Mixtral", {"gate_up_proj": ""}, {}),
    ],
)
def test_files_of_peft(
    tmp_path: Path, kind: str, places: dict[str, str], ranks: dict[str, int]
) -> None:
    """Logits are those of transformers with changed weights; files stay the same."""
    theirs = saved(tmp_path / "model", kind, **KINDS[kind])
    adapted_file(tmp_path / "adapter", theirs, places, ranks)
    want, tokens = logits(theirs), fw.tensor(TOKENS)
    model: Any = fw.models.load(tmp_path / "model", "cpu")
    lora.load(model, tmp_path / "adapter")
    with fw.no_grad():
        found = model(tokens).numpy()
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)
    lora.save(model, tmp_path / "again")
    name = "adapter_model.safetensors"
    first, second = (load(tmp_path / each / name) for each in ("adapter", "again"))
    assert first.keys() == second.keys()
    for each, value in first.items():
        np.testing.assert_array_equal(second[each].numpy(), value.numpy())
    config = json.loads((tmp_path / "again" / "adapter_config.json").read_text())
    assert config["target_parameters"] == sorted(f"mlp.experts.{x}" for x in places)
    assert config["target_modules"] == []
    other: Any = fw.models.load(tmp_path / "model", "cpu")
    lora.load(other, tmp_path / "again")
    lora.merge(other)
    with fw.no_grad():
        merged = other(tokens).numpy()
    np.testing.assert_allclose(merged, want, rtol=1e-4, atol=1e-4)


def test_both_halves_have_one_factor(tmp_path: Path) -> None:
    model = mixture()
    names = lora.add(
        model, 2, 8, targets=["q_proj"], target_parameters=["experts.gate_up_proj"]
    )
    assert len(names) == 2 * 3
    assert sum(each.endswith("experts.gate") for each in names) == 2
    # q_proj has two factors; gate and up have one A, and a B each.
    assert len(lora.parameters(model)) == 2 * (2 + 3)
    randomized(model)
    for each in (model, copy.deepcopy(model), copy.deepcopy(model).to(fw.float64)):
        experts = each.model.layers[1].block_sparse_moe.experts
        assert experts.gate.lora_A.weight is experts.up.lora_A.weight
    tokens = fw.tensor([[1, 2, 3, 4]])
    optimizer = fw.optim.SGD(lora.parameters(model), 0.1)
    model(tokens).square().sum().backward()
    optimizer.step()
    with fw.no_grad():
        want = model(tokens).numpy()
    lora.save(model, tmp_path)
    # Into the adapters of a model that has them.
    with fw.no_grad():
        for parameter in lora.parameters(model):
            parameter.zero_()
    lora.load(model, tmp_path)
    with fw.no_grad():
        np.testing.assert_array_equal(model(tokens).numpy(), want)


def test_what_is_refused(tmp_path: Path) -> None:
    def add(**given: Any) -> None:
        lora.add(mixture(), 2, targets=[], **given)

    with pytest.raises(ArgumentError, match="has 'gate_up'; of the Llama there can be"):
        add(target_parameters=["gate_up"])
    with pytest.raises(ArgumentError, match="it must be a list of names"):
        add(target_parameters="gate_up_proj")
    with pytest.raises(ArgumentError, match="with target_parameters it must be 0"):
        add(target_parameters=["gate_up_proj"], dropout=0.5)
    with pytest.raises(ArgumentError, match="no layer is a target"):
        add()
    single = mixture()
    lora.add(single, 2, targets=["w1", "w2", "w3"])
    model = mixture()
    lora.add(model, 2, targets=[], target_parameters=[*BOTH])
    lora.save(model, tmp_path)
    with pytest.raises(ArgumentError, match="in a fused parameter of experts; take"):
        lora.load(single, tmp_path)
    path = tmp_path / "adapter_model.safetensors"
    whole: Any = load(path)
    name = "base_model.model.model.layers.0.mlp.experts.base_layer.lora_B.weight"
    for value, error, problem in (
        (None, FileFormatError, "base_layer.lora_B.weight` is missing"),
        (whole[name][:, 1:], FileFormatError, "it must be a matrix of 3 experts"),
        (whole[name][1:], FileFormatError, "it must be a matrix of 3 experts"),
        (whole[name][:, 3:], ShapeError, "experts.gate.lora_B.weight` is"),
    ):
        parts = {**whole, name: value}
        save({each: x for each, x in parts.items() if x is not None}, path)
        with pytest.raises(error, match=problem):
            lora.load(mixture(), tmp_path)
