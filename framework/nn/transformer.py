"""Transformer layers: encoders, decoders, both together, and a pre-norm block."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from .. import ops
from ..base.dtype import DTypeLike
from ..base.errors import ShapeError
from ..base.validation import as_int
from ..tensor.factories import DeviceLike, full
from ..tensor.tensor import Tensor
from . import functional, init
from .attention import MultiheadAttention
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .norm import LayerNorm

Activation = str | Callable[[Tensor], Tensor]


def _activation(name: str, activation: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(
            f"{name}: activation is {activation!r}; it must be 'relu', 'gelu' or a"
            " function"
        )
    return functional.relu if activation == "relu" else functional.gelu


def _get_activation_fn(activation: str) -> Callable[[Tensor], Tensor]:
    """Return the function of a word, as layers of one's own look it up."""
    return _activation("_get_activation_fn", activation)


class _Layer(Module):
    """What layers of encoders and decoders share: self-attention and feed-forward."""

    linear1: Linear
    linear2: Linear
    dropout: Dropout
    activation: Callable[[Tensor], Tensor]
    self_attn: MultiheadAttention
    dropout1: Dropout

    def _sa_block(
        self, x: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool
    ) -> Tensor:
        out, _ = self.self_attn(
            x,
            x,
            x,
            key_padding_mask=padding,
            need_weights=False,
            attn_mask=mask,
            is_causal=is_causal,
        )
        return self.dropout1(out)  # type: ignore[no-any-return]

    def _feed_forward(self, x: Tensor) -> Tensor:
        x = self.dropout(self.activation(self.linear1(x)))
        return self.linear2(x)  # type: ignore[no-any-return]


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with a residual and a norm.

    Parameters
    ----------
    d_model : int
        Size of the vectors.
    nhead : int
        Heads of the attention; divides `d_model`.
    dim_feedforward : int, default 2048
        Size between the two layers of the feed-forward network.
    dropout : float, default 0.1
        Probability of weights, and of elements of both results, to be dropped.
    activation : {"relu", "gelu"} or callable, default relu
        Between the two layers of the feed-forward network.
    layer_norm_eps : float, default 1e-5
    batch_first : bool, default False
        Whether tensors are (batch, length, d_model), not (length, batch, d_model).
    norm_first : bool, default False
        Whether norms come before attention and network, not after the residuals.
    bias : bool, default True
        Whether linear layers and norms have biases.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
        Of the parameters.

    Raises
    ------
    RuntimeError
        If the activation is another word.
    ShapeError
        If the heads do not divide the vectors.

    Notes
    -----
    Source: Vaswani et al., arXiv:1706.03762; norms first: Xiong et al.,
    arXiv:2002.04745.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = functional.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        made: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, batch_first=batch_first, **made
        )
        self.linear1 = Linear(d_model, dim_feedforward, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **made)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, **made)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, **made)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = _activation("TransformerEncoderLayer", activation)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Return the layer's result in the shape of `src`.

        Parameters
        ----------
        src : Tensor, shape (length, batch, d_model)
            Or as `batch_first` says, or without a batch.
        src_mask, src_key_padding_mask, is_causal
            As `MultiheadAttention.forward` takes `attn_mask`, `key_padding_mask` and
            `is_causal`.
        """
        masks = src_mask, src_key_padding_mask, is_causal
        if self.norm_first:
            x = src + self._sa_block(self.norm1(src), *masks)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(src + self._sa_block(src, *masks))
        return self.norm2(x + self._ff_block(x))  # type: ignore[no-any-return]

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout2(self._feed_forward(x))  # type: ignore[no-any-return]


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to a memory, and a feed-forward network.

    Parameters
    ----------
    d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first
        As those of `TransformerEncoderLayer`.
    norm_first, bias, device, dtype
        As those of `TransformerEncoderLayer`.

    Raises
    ------
    RuntimeError
        If the activation is another word.
    ShapeError
        If the heads do not divide the vectors.

    Notes
    -----
    Source: Vaswani et al., arXiv:1706.03762.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = functional.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        made: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, batch_first=batch_first, **made
        )
        self.multihead_attn = MultiheadAttention(
            d_model, nhead, dropout, batch_first=batch_first, **made
        )
        self.linear1 = Linear(d_model, dim_feedforward, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **made)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, **made)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, **made)
        self.norm3 = LayerNorm(d_model, layer_norm_eps, **made)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = _activation("TransformerDecoderLayer", activation)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the layer's result in the shape of `tgt`.

        Parameters
        ----------
        tgt : Tensor, shape (length, batch, d_model)
            Or as `batch_first` says, or without a batch.
        memory : Tensor, shape (keys, batch, d_model)
            What an encoder returned.
        tgt_mask, tgt_key_padding_mask, tgt_is_causal
            Of the self-attention; see `MultiheadAttention.forward`.
        memory_mask, memory_key_padding_mask, memory_is_causal
            Of the attention to the memory.
        """
        own = tgt_mask, tgt_key_padding_mask, tgt_is_causal
        other = memory, memory_mask, memory_key_padding_mask, memory_is_causal
        if self.norm_first:
            x = tgt + self._sa_block(self.norm1(tgt), *own)
            x = x + self._mha_block(self.norm2(x), *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(tgt + self._sa_block(tgt, *own))
        x = self.norm2(x + self._mha_block(x, *other))
        return self.norm3(x + self._ff_block(x))  # type: ignore[no-any-return]

    def _mha_block(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None,
        padding: Tensor | None,
        is_causal: bool,
    ) -> Tensor:
        out, _ = self.multihead_attn(
            x,
            memory,
            memory,
            key_padding_mask=padding,
            need_weights=False,
            attn_mask=mask,
            is_causal=is_causal,
        )
        return self.dropout2(out)  # type: ignore[no-any-return]

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout3(self._feed_forward(x))  # type: ignore[no-any-return]


def _copies(layer: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])


