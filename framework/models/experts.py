"""Mixture of experts (Shazeer et al. 2017, arXiv:1701.06538)."""

from __future__ import annotations

from .. import nn, ops
from ..base.dtype import float32
from ..nn import functional
from ..nn.utils import skip_init
from ..tensor.factories import empty, zeros
from ..tensor.tensor import Tensor


class Experts(nn.Module):
    """Gated feed-forward layers, of which each token passes through some.

    Parameters
    ----------
    count, width, inner : int
        Number of experts, sizes of tokens and of what is between.
    names : tuple of three str
        What a checkpoint calls the weights of the gate, of what it is multiplied with,
        and of the way back: `0.NAME.weight` is the first expert's.

    Attributes
    ----------
    gate, up : Parameter, shape (count, inner, width)
    down : Parameter, shape (count, width, inner)
    """

    def __init__(
        self, count: int, width: int, inner: int, names: tuple[str, str, str]
    ) -> None:
        super().__init__()
        self.gate = nn.Parameter(empty((count, inner, width)))
        self.up = nn.Parameter(empty((count, inner, width)))
        self.down = nn.Parameter(empty((count, width, inner)))
        self._names = dict(zip(("gate", "up", "down"), names, strict=True))

    def parts(self) -> dict[str, list[str]]:
        """Return the names in a checkpoint of what each parameter is stacked from."""
        return {
            name: [f"{i}.{stored}.weight" for i in range(self.gate.shape[0])]
            for name, stored in self._names.items()
        }

    def forward(self, x: Tensor, chosen: Tensor, shares: Tensor) -> Tensor:
        """Return the sum of the chosen experts' results.

        Parameters
        ----------
        x : Tensor, shape (tokens, width)
        chosen : Tensor, int64, shape (tokens, k)
            Experts of each token. The host does not read them.
        shares : Tensor, shape (tokens, k)
            What their results are multiplied with.

        Returns
        -------
        Tensor, shape of `x`

        Notes
        -----
        For few tokens the weights of the chosen experts are gathered, which reads and
        writes each of them; for more, every expert sees every token.
        """
        # A gathered weight is read, written, and read by the product.
        if 3 * chosen.numel() < self.gate.shape[0]:
            return self._gathered(x, chosen, shares)
        return self._whole(x, chosen, shares)

    def _gathered(self, x: Tensor, chosen: Tensor, shares: Tensor) -> Tensor:
        tokens, k = chosen.shape
        flat = ops.reshape(chosen, (-1,))
        gate, up, down = (
            ops.index_select(each, 0, flat) for each in (self.gate, self.up, self.down)
        )
        column = x.reshape(tokens, 1, -1, 1).expand(tokens, k, -1, 1)
        column = column.reshape(tokens * k, -1, 1)
        inner = functional.silu(gate @ column) * (up @ column)
        found = (down @ inner).reshape(tokens, k, -1)
        return ops.sum(found * ops.unsqueeze(shares, -1), 1)

    def _whole(self, x: Tensor, chosen: Tensor, shares: Tensor) -> Tensor:
        dense = zeros((len(x), self.gate.shape[0]), dtype=x.dtype, device=x.device)
        share = ops.unsqueeze(ops.scatter(dense, 1, chosen, shares).T, -1)
        gate, up = self.gate.transpose(1, 2), self.up.transpose(1, 2)
        inner = functional.silu(x @ gate) * (x @ up)
        # What is not chosen may be infinite, and must not become NaN.
        inner = ops.where(share > 0, inner * share, 0.0)
        return ops.sum(inner @ self.down.transpose(1, 2), 0)


class SparseMLP(nn.Module):
    """Experts, and the linear layer that chooses among them for each token.

    Parameters
    ----------
    count, width, inner, names
        As of `Experts`.
    k : int
        Number of experts of a token.
    normalized : bool
        Whether the shares of the chosen experts sum to 1.
    """

    def __init__(
        self,
        count: int,
        width: int,
        inner: int,
        k: int,
        normalized: bool,
        names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj"),
    ) -> None:
        super().__init__()
        self.k = k
        self.normalized = normalized
        self.gate = skip_init(nn.Linear, width, count, bias=False)
        self.experts = Experts(count, width, inner, names)

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum of the chosen experts' results, of the shape of `x`."""
        tokens = x.reshape(-1, x.shape[-1])
        chances = ops.softmax(self.gate(tokens), -1, dtype=float32)
        shares, chosen = ops.topk(chances, self.k, -1)
        if self.normalized:
            shares = shares / ops.sum(shares, -1, keepdim=True)
        out: Tensor = self.experts(tokens, chosen, shares.to(x.dtype))
        return out.reshape(x.shape)
