import json
from pathlib import Path

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.lora.test_adapters import TOKENS, layers, randomized, values
from tests.framework.models.small import small_llama
from vkbackend.errors import ArgumentError
from vkbackend.framework import lora
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import FileFormatError, ShapeError


def test_saved_and_loaded(place: Device, tmp_path: Path) -> None:
    model = layers().to(place)
    own = model.state_dict()
    other = layers().to(place)
    other.load_state_dict(own)
    lora.add(model, 4, 6.0, 0.1, ["0", "2"], rslora=True)
    randomized(model)
    lora.save(model, tmp_path / "adapter", "a/model")
    lora.load(other, tmp_path / "adapter")
    tokens = fw.tensor(TOKENS, device=place)
    np.testing.assert_array_equal(
        values(other.eval(), tokens), values(model.eval(), tokens)
    )
    assert other[2].settings == model[2].settings
    assert other[2].lora_A.weight.device == place
    with fw.no_grad():
        other[2].lora_A.weight.zero_()
    lora.load(other, tmp_path / "adapter")
    np.testing.assert_array_equal(values(other, tokens), values(model, tokens))


def test_content_is_that_of_peft(tmp_path: Path) -> None:
    model = small_llama()
    lora.add(model, 2, 8, targets=["q_proj", "v_proj"])
    lora.save(model, tmp_path, "folder")
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert config["peft_type"] == "LORA"
    assert config["task_type"] == "CAUSAL_LM"
    assert config["base_model_name_or_path"] == "folder"
    assert (config["r"], config["lora_alpha"]) == (2, 8)
    assert config["target_modules"] == ["q_proj", "v_proj"]
    assert config["fan_in_fan_out"] is False
    names = set(fw.models.open_checkpoint(tmp_path / "adapter_model.safetensors"))
    assert len(names) == 8
    assert "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" in names


def test_names_are_whole_where_their_ends_say_too_much(tmp_path: Path) -> None:
    model = small_llama()
    chosen = lora.add(model, 2, targets=r".*\.1\.self_attn\.q_proj")
    lora.save(model, tmp_path)
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert config["target_modules"] == list(chosen)


def change(folder: Path, **settings: object) -> None:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"peft_type": "IA3"}, "peft_type is 'IA3'; it must be 'LORA'"),
        ({"use_dora": True}, "use_dora is True, which is not supported"),
        ({"bias": "all"}, "bias is 'all', which is not supported"),
        ({"r": "2"}, "r is '2'; it must be a positive integer"),
        ({"lora_alpha": None}, "lora_alpha is None; it must be a number"),
        ({"lora_dropout": 1.5}, r"lora_dropout is 1\.5"),
    ],
)
def test_other_settings_are_refused(
    tmp_path: Path, settings: dict[str, object], problem: str
) -> None:
    model = layers()
    lora.add(model, 2, targets=["1"])
    lora.save(model, tmp_path)
    change(tmp_path, **settings)
    with pytest.raises(FileFormatError, match=problem):
        lora.load(layers(), tmp_path)


def test_wrong_files_leave_the_model_as_it_was(tmp_path: Path) -> None:
    model, other = layers(), layers()
    with pytest.raises(FileNotFoundError, match=r"there is no file .*adapter_config"):
        lora.load(model, tmp_path)
    lora.add(model, 2, targets=["1"])
    lora.save(model, tmp_path)
    with pytest.raises(FileFormatError, match="adapter of `1`; the Llama has no such"):
        lora.load(small_llama(), tmp_path)
    change(tmp_path, r=3)
    with pytest.raises(ShapeError, match=r"lora_A\.weight` is \(2, 32\); the layer"):
        lora.load(other, tmp_path)
    change(tmp_path, r=2)
    path = tmp_path / "adapter_model.safetensors"
    whole = fw.load(path)
    fw.save({name: each for name, each in whole.items() if "A" in name}, path)
    with pytest.raises(FileFormatError, match=r"1\.lora_B\.weight` is missing"):
        lora.load(other, tmp_path)
    fw.save({**whole, "base_model.model.1.bias": fw.zeros(64)}, path)
    with pytest.raises(
        FileFormatError, match=r"`base_model\.model\.1\.bias` is no part"
    ):
        lora.load(other, tmp_path)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"no adapter_model\.safetensors"):
        lora.load(other, tmp_path)
    assert [type(each).__name__ for each in other] == ["Embedding", "Linear", "Linear"]
    assert all(each.requires_grad for each in other.parameters())


def test_a_model_with_other_adapters_is_refused(tmp_path: Path) -> None:
    model, other, same = layers(), layers(), layers()
    lora.add(model, 2, targets=["1"])
    lora.save(model, tmp_path)
    lora.add(other, 2, targets=["2"])
    with pytest.raises(ArgumentError, match="have adapters of other layers, as `1`"):
        lora.load(other, tmp_path)
    lora.add(same, 2, 3.0, targets=["1"])
    with pytest.raises(ArgumentError, match=r"alpha=3\.0.*, that of"):
        lora.load(same, tmp_path)
    lora.merge(model)
    with pytest.raises(ArgumentError, match=r"`1` is merged; lora\.unmerge"):
        lora.load(model, tmp_path)
