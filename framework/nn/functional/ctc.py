"""Connectionist temporal classification under PyTorch's signature."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ... import ops
from ...base.dtype import INTEGER, float64, int32
from ...base.errors import DTypeError, ShapeError
from ...dispatch.autocast_policy import autocast_float32
from ...dispatch.replayable import replayable
from ...ops.loss.ctc import ctc_losses
from ...ops.loss.elementwise import check_reduction
from ...ops.shape_constant import shape_constant
from ...tensor.tensor import Tensor

Lengths = Tensor | Sequence[int]


@autocast_float32
@replayable
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return the negative log-likelihood of labels, over all their alignments.

    Parameters
    ----------
    log_probs : Tensor, shape (steps, batch, classes) or (steps, classes), float
        Log-probabilities, as `log_softmax` gives them.
    targets : Tensor, shape (batch, most labels) or (all labels,), integer
        Labels, padded, or those of all sequences one after another.
    input_lengths, target_lengths : Tensor, shape (batch,) or (), or sequence of int
        Steps and labels of each sequence.
    blank : int, default 0
        The class that is no label.
    reduction : str, default "mean"
        "mean" of the losses divided by the numbers of labels, "sum" or "none".
    zero_infinity : bool, default False
        Whether infinite losses, and their gradients, count as 0: those of targets that
        are too long for their steps.

    Returns
    -------
    Tensor
        A scalar, or one loss per sequence with "none".

    Raises
    ------
    ShapeError
        If shapes or lengths do not fit, `blank` is no class, or the reduction unknown.
    DTypeError
        If targets are no integers.

    Notes
    -----
    Lengths on a device are read back only for targets one after another, whose number
    of labels decides a shape. The gradient with respect to `log_probs` is, as
    PyTorch's, the one that goes through a log-softmax. Source: Graves et al.,
    Connectionist Temporal Classification, 2006.
    """
    check_reduction("ctc_loss", reduction)
    if targets.dtype not in INTEGER:
        raise DTypeError(
            f"ctc_loss: targets are {targets.dtype.name}; they must be integers"
        )
    alone = len(log_probs.layout.shape) == 2
    if alone:
        log_probs = ops.unsqueeze(log_probs, 1)
    if len(log_probs.layout.shape) != 3 or not 0 <= blank < log_probs.layout.shape[2]:
        raise ShapeError(
            f"ctc_loss: log_probs are {tuple(log_probs.shape)}, blank {blank}; they"
            " must be"
            " (steps, batch, classes) or (steps, classes), and blank a class"
        )
    steps = log_probs.layout.shape[0]
    lengths = _lengths("input_lengths", input_lengths, log_probs, steps)
    sizes = _lengths("target_lengths", target_lengths, log_probs, None)
    labels = _padded(targets, sizes, log_probs)
    states, skips = _states(labels, blank)
    wide = log_probs if log_probs.dtype is float64 else log_probs.float()
    losses, _ = ctc_losses(wide, states, skips, lengths, sizes * 2 + 1)
    if zero_infinity:
        losses = ops.where(ops.isinf(losses), 0.0, losses)
    if reduction == "mean":
        by = ops.clamp_min(sizes, 1).to(losses.dtype)
        return ops.mean(losses / by).to(log_probs.dtype)
    losses = losses.to(log_probs.dtype)
    if reduction == "sum":
        return ops.sum(losses)
    return ops.reshape(losses, ()) if alone else losses


def _lengths(name: str, given: Lengths, like: Tensor, most: int | None) -> Tensor:
    """Return lengths as int32 on the device of `like`; check those that are known."""
    batch = like.layout.shape[1]
    if isinstance(given, Tensor):
        known = given.host_copy() if given.is_cpu else None
        found = ops.reshape(given, (given.numel(),)).to(like.device).to(int32)
    else:
        known = np.asarray(given)
        found = shape_constant(like, known.astype(np.int32).reshape(-1))
    if found.shape != (batch,):
        raise ShapeError(
            f"ctc_loss: there are {found.numel()} {name}; there must be {batch}"
        )
    if known is not None and known.size:
        least, largest = int(known.min()), int(known.max())
        if least < 0 or (most is not None and largest > most):
            raise ShapeError(
                f"ctc_loss: {name} are from {least} to {largest}; they must be at least"
                f" 0{'' if most is None else f' and at most {most}'}"
            )
    return found


def _padded(targets: Tensor, sizes: Tensor, log_probs: Tensor) -> Tensor:
    """Return labels as int32 (batch, most labels) on the device of `log_probs`."""
    batch = log_probs.layout.shape[1]
    words = targets.to(log_probs.device).to(int32)
    if words.ndim == 2:
        if words.shape[0] != batch:
            raise ShapeError(
                f"ctc_loss: targets are {tuple(words.shape)}; they must be ({batch},"
                " labels)"
            )
        most = int(sizes.max().item()) if sizes.is_cpu and batch else words.shape[1]
        if most > words.shape[1]:
            raise ShapeError(
                f"ctc_loss: a target has {most} labels, targets are"
                f" {tuple(words.shape)}; they"
                " must have as many columns"
            )
        return words
    if words.ndim != 1:
        raise ShapeError(
            f"ctc_loss: targets are {tuple(words.shape)}; they must be 1-D or 2-D"
        )
    counts = sizes.host_copy().astype(np.int64)
    if int(counts.sum()) != words.shape[0]:
        raise ShapeError(
            f"ctc_loss: there are {words.shape[0]} labels, target_lengths add up to"
            f" {counts.sum()}; they must be the same"
        )
    most = int(counts.max(initial=0))
    if most == 0:
        return ops.narrow(ops.reshape(words, (1, -1)), 1, 0, 0).expand(batch, 0)
    starts = np.cumsum(counts) - counts
    places = np.minimum(starts[:, None] + np.arange(most), words.shape[0] - 1)
    index = Tensor.from_host(places.astype(np.int32).reshape(-1), words.device)
    return ops.reshape(ops.index_select(words, 0, index), (batch, most))


def _states(labels: Tensor, blank: int) -> tuple[Tensor, Tensor]:
    """Return labels with blanks around them, and where one differs from the last."""
    batch, most = labels.layout.shape
    # What pads targets may be no class; it is not read, but must be in range.
    between = ops.fill_like(labels, (batch, most, 1), blank, int32)
    pairs = ops.cat([between, ops.unsqueeze(labels, 2)], 2)
    end = ops.fill_like(labels, (batch, 1), blank, int32)
    states = ops.cat([ops.reshape(pairs, (batch, 2 * most)), end], 1)
    differs = ops.fill_like(labels, (batch, most), 0, int32)
    if most > 1:
        changed = ops.ne(
            ops.narrow(labels, 1, 1, most - 1), ops.narrow(labels, 1, 0, most - 1)
        )
        first = ops.fill_like(labels, (batch, 1), 0, int32)
        differs = ops.cat([first, ops.cast(changed, int32)], 1)
    none = ops.fill_like(labels, (batch, most, 1), 0, int32)
    jumps = ops.cat([none, ops.unsqueeze(differs, 2)], 2)
    jumps = ops.cat([ops.reshape(jumps, (batch, 2 * most)), end * 0], 1)
    return states, jumps
