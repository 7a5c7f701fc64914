"""Whisper (Radford et al. 2022, arXiv:2212.04356): text of speech.

Names of modules are those of the checkpoints of `WhisperForConditionalGeneration`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from vkbackend.errors import ArgumentError

from .. import nn, ops
from ..autograd.engine import no_grad
from ..base.errors import ShapeError
from ..nn import functional
from ..nn.utils import skip_init
from ..tensor.factories import DeviceLike
from ..tensor.from_data import tensor
from ..tensor.sequences import arange
from ..tensor.tensor import Tensor
from .activation import ACTIVATIONS, activation_name
from .cache import CacheStep, KeyValueCache
from .config import ModelConfig
from .generation import generate
from .logits import states_to_keep

TYPES = ("whisper",)
"""Values of `model_type`."""

_HOP = 2
"""Steps in time of the second convolution."""

Pairs = list[tuple[Tensor, Tensor]]
"""Keys and values of what is heard, for each layer."""


class WhisperConfig(NamedTuple):
    """Sizes and settings of a model, with the names of `config.json`."""

    vocab_size: int
    d_model: int
    encoder_layers: int
    decoder_layers: int
    encoder_attention_heads: int
    decoder_attention_heads: int
    encoder_ffn_dim: int
    decoder_ffn_dim: int
    num_mel_bins: int
    max_source_positions: int
    max_target_positions: int
    activation_function: str

    @classmethod
    def of(cls, config: ModelConfig) -> WhisperConfig:
        """Return what a configuration says; errors as of `LlamaConfig.of`."""
        config.require("scale_embedding", False)
        config.require("tie_word_embeddings", True)
        return cls(
            config.size("vocab_size"),
            config.size("d_model"),
            config.size("encoder_layers"),
            config.size("decoder_layers"),
            config.size("encoder_attention_heads"),
            config.size("decoder_attention_heads"),
            config.size("encoder_ffn_dim"),
            config.size("decoder_ffn_dim"),
            config.size("num_mel_bins", 80),
            config.size("max_source_positions", 1500),
            config.size("max_target_positions", 448),
            activation_name(config, "activation_function", "gelu"),
        )


class Attention(nn.Module):
    """Attention of heads, to what is given or to what is heard."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.head = width // heads
        self.k_proj = skip_init(nn.Linear, width, width, bias=False)
        self.v_proj = skip_init(nn.Linear, width, width)
        self.q_proj = skip_init(nn.Linear, width, width)
        self.out_proj = skip_init(nn.Linear, width, width)

    def heads(self, x: Tensor) -> Tensor:
        """Return elements by head, (batch, heads, length, head)."""
        return x.reshape(*x.shape[:2], -1, self.head).transpose(1, 2)

    def pair(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values."""
        return self.heads(self.k_proj(x)), self.heads(self.v_proj(x))

    def forward(
        self,
        x: Tensor,
        pair: tuple[Tensor, Tensor],
        cache: tuple[CacheStep, int] | None = None,
    ) -> Tensor:
        """Return what each token attends to, of the shape of `x`.

        With a cache the pair is added to it, otherwise each token sees all of it.
        """
        query = self.heads(self.q_proj(x))
        if cache is None:
            found = functional.scaled_dot_product_attention(query, *pair)
        else:
            step, layer = cache
            found = step.attend(layer, query, *pair)
        out: Tensor = self.out_proj(found.transpose(1, 2).reshape(x.shape))
        return out


class EncoderLayer(nn.Module):
    """Attention and feed-forward layer, each after a norm and added to its input."""

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__()
        width, inner = config.d_model, config.encoder_ffn_dim
        self.activation = ACTIVATIONS[config.activation_function]
        self.self_attn = Attention(width, config.encoder_attention_heads)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        self.fc1 = skip_init(nn.Linear, width, inner)
        self.fc2 = skip_init(nn.Linear, inner, width)
        self.final_layer_norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the next layer's input, of the shape of `x`."""
        normed = self.self_attn_layer_norm(x)
        x = x + self.self_attn(normed, self.self_attn.pair(normed))
        inner = self.activation(self.fc1(self.final_layer_norm(x)))
        out: Tensor = x + self.fc2(inner)
        return out


class Encoder(nn.Module):
    """Convolutions over time, positions, layers and the last norm."""

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__()
        width = config.d_model
        self.shape = (config.num_mel_bins, _HOP * config.max_source_positions)
        self.conv1 = skip_init(nn.Conv1d, config.num_mel_bins, width, 3, padding=1)
        self.conv2 = skip_init(nn.Conv1d, width, width, 3, stride=_HOP, padding=1)
        self.embed_positions = skip_init(
            nn.Embedding, config.max_source_positions, width
        )
        self.layers = nn.ModuleList(
            [EncoderLayer(config) for _ in range(config.encoder_layers)]
        )
        self.layer_norm = nn.LayerNorm(width)

    def forward(self, features: Tensor) -> Tensor:
        """Return states of what is heard, (batch, max_source_positions, d_model)."""
        if len(features.shape) != 3 or tuple(features.shape[1:]) != self.shape:
            raise ShapeError(
                f"Whisper: features is {tuple(features.shape)}; it must be (batch,"
                f" {self.shape[0]}, {self.shape[1]})"
            )
        x = functional.gelu(self.conv1(features.to(self.conv1.weight.dtype)))
        x = functional.gelu(self.conv2(x)).transpose(1, 2)
        x = x + self.embed_positions.weight
        for layer in self.layers:
            x = layer(x)
        out: Tensor = self.layer_norm(x)
        return out


class DecoderLayer(nn.Module):
    """Causal attention, attention to what is heard, and feed-forward layer."""

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__()
        width, inner = config.d_model, config.decoder_ffn_dim
        heads = config.decoder_attention_heads
        self.activation = ACTIVATIONS[config.activation_function]
        self.self_attn = Attention(width, heads)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        self.encoder_attn = Attention(width, heads)
        self.encoder_attn_layer_norm = nn.LayerNorm(width)
        self.fc1 = skip_init(nn.Linear, width, inner)
        self.fc2 = skip_init(nn.Linear, inner, width)
        self.final_layer_norm = nn.LayerNorm(width)

    def forward(
        self,
        x: Tensor,
        heard: tuple[Tensor, Tensor],
        cache: tuple[CacheStep, int],
    ) -> Tensor:
        """Return the next layer's input, of the shape of `x`."""
        normed = self.self_attn_layer_norm(x)
        x = x + self.self_attn(normed, self.self_attn.pair(normed), cache)
        x = x + self.encoder_attn(self.encoder_attn_layer_norm(x), heard)
        inner = self.activation(self.fc1(self.final_layer_norm(x)))
        out: Tensor = x + self.fc2(inner)
        return out


class Decoder(nn.Module):
    """Embeddings of words and positions, layers and the last norm."""

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__()
        width = config.d_model
        self.embed_tokens = skip_init(nn.Embedding, config.vocab_size, width)
        self.embed_positions = skip_init(
            nn.Embedding, config.max_target_positions, width
        )
        self.layers = nn.ModuleList(
            [DecoderLayer(config) for _ in range(config.decoder_layers)]
        )
        self.layer_norm = nn.LayerNorm(width)

    def heard(self, states: Tensor) -> Pairs:
        """Return keys and values of what is heard."""
        return [
            layer.encoder_attn.pair(states)
            for layer in self.layers
            if isinstance(layer, DecoderLayer)
        ]

    def forward(self, tokens: Tensor, heard: Pairs, cache: KeyValueCache) -> Tensor:
        """Return the state of each token, (batch, length, d_model)."""
        step = cache.step(tokens.shape[1])
        x = self.embed_tokens(tokens) + self.embed_positions(step.positions)
        for number, layer in enumerate(self.layers):
            x = layer(x, heard[number], (step, number))
        cache.advance(tokens.shape[1])
        out: Tensor = self.layer_norm(x)
        return out


class EncoderDecoder(nn.Module):
    """Encoder and decoder."""

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__()
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)


