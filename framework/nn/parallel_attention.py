"""Multi-head attention whose heads are divided among the ranks of a group."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from ..autograd.grad_mode import no_grad
from ..base.errors import ShapeError
from ..tensor.tensor import Tensor
from .attention import MultiheadAttention
from .data_parallel import checked_group
from .divided import TensorShard
from .module import Module
from .parallel_module import (
    Gathered,
    ParallelModule,
    Shared,
    Summed,
    check_divisible,
    own_part,
    shard_of,
)

if TYPE_CHECKING:
    from ..communication.group import Group

__all__ = ["ParallelMultiheadAttention"]

_SETTINGS = (
    "embed_dim",
    "num_heads",
    "head_dim",
    "kdim",
    "vdim",
    "dropout",
    "batch_first",
    "add_zero_attn",
    "_qkv_same_embed_dim",
)

_PARAMETERS = (
    "in_proj_weight",
    "q_proj_weight",
    "k_proj_weight",
    "v_proj_weight",
    "in_proj_bias",
    "bias_k",
    "bias_v",
)


class ParallelMultiheadAttention(MultiheadAttention, ParallelModule):
    """Multi-head attention of which each rank computes some of the heads.

    All ranks call it with the same tensors, and get the same results. Gradients of the
    inputs are sums over ranks.

    Parameters
    ----------
    attention : MultiheadAttention
        The whole module; that of rank 0 counts.
    group : Group, optional
        By default that of all processes; its size divides the number of heads.

    Attributes
    ----------
    num_heads : int
        Of this rank.
    in_proj_weight, in_proj_bias : Parameter or None
        This rank's rows of the maps to queries, to keys and to values.
    out_proj : Linear
        With this rank's columns of the weight, and the whole bias.

    Raises
    ------
    ShapeError
        If the ranks do not divide the heads.

    Notes
    -----
    Names in a state are those of `MultiheadAttention`; see `whole_state_dict`. With
    `dropout` each rank draws for its own heads: ranks of one seed draw alike. Source:
    Shoeybi et al., arXiv:1909.08053.
    """

    def __init__(
        self, attention: MultiheadAttention, group: Group | None = None
    ) -> None:
        Module.__init__(self)
        group = checked_group("ParallelMultiheadAttention", group)
        check_heads("ParallelMultiheadAttention", attention, group)
        for name in _SETTINGS:
            setattr(self, name, getattr(attention, name))
        self.num_heads = attention.num_heads // group.size
        for name in _PARAMETERS:
            each = getattr(attention, name)
            if each is None and name not in ("bias_k", "bias_v"):
                self.register_parameter(name, None)
            else:
                setattr(self, name, each)
        self.out_proj = deepcopy(attention.out_proj)
        self.divide(group, self._shards_of(group))
        self.train(attention.training)

    def _shards_of(self, group: Group) -> dict[str, TensorShard]:
        """Return the parts of all parameters but the last bias, which stays whole."""
        size = self.embed_dim
        found = {"out_proj.weight": shard_of((size, size), 1, (size,), group)}
        for name in _PARAMETERS:
            each = getattr(self, name)
            if each is not None:
                shape = tuple(each.shape)
                dim = 2 if len(shape) == 3 else 0
                sizes = (size,) * (shape[dim] // size)
                found[name] = shard_of(shape, dim, sizes, group)
        return found

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the attention output, and the weights, of all heads.

        Parameters
        ----------
        query, key, value, key_padding_mask, need_weights : object
        attn_mask, average_attn_weights, is_causal : object
            As of `MultiheadAttention.forward`; the same on all ranks.
        """
        self.mark()
        key = query if key is None else key
        value = key if value is None else value
        group = self.group
        if group.size > 1:
            # One tensor for all three stays one.
            shared = {
                id(each): Shared.apply(each, group) for each in (query, key, value)
            }
            query, key, value = (shared[id(each)] for each in (query, key, value))
            attn_mask = self._own_mask(attn_mask)
        out, weights = super().forward(
            query,
            key,
            value,
            key_padding_mask,
            need_weights,
            attn_mask,
            average_attn_weights,
            is_causal,
        )
        if group.size == 1:
            return out, weights
        out = Summed.apply(out, group)
        bias = self.out_proj.bias
        out = out if bias is None else out + bias
        if weights is None:
            return out, None
        if average_attn_weights:
            return out, Summed.apply(weights, group) / group.size
        return out, Gathered.apply(weights, group, -3)

    def _out_bias(self) -> Tensor | None:
        return self.out_proj.bias if self.group.size == 1 else None

    def _own_mask(self, mask: Tensor | None) -> Tensor | None:
        """Return the part of a mask that has one for each head."""
        if mask is None or mask.ndim != 3:
            return mask
        heads = self.num_heads * self.group.size
        if mask.shape[0] % heads:
            raise ShapeError(
                f"ParallelMultiheadAttention: attn_mask is {tuple(mask.shape)}; its"
                f" first dimension must be a multiple of the {heads} heads"
            )
        every = mask.reshape(-1, heads, *mask.shape[1:])
        return own_part(every, self.group, 1).reshape(-1, *mask.shape[1:])

    def whole(self) -> MultiheadAttention:
        """Return the module with the weights of all ranks; all of them call it."""
        made = MultiheadAttention(
            self.embed_dim,
            self.num_heads * self.group.size,
            self.dropout,
            self.out_proj.bias is not None,
            self.bias_k is not None,
            self.add_zero_attn,
            self.kdim,
            self.vdim,
            self.batch_first,
            self.out_proj.weight.device,
            self.out_proj.weight.dtype,
        )
        state = {key: each.detach() for key, each in self.state_dict().items()}
        state |= self.whole_parameters()
        with no_grad():
            for name, each in made.named_parameters():
                each.copy_(state[name])
        return made.train(self.training)


def check_heads(where: str, attention: MultiheadAttention, group: Group) -> None:
    """Raise `ShapeError` if ranks do not divide the heads."""
    check_divisible(where, "num_heads", attention.num_heads, group)
