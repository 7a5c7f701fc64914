"""Tools around training, at PyTorch's addresses: `utils.data`, `utils.checkpoint`."""

from ..base.late_modules import give_attributes as _give_attributes
from . import checkpoint as checkpoint
from . import data as data
from .tensor_swap import swap_tensors as swap_tensors

__all__ = ["checkpoint", "data", "swap_tensors"]

_give_attributes(__name__)
