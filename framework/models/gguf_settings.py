"""Settings of models in the metadata of GGUF files, read and written.

Source: the package gguf, `constants.py`; llama.cpp's `convert_hf_to_gguf.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from vkbackend.errors import ArgumentError

from .. import nn
from ..base.dtype import as_dtype, float32
from ..base.errors import FileFormatError
from ..base.quantized_format import FORMATS
from ..io.safetensors import host_tensor
from ..tensor.quantized import QuantizedTensor
from ..tensor.tensor import Tensor
from .config import ModelConfig
from .gemma import FULL, SLIDING, Gemma
from .gguf_encoder import Encoder, encoder_described, encoder_settings
from .gguf_file import GGUFFile, GGUFTensor
from .gpt2 import GPT2
from .llama import Llama
from .phi import Phi
from .phi3 import Phi3
from .qwen import Qwen
from .rotary import rotary_size
from .tokenizer import Tokenizer

FACTORS = "rope_freqs.weight"
"""What the frequencies of positions are divided by."""

LONG_FACTORS, SHORT_FACTORS = "rope_factors_long.weight", "rope_factors_short.weight"
"""The same of long and of short texts."""

ARCHITECTURES = (
    *("llama", "qwen2", "qwen3", "qwen3moe"),
    *("gemma2", "gemma3"),
    *("phi2", "phi3"),
    *("gpt2", "bert"),
)


class _GemmaFamily(NamedTuple):
    """What files of an architecture do not say.

    Attributes
    ----------
    theta : float
        Base of the frequencies, where it is missing.
    every : int
        One layer of so many attends to all tokens.
    largest : int
        Layers of the model whose scores are scaled by another number.
    caps : dict of str to float or None
        Limits of scores and logits, where they are missing.
    """

    theta: float
    every: int
    largest: int
    caps: dict[str, float | None]


_CAPS = ("attn_logit_softcapping", "final_logit_softcapping")

GEMMA = {
    "gemma2": _GemmaFamily(1e4, 2, 46, dict(zip(_CAPS, (50.0, 30.0)))),
    "gemma3": _GemmaFamily(1e6, 6, 62, dict.fromkeys(_CAPS)),
}

_SIZES = {
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
}

_GPT2_SIZES = {
    "n_embd": "embedding_length",
    "n_inner": "feed_forward_length",
    "n_layer": "block_count",
    "n_head": "attention.head_count",
    "n_positions": "context_length",
}


def settings_of(file: GGUFFile) -> ModelConfig:
    """Return what a file says of its model, with the names of `config.json`.

    Raises
    ------
    FileFormatError
        If it is of no known architecture, or a setting is missing or not supported.
    """
    given = ModelConfig(file.metadata, str(file.path))
    kind = given.get("general.architecture", str)
    if kind not in ARCHITECTURES:
        raise FileFormatError(
            f"{file.path}: `general.architecture` is {kind!r}; accepted:"
            f" {', '.join(map(repr, ARCHITECTURES))}"
        )
    if "token_embd.weight" not in file.tensors:
        raise FileFormatError(f"{file.path}: tensor `token_embd.weight` is missing")
    found: dict[str, Any] = {"model_type": kind}
    found["vocab_size"] = file.tensors["token_embd.weight"].shape[0]
    sizes = _GPT2_SIZES if kind == "gpt2" else _SIZES
    found |= {name: given.size(f"{kind}.{theirs}") for name, theirs in sizes.items()}
    if kind == "gpt2":
        eps = given.get(f"{kind}.attention.layer_norm_epsilon", float, 1e-5)
        found["layer_norm_epsilon"] = eps
        return ModelConfig(found, str(file.path))
    if kind in GEMMA:
        return _gemma_settings(file, given, kind, found)
    if kind == "phi2":
        return _phi_settings(file, given, found)
    if kind == "bert":
        return encoder_settings(file, given, found)
    found |= _expert_settings(file, given, kind)
    heads = given.size(f"{kind}.attention.head_count")
    head = given.size(
        f"{kind}.attention.key_length", max(1, found["hidden_size"] // heads)
    )
    turned = given.size(f"{kind}.rope.dimension_count", head)
    if kind == "phi3" and turned < head:
        found["partial_rotary_factor"] = _share(turned, head)
    elif turned != head:
        raise FileFormatError(
            f"{file.path}: `{kind}.rope.dimension_count` is {turned}; it must be that"
            f" of a head, {head}"
        )
    shared = given.size(f"{kind}.attention.head_count_kv", heads)
    found |= {"num_key_value_heads": shared, "head_dim": head}
    eps = given.get(f"{kind}.attention.layer_norm_rms_epsilon", float, 1e-6)
    found["rms_norm_eps"] = eps
    found["rope_theta"] = given.get(f"{kind}.rope.freq_base", float, 10000.0)
    # Files of Phi-4 say 0 of it, as there is none.
    window = given.get(f"{kind}.attention.sliding_window", int, 0)
    found["sliding_window"] = window or None
    found["tie_word_embeddings"] = "output.weight" not in file.tensors
    found["attention_bias"] = "blk.0.attn_q.bias" in file.tensors
    found["mlp_bias"] = "blk.0.ffn_down.bias" in file.tensors
    room = given.size(f"{kind}.context_length", None)
    found["max_position_embeddings"] = room
    found["rope_scaling"] = _scaling(file, given, kind)
    if kind == "phi3":
        found |= _long_rope(file, given)
    return ModelConfig(found, str(file.path))


def _expert_settings(file: GGUFFile, given: ModelConfig, kind: str) -> dict[str, Any]:
    """Return what a file says of experts, or nothing where it has none."""
    count = given.get(f"{kind}.expert_count", int, 0)
    if not count:
        return {}
    if kind not in ("llama", "qwen3moe"):
        raise FileFormatError(
            f"{file.path}: `{kind}.expert_count` is {count}; experts are read of"
            " 'llama' and 'qwen3moe'"
        )
    used = {"num_experts_per_tok": given.size(f"{kind}.expert_used_count")}
    if kind == "llama":
        return {"model_type": "mixtral", "num_local_experts": count, **used}
    inner = given.size(f"{kind}.expert_feed_forward_length")
    return {
        "model_type": "qwen3_moe",
        "num_experts": count,
        "moe_intermediate_size": inner,
        "norm_topk_prob": True,
        **used,
    }


def _long_rope(file: GGUFFile, given: ModelConfig) -> dict[str, Any]:
    """Return the frequencies of long and short texts, if a file of Phi-3 has such."""
    names = {"long_factor": LONG_FACTORS, "short_factor": SHORT_FACTORS}
    present = [name for name in names.values() if name in file.tensors]
    if not present:
        return {}
    missing = [name for name in names.values() if name not in present]
    if missing:
        raise FileFormatError(f"{file.path}: tensor `{missing[0]}` is missing")
    scaling: dict[str, Any] = {"rope_type": "longrope"}
    for setting, name in names.items():
        scaling[setting] = _factors(file, name)
    attention = given.get("phi3.rope.scaling.attn_factor", float, 0.0)
    if attention:
        scaling["attention_factor"] = attention
    limit = given.size("phi3.rope.scaling.original_context_length")
    return {"rope_scaling": scaling, "original_max_position_embeddings": limit}


def _factors(file: GGUFFile, name: str) -> list[float]:
    """Return what frequencies are divided by."""
    factors: list[float] = plain_tensor(file, name).to(float32).tolist()
    if 0.0 in factors:
        raise FileFormatError(
            f"{file.path}: tensor `{name}` has a 0, by which frequencies would be"
            " divided"
        )
    return factors


def _share(turned: int, head: int) -> float:
    """Return the part of a head that is turned, so that it gives as many elements."""
    share = turned / head
    return share if int(head * share) == turned else math.nextafter(share, 1.0)


def _phi_settings(
    file: GGUFFile, given: ModelConfig, found: dict[str, Any]
) -> ModelConfig:
    """Return what a file says of a model of the first Phi family, sizes included."""
    heads = found["num_attention_heads"]
    head = max(1, found["hidden_size"] // heads)
    turned = given.size("phi2.rope.dimension_count", head)
    if turned > head or _scaling(file, given, "phi2") is not None:
        raise FileFormatError(
            f"{file.path}: `phi2.rope.dimension_count` is {turned} of a head of {head},"
            " or frequencies of positions are scaled; at most a head is turned, and by"
            " plain frequencies"
        )
    eps = given.get("phi2.attention.layer_norm_epsilon", float, 1e-5)
    found |= {
        "model_type": "phi",
        "num_key_value_heads": given.size("phi2.attention.head_count_kv", heads),
        "layer_norm_eps": eps,
        "partial_rotary_factor": _share(turned, head),
        "rope_theta": given.get("phi2.rope.freq_base", float, 10000.0),
        "max_position_embeddings": given.size("phi2.context_length", None),
        "tie_word_embeddings": "output.weight" not in file.tensors,
    }
    return ModelConfig(found, str(file.path))


def _gemma_settings(
    file: GGUFFile, given: ModelConfig, kind: str, found: dict[str, Any]
) -> ModelConfig:
    """Return what a file says of a model of the Gemma family, sizes included."""
    head = given.size(f"{kind}.attention.key_length", 256)
    heads = found["num_attention_heads"]
    shared = given.size(f"{kind}.attention.head_count_kv", heads)
    found |= {"num_key_value_heads": shared, "head_dim": head}
    found["model_type"] = "gemma2" if kind == "gemma2" else "gemma3_text"
    eps = given.get(f"{kind}.attention.layer_norm_rms_epsilon", float, 1e-6)
    found["rms_norm_eps"] = eps
    theta = given.get(f"{kind}.rope.freq_base", float, GEMMA[kind].theta)
    found["rope_theta"] = theta
    found["sliding_window"] = given.size(f"{kind}.attention.sliding_window", 4096)
    found["max_position_embeddings"] = given.size(f"{kind}.context_length", None)
    width, layers = found["hidden_size"], found["num_hidden_layers"]
    found["query_pre_attn_scalar"] = float(_divisor(kind, width, layers, heads, head))
    for cap in _CAPS:
        found[cap] = given.get(f"{kind}.{cap}", float, GEMMA[kind].caps[cap])
    if kind == "gemma3":
        found["rope_scaling"] = _scaling(file, given, kind)
        near = given.get(f"{kind}.rope.freq_base_swa", float, 1e4)
        found["rope_local_base_freq"] = near
    return ModelConfig(found, str(file.path))


def _divisor(kind: str, width: int, layers: int, heads: int, head: int) -> int:
    """Return of what scores are divided by the root, as llama.cpp has it.

    Of the largest models it is the width by the number of heads.
    """
    return width // heads if layers == GEMMA[kind].largest else head


def _scaling(file: GGUFFile, given: ModelConfig, kind: str) -> dict[str, Any] | None:
    """Return how the frequencies of positions are scaled."""
    scaling = given.get(f"{kind}.rope.scaling.type", str, "none")
    named = ("none", "linear", *(("longrope",) if kind == "phi3" else ()))
    if scaling not in named:
        raise FileFormatError(
            f"{file.path}: `{kind}.rope.scaling.type` is {scaling!r}; accepted:"
            f" {', '.join(map(repr, named))}"
        )
    if FACTORS in file.tensors:
        return {"rope_type": "factors", "factors": _factors(file, FACTORS)}
    if scaling == "linear":
        factor = given.get(f"{kind}.rope.scaling.factor", float)
        return {"rope_type": "linear", "factor": factor}
    return None


def stored_tensor(file: GGUFFile, name: str) -> Tensor | QuantizedTensor:
    """Return a tensor of a file on the host, mapped from disk."""
    found: GGUFTensor = file.tensors[name]
    data = file.data(name)
    if found.kind in FORMATS:
        size = FORMATS[found.kind].row_size(found.shape[-1])
        blocks = host_tensor(data, as_dtype("uint8"), (*found.shape[:-1], size))
        return QuantizedTensor(blocks, found.kind, found.shape[-1])
    dtype = as_dtype(found.kind)
    return host_tensor(data.view(dtype.storage), dtype, found.shape)


def plain_tensor(file: GGUFFile, name: str) -> Tensor:
    """Return a tensor of a file on the host, as floats where it is quantized."""
    found = stored_tensor(file, name)
    return found if isinstance(found, Tensor) else found.dequantize()


def described(
    model: nn.Module, context_length: int | None, tokenizer: Tokenizer | None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return metadata, and tensors of what the frequencies of positions are."""
    if isinstance(model, GPT2):
        sizes = model.config
        found: dict[str, Any] = {"general.architecture": "gpt2"}
        return found | {
            "gpt2.vocab_size": sizes.vocab_size,
            "gpt2.context_length": sizes.n_positions,
            "gpt2.embedding_length": sizes.n_embd,
            "gpt2.feed_forward_length": sizes.n_inner,
            "gpt2.block_count": sizes.n_layer,
            "gpt2.attention.head_count": sizes.n_head,
            "gpt2.attention.layer_norm_epsilon": sizes.layer_norm_epsilon,
        }, {}
    if isinstance(model, Gemma):
        return _gemma_described(model, context_length), {}
    if isinstance(model, Phi):
        return _phi_described(model, context_length), {}
    if isinstance(model, Encoder):
        return encoder_described(model, tokenizer), {}
    if not isinstance(model, Llama | Qwen | Phi3):
        raise ArgumentError(
            f"save_gguf: the model is {type(model).__name__}; accepted: Llama, Qwen,"
            " Gemma, Phi, Phi3, GPT2, Bert, Roberta, RobertaClassifier"
        )
    config: Any = model.config
    room = model.settings.get("max_position_embeddings") or 4096
    kind = "llama"
    if isinstance(model, Qwen):
        kind = "qwen3" if model.config.has_head_norms else "qwen2"
        kind += "moe" if model.config.num_experts is not None else ""
    tensors: dict[str, np.ndarray] = {}
    further: dict[str, Any] = {"rope.dimension_count": config.head_dim}
    if isinstance(model, Phi3):
        kind = "phi3"
        theta, further, tensors = _phi3_rope(model)
    else:
        theta, factors = model.model.rotary.base()
        tensors = {} if factors is None else {FACTORS: factors}
    if not isinstance(model, Phi3):
        further |= _experts_described(model)
    sizes_of = {
        "context_length": room if context_length is None else context_length,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "block_count": config.num_hidden_layers,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.key_length": config.head_dim,
        "attention.value_length": config.head_dim,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "rope.freq_base": theta,
        "vocab_size": config.vocab_size,
        **further,
    }
    window = getattr(config, "sliding_window", None)
    if window is not None:
        sizes_of["attention.sliding_window"] = window
    named = {f"{kind}.{name}": value for name, value in sizes_of.items()}
    return {"general.architecture": kind, **named}, tensors


