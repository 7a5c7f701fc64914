"""Activations: functions of each element, or along one dimension, as layers."""

from __future__ import annotations

import warnings
from typing import ClassVar, Literal

from .. import ops
from ..base.docstring import shares_parameters
from ..base.dtype import DTypeLike
from ..base.errors import ShapeError
from ..tensor.factories import DeviceLike, full
from ..tensor.tensor import Tensor
from . import functional
from .functional_module import FunctionalModule
from .init import constant_
from .module import Module
from .parameter import Parameter


class _InPlace(FunctionalModule):
    """May replace the elements of its input.

    Parameters
    ----------
    inplace : bool, default False
        Whether the input's elements are replaced, and it is returned.
    """

    shown: ClassVar[tuple[str, ...] | None] = ()
    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        text = super().extra_repr()
        if not self.inplace:
            return text
        return f"{text}, inplace=True" if text else "inplace=True"


class ReLU(_InPlace, function=functional.relu):
    """max(input, 0).

    Parameters
    ----------
    inplace : bool, default False
        Whether the input's elements are replaced, and it is returned.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` with negative elements set to 0."""
        return functional.relu(input, True) if self.inplace else ops.relu(input)


class LeakyReLU(_InPlace, function=functional.leaky_relu):
    """`input` where it is positive, otherwise `negative_slope` times `input`.

    Parameters
    ----------
    negative_slope : float, default 0.01
    inplace : bool, default False
    """

    shown = ("negative_slope",)

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope


class RReLU(_InPlace, function=functional.rrelu):
    """`input` where it is positive, otherwise a random slope times `input`.

    Parameters
    ----------
    lower, upper : float, default 1 / 8, 1 / 3
        Bounds of the slopes; in evaluation the slope is their middle.
    inplace : bool, default False
    """

    options = ("lower", "upper", "training", "inplace")
    shown = ("lower", "upper")

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__(inplace)
        self.lower = lower
        self.upper = upper


class Threshold(_InPlace, function=functional.threshold):
    """`input` where it is above `threshold`, otherwise `value`.

    Parameters
    ----------
    threshold, value : float
    inplace : bool, default False
    """

    shown = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold = threshold
        self.value = value


class Hardtanh(_InPlace, function=functional.hardtanh):
    """min(max(input, min_val), max_val).

    Parameters
    ----------
    min_val, max_val : float, default -1, 1
    inplace : bool, default False
    min_value, max_value : float or None
        Deprecated names of the bounds.

    Raises
    ------
    ValueError
        If `min_val` is not below `max_val`.
    """

    options = ("min_val", "max_val", "inplace")
    shown: ClassVar[tuple[str, ...] | None] = ("min_val", "max_val")

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__(inplace)
        for name, value in (("min_val", min_value), ("max_val", max_value)):
            if value is not None:
                warnings.warn(
                    f"Hardtanh: {name}ue is deprecated; use {name}",
                    FutureWarning,
                    stacklevel=2,
                )
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        if not self.min_val < self.max_val:
            raise ValueError(
                f"Hardtanh: min_val is {self.min_val}, max_val {self.max_val}; min_val"
                " must be the smaller"
            )


@shares_parameters(functional.relu)
class ReLU6(Hardtanh):
    """min(max(input, 0), 6); `inplace` as in `ReLU`."""

    options = Hardtanh.options
    shown = ()

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


@shares_parameters(functional.relu)
class SiLU(_InPlace, function=functional.silu):
    """`input` times its sigmoid; `inplace` as in `ReLU`."""


@shares_parameters(functional.relu)
class Mish(_InPlace, function=functional.mish):
    """`input` times the tangent of its softplus; `inplace` as in `ReLU`."""


@shares_parameters(functional.relu)
class SELU(_InPlace, function=functional.selu):
    """The exponential linear unit that keeps mean and variance; see `ops.selu`."""


@shares_parameters(functional.relu)
class Hardswish(_InPlace, function=functional.hardswish):
    """`input` times its hard sigmoid; `inplace` as in `ReLU`."""

    def extra_repr(self) -> str:
        """Return nothing, as PyTorch does."""
        return ""


