"""Multi-head attention."""

from __future__ import annotations

from typing import Any, cast

from ... import ops
from ...base.dtype import DTypeLike, bool_
from ...base.errors import ShapeError
from ...base.validation import as_int
from ...dispatch.replayable import replayable
from ...tensor.factories import DeviceLike, zeros
from ...tensor.tensor import Tensor
from .. import functional, init
from ..functional.multi_head_attention import check_inputs, score_mask
from ..linear import NonDynamicallyQuantizableLinear
from ..module import Module
from ..parameter import Parameter

__all__ = ["MultiheadAttention"]


@replayable
def _fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    in_weight: Tensor,
    in_bias: Tensor | None,
    out_weight: Tensor,
    out_bias: Tensor | None,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    heads: int,
    size: int,
    dropped: float,
    first: bool,
    is_causal: bool,
) -> Tensor:
    """Return the attention output of batches without weights, in their order.

    There are `heads` of so large a `size` in a row, after the batch if that is `first`.
    """
    given = query, key, value
    check_inputs(*given, in_weight.layout.shape[1], heads, 0 if first else 1)
    to_heads = (0, 2, 1, 3) if first else (1, 2, 0, 3)
    q, k, v = (
        x.reshape(*x.shape[:2], heads, size).permute(to_heads)
        for x in _projected(given, in_weight, in_bias)
    )
    scores = (*q.shape[:3], k.shape[2])
    mask = score_mask(attn_mask, key_padding_mask, scores, q)
    causal = is_causal and key_padding_mask is None and scores[2] == scores[3]
    seen = None if causal else mask
    out = ops.scaled_dot_product_attention(q, k, v, seen, dropped, causal)
    out = out.permute((0, 2, 1, 3) if first else (2, 0, 1, 3))
    out = out.reshape(*query.shape[:2], heads * size)
    return ops.linear(out, out_weight, out_bias)


def _projected(
    given: tuple[Tensor, Tensor, Tensor], whole: Tensor, bias: Tensor | None
) -> list[Tensor]:
    """Return queries, keys and values; one product for all of one tensor."""
    if given[0] is given[1] is given[2]:
        return list(ops.chunk(ops.linear(given[0], whole, bias), 3, -1))
    biases = [None] * 3 if bias is None else list(ops.chunk(bias, 3))
    maps = zip(given, ops.chunk(whole, 3), biases)
    return [ops.linear(x, weight, each) for x, weight, each in maps]


