"""Phi-1, Phi-1.5 and Phi-2 (Li et al. 2023, arXiv:2309.05463).

Names of modules are those of the checkpoints of `PhiForCausalLM`.
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
from .activation import ACTIVATIONS, activation_name
from .cache import CacheStep, KeyValueCache, heads_of_rank
from .config import ModelConfig
from .logits import states_to_keep
from .rotary import Rotary, frequencies, rotary_size, rotated

TYPES = ("phi",)
"""Values of `model_type`."""


class PhiConfig(NamedTuple):
    """Sizes and settings of a model, with the names of `config.json`."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    layer_norm_eps: float
    hidden_act: str
    qk_layernorm: bool
    tie_word_embeddings: bool

    @classmethod
    def of(cls, config: ModelConfig) -> PhiConfig:
        """Return what a configuration says; errors as of `LlamaConfig.of`."""
        heads = config.size("num_attention_heads")
        return cls(
            config.size("vocab_size"),
            config.size("hidden_size"),
            config.size("intermediate_size"),
            config.size("num_hidden_layers"),
            heads,
            config.size("num_key_value_heads", heads),
            config.get("layer_norm_eps", float, 1e-5),
            activation_name(config, "hidden_act", "gelu_new"),
            config.get("qk_layernorm", bool, False),
            config.get("tie_word_embeddings", bool, False),
        )

    @property
    def head_dim(self) -> int:
        """Elements of a head."""
        return self.hidden_size // self.num_attention_heads


class Attention(nn.Module):
    """Causal attention; a part of each head is rotated."""

    def __init__(self, config: PhiConfig) -> None:
        super().__init__()
        self.head = config.head_dim
        width = config.hidden_size
        shared = config.num_key_value_heads * self.head
        self.q_proj = skip_init(nn.Linear, width, width)
        self.k_proj = skip_init(nn.Linear, width, shared)
        self.v_proj = skip_init(nn.Linear, width, shared)
        self.dense = skip_init(nn.Linear, width, width)
        self.has_norms = config.qk_layernorm
        if config.qk_layernorm:
            self.q_layernorm = nn.LayerNorm(self.head, config.layer_norm_eps)
            self.k_layernorm = nn.LayerNorm(self.head, config.layer_norm_eps)

    def forward(
        self,
        x: Tensor,
        angles: tuple[Tensor, Tensor],
        cache: tuple[CacheStep, int] | None,
    ) -> Tensor:
        """Return what each token attends to, of the shape of `x`."""
        cut = (*x.shape[:2], -1, self.head)
        q, k, v = (
            part(x).reshape(*cut).transpose(1, 2)
            for part in (self.q_proj, self.k_proj, self.v_proj)
        )
        if self.has_norms:
            q, k = self.q_layernorm(q), self.k_layernorm(k)
        if cache is None:
            q, k = rotated(q, angles), rotated(k, angles)
            found = functional.scaled_dot_product_attention(
                q, k, v, is_causal=True, enable_gqa=True
            )
        else:
            step, layer = cache
            found = step.attend(layer, q, k, v, angles)
        out: Tensor = self.dense(found.transpose(1, 2).reshape(x.shape))
        return out


class MLP(nn.Module):
    """Feed-forward layer."""

    def __init__(self, config: PhiConfig) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.hidden_act]
        self.fc1 = skip_init(nn.Linear, config.hidden_size, config.intermediate_size)
        self.fc2 = skip_init(nn.Linear, config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result, of the shape of `x`."""
        out: Tensor = self.fc2(self.activation(self.fc1(x)))
        return out


class DecoderLayer(nn.Module):
    """Attention and feed-forward layer of one norm, both added to its input."""

    def __init__(self, config: PhiConfig) -> None:
        super().__init__()
        self.input_layernorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.self_attn = Attention(config)
        self.mlp = MLP(config)

    def forward(
        self,
        x: Tensor,
        angles: tuple[Tensor, Tensor],
        cache: tuple[CacheStep, int] | None,
    ) -> Tensor:
        """Return the next layer's input, of the shape of `x`."""
        normed = self.input_layernorm(x)
        attended = self.self_attn(normed, angles, cache)
        out: Tensor = attended + self.mlp(normed) + x
        return out


class Decoder(nn.Module):
    """Embedding, layers and the last norm."""

    def __init__(self, config: PhiConfig, rotary: Rotary) -> None:
        super().__init__()
        self.embed_tokens = skip_init(
            nn.Embedding, config.vocab_size, config.hidden_size
        )
        self.layers = nn.ModuleList(
            [DecoderLayer(config) for _ in range(config.num_hidden_layers)]
        )
        self.final_layernorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
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
        out: Tensor = self.final_layernorm(x)
        return out


class Phi(nn.Module):
    """Language model of the first Phi family.

    Parameters
    ----------
    config : ModelConfig
        Of `model_type` "phi".
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.settings = config.settings
        self.config = PhiConfig.of(config)
        turned = rotary_size(config, self.config.head_dim, 0.5)
        self.model = Decoder(self.config, Rotary(frequencies(config, turned)))
        self.lm_head = skip_init(
            nn.Linear, self.config.hidden_size, self.config.vocab_size
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
