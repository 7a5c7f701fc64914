from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.models.saved import SIZES, TOKENS, logits, saved
from tests.framework.models.small import CONFIG
from vkbackend.errors import ArgumentError
from vkbackend.framework import nn
from vkbackend.framework.base.errors import FileFormatError
from vkbackend.framework.models.gguf_file import read_gguf, write_gguf

pytest.importorskip("gguf")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
WIDTHS = {**SIZES, "hidden_size": 64, "intermediate_size": 96}
GPT2 = {"vocab_size": 61, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64}
HEADS = {**WIDTHS, "num_key_value_heads": 2, "head_dim": 32, "sliding_window": 6}
GEMMA2 = {**HEADS, "query_pre_attn_scalar": 32, "rope_theta": 5000.0}
GEMMA3 = {**HEADS, "query_pre_attn_scalar": 32, "num_hidden_layers": 6}
PHI3 = {
    **WIDTHS,
    **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), 0),
    "num_key_value_heads": 2,
    "sliding_window": 6,
}
LONG = {
    **PHI3,
    "sliding_window": None,
    "original_max_position_embeddings": 8,
    "max_position_embeddings": 64,
    "partial_rotary_factor": 0.5,
    "rope_parameters": {
        "rope_type": "longrope",
        "rope_theta": 5000.0,
        "partial_rotary_factor": 0.5,
        "long_factor": [1.5, 2.0, 3.0, 4.0],
        "short_factor": [1.0, 1.25, 1.5, 1.75],
    },
}
MIXTRAL = {**WIDTHS, "num_key_value_heads": 2, "num_local_experts": 3}
QWEN3_MOE = {
    **WIDTHS,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "num_experts": 5,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "norm_topk_prob": True,
}
SMALL = {
    "GPT2": GPT2,
    "Gemma2": GEMMA2,
    "Gemma3Text": GEMMA3,
    "Phi3": PHI3,
    "Qwen3Moe": QWEN3_MOE,
}

ROUTERS = (".mlp.gate", ".block_sparse_moe.gate")

NAME = {"general.name": "small"}

FAMILIES: list[Any] = [
    ("Llama", {**WIDTHS, "num_key_value_heads": 2, "rope_parameters": LLAMA3}),
    pytest.param(
        "Llama", {**WIDTHS, "tie_word_embeddings": True}, marks=pytest.mark.wide
    ),
    ("Qwen2", {**WIDTHS, "num_key_value_heads": 2, "tie_word_embeddings": True}),
    ("Qwen3", {**WIDTHS, "num_key_value_heads": 2, "head_dim": 32}),
    ("Gemma2", GEMMA2),
    ("Gemma3Text", GEMMA3),
    ("Phi3", PHI3),
    ("Phi3", LONG),
    ("Qwen3Moe", QWEN3_MOE),
    ("Phi", {**WIDTHS, "partial_rotary_factor": 0.25}),
    ("GPT2", {**GPT2, "bos_token_id": 0, "eos_token_id": 0}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "settings"), FAMILIES)
def test_files_keep_what_a_model_computes(
    tmp_path: Path, kind: str, settings: dict[str, Any]
) -> None:
    """In float32 nearly the same numbers; quantized, those of the quantized model."""
    theirs = saved(tmp_path, kind, **settings)
    want = logits(theirs)
    model: Any = fw.models.load(tmp_path, "cpu")
    fw.models.save_gguf(model, tmp_path / "a.gguf", "float32")
    got: Any = fw.models.load(tmp_path / "a.gguf", "cpu")
    found = got(fw.tensor(TOKENS)).detach().numpy()
    np.testing.assert_allclose(found, want, atol=2e-5 * np.abs(want).max())

    fw.models.save_gguf(model, tmp_path / "q.gguf", "q8_0")
    small: Any = fw.models.load(tmp_path / "q.gguf", "cpu")
    floats = nn.Linear, nn.GroupedLinear, nn.Embedding
    left = [name for name, each in small.named_modules() if type(each) in floats]
    assert all(name.endswith(ROUTERS) for name in left)
    found = small(fw.tensor(TOKENS)).detach().numpy()
    assert 0 < np.abs(found - want).mean() < 0.05 * np.abs(want).mean()
    if kind != "GPT2":  # its layers are none of those that `nn.quantize` replaces
        nn.quantize(model, "q8_0")
        quantized = model(fw.tensor(TOKENS)).detach().numpy()
        np.testing.assert_allclose(found, quantized, atol=1e-4)
    fw.models.save_gguf(small, tmp_path / "again.gguf", "float32")
    first, again = (read_gguf(tmp_path / f"{name}.gguf") for name in ("q", "again"))
    assert first.tensors.keys() == again.tensors.keys()
    for name, each in first.tensors.items():
        assert each.kind == again.tensors[name].kind
        if each.kind == "q8_0":
            np.testing.assert_array_equal(first.data(name), again.data(name))


