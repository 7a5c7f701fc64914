"""Functions of lists of tensors, `_foreach_add` and its like: one call for all of them.

Each makes what a loop over the lists makes. On a device the work of all tensors is
pending together, so that the scheduler makes few kernels of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import ops
from ..base.errors import ShapeError
from ..ops import matrix_functions
from .tensor import Tensor

UNARY = """
    abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10
    log1p log2 neg reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc
"""
"""Methods of one tensor, each with a form in place."""

BINARY = "add sub mul div maximum minimum clamp_min clamp_max pow"
"""Methods of a tensor and another, or a number, each with a form in place."""

BOUNDS = {
    "maximum": "clamp_min",
    "minimum": "clamp_max",
    "clamp_min": "maximum",
    "clamp_max": "minimum",
}
"""What takes a number where the method takes tensors, and the other way round."""


def _listed(name: str, tensors: Any) -> list[Any]:
    """Return a list of tensors, which must not be empty."""
    if not isinstance(tensors, list | tuple):
        raise TypeError(
            f"{name}: a {type(tensors).__name__} is given; it must be a list of tensors"
        )
    for each in tensors:
        if not isinstance(each, Tensor):
            raise TypeError(
                f"{name}: the list has a {type(each).__name__}; it must be of tensors"
            )
    if not tensors:
        raise ShapeError(f"{name}: the list is empty; it must have one tensor or more")
    return [*tensors]


def _others(name: str, other: Any, count: int) -> list[Any]:
    """Return an operand for each tensor: those of a list, or one for all of them."""
    if not isinstance(other, list | tuple):
        return [other] * count
    if len(other) != count:
        raise ShapeError(
            f"{name}: {len(other)} operands for {count} tensors; give one each"
        )
    return [*other]


def _finished(results: list[Any], in_place: bool) -> Any:
    return results if in_place else tuple(results)


def _unary(name: str, in_place: bool) -> Callable[..., Any]:
    method = getattr(Tensor, f"{name}_" if in_place else name)
    own = f"_foreach_{name}_" if in_place else f"_foreach_{name}"

    def call(self: Sequence[Tensor]) -> Any:
        found = _listed(own, self)
        return _finished([method.__get__(each, Tensor)() for each in found], in_place)

    return _named(call, own, f"Apply `Tensor.{name}` to each tensor of a list")


def _binary(name: str, in_place: bool) -> Callable[..., Any]:
    suffix = "_" if in_place else ""
    own = f"_foreach_{name}{suffix}"

    def one(x: Any, y: Any, options: dict[str, Any]) -> Any:
        method = name
        if name in BOUNDS and isinstance(y, Tensor) is name.startswith("clamp"):
            method = BOUNDS[name]
        if not in_place:
            return getattr(x, method)(y, **options)
        if hasattr(x, f"{method}_"):
            return getattr(x, f"{method}_")(y, **options)
        return x.copy_(getattr(x, method)(y, **options))

    def call(self: Any, other: Any = None, *, alpha: float = 1, **named: Any) -> Any:
        for keyword in ("scalar", "scalars", "others", "exponent", "tensors"):
            if keyword in named:
                other = named.pop(keyword)
        if named:
            raise TypeError(f"{own}: unexpected argument {', '.join(named)}")
        if name == "pow" and not isinstance(self, list | tuple):
            found = _listed(own, other)
            return _finished([self**each for each in found], in_place)
        found = _listed(own, self)
        options = {} if alpha == 1 else {"alpha": alpha}
        pairs = zip(found, _others(own, other, len(found)))
        return _finished([one(x, y, options) for x, y in pairs], in_place)

    return _named(call, own, f"Apply `Tensor.{name}` to pairs of two lists")


def _quotient(name: str, in_place: bool) -> Callable[..., Any]:
    suffix = "_" if in_place else ""
    own = f"_foreach_{name}{suffix}"

    def call(
        self: Any, tensor1: Any, tensor2: Any, value: Any = 1, *, scalars: Any = None
    ) -> Any:
        found = _listed(own, self)
        first = _others(own, _listed(own, tensor1), len(found))
        second = _others(own, _listed(own, tensor2), len(found))
        values = value if scalars is None else scalars
        if isinstance(values, Tensor):
            values = values.tolist()
        factors = _others(own, values, len(found))
        results = [
            getattr(x, f"{name}{suffix}")(a, b, value=factor)
            for x, a, b, factor in zip(found, first, second, factors)
        ]
        return _finished(results, in_place)

    return _named(call, own, f"Apply `Tensor.{name}` to the tensors of three lists")


def _lerp(in_place: bool) -> Callable[..., Any]:
    own = "_foreach_lerp_" if in_place else "_foreach_lerp"

    def call(self: Any, tensors1: Any, weight: Any) -> Any:
        found = _listed(own, self)
        ends = _others(own, _listed(own, tensors1), len(found))
        weights = _others(own, weight, len(found))
        results = [
            x.lerp_(end, factor) if in_place else x.lerp(end, factor)
            for x, end, factor in zip(found, ends, weights)
        ]
        return _finished(results, in_place)

    return _named(call, own, "Apply `Tensor.lerp` to the tensors of lists")


def _named(call: Callable[..., Any], name: str, does: str) -> Callable[..., Any]:
    call.__name__ = call.__qualname__ = name
    how = ", in place." if name.endswith("_") else "."
    call.__doc__ = does + how
    return call


def _foreach_norm(self: Any, ord: float = 2, dtype: Any = None) -> Any:
    """Return the vector norm of each tensor of a list."""
    found = _listed("_foreach_norm", self)
    norm = matrix_functions.vector_norm
    return tuple([norm(each, ord, dtype=dtype) for each in found])


def _foreach_max(self: Any) -> Any:
    """Return the largest element of each tensor of a list."""
    return tuple([each.max() for each in _listed("_foreach_max", self)])


def _foreach_powsum(self: Any, ord: float = 2, dtype: Any = None) -> Any:
    """Return the sum of the absolute values to a power of each tensor of a list."""
    found = _listed("_foreach_powsum", self)
    return tuple([each.abs().pow(ord).sum(dtype=dtype) for each in found])


def _foreach_clone(self: Any) -> Any:
    """Return a copy of each tensor of a list."""
    return tuple([each.clone() for each in _listed("_foreach_clone", self)])


def _foreach_mm(self: Any, mat2: Any) -> Any:
    """Return the matrix product of each pair of two lists."""
    found = _listed("_foreach_mm", self)
    others = _others("_foreach_mm", _listed("_foreach_mm", mat2), len(found))
    return tuple([ops.mm(x, y) for x, y in zip(found, others)])


def _foreach_copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Copy the tensors of one list into those of another, in place."""
    found = _listed("_foreach_copy_", self)
    sources = _others("_foreach_copy_", _listed("_foreach_copy_", src), len(found))
    return [x.copy_(source) for x, source in zip(found, sources)]


