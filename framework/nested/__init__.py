"""Nested tensors of sequences of different lengths; PyTorch's `torch.nested`."""

from .construct import as_nested_tensor as as_nested_tensor
from .construct import nested_tensor as nested_tensor
from .construct import nested_tensor_from_jagged as nested_tensor_from_jagged
from .construct import to_padded_tensor as to_padded_tensor
from .nested_tensor import NestedTensor as NestedTensor
from .rules import elementwise as _elementwise  # noqa: F401  # the class has its rules then
