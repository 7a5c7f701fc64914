"""Linear and bilinear layers."""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..base.dtype import DTypeLike
from ..base.validation import as_int
from ..tensor.factories import DeviceLike, empty, zeros
from ..tensor.tensor import Tensor
from . import functional, init
from .module import Module
from .parameter import Parameter


class Linear(Module):
    """y = x W^T + b.

    Parameters
    ----------
    in_features, out_features : int
        Sizes of the last dimension before and after.
    bias : bool, default True
        Whether there is a `b`.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
        Of the parameters.

    Attributes
    ----------
    weight : Parameter, shape (out_features, in_features)
        Drawn from U(-k, k) with k = 1 / sqrt(in_features).
    bias : Parameter, shape (out_features,), or None
        Drawn from the same.

    Examples
    --------
    >>> nn.Linear(3, 2)(fw.zeros((5, 3))).shape
    torch.Size([5, 2])
    """

    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features = as_int("Linear: in_features", in_features)
        self.out_features = out_features = as_int("Linear: out_features", out_features)
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        self.weight = Parameter(empty((out_features, in_features), **made))
        shift = Parameter(empty(out_features, **made)) if bias else None
        self.register_parameter("bias", shift)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        init_like_pytorch(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Return the products plus the bias.

        Parameters
        ----------
        input : Tensor, shape (..., in_features)

        Returns
        -------
        Tensor, shape (..., out_features)
        """
        return ops.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features},"
            f" bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """A `Linear` whose parameters are read by the module that it is part of.

    Notes
    -----
    Its own type tells it from layers that may be replaced: `MultiheadAttention` reads
    the parameters of its `out_proj` and does not call it.
    """


class Bilinear(Module):
    """y = x1^T A x2 + b, for each matrix A of the weight.

    Parameters
    ----------
    in1_features, in2_features, out_features : int
        Sizes of the last dimensions of the inputs and of the result.
    bias : bool, default True
        Whether there is a `b`.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
        Of the parameters.

    Attributes
    ----------
    weight : Parameter, shape (out_features, in1_features, in2_features)
        Drawn from U(-k, k) with k = 1 / sqrt(in1_features).
    bias : Parameter, shape (out_features,), or None
        Drawn from the same.
    """

    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        self.in1_features = as_int("Bilinear: in1_features", in1_features)
        self.in2_features = as_int("Bilinear: in2_features", in2_features)
        self.out_features = as_int("Bilinear: out_features", out_features)
        if self.in1_features < 1:
            raise ValueError(
                f"Bilinear: in1_features is {in1_features}; it must be at least 1"
            )
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        shape = (self.out_features, self.in1_features, self.in2_features)
        self.weight = Parameter(zeros(shape, **made))
        shift = Parameter(zeros(self.out_features, **made)) if bias else None
        self.register_parameter("bias", shift)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        bound = 1.0 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Return (..., out_features); see `functional.bilinear`."""
        return functional.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features},"
            f" out_features={self.out_features}, bias={self.bias is not None}"
        )


class Identity(Module):
    """A layer that returns its input.

    Parameters
    ----------
    *args, **kwargs
        Without effect.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`."""
        return input


def init_like_pytorch(weight: Tensor, bias: Tensor | None) -> None:
    """Draw weight and bias from U(-k, k) with k = 1 / sqrt(fan_in)."""
    fan_in, _ = init.fans("reset_parameters", weight)
    bound = 1.0 / math.sqrt(fan_in) if fan_in else 0.0
    init.uniform_(weight, -bound, bound)
    if bias is not None:
        init.uniform_(bias, -bound, bound)
