"""DistilBERT (Sanh et al. 2019, arXiv:1910.01108).

Names of modules are those of the checkpoints of `DistilBertModel` and
`DistilBertForSequenceClassification`.
"""

from __future__ import annotations

from typing import NamedTuple

from .. import nn
from ..nn import functional
from ..nn.utils import skip_init
from ..tensor.sequences import arange
from ..tensor.tensor import Tensor
from .activation import ACTIVATIONS, activation_name
from .bert import check_length, labels
from .config import ModelConfig

TYPES = ("distilbert",)
"""Values of `model_type`."""

EPS = 1e-12
"""What norms add to variances."""


class DistilBertConfig(NamedTuple):
    """Sizes and settings of a model, with the names of `config.json`."""

    vocab_size: int
    dim: int
    hidden_dim: int
    n_layers: int
    n_heads: int
    max_position_embeddings: int
    activation: str
    num_labels: int

    @classmethod
    def of(cls, config: ModelConfig) -> DistilBertConfig:
        """Return what a configuration says; errors as of `LlamaConfig.of`."""
        return cls(
            config.size("vocab_size"),
            config.size("dim"),
            config.size("hidden_dim"),
            config.size("n_layers"),
            config.size("n_heads"),
            config.size("max_position_embeddings", 512),
            activation_name(config, "activation", "gelu"),
            labels(config),
        )


class Embeddings(nn.Module):
    """Sum of what is learned of words and positions."""

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        self.longest = config.max_position_embeddings
        self.word_embeddings = skip_init(nn.Embedding, config.vocab_size, config.dim)
        self.position_embeddings = skip_init(
            nn.Embedding, config.max_position_embeddings, config.dim
        )
        self.LayerNorm = nn.LayerNorm(config.dim, EPS)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the first layer's input, (batch, length, dim)."""
        check_length(tokens, self.longest)
        positions = arange(tokens.shape[1], device=tokens.device)
        x = self.word_embeddings(tokens) + self.position_embeddings(positions)
        out: Tensor = self.LayerNorm(x)
        return out


class Attention(nn.Module):
    """Attention of all tokens to all others."""

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        self.head = config.dim // config.n_heads
        self.q_lin = skip_init(nn.Linear, config.dim, config.dim)
        self.k_lin = skip_init(nn.Linear, config.dim, config.dim)
        self.v_lin = skip_init(nn.Linear, config.dim, config.dim)
        self.out_lin = skip_init(nn.Linear, config.dim, config.dim)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return what each token attends to, of the shape of `x`."""
        cut = (*x.shape[:2], -1, self.head)
        q, k, v = (
            part(x).reshape(*cut).transpose(1, 2)
            for part in (self.q_lin, self.k_lin, self.v_lin)
        )
        found = functional.scaled_dot_product_attention(q, k, v, mask)
        out: Tensor = self.out_lin(found.transpose(1, 2).reshape(x.shape))
        return out


class FeedForward(nn.Module):
    """Two linear layers with an activation between them."""

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]
        self.lin1 = skip_init(nn.Linear, config.dim, config.hidden_dim)
        self.lin2 = skip_init(nn.Linear, config.hidden_dim, config.dim)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result, of the shape of `x`."""
        out: Tensor = self.lin2(self.activation(self.lin1(x)))
        return out


class Layer(nn.Module):
    """Attention and feed-forward layer, each added to its input before a norm."""

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.sa_layer_norm = nn.LayerNorm(config.dim, EPS)
        self.ffn = FeedForward(config)
        self.output_layer_norm = nn.LayerNorm(config.dim, EPS)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return the next layer's input, of the shape of `x`."""
        x = self.sa_layer_norm(self.attention(x, mask) + x)
        out: Tensor = self.output_layer_norm(self.ffn(x) + x)
        return out


class Layers(nn.Module):
    """Layers one after the other."""

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        self.layer = nn.ModuleList([Layer(config) for _ in range(config.n_layers)])

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return the last layer's result, of the shape of `x`."""
        for layer in self.layer:
            x = layer(x, mask)
        return x


class Encoder(nn.Module):
    """Embeddings and layers."""

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        self.embeddings = Embeddings(config)
        self.transformer = Layers(config)

    def forward(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        """Return the state of each token, (batch, length, dim)."""
        if mask is not None:
            mask = (mask != 0).reshape(len(mask), 1, 1, -1)
        out: Tensor = self.transformer(self.embeddings(tokens), mask)
        return out


class DistilBert(nn.Module):
    """Encoder DistilBERT: a state for each token.

    Parameters
    ----------
    config : ModelConfig
        Of `model_type` "distilbert".
    """

    base = "distilbert"
    ignored = (
        "embeddings.position_ids",
        "vocab_layer_norm.bias",
        "vocab_layer_norm.weight",
        "vocab_projector.bias",
        "vocab_projector.weight",
        "vocab_transform.bias",
        "vocab_transform.weight",
    )

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.settings = config.settings
        self.distilbert = Encoder(DistilBertConfig.of(config))

    def forward(
        self, tokens: Tensor, mask: Tensor | None = None, types: Tensor | None = None
    ) -> Tensor:
        """Return the state of each token; as of `Bert.forward`, without types."""
        out: Tensor = self.distilbert(tokens, mask)
        return out


class DistilBertClassifier(nn.Module):
    """DistilBERT with a head for sequences.

    Parameters
    ----------
    config : ModelConfig
        Of `model_type` "distilbert".
    """

    ignored = ("embeddings.position_ids",)

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.settings = config.settings
        sizes = DistilBertConfig.of(config)
        self.distilbert = Encoder(sizes)
        self.pre_classifier = skip_init(nn.Linear, sizes.dim, sizes.dim)
        self.classifier = skip_init(nn.Linear, sizes.dim, sizes.num_labels)

    def forward(
        self, tokens: Tensor, mask: Tensor | None = None, types: Tensor | None = None
    ) -> Tensor:
        """Return logits of classes, (batch, num_labels); arguments as of `Bert`."""
        first = self.distilbert(tokens, mask)[:, 0]
        out: Tensor = self.classifier(functional.relu(self.pre_classifier(first)))
        return out
