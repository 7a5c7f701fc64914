"""Tools around training, at PyTorch's addresses: `utils.data`, `utils.checkpoint`."""

from . import checkpoint as checkpoint
from . import data as data
from .tensor_swap import swap_tensors as swap_tensors

__all__ = ["checkpoint", "data", "swap_tensors"]
