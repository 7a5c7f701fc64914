"""Distances between vectors as layers."""

from __future__ import annotations

from .. import ops
from ..tensor.tensor import Tensor
from . import functional
from .module import Module


class CosineSimilarity(Module):
    """Cosines of the angles between vectors; see `ops.cosine_similarity`.

    Parameters
    ----------
    dim : int, default 1
        Dimension along which the vectors lie.
    eps : float, default 1e-8
        Least norm to divide by.
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return the cosines of vectors of shapes that broadcast."""
        return ops.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """Norms of differences along the last dimension.

    Parameters
    ----------
    p : float, default 2
        Which norm.
    eps : float, default 1e-6
        Added to the differences.
    keepdim : bool, default False
    """

    def __init__(
        self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
    ) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return the distances of vectors of shapes that broadcast."""
        return functional.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