class MultiheadAttention(Module):
    """Attention in several subspaces at once, with learned maps into and out of them.

    Parameters
    ----------
    embed_dim : int
        Size of the queries and of the result, a multiple of `num_heads`.
    num_heads : int
    dropout : float, default 0
        Probability of a weight to be dropped in training.
    bias : bool, default True
        Whether the maps have biases.
    add_bias_kv : bool, default False
        Whether there is a learned key, and its value, beside those given.
    add_zero_attn : bool, default False
        Whether there is a key of zeros, and its value, beside those given.
    kdim, vdim : int, optional
        Sizes of keys and of values; `embed_dim` by default.
    batch_first : bool, default False
        Whether tensors are (batch, length, embed_dim), not (length, batch, embed_dim).
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
        Of the parameters.

    Attributes
    ----------
    in_proj_weight : Parameter, shape (3 * embed_dim, embed_dim), or None
        Maps to queries, keys and values, drawn as `init.xavier_uniform_` does.
    q_proj_weight, k_proj_weight, v_proj_weight : Parameter or None
        The same, each for itself, if `kdim` or `vdim` is not `embed_dim`.
    in_proj_bias : Parameter, shape (3 * embed_dim,), or None
        0 at first.
    bias_k, bias_v : Parameter, shape (1, 1, embed_dim), or None
        Key and value of `add_bias_kv`, drawn as `init.xavier_normal_` does.
    out_proj : Linear
        The map out of the subspaces, which is read and not called; its bias is 0 at
        first.

    Raises
    ------
    ShapeError
        If the heads do not divide the vectors.

    Notes
    -----
    Without weights (`need_weights=False`) the scores are not stored; see
    `ops.scaled_dot_product_attention`. Two things go beyond PyTorch: `key` and `value`
    may be left out, and so may the causal mask that `is_causal` speaks of. Source:
    Vaswani et al., arXiv:1706.03762.
    """

    in_proj_weight: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        size = as_int("MultiheadAttention: embed_dim", embed_dim)
        num_heads = as_int("MultiheadAttention: num_heads", num_heads)
        if num_heads < 1 or size < 1 or size % num_heads:
            raise ShapeError(
                f"MultiheadAttention: embed_dim is {size}, num_heads {num_heads};"
                " the heads must divide embed_dim"
            )
        self.embed_dim, self.num_heads, self.head_dim = (
            size,
            num_heads,
            size // num_heads,
        )
        self.kdim = size if kdim is None else as_int("MultiheadAttention: kdim", kdim)
        self.vdim = size if vdim is None else as_int("MultiheadAttention: vdim", vdim)
        self.dropout = dropout
        self.batch_first = batch_first
        self.add_zero_attn = add_zero_attn
        self._qkv_same_embed_dim = self.kdim == size and self.vdim == size
        shapes: dict[str, tuple[int, ...] | None] = {
            "in_proj_weight": (3 * size, size),
            "q_proj_weight": (size, size),
            "k_proj_weight": (size, self.kdim),
            "v_proj_weight": (size, self.vdim),
            "in_proj_bias": (3 * size,) if bias else None,
            "bias_k": (1, 1, size) if add_bias_kv else None,
            "bias_v": (1, 1, size) if add_bias_kv else None,
        }
        left_out = list(shapes)[1:4] if self._qkv_same_embed_dim else list(shapes)[:1]
        shapes |= dict.fromkeys(left_out)
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        for name, shape in shapes.items():
            parameter = None if shape is None else Parameter(zeros(shape, **made))
            if parameter is None and name in ("bias_k", "bias_v"):
                setattr(self, name, None)  # as PyTorch's, not registered
            else:
                self.register_parameter(name, parameter)
        self.out_proj = NonDynamicallyQuantizableLinear(size, size, bias, **made)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        """Draw the maps into the subspaces anew."""
        for name in ("in_proj", "q_proj", "k_proj", "v_proj"):
            weight = getattr(self, f"{name}_weight")
            if weight is not None:
                init.xavier_uniform_(weight)
        for vector in (self.in_proj_bias, self.out_proj.bias):
            if vector is not None:
                init.zeros_(vector)
        for vector in (self.bias_k, self.bias_v):
            if vector is not None:
                init.xavier_normal_(vector)

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
        """Return the attention output, and the weights.

        Parameters
        ----------
        query : Tensor, shape (length, batch, embed_dim), float
            Or as `batch_first` says, or without a batch.
        key : Tensor, shape (keys, batch, kdim), default `query`
        value : Tensor, shape (keys, batch, vdim), default `key`
        key_padding_mask : Tensor, shape (batch, keys), or None
            True where a key is not seen, or floats to add to its scores.
        need_weights : bool, default True
            Whether the weights are wanted; False takes less memory and time.
        attn_mask : Tensor, shape (queries, keys) or (batch * heads, queries, keys)
            The same for each query. Note that true here hides a key, unlike in
            `ops.scaled_dot_product_attention`.
        average_attn_weights : bool, default True
            Whether the weights are averaged over heads.
        is_causal : bool, default False
            Says that `attn_mask` is the causal one, which may then be left out.

        Returns
        -------
        tuple of Tensor
            The result in the shape of `query`, and weights (batch, queries, keys),
            with heads before the queries if not averaged, or None.

        Raises
        ------
        ShapeError
            If shapes do not fit.
        DTypeError
            If a mask is neither bool nor float.
        """
        key = query if key is None else key
        value = key if value is None else value
        if is_causal and attn_mask is None:
            attn_mask = self._future(query, key)
        plain = query.ndim == 3 and not need_weights and self._qkv_same_embed_dim
        if plain and self.bias_k is None and not self.add_zero_attn:
            out = _fused(
                query,
                key,
                value,
                cast(Parameter, self.in_proj_weight),
                self.in_proj_bias,
                self.out_proj.weight,
                self._out_bias(),
                key_padding_mask,
                attn_mask,
                self.num_heads,
                self.head_dim,
                self.dropout if self.training else 0.0,
                self.batch_first,
                is_causal,
            )
            return out, None
        turned = self.batch_first and query.ndim == 3
        if turned:
            same = query is key is value
            query = query.transpose(0, 1)
            # One tensor for all three stays one.
            key, value = (
                query if same else each.transpose(0, 1) for each in (key, value)
            )
        out, weights = functional.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self._out_bias(),
            self.training,
            key_padding_mask,
            need_weights,
            attn_mask,
            not self._qkv_same_embed_dim,
            self.q_proj_weight,
            self.k_proj_weight,
            self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (out.transpose(0, 1) if turned else out), weights

    def _out_bias(self) -> Tensor | None:
        """Return what the map out of the subspaces adds."""
        return self.out_proj.bias

    def _future(self, query: Tensor, key: Tensor) -> Tensor:
        """Return the mask that is true for keys after a query."""
        lengths = 1 if self.batch_first and query.ndim == 3 else 0
        queries, keys = query.shape[lengths], key.shape[lengths]
        shape = (queries, keys)
        return ops.band_like(query.detach(), shape, *shape, 1, keys, bool_)
