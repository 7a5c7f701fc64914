"""Comparison of tensors in tests, and tensors to test with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .base.docstring import shares_parameters
from .base.dtype import DType, bool_, float64, int64, promote_types
from .base.public_names import public_names as _public_names
from .tensor.factories import zeros
from .tensor.from_data import as_tensor
from .tensor.random import rand, randint
from .tensor.tensor import Tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise if two tensors, numbers, or structures of them are not close.

    Parameters
    ----------
    actual, expected : Tensor, number, array, sequence or mapping
    allow_subclasses : bool, default True
        Whether classes may differ where one is a subclass of the other.
    rtol, atol : float or None
        `|actual - expected| <= atol + rtol * |expected|` must hold; both or neither.
        None means by dtype, of two the wider: 1.3e-6 and 1e-5 for float32, 0 for ints.
    equal_nan : bool, default False
    check_device, check_dtype, check_stride : bool
        Whether these must be the same.
    check_layout : bool
        Has no effect: there is one layout.
    msg : str, callable or None
        Text of the error, or what makes it of the usual one.

    Raises
    ------
    AssertionError
        If something differs.
    ValueError
        If one of `rtol` and `atol` is given without the other.

    Examples
    --------
    >>> fw.testing.assert_close(fw.tensor([1.0, 2.0]), fw.tensor([1.0, 2.0 + 1e-6]))
    """
    if (rtol is None) != (atol is None):
        raise ValueError(
            f"assert_close: rtol is {rtol}, atol is {atol}; give both or neither"
        )
    checks = {
        "device": check_device,
        "dtype": check_dtype,
        "stride": check_stride,
        "subclasses": allow_subclasses,
    }
    wrong = _difference(actual, expected, (rtol, atol), equal_nan, checks, "")
    if wrong:
        said = msg(wrong) if callable(msg) else msg or wrong
        raise AssertionError(said)


@shares_parameters(assert_close)
def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """Raise if values are not close, whatever their dtypes; see `assert_close`."""
    options = {"check_device": True, "check_dtype": False, "check_stride": False}
    options |= {"equal_nan": equal_nan}
    given = actual if isinstance(actual, Tensor) else as_tensor(actual)
    wanted = expected if isinstance(expected, Tensor) else as_tensor(expected)
    assert_close(
        given, wanted.to(given.device), rtol=rtol, atol=atol, msg=msg or None, **options
    )


def _difference(
    actual: Any,
    expected: Any,
    tolerances: tuple[float | None, float | None],
    equal_nan: bool,
    checks: dict[str, bool],
    place: str,
) -> str:
    """Return what differs between two structures, or an empty text."""
    rest = tolerances, equal_nan, checks
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            return f"assert_close: the keys differ{place}"
        pairs = [(actual[key], expected[key], key) for key in actual]
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            return f"assert_close: {len(actual)} and {len(expected)} elements{place}"
        pairs = [(*both, at) for at, both in enumerate(zip(actual, expected))]
    else:
        return _tensor_difference(actual, expected, *rest, place)
    found = (
        _difference(one, two, *rest, f"{place}[{key!r}]") for one, two, key in pairs
    )
    return next((text for text in found if text), "")


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _tensor_difference(
    actual: Any,
    expected: Any,
    tolerances: tuple[float | None, float | None],
    equal_nan: bool,
    checks: dict[str, bool],
    place: str,
) -> str:
    where = f"assert_close{' at ' + place if place else ''}"
    if isinstance(actual, Tensor) != isinstance(expected, Tensor):
        kinds = type(actual).__name__, type(expected).__name__
        return f"{where}: a {kinds[0]} and a {kinds[1]} are compared"
    if not isinstance(actual, Tensor):
        if actual is None or expected is None:
            return "" if actual is expected else f"{where}: one is None"
        actual, expected = as_tensor(actual), as_tensor(expected)
    elif not checks["subclasses"] and type(actual) is not type(expected):
        return f"{where}: the classes differ"
    for name in ("shape", "device", "dtype"):
        one, two = getattr(actual, name), getattr(expected, name)
        if one != two and checks.get(name, True):
            return f"{where}: the {name}s are {one} and {two}"
    if checks["stride"] and actual.stride() != expected.stride():
        return f"{where}: the strides are {actual.stride()} and {expected.stride()}"
    return _value_difference(where, actual, expected, tolerances, equal_nan)


def _value_difference(
    where: str,
    actual: Tensor,
    expected: Tensor,
    tolerances: tuple[float | None, float | None],
    equal_nan: bool,
) -> str:
    known = [
        _TOLERANCES.get(each.dtype.name, (0.0, 0.0)) for each in (actual, expected)
    ]
    rtol, atol = (
        given if given is not None else max(each[k] for each in known)
        for k, given in enumerate(tolerances)
    )
    wide = promote_types(actual.dtype, expected.dtype)
    if not wide.is_complex:
        wide = float64 if wide.is_floating_point else int64
    one, two = (
        np.asarray(each.detach().cpu().to(wide).host_copy())
        for each in (actual, expected)
    )
    with np.errstate(all="ignore"):
        gap = np.abs(one - two)
        close = (one == two) | (gap <= atol + rtol * np.abs(two)) & np.isfinite(gap)
    if equal_nan:
        close |= (one != one) & (two != two)
    if close.all():
        return ""
    worst = np.unravel_index(
        np.argmax(np.where(close, -1.0, np.nan_to_num(gap, nan=np.inf))), gap.shape
    )
    return (
        f"{where}: {close.size - int(close.sum())} of {close.size} elements are not"
        f" close; at {tuple(int(k) for k in worst)} they are {one[worst]} and"
        f" {two[worst]}, where {rtol:g} relative or {atol:g} absolute are allowed"
    )


def make_tensor(
    *shape: Any,
    dtype: DType,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return a tensor of uniform random numbers.

    Parameters
    ----------
    *shape : int, or one tuple
    dtype : DType
    device : device
    low, high : float or None
        Bounds, the upper one excluded; by default -9 and 9, 0 and 10 for uint8, 0 and 2
        for bools.
    requires_grad : bool, default False
    noncontiguous : bool, default False
        Whether every second element of a larger tensor is taken.
    exclude_zero : bool, default False
        Whether zeros become the smallest normal number, or 1.
    memory_format
        Has no effect.

    Raises
    ------
    ValueError
        If `low` is not below `high`.
    """
    sizes = (
        tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    )
    defaults = (
        (0, 2) if dtype is bool_ else (0, 10) if dtype.name[0] == "u" else (-9, 9)
    )
    least = defaults[0] if low is None else low
    most = defaults[1] if high is None else high
    if not least < most:
        raise ValueError(
            f"make_tensor: low is {low}, high is {high}; low must be below"
        )
    wide = (*sizes[:-1], 2 * sizes[-1]) if noncontiguous and sizes else sizes
    if dtype.is_floating_point:
        made = rand(wide, device=device) * (most - least) + least
    elif 0 in wide:
        made = zeros(wide, device=device)
    else:
        made = randint(int(least), int(most), wide, device=device)
    result: Tensor = made.to(dtype)
    if noncontiguous and sizes:
        result = result[..., ::2]
    if exclude_zero:
        result = result.masked_fill(result == 0, 1)
    return result.detach().requires_grad_(requires_grad)


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
