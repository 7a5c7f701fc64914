"""Gradient check against finite differences, in a random direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..autograd.engine import backward, no_grad
from ..base.device import CPU
from ..base.errors import GradError
from ..tensor.tensor import Tensor

STEP = 1e-6
"""Step of the float64 central difference: near the cube root of its precision."""

TOLERANCES = {
    # The difference itself is off by STEP^2, and by the rounding 1e-16 / STEP.
    "float64": 1e-7,
    # Gradients computed in the others: some hundred roundings.
    "float32": 1e-4,
    "float16": 5e-2,
    "bfloat16": 4e-1,
}
"""Largest relative error by dtype of the inputs."""


def gradcheck(
    function: Callable[..., Any],
    inputs: Sequence[Tensor],
    *,
    seed: int = 0,
    tolerance: float | None = None,
) -> None:
    """Check the gradients of a function of tensors; return if they are right.

    The outputs are weighted at random and summed. The derivative of that number along a
    random direction of all inputs is computed twice: by `backward` on the inputs'
    device and in their dtypes, and by a central difference on the host in float64. So
    the step limits nothing, and two evaluations suffice whatever the sizes.

    Parameters
    ----------
    function : callable
        From tensors to a tensor, or a sequence of them, of which the float ones are
        checked. It must be pure, and compute on the device and in the dtype of its
        arguments.
    inputs : sequence of Tensor
        Those that require a gradient are varied; the others are constants.
    seed : int, default 0
        For the weights and the direction.
    tolerance : float or None
        Largest error relative to the derivative's typical size; None takes it from
        `TOLERANCES` by the least precise dtype of the inputs.

    Raises
    ------
    GradError
        If the two differ, or no input requires a gradient.

    Examples
    --------
    >>> x = Tensor([0.5, 1.5], dtype="float64", requires_grad=True)
    >>> gradcheck(lambda x: (x * x).exp(), [x])
    """
    varied = [k for k, tensor in enumerate(inputs) if tensor.requires_grad]
    if not varied:
        raise GradError(
            "gradcheck: no input requires a gradient; set requires_grad=True on one"
        )
    rng = np.random.default_rng(seed)
    directions = {k: rng.standard_normal(inputs[k].shape) for k in varied}
    outputs = _outputs(function(*inputs))
    weights = [rng.standard_normal(output.shape) for output in outputs]
    terms = _derivative(inputs, outputs, weights, directions)
    above = _weighted_sum(function, inputs, weights, directions, STEP)
    below = _weighted_sum(function, inputs, weights, directions, -STEP)
    wanted = (above - below) / (2 * STEP)
    if tolerance is None:
        tolerance = max(TOLERANCES[inputs[k].dtype.name] for k in varied)
    # Terms of either sign may cancel, so their length is the scale of the error.
    allowed = tolerance * max(1.0, float(np.linalg.norm(terms)))
    found = float(terms.sum())
    if not abs(found - wanted) <= allowed:
        raise GradError(
            f"gradcheck: along a random direction (seed {seed}) backward gives"
            f" {found:.9g} and finite differences {wanted:.9g}; they may differ by"
            f" {allowed:.3g}"
        )


def _outputs(answer: Any) -> list[Tensor]:
    """Return the outputs that can have gradients: indices and counts cannot."""
    found = list(answer) if isinstance(answer, tuple | list) else [answer]
    return [output for output in found if output.dtype.is_float]


def _derivative(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    weights: Sequence[np.ndarray],
    directions: dict[int, np.ndarray],
) -> np.ndarray:
    """Return the products of gradient and direction, whose sum is the derivative."""
    seeds = [
        Tensor.from_data(weight, output.dtype, output.device)
        for weight, output in zip(weights, outputs)
    ]
    varied = [inputs[k] for k in directions]
    grads = backward(outputs, seeds, inputs=varied, retain_graph=True)
    terms = [
        np.ravel(grad.host_copy() * direction)
        for grad, direction in zip(grads, directions.values())
        if grad is not None
    ]
    return np.concatenate(terms) if terms else np.zeros(1)


def _weighted_sum(
    function: Callable[..., Any],
    inputs: Sequence[Tensor],
    weights: Sequence[np.ndarray],
    directions: dict[int, np.ndarray],
    step: float,
) -> float:
    """Return the weighted sum of outputs, `step` away, in float64 on the host."""
    moved = [
        Tensor.from_data(tensor.host_copy().astype(np.float64) + step * directions[k])
        if k in directions
        else _on_host(tensor)
        for k, tensor in enumerate(inputs)
    ]
    with no_grad():
        outputs = _outputs(function(*moved))
    return sum(
        float((output.host_copy() * weight).sum())
        for output, weight in zip(outputs, weights)
    )


def _on_host(tensor: Tensor) -> Tensor:
    """Return a constant input for the float64 evaluation."""
    host = tensor.detach().to(CPU)
    return host.double() if tensor.dtype.is_float else host
