"""Llama 3, Mistral and SmolLM (Touvron et al. 2023, arXiv:2302.13971), and Mixtral.

Names of modules are those of the checkpoints of `LlamaForCausalLM`,
`MistralForCausalLM` and `MixtralForCausalLM`.
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
from .cache import CacheStep, KeyValueCache, heads_of_rank, visible
from .config import ModelConfig
from .experts import SparseMLP
from .logits import states_to_keep
from .rotary import Rotary, frequencies, rotated

TYPES = ("llama", "mistral", "mixtral")
"""Values of `model_type`."""


class LlamaConfig(NamedTuple):
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
    attention_bias: bool
    mlp_bias: bool
    tie_word_embeddings: bool
    num_local_experts: int | None
    num_experts_per_tok: int

    @classmethod
    def of(cls, config: ModelConfig) -> LlamaConfig:
        """Return what a configuration says.

        Raises
        ------
        FileFormatError
            If a size is missing or no size, or a setting is not supported.
        """
        config.require("hidden_act", "silu")
        mixture = config.get("model_type", str, "llama") == "mixtral"
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
            config.get("rms_norm_eps", float, 1e-5 if mixture else 1e-6),
            config.size("sliding_window", None),
            config.get("attention_bias", bool, False),
            config.get("mlp_bias", bool, False),
            config.get("tie_word_embeddings", bool, False),
            config.size("num_local_experts", 8) if mixture else None,
            config.size("num_experts_per_tok", 2),
        )


class Attention(nn.Module):
    """Attention in which several heads of queries share one of keys and values."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.head = config.head_dim
        width, bias = config.hidden_size, config.attention_bias
        outer = config.num_attention_heads * self.head
        shared = config.num_key_value_heads * self.head
        self.q_proj = skip_init(nn.Linear, width, outer, bias=bias)
        self.k_proj = skip_init(nn.Linear, width, shared, bias=bias)
        self.v_proj = skip_init(nn.Linear, width, shared, bias=bias)
        self.o_proj = skip_init(nn.Linear, outer, width, bias=bias)

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
        q, k, v = (
            part(x).reshape(*cut).transpose(1, 2)
            for part in (self.q_proj, self.k_proj, self.v_proj)
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

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        width, inner, bias = (
            config.hidden_size,
            config.intermediate_size,
            config.mlp_bias,
        )
        self.gate_proj = skip_init(nn.Linear, width, inner, bias=bias)
        self.up_proj = skip_init(nn.Linear, width, inner, bias=bias)
        self.down_proj = skip_init(nn.Linear, inner, width, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result, of the shape of `x`."""
        out: Tensor = self.down_proj(
            gated_product(x, self.gate_proj, self.up_proj, "silu")
        )
        return out


class DecoderLayer(nn.Module):
    """Attention and feed-forward layer, each after a norm and added to its input."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = nn.RMSNorm(
            config.hidden_size, config.rms_norm_eps
        )
        experts = config.num_local_experts
        if experts is None:
            self.mlp = MLP(config)
        else:
            self.block_sparse_moe = SparseMLP(
                experts,
                config.hidden_size,
                config.intermediate_size,
                config.num_experts_per_tok,
                True,
                ("w1", "w3", "w2"),
            )
        self.is_mixture = experts is not None

    def forward(
        self,
        x: Tensor,
        angles: tuple[Tensor, Tensor],
        mask: Tensor | None,
        cache: tuple[CacheStep, int] | None,
    ) -> Tensor:
        """Return the next layer's input, of the shape of `x`."""
        x = x + self.self_attn(self.input_layernorm(x), angles, mask, cache)
        feed_forward = self.block_sparse_moe if self.is_mixture else self.mlp
        out: Tensor = x + feed_forward(self.post_attention_layernorm(x))
        return out


class Decoder(nn.Module):
    """Embedding, layers and the last norm."""

    def __init__(self, config: LlamaConfig, rotary: Rotary) -> None:
        super().__init__()
        self.embed_tokens = skip_init(
            nn.Embedding, config.vocab_size, config.hidden_size
        )
        self.layers = nn.ModuleList(
            [DecoderLayer(config) for _ in range(config.num_hidden_layers)]
        )
        self.norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.window = config.sliding_window
        self.rotary = rotary

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
        angles = self.rotary.angles(positions, x)
        for number, layer in enumerate(self.layers):
            x = layer(x, angles, mask, None if step is None else (step, number))
        if cache is not None:
            cache.advance(length)
        out: Tensor = self.norm(x)
        return out


class Llama(nn.Module):
    """Language model of the Llama family.

    Parameters
    ----------
    config : ModelConfig
        Of `model_type` "llama", "mistral" or "mixtral".

    Examples
    --------
    >>> from vkbackend.framework.models import ModelConfig
    >>> sizes = {"vocab_size": 8, "hidden_size": 4, "intermediate_size": 8,
    ...          "num_hidden_layers": 1, "num_attention_heads": 2}
    >>> Llama(ModelConfig(sizes))(fw.zeros((1, 3), dtype=fw.int64)).shape
    torch.Size([1, 3, 8])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.settings = config.settings
        self.config = LlamaConfig.of(config)
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
