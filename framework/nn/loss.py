"""Losses of predictions and targets as layers."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ..base.docstring import shares_parameters
from ..base.dtype import DTypeLike
from ..base.errors import ShapeError
from ..ops.loss.elementwise import REDUCTIONS, check_reduction
from ..tensor.factories import DeviceLike
from ..tensor.tensor import Tensor
from . import functional
from .functional.reduction import chosen_reduction
from .functional_module import FunctionalModule
from .linear import Linear


class Loss(FunctionalModule):
    """A loss that is reduced.

    Parameters
    ----------
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them.
    """

    shown = ()
    reductions: tuple[str, ...] = REDUCTIONS

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        reduction = chosen_reduction(size_average, reduce, reduction)
        check_reduction(type(self).__name__, reduction, self.reductions)
        self.reduction = reduction


class _Pair(Loss):
    """A loss of predictions and targets."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]  # layers differ in what they take
        """Return the loss."""
        options = {name: getattr(self, name) for name in self.options}
        loss: Tensor = type(self)._function(input, target, **options)
        return loss


class _Weighted(_Pair):
    """A loss with weights, which are a buffer, so they move with the module."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


@shares_parameters(functional.mse_loss)
class MSELoss(_Pair, function=functional.mse_loss):
    """Squared differences."""


@shares_parameters(functional.l1_loss)
class L1Loss(_Pair, function=functional.l1_loss):
    """Absolute differences."""


class SmoothL1Loss(_Pair, function=functional.smooth_l1_loss):
    """Absolute differences, which below `beta` become a parabola.

    Parameters
    ----------
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them.
    beta : float, default 1
        Where the parabola ends.
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta


class HuberLoss(_Pair, function=functional.huber_loss):
    """Half the squared differences, which from `delta` on become lines.

    Parameters
    ----------
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them.
    delta : float, default 1
        Where the lines begin.

    Raises
    ------
    TypeError
        If `delta` is no int or float.
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        if not isinstance(delta, int | float):
            raise TypeError(
                f"HuberLoss: delta is {delta!r}; it must be an int or float"
            )
        super().__init__(reduction=reduction)
        self.delta = delta


class KLDivLoss(_Pair, function=functional.kl_div):
    """Terms of the Kullback-Leibler divergence.

    Parameters
    ----------
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    reduction : str, default "mean"
        "mean", "sum", "none", or "batchmean", which is the divergence itself.
    log_target : bool, default False
        Whether targets are log-probabilities.
    """

    reductions = ("mean", "sum", "batchmean", "none")

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target


class BCELoss(_Weighted, function=functional.binary_cross_entropy):
    """Cross entropy of probabilities of two classes.

    Parameters
    ----------
    weight : Tensor or None
        Factors of the losses, of a shape that broadcasts to theirs.
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them.
    """


class BCEWithLogitsLoss(
    _Weighted, function=functional.binary_cross_entropy_with_logits
):
    """Cross entropy of two classes, from logits.

    Parameters
    ----------
    weight : Tensor or None
        Factors of the losses, of a shape that broadcasts to theirs.
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    reduction : str, default "mean"
        "mean" or "sum" of the losses, or "none" for each of them.
    pos_weight : Tensor or None
        Factors of the losses of what is wanted to be 1, likewise.
    """

    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.register_buffer("pos_weight", pos_weight)


class PoissonNLLLoss(Loss, function=functional.poisson_nll_loss):
    """Negative log-likelihood of counts; see `functional.poisson_nll_loss`.

    Parameters
    ----------
    log_input : bool, default True
        Whether inputs are logarithms of expectations.
    full : bool, default False
        Whether Stirling's term is added.
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    eps : float, default 1e-8
        Added to inputs whose logarithm is taken.
    reduction : str, default "mean"
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]  # layers differ in what they take
        """Return the loss."""
        return functional.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(Loss, function=functional.gaussian_nll_loss):
    """Negative log-likelihood of normals; see `functional.gaussian_nll_loss`.

    Parameters
    ----------
    full : bool, default False
        Whether the constant is added.
    eps : float, default 1e-6
        Least variance.
    reduction : str, default "mean"
    """

    def __init__(
        self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:  # type: ignore[override]  # layers differ in what they take
        """Return the loss of expectations and variances for what was observed."""
        return functional.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )


