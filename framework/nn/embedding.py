"""Embedding layers."""

from __future__ import annotations

from .. import ops
from ..autograd.engine import no_grad
from ..base.errors import ShapeError
from ..base.validation import as_int
from ..tensor.factories import zeros
from ..tensor.tensor import Tensor
from . import init
from .module import Module
from .parameter import Parameter


class Embedding(Module):
    """Embedding table: a vector for each index below `num_embeddings`.

    Parameters
    ----------
    num_embeddings : int
        Vectors.
    embedding_dim : int
        Their size.
    padding_idx : int or None
        A vector that starts as 0 and gets no gradient; negative counts from the end.

    Attributes
    ----------
    weight : Parameter, shape (num_embeddings, embedding_dim)
        Drawn from a standard normal distribution.

    Raises
    ------
    ShapeError
        If there is no vector `padding_idx`.

    Examples
    --------
    >>> nn.Embedding(10, 3)(fw.tensor([[1, 2, 4, 5]])).shape
    (1, 4, 3)
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None
    ) -> None:
        num_embeddings = as_int("Embedding: num_embeddings", num_embeddings)
        embedding_dim = as_int("Embedding: embedding_dim", embedding_dim)
        if padding_idx is not None:
            padding_idx = as_int("Embedding: padding_idx", padding_idx)
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ShapeError(
                    f"Embedding: padding_idx is {padding_idx}; it must be from"
                    f" {-num_embeddings} to {num_embeddings - 1}"
                )
            padding_idx %= num_embeddings
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.weight = Parameter(zeros((num_embeddings, embedding_dim)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the vectors anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    def forward(self, index: Tensor) -> Tensor:
        """Return the vectors of an integer tensor; see `ops.embedding`."""
        return ops.embedding(index, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        padded = self.padding_idx is not None
        return f"{text}, padding_idx={self.padding_idx}" if padded else text
