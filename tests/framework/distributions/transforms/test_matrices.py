"""Transforms onto matrices: values, inverses and Jacobians as PyTorch's."""

import numpy as np
import pytest
import torch
import torch.distributions as theirs

import vkbackend.framework as fw
import vkbackend.framework.distributions as ours
from tests.framework.distributions.comparison import close, real


@pytest.mark.parametrize("count", [1, 3, 10])
def test_factors_of_correlations(count: int) -> None:
    values = real(2, count)
    made, expected = ours.CorrCholeskyTransform(), theirs.CorrCholeskyTransform()
    x, given = fw.tensor(values), torch.tensor(values)
    y, wanted = made(x), expected(given)
    close(y, wanted)
    close(made.inv(y), expected.inv(wanted))
    close(made.log_abs_det_jacobian(x, y), expected.log_abs_det_jacobian(given, wanted))
    assert made.forward_shape(values.shape) == expected.forward_shape(given.shape)
    assert made.inverse_shape(y.shape) == tuple(expected.inverse_shape(wanted.shape))


@pytest.mark.parametrize("shape", [(), (2,), (4, 5)])
def test_shapes_of_no_triangle(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"dimension|not a flattened"):
        theirs.CorrCholeskyTransform().forward_shape(shape)
    with pytest.raises(ValueError, match=r"1 dimension|must be n"):
        ours.CorrCholeskyTransform().forward_shape(shape)
    with pytest.raises(ValueError, match="last two sizes"):
        ours.CorrCholeskyTransform().inverse_shape(shape)


def test_positive_definite() -> None:
    values = real(2, 3, 3)
    made, expected = (
        ours.PositiveDefiniteTransform(),
        theirs.PositiveDefiniteTransform(),
    )
    y, wanted = made(fw.tensor(values)), expected(torch.tensor(values))
    close(y, wanted)
    close(made.inv(y), expected.inv(wanted))
    assert made == ours.PositiveDefiniteTransform()


def test_the_gradient_of_a_factor() -> None:
    values = real(3)
    x, given = fw.tensor(values), torch.tensor(values)
    ours.CorrCholeskyTransform()(x.requires_grad_()).square().cumsum(
        -1
    ).sum().backward()
    wanted = theirs.CorrCholeskyTransform()(given.requires_grad_())
    wanted.square().cumsum(-1).sum().backward()
    assert x.grad is not None
    assert given.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), given.grad.numpy(), 1e-4, 1e-4)