class TransformerEncoder(Module):
    """Encoder layers one after another.

    Parameters
    ----------
    encoder_layer : TransformerEncoderLayer
        Each layer is a deep copy of it, parameters included.
    num_layers : int
    norm : Module, optional
        Applied to the last result.
    enable_nested_tensor, mask_check : bool, default True
        Taken and without effect: there are no nested tensors here.

    Notes
    -----
    At padded places results are what the layers compute there. In evaluation PyTorch
    returns zeros there where it uses nested tensors.
    """

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        num_layers = as_int("TransformerEncoder: num_layers", num_layers)
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Return the last layer's result in the shape of `src`.

        See `TransformerEncoderLayer.forward`; without a word about causality a mask is
        taken as it is.
        """
        for layer in self.layers:
            src = layer(
                src,
                src_mask=mask,
                src_key_padding_mask=src_key_padding_mask,
                is_causal=bool(is_causal),
            )
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """Decoder layers one after another.

    Parameters
    ----------
    decoder_layer : TransformerDecoderLayer
        Each layer is a deep copy of it, parameters included.
    num_layers : int
    norm : Module, optional
        Applied to the last result.
    """

    def __init__(
        self,
        decoder_layer: TransformerDecoderLayer,
        num_layers: int,
        norm: Module | None = None,
    ) -> None:
        super().__init__()
        num_layers = as_int("TransformerDecoder: num_layers", num_layers)
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the last layer's result in the shape of `tgt`.

        See `TransformerDecoderLayer.forward`; without a word about causality a mask is
        taken as it is.
        """
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder, and a decoder that attends to its result.

    Parameters
    ----------
    d_model : int, default 512
    nhead : int, default 8
    num_encoder_layers, num_decoder_layers : int, default 6
    dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias
        As those of `TransformerEncoderLayer`.
    custom_encoder, custom_decoder : Module, optional
        Instead of `TransformerEncoder` and `TransformerDecoder`.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
        Of the parameters.

    Notes
    -----
    Matrices are drawn as `init.xavier_uniform_` does. Source: Vaswani et al.,
    arXiv:1706.03762.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = functional.relu,
        custom_encoder: Any | None = None,
        custom_decoder: Any | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        made: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        sizes = d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps
        order = batch_first, norm_first
        if custom_encoder is None:
            layer = TransformerEncoderLayer(*sizes, *order, **made)
            norm = LayerNorm(d_model, layer_norm_eps, **made)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, norm)
        if custom_decoder is None:
            other = TransformerDecoderLayer(*sizes, *order, **made)
            norm = LayerNorm(d_model, layer_norm_eps, **made)
            custom_decoder = TransformerDecoder(other, num_decoder_layers, norm)
        self.encoder = custom_encoder
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the decoder's result in the shape of `tgt`.

        Parameters
        ----------
        src : Tensor, shape (keys, batch, d_model)
        tgt : Tensor, shape (length, batch, d_model)
            Both as `batch_first` says, or without a batch.
        src_mask, src_key_padding_mask, src_is_causal
            Of the encoder.
        tgt_mask, tgt_key_padding_mask, tgt_is_causal
            Of the decoder's self-attention.
        memory_mask, memory_key_padding_mask, memory_is_causal
            Of its attention to the memory.

        Raises
        ------
        ShapeError
            If batches differ, or the vectors are not `d_model` long.
        """
        batch = 0 if self.batch_first else 1
        batched = src.ndim == tgt.ndim == 3
        fits = src.ndim == tgt.ndim and src.ndim in (2, 3)
        fits = fits and src.shape[-1] == tgt.shape[-1] == self.d_model
        if not fits or (batched and src.shape[batch] != tgt.shape[batch]):
            raise ShapeError(
                f"Transformer: src is {tuple(src.shape)}, tgt {tuple(tgt.shape)};"
                f" both must have the same batch and vectors of {self.d_model}"
            )
        memory = self.encoder(
            src,
            mask=src_mask,
            src_key_padding_mask=src_key_padding_mask,
            is_causal=src_is_causal,
        )
        return self.decoder(  # type: ignore[no-any-return]
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: DeviceLike = None, dtype: DTypeLike | None = None
    ) -> Tensor:
        """Return (sz, sz): minus infinity right of the diagonal, 0 elsewhere."""
        return ops.triu(full((sz, sz), -math.inf, dtype=dtype, device=device), 1)


class TransformerBlock(Module):
    """Self-attention and a feed-forward network with norms before them.

    Parameters
    ----------
    d : int
        Size of the vectors.
    heads : int
        Heads of the attention; divides `d`.
    ff : int, optional
        Size between the two layers of the feed-forward network; 4 d by default.
    dropout : float, default 0
        Probability of weights, and of elements of both results, to be dropped.

    Raises
    ------
    ShapeError
        If the heads do not divide the vectors.

    Notes
    -----
    x = x + attention(norm1(x)), then x + linear2(gelu(linear1(norm2(x)))). PyTorch has
    no such layer. Source: Xiong et al., arXiv:2002.04745.

    Examples
    --------
    >>> nn.TransformerBlock(8, 2, 16)(fw.zeros((3, 5, 8))).shape
    torch.Size([3, 5, 8])
    """

    def __init__(
        self, d: int, heads: int, ff: int | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__()
        ff = 4 * d if ff is None else ff
        self.norm1 = LayerNorm(d)
        self.attention = MultiheadAttention(d, heads, dropout, batch_first=True)
        self.norm2 = LayerNorm(d)
        self.linear1 = Linear(d, ff)
        self.linear2 = Linear(ff, d)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Return the result in the shape of `x`, (batch, length, d) or (length, d)."""
        seen = self.attention(self.norm1(x), need_weights=False)[0]
        x = x + self.dropout(seen)
        hidden = functional.gelu(self.linear1(self.norm2(x)))
        return x + self.dropout(self.linear2(hidden))  # type: ignore[no-any-return]
