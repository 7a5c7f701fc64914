"""The dtype that each operation computes in within a block of `modes.autocast`.

Most operations take tensors as they come and let their dtypes promote. Those that are
declared `lowered` (matrix products, convolutions, attention) take 16-bit copies of
their tensors within a block; those that are declared `in_float32` (exponentials,
softmax, norms, sums, losses) take float32 ones, and those declared `widened` the widest
dtype of their arguments. float64, integers and bools stay as they are. What an
operation is made of is not converted again, nor is what `backward` computes: gradients
have the dtypes of the forward pass.

Source: PyTorch's `torch/include/ATen/autocast_mode.h`, the lists for CUDA.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from ..autograd.engine import is_grad_enabled
from ..base import modes
from ..base.dtype import DType, float32, float64
from ..base.modes import as_they_come, here
from ..eager.base_tensor import TensorCore

if TYPE_CHECKING:
    from ..ir.lazy_graph import Value

F = TypeVar("F", bound=Callable[..., Any])
Policy = Callable[[DType, Sequence[DType]], DType | None]
"""From the block's dtype and those of a call's tensors to the one to compute in.

None leaves the tensors as they come.
"""


class _Copy(NamedTuple):
    """A leaf in the block's dtype, and what the copy was made of."""

    leaf: TensorCore
    value: Value
    on_tape: bool
    copy: Any


def _low(dtype: DType, dtypes: Sequence[DType]) -> DType:
    return dtype


def _single(dtype: DType, dtypes: Sequence[DType]) -> DType:
    return float32


def _widest(dtype: DType, dtypes: Sequence[DType]) -> DType:
    return dtypes[0] if len(set(dtypes)) == 1 else float32


def _given(dtype: DType, dtypes: Sequence[DType]) -> None:
    return None


def lowered(function: F) -> F:
    """Declare that a function, or op, computes in the block's dtype."""
    return _declared(function, _low)


def in_float32(function: F) -> F:
    """Declare that a function, or op, computes in float32 within a block.

    A call that says `dtype=` itself stays as it is.
    """
    return _declared(function, _single)


def widened(function: F) -> F:
    """Declare that a function brings its tensors to their widest dtype in a block."""
    return _declared(function, _widest)


def as_given(function: F) -> F:
    """Declare that what a function is made of takes tensors as they come."""
    return _declared(function, _given)


def _declared(function: F, policy: Policy) -> F:
    if hasattr(function, "policy"):
        # An op: it calls `converted` itself.
        function.policy = policy
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not modes.entered or here.top.value.dtype is None:
            return function(*args, **kwargs)
        args, kwargs = converted(policy, args, kwargs)
        with as_they_come():
            return function(*args, **kwargs)

    return cast(F, call)


def converted(
    policy: Policy, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call as it takes them in this thread's block."""
    dtype: DType | None = here.top.value.dtype
    given = [each for each in (*args, *kwargs.values()) if _may_change(each)]
    if dtype is None or not given or kwargs.get("dtype") is not None:
        return args, dict(kwargs)
    wanted = policy(dtype, [each.dtype for each in given])
    if wanted is None:
        return args, dict(kwargs)
    return (
        tuple([_as(each, wanted) for each in args]),
        {name: _as(each, wanted) for name, each in kwargs.items()},
    )


def _may_change(value: Any) -> bool:
    return (
        isinstance(value, TensorCore)
        and value.dtype.is_float
        and value.dtype is not float64
    )


def _as(value: Any, dtype: DType) -> Any:
    """Return a tensor in a dtype, parameters from what was made before."""
    if not _may_change(value) or value.dtype is dtype:
        return value
    copies = here.top.value.copies
    leaf = value.requires_grad and value.grad_node is None and value.dtype is float32
    if copies is None or not leaf:
        return value.to(dtype)
    key = id(value), dtype
    found = copies.get(key)
    content, on_tape = value.array.value, is_grad_enabled()
    # Values are never written again: a change in place brings another one.
    if found is None or found.value is not content or found.on_tape != on_tape:
        found = copies[key] = _Copy(value, content, on_tape, value.to(dtype))
    node = found.copy.grad_node
    if node is not None and node.saved is None:
        # A backward pass has freed it.
        found = copies[key] = _Copy(value, content, on_tape, value.to(dtype))
    return found.copy
