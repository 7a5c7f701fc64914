"""Blocks of mixed precision: `autocast`, and what a thread is in.

What operations make of it is in `conversion`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ContextDecorator, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from .dtype import DType, DTypeLike, as_dtype, bfloat16, float16
from .errors import DTypeError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


class _Local(threading.local):
    dtype: DType | None = None
    copies: dict[Any, Any] | None = None


here = _Local()
"""The innermost block's dtype, and the copies of parameters made in the outermost."""

entered = 0
"""Blocks entered in all threads: a quick test for the common case that none is."""

_counting = threading.Lock()


class autocast(ContextDecorator):  # noqa: N801 - PyTorch's name
    """A block, or function, in which matrix products run in 16 bits.

    Parameters: the weights, optimizer and whatever loses precision stay in float32.
    Call `backward` outside of the block, with `GradScaler` if the dtype is float16.

    Parameters
    ----------
    dtype : DType or str, default float16
        float16 or bfloat16.
    enabled : bool, default True
        False switches the blocks around this one off.
    cache_enabled : bool, default True
        Whether a parameter that is used more than once is cast once, until it changes
        or the outermost block ends.

    Raises
    ------
    DTypeError
        If the dtype is another one. Where the device cannot store it, the first product
        says so.

    Notes
    -----
    Blocks belong to a thread. Under `jit` they may be inside of the function or around
    its calls, which are then of another kind.

    Examples
    --------
    >>> a = fw.ones((2, 2))
    >>> with fw.autocast(fw.bfloat16):
    ...     (a @ a).dtype.name, (a @ a).softmax(-1).dtype.name
    ('bfloat16', 'float32')
    """

    def __init__(
        self,
        dtype: DTypeLike = float16,
        enabled: bool = True,
        cache_enabled: bool = True,
    ) -> None:
        wanted = as_dtype(dtype)
        if wanted not in (float16, bfloat16):
            raise DTypeError(
                f"autocast: dtype is {wanted.name}; it must be float16 or bfloat16"
            )
        self._dtype = wanted if enabled else None
        self._cache = cache_enabled
        self._before: list[tuple[DType | None, Any]] = []

    def _recreate_cm(self) -> autocast:
        # As a decorator: each call has a block of its own.
        return autocast(self._dtype or float16, self._dtype is not None, self._cache)

    def __enter__(self) -> autocast:
        global entered
        self._before.append((here.dtype, here.copies))
        here.dtype = self._dtype
        if not self._cache:
            here.copies = None
        elif here.copies is None:
            here.copies = {}
        with _counting:
            entered += 1
        return self

    def __exit__(self, *raised: object) -> None:
        global entered
        with _counting:
            entered -= 1
        here.dtype, here.copies = self._before.pop()


def is_autocast_enabled() -> bool:
    """Return whether operations choose their dtype in this thread; see `autocast`."""
    return autocast_dtype() is not None


def autocast_dtype() -> DType | None:
    """Return the dtype of products in this thread's block, or None outside of one."""
    return here.dtype if entered else None


@contextmanager
def _as_they_come() -> Iterator[None]:
    before, here.dtype = here.dtype, None
    try:
        yield
    finally:
        here.dtype = before


def as_they_come() -> AbstractContextManager[None]:
    """Return a block in which operations take tensors in the dtypes that they have."""
    return nullcontext() if autocast_dtype() is None else _as_they_come()


@contextmanager
def apart() -> Iterator[None]:
    """Neither use nor leave copies of parameters: what is inside may run elsewhere."""
    before = here.copies
    here.copies = None if before is None else {}
    try:
        yield
    finally:
        here.copies = before
