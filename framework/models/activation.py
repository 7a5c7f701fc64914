"""Activations by the names that configurations of models give them."""

from __future__ import annotations

from collections.abc import Callable

from .. import ops
from ..nn import functional
from ..tensor.tensor import Tensor
from .config import ModelConfig


def _gelu_tanh(x: Tensor) -> Tensor:
    return functional.gelu(x, approximate="tanh")


def _quick_gelu(x: Tensor) -> Tensor:
    return x * ops.sigmoid(x * 1.702)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "gelu_fast": _gelu_tanh,
    "gelu_new": _gelu_tanh,
    "gelu_pytorch_tanh": _gelu_tanh,
    "quick_gelu": _quick_gelu,
    "relu": functional.relu,
    "silu": functional.silu,
    "tanh": ops.tanh,
}
"""Functions by name."""


def activation_name(config: ModelConfig, name: str, default: str) -> str:
    """Return the activation that a setting names.

    Raises
    ------
    FileFormatError
        If it is none of `ACTIVATIONS`.
    """
    config.require(name, *ACTIVATIONS)
    found: str = config.get(name, str, default)
    return found
