"""Gemma 2 (arXiv:2408.00118) and the text models of Gemma 3 (arXiv:2503.19786).

Names of modules are those of the checkpoints of `Gemma2ForCausalLM` and
`Gemma3ForCausalLM`, or of `Gemma3ForConditionalGeneration` those for texts.
"""

from __future__ import annotations

from typing import NamedTuple

from .. import nn
from ..base.dtype import DTypeLike, float32
from ..base.errors import FileFormatError
from ..nn import functional
from ..nn.utils import skip_init
from ..tensor.factories import DeviceLike, zeros
from ..tensor.from_data import tensor
from ..tensor.sequences import arange
from ..tensor.tensor import Tensor
from .activation import gated_product
from .cache import (
    CacheStep,
    KeyValueCache,
    attention,
    capped,
    heads_of_rank,
    visible,
)
from .config import ModelConfig
from .logits import states_to_keep
from .rotary import Rotary, frequencies, rotated

TYPES = ("gemma2", "gemma3", "gemma3_text")
"""Values of `model_type`."""

SLIDING, FULL = "sliding_attention", "full_attention"


class GemmaConfig(NamedTuple):
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
    query_pre_attn_scalar: float
    sliding_window: int
    layer_types: tuple[str, ...]
    attn_logit_softcapping: float | None
    final_logit_softcapping: float | None
    has_head_norms: bool

    @classmethod
    def of(cls, config: ModelConfig) -> GemmaConfig:
        """Return what a configuration says.

        Raises
        ------
        FileFormatError
            If a size is missing or no size, or a setting is not supported.
        """
        config.require("hidden_activation", "gelu_pytorch_tanh")
        config.require("tie_word_embeddings", True)
        config.require("use_bidirectional_attention", False)
        older = config.get("model_type", str, "gemma3_text") == "gemma2"
        layers = config.size("num_hidden_layers")
        return cls(
            config.size("vocab_size", 256000 if older else 262208),
            config.size("hidden_size"),
            config.size("intermediate_size"),
            layers,
            config.size("num_attention_heads", 8),
            config.size("num_key_value_heads", 4),
            config.size("head_dim", 256),
            config.get("rms_norm_eps", float, 1e-6),
            config.get("attention_bias", bool, False),
            config.get("query_pre_attn_scalar", float, 256.0),
            config.size("sliding_window", 4096),
            _layer_types(config, layers, 2 if older else 6),
            _cap(config, "attn_logit_softcapping", 50.0 if older else None),
            _cap(config, "final_logit_softcapping", 30.0 if older else None),
            not older,
        )


def _layer_types(config: ModelConfig, layers: int, every: int) -> tuple[str, ...]:
    """Return what each layer attends to; every so many attend to all tokens."""
    every = config.size("sliding_window_pattern", every)
    given = config.settings.get("layer_types")
    if given is None:
        return tuple(FULL if (i + 1) % every == 0 else SLIDING for i in range(layers))
    if (
        not isinstance(given, list)
        or len(given) != layers
        or {*given} - {SLIDING, FULL}
    ):
        raise FileFormatError(
            f"{config.where}: `layer_types` is {given!r}; it must be {layers} of"
            f" {SLIDING!r} and {FULL!r}"
        )
    return tuple(given)


def _cap(config: ModelConfig, name: str, default: float | None) -> float | None:
    """Return a limit of logits; one that is null says that there is none."""
    if name not in config.settings:
        return default
    found: float | None = config.get(name, float, None)
    return found


def _rotaries(config: ModelConfig, head: int, older: bool) -> dict[str, Rotary]:
    """Return the rotation of each type of layers, whose bases may differ."""
    if older:
        rotary = Rotary(frequencies(config, head))
        return {SLIDING: rotary, FULL: rotary}
    settings = config.settings
    given = settings.get("rope_parameters") or {}
    whole = {
        "rope_theta": settings.get("rope_theta", 1e6),
        **(settings.get("rope_scaling") or {}),
        **(given.get(FULL) or {}),
    }
    near = {
        "rope_theta": settings.get("rope_local_base_freq", 1e4),
        **(given.get(SLIDING) or {}),
    }
    return {
        kind: Rotary(
            frequencies(ModelConfig({"rope_parameters": each}, config.where), head)
        )
        for kind, each in ((SLIDING, near), (FULL, whole))
    }


