"""Tensors, autograd and neural networks on any Vulkan GPU."""

from __future__ import annotations

from . import ops
from .autograd import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .core import evaluate as eval
from .creation import (
    arange,
    from_numpy,
    full,
    full_like,
    ones,
    ones_like,
    rand,
    randn,
    tensor,
    zeros,
    zeros_like,
)
from .device import device, devices
from .dtype import (
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .rng import manual_seed
from .tensor import Tensor

__all__ = [
    "Tensor",
    "arange",
    "bool_",
    "device",
    "devices",
    "enable_grad",
    "eval",
    "float16",
    "float32",
    "float64",
    "from_numpy",
    "full",
    "full_like",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_grad_enabled",
    "manual_seed",
    "no_grad",
    "ones",
    "ones_like",
    "ops",
    "rand",
    "randn",
    "set_grad_enabled",
    "tensor",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "zeros",
    "zeros_like",
]