@shares_parameters(functional.relu)
class Hardsigmoid(_InPlace, function=functional.hardsigmoid):
    """min(max(input / 6 + 1 / 2, 0), 1); `inplace` as in `ReLU`."""

    def extra_repr(self) -> str:
        """Return nothing, as PyTorch does."""
        return ""


class _Exponential(_InPlace):
    """Has an exponential below 0, which tends to -`alpha`."""

    shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha


class ELU(_Exponential, function=functional.elu):
    """`input` where it is positive, otherwise alpha * (exp(input) - 1).

    Parameters
    ----------
    alpha : float, default 1
    inplace : bool, default False
    """


class CELU(_Exponential, function=functional.celu):
    """`input` where it is positive, otherwise alpha * (exp(input / alpha) - 1).

    Parameters
    ----------
    alpha : float, default 1
    inplace : bool, default False
    """


class Sigmoid(FunctionalModule, function=ops.sigmoid):
    """1 / (1 + exp(-input))."""


class Tanh(FunctionalModule, function=ops.tanh):
    """The hyperbolic tangent."""


class Tanhshrink(FunctionalModule, function=functional.tanhshrink):
    """`input` minus its hyperbolic tangent."""


class Softsign(FunctionalModule, function=ops.softsign):
    """input / (1 + |input|)."""


class LogSigmoid(FunctionalModule, function=ops.log_sigmoid):
    """The logarithm of the sigmoid."""


class GELU(FunctionalModule, function=ops.gelu):
    """`input` times the probability that a standard normal is smaller.

    Parameters
    ----------
    approximate : str, default "none"
        "tanh" takes an approximation by the hyperbolic tangent.
    """

    def __init__(self, approximate: Literal["none", "tanh"] = "none") -> None:
        super().__init__()
        self.approximate = approximate


class Softplus(FunctionalModule, function=functional.softplus):
    """log(1 + exp(beta * input)) / beta.

    Parameters
    ----------
    beta : float, default 1
    threshold : float, default 20
        Above which beta * input counts as linear.
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold


class _Shrink(FunctionalModule):
    """Has no output where the input is at most `lambd` from 0."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return f"{self.lambd}"


class Hardshrink(_Shrink, function=functional.hardshrink):
    """0 where |input| is at most `lambd`, otherwise `input`.

    Parameters
    ----------
    lambd : float, default 0.5
    """


class Softshrink(_Shrink, function=functional.softshrink):
    """`input` moved by `lambd` towards 0, at most to it.

    Parameters
    ----------
    lambd : float, default 0.5
    """


class _Along(FunctionalModule):
    """Works along one dimension."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim


class Softmax(_Along, function=functional.softmax):
    """Exponentials that sum to 1 along one dimension.

    Parameters
    ----------
    dim : int or None
        None means 0 or 1, by the number of dimensions, with a warning.
    """


@shares_parameters(functional.softmin)
class Softmin(_Along, function=functional.softmin):
    """The softmax of the negative input; `dim` as in `Softmax`."""


@shares_parameters(functional.log_softmax)
class LogSoftmax(_Along, function=functional.log_softmax):
    """The logarithm of the softmax; `dim` as in `Softmax`."""


class Softmax2d(FunctionalModule):
    """The softmax over the channels of each pixel."""

    def forward(self, input: Tensor) -> Tensor:
        """Return (batch, channels, height, width), or without batch, normalised."""
        if input.ndim not in (3, 4):
            raise ShapeError(
                f"Softmax2d: input is {tuple(input.shape)}; it must be (batch,"
                " channels,"
                " height, width), or without batch"
            )
        return ops.softmax(input, -3)


class GLU(FunctionalModule, function=functional.glu):
    """The first half of a dimension times the sigmoid of the second.

    Parameters
    ----------
    dim : int, default -1
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim


class PReLU(Module):
    """`input` where it is positive, otherwise a learned factor times `input`.

    Parameters
    ----------
    num_parameters : int, default 1
        One factor for all, or one for each channel, which is dimension 1.
    init : float, default 0.25
        What they start from.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
        Of the factors.
    """

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(full(num_parameters, float(init), dtype, device))

    def reset_parameters(self) -> None:
        """Set the factors to their initial value."""
        constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` with negative elements scaled."""
        return ops.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return f"num_parameters={self.num_parameters}"
