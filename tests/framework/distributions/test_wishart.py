"""The distribution of Wishart beside PyTorch's."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.distributions.comparison import close
from vkbackend.framework.distributions import Wishart

ROOT = np.random.default_rng(0).standard_normal((2, 3, 3)).astype(np.float32)
COVARIANCE = ROOT @ ROOT.swapaxes(-1, -2) + np.eye(3, dtype=np.float32)
FORMS = {
    "covariance_matrix": COVARIANCE,
    "precision_matrix": COVARIANCE,
    "scale_tril": np.linalg.cholesky(COVARIANCE),
}


def made(library: Any, form: str, one: bool) -> Any:
    matrix = FORMS[form][0] if one else FORMS[form]
    df = 4.5 if one else library.tensor([3.5, 7.0])
    return library.distributions.Wishart(df, **{form: library.tensor(matrix)})


# PyTorch says so of every draw.
@pytest.mark.filterwarnings("ignore:Singular sample detected")
@pytest.mark.parametrize("one", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_as_in_torch(form: str, one: bool) -> None:
    found, expected = made(fw, form, one), made(torch, form, one)
    for name in ("mean", "variance", "scale_tril", "covariance_matrix"):
        close(getattr(found, name), getattr(expected, name))
    np.testing.assert_allclose(found.mode.numpy(), expected.mode.numpy(), 1e-4)
    close(found.entropy(), expected.entropy())
    torch.manual_seed(0)
    value = expected.sample((5,))
    close(found.log_prob(fw.tensor(value.numpy())), expected.log_prob(value))
    larger = (4, *found.batch_shape)
    close(found.expand(larger).entropy(), expected.expand(larger).entropy())
    assert found.event_shape == (3, 3)


def test_draws_and_their_gradients() -> None:
    fw.manual_seed(0)
    found = made(fw, "covariance_matrix", False)
    drawn = found.sample((3000,))
    assert tuple(drawn.shape) == (3000, 2, 3, 3)
    assert found.support.check(drawn).all().item()
    error = np.sqrt(found.variance.numpy() / 3000)
    assert (np.abs(drawn.numpy().mean(0) - found.mean.numpy()) < 5 * error).all()
    tril = fw.tensor(FORMS["scale_tril"][0], requires_grad=True)
    Wishart(5.0, scale_tril=tril).rsample().sum().backward()
    assert tril.grad is not None
    assert tril.grad.isfinite().all().item()


def test_wrong_arguments() -> None:
    matrix = fw.eye(3)
    with pytest.raises(AssertionError, match="2 of covariance_matrix"):
        Wishart(4.0, matrix, matrix)
    with pytest.raises(ValueError, match="must be above n - 1 = 2"):
        Wishart(2.0, matrix)
    with pytest.raises(ValueError, match="at least 2 dimensions"):
        Wishart(2.0, fw.ones(3))
    with pytest.warns(UserWarning, match="below n = 3"):
        Wishart(2.5, matrix)
