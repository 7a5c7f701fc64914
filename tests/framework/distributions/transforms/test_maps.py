"""Transforms: values, inverses and Jacobians as PyTorch's."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.distributions as theirs

import vkbackend.framework as fw
import vkbackend.framework.distributions as ours
from tests.framework.distributions.comparison import close, positive, real

MADE: dict[str, tuple[Any, np.ndarray]] = {
    "exp": (lambda d: d.ExpTransform(), real(3)),
    "power": (lambda d: d.PowerTransform(2.0), positive(3)),
    "sigmoid": (lambda d: d.SigmoidTransform(), real(3)),
    "softplus": (lambda d: d.SoftplusTransform(), real(3)),
    "tanh": (lambda d: d.TanhTransform(), real(3)),
    "affine": (lambda d: d.AffineTransform(0.5, -3.0), real(3)),
    "affine of vectors": (lambda d: d.AffineTransform(0.5, -3.0, 1), real(2, 3)),
    "stick breaking": (lambda d: d.StickBreakingTransform(), real(2, 3)),
    "reshape": (lambda d: d.ReshapeTransform((6,), (2, 3)), real(4, 6)),
    "independent": (
        lambda d: d.IndependentTransform(d.ExpTransform(), 1),
        real(2, 3),
    ),
    "stack": (
        lambda d: d.StackTransform([d.ExpTransform(), d.TanhTransform()], 0),
        real(2, 3),
    ),
    "cat": (
        lambda d: d.CatTransform([d.ExpTransform(), d.TanhTransform()], 0, [1, 2]),
        real(3, 2),
    ),
    "compose": (
        lambda d: d.ComposeTransform([d.AffineTransform(1.0, 2.0), d.ExpTransform()]),
        real(3),
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_as_in_torch(name: str) -> None:
    make, values = MADE[name]
    made, expected = make(ours), make(theirs)
    x, given = fw.tensor(values), torch.tensor(values)
    y = made(x)
    close(y, expected(given))
    close(made.inv(y), expected.inv(expected(given)))
    close(
        made.log_abs_det_jacobian(x, y),
        expected.log_abs_det_jacobian(given, expected(given)),
    )
    assert made.domain.event_dim == expected.domain.event_dim
    assert made.codomain.event_dim == expected.codomain.event_dim
    assert made.bijective == expected.bijective


def test_softmax_and_lower_cholesky() -> None:
    for name, values in (("Softmax", real(2, 3)), ("LowerCholesky", real(2, 3, 3))):
        made = getattr(ours, f"{name}Transform")()
        expected = getattr(theirs, f"{name}Transform")()
        close(made(fw.tensor(values)), expected(torch.tensor(values)))
