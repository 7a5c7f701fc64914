"""Which states of a language model its head sees."""

from __future__ import annotations

from vkbackend.errors import ArgumentError

from ..tensor.tensor import Tensor


def states_to_keep(states: Tensor, logits_to_keep: int | Tensor) -> Tensor:
    """Return the states whose logits are wanted, so that the head sees no others.

    Parameters
    ----------
    states : Tensor, shape (batch, length, hidden)
    logits_to_keep : int, or Tensor of an integer dtype, shape (count,)
        How many of the last ones, 0 for all; or which ones, by number. As in
        `transformers`.

    Returns
    -------
    Tensor, shape (batch, count, hidden)
        All where there are fewer than are to be kept.

    Raises
    ------
    ArgumentError
        If `logits_to_keep` is below 0.
    IndexRangeError
        If a number is none of a state: on the host at once, on a device by the next
        read.
    """
    if isinstance(logits_to_keep, Tensor):
        return states[:, logits_to_keep]
    if logits_to_keep < 0:
        raise ArgumentError(
            f"forward: logits_to_keep is {logits_to_keep}; it must be at least 0, which"
            " keeps all"
        )
    if not logits_to_keep or states.shape[1] <= logits_to_keep:
        return states
    return states[:, -logits_to_keep:]
