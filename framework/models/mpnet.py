"""MPNet (Song et al. 2020, arXiv:2004.09297).

Names of modules are those of the checkpoints of `MPNetModel` and
`MPNetForSequenceClassification`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .. import nn, ops
from ..nn import functional
from ..nn.utils import skip_init
from ..tensor.from_data import tensor
from ..tensor.tensor import Tensor
from .activation import ACTIVATIONS, activation_name
from .bert import ClassificationHead, check_length, counted, labels
from .config import ModelConfig

TYPES = ("mpnet",)
"""Values of `model_type`."""

PADDING = 1
"""Number of the token and of the position of padding."""

FARTHEST = 128
"""Distance from which on all are in the last bucket."""


class MPNetConfig(NamedTuple):
    """Sizes and settings of a model, with the names of `config.json`."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    max_position_embeddings: int
    relative_attention_num_buckets: int
    layer_norm_eps: float
    hidden_act: str
    num_labels: int

    @classmethod
    def of(cls, config: ModelConfig) -> MPNetConfig:
        """Return what a configuration says; errors as of `LlamaConfig.of`."""
        return cls(
            config.size("vocab_size"),
            config.size("hidden_size"),
            config.size("intermediate_size"),
            config.size("num_hidden_layers"),
            config.size("num_attention_heads"),
            config.size("max_position_embeddings", 512),
            config.size("relative_attention_num_buckets", 32),
            config.get("layer_norm_eps", float, 1e-12),
            activation_name(config, "hidden_act", "gelu"),
            labels(config),
        )


def buckets(length: int, count: int = 32) -> np.ndarray:
    """Return the bucket of the distance of each two tokens, int64 (length, length).

    Half of the buckets are of tokens ahead; near ones have their own, and the others
    grow with the logarithm of the distance (Raffel et al. 2020, arXiv:1910.10683).
    """
    ahead = np.arange(length)[None] - np.arange(length)[:, None]
    half = count // 2
    near = half // 2
    far = np.abs(ahead).astype(np.float32)
    grown = np.log(np.maximum(far, 1) / np.float32(near)) / np.float32(
        math.log(FARTHEST / near)
    )
    last = np.minimum(near + (grown * np.float32(half - near)).astype(int), half - 1)
    found: np.ndarray = np.where(far < near, far.astype(int), last) + (ahead > 0) * half
    return found


