"""Seeds and states of the default generator, at PyTorch's address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .base.philox import (
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from .base.public_names import public_names as _public_names

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]


@contextmanager
def fork_rng(
    devices: Any = None, enabled: bool = True, device_type: str = "cuda"
) -> Iterator[None]:
    """Restore the default generator, which all devices share, after the block.

    Parameters
    ----------
    devices, device_type
        Have no effect: there is one generator.
    enabled : bool, default True
        False makes the block do nothing.
    """
    state = get_rng_state()
    try:
        yield
    finally:
        if enabled:
            set_rng_state(state)


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
