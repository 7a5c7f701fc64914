"""Rows of the op table for losses."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.case import Bad, Case, Draw, Sample, sample
from tests.norm_cases import statistic
from vkbackend.framework import ops
from vkbackend.framework.base.errors import DTypeError, IndexRangeError, ShapeError
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.nn import functional


def elements_of_labels(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the elements of classes, of which 3 is ignored."""
    found = np.take_along_axis(x, labels[:, None], 1)[:, 0]
    return np.where(labels == 3, x.dtype.type(0), found)


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
    return (np.exp(logits - greatest[:, None] - log_total[:, None]) - target) * factor[
        :, None
    ]


def halved_gradient(
    logits: np.ndarray, labels: np.ndarray, ignore_index: int, label_smoothing: float
) -> np.ndarray:
    """Return half the gradient of each row's loss."""
    wide = logits.astype(np.float64)
    greatest = wide.max(axis=1)
    log_total = np.log(np.exp(wide - greatest[:, None]).sum(axis=1))
    half = np.full(len(labels), 0.5)
    found = rows_gradient(
        wide, labels, greatest, log_total, half, ignore_index, label_smoothing
    )
    return found.astype(logits.dtype)


def scored(logits: fw.Tensor, labels: fw.Tensor) -> fw.Tensor:
    """Return the mean loss that comes with its gradient, in the logits' dtype."""
    loss: fw.Tensor = REGISTRY["cross_entropy_with_grad"](
        logits, labels, 1, 0.25, True
    )[0]
    return loss.to(logits.dtype)


def labelled(shape: tuple[int, ...], classes: int, **keywords: Any) -> Sample:
    """Return logits with classes in dimension 1, and labels."""
    logits = (shape[0], classes, *shape[1:])
    return Sample((Draw(logits), Draw(shape, 0, classes, "int32")), keywords)


def all_paths(
    log_probs: np.ndarray,
    classes: np.ndarray,
    skips: np.ndarray,
    lengths: np.ndarray,
    counts: np.ndarray,
) -> np.ndarray:
    """Return the losses of CTC by adding up all paths through the states."""
    losses = []
    for k, (steps, count) in enumerate(zip(lengths, counts)):
        total = 0.0
        for path in itertools.product(range(count), repeat=steps):
            allowed = all(
                b - a in (0, 1) or (b - a == 2 and skips[k, b])
                for a, b in itertools.pairwise(path)
            )
            if allowed and path[0] < 2 and path[-1] >= count - 2:
                emitted = [log_probs[t, k, classes[k, s]] for t, s in enumerate(path)]
                total += math.exp(sum(emitted))
        losses.append(-math.log(total))
    return np.array(losses, log_probs.dtype)


def ctc_row(x: fw.Tensor, *rest: fw.Tensor) -> fw.Tensor:
    """Return the losses of CTC, from logits."""
    losses: fw.Tensor = REGISTRY["ctc_losses"](ops.log_softmax(x, -1), *rest)[0]
    return losses


def log_softmax(x: np.ndarray) -> np.ndarray:
    """Return logarithms of probabilities along the last dimension."""
    shifted = x - x.max(-1, keepdims=True)
    found: np.ndarray = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return found


def variables(
    emissions: np.ndarray,
    skips: np.ndarray,
    lengths: np.ndarray,
    counts: np.ndarray,
    reverse: bool,
) -> np.ndarray:
    """Return the logarithms of CTC's variables, computed as probabilities."""
    out = np.zeros(emissions.shape, np.float64)
    for k, (steps, count) in enumerate(zip(lengths, counts)):
        order = range(steps)[::-1] if reverse else range(steps)
        for number, t in enumerate(order):
            for s in range(count):
                end = count - 1 - s if reverse else s
                if number == 0:
                    reached = float(end < 2)
                else:
                    sign = 1 if reverse else -1
                    near = [s, s + sign] if end > 0 else [s]
                    if end > 1 and skips[k, s + 2 if reverse else s]:
                        near.append(s + 2 * sign)
                    reached = sum(out[k, t + sign, each] for each in near)
                out[k, t, s] = reached * math.exp(emissions[k, t, s])
    with np.errstate(divide="ignore"):
        return np.log(out).astype(emissions.dtype)


