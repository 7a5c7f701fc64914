"""Tools around training, at PyTorch's addresses: `utils.data`."""

from . import data as data

__all__ = ["data"]
