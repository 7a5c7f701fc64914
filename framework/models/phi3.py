"""Phi-3 (Abdin et al. 2024, arXiv:2404.14219) and Phi-4.

Names of modules are those of the checkpoints of `Phi3ForCausalLM`.
"""

from __future__ import annotations

from typing import NamedTuple

from .. import nn, ops
from ..base.dtype import DTypeLike
from ..nn import functional
from ..nn.utils import skip_init
from ..tensor.factories import DeviceLike
from ..tensor.sequences import arange
from ..tensor.tensor import Tensor
from .cache import CacheStep, KeyValueCache, heads_of_rank, visible
from .config import ModelConfig
from .logits import states_to_keep
from .rotary import Rotaries, rotated

TYPES = ("phi3",)
"""Values of `model_type`."""


class Phi3Config(NamedTuple):
    """Sizes and settings of a model, with the names of `config.json`."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float
    sliding_window: int | None
    tie_word_embeddings: bool

    @classmethod
    def of(cls, config: ModelConfig) -> Phi3Config:
        """Return what a configuration says; errors as of `LlamaConfig.of`."""
        config.require("hidden_act", "silu")
        config.require("attention_bias", False)
        hidden = config.size("hidden_size")
        heads = config.size("num_attention_heads")
        return cls(
            config.size("vocab_size"),
            hidden,
            config.size("intermediate_size"),
            config.size("num_hidden_layers"),
            heads,
            config.size("num_key_value_heads", heads),
            config.size("head_dim", hidden // heads),
            config.get("rms_norm_eps", float, 1e-5),
            config.size("sliding_window", None),
            config.get("tie_word_embeddings", bool, False),
        )


class Attention(nn.Module):
    """Attention in which several heads of queries share one of keys and values."""

    def __init__(self, config: Phi3Config) -> None:
        super().__init__()
        self.head = config.head_dim
        outer = config.num_attention_heads * self.head
        shared = config.num_key_value_heads * self.head
        width = config.hidden_size
        self.qkv_proj = skip_init(nn.Linear, width, outer + 2 * shared, bias=False)
        self.sizes = self.qkv_proj.sections = [outer, shared, shared]
        self.o_proj = skip_init(nn.Linear, outer, width, bias=False)

    def forward(
        self,
        x: Tensor,
        angles: tuple[Tensor, Tensor],
        mask: Tensor | None,
        cache: tuple[CacheStep, int] | None,
    ) -> Tensor:
        """Return what each token attends to, (batch, length, hidden)."""
        batch, length, _ = x.shape
        cut = (batch, length, -1, self.head)
        found = self.qkv_proj(x)
        # Of a layer that ranks divide these are some of the heads.
        sizes = [each * found.shape[-1] // sum(self.sizes) for each in self.sizes]
        q, k, v = (
            part.reshape(*cut).transpose(1, 2) for part in ops.split(found, sizes, -1)
        )
        if cache is None:
            q, k = rotated(q, angles), rotated(k, angles)
            found = functional.scaled_dot_product_attention(
                q, k, v, mask, is_causal=mask is None, enable_gqa=True
            )
        else:
            step, layer = cache
            found = step.attend(layer, q, k, v, angles)
        out: Tensor = self.o_proj(found.transpose(1, 2).reshape(batch, length, -1))
        return out


class MLP(nn.Module):
    """Gated feed-forward layer (Shazeer 2020, arXiv:2002.05202)."""

    def __init__(self, config: Phi3Config) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.gate_up_proj = skip_init(nn.Linear, width, 2 * inner, bias=False)
        self.down_proj = skip_init(nn.Linear, inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result, of the shape of `x`."""
        gate, up = ops.chunk(self.gate_up_proj(x), 2, -1)
        out: Tensor = self.down_proj(functional.silu(gate) * up)
        return out


class DecoderLayer(nn.Module):
    """Attention and feed-forward layer, each after a norm and added to its input."""

    def __init__(self, config: Phi3Config) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = nn.RMSNorm(
            config.hidden_size, config.rms_norm_eps
        )
        self.mlp = MLP(config)

    def forward(
        self,
        x: Tensor,
        angles: tuple[Tensor, Tensor],
        mask: Tensor | None,
        cache: tuple[CacheStep, int] | None,
    ) -> Tensor:
        """Return the next layer's input, of the shape of `x`."""
        x = x + self.self_attn(self.input_layernorm(x), angles, mask, cache)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Decoder(nn.Module):
    """Embedding, layers and the last norm."""

    def __init__(self, config: Phi3Config, rotaries: Rotaries) -> None:
        super().__init__()
        self.embed_tokens = skip_init(
            nn.Embedding, config.vocab_size, config.hidden_size
        )
        self.layers = nn.ModuleList(
            [DecoderLayer(config) for _ in range(config.num_hidden_layers)]
        )
        self.norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.window = config.sliding_window
        self.rotaries = rotaries

    def forward(self, tokens: Tensor, cache: KeyValueCache | None = None) -> Tensor:
        """Return the state of each token, (batch, length, hidden)."""
        length = tokens.shape[1]
        x = self.embed_tokens(tokens)
        mask, step = None, None
        if cache is not None:
            step = cache.step(length, self.window)
            positions = step.positions
        else:
            positions = arange(length, device=tokens.device)
            if self.window is not None and self.window < length:
                mask = visible(positions, positions, self.window)
        whole = length if cache is None else cache.length
        angles = self.rotaries.of(whole).angles(positions, x)
        for number, layer in enumerate(self.layers):
            x = layer(x, angles, mask, None if step is None else (step, number))
        if cache is not None:
            cache.advance(length)
        out: Tensor = self.norm(x)
        return out


class Phi3(nn.Module):
    """Language model of the Phi-3 family.

    Parameters
    ----------
    config : ModelConfig
        Of `model_type` "phi3".

    Notes
    -----
    Where there are frequencies for long texts, the room of the cache decides, so that
    all keys of a text have the same.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.settings = config.settings
        self.config = Phi3Config.of(config)
        self.model = Decoder(
            self.config, Rotaries.of_config(config, self.config.head_dim)
        )
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
        """Return logits of the token after each; as of `Llama.forward`."""
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
        projection = self.model.layers[0].get_submodule("self_attn.qkv_proj")
        return KeyValueCache(
            self.config.num_hidden_layers,
            batch,
            heads_of_rank(self.config.num_key_value_heads, projection),
            length,
            self.config.head_dim,
            weight.device if device is None else device,
            weight.dtype if dtype is None else dtype,
        )
