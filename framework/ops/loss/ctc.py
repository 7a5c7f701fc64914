"""Connectionist temporal classification: the likelihood of labels without alignment.

A target of labels becomes a sequence of states, the labels with blanks around them. The
forward variables are the probabilities of all paths that lead to a state at a step; the
backward variables, of those that lead on from it, give the gradient.

Source: Graves et al., Connectionist Temporal Classification, ICML 2006.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.device import CPU
from ...base.dtype import float32, float64, int32
from ...base.shape import TensorSpec
from ...dispatch.declare import composite, primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.ctc import ctc_dispatches
from ..elementwise.compare import clamp_min, eq, isinf, where
from ..elementwise.exponential import exp, logaddexp
from ..indexing.scatter import gather, scatter_add
from ..source import arange_like, fill_like
from ..view import expand, move, reshape, transpose, unsqueeze

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

_STATISTIC = (float32, float64)
NOTHING = float("-inf")
"""The logarithm of a probability of 0."""


# GLSL has no exponential of doubles.
@primitive(
    dtypes={
        "emissions": _STATISTIC,
        "skips": (int32,),
        "lengths": (int32,),
        "counts": (int32,),
    },
    device_dtypes={"emissions": (float32,)},
)
def _ctc_variables(
    emissions: Tensor, skips: Tensor, lengths: Tensor, counts: Tensor, reverse: bool
) -> Tensor:
    """Return the logarithms of the forward, or backward, variables with emissions.

    `emissions` are (sequences, steps, states); `skips` says which states are reached
    from the one before the last too. Beyond lengths and counts it is -inf.
    """


@_ctc_variables.spec
def _ctc_variables_spec(emissions: TensorSpec, **_: object) -> TensorSpec:
    return emissions


@_ctc_variables.kernel
def _ctc_variables_kernel(
    gpu: DeviceInfo, emissions: StridedSpec, reverse: bool, **_: object
) -> list[Dispatch]:
    return ctc_dispatches(gpu, emissions, reverse)


@_ctc_variables.reference
def _ctc_variables_reference(
    emissions: np.ndarray,
    skips: np.ndarray,
    lengths: np.ndarray,
    counts: np.ndarray,
    reverse: bool,
) -> np.ndarray:
    out = np.full(emissions.shape, NOTHING, emissions.dtype)
    for k in range(len(emissions)):
        length, count = int(lengths[k]), int(counts[k])
        # Backward variables are forward ones of the sequence read from its end.
        rows = emissions[k, :length, :count]
        jumps = skips[k, :count] != 0
        if reverse:
            rows = rows[::-1, ::-1]
            jumps = np.concatenate([jumps, [False, False]])[2:][::-1]
        if length == 0:
            continue
        found = np.full((length, count), NOTHING, emissions.dtype)
        found[0, :2] = rows[0, :2]
        for step in range(1, length):
            own = found[step - 1]
            near = np.concatenate([[NOTHING], own])[:count]
            far = np.concatenate([[NOTHING, NOTHING], own])[:count]
            total = np.logaddexp(own, near)
            total = np.where(jumps, np.logaddexp(total, far), total)
            found[step] = total + rows[step]
        out[k, :length, :count] = found[::-1, ::-1] if reverse else found
    return out


def _variables(
    emissions: Tensor, skips: Tensor, lengths: Tensor, counts: Tensor, reverse: bool
) -> Tensor:
    """Return `_ctc_variables`; those of float64 are the host's."""
    place = emissions.device
    if emissions.dtype is not float64 or not emissions.is_gpu:
        return _ctc_variables(emissions, skips, lengths, counts, reverse)
    found = _ctc_variables(
        move(emissions, place, CPU),
        move(skips, place, CPU),
        move(lengths, place, CPU),
        move(counts, place, CPU),
        reverse,
    )
    return move(found, CPU, place)


def _emissions(log_probs: Tensor, classes: Tensor) -> Tensor:
    """Return (sequences, steps, states) of log-probabilities of each state's class."""
    steps, sequences, _ = log_probs.layout.shape
    places = expand(unsqueeze(classes, 1), (sequences, steps, classes.layout.shape[1]))
    return gather(transpose(log_probs, 0, 1), 2, places)


@composite(
    dtypes={
        "log_probs": _STATISTIC,
        "classes": (int32,),
        "skips": (int32,),
        "lengths": (int32,),
        "counts": (int32,),
    },
    outputs=("out", "alphas"),
)
def ctc_losses(
    log_probs: Tensor,
    classes: Tensor,
    skips: Tensor,
    lengths: Tensor,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return the negative log-likelihood of each sequence, and its forward variables.

    Parameters
    ----------
    log_probs : Tensor, shape (steps, sequences, classes)
    classes : Tensor, shape (sequences, states), int32
        The labels with blanks around them.
    skips : Tensor, shape (sequences, states), int32
        1 where a label differs from the one before it, else 0.
    lengths, counts : Tensor, shape (sequences,), int32
        Steps and states of each sequence.
    """
    steps, sequences, _ = log_probs.layout.shape
    states = classes.layout.shape[1]
    emissions = _emissions(log_probs, classes)
    alphas = _variables(emissions, skips, lengths, counts, False)
    # The last row of each sequence, of which a path ends in one of two states.
    rows = reshape(alphas, (sequences, steps * states))
    end = clamp_min(lengths - 1, 0) * states + counts - 1
    last = reshape(gather(rows, 1, unsqueeze(end, 1)), (sequences,))
    before = reshape(gather(rows, 1, unsqueeze(clamp_min(end - 1, 0), 1)), (sequences,))
    before = where(counts > 1, before, NOTHING)
    likelihood = logaddexp(last, before)
    # Without a step only the empty target is possible.
    likelihood = where(lengths > 0, likelihood, where(counts > 1, NOTHING, 0.0))
    return -likelihood, alphas


@ctc_losses.vjp
def ctc_losses_vjp(
    grad: Tensor,
    log_probs: Tensor,
    classes: Tensor,
    skips: Tensor,
    lengths: Tensor,
    counts: Tensor,
    out: Tensor,
    alphas: Tensor,
) -> tuple[Tensor, None, None, None, None]:
    steps, sequences, _ = log_probs.layout.shape
    emissions = _emissions(log_probs, classes)
    betas = _variables(emissions, skips, lengths, counts, True)
    losses = reshape(out, (sequences, 1, 1))
    # Variables both have the emission of their step.
    is_path = (alphas > NOTHING) & (betas > NOTHING)
    posterior = where(is_path, exp(alphas + betas - emissions + losses), 0.0)
    shape = (sequences, steps, log_probs.layout.shape[2])
    places = expand(unsqueeze(classes, 1), posterior.shape)
    zeros = fill_like(log_probs, shape, 0, log_probs.dtype)
    shares = scatter_add(zeros, 2, places, posterior)
    # As through a log-softmax, whose gradient does not see the difference.
    slope = exp(transpose(log_probs, 0, 1)) - shares
    numbers = reshape(arange_like(log_probs, (steps,), 0, 1, int32), (steps, 1))
    inside = numbers < reshape(lengths, (sequences, 1, 1))
    factor = reshape(grad, (sequences, 1, 1))
    slope = where(isinf(losses), float("nan"), slope) * factor
    slope = where(inside & ~eq(factor, 0.0), slope, 0.0)
    return transpose(slope, 0, 1), None, None, None, None
