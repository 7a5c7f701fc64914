"""Rows of the op table for normalisation, losses and dropout; all structured ones."""

from typing import Any

import numpy as np
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.case import Bad, Case, Draw, Sample, sample
from tests.conv_cases import CONVOLUTION
from tests.pool_cases import POOLING
from tests.product_cases import PRODUCTS
from vkbackend.framework import ops
from vkbackend.framework.dtype import INTEGER
from vkbackend.framework.errors import DTypeError, ShapeError
from vkbackend.framework.op import REGISTRY
from vkbackend.framework.ops.likelihood import IGNORED, labels_in_words
from vkbackend.framework.rng import uniform


def moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and biased variance of each channel."""
    wide = x.astype(np.float64)
    statistic = np.float64 if x.dtype == np.float64 else np.float32
    mean, variance = wide.mean((0, 2)), wide.var((0, 2))
    return mean.astype(statistic), variance.astype(statistic)


def norm_sums(
    grad: np.ndarray, x: np.ndarray, mean: np.ndarray, inverse_std: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return sums of gradients, and of them times normalised elements."""
    statistic = np.float64 if x.dtype == np.float64 else np.float32
    x, grad, mean, inverse_std = (
        each.astype(statistic) for each in (x, grad, mean, inverse_std)
    )
    normalized = (x - mean[:, None]) * inverse_std[:, None]
    return grad.sum((0, 2)), (grad * normalized).sum((0, 2))


def statistic(x: fw.Tensor) -> fw.Tensor:
    """Return numbers as ops keep statistics: in float32 or wider."""
    return x if x.dtype.itemsize > 2 else x.float()


NORMALIZATION = {
    "batch_norm_moments": Case(
        REGISTRY["batch_norm_moments"],
        (sample((3, 5, 7)), sample((13, 2, 64)), sample((2, 3, 1))),
        moments,
        gradient=False,
        scale=10,  # sums of hundreds of terms
    ),
    "batch_norm_sums": Case(
        lambda grad, x, mean, inverse_std: REGISTRY["batch_norm_sums"](
            grad, x, statistic(mean), statistic(inverse_std)
        ),
        (
            sample((3, 5, 7), (3, 5, 7), (5,), (5,)),
            sample((13, 2, 64), (13, 2, 64), (2,), (2,)),
        ),
        norm_sums,
        gradient=False,
        scale=100,  # sums of hundreds of terms of size 16
    ),
    "batch_norm_train": Case(
        lambda x, weight, bias: ops.batch_norm(
            x, None, None, weight, bias, training=True
        ),
        (sample((5, 3), (3,), (3,)), sample((3, 5, 4, 7), (5,), (5,))),
        torch=lambda x, weight, bias: F.batch_norm(
            x, None, None, weight, bias, training=True
        ),
        scale=10,  # deviations from a mean that is itself a sum
        bad=(
            Bad(
                lambda ones: ops.batch_norm(ones(3), None, None, training=True),
                ShapeError,
                "batch_norm: x is (3,); it must be (batch, channels, ...)",
            ),
            Bad(
                lambda ones: ops.batch_norm(ones(1, 3), None, None, training=True),
                ShapeError,
                "batch_norm: training needs at least two values per channel; x is"
                " (1, 3)",
            ),
            Bad(
                lambda ones: ops.batch_norm(ones(2, 3), None, None),
                ShapeError,
                "batch_norm: not training needs running_mean and running_var",
            ),
        ),
    ),
}


def rows_gradient(
    logits: np.ndarray,
    labels: np.ndarray,
    greatest: np.ndarray,
    log_total: np.ndarray,
    grad: np.ndarray,
    ignore_index: int,
    label_smoothing: float,
) -> np.ndarray:
    """Return (softmax - target) * grad of each row, and 0 where it is ignored."""
    rows, classes = logits.shape
    target = np.full((rows, classes), label_smoothing / classes, logits.dtype)
    target[np.arange(rows), labels] += logits.dtype.type(1 - label_smoothing)
    factor = np.where(labels == ignore_index, 0, grad).astype(logits.dtype)
    softmax = np.exp(logits - greatest[:, None] - log_total[:, None])
    return (softmax - target) * factor[:, None]


def labelled(shape: tuple[int, ...], classes: int, **keywords: Any) -> Sample:
    """Return logits with classes in dimension 1, and labels."""
    logits = (shape[0], classes, *shape[1:])
    return Sample((Draw(logits), Draw(shape, 0, classes, "int32")), keywords)


