"""BERT (Devlin et al. 2019, arXiv:1810.04805), MiniLM, RoBERTa and XLM-R.

Names of modules are those of the checkpoints of `BertModel`, `RobertaModel`,
`XLMRobertaModel` and their `ForSequenceClassification`, which rerankers are.
"""

from __future__ import annotations

from typing import NamedTuple

from .. import nn, ops
from ..base.dtype import int64
from ..base.errors import ShapeError
from ..nn import functional
from ..nn.utils import skip_init
from ..tensor.factories import zeros
from ..tensor.sequences import arange
from ..tensor.tensor import Tensor
from .activation import ACTIVATIONS, activation_name
from .config import ModelConfig

BERT_TYPES = ("bert",)
ROBERTA_TYPES = ("roberta", "xlm-roberta")
"""Values of `model_type`; the second count positions from padding."""


class BertConfig(NamedTuple):
    """Sizes and settings of a model, with the names of `config.json`."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    max_position_embeddings: int
    type_vocab_size: int
    layer_norm_eps: float
    hidden_act: str
    padding: int | None
    num_labels: int

    @classmethod
    def of(cls, config: ModelConfig) -> BertConfig:
        """Return what a configuration says; errors as of `LlamaConfig.of`."""
        config.require("position_embedding_type", "absolute")
        config.require("is_decoder", False)
        counted = config.get("model_type", str, "bert") in ROBERTA_TYPES
        return cls(
            config.size("vocab_size"),
            config.size("hidden_size"),
            config.size("intermediate_size"),
            config.size("num_hidden_layers"),
            config.size("num_attention_heads"),
            config.size("max_position_embeddings", 512),
            config.size("type_vocab_size", 2),
            config.get("layer_norm_eps", float, 1e-12),
            activation_name(config, "hidden_act", "gelu"),
            config.get("pad_token_id", int, 1) if counted else None,
            labels(config),
        )


def labels(config: ModelConfig) -> int:
    """Return the number of classes that a head tells apart."""
    names = config.settings.get("id2label")
    count = len(names) if isinstance(names, dict) else 2
    return config.size("num_labels", count)


def counted(tokens: Tensor, padding: int) -> Tensor:
    """Return positions that padding has no part in, of the shape of `tokens`.

    Padding has its own number, and tokens are counted from the next one.
    """
    real = (tokens != padding).to(int64)
    return ops.cumsum(real, 1) * real + padding


def check_length(tokens: Tensor, longest: int) -> None:
    """Check that there are positions for all tokens.

    Raises
    ------
    ShapeError
        If there are not.
    """
    if tokens.shape[1] > longest:
        raise ShapeError(
            f"forward: tokens is {tuple(tokens.shape)}; the model has positions for"
            f" {longest} tokens of a sequence"
        )


class Embeddings(nn.Module):
    """Sum of what is learned of words, positions and types of tokens."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.padding = config.padding
        self.longest = config.max_position_embeddings
        if config.padding is not None:
            self.longest -= config.padding + 1
        self.word_embeddings = skip_init(nn.Embedding, config.vocab_size, width)
        self.position_embeddings = skip_init(
            nn.Embedding, config.max_position_embeddings, width
        )
        self.token_type_embeddings = skip_init(
            nn.Embedding, config.type_vocab_size, width
        )
        self.LayerNorm = nn.LayerNorm(width, config.layer_norm_eps)

    def forward(self, tokens: Tensor, types: Tensor | None) -> Tensor:
        """Return the first layer's input, (batch, length, hidden)."""
        check_length(tokens, self.longest)
        if self.padding is None:
            positions = arange(tokens.shape[1], device=tokens.device)
        else:
            positions = counted(tokens, self.padding)
        if types is None:
            types = zeros((1, 1), dtype=int64, device=tokens.device)
        x = self.word_embeddings(tokens) + self.token_type_embeddings(types)
        out: Tensor = self.LayerNorm(x + self.position_embeddings(positions))
        return out