class Embeddings(nn.Module):
    """Sum of what is learned of words and positions."""

    def __init__(self, config: MPNetConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.longest = config.max_position_embeddings - PADDING - 1
        self.word_embeddings = skip_init(nn.Embedding, config.vocab_size, width)
        self.position_embeddings = skip_init(
            nn.Embedding, config.max_position_embeddings, width
        )
        self.LayerNorm = nn.LayerNorm(width, config.layer_norm_eps)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the first layer's input, (batch, length, hidden)."""
        check_length(tokens, self.longest)
        positions = counted(tokens, PADDING)
        x = self.word_embeddings(tokens) + self.position_embeddings(positions)
        out: Tensor = self.LayerNorm(x)
        return out


class HeadAttention(nn.Module):
    """Attention of all tokens to all others, with a bias for their distance."""

    def __init__(self, config: MPNetConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.head = width // config.num_attention_heads
        self.q = skip_init(nn.Linear, width, width)
        self.k = skip_init(nn.Linear, width, width)
        self.v = skip_init(nn.Linear, width, width)
        self.o = skip_init(nn.Linear, width, width)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """Return what each token attends to, of the shape of `x`."""
        cut = (*x.shape[:2], -1, self.head)
        q, k, v = (
            part(x).reshape(*cut).transpose(1, 2) for part in (self.q, self.k, self.v)
        )
        found = functional.scaled_dot_product_attention(q, k, v, bias)
        out: Tensor = self.o(found.transpose(1, 2).reshape(x.shape))
        return out


class Attention(nn.Module):
    """Attention that is added to its input before a norm."""

    def __init__(self, config: MPNetConfig) -> None:
        super().__init__()
        self.attn = HeadAttention(config)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """Return the feed-forward layer's input, of the shape of `x`."""
        out: Tensor = self.LayerNorm(self.attn(x, bias) + x)
        return out


class Intermediate(nn.Module):
    """First half of the feed-forward layer."""

    def __init__(self, config: MPNetConfig) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.hidden_act]
        self.dense = skip_init(nn.Linear, config.hidden_size, config.intermediate_size)

    def forward(self, x: Tensor) -> Tensor:
        """Return the activations, (batch, length, intermediate)."""
        return self.activation(self.dense(x))


class Output(nn.Module):
    """Second half of the feed-forward layer, added to its input before a norm."""

    def __init__(self, config: MPNetConfig) -> None:
        super().__init__()
        self.dense = skip_init(nn.Linear, config.intermediate_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        """Return the norm of the sum, of the shape of `start`."""
        out: Tensor = self.LayerNorm(self.dense(x) + start)
        return out


class Layer(nn.Module):
    """Attention and feed-forward layer."""

    def __init__(self, config: MPNetConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.intermediate = Intermediate(config)
        self.output = Output(config)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """Return the next layer's input, of the shape of `x`."""
        x = self.attention(x, bias)
        out: Tensor = self.output(self.intermediate(x), x)
        return out


class Layers(nn.Module):
    """Layers one after the other, which share the bias of distances."""

    def __init__(self, config: MPNetConfig) -> None:
        super().__init__()
        self.layer = nn.ModuleList(
            [Layer(config) for _ in range(config.num_hidden_layers)]
        )
        self.relative_attention_bias = skip_init(
            nn.Embedding,
            config.relative_attention_num_buckets,
            config.num_attention_heads,
        )

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return the last layer's result, of the shape of `x`."""
        near = tensor(buckets(x.shape[1]), device=x.device)
        bias = ops.unsqueeze(self.relative_attention_bias(near).permute(2, 0, 1), 0)
        if mask is not None:
            seen = (mask != 0).reshape(len(mask), 1, 1, -1)
            bias = ops.where(seen, bias, float("-inf"))
        for layer in self.layer:
            x = layer(x, bias)
        return x


class Encoder(nn.Module):
    """Embeddings and layers."""

    def __init__(self, config: MPNetConfig) -> None:
        super().__init__()
        self.embeddings = Embeddings(config)
        self.encoder = Layers(config)

    def forward(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        """Return the state of each token, (batch, length, hidden)."""
        out: Tensor = self.encoder(self.embeddings(tokens), mask)
        return out


class MPNet(nn.Module):
    """Encoder MPNet: a state for each token.

    Parameters
    ----------
    config : ModelConfig
        Of `model_type` "mpnet".
    """

    base = "mpnet"
    ignored = (
        "embeddings.position_ids",
        "lm_head.bias",
        "lm_head.decoder.bias",
        "lm_head.decoder.weight",
        "lm_head.dense.bias",
        "lm_head.dense.weight",
        "lm_head.layer_norm.bias",
        "lm_head.layer_norm.weight",
        "pooler.dense.bias",
        "pooler.dense.weight",
    )

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.settings = config.settings
        self.mpnet = Encoder(MPNetConfig.of(config))

    def forward(
        self, tokens: Tensor, mask: Tensor | None = None, types: Tensor | None = None
    ) -> Tensor:
        """Return the state of each token; as of `Bert.forward`, without types."""
        out: Tensor = self.mpnet(tokens, mask)
        return out


class MPNetClassifier(nn.Module):
    """MPNet with a head for sequences.

    Parameters
    ----------
    config : ModelConfig
        Of `model_type` "mpnet".
    """

    ignored = ("embeddings.position_ids",)

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.settings = config.settings
        sizes = MPNetConfig.of(config)
        self.mpnet = Encoder(sizes)
        self.classifier = ClassificationHead(sizes.hidden_size, sizes.num_labels)

    def forward(
        self, tokens: Tensor, mask: Tensor | None = None, types: Tensor | None = None
    ) -> Tensor:
        """Return logits of classes, (batch, num_labels); arguments as of `Bert`."""
        out: Tensor = self.classifier(self.mpnet(tokens, mask))
        return out
