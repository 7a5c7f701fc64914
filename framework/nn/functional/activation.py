"""Activations under PyTorch's signatures.

With `inplace` the elements of `input` are replaced, on the tape, and it is returned.
"""

from __future__ import annotations

from typing import Any, Literal

from ... import ops
from ...autograd.decomposed import DecomposedNode, Operand
from ...autograd.tape import show_as, shown_as, shown_node
from ...base.docstring import shares_parameters
from ...base.dtype import DTypeLike
from ...base.errors import DomainError
from ...dispatch.replayable import replayable
from ...ops.elementwise.cast import need_real_float, need_real_numbers, refuse_bool
from ...tensor.inplace import change
from ...tensor.tensor import Tensor
from .implicit_dim import implicit_dim

LEAST_DRAW = 2.0**-25
"""Below every exponential draw but 0, whose logarithm is infinite."""


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return max(input, 0), of any integer or float dtype; NaN stays NaN.

    Parameters
    ----------
    input : Tensor
    inplace : bool, default False
        Replace the elements of `input` and return it.
    """
    return change(input, ops.relu) if inplace else ops.relu(input)


@shares_parameters(relu)
def relu_(input: Tensor) -> Tensor:
    """Replace the elements by `relu` of them."""
    return change(input, ops.relu)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Return min(max(input, 0), 6).

    Parameters
    ----------
    input : Tensor, integers or float
        NaN stays NaN.
    inplace : bool, default False
        Replace the elements of `input` and return it.

    Returns
    -------
    Tensor, shape and dtype of `input`
    """
    need_real_numbers("relu6", input=input)
    return hardtanh(input, 0.0, 6.0, inplace)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """Return min(max(input, min_val), max_val); bounds of integers are cut to such.

    Parameters
    ----------
    input : Tensor, integers or float
        NaN stays NaN.
    min_val, max_val : float, default -1, 1
        The gradient is 0 at them and beyond.
    inplace : bool, default False
        Replace the elements of `input` and return it.

    Returns
    -------
    Tensor, shape and dtype of `input`

    Raises
    ------
    ValueError
        If `min_val` is above `max_val`.
    DTypeError
        If `input` is of bools or complex numbers.
    """
    need_real_numbers("hardtanh", input=input)
    if min_val > max_val:
        raise ValueError(
            f"hardtanh: min_val is {min_val}, max_val {max_val}; min_val must be the"
            " smaller"
        )
    if not input.dtype.is_float:
        whole = (int(min_val), int(max_val))
        return change(input, ops.clamp, *whole) if inplace else ops.clamp(input, *whole)
    if inplace:
        return change(input, ops.hardtanh, min_val, max_val)
    return ops.hardtanh(input, min_val, max_val)


