"""Which kernel of attention a program asks for: the library chooses itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(Enum):
    """Kernels of attention that PyTorch has."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Return a block in which nothing changes: attention chooses its kernel itself.

    Parameters
    ----------
    backends : SDPBackend or list of SDPBackend
    set_priority : bool, default False
        Has no effect.

    Raises
    ------
    AssertionError
        If something else is given.
    """
    listed = backends if isinstance(backends, list) else [backends]
    if not all(isinstance(each, SDPBackend) for each in listed):
        raise AssertionError(
            f"sdpa_kernel: backends is {backends!r}; it must be an SDPBackend or a list"
            " of them"
        )
    yield
