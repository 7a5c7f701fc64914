"""Datasets, samplers and loaders, at PyTorch's address; they are those of `data`."""

from ..base.late_modules import give_attributes as _give_attributes
from ..data import *  # noqa: F403 - the whole of it, whatever is added there
from ..data import __all__ as __all__

# A package for Python, as PyTorch's has `utils.data.dataset` and others below it.
__path__: list[str] = []

_give_attributes(__name__)
