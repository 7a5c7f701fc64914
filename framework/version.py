"""Version of the library, and of the platforms that it does not use."""

from __future__ import annotations

import vkbackend

from .base.public_names import public_names as _public_names

__version__: str = vkbackend.__version__
version: str = vkbackend.__version__
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
debug = False
git_version = "unknown"

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "version", "xpu"]


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
