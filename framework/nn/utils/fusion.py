"""Fusion of batch norm into the layer before it, for evaluation."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from ...tensor.tensor import Tensor
from ..module import Module
from ..parameter import Parameter

M = TypeVar("M", bound=Module)


def fuse_conv_bn_eval(conv: M, bn: Module, transpose: bool = False) -> M:
    """Return a copy of a convolution that does what the batch norm behind it does.

    Parameters
    ----------
    conv, bn : Module
        In evaluation mode.
    transpose : bool, default False
        Whether the convolution is a transposed one.

    Raises
    ------
    RuntimeError
        If one of them is in training mode.
    """
    _check("fuse_conv_bn_eval", conv, bn)
    fused: Any = copy.deepcopy(conv)
    norm: Any = bn
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight,
        fused.bias,
        norm.running_mean,
        norm.running_var,
        norm.eps,
        norm.weight,
        norm.bias,
        transpose,
    )
    result: M = fused
    return result


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Return weight and bias of a convolution with a batch norm behind it.

    Parameters
    ----------
    conv_w, conv_b : Tensor
        Of the convolution; a missing bias is 0.
    bn_rm, bn_rv : Tensor
        Running mean and variance.
    bn_eps : float
    bn_w, bn_b : Tensor or None
        Scale and shift; missing ones are 1 and 0.
    transpose : bool, default False
        Whether the convolution is a transposed one.
    """
    scale = (bn_rv + bn_eps).rsqrt()
    if bn_w is not None:
        scale = scale * bn_w
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    bias = -bn_rm if conv_b is None else conv_b - bn_rm
    bias = bias * scale
    if bn_b is not None:
        bias = bias + bn_b
    flag = conv_w.requires_grad
    weight = (conv_w * scale.reshape(shape)).detach().to(conv_w.dtype)
    # A bias that there was not takes no gradient, as in PyTorch.
    shifted = conv_b is not None and conv_b.requires_grad
    return Parameter(weight, flag), Parameter(bias.detach().to(conv_w.dtype), shifted)


def fuse_linear_bn_eval(linear: M, bn: Module) -> M:
    """Return a copy of a linear layer that does what the batch norm behind it does.

    Parameters
    ----------
    linear : Module
        A linear layer, in evaluation mode.
    bn : Module
        A batch norm with running statistics, in evaluation mode.

    Raises
    ------
    RuntimeError
        If one of them is in training mode, or their sizes differ.
    """
    _check("fuse_linear_bn_eval", linear, bn)
    fused: Any = copy.deepcopy(linear)
    norm: Any = bn
    if fused.out_features != norm.num_features and norm.num_features != 1:
        raise RuntimeError(
            f"fuse_linear_bn_eval: out_features is {fused.out_features}, num_features"
            f" {norm.num_features}; they must be equal"
        )
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight,
        fused.bias,
        norm.running_mean,
        norm.running_var,
        norm.eps,
        norm.weight,
        norm.bias,
    )
    result: M = fused
    return result


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """Return weight and bias of a linear layer with a batch norm behind it.

    Parameters
    ----------
    linear_w : Tensor, shape (out, in)
    linear_b : Tensor, shape (out,), or None
        None means 0.
    bn_rm, bn_rv : Tensor, shape (out,)
        Running mean and variance.
    bn_eps : float
        Added to the variance.
    bn_w, bn_b : Tensor, shape (out,)
        Scale and shift.
    """
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def _check(where: str, layer: Module, bn: Module) -> None:
    if layer.training or bn.training:
        raise RuntimeError(
            f"{where}: the {type(layer if layer.training else bn).__name__} is in"
            " training mode; call eval() first"
        )