def _foreach_zero_(self: Any) -> Any:
    """Replace the elements of each tensor of a list by 0, in place."""
    return [each.zero_() for each in _listed("_foreach_zero_", self)]


_APART: tuple[Callable[..., Any], ...] = (
    _foreach_norm,
    _foreach_max,
    _foreach_powsum,
    _foreach_clone,
    _foreach_mm,
    _foreach_copy_,
    _foreach_zero_,
)

FOREACH: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        *[_unary(name, flag) for name in UNARY.split() for flag in (False, True)],
        *[_binary(name, flag) for name in BINARY.split() for flag in (False, True)],
        *[_quotient(n, flag) for n in ("addcdiv", "addcmul") for flag in (False, True)],
        *map(_lerp, (False, True)),
        *_APART,
    )
}
"""What `framework` offers of them, by name."""


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Tensor | None]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Tensor | None]], list[int]]]:
    """Return lists of tensors by the device and dtype of the first list's.

    Parameters
    ----------
    tensorlistlist : sequence of sequences of Tensor
        Lists of one size; what belongs together has one position. Other lists than the
        first may have None.
    with_indices : bool, default False
        Whether to return the positions.

    Returns
    -------
    dict of (Device, DType) to (list of lists, list of int)
    """
    first, *_ = tensorlistlist
    groups: dict[Any, list[int]] = {}
    for position, each in enumerate(first):
        if each is None:
            raise TypeError(
                "_group_tensors_by_device_and_dtype: the first list has None at"
                f" {position}; it must be of tensors"
            )
        groups.setdefault((each.device, each.dtype), []).append(position)
    return {
        key: (
            [[each[k] for k in positions] if each else [] for each in tensorlistlist],
            positions if with_indices else [],
        )
        for key, positions in groups.items()
    }


def _has_foreach_support(tensors: Sequence[Tensor], device: Any) -> bool:
    """Return whether functions of lists take such tensors: always."""
    return True


def _device_has_foreach_support(device: Any) -> bool:
    """Return whether functions of lists compute on a device: always."""
    return True