def lacking_of_labels(
    x: np.ndarray, labels: np.ndarray
) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yield row, label, and what each class that is none lacks to 1 below the label."""
    for row, (scores, numbers) in enumerate(zip(x.astype(np.float64), labels)):
        given = list(itertools.takewhile(lambda label: label >= 0, numbers.tolist()))
        others = ~np.isin(np.arange(len(scores)), given)
        for label in given:
            lacking = np.maximum(1 - scores[label] + scores, 0)
            yield row, label, np.where(others, lacking, 0)


def margin_losses(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the multi-label margin losses of rows."""
    losses = np.zeros(len(x))
    for row, _, lacking in lacking_of_labels(x, labels):
        losses[row] += lacking.sum() / x.shape[1]
    return losses.astype(np.float64 if x.dtype == np.float64 else np.float32)


def margin_counts(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return to how many labels each class lacks something, less what lacks to it."""
    counts = np.zeros(x.shape, np.int32)
    for row, label, lacking in lacking_of_labels(x, labels):
        counts[row] += lacking > 0
        counts[row, label] -= np.count_nonzero(lacking)
    return counts


def labels_of_rows(*shape: int) -> Sample:
    """Return scores, and labels that end at a -1, some of them twice."""
    return Sample((Draw(shape), Draw(shape, -1, shape[1], "int32")))


ROWS_OF_LABELS = (
    *(labels_of_rows(7, 11), labels_of_rows(3, 113)),
    *(labels_of_rows(2, 1031), labels_of_rows(0, 3), labels_of_rows(1, 1)),
)

# Two sequences of four steps, of up to two labels with blanks around them.
CTC_REST = (
    Draw((2, 5), 0, 2, "int32"),
    Draw((2,), 1, 5, "int32"),
    Draw((2,), 1, 4, "int32"),
)
CTC_NONE = tuple(Draw((0, *draw.shape[1:]), 0, 1, "int32") for draw in CTC_REST)
CTC_ONE = (Draw((1, 1), 0, 1, "int32"), *(Draw((1,), 1, 2, "int32"),) * 2)

LOSSES = {
    "ctc_variables": Case(
        REGISTRY["ctc_variables"],
        (
            Sample((Draw((2, 4, 5), -2, 0), *CTC_REST), {"reverse": False}),
            Sample((Draw((2, 4, 5), -2, 0), *CTC_REST), {"reverse": True}),
            Sample((Draw((0, 4, 5)), *CTC_NONE), {"reverse": False}),
            Sample((Draw((1, 1, 1)), *CTC_ONE), {"reverse": True}),
        ),
        numpy=variables,
        device_dtypes=("float32",),
        gradient=False,
        scale=4,  # sums of exponentials, and their logarithms, in each step
    ),
    "ctc_losses": Case(
        ctc_row,
        (
            Sample((Draw((4, 2, 3)), Draw((2, 5), 0, 3, "int32"), *CTC_REST)),
            Sample((Draw((4, 0, 3)), Draw((0, 5), 0, 3, "int32"), *CTC_NONE)),
            Sample((Draw((1, 1, 1)), Draw((1, 1), 0, 1, "int32"), *CTC_ONE)),
        ),
        numpy=lambda x, *rest: all_paths(log_softmax(x), *rest),
        device_dtypes=("float32",),
        twice=False,
        scale=4,  # as above
    ),
    "multilabel_margin_parts": Case(
        lambda x, labels: REGISTRY["multilabel_margin_parts"](x, labels).sum(-1),
        ROWS_OF_LABELS,
        margin_losses,
        gradient=False,
        scale=4,  # sums of a hundred terms
    ),
    "multilabel_margin_counts": Case(
        REGISTRY["multilabel_margin_counts"],
        ROWS_OF_LABELS,
        margin_counts,
        gradient=False,
        exact=True,
    ),
    "multilabel_margin_losses": Case(
        REGISTRY["multilabel_margin_losses"],
        ROWS_OF_LABELS,
        margin_losses,
        scale=4,  # as above
        bad=(
            Bad(
                lambda ones: functional.multilabel_margin_loss(
                    ones(2, 3), ones(2, 3, dtype="int64") * 3
                ),
                IndexRangeError,
                "multilabel_margin_loss: label 3 is out of range: there are 3 classes",
            ),
        ),
    ),
    "cross_entropy_rows": Case(
        ops.cross_entropy,
        (
            labelled((7,), 11),
            labelled((5,), 3, label_smoothing=0.25, reduction="sum"),
            labelled((13,), 4, ignore_index=1, reduction="none"),
            labelled((3, 5), 7, ignore_index=2, label_smoothing=0.1),
            labelled((2,), 1031),
            labelled((0,), 3, reduction="sum"),
            labelled((1,), 1),
        ),
        torch=lambda logits, labels, **options: F.cross_entropy(
            logits, labels.long(), **options
        ),
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
                lambda ones: ops.cross_entropy(ones(4, 3), ones(4, dtype="int32") * 3),
                IndexRangeError,
                "cross_entropy: label 3 is out of range: there are 3 classes",
            ),
            Bad(
                lambda ones: ops.cross_entropy(
                    ones(4, 3), ones(4, dtype="int32"), ones(4)
                ),
                ShapeError,
                "cross_entropy: weight is (4,); it must be (3,), one for each class",
            ),
            Bad(
                lambda ones: ops.cross_entropy(ones(4, 3), ones(4)),
                DTypeError,
                "cross_entropy_rows: `labels` is float32; accepted: int32, uint32,"
                " int64, uint64",
            ),
        ),
    ),
    "cross_entropy_rows_with_grad": Case(
        lambda logits, labels, **options: REGISTRY["cross_entropy_rows_with_grad"](
            logits, labels, fw.full_like(labels[:1], 0.5, dtype="float32"), **options
        )[-1],
        (
            labelled((7,), 5, ignore_index=1, label_smoothing=0.25),
            labelled((1,), 1, ignore_index=1, label_smoothing=0.25),
        ),
        lambda logits, labels, **options: halved_gradient(logits, labels, **options),
        gradient=False,
        scale=4,  # a sum of exponentials
    ),
    "cross_entropy_with_grad": Case(
        scored,
        (labelled((7,), 5), labelled((1,), 1)),
        device_dtypes=("float16", "bfloat16", "float32"),
        torch=lambda logits, labels: F.cross_entropy(
            logits, labels.long(), ignore_index=1, label_smoothing=0.25
        ),
        scale=4,  # a logarithm of a sum of exponentials
    ),
    "cross_entropy_dlogits": Case(
        lambda logits, labels, greatest, log_total, grad, **options: REGISTRY[
            "cross_entropy_dlogits"
        ](logits, labels, *map(statistic, (greatest, log_total, grad)), **options),
        tuple(
            Sample(
                (
                    Draw((rows, classes)),
                    Draw((rows,), 0, classes, "int32"),
                    Draw((rows,), 2, 3),
                    Draw((rows,), 0, 1),
                    Draw(grads),
                ),
                {"ignore_index": 1, "label_smoothing": 0.25},
            )
            for rows, classes, grads in (
                *((7, 5, (7,)), (7, 5, ())),
                *((0, 5, (0,)), (1, 1, (1,))),
            )
        ),
        rows_gradient,
        gradient=False,
    ),
    "label_elements": Case(
        lambda x, labels: REGISTRY["label_elements"](x, labels, 3, "")[0],
        (
            Sample((Draw((5, 7, 1)), Draw((5, 1), 0, 7, "int32"))),
            Sample((Draw((3, 7, 4)), Draw((3, 4), 0, 7, "int32"))),
            Sample((Draw((2, 5, 6)), Draw((2, 6), 0, 5, "int64"))),
            Sample((Draw((0, 5, 1)), Draw((0, 1), 0, 5, "int32"))),
            Sample((Draw((1, 1, 1)), Draw((1, 1), 0, 1, "int32"))),
        ),
        elements_of_labels,
        exact=True,
        gradient=False,
    ),
    "class_indices": Case(
        lambda x, classes, ignored: REGISTRY["class_indices"](
            fw.full_like(x, classes - 1), classes, ignored, ""
        ),
        (
            sample((13,), classes=2, ignored=-100),
            sample((3, 5), classes=113, ignored=112),
            sample((0, 3), classes=2, ignored=-100),
            sample((1,), classes=1, ignored=-100),
        ),
        lambda x, classes, ignored: np.full(
            x.shape, -2 if ignored == classes - 1 else classes - 1, np.int32
        ),
        gradient=False,
        bad=(
            Bad(
                lambda ones: ops.nll_loss(ones(4, 3), ones(3, dtype="int32")),
                ShapeError,
                "nll_loss: x is (4, 3), labels are (3,); x must be (batch, classes,"
                " ...) and labels (batch, ...)",
            ),
            Bad(
                lambda ones: ops.nll_loss(ones(4, 3), ones(4)),
                DTypeError,
                "nll_loss: labels are float32; they must be integers",
            ),
            Bad(
                lambda ones: ops.nll_loss(ones(2, 1), ones(2, dtype="int64")),
                IndexRangeError,
                "nll_loss: label 1 is out of range: there are 1 classes",
            ),
        ),
    ),
    "binary_cross_entropy": Case(
        ops.binary_cross_entropy,
        (
            Sample((Draw((7, 11), 0.05, 0.95), Draw((7, 11), 0, 1))),
            Sample(
                (Draw((4, 8), 0.05, 0.95), Draw((4, 8), 0, 1)), {"reduction": "none"}
            ),
            Sample((Draw((0, 3), 0, 1), Draw((0, 3), 0, 1)), {"reduction": "sum"}),
            Sample((Draw((1,), 0.05, 0.95), Draw((1,), 0, 1))),
        ),
        torch=F.binary_cross_entropy,
        scale=4,  # a logarithm, and a sum of dozens of terms
        bad=(
            Bad(
                lambda ones: ops.binary_cross_entropy(ones(3, 2), ones(2)),
                ShapeError,
                "binary_cross_entropy: x is (3, 2), target (2,); they must be the same",
            ),
            Bad(
                lambda ones: ops.binary_cross_entropy(
                    ones(3), ones(3), reduction="max"
                ),
                ShapeError,
                "binary_cross_entropy: reduction is 'max'; it must be 'mean', 'sum' or"
                " 'none'",
            ),
            Bad(
                lambda ones: ops.kl_div(ones(3), ones(3), reduction="max"),
                ShapeError,
                "kl_div: reduction is 'max'; it must be 'mean', 'sum', 'batchmean' or"
                " 'none'",
            ),
            Bad(
                lambda ones: ops.mse_loss(ones(3), ones(4)),
                ShapeError,
                "mse_loss: shapes do not broadcast: (3,), (4,); dimension -1 has sizes"
                " [3, 4], which must be equal or 1",
            ),
            Bad(
                lambda ones: ops.smooth_l1_loss(ones(3), ones(3), beta=-1.0),
                ShapeError,
                "smooth_l1_loss: beta is -1.0; it must be at least 0",
            ),
            Bad(
                lambda ones: ops.huber_loss(ones(3), ones(3), delta=0.0),
                ShapeError,
                "huber_loss: delta is 0.0; it must be above 0",
            ),
        ),
    ),
}