class SelfAttention(nn.Module):
    """Queries, keys and values of heads, and what the queries attend to."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.head = width // config.num_attention_heads
        self.query = skip_init(nn.Linear, width, width)
        self.key = skip_init(nn.Linear, width, width)
        self.value = skip_init(nn.Linear, width, width)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return what each token attends to, (batch, length, hidden)."""
        cut = (*x.shape[:2], -1, self.head)
        q, k, v = (
            part(x).reshape(*cut).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        found = functional.scaled_dot_product_attention(q, k, v, mask)
        return found.transpose(1, 2).reshape(x.shape)


class AddNorm(nn.Module):
    """Linear layer whose result is added to what a branch began with, and a norm."""

    def __init__(self, inner: int, config: BertConfig) -> None:
        super().__init__()
        self.dense = skip_init(nn.Linear, inner, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        """Return the norm of the sum, of the shape of `start`."""
        out: Tensor = self.LayerNorm(self.dense(x) + start)
        return out


class Attention(nn.Module):
    """Attention of all tokens to all others."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.self = SelfAttention(config)
        self.output = AddNorm(config.hidden_size, config)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return the feed-forward layer's input, of the shape of `x`."""
        out: Tensor = self.output(self.self(x, mask), x)
        return out


class Intermediate(nn.Module):
    """First half of the feed-forward layer."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.hidden_act]
        self.dense = skip_init(nn.Linear, config.hidden_size, config.intermediate_size)

    def forward(self, x: Tensor) -> Tensor:
        """Return the activations, (batch, length, intermediate)."""
        return self.activation(self.dense(x))


class Layer(nn.Module):
    """Attention and feed-forward layer, each added to its input before a norm."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.intermediate = Intermediate(config)
        self.output = AddNorm(config.intermediate_size, config)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return the next layer's input, of the shape of `x`."""
        x = self.attention(x, mask)
        out: Tensor = self.output(self.intermediate(x), x)
        return out


class Layers(nn.Module):
    """Layers one after the other."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.layer = nn.ModuleList(
            [Layer(config) for _ in range(config.num_hidden_layers)]
        )

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return the last layer's result, of the shape of `x`."""
        for layer in self.layer:
            x = layer(x, mask)
        return x


class Pooler(nn.Module):
    """Linear layer and tanh of the first token's state."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = skip_init(nn.Linear, config.hidden_size, config.hidden_size)

    def forward(self, states: Tensor) -> Tensor:
        """Return a vector for each sequence, (batch, hidden)."""
        return ops.tanh(self.dense(states[:, 0]))


class Encoder(nn.Module):
    """Embeddings and layers; a pooler where a head needs it."""

    def __init__(self, config: BertConfig, has_pooler: bool = False) -> None:
        super().__init__()
        self.embeddings = Embeddings(config)
        self.encoder = Layers(config)
        if has_pooler:
            self.pooler = Pooler(config)

    def forward(
        self, tokens: Tensor, mask: Tensor | None, types: Tensor | None
    ) -> Tensor:
        """Return the state of each token, (batch, length, hidden)."""
        if mask is not None:
            mask = (mask != 0).reshape(len(mask), 1, 1, -1)
        out: Tensor = self.encoder(self.embeddings(tokens, types), mask)
        return out


class Bert(nn.Module):
    """Encoder of the BERT family: a state for each token.

    Parameters
    ----------
    config : ModelConfig
        Of `model_type` "bert".

    Attributes
    ----------
    base : str
        First part of names, which checkpoints without a head lack.
    ignored : tuple of str
        Ends of names in checkpoints that are of heads for training, or no parameters.
    """

    base = "bert"
    ignored = (
        "embeddings.position_ids",
        "cls.predictions.bias",
        "cls.predictions.decoder.bias",
        "cls.predictions.decoder.weight",
        "cls.predictions.transform.LayerNorm.beta",
        "cls.predictions.transform.LayerNorm.bias",
        "cls.predictions.transform.LayerNorm.gamma",
        "cls.predictions.transform.LayerNorm.weight",
        "cls.predictions.transform.dense.bias",
        "cls.predictions.transform.dense.weight",
        "cls.seq_relationship.bias",
        "cls.seq_relationship.weight",
        "pooler.dense.bias",
        "pooler.dense.weight",
    )

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.settings = config.settings
        self.bert = Encoder(BertConfig.of(config))

    def forward(
        self, tokens: Tensor, mask: Tensor | None = None, types: Tensor | None = None
    ) -> Tensor:
        """Return the state of each token.

        Parameters
        ----------
        tokens : Tensor, int64, shape (batch, length)
        mask : Tensor or None, bool or int64, shape (batch, length)
            False or 0 for padding, which no token sees.
        types : Tensor or None, int64, shape (batch, length)
            0 for tokens of the first text, 1 for those of the second; None is 0.

        Returns
        -------
        Tensor, shape (batch, length, hidden_size)

        Raises
        ------
        ShapeError
            If there are more tokens than the model has positions for.
        """
        out: Tensor = self.bert(tokens, mask, types)
        return out


class BertClassifier(nn.Module):
    """BERT with a head for sequences: classes, or the score of a reranker.

    Parameters
    ----------
    config : ModelConfig
        Of `model_type` "bert".
    """

    ignored = ("embeddings.position_ids",)

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.settings = config.settings
        sizes = BertConfig.of(config)
        self.bert = Encoder(sizes, has_pooler=True)
        self.classifier = skip_init(nn.Linear, sizes.hidden_size, sizes.num_labels)

    def forward(
        self, tokens: Tensor, mask: Tensor | None = None, types: Tensor | None = None
    ) -> Tensor:
        """Return logits of classes, (batch, num_labels); arguments as of `Bert`."""
        out: Tensor = self.classifier(self.bert.pooler(self.bert(tokens, mask, types)))
        return out


class Roberta(nn.Module):
    """Encoder of the RoBERTa family: a state for each token.

    Parameters
    ----------
    config : ModelConfig
        Of `model_type` "roberta" or "xlm-roberta".
    """

    base = "roberta"
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
        self.roberta = Encoder(BertConfig.of(config))

    def forward(
        self, tokens: Tensor, mask: Tensor | None = None, types: Tensor | None = None
    ) -> Tensor:
        """Return the state of each token; as of `Bert.forward`."""
        out: Tensor = self.roberta(tokens, mask, types)
        return out


class ClassificationHead(nn.Module):
    """Two linear layers on the first token's state."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.dense = skip_init(nn.Linear, width, width)
        self.out_proj = skip_init(nn.Linear, width, count)

    def forward(self, states: Tensor) -> Tensor:
        """Return logits of classes, (batch, count)."""
        out: Tensor = self.out_proj(ops.tanh(self.dense(states[:, 0])))
        return out


class RobertaClassifier(nn.Module):
    """RoBERTa with a head for sequences: classes, or the score of a reranker.

    Parameters
    ----------
    config : ModelConfig
        Of `model_type` "roberta" or "xlm-roberta".
    """

    ignored = ("embeddings.position_ids",)

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.settings = config.settings
        sizes = BertConfig.of(config)
        self.roberta = Encoder(sizes)
        self.classifier = ClassificationHead(sizes.hidden_size, sizes.num_labels)

    def forward(
        self, tokens: Tensor, mask: Tensor | None = None, types: Tensor | None = None
    ) -> Tensor:
        """Return logits of classes, (batch, num_labels); arguments as of `Bert`."""
        out: Tensor = self.classifier(self.roberta(tokens, mask, types))
        return out