class NLLLoss(_Weighted, function=functional.nll_loss):
    """Negative log-likelihood of class labels.

    Parameters
    ----------
    weight : Tensor, shape (classes,), or None
        Factor of each class.
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    ignore_index : int, default -100
        Labels that count nothing.
    reduction : str, default "mean"
        "mean" by the weights of the labels, "sum", or "none".
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index


class NLLLoss2d(NLLLoss):
    """`NLLLoss` under a deprecated name."""

    options = NLLLoss.options

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            "NLLLoss2d is deprecated; use NLLLoss, which takes images too",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(*args, **kwargs)


class CrossEntropyLoss(_Weighted, function=functional.cross_entropy):
    """Negative log-probability of classes under the softmax of logits.

    Called with logits and labels, or probabilities; see `ops.cross_entropy`.

    Parameters
    ----------
    weight : Tensor, shape (classes,), or None
        Factor of each class.
    size_average, reduce : bool or None
        Deprecated forms of `reduction`.
    ignore_index : int, default -100
        Rows with this label count nothing.
    reduction : str, default "mean"
        "mean" over the rows that count, "sum", or "none".
    label_smoothing : float, default 0
        Share of the target spread evenly over the classes, in [0, 1].

    Examples
    --------
    >>> loss = nn.CrossEntropyLoss()
    >>> round(loss(fw.zeros((2, 4)), fw.tensor([1, 3])).item(), 4)
    1.3863
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing


class LinearCrossEntropyLoss(_Weighted):
    """Cross entropy of the logits that a linear layer of its own gives.

    Parameters
    ----------
    in_features, num_classes : int
    out_features : tuple of int, default ()
        Sizes of what has a class each.
    bias : bool, default False
        Whether the linear layer has one.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
        Of its parameters.
    reduction : str, default "mean"
    weight : Tensor, shape (num_classes,), or None
        Factor of each class.
    ignore_index : int or None
        Labels that count nothing; None means -100.
    label_smoothing : float, default 0
    options : object
        Without effect: PyTorch's says how to save memory.
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: object = None,
    ) -> None:
        super().__init__(weight, reduction=reduction)
        if weight is not None and weight.shape != (num_classes,):
            raise ShapeError(
                f"LinearCrossEntropyLoss: weight is {tuple(weight.shape)}; it must be"
                f" ({num_classes},)"
            )
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        rows = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, rows, bias, device, dtype)
        self.options = options  # type: ignore[misc,assignment]  # PyTorch's name: this class passes none

    def forward(self, input: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]  # layers differ in what they take
        """Return the loss of (batch, in_features) for labels or probabilities."""
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return functional.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*shape, self.linear.in_features),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
        )

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes},"
            f" out_features={self.out_features}, bias={self.linear.bias is not None},"
            f" reduction={self.reduction}, ignore_index={self.ignore_index},"
            f" label_smoothing={self.label_smoothing}, options={self.options}"
        )


class CTCLoss(Loss, function=functional.ctc_loss):
    """Connectionist temporal classification; see `functional.ctc_loss`.

    Parameters
    ----------
    blank : int, default 0
        The class that is no label.
    reduction : str, default "mean"
        "mean" of losses by the lengths of their targets, "sum" or "none".
    zero_infinity : bool, default False
        Whether infinite losses, and their gradients, count as 0.

    Notes
    -----
    Source: Graves et al., Connectionist Temporal Classification, 2006.
    """

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(  # type: ignore[override]  # layers differ in what they take
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Any,
        target_lengths: Any,
    ) -> Tensor:
        """Return the loss; see `functional.ctc_loss`."""
        return functional.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
        )
