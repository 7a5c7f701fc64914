"""Blocks of mixed precision: `autocast`, and what a thread is in.

What operations make of it is in `dispatch.autocast_policy`.
"""

from __future__ import annotations

import sys
import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from vkbackend import fork_safety

from .dtype import DType, DTypeLike, as_dtype, bfloat16, float16
from .errors import DTypeError
from .scoped_setting import Block, Link, Setting

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


class Here(NamedTuple):
    """What a thread is in.

    Attributes
    ----------
    dtype : DType or None
        Of the innermost block.
    copies : dict or None
        Copies of parameters made in the outermost block.
    """

    dtype: DType | None = None
    copies: dict[Any, Any] | None = None


here = Setting(Here())
"""A `Here`."""

entered = 0
"""Blocks entered in all threads: a quick test for the common case that none is."""

# A number alone would be wrong for good where an interrupt comes beside it.
_counted: set[Link] = set()
# Signal handlers, too, may enter blocks.
_counting = threading.RLock()
fork_safety.renew(sys.modules[__name__], "_counting", threading.RLock)


class autocast(Block):  # noqa: N801 - PyTorch's name
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
        super().__init__(here, None)
        self._dtype = wanted if enabled else None
        self._cache = cache_enabled

    def _recreate_cm(self) -> autocast:
        # As a decorator: each call has a block of its own.
        return autocast(self._dtype or float16, self._dtype is not None, self._cache)

    def value(self, outer: Here) -> Here:
        """Return what the thread is in within the block."""
        known = {} if outer.copies is None else outer.copies
        return Here(self._dtype, known if self._cache else None)

    def begun(self, link: Link) -> None:
        """Count it."""
        global entered
        with _counting:
            _counted.add(link)
            entered = len(_counted)

    def ended(self, link: Link) -> None:
        """Count it no longer."""
        global entered
        with _counting:
            _counted.discard(link)
            entered = len(_counted)


def is_autocast_enabled() -> bool:
    """Return whether operations choose their dtype in this thread; see `autocast`."""
    return autocast_dtype() is not None


def autocast_dtype() -> DType | None:
    """Return the dtype of products in this thread's block, or None outside of one."""
    found: Here = here.top.value
    return found.dtype if entered else None


class _AsTheyCome(Block):
    def value(self, outer: Here) -> Here:
        return outer._replace(dtype=None)


def as_they_come() -> AbstractContextManager[object]:
    """Return a block in which operations take tensors in the dtypes that they have."""
    return nullcontext() if autocast_dtype() is None else _AsTheyCome(here, None)


class _Apart(Block):
    def value(self, outer: Here) -> Here:
        return outer._replace(copies=None if outer.copies is None else {})


def apart() -> AbstractContextManager[object]:
    """Neither use nor leave copies of parameters: what is inside may run elsewhere."""
    return _Apart(here, None)
