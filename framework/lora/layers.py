"""Layers that add a low-rank product to what a frozen layer returns."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .. import nn, ops
from ..autograd.engine import no_grad
from ..base.dtype import DType, float32
from ..models.gpt2 import Conv1D
from ..nn import functional, init
from ..tensor.factories import zeros
from ..tensor.quantized import QuantizedTensor, quantize
from ..tensor.tensor import Tensor

LINEAR = (nn.Linear, nn.QLinear, Conv1D)
"""Layers that become `LoRALinear`; those derived from them may use their weight."""

EMBEDDING = (nn.Embedding, nn.QEmbedding)
"""Layers that become `LoRAEmbedding`."""

QUANTIZED = (nn.QLinear, nn.QGroupedLinear, nn.QEmbedding)


class Settings(NamedTuple):
    """What adapters of a model have in common.

    Attributes
    ----------
    rank : int
    alpha : float
    dropout : float
        Probability that an element of a linear layer's input is 0 while training.
    rslora : bool
        Whether the product is scaled by alpha / sqrt(rank), not alpha / rank.
    """

    rank: int
    alpha: float
    dropout: float
    rslora: bool

    @property
    def scale(self) -> float:
        """What the product of the two factors is multiplied with."""
        return self.alpha / (math.sqrt(self.rank) if self.rslora else self.rank)


class _Factor(nn.Linear):
    """One of the two factors; its own type keeps it from being quantized."""


class LoRALayer(nn.Module):
    """A frozen layer, whose weight counts as W + scale * B A.

    Parameters
    ----------
    base_layer : Module
    settings : Settings

    Attributes
    ----------
    merged : bool
        Whether the weight of `base_layer` holds the product already.
    """

    base_layer: Any

    def __init__(self, base_layer: nn.Module, settings: Settings) -> None:
        super().__init__()
        self.base_layer = base_layer
        self.settings = settings
        self.merged = False
        self._blocks: QuantizedTensor | None = None

    @property
    def weight(self) -> Tensor | QuantizedTensor:
        """The weight of the frozen layer."""
        found: Tensor | QuantizedTensor = self.base_layer.weight
        return found

    @property
    def bias(self) -> Tensor | None:
        """The bias of the frozen layer."""
        found: Tensor | None = getattr(self.base_layer, "bias", None)
        return found

    def factors(self) -> dict[str, Tensor]:
        """Return the two factors, by their names in files."""
        raise NotImplementedError

    def product(self) -> Tensor:
        """Return scale * B A in the shape of the frozen weight, without a gradient."""
        raise NotImplementedError

    def merge(self) -> None:
        """Add the product to the frozen weight; a quantized one is quantized anew."""
        weight = self.weight
        with no_grad():
            if isinstance(weight, QuantizedTensor):
                whole = weight.dequantize(float32) + self.product().to(float32)
                made = quantize(whole, weight.format)._replace(dtype=weight.dtype)
                self._blocks, self.base_layer.weight = weight, made.to(weight.device)
            else:
                weight.copy_(weight + self.product())
        self.merged = True

    def unmerge(self) -> None:
        """Take the product out of the frozen weight."""
        with no_grad():
            if self._blocks is not None:
                self.base_layer.weight = self._blocks.to(self.weight.device)
                self._blocks = None
            else:
                weight = self.base_layer.weight
                weight.copy_(weight - self.product())
        self.merged = False

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        rank, alpha, dropout, rslora = self.settings
        text = f"rank={rank}, alpha={alpha}"
        text += f", dropout={dropout}" if dropout else ""
        return text + (", rslora=True" if rslora else "")


class LoRALinear(LoRALayer):
    """x W^T + b + scale * (x A^T) B^T, where only A and B are trained.

    Parameters
    ----------
    base_layer : Linear, QLinear or Conv1D
        Its parameters stay as they are.
    settings : Settings

    Attributes
    ----------
    lora_A : Linear, weight (rank, in_features)
        Drawn from U(-k, k) with k = 1 / sqrt(in_features).
    lora_B : Linear, weight (out_features, rank)
        Zeros, so that the layer starts as the frozen one.

    Notes
    -----
    Products are of the dtype of the input, whatever that of A and B.
    """

    def __init__(self, base_layer: nn.Module, settings: Settings) -> None:
        super().__init__(base_layer, settings)
        weight = self.weight
        rows, columns = weight.shape
        if isinstance(base_layer, Conv1D):
            rows, columns = columns, rows
        place, dtype = weight.device, adapter_dtype(weight.dtype)
        self.in_features, self.out_features = columns, rows
        self.lora_dropout = nn.Dropout(settings.dropout) if settings.dropout else None
        self.lora_A = _Factor(columns, settings.rank, False, place, dtype)
        self.lora_B = _Factor(settings.rank, rows, False, place, dtype)
        init.zeros_(self.lora_B.weight)
        self.train(base_layer.training)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result.

        Parameters
        ----------
        x : Tensor, shape (..., in_features)

        Returns
        -------
        Tensor, shape (..., out_features)
        """
        out: Tensor = self.base_layer(x)
        if self.merged:
            return out
        if self.lora_dropout is not None:
            x = self.lora_dropout(x)
        # The factors are small: they are cast, and the scale is applied between them.
        inner = ops.linear(x, self.lora_A.weight.to(x.dtype)) * self.settings.scale
        return out + ops.linear(inner, self.lora_B.weight.to(inner.dtype))

    def factors(self) -> dict[str, Tensor]:
        """Return A and B, by their names in files."""
        return {
            "lora_A.weight": self.lora_A.weight,
            "lora_B.weight": self.lora_B.weight,
        }

    def product(self) -> Tensor:
        """Return scale * B A in the shape of the frozen weight, without a gradient."""
        with no_grad():
            made = self.lora_B.weight @ self.lora_A.weight * self.settings.scale
        return made.mT if isinstance(self.base_layer, Conv1D) else made