@pytest.mark.parametrize("kind", ["Llama", "Qwen2", *SMALL])
def test_transformers_reads_what_is_written(tmp_path: Path, kind: str) -> None:
    """An oracle of names, settings and the order of rows."""
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    grouped = {**WIDTHS, "num_key_value_heads": 2, "rope_theta": 5000.0}
    sizes = SMALL.get(kind, grouped)
    theirs = saved(tmp_path, kind, **sizes)
    model = fw.models.load(tmp_path, "cpu")
    fw.models.save_gguf(model, tmp_path / "a.gguf", "float32", metadata=NAME)
    found = load_gguf_checkpoint(tmp_path / "a.gguf", True, theirs)
    for name, setting in found["config"].items():
        if name in sizes:
            assert setting == pytest.approx(getattr(theirs.config, name, setting)), name
    want = theirs.state_dict()
    assert len(found["tensors"]) >= len(want) - 1  # a tied one is there once
    for name, each in found["tensors"].items():
        if name in want:
            # Norms of Gemma are written with 1 added.
            atol = 1e-6 if "Gemma" in kind and "norm" in name else 0
            np.testing.assert_allclose(
                each.numpy(), want[name].numpy(), rtol=0, atol=atol, err_msg=name
            )


def test_experts_are_those_of_transformers(tmp_path: Path) -> None:
    """With the weights of the file, and with those that the package gguf rounds."""
    import gguf

    kind = gguf.GGMLQuantizationType.Q8_0
    theirs = saved(tmp_path, "Mixtral", **MIXTRAL)
    model = fw.models.load(tmp_path, "cpu")
    for format in ("float32", "q8_0"):
        fw.models.save_gguf(model, tmp_path / "a.gguf", format)
        found = fw.models.load(tmp_path / "a.gguf", "cpu")(fw.tensor(TOKENS))
        want = logits(theirs)
        np.testing.assert_allclose(found.detach().numpy(), want, rtol=0, atol=1e-4)
        with torch.no_grad():
            for name, each in theirs.named_parameters():
                if each.dim() > 1 and not name.endswith("mlp.gate.weight"):
                    blocks = gguf.quants.quantize(each.numpy(), kind)
                    rounded = gguf.quants.dequantize(blocks, kind)
                    each.copy_(torch.from_numpy(rounded))


def test_encoders_of_texts(tmp_path: Path) -> None:
    """Names are those of the package gguf; states those of transformers."""
    import gguf

    sizes = {**WIDTHS, "max_position_embeddings": 24}
    theirs = saved(tmp_path, "Bert", task="AutoModel", **sizes)
    model = fw.models.load(tmp_path, "cpu")
    for format in ("float32", "q8_0"):
        fw.models.save_gguf(model, tmp_path / "a.gguf", format)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, 2)
    wanted = {
        names.get_name(name, (".weight", ".bias"))
        for name in theirs.state_dict()
        if not name.startswith("pooler.")
    }
    assert {*read_gguf(tmp_path / "a.gguf").tensors} == wanted
    fw.models.save_gguf(model, tmp_path / "b.gguf", "float32")
    with torch.no_grad():
        states = theirs(torch.from_numpy(TOKENS)).last_hidden_state.numpy()
    for file, atol in (("b", 1e-4), ("a", 0.3)):
        found = fw.models.load(tmp_path / f"{file}.gguf", "cpu")(fw.tensor(TOKENS))
        np.testing.assert_allclose(found.detach().numpy(), states, atol=atol)


def small_file(path: Path, format: str = "q8_0") -> Any:
    """Write a small Llama, and return it."""
    sizes = {"hidden_size": 32, "intermediate_size": 64}
    config = fw.models.ModelConfig({**CONFIG, **sizes, "num_attention_heads": 2})
    model = fw.models.Llama(config).eval()
    rng = np.random.default_rng(0)
    with fw.no_grad():
        for parameter in model.parameters():
            parameter.copy_(fw.tensor(rng.standard_normal(parameter.shape, np.float32)))
    fw.models.save_gguf(model, path, format)
    return model


