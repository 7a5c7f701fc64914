"""Version of PyTorch whose interface the framework has, with the library's own.

Programs choose by `torch.__version__` what they may call, so that the framework says
which PyTorch it follows; the local part of the version is `vkbackend.__version__`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

import vkbackend

from .base.public_names import public_names as _public_names

# The numbers of a release, and what makes a version an earlier one than its release.
_RELEASE = re.compile(r"v?(\d+(?:\.\d+)*)((?:\.dev|a|b|rc)\d*)?")


def _ordered(version: object) -> tuple[tuple[int, ...], bool, str] | None:
    """Return what a version is ordered by; None of what is no version."""
    if isinstance(version, tuple | list):
        version = ".".join(map(str, version))
    found = _RELEASE.match(str(version))
    if found is None:
        return None
    numbers = [int(each) for each in found[1].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers), found[2] is None, found[2] or ""


def _comparison(
    compare: Callable[[Any, Any], bool],
) -> Callable[[TorchVersion, object], bool]:
    def method(self: TorchVersion, other: object) -> bool:
        theirs = _ordered(other)
        if theirs is None:
            return bool(compare(str(self), str(other)))
        return bool(compare(_ordered(self), theirs))

    return method


class TorchVersion(str):
    """Version that is compared by its numbers, also with texts and tuples.

    Examples
    --------
    >>> TorchVersion("2.13.0+local") >= (2, 4)
    True
    >>> TorchVersion("2.13.0") > "2.9"
    True
    """

    __lt__ = _comparison(operator.lt)
    __le__ = _comparison(operator.le)
    __gt__ = _comparison(operator.gt)
    __ge__ = _comparison(operator.ge)
    __eq__ = _comparison(operator.eq)
    __ne__ = _comparison(operator.ne)
    __hash__ = str.__hash__


__version__ = TorchVersion(f"2.13.0+vkbackend.{vkbackend.__version__}")
version: str = str(__version__)
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
debug = False
git_version = "unknown"

__all__ = [
    "TorchVersion",
    "__version__",
    "cuda",
    "debug",
    "git_version",
    "hip",
    "version",
    "xpu",
]


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
