"""A function of nn.functional beside PyTorch's: result and gradients."""

from typing import Any, NamedTuple

import numpy as np
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.base.device import Device
from vkbackend.framework.nn import functional


class Fixed(NamedTuple):
    """An array that no gradient is computed for."""

    array: np.ndarray


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    """Return float32 draws from a normal distribution."""
    rng = np.random.default_rng(seed + len(shape))
    return rng.normal(size=shape).astype(np.float32)


def beside(
    name: str,
    place: Device,
    *arguments: Any,
    scale: float = 4.0,
    module: Any = functional,
    twin: Any = torch.nn.functional,
    **options: Any,
) -> None:
    """Check value, dtype and shape of all results, and gradients of float arrays.

    `scale` is the tolerance's factor, for sums of a few dozen terms.
    """
    theirs, ours = (
        [_tensor(each, where) for each in arguments] for where in (None, place)
    )
    rest = [
        {key: _tensor(value, where, False) for key, value in options.items()}
        for where in (None, place)
    ]
    expected = getattr(twin, name)(*theirs, **rest[0])
    found = getattr(module, name)(*ours, **rest[1])
    several = isinstance(expected, tuple)
    pairs = list(zip(found, expected)) if several else [(found, expected)]
    for one, other in pairs:
        if other is None:
            assert one is None
            continue
        assert_close(one, other.detach().numpy(), scale=scale)
    found, expected = pairs[0]
    if not expected.requires_grad:
        return
    weights = np.linspace(-1, 1, expected.numel(), dtype=np.float32)
    weights = weights.reshape(tuple(expected.shape))
    (expected * torch.tensor(weights)).sum().backward()
    (found * fw.tensor(weights, device=place)).sum().backward()
    for one, other in zip(ours, theirs):
        if isinstance(other, torch.Tensor) and other.grad is not None:
            if one.grad is None:  # nothing reached it, which PyTorch may say by zeros
                assert not other.grad.any()
                continue
            assert_close(one.grad, other.grad.numpy(), scale=4 * scale)


def _tensor(value: Any, place: Device | None, grad: bool = True) -> Any:
    """Return an array as a tensor of ours, or of PyTorch's where there is no place."""
    if isinstance(value, Fixed):
        value, grad = value.array, False
    if not isinstance(value, np.ndarray):
        return value
    wanted = grad and value.dtype.kind == "f"
    if place is None:
        return torch.tensor(value, requires_grad=wanted)
    return fw.tensor(value, device=place, requires_grad=wanted)
