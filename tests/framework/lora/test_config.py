"""Ranks and alphas by patterns, in configurations of adapters."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.framework.lora.test_adapters import layers
from tests.framework.models.small import small_llama
from vkbackend.framework import lora
from vkbackend.framework.base.errors import FileFormatError
from vkbackend.framework.lora.config import read_config
from vkbackend.framework.lora.layers import Settings


def config_file(folder: Path, **settings: Any) -> Path:
    path = folder / "adapter_config.json"
    known = {"peft_type": "LORA", "r": 4, "lora_alpha": 8}
    path.write_text(json.dumps({**known, **settings}))
    return path


def test_patterns_are_of_names_and_their_ends(tmp_path: Path) -> None:
    ranks = {"q_proj": 2, r"model\.layers\.1\..*": 3}
    found = read_config(
        config_file(tmp_path, rank_pattern=ranks, alpha_pattern={"v_proj": 1})
    )
    plain = Settings(4, 8.0, 0.0, False)
    assert found.of(["model.layers.0.self_attn.k_proj"]) == plain
    # The first that fits decides.
    wanted = plain._replace(rank=2)
    assert found.of(["model.layers.1.self_attn.q_proj"]) == wanted
    assert found.of(["q_proj"]) == wanted
    assert found.of(["model.layers.0.other_q_proj"]) == plain
    wanted = Settings(3, 1.0, 0.0, False)
    assert found.of(["model.layers.1.self_attn.v_proj"]) == wanted
    with pytest.raises(FileFormatError, match="give the layers a"):
        found.of(["a.q_proj", "a.k_proj"])


def test_layers_keep_ranks_of_their_own(tmp_path: Path) -> None:
    model = small_llama()
    chosen = {
        name: model.get_submodule(name)
        for name in ("model.layers.0.self_attn.q_proj", "model.layers.1.mlp.up_proj")
    }
    settings = (Settings(2, 4.0, 0.0, False), Settings(3, 1.5, 0.0, False))
    lora.adapters.put(model, chosen, dict(zip(chosen, settings, strict=True)))
    lora.save(model, tmp_path)
    other = small_llama()
    lora.load(other, tmp_path)
    found = dict(lora.adapters.layers_of(other))
    assert [found[name].settings for name in chosen] == [*settings]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"rank_pattern": {"a": 0}},
            r"rank_pattern\['a'\] is 0; it must be a positive",
        ),
        ({"alpha_pattern": {"a": None}}, r"alpha_pattern\['a'\] is None; it must be a"),
        ({"rank_pattern": ["a"]}, r"rank_pattern is \['a'\]; it must be an object"),
        ({"rank_pattern": {"(": 1}}, r"has '\(', which is no regular expression"),
        ({"rank_pattern": {"(a+)+b": 1}}, r"has '\(a\+\)\+b'; it must be a name, or"),
        ({"target_parameters": "a"}, "target_parameters is 'a'; it must be a list"),
        ({"target_parameters": ["a"]}, "target_parameters has 'a'; of the Sequential"),
    ],
)
def test_damage_is_named(
    tmp_path: Path, settings: dict[str, Any], problem: str
) -> None:
    config_file(tmp_path, **settings)
    with pytest.raises(FileFormatError, match=problem):
        lora.load(layers(), tmp_path)