def _experts_described(model: Llama | Qwen) -> dict[str, Any]:
    """Return metadata of experts, or nothing where there are none."""
    if isinstance(model, Llama):
        count, inner = model.config.num_local_experts, {}
    else:
        count = model.config.num_experts
        inner = {"expert_feed_forward_length": model.config.moe_intermediate_size}
        if count is not None and (
            model.config.dense_layers or not model.config.norm_topk_prob
        ):
            raise ArgumentError(
                "save_gguf: norm_topk_prob of the Qwen is"
                f" {model.config.norm_topk_prob}, and layers without experts are"
                f" {sorted(model.config.dense_layers)}; files take True, and have"
                " experts in all layers"
            )
    if count is None:
        return {}
    used = model.config.num_experts_per_tok
    return {"expert_count": count, "expert_used_count": used, **inner}


def _phi_described(model: Phi, context_length: int | None) -> dict[str, Any]:
    """Return metadata of a model of the first Phi family."""
    config, settings = model.config, model.settings
    given, kind = _rope(settings)
    if kind != "default" or config.qk_layernorm or config.hidden_act != "gelu_new":
        raise ArgumentError(
            f"save_gguf: positions of the Phi are of the type {kind!r}, qk_layernorm is"
            f" {config.qk_layernorm}, hidden_act is {config.hidden_act!r}; accepted:"
            " 'default', False, 'gelu_new'"
        )
    room = settings.get("max_position_embeddings") or 4096
    sizes = {
        "context_length": room if context_length is None else context_length,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "block_count": config.num_hidden_layers,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.layer_norm_epsilon": config.layer_norm_eps,
        "rope.dimension_count": rotary_size(
            ModelConfig(settings), config.head_dim, 0.5
        ),
        "rope.freq_base": float(given["rope_theta"]),
        "vocab_size": config.vocab_size,
    }
    named = {f"phi2.{name}": value for name, value in sizes.items()}
    return {"general.architecture": "phi2", **named}


