"""Saved models are read by transformers and by us, with the same logits."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.models.saved import (
    SIZES,
    TOKENS,
    logits,
    saved,
    torch,
    transformers,
)
from tests.framework.models.small import CONFIG
from vkbackend.errors import ArgumentError
from vkbackend.framework import lora, nn
from vkbackend.framework.models.llama import Llama

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0}
LLAMA3 |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 64}


def read_by_transformers(folder: Path) -> Any:
    # Left on PyTorch's own class, whose names another test compares.
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="eager"
    ).eval()
    if hasattr(torch.nn.Module, "smart_apply"):
        del torch.nn.Module.smart_apply
    return model


def made(**settings: Any) -> Any:
    model = Llama(fw.models.ModelConfig(CONFIG | {"vocab_size": 61} | settings)).eval()
    fw.manual_seed(0)
    fw.models.initialize(model, "cpu", std=0.3)
    return model


@pytest.mark.parametrize(
    "settings",
    [
        {"tie_word_embeddings": True, "num_key_value_heads": 1},
        {"model_type": "mistral", "sliding_window": 5, "head_dim": 6},
        {"rope_theta": 500000.0, "rope_scaling": LLAMA3, "attention_bias": True},
    ],
)
def test_our_own_model_is_read(tmp_path: Path, settings: dict[str, Any]) -> None:
    model = made(**settings)
    fw.models.save(model, tmp_path)
    wanted = model(fw.tensor(TOKENS)).detach().numpy()
    found = logits(read_by_transformers(tmp_path))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    again = fw.models.load(tmp_path)(fw.tensor(TOKENS)).detach().numpy()
    np.testing.assert_array_equal(again, wanted)


FAMILIES = {
    "Mixtral": SIZES | {"num_local_experts": 3, "num_key_value_heads": 2},
    "Qwen2": SIZES | {"num_key_value_heads": 2, "tie_word_embeddings": True},
    "Qwen3": SIZES | {"head_dim": 8, "num_key_value_heads": 4},
    "Qwen3Moe": SIZES
    | {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    "Gemma3Text": SIZES | {"head_dim": 8, "num_key_value_heads": 2},
    "Phi": SIZES,
    "Phi3": SIZES | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
    "GPT2": {"vocab_size": 61, "n_embd": 32, "n_layer": 2, "n_head": 4},
}


@pytest.mark.parametrize("kind", FAMILIES)
def test_what_was_loaded_is_written(tmp_path: Path, kind: str) -> None:
    theirs = saved(tmp_path / "theirs", kind, **FAMILIES[kind])
    model = fw.models.load(tmp_path / "theirs")
    fw.models.save(model, tmp_path / "ours")
    found = logits(read_by_transformers(tmp_path / "ours"))
    np.testing.assert_allclose(found, logits(theirs), rtol=1e-4, atol=1e-4)
    one, other = (
        json.loads((tmp_path / name / "config.json").read_text())
        for name in ("theirs", "ours")
    )
    assert other["architectures"] == one["architectures"]


@pytest.mark.parametrize("kind", ["Bert", "XLMRoberta", "DistilBert", "MPNet"])
@pytest.mark.parametrize("task", ["AutoModel", "AutoModelForSequenceClassification"])
def test_encoders_are_written(tmp_path: Path, kind: str, task: str) -> None:
    sizes = SIZES | {"max_position_embeddings": 40}
    if kind == "DistilBert":
        sizes = {"vocab_size": 61, "dim": 32, "hidden_dim": 48, "n_layers": 1}
        sizes |= {"n_heads": 4, "max_position_embeddings": 40}
    theirs = saved(tmp_path / "theirs", kind, task=task, **sizes)
    fw.models.save(fw.models.load(tmp_path / "theirs"), tmp_path / "ours")
    auto = getattr(transformers, task)
    again = auto.from_pretrained(tmp_path / "ours").eval()
    assert type(again) is type(theirs)
    tokens = {"input_ids": torch.from_numpy(np.maximum(TOKENS, 2))}
    with torch.no_grad():
        found, wanted = again(**tokens)[0].numpy(), theirs(**tokens)[0].numpy()
    if hasattr(torch.nn.Module, "smart_apply"):
        del torch.nn.Module.smart_apply
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_parts_and_dtype(tmp_path: Path) -> None:
    model = made().to(fw.bfloat16)
    fw.models.save(model, tmp_path)
    fw.models.save(model, tmp_path, part_size=1500)
    assert not (tmp_path / "model.safetensors").exists()
    assert len([*tmp_path.glob("model-*-of-*.safetensors")]) > 2
    theirs = read_by_transformers(tmp_path)
    assert str(next(theirs.parameters()).dtype) == "torch.bfloat16"
    for name, each in fw.models.load(tmp_path).state_dict().items():
        assert each.dtype is fw.bfloat16
        assert (each == model.state_dict()[name]).all()
    fw.models.save(model, tmp_path)
    assert [path.name for path in tmp_path.glob("model*")] == ["model.safetensors"]


def test_tokenizer_and_template(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    from tests.framework.models.words import byte_pairs

    byte_pairs(tmp_path, "{% for m in messages %}{{ m.content }}{% endfor %}")
    tokenizer = fw.models.Tokenizer(tmp_path)
    fw.models.save(made(vocab_size=300), tmp_path / "saved", tokenizer)
    ours = fw.models.Tokenizer(tmp_path / "saved")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    text = "the cat sat, too"
    assert ours.encode(text) == tokenizer.encode(text) == theirs(text)["input_ids"]
    said = [{"role": "user", "content": text}]
    assert ours.apply_chat_template(said) == text
    assert theirs.apply_chat_template(said, tokenize=False) == text
    assert (ours.special, ours.stop) == (tokenizer.special, tokenizer.stop)
    assert (theirs.bos_token, theirs.eos_token) == ("<s>", "</s>")
    settings = transformers.GenerationConfig.from_pretrained(tmp_path / "saved")
    assert (settings.bos_token_id, settings.eos_token_id) == (0, 1)
    with pytest.raises(ArgumentError, match="has 277 tokens, the model 61 words"):
        fw.models.save(made(), tmp_path, tokenizer)


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="the model is Linear; accepted: Llama"):
        fw.models.save(nn.Linear(2, 2), tmp_path)
    model = made(hidden_size=64)
    nn.quantize(model, "q8_0")
    with pytest.raises(ArgumentError, match="quantized weights are for save_gguf"):
        fw.models.save(model, tmp_path)
    model = made()
    lora.add(model, 2, 4.0, 0.0)
    with pytest.raises(ArgumentError, match=r"base_layer.*adapters for lora\.save"):
        fw.models.save(model, tmp_path)
    assert not [*tmp_path.iterdir()]
