"""Complex parameters: a step sees the real tensors of their parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..ops import view_as_complex, view_as_real
from ..tensor.tensor import Tensor


@contextmanager
def as_real(
    updates: Sequence[tuple[Tensor, Tensor]], states: dict[Any, Any]
) -> Iterator[Sequence[tuple[Tensor, Tensor]]]:
    """Give parameters and gradients as real tensors, and within the block their state.

    Parts are views, so what changes in place changes the complex tensors. State that
    the block makes becomes complex at its end, if it has the shape of the parts.
    """
    if not any(parameter.dtype.is_complex for parameter, _ in updates):
        yield updates
        return
    real = []
    complexes: list[tuple[Tensor, Tensor, dict[str, Tensor]]] = []
    for parameter, grad in updates:
        if not parameter.dtype.is_complex:
            real.append((parameter, grad))
            continue
        parts = view_as_real(parameter)
        real.append((parts, view_as_real(grad)))
        held: dict[str, Tensor] = {}
        complexes.append((parameter, parts, held))
        state = states.get(parameter)
        if state is not None:
            states[parts] = state
            for name, value in state.items():
                if isinstance(value, Tensor) and value.dtype.is_complex:
                    held[name] = value
                    state[name] = view_as_real(value)
    try:
        yield real
    finally:
        for parameter, parts, held in complexes:
            state = states.pop(parts, None)
            if state is not None:
                _give_back(state, parts, held)
                states[parameter] = state


def _give_back(state: dict[str, Any], parts: Tensor, held: dict[str, Tensor]) -> None:
    """Make the state of parts that of the complex parameter."""
    for name, value in state.items():
        if name in held and value.array is view_as_real(held[name]).array:
            state[name] = held[name]
        elif isinstance(value, Tensor) and value.shape == parts.shape:
            state[name] = view_as_complex(value)
