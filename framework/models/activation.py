"""Activations by the names that configurations of models give them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeGuard

from .. import ops
from ..autograd.grad_mode import is_grad_enabled
from ..nn import functional, module_hooks
from ..nn.linear import Linear
from ..nn.module import Module
from ..nn.quantized import QLinear
from ..ops.matmul.gated import gated_linear, takes_gated_linear
from ..ops.quantized.product import fits_gate, gated_quantized_linear
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


_GATES = {"silu": "silu", "gelu_pytorch_tanh": "gelu_tanh"}
"""Activations that a kernel of gated products has, and what it calls them."""


def gated_product(x: Tensor, gate: Module, up: Module, activation: str) -> Tensor:
    """Return activation(gate(x)) * up(x), in one kernel where both layers allow.

    These are linear ones of one kind without a bias or hooks, and few rows without a
    gradient: a token of a text.

    Parameters
    ----------
    x : Tensor, shape (..., width)
    gate, up : Module
        Layers from `width` to `inner`.
    activation : str
        A key of `ACTIVATIONS`.

    Returns
    -------
    Tensor, shape (..., inner)
    """
    name = _GATES.get(activation)
    if name and _is_plain(gate) and _is_plain(up) and gate.format == up.format:
        blocks = gate.weight.blocks, up.weight.blocks
        if not _needs_grad(x) and fits_gate(x, *blocks, up.format, name):
            return gated_quantized_linear(x, *blocks, up.format, name)
    if name and _is_plain_linear(gate) and _is_plain_linear(up):
        weights = gate.weight, up.weight
        if not _needs_grad(x, *weights) and takes_gated_linear(x, *weights, name):
            return gated_linear(x, *weights, name)
    out: Tensor = ACTIVATIONS[activation](gate(x)) * up(x)
    return out


def _needs_grad(*tensors: Tensor) -> bool:
    return is_grad_enabled() and any(each.needs_grad for each in tensors)


def _is_plain_linear(layer: Module) -> TypeGuard[Linear]:
    if type(layer) is not Linear or layer.bias is not None:
        return False
    return not module_hooks.has_any(layer)


def _is_plain(layer: Module) -> TypeGuard[QLinear]:
    if type(layer) is not QLinear or layer.bias is not None:
        return False
    return not module_hooks.has_any(layer)
