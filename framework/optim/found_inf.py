"""Steps that are skipped on the device where gradients overflowed (`found_inf`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..ops import where
from ..tensor.tensor import Tensor
from .foreach import assign_, snapshot

SKIPPED = "skipped"
"""State entry with the number of skipped steps: float32, on the device."""

State = Mapping[Tensor, Mapping[str, Any]]


@contextmanager
def revert_if(
    skip: Tensor, groups: Sequence[Mapping[str, Any]], state: State
) -> Iterator[None]:
    """Revert the step within the block, and count it as skipped, if `skip` is true.

    State that the step initialises becomes zero.
    """
    before = {id(each): snapshot(each) for each in _step_tensors(groups, state)}
    reverted: set[int] = set()
    try:
        yield
        _revert(skip, _step_tensors(groups, state), before, reverted)
    except BaseException:
        # The step may have updated a tensor that is to be reverted.
        try:
            _revert(skip, _step_tensors(groups, state), before, reverted)
        finally:
            _revert(skip, _step_tensors(groups, state), before, reverted)
        raise
    counts = {id(each): each for each in _skip_counters(groups, state)}
    for each in counts.values():
        assign_(each, each + skip)


def _revert(
    skip: Tensor,
    tensors: Iterator[Tensor],
    before: Mapping[int, Tensor],
    reverted: set[int],
) -> None:
    """Revert tensors that are not `reverted` yet to their snapshots, if `skip` is true.

    Reverting twice would not matter, but for the work.
    """
    for each in tensors:
        if id(each) not in reverted:
            assign_(each, where(skip, before.get(id(each), 0.0), each))
            reverted.add(id(each))


def _step_tensors(
    groups: Sequence[Mapping[str, Any]], state: State
) -> Iterator[Tensor]:
    """Yield the parameters and state tensors that a step updates."""
    for parameter in _params_with_grad(groups):
        yield parameter
        for name, value in state.get(parameter, {}).items():
            if isinstance(value, Tensor) and name != SKIPPED:
                yield value


def _skip_counters(
    groups: Sequence[Mapping[str, Any]], state: State
) -> Iterator[Tensor]:
    for parameter in _params_with_grad(groups):
        if SKIPPED in state.get(parameter, {}):
            yield state[parameter][SKIPPED]


def _params_with_grad(groups: Sequence[Mapping[str, Any]]) -> Iterator[Tensor]:
    """Yield the parameters that have a gradient."""
    for group in groups:
        yield from (each for each in group["params"] if each.grad is not None)


def without_skipped(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a parameter with skipped steps uncounted."""
    known = dict(state)
    if SKIPPED in known:
        known["step"] -= int(known.pop(SKIPPED).item())
    return known
