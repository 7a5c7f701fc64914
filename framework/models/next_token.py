"""The loss of a language model, without the logits of all tokens at once."""

from __future__ import annotations

from typing import Any

from vkbackend.errors import ArgumentError

from .. import nn, ops
from ..base.errors import ShapeError
from ..nn import functional
from ..tensor.factories import full_like
from ..tensor.tensor import Tensor
from .packing import IGNORED, Documents


def loss(
    model: nn.Module,
    tokens: Tensor,
    targets: Tensor | None = None,
    *,
    documents: Tensor | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    chunk: int | None = None,
) -> Tensor:
    """Return how badly a language model foretells the token after each.

    Parameters
    ----------
    model : nn.Module
        Of a family of `fw.models` that has a head "lm_head".
    tokens : Tensor, int64, shape (batch, length)
    targets : Tensor, int64, shape (batch, length), or None
        The token after each, or -100 for none; None takes it from `tokens`, within each
        document.
    documents : Tensor, an integer dtype, shape (batch, length), or None
        The document of each token, as of `pack`: tokens see those of their own.
    reduction : str, default "mean"
        "mean" or "sum" over the targets, or "none" for each.
    label_smoothing : float, default 0
    chunk : int or None
        Tokens whose logits are computed at a time; see `linear_cross_entropy`.

    Returns
    -------
    Tensor
        A scalar, or (batch, length) with "none".

    Raises
    ------
    ArgumentError
        If the model has no head.
    ShapeError
        If shapes do not fit.

    Notes
    -----
    Logits are whole where a model caps them, and where its head has an adapter.

    Examples
    --------
    >>> packed = fw.models.pack([[1, 2, 3], [4, 5]], 8)
    >>> sizes = {"vocab_size": 8, "hidden_size": 4, "intermediate_size": 8,
    ...          "num_hidden_layers": 1, "num_attention_heads": 2}
    >>> model = fw.models.Llama(fw.models.ModelConfig(sizes))
    >>> fw.models.loss(model, packed.tokens, packed.targets,
    ...                documents=packed.documents).shape
    torch.Size([])
    """
    head: Any = getattr(model, "lm_head", None)
    if head is None:
        raise ArgumentError(
            f"models.loss: the {type(model).__name__} has no `lm_head`; it must be a"
            " language model"
        )
    if tokens.ndim != 2:
        raise ShapeError(
            f"models.loss: tokens are {tuple(tokens.shape)}; they must be (batch,"
            " length)"
        )
    for name, each in (("targets", targets), ("documents", documents)):
        if each is not None and each.shape != tokens.shape:
            raise ShapeError(
                f"models.loss: {name} are {tuple(each.shape)}; tokens are"
                f" {tuple(tokens.shape)}"
            )
    if targets is None:
        targets = _next(tokens, documents)
    apart = None if documents is None else Documents(documents)
    flat = targets.reshape(-1)
    options: dict[str, Any] = {
        "reduction": reduction,
        "ignore_index": IGNORED,
        "label_smoothing": label_smoothing,
    }
    if _is_plain(model, head):
        decoder = model.get_submodule(getattr(model, "base", "model"))
        states = decoder(tokens, apart)
        found = functional.linear_cross_entropy(
            states.reshape(-1, states.shape[-1]),
            head.weight,
            flat,
            linear_bias=head.bias,
            chunk=chunk,
            **options,
        )
    else:
        logits = model(tokens, apart)
        rows = logits.reshape(-1, logits.shape[-1])
        found = functional.cross_entropy(rows, flat, **options)
    return found.reshape(tokens.shape) if reduction == "none" else found


def _is_plain(model: nn.Module, head: nn.Module) -> bool:
    """Return whether the logits are what the head's weight gives of the states."""
    config: Any = getattr(model, "config", None)
    capped = getattr(config, "final_logit_softcapping", None) is not None
    return type(head) in (nn.Linear, nn.QLinear) and not capped


def _next(tokens: Tensor, documents: Tensor | None) -> Tensor:
    """Return the token after each, -100 at the end of a document."""
    after = tokens[:, 1:]
    if documents is not None:
        same = (documents[:, 1:] == documents[:, :-1]) & (documents[:, 1:] >= 0)
        after = ops.where(same, after, IGNORED)
    last = full_like(tokens[:, :1], IGNORED)
    return ops.cat([after, last], 1)
