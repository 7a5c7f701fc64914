"""Version of the library, and of the platforms that it does not use."""

from __future__ import annotations

import vkbackend

__version__: str = vkbackend.__version__
version: str = vkbackend.__version__
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
debug = False
git_version = "unknown"

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "version", "xpu"]