def known_classes(labels: fw.Tensor, classes: int, ignore_index: int) -> fw.Tensor:
    """Number labels after moving them into the classes."""
    if labels.dtype in INTEGER:
        labels = labels_in_words(ops.clamp(labels, 0, classes - 1))
    return REGISTRY["class_numbers"](labels, classes, ignore_index)


LOSSES = {
    "cross_entropy_rows": Case(
        ops.cross_entropy,
        (
            labelled((7,), 11),
            labelled((5,), 3, label_smoothing=0.25, reduction="sum"),
            labelled((13,), 4, ignore_index=1, reduction="none"),
            labelled((3, 5), 7, ignore_index=2, label_smoothing=0.1),
            labelled((2,), 1031),
        ),
        torch=lambda logits, labels, **options: F.cross_entropy(
            logits, labels.long(), **options
        ),
        twice=False,
        scale=4,  # a logarithm of a sum of exponentials
        bad=(
            Bad(
                lambda ones: ops.cross_entropy(ones(4, 3), ones(3, dtype="int32")),
                ShapeError,
                "cross_entropy: logits are (4, 3), labels (3,); logits must be"
                " (batch, classes, ...) and labels (batch, ...)",
            ),
            Bad(
                lambda ones: ops.cross_entropy(
                    ones(4, 3), ones(4, dtype="int32"), label_smoothing=1.5
                ),
                ShapeError,
                "cross_entropy: label_smoothing is 1.5; it must be from 0 to 1",
            ),
            Bad(
                lambda ones: ops.cross_entropy(
                    ones(4, 3), ones(4, dtype="int32"), reduction="max"
                ),
                ShapeError,
                "cross_entropy: reduction is 'max'; it must be 'mean', 'sum' or 'none'",
            ),
            Bad(
                lambda ones: ops.cross_entropy(ones(4, 3), ones(4)),
                DTypeError,
                "cross_entropy_rows: `labels` is float32; accepted: uint8, uint16,"
                " uint32, uint64, int8, int16, int32, int64",
            ),
        ),
    ),
    "cross_entropy_grad": Case(
        lambda logits, labels, greatest, log_total, grad, **options: REGISTRY[
            "cross_entropy_grad"
        ](
            logits,
            labels,
            statistic(greatest),
            statistic(log_total),
            statistic(grad),
            **options,
        ),
        (
            Sample(
                (
                    Draw((7, 5)),
                    Draw((7,), 0, 5, "int32"),
                    Draw((7,), 1, 2),
                    Draw((7,), 1, 2),
                    Draw((7,)),
                ),
                {"ignore_index": 1, "label_smoothing": 0.25},
            ),
        ),
        rows_gradient,
        gradient=False,
    ),
    "binary_cross_entropy": Case(
        ops.binary_cross_entropy,
        (
            Sample((Draw((7, 5), 0.1, 0.9), Draw((7, 5), 0.1, 0.9))),
            Sample((Draw((3,), 0.1, 0.9), Draw((3,), 0.1, 0.9)), {"reduction": "sum"}),
        ),
        torch=F.binary_cross_entropy,
        scale=4,  # two logarithms
        bad=(
            Bad(
                lambda ones: ops.binary_cross_entropy(ones(3), ones(3), reduction="x"),
                ShapeError,
                "binary_cross_entropy: reduction is 'x'; it must be 'mean', 'sum' or"
                " 'none'",
            ),
        ),
    ),
    "class_numbers": Case(
        known_classes,
        (
            Sample((Draw((7,)),), {"classes": 5, "ignore_index": 1}),
            Sample((Draw((3, 5)),), {"classes": 4, "ignore_index": -1}),
        ),
        lambda labels, classes, ignore_index: np.where(
            labels.clip(0, classes - 1) == ignore_index,
            IGNORED,
            labels.clip(0, classes - 1).astype(np.int32),
        ).astype(np.int32),
        exact=True,
        gradient=False,
    ),
}

DROPOUT = {
    "dropout": Case(
        lambda x, stream: REGISTRY["dropout"](x, 0.25, stream),
        (sample((7, 11), stream=(1, 2, 3, 4)), sample((4, 8), stream=(5, 6, 7, 8))),
        lambda x, stream: np.where(
            uniform(x.size, stream).reshape(x.shape) >= 0.25,
            x * x.dtype.type(1 / 0.75),
            x.dtype.type(0),
        ),
    ),
}

STRUCTURED = PRODUCTS | CONVOLUTION | POOLING | NORMALIZATION | LOSSES | DROPOUT