class RMSNorm(nn.Module):
    """Norm whose weight is a difference from 1; the product is taken in float32."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        """Return the norm over the last dimension, of the shape of `x`."""
        # Which multiplies in float32 whatever the dtype of `x`, and rounds once.
        weight = self.weight.to(float32) + 1.0
        out = functional.rms_norm(x, weight.shape, weight, self.eps)
        return out.to(x.dtype)


class Attention(nn.Module):
    """Attention in which several heads of queries share one of keys and values."""

    def __init__(self, config: GemmaConfig) -> None:
        super().__init__()
        self.head = config.head_dim
        self.scale = config.query_pre_attn_scalar**-0.5
        self.cap = config.attn_logit_softcapping
        width, bias = config.hidden_size, config.attention_bias
        outer = config.num_attention_heads * self.head
        shared = config.num_key_value_heads * self.head
        self.q_proj = skip_init(nn.Linear, width, outer, bias=bias)
        self.k_proj = skip_init(nn.Linear, width, shared, bias=bias)
        self.v_proj = skip_init(nn.Linear, width, shared, bias=bias)
        self.o_proj = skip_init(nn.Linear, outer, width, bias=bias)
        eps = config.rms_norm_eps
        self.q_norm = RMSNorm(self.head, eps) if config.has_head_norms else None
        self.k_norm = RMSNorm(self.head, eps) if config.has_head_norms else None

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
        q, k = self.q_proj(x).reshape(*cut), self.k_proj(x).reshape(*cut)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = q.transpose(1, 2), k.transpose(1, 2)
        v = self.v_proj(x).reshape(*cut).transpose(1, 2)
        if cache is None:
            q, k = rotated(q, angles), rotated(k, angles)
            found = attention(q, k, v, mask, self.scale, self.cap)
        else:
            step, layer = cache
            found = step.attend(layer, q, k, v, angles, scale=self.scale, cap=self.cap)
        out: Tensor = self.o_proj(found.transpose(1, 2).reshape(batch, length, -1))
        return out


class MLP(nn.Module):
    """Gated feed-forward layer with GELU (Shazeer 2020, arXiv:2002.05202)."""

    def __init__(self, config: GemmaConfig) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.gate_proj = skip_init(nn.Linear, width, inner, bias=False)
        self.up_proj = skip_init(nn.Linear, width, inner, bias=False)
        self.down_proj = skip_init(nn.Linear, inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result, of the shape of `x`."""
        layers = self.gate_proj, self.up_proj
        out: Tensor = self.down_proj(gated_product(x, *layers, "gelu_pytorch_tanh"))
        return out


class DecoderLayer(nn.Module):
    """Attention and feed-forward layer, each between two norms."""

    def __init__(self, config: GemmaConfig) -> None:
        super().__init__()
        width, eps = config.hidden_size, config.rms_norm_eps
        self.input_layernorm = RMSNorm(width, eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(width, eps)
        self.pre_feedforward_layernorm = RMSNorm(width, eps)
        self.mlp = MLP(config)
        self.post_feedforward_layernorm = RMSNorm(width, eps)

    def forward(
        self,
        x: Tensor,
        angles: tuple[Tensor, Tensor],
        mask: Tensor | None,
        cache: tuple[CacheStep, int] | None,
    ) -> Tensor:
        """Return the next layer's input, of the shape of `x`."""
        attended = self.self_attn(self.input_layernorm(x), angles, mask, cache)
        x = x + self.post_attention_layernorm(attended)
        found = self.mlp(self.pre_feedforward_layernorm(x))
        out: Tensor = x + self.post_feedforward_layernorm(found)
        return out


class Decoder(nn.Module):
    """Embedding, layers and the last norm."""

    def __init__(self, config: GemmaConfig, rotaries: dict[str, Rotary]) -> None:
        super().__init__()
        self.types = config.layer_types
        self.window = config.sliding_window
        self.scale = config.hidden_size**0.5
        self.rotaries = rotaries
        self.embed_tokens = skip_init(
            nn.Embedding, config.vocab_size, config.hidden_size
        )
        self.layers = nn.ModuleList(
            [DecoderLayer(config) for _ in range(config.num_hidden_layers)]
        )
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, tokens: Tensor, cache: KeyValueCache | None = None) -> Tensor:
        """Return the state of each token, (batch, length, hidden)."""
        length = tokens.shape[1]
        x = self.embed_tokens(tokens)
        # The factor itself is rounded to the dtype.
        x = x * tensor(self.scale, dtype=x.dtype, device=x.device)
        angles, masks, steps = {}, {}, {}
        for kind in {*self.types}:
            window = self.window if kind == SLIDING else None
            if cache is None:
                positions = arange(length, device=tokens.device)
                masks[kind] = visible(positions, positions, window)
            else:
                steps[kind] = cache.step(length, window)
                positions = steps[kind].positions
            angles[kind] = self.rotaries[kind].angles(positions, x)
        for number, (kind, layer) in enumerate(
            zip(self.types, self.layers, strict=True)
        ):
            held = None if cache is None else (steps[kind], number)
            x = layer(x, angles[kind], masks.get(kind), held)
        if cache is not None:
            cache.advance(length)
        out: Tensor = self.norm(x)
        return out


class Gemma(nn.Module):
    """Language model of the Gemma family.

    Parameters
    ----------
    config : ModelConfig
        Of `model_type` "gemma2", "gemma3_text" or "gemma3", which has more parts.

    Attributes
    ----------
    aliases : dict of str to str
        Names in a checkpoint that has more parts.
    foreign : tuple of str
        Beginnings of the names of these parts.
    """

    foreign = ("multi_modal_projector.", "vision_tower.")

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        texts = config.settings.get("text_config")
        if isinstance(texts, dict):
            config = ModelConfig(texts, f"{config.where}: text_config")
        self.settings = config.settings
        self.config = GemmaConfig.of(config)
        older = not self.config.has_head_norms
        rotaries = _rotaries(config, self.config.head_dim, older)
        self.model = Decoder(self.config, rotaries)
        self.lm_head = skip_init(
            nn.Linear, self.config.hidden_size, self.config.vocab_size, bias=False
        )
        self.lm_head.weight = self.model.embed_tokens.weight
        names = [*self.state_dict()]
        self.aliases = {name: f"language_model.{name}" for name in names}

    def forward(
        self,
        tokens: Tensor,
        cache: KeyValueCache | None = None,
        logits_to_keep: int | Tensor = 0,
    ) -> Tensor:
        """Return logits of the token after each; as of `Llama.forward`."""
        states = states_to_keep(self.model(tokens, cache), logits_to_keep)
        logits = self.lm_head(states)
        return capped(logits, self.config.final_logit_softcapping)

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
