"""Models from folders: dtypes, tied parameters, and folders that do not fit."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.models.small import CONFIG, small_llama
from vkbackend.framework.base.errors import FileFormatError


def folder(path: Path, config: dict[str, Any], state: dict[str, Any]) -> Path:
    (path / "config.json").write_text(json.dumps(config))
    fw.save(state, path / "model.safetensors")
    return path


@pytest.fixture
def state() -> dict[str, Any]:
    return {name: each.detach() for name, each in small_llama().state_dict().items()}


def test_on_a_device_in_a_dtype(
    tmp_path: Path, place: Any, state: dict[str, Any]
) -> None:
    model = fw.models.load(folder(tmp_path, CONFIG, state), place, fw.float16)
    assert not model.training
    for name, each in model.state_dict().items():
        assert each.dtype is fw.float16
        assert each.device is place
        np.testing.assert_array_equal(
            each.numpy(), state[name].numpy().astype(np.float16)
        )


def test_on_the_default_device(
    tmp_path: Path, place: Any, state: dict[str, Any]
) -> None:
    with place:
        model = fw.models.load(folder(tmp_path, CONFIG, state))
    assert {each.device for each in model.parameters()} == {place}


def test_tied_parameters_are_one(tmp_path: Path, state: dict[str, Any]) -> None:
    config = {**CONFIG, "tie_word_embeddings": True}
    del state["lm_head.weight"]
    model = fw.models.load(folder(tmp_path, config, state))
    assert model.lm_head.weight is model.model.embed_tokens.weight
    wanted = state["model.embed_tokens.weight"].numpy()
    np.testing.assert_array_equal(model.lm_head.weight.detach().numpy(), wanted)


def missing(state: dict[str, Any]) -> None:
    del state["model.layers.1.mlp.up_proj.weight"]


def strange(state: dict[str, Any]) -> None:
    state["model.layers.2.mlp.up_proj.weight"] = fw.zeros(3)


def of_another_shape(state: dict[str, Any]) -> None:
    state["model.norm.weight"] = fw.zeros(9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (missing, r"`model\.layers\.1\.mlp\.up_proj\.weight` is missing"),
        (
            strange,
            r"`model\.layers\.2\.mlp\.up_proj\.weight` is not of the model",
        ),
        (of_another_shape, r"`model\.norm\.weight` has shape \(9,\); .* \(8,\)"),
    ],
)
def test_parameters_that_do_not_fit(
    tmp_path: Path, state: dict[str, Any], change: Any, message: str
) -> None:
    change(state)
    with pytest.raises(FileFormatError, match=message):
        fw.models.load(folder(tmp_path, CONFIG, state))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({**CONFIG, "model_type": "t5"}, r"`model_type` is 't5'; accepted: 'llama'"),
        ({"model_type": "llama"}, r"`hidden_size` is missing"),
        ({}, r"`model_type` is missing"),
    ],
)
def test_configurations_that_do_not_fit(
    tmp_path: Path, state: dict[str, Any], config: dict[str, Any], message: str
) -> None:
    with pytest.raises(FileFormatError, match=message):
        fw.models.load(folder(tmp_path, config, state))


def test_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"has no config\.json"):
        fw.models.load(tmp_path)
