"""Logarithms of running sums of exponentials along a dimension."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...autograd.engine import is_grad_enabled
from ...autograd.tape import shown_as
from ...base.dtype import FLOAT
from ...base.shape import TensorSpec, normalize_dim
from ...dispatch.declare import primitive
from ...dispatch.replayable import replayable
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.scan import scan_dispatches
from ..elementwise.binary import add, mul, sub
from ..elementwise.compare import eq, gt, lt, where
from ..elementwise.complex_numbers import real_of
from ..elementwise.exponential import exp, log
from ..elementwise.unary import abs, lazy_copy
from ..indexing.gather import rows_of
from ..movement.concat import cat
from ..movement.slice import narrow
from ..source import fill_like
from ..view import reshape
from .common import as_dtype_of, in_storage
from .running_extreme import cummax
from .scan import linear_recurrence, shifted
from .variance import _need_float

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


@primitive(dtypes=FLOAT, typed="x")
def _logcumsumexp(x: Tensor, reverse: bool) -> Tensor:
    """Return log(cumsum(exp(x))) along the middle of three dimensions."""


@_logcumsumexp.spec
def _logcumsumexp_spec(x: TensorSpec, reverse: bool) -> TensorSpec:
    return x


@_logcumsumexp.kernel
def _logcumsumexp_kernel(
    gpu: DeviceInfo, x: StridedSpec, reverse: bool
) -> list[Dispatch]:
    return scan_dispatches(gpu, x, "logsumexp", reverse)


@_logcumsumexp.vjp
def _logcumsumexp_vjp(grad: Tensor, x: Tensor, out: Tensor, reverse: bool) -> Tensor:
    """Add up, for each element, gradients times its share of the sums it is in.

    As logarithms, those above 0 and those below it apart, which PyTorch does, too. A
    gradient that is recorded is computed without logarithms of 0.
    """
    if is_grad_enabled():
        return _recorded_vjp(grad, x, out, reverse)
    size = log(abs(grad))
    above, below = (
        exp(add(_logcumsumexp(sub(where(sign, size, -math.inf), out), not reverse), x))
        for sign in (gt(grad, 0.0), lt(grad, 0.0))
    )
    return sub(above, below)


def _recorded_vjp(grad: Tensor, x: Tensor, out: Tensor, reverse: bool) -> Tensor:
    """Return the gradient in sums alone, each exp(its base) to be multiplied with.

    The sum over j from k on of grad[j] exp(out[k] - out[j]) is that from k + 1 on times
    exp(out[k] - out[k + 1]), plus grad[k].
    """
    behind = shifted(out, -1, 0.0, reverse)
    ends = shifted(fill_like(out, out.shape, 1, out.dtype), -1, 0.0, reverse)
    factor = where(eq(ends, 0.0), 0.0, exp(sub(out, behind)))
    return exp(sub(x, out)) * linear_recurrence(factor, grad, reverse)


@_logcumsumexp.reference
def _logcumsumexp_reference(x: np.ndarray, reverse: bool) -> np.ndarray:
    turned = x[:, ::-1] if reverse else x
    with np.errstate(invalid="ignore"):
        out = np.logaddexp.accumulate(turned, axis=1, dtype=np.float64).astype(x.dtype)
    return out[:, ::-1] if reverse else out


@shown_as("LogcumsumexpBackward0", "input")
@replayable
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """Return log(cumsum(exp(input))) along a dimension, without overflow.

    Parameters
    ----------
    input : Tensor, float or complex
        Any shape.
    dim : int
        The dimension.
    """
    if not input.dtype.is_complex:
        _need_float("logcumsumexp", input)
    at = normalize_dim("logcumsumexp", dim, len(input.layout.shape) or 1)
    if len(input.layout.shape) == 0 or input.numel() == 0:
        return lazy_copy(input)
    if not input.dtype.is_complex:
        out = _logcumsumexp(in_storage(rows_of(input, at)), False)
        return as_dtype_of(reshape(out, input.layout.shape), input.dtype)
    # By distances that double; each sum is over exp(its base).
    most = cummax(real_of(input.detach()), at).values
    base = where(eq(abs(most), math.inf), 0.0, most)
    total = exp(sub(input, base))
    size, step = input.layout.shape[at], 1
    while step < size:
        rest = size - step
        (later, earlier), (new, old) = (
            (narrow(each, at, step, rest), narrow(each, at, 0, rest))
            for each in (total, base)
        )
        joined = add(later, mul(earlier, exp(sub(old, new))))
        total = cat([narrow(total, at, 0, step), joined], at)
        step *= 2
    none = eq(total, 0.0)
    return where(none, -math.inf, add(log(where(none, 1.0, total)), base))
