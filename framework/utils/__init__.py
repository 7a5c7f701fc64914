"""Tools around training, at PyTorch's addresses: `utils.data`, `utils.checkpoint`."""

from . import checkpoint as checkpoint
from . import data as data

__all__ = ["checkpoint", "data"]
