"""Qwen 2.5 and Qwen 3 (Qwen Team 2025, arXiv:2505.09388), dense or of experts.

Names of modules are those of the checkpoints of `Qwen2ForCausalLM`, `Qwen3ForCausalLM`
and `Qwen3MoeForCausalLM`.
"""

from __future__ import annotations

from typing import NamedTuple

from .. import nn
from ..base.dtype import DTypeLike
from ..nn import functional
from ..nn.utils import skip_init
from ..tensor.factories import DeviceLike
from ..tensor.sequences import arange
from ..tensor.tensor import Tensor
from .activation import gated_product
from .cache import CacheStep, KeyValueCache, heads_of_rank
from .config import ModelConfig
from .experts import SparseMLP
from .logits import states_to_keep
from .rotary import Rotary, frequencies, rotated

TYPES = ("qwen2", "qwen3", "qwen3_moe")
"""Values of `model_type`."""


class QwenConfig(NamedTuple):
    """Sizes and settings of a model, with the names of `config.json`."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float
    attention_bias: bool
    has_head_norms: bool
    tie_word_embeddings: bool
    num_experts: int | None
    num_experts_per_tok: int
    moe_intermediate_size: int
    norm_topk_prob: bool
    dense_layers: frozenset[int]

    @classmethod
    def of(cls, config: ModelConfig) -> QwenConfig:
        """Return what a configuration says.

        Raises
        ------
        FileFormatError
            If a size is missing or no size, or a setting is not supported.
        """
        config.require("hidden_act", "silu")
        config.require("use_sliding_window", False)
        kind = config.get("model_type", str, "qwen3")
        older, mixture = kind == "qwen2", kind == "qwen3_moe"
        layers = config.size("num_hidden_layers")
        hidden = config.size("hidden_size")
        heads = config.size("num_attention_heads")
        return cls(
            config.size("vocab_size"),
            hidden,
            config.size("intermediate_size"),
            layers,
            heads,
            config.size("num_key_value_heads", heads),
            config.size("head_dim", 128 if kind == "qwen3" else hidden // heads),
            config.get("rms_norm_eps", float, 1e-6),
            older or config.get("attention_bias", bool, False),
            not older,
            config.get("tie_word_embeddings", bool, False),
            _experts(config) if mixture else None,
            config.size("num_experts_per_tok", 8),
            config.size("moe_intermediate_size", 768),
            config.get("norm_topk_prob", bool, False),
            _dense_layers(config, layers),
        )


def _experts(config: ModelConfig) -> int:
    """Return the number of experts, which newer configurations name otherwise."""
    newer = "num_local_experts" in config.settings
    return config.size("num_local_experts" if newer else "num_experts")


def _dense_layers(config: ModelConfig, layers: int) -> frozenset[int]:
    """Return the layers of a mixture of experts that have none."""
    every = config.size("decoder_sparse_step", 1)
    named = config.settings.get("mlp_only_layers") or ()
    return frozenset(i for i in range(layers) if i in named or (i + 1) % every)


class Attention(nn.Module):
    """Attention in which several heads of queries share one of keys and values."""

    def __init__(self, config: QwenConfig) -> None:
        super().__init__()
        self.head = config.head_dim
        width, bias = config.hidden_size, config.attention_bias
        outer = config.num_attention_heads * self.head
        shared = config.num_key_value_heads * self.head
        self.q_proj = skip_init(nn.Linear, width, outer, bias=bias)
        self.k_proj = skip_init(nn.Linear, width, shared, bias=bias)
        self.v_proj = skip_init(nn.Linear, width, shared, bias=bias)
        self.o_proj = skip_init(
            nn.Linear, outer, width, bias=bias and config.has_head_norms
        )
        eps = config.rms_norm_eps
        self.q_norm = nn.RMSNorm(self.head, eps) if config.has_head_norms else None
        self.k_norm = nn.RMSNorm(self.head, eps) if config.has_head_norms else None

    def forward(
        self,
        x: Tensor,
        angles: tuple[Tensor, Tensor],
        cache: tuple[CacheStep, int] | None,
    ) -> Tensor:
        """Return what each token attends to, (batch, length, hidden)."""
        batch, length, _ = x.shape
        cut = (batch, length, -1, self.head)
        q, k = self.q_proj(x).reshape(*cut), self.k_proj(x).reshape(*cut)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = q.transpose(1, 2), k.transpose(1, 2)
        v = self.v_proj(x).reshape(*cut).transpose(1, 2)
        if cache is None:
            q, k = rotated(q, angles), rotated(k, angles)
            found = functional.scaled_dot_product_attention(
                q, k, v, is_causal=True, enable_gqa=True
            )
        else:
            step, layer = cache
            found = step.attend(layer, q, k, v, angles)
        out: Tensor = self.o_proj(found.transpose(1, 2).reshape(batch, length, -1))
        return out


class MLP(nn.Module):
    """Gated feed-forward layer (Shazeer 2020, arXiv:2002.05202)."""

    def __init__(self, config: QwenConfig) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.gate_proj = skip_init(nn.Linear, width, inner, bias=False)
        self.up_proj = skip_init(nn.Linear, width, inner, bias=False)
        self.down_proj = skip_init(nn.Linear, inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result, of the shape of `x`."""
        out: Tensor = self.down_proj(
            gated_product(x, self.gate_proj, self.up_proj, "silu")
        )
        return out