@shares_parameters(hardtanh)
def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Replace the elements by `hardtanh` of them."""
    return hardtanh(input, min_val, max_val, True)


def leaky_relu(
    input: Tensor, negative_slope: float = 0.01, inplace: bool = False
) -> Tensor:
    """Return `input`, multiplied by `negative_slope` where it is negative.

    Parameters
    ----------
    input : Tensor, float
    negative_slope : float, default 0.01
    inplace : bool, default False
        Replace the elements of `input` and return it.

    Returns
    -------
    Tensor, shape and dtype of `input`

    Notes
    -----
    Source: Maas, Hannun and Ng, Rectifier Nonlinearities Improve Neural Network
    Acoustic Models, 2013.
    """
    if inplace:
        return change(input, ops.leaky_relu, negative_slope)
    return ops.leaky_relu(input, negative_slope)


@shares_parameters(leaky_relu)
def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Replace the elements by `leaky_relu` of them."""
    return change(input, ops.leaky_relu, negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return `input`, or alpha * (exp(input) - 1) where it is negative.

    Parameters
    ----------
    input : Tensor, float
    alpha : float, default 1
        Minus the limit at -infinity.
    inplace : bool, default False
        Replace the elements of `input` and return it.

    Returns
    -------
    Tensor, shape and dtype of `input`

    Notes
    -----
    Source: Clevert, Unterthiner and Hochreiter, arXiv:1511.07289.
    """
    return change(input, ops.elu, alpha) if inplace else ops.elu(input, alpha)


@shares_parameters(elu)
def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Replace the elements by `elu` of them."""
    return change(input, ops.elu, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return the exponential linear unit that keeps mean and variance.

    Parameters
    ----------
    input : Tensor, float
    inplace : bool, default False
        Replace the elements of `input` and return it.

    Returns
    -------
    Tensor, shape and dtype of `input`

    Notes
    -----
    Source: Klambauer et al., arXiv:1706.02515.
    """
    return change(input, ops.selu) if inplace else ops.selu(input)


@shares_parameters(selu)
def selu_(input: Tensor) -> Tensor:
    """Replace the elements by `selu` of them."""
    return change(input, ops.selu)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return `input`, or alpha * (exp(input / alpha) - 1) where it is negative.

    Parameters
    ----------
    input : Tensor, float
    alpha : float, default 1
        Minus the limit at -infinity, if it is positive.
    inplace : bool, default False
        Replace the elements of `input` and return it.

    Returns
    -------
    Tensor, shape and dtype of `input`

    Raises
    ------
    ValueError
        If `alpha` is 0.

    Notes
    -----
    Source: Barron, arXiv:1704.07483.
    """
    return change(input, ops.celu, alpha) if inplace else ops.celu(input, alpha)


@shares_parameters(celu)
def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Replace the elements by `celu` of them."""
    return change(input, ops.celu, alpha)


def gelu(input: Tensor, *, approximate: Literal["none", "tanh"] = "none") -> Tensor:
    """Return `input` times the probability that a standard normal is smaller.

    Parameters
    ----------
    input : Tensor, float
    approximate : str, default "none"
        "none" takes the error function, "tanh" an approximation that is off by 5e-4.

    Returns
    -------
    Tensor, shape and dtype of `input`

    Raises
    ------
    ShapeError
        If `approximate` is neither.

    Notes
    -----
    Source: Hendrycks and Gimpel, arXiv:1606.08415.
    """
    return ops.gelu(input, approximate)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `input` times its sigmoid.

    Parameters
    ----------
    input : Tensor, float or complex
    inplace : bool, default False
        Replace the elements of `input` and return it.

    Returns
    -------
    Tensor, shape and dtype of `input`

    Notes
    -----
    Source: Elfwing, Uchibe and Doya, arXiv:1702.03118.
    """
    return change(input, ops.silu) if inplace else ops.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `input` times the hyperbolic tangent of its softplus.

    Parameters
    ----------
    input : Tensor, float
    inplace : bool, default False
        Replace the elements of `input` and return it.

    Returns
    -------
    Tensor, shape and dtype of `input`

    Notes
    -----
    Source: Misra, arXiv:1908.08681.
    """
    return change(input, ops.mish) if inplace else ops.mish(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `input` times its hard sigmoid.

    Parameters
    ----------
    input : Tensor, float
    inplace : bool, default False
        Replace the elements of `input` and return it.

    Returns
    -------
    Tensor, shape and dtype of `input`

    Notes
    -----
    Source: Howard et al., arXiv:1905.02244.
    """
    return change(input, ops.hardswish) if inplace else ops.hardswish(input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Return min(max(input / 6 + 1 / 2, 0), 1).

    Parameters
    ----------
    input : Tensor, float
    inplace : bool, default False
        Replace the elements of `input` and return it.

    Returns
    -------
    Tensor, shape and dtype of `input`
    """
    return change(input, ops.hardsigmoid) if inplace else ops.hardsigmoid(input)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Return log(1 + exp(beta * input)) / beta; linear above `threshold`.

    Parameters
    ----------
    input : Tensor, float
    beta : float, default 1
    threshold : float, default 20
        The result is `input` where beta * input is above it.

    Returns
    -------
    Tensor, shape and dtype of `input`
    """
    return ops.softplus(input, beta, threshold)


@shares_parameters(ops.softsign, input="x")
def softsign(input: Tensor) -> Tensor:
    """Return input / (1 + |input|)."""
    out = ops.softsign(input if input.dtype.is_differentiable else input.float())
    if out.grad_node is not None:
        size = shown_node("AddBackward0", shown_node("AbsBackward0", input), None)
        show_as(out, "DivBackward0", input, size)
        given, edges = Operand(input), out.grad_node.shown.edges
        out.grad_node.shown = DecomposedNode(
            "DivBackward0", edges, lambda _: _composed_softsign(given.tensor())
        )
    return out


def _composed_softsign(x: Tensor) -> Tensor:
    return x / (1 + abs(x))


@shares_parameters(ops.tanh, input="x")
def tanh(input: Tensor) -> Tensor:
    """Return the hyperbolic tangent."""
    return ops.tanh(input)


@shares_parameters(ops.tanh, input="x")
def tanhshrink(input: Tensor) -> Tensor:
    """Return `input` minus its hyperbolic tangent."""
    return input - ops.tanh(input)


@shares_parameters(ops.sigmoid, input="x")
def sigmoid(input: Tensor) -> Tensor:
    """Return 1 / (1 + exp(-input))."""
    return ops.sigmoid(input)


@shares_parameters(ops.log_sigmoid, input="x")
def logsigmoid(input: Tensor) -> Tensor:
    """Return the logarithm of the sigmoid."""
    return ops.log_sigmoid(input)


def _above(input: Tensor, threshold: float, value: float) -> Tensor:
    refuse_bool("threshold", input=input)
    fill = value if input.dtype.is_float else int(value)
    return ops.where(input <= threshold, fill, input)


@shown_as("ThresholdBackward0", "input")
def threshold(
    input: Tensor, threshold: float, value: float, inplace: bool = False
) -> Tensor:
    """Return `input` where it is above `threshold`, otherwise `value`; NaN stays.

    Parameters
    ----------
    input : Tensor, integers or float
    threshold : float
    value : float
        Cut to an integer where `input` has integers.
    inplace : bool, default False
        Replace the elements of `input` and return it.

    Returns
    -------
    Tensor, shape and dtype of `input`
    """
    if inplace:
        return change(input, _above, threshold, value)
    return _above(input, threshold, value)


@shares_parameters(threshold)
def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """Replace the elements by `threshold` of them."""
    return change(input, _above, threshold, value)


@shown_as("HardshrinkBackward0", "input")
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Return 0 where |input| is at most `lambd`, otherwise `input`.

    Parameters
    ----------
    input : Tensor, float
        NaN stays NaN.
    lambd : float, default 0.5

    Returns
    -------
    Tensor, shape and dtype of `input`
    """
    return input.hardshrink(lambd)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Return `input` moved by `lambd` towards 0, at most to it.

    Parameters
    ----------
    input : Tensor, float
        NaN stays NaN.
    lambd : float, default 0.5

    Returns
    -------
    Tensor, shape and dtype of `input`

    Raises
    ------
    DomainError
        If `lambd` is below 0.
    DTypeError
        If `input` is not of real floats.
    """
    need_real_float("softshrink", input=input)
    if lambd < 0:
        raise DomainError(f"softshrink: lambd is {lambd}; it must be at least 0")
    return ops.softshrink(input, lambd)


def _random_slopes(input: Tensor, lower: float, upper: float) -> Tensor:
    like = input.detach()
    slopes = (
        ops.draw_uniform(like, input.layout.shape, input.dtype) * (upper - lower)
        + lower
    )
    return ops.where(input <= 0, input * slopes, input)


@shown_as("RreluWithNoiseBackward0", "input")
def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """Return `input`, multiplied by a slope where it is negative.

    Parameters
    ----------
    input : Tensor, float
    lower, upper : float, default 1 / 8, 1 / 3
        Bounds of the slopes.
    training : bool, default False
        Whether a slope is drawn for each element; otherwise it is the middle.
    inplace : bool, default False

    Raises
    ------
    DomainError
        If `lower` is above `upper`.

    Notes
    -----
    Source: Xu et al., arXiv:1505.00853.
    """
    if lower > upper:
        raise DomainError(
            f"rrelu: lower is {lower}, upper {upper}; lower must be the smaller"
        )
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    if inplace:
        return change(input, _random_slopes, lower, upper)
    return _random_slopes(input, lower, upper)


@shares_parameters(rrelu)
def rrelu_(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
) -> Tensor:
    """Replace the elements by `rrelu` of them."""
    return rrelu(input, lower, upper, training, True)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Return `input`, multiplied by its channel's weight where it is negative.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, ...), or any shape for one weight, float
    weight : Tensor, shape (channels,), or of one element

    Returns
    -------
    Tensor, shape of `input`

    Raises
    ------
    ShapeError
        If there is not one weight, or one for each channel.

    Notes
    -----
    Source: He et al., arXiv:1502.01852.
    """
    return ops.prelu(input, weight)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Return the first half of a dimension times the sigmoid of the second.

    Parameters
    ----------
    input : Tensor, float
        Of at least one dimension.
    dim : int, default -1
        Of even size, which the result has half of.

    Raises
    ------
    ShapeError
        If the size is odd.

    Notes
    -----
    Source: Dauphin et al., arXiv:1612.08083.
    """
    return ops.glu(input, dim)


def softmax(
    input: Tensor,
    dim: int | None = None,
    _stacklevel: int = 3,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Return exponentials normalised to sum to one along one dimension.

    Parameters
    ----------
    input : Tensor, float
    dim : int or None
        None means 0 for tensors of 0, 1 or 3 dimensions and otherwise 1, with a
        warning.
    _stacklevel : int
        Without effect.
    dtype : DType, str or None
        What `input` is cast to first.
    """
    at = implicit_dim("softmax", dim, input)
    if input.is_wrapper and at in (-1, input.ndim - 1):
        wrapper: Any = input
        found: Tensor = wrapper.on_rows(
            "softmax", lambda x: ops.softmax(x, -1, dtype=dtype)
        )
        return found
    return ops.softmax(input, at, dtype=dtype)


@replayable
def softmin(
    input: Tensor,
    dim: int | None = None,
    _stacklevel: int = 3,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Return `softmax` of the negative input.

    Parameters
    ----------
    input : Tensor, float
    dim : int or None
        None means 0 for tensors of 0, 1 or 3 dimensions and otherwise 1, with a
        warning.
    _stacklevel : int
        Without effect.
    dtype : DType, str or None
        What the negative of `input` is cast to first.

    Returns
    -------
    Tensor, shape of `input`
    """
    at = implicit_dim("softmin", dim, input)
    return ops.softmax(-input, at, dtype=dtype)


def log_softmax(
    input: Tensor,
    dim: int | None = None,
    _stacklevel: int = 3,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Return the logarithm of `softmax`, without overflow.

    Parameters
    ----------
    input : Tensor, float
        Or of another dtype, if `dtype` is a float one.
    dim : int or None
        None means 0 for tensors of 0, 1 or 3 dimensions and otherwise 1, with a
        warning.
    _stacklevel : int
        Without effect.
    dtype : DType, str or None
        What `input` is cast to first.

    Returns
    -------
    Tensor, shape of `input`
    """
    at = implicit_dim("log_softmax", dim, input)
    if input.is_wrapper and at in (-1, input.ndim - 1):
        wrapper: Any = input
        found: Tensor = wrapper.on_rows(
            "log_softmax", lambda x: ops.log_softmax(x, -1, dtype=dtype)
        )
        return found
    return ops.log_softmax(input, at, dtype=dtype)


def gumbel_softmax(
    logits: Tensor,
    tau: float = 1,
    hard: bool = False,
    eps: float = 1e-10,
    dim: int = -1,
) -> Tensor:
    """Return draws from the Gumbel-softmax distribution.

    Parameters
    ----------
    logits : Tensor, float
        Unnormalised log-probabilities.
    tau : float, default 1
        Temperature.
    hard : bool, default False
        Whether draws are one-hot; the gradient is that of the soft ones.
    eps : float
        Without effect, as in PyTorch.
    dim : int, default -1

    Notes
    -----
    Source: Jang, Gu and Poole, arXiv:1611.01144.
    """
    like = logits.detach()
    draws = ops.draw_exponential(like, logits.layout.shape, logits.dtype)
    noise = -ops.log(ops.clamp_min(draws, LEAST_DRAW))
    soft = ops.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    values = soft.detach()
    places = ops.argmax(values, dim, True)
    hot = ops.scatter(values * 0.0, dim, places, 1.0)
    return hot - values + soft