def _rope(settings: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return settings of positions, wherever they are, and the type of the scaling."""
    given = {
        "rope_theta": settings.get("rope_theta") or 10000.0,
        **(settings.get("rope_scaling") or {}),
        **(settings.get("rope_parameters") or {}),
    }
    return given, given.get("rope_type", given.get("type", "default"))


def _phi3_rope(
    model: Phi3,
) -> tuple[float, dict[str, Any], dict[str, np.ndarray]]:
    """Return the base of the frequencies, metadata, and factors of long texts."""
    given, kind = _rope(model.settings)
    turned = rotary_size(ModelConfig(model.settings), model.config.head_dim)
    found: dict[str, Any] = {"rope.dimension_count": turned}
    theta = float(given["rope_theta"])
    if kind == "default":
        return theta, found, {}
    rotaries = model.model.rotaries
    if kind not in ("longrope", "su") or rotaries.limit is None:
        raise ArgumentError(
            f"save_gguf: positions of the Phi3 are of the type {kind!r}; accepted:"
            " 'default', 'longrope'"
        )
    found["rope.scaling.original_context_length"] = rotaries.limit
    found["rope.scaling.attn_factor"] = rotaries.long.scale
    names = {LONG_FACTORS: "long_factor", SHORT_FACTORS: "short_factor"}
    tensors = {
        name: np.asarray(given[setting], np.float32) for name, setting in names.items()
    }
    return theta, found, tensors


def _gemma_described(model: Gemma, context_length: int | None) -> dict[str, Any]:
    """Return metadata of a model of the Gemma family."""
    config, settings = model.config, model.settings
    kind = "gemma3" if config.has_head_norms else "gemma2"
    width, layers = config.hidden_size, config.num_hidden_layers
    heads, head = config.num_attention_heads, config.head_dim
    wanted = _divisor(kind, width, layers, heads, head)
    every = GEMMA[kind].every
    types = tuple(FULL if (i + 1) % every == 0 else SLIDING for i in range(layers))
    if config.query_pre_attn_scalar != wanted or config.layer_types != types:
        raise ArgumentError(
            f"save_gguf: query_pre_attn_scalar is {config.query_pre_attn_scalar:g} and"
            f" layer_types are {[*config.layer_types]}; files of {kind} take {wanted}"
            f" and a layer of full attention in {every}"
        )
    room = settings.get("max_position_embeddings") or 4096
    theta, scaling, near = gemma_bases(settings, GEMMA[kind].theta)
    sizes: dict[str, Any] = {
        "context_length": room if context_length is None else context_length,
        "embedding_length": width,
        "feed_forward_length": config.intermediate_size,
        "block_count": layers,
        "attention.head_count": heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.key_length": head,
        "attention.value_length": head,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "attention.sliding_window": config.sliding_window,
        "rope.freq_base": theta,
        "vocab_size": config.vocab_size,
    }
    if kind == "gemma3":
        sizes["rope.freq_base_swa"] = near
    if scaling is not None:
        sizes |= {"rope.scaling.type": "linear", "rope.scaling.factor": scaling}
    for cap in _CAPS:
        limit = getattr(config, cap)
        if limit is not None:
            sizes[cap] = limit
        elif GEMMA[kind].caps[cap] is not None:
            raise ArgumentError(
                f"save_gguf: {cap} is None; files of {kind} have a limit"
            )
    named = {f"{kind}.{name}": value for name, value in sizes.items()}
    return {"general.architecture": kind, **named}


def gemma_bases(
    settings: Mapping[str, Any], theta: float
) -> tuple[float, float | None, float]:
    """Return the base of full layers, their linear factor, the base of sliding ones."""
    given = settings.get("rope_parameters") or {}
    whole = {
        "rope_theta": settings.get("rope_theta") or theta,
        **(settings.get("rope_scaling") or {}),
        **(given.get(FULL, given) or {}),
    }
    near = {
        "rope_theta": settings.get("rope_local_base_freq") or 1e4,
        **(given.get(SLIDING) or {}),
    }
    kind = whole.get("rope_type", whole.get("type", "default"))
    if kind not in ("default", "linear"):
        raise ArgumentError(
            f"save_gguf: frequencies of positions are scaled as {kind!r}; accepted of"
            " Gemma: 'default', 'linear'"
        )
    factor = float(whole["factor"]) if kind == "linear" else None
    return float(whole["rope_theta"]), factor, float(near["rope_theta"])
