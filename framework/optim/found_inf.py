"""Steps that the device may decide to skip."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..ops import where
from ..tensor.tensor import Tensor
from .foreach import assign_, snapshot

SKIPPED = "skipped"
"""What a state calls the number of steps that were skipped: float32, on the device."""

State = Mapping[Tensor, Mapping[str, Any]]


@contextmanager
def undone_where(
    skip: Tensor, groups: Sequence[Mapping[str, Any]], state: State
) -> Iterator[None]:
    """Undo the step within the block, and count it as skipped, if `skip` is true.

    What a step is the first to remember becomes zero.
    """
    before = {id(each): snapshot(each) for each in _replaced(groups, state)}
    chosen: set[int] = set()
    try:
        yield
        _choose(skip, _replaced(groups, state), before, chosen)
    except BaseException:
        # What the step has made of a tensor may be what it must not be.
        try:
            _choose(skip, _replaced(groups, state), before, chosen)
        finally:
            _choose(skip, _replaced(groups, state), before, chosen)
        raise
    counts = {id(each): each for each in _counts(groups, state)}
    for each in counts.values():
        assign_(each, each + skip)


def _choose(
    skip: Tensor,
    tensors: Iterator[Tensor],
    before: Mapping[int, Tensor],
    chosen: set[int],
) -> None:
    """Give tensors that are not `chosen` yet what they held before, if `skip` is true.

    Choosing twice would not matter, but for the work.
    """
    for each in tensors:
        if id(each) not in chosen:
            assign_(each, where(skip, before.get(id(each), 0.0), each))
            chosen.add(id(each))


def _replaced(groups: Sequence[Mapping[str, Any]], state: State) -> Iterator[Tensor]:
    """Yield the tensors that a step replaces."""
    for parameter in _stepping(groups):
        yield parameter
        for name, value in state.get(parameter, {}).items():
            if isinstance(value, Tensor) and name != SKIPPED:
                yield value


def _counts(groups: Sequence[Mapping[str, Any]], state: State) -> Iterator[Tensor]:
    for parameter in _stepping(groups):
        if SKIPPED in state.get(parameter, {}):
            yield state[parameter][SKIPPED]


def _stepping(groups: Sequence[Mapping[str, Any]]) -> Iterator[Tensor]:
    """Yield the parameters that have a gradient."""
    for group in groups:
        yield from (each for each in group["params"] if each.grad is not None)


def counted(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is remembered of a parameter, without steps that were skipped."""
    known = dict(state)
    if SKIPPED in known:
        known["step"] -= int(known.pop(SKIPPED).item())
    return known
