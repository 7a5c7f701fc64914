"""Datasets, samplers and loaders, at PyTorch's address; they are those of `data`."""

from ..data import *  # noqa: F403 - the whole of it, whatever is added there
from ..data import __all__ as __all__
