"""Initial values of parameters, drawn from the library's own generator.

The functions change a tensor in place and return it. Draws are made on the host, so
`fw.manual_seed` gives the same values whatever the tensor's device. `generator` is
where they come from; None means the default one. On the meta device nothing is drawn.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import ParamSpec

import numpy as np

from ..autograd.engine import no_grad
from ..base.device import CPU, META
from ..base.device import default_device as _default_device
from ..base.docstring import shares_parameters
from ..base.errors import ShapeError
from ..base.philox import Generator
from ..base.public_names import defined_names as _defined_names
from ..base.scoped_setting import ScopedSetting as _ScopedSetting
from ..base.scoped_setting import SettingScope as _SettingScope
from ..dispatch.diagnosis import explained
from ..ops.elementwise.complex_numbers import numbers_of
from ..ops.elementwise.special import host_erfc
from ..tensor.random import rand, randn
from ..tensor.tensor import Tensor

P = ParamSpec("P")


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor that keeps the variance of activations through a function.

    Parameters
    ----------
    nonlinearity : str
        "linear", "conv1d" to "conv3d", "conv_transpose1d" to "conv_transpose3d",
        "sigmoid", "tanh", "relu", "leaky_relu" or "selu".
    param : float or None
        The negative slope of "leaky_relu"; None is 0.01.

    Raises
    ------
    ValueError
        If the function is none of these.
    """
    slope = 0.01 if param is None else param
    layers = [f"{kind}{n}d" for kind in ("conv", "conv_transpose") for n in (1, 2, 3)]
    gains = {
        **dict.fromkeys(("linear", *layers), 1.0),
        "sigmoid": 1.0,
        "tanh": 5.0 / 3.0,
        "relu": math.sqrt(2.0),
        "leaky_relu": math.sqrt(2.0 / (1.0 + slope**2)),
        "selu": 3.0 / 4.0,
    }
    if nonlinearity not in gains:
        raise ValueError(
            f"calculate_gain: nonlinearity is {nonlinearity!r};"
            f" accepted: {', '.join(gains)}"
        )
    return gains[nonlinearity]


_are_skipped = _ScopedSetting(False)


def _skipped() -> _SettingScope:
    """Return a scope in which what is filled keeps its elements, and none is drawn."""
    return _SettingScope(_are_skipped, True)


def _keeps_elements(tensor: Tensor) -> bool:
    """Return whether a tensor is not filled: it has no elements, or in such a scope."""
    return tensor.is_meta or bool(_are_skipped.top.value)


def _drawn(
    draw: Callable[..., Tensor], shape: Sequence[int], generator: Generator | None
) -> Tensor:
    """Return draws on the default device; on the host where that is meta."""
    place = CPU if _default_device() is META else None
    return draw(shape, device=place, generator=generator)


