"""Draws from binomial distributions."""

from __future__ import annotations

from .. import ops
from ..autograd.grad_mode import no_grad
from ..base.errors import DTypeError
from ..base.philox import Generator
from ..eager.base_tensor import need_tensors
from .tensor import Tensor

MOST_TRIALS = 4096
"""Trials that are drawn at a time."""


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Return numbers of successes among independent trials, without a gradient.

    Parameters
    ----------
    count : Tensor of a float dtype
        Numbers of trials; the largest is read.
    prob : Tensor, broadcast with `count`, same dtype
        Probabilities of success.
    generator : Generator, optional
        Where the draws come from; None means the default one.

    Returns
    -------
    Tensor, shape of both, dtype of `count`

    Raises
    ------
    DTypeError
        If the dtypes differ or are none of floats.

    Notes
    -----
    Single trials are drawn and counted, so the cost grows with their number. The draws
    are other numbers than PyTorch's for one seed.
    """
    need_tensors("binomial", count=count, prob=prob)
    if count.dtype is not prob.dtype or not count.dtype.is_floating_point:
        raise DTypeError(
            f"binomial: `count` is {count.dtype}, `prob` {prob.dtype}; both must be of"
            " one float dtype"
        )
    with no_grad():
        count, prob = ops.broadcast_tensors(count, prob)
        shape = tuple(prob.shape)
        drawn = prob * 0
        trials = int(count.max().item()) if count.numel() else 0
        for start in range(0, trials, MOST_TRIALS):
            size = min(MOST_TRIALS, trials - start)
            uniform = ops.draw_uniform(prob, (size, *shape), prob.dtype, generator)
            index = ops.arange_like(prob, (size,), start, 1, prob.dtype)
            hit = (uniform < prob) & (index.reshape((size, *(1,) * len(shape))) < count)
            drawn = drawn + hit.to(prob.dtype).sum(0)
    return drawn
