"""Random distributions; `generator` None means the default one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...autograd.tape import shown_as
from ...base.dtype import DType, float32, int32, int64, uint32
from ...base.errors import DomainError, DTypeError, ShapeError
from ...base.philox import Generator, wrapped
from ...base.shape import Shape, broadcast_shapes
from ...base.validation import as_int
from ...eager.base_tensor import TensorCore
from ..elementwise.binary import add, mul, remainder
from ..elementwise.cast import cast, converted, need_numbers
from ..elementwise.compare import clamp_min, eq, lt, where
from ..elementwise.complex_numbers import numbers_of
from ..elementwise.unary import with_zero_gradient
from ..indexing.segment_sum import argsort_keys
from ..movement.concat import cat
from ..reduce.minmax import argmax
from ..source import (
    arange_like,
    exponential_like,
    fill_like,
    integers_like,
    normal_like,
    random_bits_like,
    random_uniform,
    stream_for,
    uniform_like,
)
from ..view import expand, unsqueeze

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor

UNIFORM_BITS = {"float16": 11, "bfloat16": 8}
"""Bits of a uniform draw where 24, rounded, could give 1: those of the significand."""

LEAST_DRAW = 2.0**-25
"""Below every exponential draw but 0."""

MOST_CHOICES = 1 << 32
"""Integers that a draw of 32 bits can tell apart."""


def _need_float(name: str, dtype: DType) -> None:
    if not dtype.is_float:
        raise DTypeError(f"{name}: dtype is {dtype.name}; it must be a float dtype")


def draw_uniform(
    like: Tensor, shape: Shape, dtype: DType, generator: Generator | None = None
) -> Tensor:
    """Return draws from [0, 1) on the device of `like`."""
    if dtype.is_complex:
        parts = (*shape, 2)
        return numbers_of(draw_uniform(like, parts, dtype.to_real(), generator))
    _need_float("rand", dtype)
    stream = stream_for(like, generator)
    if dtype.name not in UNIFORM_BITS:
        return uniform_like(like, stream, shape, dtype)
    steps = 1 << UNIFORM_BITS[dtype.name]
    numbers = cast(uniform_like(like, stream, shape, float32) * steps, int32)
    return cast(cast(numbers, float32) * (1.0 / steps), dtype)


def draw_normal(
    like: Tensor, shape: Shape, dtype: DType, generator: Generator | None = None
) -> Tensor:
    """Return standard normal draws on the device of `like`."""
    if dtype.is_complex:
        drawn = draw_normal(like, (*shape, 2), dtype.to_real(), generator)
        return numbers_of(mul(drawn, math.sqrt(0.5)))
    _need_float("randn", dtype)
    return normal_like(like, stream_for(like, generator), shape, dtype)


def draw_exponential(
    like: Tensor, shape: Shape, dtype: DType, generator: Generator | None = None
) -> Tensor:
    """Return draws from the exponential distribution of mean 1."""
    _need_float("exponential", dtype)
    return exponential_like(like, stream_for(like, generator), shape, dtype)


def draw_integers(
    like: Tensor,
    shape: Shape,
    low: int,
    high: int,
    dtype: DType,
    generator: Generator | None = None,
) -> Tensor:
    """Return integers from [low, high) on the device of `like`.

    Raises
    ------
    ShapeError
        If there is no such integer, or more than 2^32 for a dtype of less than 8 bytes.
    DTypeError
        If `dtype` does not hold them all.
    """
    low, high = as_int("randint: low", low), as_int("randint: high", high)
    if low >= high:
        raise ShapeError(
            f"randint: there are no integers from {low} to before {high}; high must be"
            " above low"
        )
    if high - low > MOST_CHOICES and dtype.itemsize < 8:
        raise ShapeError(
            f"randint: there are {high - low} integers from {low} to before {high};"
            f" {dtype.name} tells at most {MOST_CHOICES} apart"
        )
    if not dtype.is_float:
        least, most = dtype.limits
        if low < least or high - 1 > most:
            raise DTypeError(
                f"randint: {dtype.name} holds {least} to {most}, not all from {low} to"
                f" {high - 1}"
            )
    if high - low > MOST_CHOICES:
        return cast(_wide_integers(like, shape, low, high, generator), dtype)
    compute = int64 if dtype.itemsize == 8 and not dtype.is_float else int32
    bits = 8 * compute.itemsize
    start, span = wrapped(low, bits), wrapped(high - low, bits)
    drawn = integers_like(
        like, stream_for(like, generator), shape, start, span, compute
    )
    return drawn if compute is dtype else cast(drawn, dtype)


def _wide_integers(
    like: Tensor, shape: Shape, low: int, high: int, generator: Generator | None
) -> Tensor:
    """Return int64 from [low, high), of which there are more than 2^32.

    Of draws of 63 or 64 bits those past a multiple of their number are taken modulo it.
    """
    span, half = high - low, 1 << 63

    def word(start: int, count: int) -> Tensor:
        stream, size = stream_for(like, generator), wrapped(count, 64)
        return integers_like(like, stream, shape, start, size, int64)

    if span <= half:
        drawn = add(mul(word(0, 1 << 31), MOST_CHOICES), word(0, MOST_CHOICES))
        return add(remainder(drawn, span) if span < half else drawn, low)
    drawn = add(
        mul(word(-(1 << 31), MOST_CHOICES), MOST_CHOICES), word(0, MOST_CHOICES)
    )
    inside = add(drawn, half + low)
    beyond = add(drawn, wrapped(half - span + low, 64))
    return where(lt(drawn, span - half), inside, beyond)


def draw_permutation(
    like: Tensor, n: int, generator: Generator | None = None
) -> Tensor:
    """Return the integers below `n` in random order, as int32."""
    stream = stream_for(like, generator)
    return argsort_keys(random_bits_like(like, stream, (n,), uint32))


@shown_as("BernoulliBackward0", "x")
def bernoulli(
    x: Tensor, p: float | None = None, *, generator: Generator | None = None
) -> Tensor:
    """Return 1 with the probability that each element says, otherwise 0.

    Parameters
    ----------
    x : Tensor
        Float, from 0 to 1; of any dtype where `p` is given.
    p : float, optional
        The probability of each, in place of those of `x`.
    generator : Generator or None

    Returns
    -------
    Tensor, shape and dtype of `x`
        Its gradient is 0.

    Raises
    ------
    DomainError
        If, on the host, a probability is not from 0 to 1; on a device those above 1 are
        as 1, and others as 0.
    """
    if p is not None:
        if not 0 <= p <= 1:
            raise DomainError(f"bernoulli: p is {p}; it must be from 0 to 1")
        chances = fill_like(x.detach(), x.layout.shape, p, float32)
        return with_zero_gradient(
            cast(bernoulli(chances, generator=generator), x.dtype), x
        )
    _need_float("bernoulli", x.dtype)
    if x.is_cpu:
        chances = x.host_view()
        good = (chances >= 0) & (chances <= 1)
        need_numbers("bernoulli", x, good, "probabilities are from 0 to 1")
    chosen = random_uniform(x, stream_for(x, generator)) < x.detach()
    return with_zero_gradient(cast(chosen, x.dtype), x)


def _normal_node(mean: object, std: object, generator: object = None) -> str:
    given = isinstance(mean, TensorCore), isinstance(std, TensorCore)
    return f"NormalBackward{given[0] + 2 * given[1]}"


@shown_as(_normal_node, "mean", "std")
def normal(
    mean: Tensor | float, std: Tensor | float, generator: Generator | None = None
) -> Tensor:
    """Return normal draws; at least one of mean and deviation is a tensor.

    Gradients of both are 0, as in PyTorch; `distributions.Normal.rsample` has others.

    Raises
    ------
    DomainError
        If, on the host, a deviation is below 0; on a device it is as its magnitude.
    """
    tensors = [each for each in (mean, std) if isinstance(each, TensorCore)]
    shape = broadcast_shapes("normal", *(each.shape for each in tensors))
    dtype = tensors[0].dtype
    if not isinstance(std, int | float) and std.is_cpu:
        need_numbers("normal", std, ~(std.host_view() < 0), "deviations are at least 0")
    if isinstance(std, int | float) and std < 0:
        raise ShapeError(f"normal: std is {std}; it must be at least 0")
    loc, scale = (
        each.detach() if isinstance(each, TensorCore) else each for each in (mean, std)
    )
    drawn = draw_normal(tensors[0], shape, dtype, generator) * scale + loc
    drawn = converted(drawn, dtype)
    for each in tensors:
        drawn = with_zero_gradient(drawn, each)
    return drawn


def multinomial(
    x: Tensor,
    num_samples: int,
    replacement: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """Return classes drawn with probabilities in proportion to the weights of a row.

    Each class gets a draw from the exponential distribution, and the greatest quotient
    of weight and draw wins.

    Parameters
    ----------
    x : Tensor, shape (classes,) or (rows, classes)
        Float weights, at least 0; they need not sum to 1.
    num_samples : int
        Draws per row; without replacement at most the number of classes.
    replacement : bool, default False
        Whether a class may be drawn again. Without, classes of weight 0 come last.
    generator : Generator or None

    Returns
    -------
    Tensor, shape (num_samples,) or (rows, num_samples), int64
        int32 on a device without 64-bit integers.

    Raises
    ------
    ShapeError
        If there are not as many classes, or `x` has another number of dimensions.
    DomainError
        If, on the host, a weight is below 0, infinite or NaN, or all of a row are 0; on
        a device its draws mean nothing, but are classes.
    """
    _need_float("multinomial", x.dtype)
    if len(x.layout.shape) not in (1, 2) or x.layout.shape[-1] == 0:
        raise ShapeError(
            f"multinomial: x is {tuple(x.shape)}; it must be (classes,) or (rows,"
            " classes)"
        )
    num_samples = as_int("multinomial: num_samples", num_samples)
    if num_samples < 1 or (not replacement and num_samples > x.layout.shape[-1]):
        raise ShapeError(
            f"multinomial: {num_samples} draws from {x.shape[-1]} classes; at least 1,"
            " and without replacement at most as many as classes, are possible"
        )
    if x.is_cpu:
        found = x.host_view()
        positive = np.broadcast_to((found > 0).any(-1, keepdims=True), found.shape)
        good = (found >= 0) & (found < math.inf) & positive
        wanted = "weights are finite, at least 0, and one of a row above 0"
        need_numbers("multinomial", x, good, wanted)
    weights = cast(x.detach(), float32) if x.dtype is not float32 else x.detach()
    if replacement:
        weights = expand(
            unsqueeze(weights, -2),
            (*x.layout.shape[:-1], num_samples, x.layout.shape[-1]),
        )
    draws = draw_exponential(x, weights.shape, float32, generator)
    # A draw of 0 would make NaN of a weight of 0.
    scores = weights / clamp_min(draws, LEAST_DRAW)
    if replacement:
        return argmax(scores, -1)
    classes = arange_like(x, (x.layout.shape[-1],), 0, 1, int32)
    chosen = [argmax(scores, -1, True)]
    for _ in range(num_samples - 1):
        scores = where(eq(classes, chosen[-1]), -1.0, scores)
        chosen.append(argmax(scores, -1, True))
    return cat(chosen, -1)