def test_text_is_generated_on_a_device(tmp_path: Path, gpu: Any) -> None:
    small_file(tmp_path / "a.gguf")
    prompt = np.array([[1, 2, 3], [4, 5, 6]])
    answers = [
        fw.models.generate(
            fw.models.load(tmp_path / "a.gguf", place),  # type: ignore[arg-type]
            fw.tensor(prompt, device=place),
            4,
        ).numpy()
        for place in ("cpu", gpu)
    ]
    np.testing.assert_array_equal(answers[0], answers[1])


def test_dtypes(tmp_path: Path) -> None:
    small_file(tmp_path / "a.gguf", "float16")
    model = fw.models.load(tmp_path / "a.gguf", "cpu")
    assert {each.dtype.name for each in model.parameters()} == {"float16"}
    small_file(tmp_path / "b.gguf")
    given: Any = fw.models.load(tmp_path / "b.gguf", "cpu", "bfloat16")
    assert given(fw.tensor([[1, 2]])).dtype is fw.bfloat16
    assert given.new_cache(1, 4)._keys[0].dtype is fw.bfloat16


def changed(path: Path, tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
    """Write a file anew with other entries; None takes one away."""
    file = read_gguf(path)
    kept: dict[str, Any] = {
        name: (each.kind, each.shape, np.array(file.data(name)))
        for name, each in file.tensors.items()
    }
    for given, into in ((tensors, kept), (metadata, file.metadata)):
        into.update(given)
        for name, value in given.items():
            if value is None:
                del into[name]
    write_gguf(path, file.metadata, kept)


NORM = ("float32", (31,), np.ones(31, np.float32))


@pytest.mark.parametrize(
    ("tensors", "metadata", "problem"),
    [
        ({"blk.1.ffn_up.weight": None}, {}, "tensor `blk.1.ffn_up.weight` is missing"),
        ({"blk.0.attn_norm.weight": NORM}, {},
         r"tensor `blk.0.attn_norm.weight` has shape \(31,\); the model has \(32,\)"),
        ({"more": NORM}, {}, "tensor `more` is not of the model Llama"),
        ({"token_embd.weight": None}, {}, "tensor `token_embd.weight` is missing"),
        ({}, {"general.architecture": "mamba"}, "architecture` is 'mamba'; accepted"),
        ({}, {"llama.block_count": None}, "`llama.block_count` is missing"),
        ({}, {"llama.expert_count": 8}, "`llama.expert_used_count` is missing"),
        ({}, {"llama.rope.scaling.type": "yarn"}, "type` is 'yarn'; accepted: 'none'"),
        ({}, {"llama.rope.dimension_count": 4}, "it must be that of a head, 16"),
        ({"rope_freqs.weight": ("float32", (8,), np.zeros(8, np.float32))}, {},
         "tensor `rope_freqs.weight` has a 0"),
        ({"rope_freqs.weight": ("float32", (3,), np.ones(3, np.float32))}, {},
         r"`factors` is .*; it must be 8 numbers"),
    ],
)  # fmt: skip
def test_files_that_do_not_fit(
    tmp_path: Path, tensors: dict[str, Any], metadata: dict[str, Any], problem: str
) -> None:
    small_file(tmp_path / "a.gguf")
    changed(tmp_path / "a.gguf", tensors, metadata)
    with pytest.raises(FileFormatError, match=problem):
        fw.models.load(tmp_path / "a.gguf", "cpu")


def test_what_files_have_not(tmp_path: Path) -> None:
    model = small_file(tmp_path / "a.gguf")
    with pytest.raises(ArgumentError, match="format is 'int8'; accepted: float32"):
        fw.models.save_gguf(model, tmp_path / "b.gguf", "int8")
    with pytest.raises(ArgumentError, match="the model is Linear; accepted: Llama"):
        fw.models.save_gguf(nn.Linear(3, 3), tmp_path / "b.gguf")
    nn.quantize(model, "int8")
    with pytest.raises(ArgumentError, match="is quantized as int8, which GGUF files"):
        fw.models.save_gguf(model, tmp_path / "b.gguf")
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


def test_entries_of_a_tokenizer_are_kept(tmp_path: Path) -> None:
    model = small_file(tmp_path / "a.gguf")
    tokens = {"tokenizer.ggml.tokens": ["a", "b"], "tokenizer.ggml.bos_token_id": 1}
    fw.models.save_gguf(model, tmp_path / "a.gguf", metadata=tokens)
    found = read_gguf(tmp_path / "a.gguf").metadata
    assert {name: found[name] for name in tokens} == tokens
