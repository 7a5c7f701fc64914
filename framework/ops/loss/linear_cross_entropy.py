"""Cross entropy of a linear map's logits, of which a chunk of rows exists at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...autograd.differentiate import grad as gradients_of
from ...autograd.function import Function
from ...autograd.grad_mode import is_grad_enabled
from ...base.dtype import DType, float16
from ...kernels.shader_types import statistic_dtype
from ..elementwise.cast import cast
from ..elementwise.compare import ne
from ..elementwise.order import after
from ..matmul.blas import linear
from ..matmul.matmul import matmul
from ..movement.concat import cat
from ..quantized.product import elements
from ..reduce.sum import sum
from ..source import fill_like
from ..view import transpose
from .cross_entropy import _cross_entropy_rows, cross_entropy
from .cross_entropy_gradient import cross_entropy_dlogits
from .nll import labels_in_words

if TYPE_CHECKING:
    from ...tensor.quantized import QuantizedTensor
    from ...tensor.tensor import Tensor

_CHUNK_ELEMENTS = 1 << 26
"""Logits of a chunk: enough for products that keep a GPU busy."""

_LEAST_ROWS = 256


class Settings(NamedTuple):
    """What a call does.

    Attributes
    ----------
    ignore_index : int
    label_smoothing : float
    reduction : str
    chunk : int
        Rows of logits at a time.
    dtype : DType
        Of the loss.
    quantized : QuantizedTensor or None
        The weights, if they are.
    """

    ignore_index: int
    label_smoothing: float
    reduction: str
    chunk: int
    dtype: DType
    quantized: QuantizedTensor | None


def chunk_rows(classes: int) -> int:
    """Return how many rows of logits are computed at a time: a power of two."""
    fitting = _CHUNK_ELEMENTS // max(1, classes)
    return max(_LEAST_ROWS, 1 << max(0, fitting.bit_length() - 1))


def chunked_cross_entropy(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    labels: Tensor,
    settings: Settings,
) -> Tensor:
    """Return `cross_entropy(linear(x, weight, bias), labels)`.

    Parameters
    ----------
    x : Tensor, shape (rows, features), float
    weight : Tensor, shape (classes, features), or None
        None where `settings` has quantized ones.
    bias : Tensor, shape (classes,), or None
    labels : Tensor, shape (rows,), an integer dtype
    settings : Settings
    """
    needs = [
        is_grad_enabled() and each is not None and each.needs_grad
        for each in (x, weight, bias)
    ]
    words = labels_in_words(labels)
    out: Tensor = _LinearCrossEntropy.apply(x, weight, bias, words, settings, needs)
    return out


class _LinearCrossEntropy(Function):
    """The gradients are made beside the loss, where the logits are at hand.

    Not of float16, where small ones would be lost before a loss scale comes, nor for a
    loss of each row: there the logits are computed again in the backward pass.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        labels: Tensor,
        settings: Settings,
        needs: list[bool],
    ) -> Tensor:
        ctx.settings = settings
        early = any(needs) and settings.reduction != "none" and x.dtype is not float16
        share = _share(x, labels, settings)
        whole = _whole(weight, settings, x.dtype)
        losses, ctx.early = _chunks(
            x, whole, bias, labels, settings, needs if early else None, share
        )
        ctx.save_for_backward(x, weight, bias, labels)
        if settings.reduction != "none":
            losses = sum(losses)
        if settings.reduction == "mean":
            # Without a label that counts it is 0 / 0, as in PyTorch.
            losses = losses / _count(x, labels, settings)
        return losses.to(settings.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight, bias, labels = ctx.saved_tensors
        settings: Settings = ctx.settings
        found: list[Tensor | None] | None
        needs = list(ctx.needs_input_grad[:3])
        if is_grad_enabled():
            found = _differentiable(x, weight, bias, labels, settings, needs, grad)
        elif ctx.early is not None:
            found = [
                None if each is None else each * grad.to(each.dtype)
                for each in ctx.early
            ]
        else:
            rows = cast(grad, statistic_dtype(x.dtype))
            rows = rows * _share(x, labels, settings)
            whole = _whole(weight, settings, x.dtype)
            _, found = _chunks(x, whole, bias, labels, settings, needs, rows)
        return *(found or ()), None, None, None


def _whole(weight: Tensor | None, settings: Settings, dtype: DType) -> Any:
    """Return the weight as floats."""
    if settings.quantized is None:
        return weight
    blocks, format, columns, _ = settings.quantized
    return elements(blocks, format, columns, dtype)


def _count(x: Tensor, labels: Tensor, settings: Settings) -> Tensor:
    """Return how many labels count, a scalar."""
    return sum(cast(ne(labels, settings.ignore_index), statistic_dtype(x.dtype)))


def _share(x: Tensor, labels: Tensor, settings: Settings) -> Tensor:
    """Return what each row's loss counts, a scalar."""
    if settings.reduction == "mean":
        return 1.0 / _count(x, labels, settings)
    return fill_like(x, (), 1, statistic_dtype(x.dtype))


def _chunks(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    settings: Settings,
    needs: list[bool] | None,
    share: Tensor,
) -> tuple[Tensor, list[Tensor | None] | None]:
    """Return the loss of each row; with `needs`, gradients of what needs one, too."""
    options = settings.ignore_index, settings.label_smoothing
    statistic = statistic_dtype(x.dtype)
    losses: list[Tensor] = []
    by_x: list[Tensor] = []
    by_weight: Tensor | None = None
    by_bias: Tensor | None = None
    # Each chunk waits for the one before, whose logits are no more then.
    last: Tensor | None = None
    for start in range(0, x.layout.shape[0], settings.chunk):
        rows = slice(start, start + settings.chunk)
        part, own = x[rows], labels[rows]
        if last is not None:
            part = after(part, last)
        logits = linear(part, weight, bias)
        loss, greatest, log_total, _ = _cross_entropy_rows(logits, own, *options)
        losses.append(loss)
        last = loss
        if needs is None:
            continue
        scale = share[rows] if share.layout.shape else share
        made = cross_entropy_dlogits(logits, own, greatest, log_total, scale, *options)
        if needs[0]:
            by_x.append(matmul(made, weight))
            last = by_x[-1]
        # Sums over chunks are of the statistic's dtype, as those within one.
        if needs[1]:
            product = cast(matmul(transpose(made, 0, 1), part), statistic)
            last = by_weight = product if by_weight is None else by_weight + product
        if needs[2]:
            column = sum(cast(made, statistic), 0)
            by_bias = column if by_bias is None else by_bias + column
    gradients = [
        cat(by_x) if by_x else None,
        None if by_weight is None else by_weight.to(weight.dtype),
        None if by_bias is None or bias is None else by_bias.to(bias.dtype),
    ]
    return cat(losses), None if needs is None else gradients


def _differentiable(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    labels: Tensor,
    settings: Settings,
    needs: list[bool],
    grad: Tensor,
) -> list[Tensor | None]:
    """Return gradients that have a gradient, by way of all logits."""
    loss = cross_entropy(
        linear(x, _whole(weight, settings, x.dtype), bias),
        labels,
        ignore_index=settings.ignore_index,
        label_smoothing=settings.label_smoothing,
        reduction=settings.reduction,
    ).to(settings.dtype)
    wanted = [each for each, need in zip((x, weight, bias), needs, strict=True) if need]
    found = iter(gradients_of(loss, wanted, grad, create_graph=True))
    return [next(found) if need else None for need in needs]
