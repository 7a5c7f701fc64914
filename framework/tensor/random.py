"""Random tensors: the same numbers for a seed on every device; see `philox`.

`generator` is where the draws come from; None means the default one, which
`manual_seed` seeds. Each call takes one of its streams, whatever it draws.
"""

from __future__ import annotations

from typing import Any

from .. import ops
from ..base.dtype import DType, DTypeLike, as_dtype, int64
from ..base.errors import DomainError, DTypeError, ShapeError
from ..base.memory_format import check_memory_format
from ..base.philox import Generator
from ..base.shape import Shape
from ..base.validation import as_int, sizes_of
from .factories import DeviceLike, a_tensor, anchor, finished, place_of, wanted
from .tensor import Tensor


def rand(
    *sizes: Any,
    size: Any = None,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return uniform draws from [0, 1), equal on every device.

    They are multiples of 2^-24, of 2^-11 in float16 and of 2^-8 in bfloat16.

    Parameters
    ----------
    *sizes : int, or one sequence of int
        Its shape; none means a tensor without dimensions.
    size : sequence of int or None
        The shape by keyword instead.
    generator : Generator or None
        What draws; None means the default one, which `manual_seed` sets.
    dtype : DType, str or None
        None means the default float dtype.
    device, requires_grad, out, layout, pin_memory
        As in `full`.

    Raises
    ------
    ShapeError
        If a size is below 0.
    DTypeError
        If the dtype is neither float nor complex.
    """
    shape, kind, place = wanted("rand", sizes, dtype, device, size)
    made = ops.draw_uniform(anchor(place), shape, kind, generator)
    return finished("rand", made, requires_grad, out, layout)


def randn(
    *sizes: Any,
    size: Any = None,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return standard normal draws, equal on every device up to float32's rounding.

    Parameters
    ----------
    *sizes : int, or one sequence of int
        Its shape; none means a tensor without dimensions.
    size : sequence of int or None
        The shape by keyword instead.
    generator : Generator or None
        What draws; None means the default one, which `manual_seed` sets.
    dtype : DType, str or None
        None means the default float dtype.
    device, requires_grad, out, layout, pin_memory
        As in `full`.

    Raises
    ------
    ShapeError
        If a size is below 0.
    DTypeError
        If the dtype is neither float nor complex.
    """
    shape, kind, place = wanted("randn", sizes, dtype, device, size)
    made = ops.draw_normal(anchor(place), shape, kind, generator)
    return finished("randn", made, requires_grad, out, layout)


def randint(
    low: int = 0,
    high: int | Shape | None = None,
    size: Shape | int | None = None,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    *,
    out: Tensor | None = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return integers from [low, high), equal on every device.

    Parameters
    ----------
    low : int
        Smallest number, 0 if only `high` is given: `randint(high, size)`.
    high : int
        One above the largest number; at most 2^32 above `low`.
    size : sequence of int or int
        Shape of the result.
    generator : Generator or None
    dtype : DType, str or None
        None means int64.
    device, requires_grad, out, layout, pin_memory
        As in `full`.

    Raises
    ------
    ShapeError
        If there is no such integer, or there are more than 2^32.
    """
    if size is None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    kind = int64 if dtype is None else as_dtype(dtype)
    shape, _, place = wanted("randint", (sizes_of("randint", size),), None, device)
    end = as_int("randint: high", high)
    made = ops.draw_integers(anchor(place), shape, low, end, kind, generator)
    return finished("randint", made, requires_grad, out, layout)


def randperm(
    n: int,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    *,
    out: Tensor | None = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return the integers from 0 to n - 1 in random order, equal on every device.

    They are sorted by draws of 32 bits, so two neighbours in the result keep their
    order a little too often: with probability 2^-32 more than one half.

    Parameters
    ----------
    n : int
        At least 0.
    generator : Generator or None
        What draws; None means the default one, which `manual_seed` sets.
    dtype : DType, str or None
        None means int64.
    device, requires_grad, out, layout, pin_memory
        As in `full`.

    Returns
    -------
    Tensor, shape (n,)

    Raises
    ------
    ShapeError
        If `n` is below 0.
    """
    n = as_int("randperm: n", n)
    if n < 0:
        raise ShapeError(f"randperm: n is {n}; it must be at least 0")
    order = ops.draw_permutation(anchor(place_of(device)), n, generator)
    made = order.to(int64 if dtype is None else as_dtype(dtype))
    return finished("randperm", made, requires_grad, out, layout)


def normal(
    mean: Tensor | float = 0.0,
    std: Tensor | float = 1.0,
    size: Shape | int | None = None,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    *,
    out: Tensor | None = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return normal draws with the mean and deviation of each element.

    Parameters
    ----------
    mean, std : Tensor, float, or number
        Of shapes that broadcast.
    size : sequence of int or int
        How many are drawn, if neither is a tensor; otherwise without effect, as are
        `dtype`, `device` and `requires_grad`.
    generator : Generator or None
        What draws; None means the default one, which `manual_seed` sets.
    dtype : DType, str or None
        None means the default float dtype.
    device, requires_grad, out, layout, pin_memory
        As in `full`.

    Raises
    ------
    ShapeError
        If `size` is missing, or the tensors do not broadcast.
    DomainError
        If a deviation that is a number, or on the host, is negative.
    DTypeError
        If the dtype is not a float one, nor that of `out`, or `std` is complex.
    """
    if isinstance(std, Tensor) and std.dtype.is_complex:
        raise DTypeError(f"normal: std is {std.dtype.name}; it must be real")
    if isinstance(out, Tensor) and not out.dtype.is_differentiable:
        raise DTypeError(f"normal: out is {out.dtype.name}; it must be of floats")
    if isinstance(mean, Tensor) or isinstance(std, Tensor):
        return finished("normal", ops.normal(mean, std, generator), False, out, layout)
    if size is None:
        raise ShapeError("normal: size is missing; say how many to draw")
    if not isinstance(std, Tensor) and std < 0:
        raise DomainError(f"normal: std is {std}; it must be at least 0")
    shape, kind, place = wanted("normal", (sizes_of("normal", size),), dtype, device)
    made = ops.draw_normal(anchor(place), shape, kind, generator) * std + mean
    return finished("normal", made, requires_grad, out, layout)


def rand_like(
    input: Tensor,
    generator: Generator | None = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return uniform draws from [0, 1) in the shape of `input`; see `rand`.

    Parameters
    ----------
    input : Tensor
        Float or complex, unless `dtype` is given.
    generator : Generator or None
        What draws; None means the default one, which `manual_seed` sets.
    dtype : DType, str or None
        None means that of `input`.
    device : Device, str or None
        None means that of `input`.
    requires_grad : bool, default False
        Whether `backward` computes a gradient for it.
    layout, pin_memory, memory_format
        Without effect.

    Raises
    ------
    DTypeError
        If the dtype is neither float nor complex.
    """
    like, kind = _like("rand_like", input, dtype, device, memory_format)
    made = ops.draw_uniform(like, input.layout.shape, kind, generator)
    return finished("rand_like", made, requires_grad, None, layout)


def randn_like(
    input: Tensor,
    generator: Generator | None = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return standard normal draws in the shape of `input`; see `randn`.

    Parameters
    ----------
    input : Tensor
        Float or complex, unless `dtype` is given.
    generator : Generator or None
        What draws; None means the default one, which `manual_seed` sets.
    dtype : DType, str or None
        None means that of `input`.
    device : Device, str or None
        None means that of `input`.
    requires_grad : bool, default False
        Whether `backward` computes a gradient for it.
    layout, pin_memory, memory_format
        Without effect.

    Raises
    ------
    DTypeError
        If the dtype is neither float nor complex.
    """
    like, kind = _like("randn_like", input, dtype, device, memory_format)
    made = ops.draw_normal(like, input.layout.shape, kind, generator)
    return finished("randn_like", made, requires_grad, None, layout)


def randint_like(
    input: Tensor,
    low: int = 0,
    high: int | None = None,
    generator: Generator | None = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return integers from [low, high) in the shape and dtype of `input`.

    Parameters
    ----------
    input : Tensor
    low : int
        Smallest number, 0 if only `high` is given: `randint_like(input, high)`.
    high : int
        One above the largest number; at most 2^32 above `low`.
    generator : Generator or None
        What draws; None means the default one, which `manual_seed` sets.
    dtype : DType, str or None
        None means that of `input`.
    device : Device, str or None
        None means that of `input`.
    requires_grad : bool, default False
        Whether `backward` computes a gradient for it.
    layout, pin_memory, memory_format
        Without effect.

    Raises
    ------
    ShapeError
        If there is no such integer, or there are more than 2^32.
    """
    first, end = (0, low) if high is None else (low, high)
    like, kind = _like("randint_like", input, dtype, device, memory_format)
    made = ops.draw_integers(like, input.layout.shape, first, end, kind, generator)
    return finished("randint_like", made, requires_grad, None, layout)


def _like(
    name: str,
    input: Tensor,
    dtype: DTypeLike | None,
    device: DeviceLike,
    memory_format: Any,
) -> tuple[Tensor, DType]:
    """Return a tensor on the device of the result, and its dtype."""
    x = a_tensor(name, input)
    check_memory_format(name, memory_format)
    like = x if device is None else anchor(place_of(device))
    return like, x.dtype if dtype is None else as_dtype(dtype)
