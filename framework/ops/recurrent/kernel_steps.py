"""Steps of recurrent layers by kernels: one for a step, with its product and cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...autograd.engine import is_grad_enabled
from ...base.device import GpuDevice
from ...base.dtype import SINGLE, float32
from ...base.shape import TensorSpec
from ...dispatch import batching
from ...dispatch.declare import primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.recurrent import backward_dispatches, steps_fit
from ..elementwise.cast import cast
from ..elementwise.compare import ne, where

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


def by_kernel(gates: Tensor, h0: Tensor) -> bool:
    """Return whether kernels take the steps: nothing is to be recorded.

    Parameters
    ----------
    gates : Tensor, shape (steps, batch, gates of a unit * units)
    h0 : Tensor, shape (batch, units)
    """
    device, (batch, units) = gates.device, h0.layout.shape
    if not isinstance(device, GpuDevice) or not gates.numel():
        return False
    if batching.transforming() or is_grad_enabled():
        return False
    parts = gates.layout.shape[-1] // units
    return steps_fit(device.gpu.info, gates.dtype, batch, units, parts)


def as_numbers(mask: Tensor | None, like: Tensor) -> Tensor | None:
    """Return a mask of steps as 0 and 1 of the dtype of the gates."""
    return None if mask is None else cast(mask, like.dtype)


def left_by(mask: Tensor | None, like: Tensor) -> Tensor | None:
    """Return what steps leave of states: 1 where a sequence has ended, otherwise 0."""
    return None if mask is None else 1 - cast(mask, like.dtype)


@primitive(
    dtypes=SINGLE,
    outputs=("of_gates", "hidden"),
    typed="grad",
)
def _state_gradients(
    grad: Tensor, weight: Tensor, by_state: Tensor, kept: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return gradients of the gates and of the states of all steps of a layer.

    Parameters
    ----------
    grad : Tensor, shape (steps, batch, units)
        Of the states after each step.
    weight : Tensor, shape (units, gates * units)
        From the gates to the states before them.
    by_state : Tensor, shape (steps, batch, gates, units)
        Derivatives of a unit's state by the products in its gates.
    kept : Tensor, shape (steps, batch, 1 or units), or None
        Shares of the states before that a step leaves.

    Returns
    -------
    (Tensor, Tensor)
        Shapes (steps, batch, gates * units) and (steps, batch, units).

    Notes
    -----
    Source: Werbos, Proceedings of the IEEE 78 (1990).
    """


@_state_gradients.spec
def _state_gradients_spec(
    grad: TensorSpec, weight: TensorSpec, by_state: TensorSpec, **_: object
) -> tuple[TensorSpec, TensorSpec]:
    return TensorSpec((*grad.shape[:2], weight.shape[1]), grad.dtype), grad


@_state_gradients.kernel
def _state_gradients_kernel(
    gpu: DeviceInfo,
    grad: StridedSpec,
    weight: StridedSpec,
    by_state: StridedSpec,
    kept: StridedSpec | None,
) -> list[Dispatch]:
    return backward_dispatches(gpu, grad, by_state, kept, False)


@_state_gradients.reference
def _state_gradients_reference(
    grad: np.ndarray,
    weight: np.ndarray,
    by_state: np.ndarray,
    kept: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    steps, batch, parts, units = by_state.shape
    of_gates = np.empty((steps, batch, parts * units), grad.dtype)
    hidden, after = np.empty_like(grad), np.zeros_like(grad[:1].sum(0))
    for step in reversed(range(steps)):
        hidden[step] = grad[step] + after
        by_gate = hidden[step][:, None] * by_state[step]
        of_gates[step] = by_gate.reshape(batch, parts * units)
        after = of_gates[step] @ weight.T
        if kept is not None:
            after += kept[step] * hidden[step]
    return of_gates, hidden


@primitive(
    dtypes=SINGLE,
    outputs=("of_gates", "hidden", "cells"),
    typed="grad",
)
def _cell_gradients(
    grad: Tensor,
    weight: Tensor,
    by_state: Tensor,
    by_cell: Tensor,
    through: Tensor,
    forget: Tensor,
    kept: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return `_state_gradients` of an LSTM, and those of its cells before all steps.

    Parameters
    ----------
    grad : Tensor, shape (steps, batch, 2 * units)
        Of the states, then of the cells after each step.
    weight, by_state, kept : Tensor
        See `_state_gradients`.
    by_cell : Tensor, shape (steps, batch, gates, units)
        Derivatives of a unit's cell by the products in its gates.
    through, forget : Tensor, shape (steps, batch, units)
        Derivatives of a unit's state by its cell, and of that by the cell before.

    Returns
    -------
    (Tensor, Tensor, Tensor)
        The last one, of shape (batch, units), is float32.

    Notes
    -----
    Source: Werbos, Proceedings of the IEEE 78 (1990).
    """


@_cell_gradients.spec
def _cell_gradients_spec(
    grad: TensorSpec, weight: TensorSpec, by_state: TensorSpec, **others: object
) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    steps, batch, _, units = by_state.shape
    return (
        TensorSpec((steps, batch, weight.shape[1]), grad.dtype),
        TensorSpec((steps, batch, units), grad.dtype),
        TensorSpec((batch, units), float32),
    )


@_cell_gradients.kernel
def _cell_gradients_kernel(
    gpu: DeviceInfo,
    grad: StridedSpec,
    weight: StridedSpec,
    by_state: StridedSpec,
    by_cell: StridedSpec,
    through: StridedSpec,
    forget: StridedSpec,
    kept: StridedSpec | None,
) -> list[Dispatch]:
    return backward_dispatches(gpu, grad, by_state, kept, True)


@_cell_gradients.reference
def _cell_gradients_reference(
    grad: np.ndarray,
    weight: np.ndarray,
    by_state: np.ndarray,
    by_cell: np.ndarray,
    through: np.ndarray,
    forget: np.ndarray,
    kept: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    steps, batch, parts, units = by_state.shape
    of_gates = np.empty((steps, batch, parts * units), grad.dtype)
    hidden = np.empty((steps, batch, units), grad.dtype)
    after = cells = np.zeros((batch, units), grad.dtype)
    for step in reversed(range(steps)):
        state = hidden[step] = grad[step, :, :units] + after
        cells = grad[step, :, units:] + cells
        by_gate = state[:, None] * by_state[step] + cells[:, None] * by_cell[step]
        of_gates[step] = by_gate.reshape(batch, parts * units)
        cells = (state * through[step] + cells) * forget[step]
        after = of_gates[step] @ weight.T
        if kept is not None:
            after = after + kept[step] * state
    return of_gates, hidden, cells


def last_gradient(
    of_gates: Tensor, hidden: Tensor, weight: Tensor, kept: Tensor | None
) -> Tensor:
    """Return the gradient of the states before all steps.

    Parameters
    ----------
    of_gates, hidden : Tensor
        What `_state_gradients` returned.
    weight : Tensor, shape (gates * units, units)
        From the states to the gates.
    kept : Tensor or None
        As in `_state_gradients`.
    """
    passed = of_gates[0] @ weight
    if kept is None:
        return passed
    # What is not kept may be infinite.
    return passed + where(ne(kept[0], 0), kept[0] * hidden[0], 0.0)