def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fill with draws from the uniform distribution over [a, b).

    Parameters
    ----------
    tensor : Tensor
        Both parts of complex numbers are such draws.
    a, b : float, default 0, 1
    generator : Generator or None
        None means the default one.
    """
    if _keeps_elements(tensor):
        return tensor
    draws = _drawn(rand, _shape_of_parts(tensor), generator)
    return _assign_parts(tensor, draws * (b - a) + a)


def normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fill with draws from a normal distribution.

    Parameters
    ----------
    tensor : Tensor
        Each part of complex numbers has half of the variance.
    mean, std : float, default 0, 1
    generator : Generator or None
        None means the default one.
    """
    if _keeps_elements(tensor):
        return tensor
    if tensor.dtype.is_complex:
        std = std / math.sqrt(2.0)
    draws = _drawn(randn, _shape_of_parts(tensor), generator)
    return _assign_parts(tensor, draws * std + mean)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fill with draws from a normal distribution cut off outside [a, b].

    Parameters
    ----------
    tensor : Tensor
    mean, std : float, default 0, 1
        Of the distribution before the cut.
    a, b : float, default -2, 2
        Bounds of the values.
    generator : Generator or None

    Notes
    -----
    Uniform draws go through the inverse of the distribution function, in float64.
    """
    if _keeps_elements(tensor):
        return tensor
    low, high = (0.5 * math.erfc((mean - edge) / std / math.sqrt(2)) for edge in (a, b))
    draws = _drawn(rand, tensor.shape, generator).host_copy().astype(np.float64)
    # The middles of the draws' steps of 2^-24: the bounds themselves are improbable.
    values = mean + std * _normal_quantiles(low + (draws + 2.0**-25) * (high - low))
    return _assign_host(tensor, np.clip(values, a, b))


# Coefficients of Acklam's rational approximation of the normal quantile function:
# numerator and denominator near the middle, then of the tails.
_MIDDLE = (
    (
        (-39.69683028665376, 220.9460984245205, -275.9285104469687),
        (138.3577518672690, -30.66479806614716, 2.506628277459239),
    ),
    (
        (-54.47609879822406, 161.5858368580409, -155.6989798598866),
        (66.80131188771972, -13.28068155288572, 1.0),
    ),
)
_TAIL = (
    (
        (-0.007784894002430293, -0.3223964580411365, -2.400758277161838),
        (-2.549732539343734, 4.374664141464968, 2.938163982698783),
    ),
    (
        (0.0, 0.007784695709041462, 0.3224671290700398),
        (2.445134137142996, 3.754408661907416, 1.0),
    ),
)


def _normal_quantiles(p: np.ndarray) -> np.ndarray:
    """Return where the standard normal distribution function has values `p`.

    Source: P. Acklam's approximation, of relative error 1.2e-9, and a step of Halley's
    method.
    """
    p = np.clip(p, 1e-300, 1 - 2.0**-53)
    centred = p - 0.5
    squared = centred * centred
    top, bottom = (np.polyval(np.ravel(rows), squared) for rows in _MIDDLE)
    middle = centred * top / bottom
    root = np.sqrt(-2 * np.log(np.minimum(p, 1 - p)))
    top, bottom = (np.polyval(np.ravel(rows), root) for rows in _TAIL)
    tail = np.where(p < 0.5, 1, -1) * top / bottom
    x: np.ndarray = np.where(np.abs(centred) <= 0.5 - 0.02425, middle, tail)
    distribution = 0.5 * host_erfc(-x / math.sqrt(2))
    error = (distribution - p) * math.sqrt(2 * math.pi) * np.exp(x * x / 2)
    return np.asarray(x - error / (1 + x * error / 2))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one value.

    Parameters
    ----------
    tensor : Tensor
        Filled and returned.
    val : number
        The value.
    """
    if _keeps_elements(tensor):
        return tensor
    with no_grad():
        return tensor.fill_(val)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros.

    Parameters
    ----------
    tensor : Tensor
        Filled and returned.
    """
    return constant_(tensor, 0)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones.

    Parameters
    ----------
    tensor : Tensor
        Filled and returned.
    """
    return constant_(tensor, 1)


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with ones on the diagonal and zeros elsewhere.

    Parameters
    ----------
    tensor : Tensor, shape (rows, columns)
        Filled and returned.

    Raises
    ------
    ShapeError
        If the tensor is not 2-D.
    """
    if tensor.ndim != 2:
        raise ShapeError(f"eye_: the tensor is {tuple(tensor.shape)}; it must be 2-D")
    return _assign_host(tensor, np.eye(tensor.shape[0], tensor.shape[1]))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill filters so that a convolution returns its channels.

    Parameters
    ----------
    tensor : Tensor, shape (out_channels, in_channels, ...)
        Filters of one to three dimensions.
    groups : int, default 1
        Of the convolution; divides `out_channels`.

    Raises
    ------
    ShapeError
        If it does not, or the tensor has another number of dimensions.
    """
    if tensor.ndim not in (3, 4, 5) or groups < 1 or tensor.shape[0] % groups:
        raise ShapeError(
            f"dirac_: the tensor is {tuple(tensor.shape)}, groups {groups}; it must be"
            " 3-D to"
            " 5-D, with a multiple of the groups as first size"
        )
    if tensor.is_meta:
        return tensor
    filters = np.zeros(tensor.shape)
    count = tensor.shape[0] // groups
    middle = tuple(size // 2 for size in tensor.shape[2:])
    for group in range(groups):
        for k in range(min(count, tensor.shape[1])):
            filters[(group * count + k, k, *middle)] = 1
    return _assign_host(tensor, filters)


def orthogonal_(
    tensor: Tensor, gain: float = 1, generator: Generator | None = None
) -> Tensor:
    """Fill with a matrix whose rows, or columns, are orthonormal, times `gain`.

    Parameters
    ----------
    tensor : Tensor, shape (rows, ...)
        All dimensions but the first count as columns.
    gain : float, default 1
    generator : Generator or None

    Raises
    ------
    ShapeError
        If the tensor has fewer than two dimensions.

    Notes
    -----
    The Q of the QR decomposition of normal draws, by Householder reflections in
    float64, with the signs of R's diagonal, so that it is uniformly distributed.
    Source: Saxe et al., arXiv:1312.6120; Mezzadri, arXiv:math-ph/0609050.
    """
    if tensor.ndim < 2:
        raise ShapeError(
            f"orthogonal_: the tensor is {tuple(tensor.shape)}; it must have at least 2"
            " dimensions"
        )
    if tensor.numel() == 0 or tensor.is_meta:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    tall = (max(rows, columns), min(rows, columns))
    draws = _drawn(randn, tall, generator).host_copy().astype(np.float64)
    matrix = _orthonormal(draws)
    if rows < columns:
        matrix = matrix.T
    return _assign_host(tensor, gain * matrix.reshape(tensor.shape))


def _orthonormal(matrix: np.ndarray) -> np.ndarray:
    """Return the Q of a tall matrix's QR decomposition in which R's diagonal is > 0."""
    rest = matrix.copy()
    rows, columns = rest.shape
    vectors, signs = [], np.empty(columns)
    for k in range(columns):
        vector = rest[k:, k].copy()
        length = np.linalg.norm(vector)
        sign = 1.0 if vector[0] >= 0 else -1.0
        signs[k] = -sign
        vector[0] += sign * length
        size = np.linalg.norm(vector)
        vector = vector / size if size > 0 else vector
        rest[k:, k:] -= 2 * np.outer(vector, vector @ rest[k:, k:])
        vectors.append(vector)
    q = np.eye(rows, columns)
    for k in reversed(range(columns)):
        q[k:] -= 2 * np.outer(vectors[k], vectors[k] @ q[k:])
    return q * signs


def sparse_(
    tensor: Tensor,
    sparsity: float,
    std: float = 0.01,
    generator: Generator | None = None,
) -> Tensor:
    """Fill a matrix with normal draws, then set a share of each column to 0.

    Parameters
    ----------
    tensor : Tensor, shape (rows, columns)
    sparsity : float
        Share of the elements of each column that become 0; their number is rounded up.
    std : float, default 0.01
        Deviation of the draws.
    generator : Generator or None

    Raises
    ------
    ShapeError
        If the tensor is not 2-D.

    Notes
    -----
    Source: Martens, Deep learning via Hessian-free optimization, 2010.
    """
    if tensor.ndim != 2:
        raise ShapeError(
            f"sparse_: the tensor is {tuple(tensor.shape)}; it must be 2-D"
        )
    if tensor.is_meta:
        return tensor
    rows, columns = tensor.shape
    count = math.ceil(sparsity * rows)
    values = _drawn(randn, tensor.shape, generator).host_copy() * std
    order = np.argsort(_drawn(rand, (rows, columns), generator).host_copy(), axis=0)
    np.put_along_axis(values, order[:count], 0.0, axis=0)
    return _assign_host(tensor, values)


def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fill from U(-a, a) with a = gain * sqrt(6 / (fan_in + fan_out)).

    Parameters
    ----------
    tensor : Tensor, shape (out, in, ...)
        Weights.
    gain : float, default 1
        See `calculate_gain`.
    generator : Generator or None
        None means the default one.

    Raises
    ------
    ShapeError
        If the tensor has fewer than two dimensions.

    Notes
    -----
    Source: Glorot and Bengio, "Understanding the difficulty of training deep
    feedforward neural networks", AISTATS 2010.
    """
    bound = gain * math.sqrt(6.0 / sum(fans("xavier_uniform_", tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(
    tensor: Tensor, gain: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fill from N(0, std^2) with std = gain * sqrt(2 / (fan_in + fan_out)).

    Parameters
    ----------
    tensor : Tensor, shape (out, in, ...)
        Weights.
    gain : float, default 1
        See `calculate_gain`.
    generator : Generator or None
        None means the default one.

    Raises
    ------
    ShapeError
        If the tensor has fewer than two dimensions.

    Notes
    -----
    Source: Glorot and Bengio, "Understanding the difficulty of training deep
    feedforward neural networks", AISTATS 2010.
    """
    std = gain * math.sqrt(2.0 / sum(fans("xavier_normal_", tensor)))
    return normal_(tensor, 0.0, std, generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill from U(-b, b) with b = gain * sqrt(3 / fan).

    Parameters
    ----------
    tensor : Tensor, shape (out, in, ...)
        Weights.
    a : float, default 0
        Negative slope of the "leaky_relu" that follows.
    mode : str, default "fan_in"
        "fan_in" keeps the variance forward, "fan_out" backward.
    nonlinearity : str, default "leaky_relu"
        What follows; see `calculate_gain`.
    generator : Generator or None

    Notes
    -----
    Source: He et al., "Delving deep into rectifiers", arXiv:1502.01852.
    """
    std = _kaiming_std("kaiming_uniform_", tensor, a, mode, nonlinearity)
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill from N(0, std^2) with std = gain / sqrt(fan).

    Parameters
    ----------
    tensor, a, mode, nonlinearity, generator
        As in `kaiming_uniform_`, and its source.

    Raises
    ------
    ShapeError
        If the tensor has fewer than two dimensions.
    ValueError
        If `mode` or `nonlinearity` is another.
    """
    std = _kaiming_std("kaiming_normal_", tensor, a, mode, nonlinearity)
    return normal_(tensor, 0.0, std, generator)


def fans(name: str, tensor: Tensor) -> tuple[int, int]:
    """Return how many inputs and outputs each element of a weight connects.

    Parameters
    ----------
    name : str
        Who asks, for the error.
    tensor : Tensor, shape (out, in, ...)

    Returns
    -------
    (int, int)
        in and out, times the size of the filters.

    Raises
    ------
    ShapeError
        If the tensor has fewer than two dimensions.
    """
    if tensor.ndim < 2:
        raise ShapeError(
            f"{name}: the tensor is {tuple(tensor.shape)}; it must be (out, in, ...)"
        )
    out_size, in_size, *kernel = tensor.shape
    field = math.prod(kernel)
    return in_size * field, out_size * field


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """Return `fans`, under the name that programs import."""
    return fans("_calculate_fan_in_and_fan_out", tensor)


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """Return the number of inputs or outputs, as `mode` says."""
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(
            f"_calculate_correct_fan: mode is {mode!r}; it must be 'fan_in' or"
            " 'fan_out'"
        )
    fan_in, fan_out = fans("_calculate_correct_fan", tensor)
    return fan_in if mode == "fan_in" else fan_out


def _kaiming_std(
    name: str, tensor: Tensor, a: float, mode: str, nonlinearity: str
) -> float:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"{name}: mode is {mode!r}; it must be 'fan_in' or 'fan_out'")
    fan_in, fan_out = fans(name, tensor)
    gain = calculate_gain(nonlinearity, a)
    fan = fan_in if mode == "fan_in" else fan_out
    # A weight without elements has nothing to draw.
    return gain / math.sqrt(max(fan, 1))


def _assign(tensor: Tensor, values: Tensor) -> Tensor:
    with no_grad():
        return tensor.copy_(values)


def _shape_of_parts(tensor: Tensor) -> tuple[int, ...]:
    """Return the shape of a tensor's real numbers; see `view_as_real`."""
    return (*tensor.shape, 2) if tensor.dtype.is_complex else tuple(tensor.shape)


def _assign_parts(tensor: Tensor, values: Tensor) -> Tensor:
    return _assign(tensor, numbers_of(values) if tensor.dtype.is_complex else values)


def _assign_host(tensor: Tensor, values: np.ndarray) -> Tensor:
    values = values.astype(np.float32)
    return _assign(tensor, Tensor.from_host(values, tensor.device))


def _deprecated(function: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """Return a function under its name without the underscore, which warns."""
    name = function.__name__

    @functools.wraps(function)
    def renamed(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        warnings.warn(
            f"init.{name[:-1]} is deprecated; use init.{name}",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    renamed.__name__ = renamed.__qualname__ = name[:-1]
    renamed.__doc__ = f"Deprecated name of `{name}`."
    return shares_parameters(function)(renamed)


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)


globals().update(
    {
        name: explained(each)
        for name, each in list(globals().items())
        if name.endswith("_") and name[0] != "_" and isinstance(each, FunctionType)
    }
)

# Names that programs import although they are private.
_no_grad_uniform_, _no_grad_normal_ = uniform_, normal_
_no_grad_trunc_normal_ = trunc_normal_


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _defined_names(globals())
