"""Comparison of distributions with PyTorch's: what is known of each, and its draws."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

import vkbackend.framework as fw
from vkbackend.framework import distributions

# Means of so many draws are compared with the distribution's, in units of their error.
DRAWS, MOST_ERRORS = 2000, 5.0
TOLERANCE = 1e-4


def positive(*shape: int, low: float = 0.3, seed: int = 0) -> np.ndarray:
    """Return numbers from `low` to 1.5 more."""
    numbers = np.random.default_rng(seed).random(shape) * 1.5 + low
    return numbers.astype(np.float32)


def real(*shape: int, seed: int = 1) -> np.ndarray:
    """Return numbers around 0."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def shares(*shape: int, seed: int = 2) -> np.ndarray:
    """Return numbers from 0.1 to 0.9."""
    numbers = np.random.default_rng(seed).random(shape) * 0.8 + 0.1
    return numbers.astype(np.float32)


def pair(name: str, *arguments: Any, device: str = "cpu", **keywords: Any) -> Any:
    """Return a distribution of this library, and PyTorch's, of the same parameters."""

    def ours(value: Any) -> Any:
        is_array = isinstance(value, np.ndarray)
        return fw.tensor(value, device=device) if is_array else value

    def theirs(value: Any) -> Any:
        return torch.from_numpy(value) if isinstance(value, np.ndarray) else value

    made = getattr(distributions, name)(
        *map(ours, arguments), **{key: ours(value) for key, value in keywords.items()}
    )
    expected = getattr(torch.distributions, name)(
        *map(theirs, arguments),
        **{key: theirs(value) for key, value in keywords.items()},
    )
    return made, expected


def close(found: Any, expected: Any) -> None:
    """Check that two results have the same shape, dtype and values."""
    assert tuple(found.shape) == tuple(expected.shape)
    assert found.dtype.name == str(expected.dtype).removeprefix("torch.")
    np.testing.assert_allclose(
        found.detach().numpy(), expected.detach().numpy(), TOLERANCE, TOLERANCE
    )


def check(
    name: str,
    *arguments: Any,
    device: str = "cpu",
    differs: Mapping[str, Any] = {},
    **keywords: Any,
) -> None:
    """Compare what PyTorch knows of a distribution, but for names that differ."""
    made, expected = pair(name, *arguments, device=device, **keywords)
    assert made.batch_shape == tuple(expected.batch_shape)
    assert made.event_shape == tuple(expected.event_shape)
    assert made.has_rsample is expected.has_rsample
    assert made.has_enumerate_support is expected.has_enumerate_support
    torch.manual_seed(0)
    drawn = expected.sample((5,))
    probabilities = torch.from_numpy(shares(5, *expected.batch_shape))
    for method, argument in (
        *((each, None) for each in ("mean", "mode", "variance", "stddev")),
        *((each, None) for each in ("entropy", "enumerate_support")),
        ("log_prob", drawn),
        ("cdf", drawn),
        ("icdf", probabilities),
    ):
        if method not in differs:
            _check_one(made, expected, method, argument, device)
    larger = (2, *made.batch_shape)
    values = fw.tensor(drawn[:2].numpy(), device=device)
    close(made.expand(larger).log_prob(values), expected.log_prob(drawn[:2]))
    _check_draws(made, expected)


def _check_one(
    made: Any, expected: Any, method: str, argument: Any, device: str
) -> None:
    try:
        want = getattr(expected, method)
        if callable(want):
            want = want() if argument is None else want(argument)
    except (NotImplementedError, AttributeError):
        return
    got = getattr(made, method)
    if callable(got):
        given = (
            fw.tensor(argument.numpy(), device=device) if argument is not None else 0
        )
        got = got() if argument is None else got(given)
    close(got, want)


def _check_draws(made: Any, expected: Any) -> None:
    fw.manual_seed(3)
    drawn = made.sample((DRAWS,))
    assert tuple(drawn.shape) == (DRAWS, *made.batch_shape, *made.event_shape)
    assert not drawn.requires_grad
    assert drawn.dtype.name == str(expected.sample().dtype).removeprefix("torch.")
    assert made.support.check(drawn).all().item()
    try:
        mean, variance = expected.mean.numpy(), expected.variance.numpy()
    except (NotImplementedError, AttributeError):
        return
    if np.isfinite(variance).all():
        error = np.sqrt(variance / DRAWS) + 1e-6
        apart = np.abs(drawn.numpy().mean(0, dtype=np.float64) - mean)
        assert (apart < MOST_ERRORS * error).all()