class DecoderLayer(nn.Module):
    """Attention and feed-forward layer, each after a norm and added to its input."""

    def __init__(self, config: QwenConfig, number: int) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = nn.RMSNorm(
            config.hidden_size, config.rms_norm_eps
        )
        if config.num_experts is None or number in config.dense_layers:
            self.mlp: nn.Module = MLP(config)
        else:
            self.mlp = SparseMLP(
                config.num_experts,
                config.hidden_size,
                config.moe_intermediate_size,
                config.num_experts_per_tok,
                config.norm_topk_prob,
            )

    def forward(
        self,
        x: Tensor,
        angles: tuple[Tensor, Tensor],
        cache: tuple[CacheStep, int] | None,
    ) -> Tensor:
        """Return the next layer's input, of the shape of `x`."""
        x = x + self.self_attn(self.input_layernorm(x), angles, cache)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Decoder(nn.Module):
    """Embedding, layers and the last norm."""

    def __init__(self, config: QwenConfig, rotary: Rotary) -> None:
        super().__init__()
        self.embed_tokens = skip_init(
            nn.Embedding, config.vocab_size, config.hidden_size
        )
        self.layers = nn.ModuleList(
            [DecoderLayer(config, i) for i in range(config.num_hidden_layers)]
        )
        self.norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.rotary = rotary

    def forward(self, tokens: Tensor, cache: KeyValueCache | None = None) -> Tensor:
        """Return the state of each token, (batch, length, hidden)."""
        length = tokens.shape[1]
        x = self.embed_tokens(tokens)
        step = None if cache is None else cache.step(length)
        if step is None:
            positions = arange(length, device=tokens.device)
        else:
            positions = step.positions
        angles = self.rotary.angles(positions, x)
        for number, layer in enumerate(self.layers):
            x = layer(x, angles, None if step is None else (step, number))
        if cache is not None:
            cache.advance(length)
        out: Tensor = self.norm(x)
        return out


class Qwen(nn.Module):
    """Language model of the Qwen family.

    Parameters
    ----------
    config : ModelConfig
        Of `model_type` "qwen2", "qwen3" or "qwen3_moe".
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.settings = config.settings
        self.config = QwenConfig.of(config)
        rotary = Rotary(frequencies(config, self.config.head_dim))
        self.model = Decoder(self.config, rotary)
        self.lm_head = skip_init(
            nn.Linear, self.config.hidden_size, self.config.vocab_size, bias=False
        )
        if self.config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(
        self,
        tokens: Tensor,
        cache: KeyValueCache | None = None,
        logits_to_keep: int | Tensor = 0,
    ) -> Tensor:
        """Return logits of the token after each.

        Parameters
        ----------
        tokens : Tensor, int64, shape (batch, length)
        cache : KeyValueCache or None
            Of the tokens before, to which these are added.
        logits_to_keep : int or Tensor, default 0
            Those of how many of the last tokens, 0 for all, or of which; see
            `states_to_keep`.

        Returns
        -------
        Tensor, shape (batch, count, vocab_size)
        """
        states = states_to_keep(self.model(tokens, cache), logits_to_keep)
        out: Tensor = self.lm_head(states)
        return out

    def new_cache(
        self,
        batch: int,
        length: int,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> KeyValueCache:
        """Return an empty cache for sequences of `length` tokens."""
        weight = self.lm_head.weight
        projection = self.model.layers[0].get_submodule("self_attn.k_proj")
        return KeyValueCache(
            self.config.num_hidden_layers,
            batch,
            heads_of_rank(self.config.num_key_value_heads, projection),
            length,
            self.config.head_dim,
            weight.device if device is None else device,
            weight.dtype if dtype is None else dtype,
        )