class Whisper(nn.Module):
    """Encoder of speech and decoder of its text.

    Parameters
    ----------
    config : ModelConfig
        Of `model_type` "whisper".
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = WhisperConfig.of(config)
        self.model = EncoderDecoder(self.config)
        self.proj_out = skip_init(
            nn.Linear, self.config.d_model, self.config.vocab_size, bias=False
        )
        self.proj_out.weight = self.model.decoder.embed_tokens.weight

    def forward(self, features: Tensor, tokens: Tensor) -> Tensor:
        """Return logits of the token after each.

        Parameters
        ----------
        features : Tensor, float, shape (batch, num_mel_bins, 2 max_source_positions)
            As a `SpeechProcessor` makes them.
        tokens : Tensor, int64, shape (batch, length)

        Returns
        -------
        Tensor, shape (batch, length, vocab_size)

        Raises
        ------
        ShapeError
            If `features` has another shape.
        """
        decoder = SpeechDecoder(self, features)
        return decoder(tokens, decoder.new_cache(len(tokens), tokens.shape[1]))


class SpeechDecoder:
    """Decoder of the text of some speech, as `generate` takes it.

    Parameters
    ----------
    model : Whisper
    features : Tensor, float, shape (batch, num_mel_bins, 2 max_source_positions)
    suppressed : collection of int
        Tokens that are never chosen.
    """

    def __init__(
        self, model: Whisper, features: Tensor, suppressed: Collection[int] = ()
    ) -> None:
        self._model = model
        states = model.model.encoder(features)
        self._heard = model.model.decoder.heard(states)
        self._suppressed: Tensor | None = None
        if suppressed:
            words = arange(model.config.vocab_size, device=features.device)
            chosen = tensor([[each] for each in suppressed], device=features.device)
            self._suppressed = ops.any(words == chosen, 0)

    def __call__(
        self, tokens: Tensor, cache: KeyValueCache, logits_to_keep: int = 0
    ) -> Tensor:
        """Return logits of the token after each, (batch, count, vocab_size).

        Of as many of the last tokens as are to be kept; see `states_to_keep`.
        """
        states = self._model.model.decoder(tokens, self._heard, cache)
        states = states_to_keep(states, logits_to_keep)
        logits: Tensor = self._model.proj_out(states)
        if self._suppressed is None:
            return logits
        return ops.where(self._suppressed, float("-inf"), logits)

    def new_cache(
        self, batch: int, length: int, device: DeviceLike = None
    ) -> KeyValueCache:
        """Return an empty cache for texts of `length` tokens."""
        config, weight = self._model.config, self._model.proj_out.weight
        heads = config.decoder_attention_heads
        return KeyValueCache(
            config.decoder_layers,
            batch,
            heads,
            length,
            config.d_model // heads,
            weight.device if device is None else device,
            weight.dtype,
        )


def transcribe(
    model: Whisper,
    features: Tensor,
    prompt: Tensor,
    count: int,
    *,
    stop: Collection[int] = (),
    suppressed: Collection[int] = (),
) -> Tensor:
    """Return the most likely text of speech, after a prompt.

    Parameters
    ----------
    model : Whisper
    features : Tensor, float, shape (batch, num_mel_bins, 2 max_source_positions)
        As a `SpeechProcessor` makes them, on the model's device.
    prompt : Tensor, int64, shape (batch, length)
        The first tokens: of language and task, and that there are no times.
    count : int
        Number of tokens to add at most.
    stop : collection of int
        Tokens at which a text ends.
    suppressed : collection of int
        Tokens that are never chosen, `suppress_tokens` of a configuration.

    Returns
    -------
    Tensor, int64, shape (batch, length + added)

    Raises
    ------
    ArgumentError
        If the model has not as many positions; as of `generate`.
    ShapeError
        If `features` has another shape, or `prompt` no token.
    """
    longest = model.config.max_target_positions
    if prompt.shape[-1] + count > longest:
        raise ArgumentError(
            f"transcribe: count is {count} after {prompt.shape[-1]} tokens; the model"
            f" has {longest} positions"
        )
    with no_grad():
        decoder = SpeechDecoder(model, features, suppressed)
    return generate(decoder, prompt, count, stop=stop)