class LoRAEmbedding(LoRALayer):
    """Vectors of a frozen table plus scale * B times those of A.

    Parameters
    ----------
    base_layer : Embedding or QEmbedding
        Its vectors stay as they are.
    settings : Settings
        Its dropout has no effect.

    Attributes
    ----------
    lora_embedding_A : Parameter, shape (rank, num_embeddings)
        Zeros, so that the layer starts as the frozen one.
    lora_embedding_B : Parameter, shape (embedding_dim, rank)
        Drawn from a standard normal distribution.
    """

    def __init__(self, base_layer: nn.Module, settings: Settings) -> None:
        super().__init__(base_layer, settings)
        weight = self.weight
        rows, columns = weight.shape
        self.num_embeddings, self.embedding_dim = rows, columns
        place, dtype = weight.device, adapter_dtype(weight.dtype)
        first = zeros((settings.rank, rows), dtype=dtype, device=place)
        second = zeros((columns, settings.rank), dtype=dtype, device=place)
        self.lora_embedding_A = nn.Parameter(first)
        self.lora_embedding_B = nn.Parameter(init.normal_(second))
        self.train(base_layer.training)

    def forward(self, index: Tensor) -> Tensor:
        """Return the vectors of indices.

        Parameters
        ----------
        index : Tensor, any integer dtype

        Returns
        -------
        Tensor, shape (*index.shape, embedding_dim)
        """
        out: Tensor = self.base_layer(index)
        if self.merged:
            return out
        padding = getattr(self.base_layer, "padding_idx", None)
        inner = functional.embedding(index, self.lora_embedding_A.mT, padding)
        inner = inner.to(out.dtype) * self.settings.scale
        return out + ops.linear(inner, self.lora_embedding_B.to(out.dtype))

    def factors(self) -> dict[str, Tensor]:
        """Return A and B, by their names in files."""
        return {
            "lora_embedding_A": self.lora_embedding_A,
            "lora_embedding_B": self.lora_embedding_B,
        }

    def product(self) -> Tensor:
        """Return scale * (B A)^T, of the shape of the table, without a gradient."""
        with no_grad():
            made = self.lora_embedding_B @ self.lora_embedding_A
            return made.mT * self.settings.scale


def adapter_dtype(dtype: DType) -> DType:
    """Return the dtype of adapters of a weight: that of the weight, or float32."""
    return dtype if dtype.itemsize > float32.itemsize else float32
