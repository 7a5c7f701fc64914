"""Op declarations: one op, one screen.

`@elementwise` takes the GLSL expression, which is the kernel, alone or fused.
`@primitive` takes rules: `spec` (shapes and dtypes), `kernel` (shader, constants,
grid), `reference` (NumPy) and, where autotuning may choose better, `candidates`.
`@movement` takes a `layout` rule.
`@composite` is written with other ops but has its own gradient rule. All of them take a
`vjp`, whose parameter names decide the saved tensors:

========== ==========================================================================
`grad`     gradient of the first output
`x`        the argument `x`, a tensor (saved) or not
`out`      the first output, or any output by its declared name (saved)
`x_spec`   shape and dtype of the tensor argument `x` (saves no memory)
`needs`    one bool per tensor argument: whether it requires a gradient
========== ==========================================================================

A vjp may return gradients in the broadcast shape, and None where there is none.
`REGISTRY` lists every op by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from ..base.dtype import DType, bool_
from .composite import Composite
from .elementwise import Elementwise
from .movement import DerivedView, Movement
from .primitive import Primitive

P = ParamSpec("P")
R = TypeVar("R")


def elementwise(
    *,
    glsl: str,
    reference: Callable[..., Any],
    dtypes: Sequence[DType] | Mapping[str, Sequence[DType]],
    result: DType | str | Callable[[DType], DType] | None = None,
    fractional: bool = False,
    refuse_integers: Callable[[str, object], None] | None = None,
) -> Callable[[Callable[P, R]], Elementwise[P, R]]:
    """Declare an element-wise op.

    Parameters
    ----------
    glsl : str
        Expression over the parameters' names, of the promoted dtype's GLSL type.
    reference : callable
        The same over NumPy arrays, in the order of the parameters.
    dtypes : sequence of DType, or mapping of str to sequence
        Supported dtypes of tensors, for all of them or by parameter.
    result : DType, str, callable or None
        Dtype of the result, the parameter that names it, or a function of the promoted
        dtype of the operands, which None means.
    fractional : bool, default False
        Whether operands without a float among them are converted to float32.
    refuse_integers : callable or None
        Takes the op's name and its last operand where it computes in integers; raises
        an error if that is a number for which the op has no value.
    """

    def declare(function: Callable[P, R]) -> Elementwise[P, R]:
        return Elementwise(
            function,
            glsl,
            reference,
            dtypes,
            result,
            fractional,
            refuse_integers,
        )

    return declare


def comparison(
    *, glsl: str, reference: Callable[..., Any], dtypes: Sequence[DType]
) -> Callable[[Callable[P, R]], Elementwise[P, R]]:
    """Declare an element-wise op whose result is bool."""
    return elementwise(glsl=glsl, reference=reference, dtypes=dtypes, result=bool_)


def primitive(
    *,
    dtypes: Sequence[DType] | Mapping[str, Sequence[DType]],
    device_dtypes: Sequence[DType] | Mapping[str, Sequence[DType]] | None = None,
    outputs: Sequence[str] = ("out",),
    strided: bool = False,
    typed: str | None = None,
    reduction: str | None = None,
    epilogue_dims: int = 0,
) -> Callable[[Callable[P, R]], Primitive[P, R]]:
    """Declare an op with rules `spec`, `kernel` and `reference`.

    Parameters
    ----------
    dtypes : sequence of DType, or mapping of str to sequence
        Supported dtypes of tensors, for all of them or by parameter.
    device_dtypes : same, or None
        Supported dtypes of its shader, if fewer.
    outputs : sequence of str
        Names of the outputs, which are the shader's argument names.
    strided : bool
        Whether the shader reads inputs through strides; otherwise each arrives in
        row-major order, aligned to 16 bytes, copied if needed.
    typed : str or None
        The tensor whose dtype is that of the shader's `lib/dtype.glsl`, which the
        device must be able to store; None means that the shader loads 32-bit words.
    reduction : str or None
        See `Op`.
    epilogue_dims : int, default 0
        See `Op`.
    """

    def declare(function: Callable[P, R]) -> Primitive[P, R]:
        return Primitive(
            function,
            dtypes,
            device_dtypes,
            outputs,
            strided,
            typed,
            reduction,
            epilogue_dims,
        )

    return declare


def movement(
    *, dtypes: Sequence[DType], shares: bool = True
) -> Callable[[Callable[P, R]], Movement[P, R]]:
    """Declare an op that returns a view; declare its `layout` rule next.

    `shares` False makes it a copy without a kernel; see `Movement`.
    """

    def declare(function: Callable[P, R]) -> Movement[P, R]:
        return Movement(function, dtypes, shares)

    return declare


def composite(
    *,
    dtypes: Sequence[DType] | Mapping[str, Sequence[DType]],
    outputs: Sequence[str] = ("out",),
) -> Callable[[Callable[P, R]], Composite[P, R]]:
    """Declare an op written with other ops, under its own gradient rule."""

    def declare(function: Callable[P, R]) -> Composite[P, R]:
        return Composite(function, dtypes, outputs)

    return declare


def derived_view(
    *, dtypes: Sequence[DType]
) -> Callable[[Callable[P, R]], DerivedView[P, R]]:
    """Declare an op that returns a view in another dtype, and next its `storage`."""

    def declare(function: Callable[P, R]) -> DerivedView[P, R]:
        return DerivedView(function, dtypes)

    return declare
