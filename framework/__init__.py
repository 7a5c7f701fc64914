"""Tensors, autograd and neural networks on any Vulkan GPU."""

from __future__ import annotations

from . import data, nn, ops, optim
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
from .serialize import load, save
from .tensor import Tensor

__all__ = [
    "Tensor",
    "arange",
    "bool_",
    "data",
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
    "load",
    "manual_seed",
    "nn",
    "no_grad",
    "ones",
    "ones_like",
    "ops",
    "optim",
    "rand",
    "randn",
    "save",
    "set_grad_enabled",
    "tensor",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "zeros",
    "zeros_like",
]
