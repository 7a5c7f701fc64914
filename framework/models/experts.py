"""Mixture of experts (Shazeer et al. 2017, arXiv:1701.06538)."""

from __future__ import annotations

from .. import nn, ops
from ..autograd.grad_mode import is_grad_enabled
from ..base.dtype import float32, int32, int64
from ..nn import functional, module_hooks
from ..nn.utils import skip_init
from ..ops.indexing.segment_sum import argsort_keys
from ..ops.quantized.grouped import gated_quantized_gather_mm
from ..ops.quantized.product import WEIGHTS
from ..tensor.quantized import QuantizedTensor
from ..tensor.sequences import arange
from ..tensor.tensor import Tensor

MOST_GATHERED = 256
"""Rows of which each has its expert's weights read at most."""

QUANTIZED_SHARE = 4
"""How many more rows than experts are gathered of quantized weights: those of all of
them are decoded to memory otherwise, written and read again."""

Layer = nn.GroupedLinear | nn.QGroupedLinear
"""What an adapter may stand for."""


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
    gate, up : GroupedLinear, or QGroupedLinear, from `width` to `inner`
    down : GroupedLinear, or QGroupedLinear, from `inner` to `width`
    """

    gate: Layer
    up: Layer
    down: Layer

    def __init__(
        self, count: int, width: int, inner: int, names: tuple[str, str, str]
    ) -> None:
        super().__init__()
        self.count = count
        self.gate = skip_init(nn.GroupedLinear, count, width, inner)
        self.up = skip_init(nn.GroupedLinear, count, width, inner)
        self.down = skip_init(nn.GroupedLinear, count, inner, width)
        self._names = dict(zip(("gate", "up", "down"), names, strict=True))

    def parts(self) -> dict[str, list[str]]:
        """Return the names in a checkpoint of what each parameter is stacked from."""
        return {
            f"{name}.weight": [f"{i}.{stored}.weight" for i in range(self.count)]
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
        Of few tokens, without gradients, each reads the weights of its experts. More
        are sorted by expert, and one product has a matrix for each group of them.
        """
        tokens, k = chosen.shape
        numbers = ops.reshape(chosen, (-1,)).to(int32)
        if self._gathers(x, tokens * k):
            inner = _gated(x, self.gate, self.up, numbers)
            found = self.down(inner, numbers=numbers).reshape(tokens, k, -1)
            # One kernel, of so few.
            return ops.squeeze(ops.unsqueeze(shares, 1) @ found, 1)
        found = self._sorted(x, numbers, k).reshape(tokens, k, -1)
        return ops.sum(found * ops.unsqueeze(shares, -1), 1)

    def _gathers(self, x: Tensor, rows: int) -> bool:
        """Return whether weights are read for each row, by the number of its expert."""
        if is_grad_enabled() and any(
            each.needs_grad for each in (x, *self.parameters())
        ):
            return False
        layers = (self.gate, self.up, self.down)
        kinds = {isinstance(each.weight, QuantizedTensor) for each in layers}
        quantized = True in kinds
        if quantized and (False in kinds or x.dtype not in WEIGHTS):
            return False
        most = self.count * (QUANTIZED_SHARE if quantized else 1)
        return 0 < rows <= min(most, MOST_GATHERED)

    def _sorted(self, x: Tensor, numbers: Tensor, k: int) -> Tensor:
        """Return what each of the chosen experts makes, (tokens * k, width)."""
        order = argsort_keys(numbers)
        experts = arange(self.count, dtype=int32, device=x.device)
        precede = numbers <= ops.unsqueeze(experts, -1)
        offs = ops.sum(precede, -1, dtype=int32)
        rows = arange(len(numbers), dtype=int32, device=x.device)
        places = ops.scatter(rows, 0, order.to(int64), rows)
        grouped = ops.index_select(x, 0, order // k)
        inner = functional.silu(self.gate(grouped, offs=offs))
        inner = inner * self.up(grouped, offs=offs)
        return ops.index_select(self.down(inner, offs=offs), 0, places)


def _gated(x: Tensor, gate: Layer, up: Layer, numbers: Tensor) -> Tensor:
    """Return silu(gate(x)) * up(x), in one kernel where both layers allow."""
    if isinstance(gate, nn.QGroupedLinear) and isinstance(up, nn.QGroupedLinear):
        hooked = module_hooks.has_any(gate) or module_hooks.has_any(up)
        if gate.format == up.format and not hooked:
            blocks = gate.weight.blocks, up.weight.blocks
            return gated_quantized_gather_mm(x, *blocks, numbers, up.format, "silu")
    inner: Tensor = functional.silu(gate(x, numbers=numbers))
    inner = inner * up(x, numbers=numbers)
    return inner


class Router(nn.Linear):
    """What chooses experts; its own type keeps it from being quantized.

    Weights of few bits would choose others.
    """


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
        self.gate = skip_init(Router, width, count, bias=False)
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
