"""Gradient checks: the whole Jacobian of a function beside finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.errors import GradError
from ..eager.base_tensor import TensorCore
from .engine import backward as run_backward
from .grad_mode import enable_grad, no_grad

Tensors = Any
"""A tensor, or a sequence of them."""


class GradcheckError(GradError):
    """Gradients that differ from finite differences."""


def gradcheck(
    func: Callable[..., Tensors],
    inputs: Tensors,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Check the gradients of a function against finite differences.

    Parameters
    ----------
    func : callable
        From tensors to a tensor or a sequence of them; float and complex results are
        checked, or where there are none, that the others stay.
    inputs : Tensor or sequence of Tensor
        Those that require gradients are varied; they should be float64 or complex128.
        Of a complex one the real and the imaginary parts are varied.
    eps : float, default 1e-6
        Step of the central difference.
    atol, rtol : float
        Largest absolute and relative error of an element of the Jacobian.
    raise_exception : bool, default True
        Raise where a gradient is wrong, instead of returning False.
    nondet_tol : float, default 0.0
        Largest difference between two backward passes.
    check_undefined_grad, check_grad_dtypes, check_batched_grad : bool
        Accepted; they have no effect.
    check_batched_forward_grad, check_forward_ad, check_backward_ad : bool
        Accepted; there is no forward mode, and backward is what is checked.
    fast_mode, masked : bool
        Accepted; the whole Jacobian is checked.

    Returns
    -------
    bool
        Whether the gradients are right.

    Raises
    ------
    GradcheckError
        If they are not, and `raise_exception`, or an input repeats elements.
    ValueError
        If no input requires a gradient.

    Examples
    --------
    >>> x = fw.tensor([0.5, 1.5], dtype=fw.float64, requires_grad=True)
    >>> fw.autograd.gradcheck(lambda x: (x * x).exp(), x)
    True
    """
    given = _as_tuple(inputs)
    varied = [at for at, each in enumerate(given) if _needs(each)]
    if not varied:
        raise ValueError(
            "gradcheck: no input requires a gradient; set requires_grad=True on one"
        )
    for at in varied:
        _need_apart(at, given[at])
    try:
        for number, wanted, found, again in _jacobians(func, given, varied, eps):
            _compare(number, wanted, found, again, (atol, rtol, nondet_tol))
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _need_apart(at: int, given: Any) -> None:
    """Raise `GradcheckError` for an input that repeats elements."""
    shape, strides, _ = given.layout
    if any(size > 1 and stride == 0 for size, stride in zip(shape, strides)):
        raise GradcheckError(
            f"gradcheck: input {at}, of shape {tuple(shape)}, repeats elements, which"
            " finite differences would vary together; use x.contiguous()"
        )


def gradgradcheck(
    func: Callable[..., Tensors],
    inputs: Tensors,
    grad_outputs: Tensors = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Check the gradients of a function's gradients against finite differences.

    Parameters
    ----------
    func, inputs, eps, atol, rtol, raise_exception, nondet_tol
        As in `gradcheck`.
    grad_outputs : Tensor or sequence of Tensor, optional
        Gradients of the results, which are varied, too; drawn at random if left out.
    gen_non_contig_grad_outputs, check_undefined_grad, check_grad_dtypes : bool
        Accepted; they have no effect.
    check_batched_grad, check_fwd_over_rev, check_rev_over_rev : bool
        Accepted; backward over backward is what is checked.
    fast_mode, masked : bool
        Accepted; the whole Jacobian is checked.

    Returns
    -------
    bool
        Whether they are right.

    Raises
    ------
    GradcheckError
        If they are not, and `raise_exception`.
    """
    given = _as_tuple(inputs)
    varied = [at for at, each in enumerate(given) if _needs(each)]
    outputs = _floats(func(*given))
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        seeds = tuple([_filled(each, rng.standard_normal) for each in outputs])
    else:
        seeds = tuple(
            [each.detach().requires_grad_() for each in _as_tuple(grad_outputs)]
        )

    def slope(*args: Any) -> Tensors:
        own, weights = args[: len(given)], args[len(given) :]
        with enable_grad():
            leaves = tuple([_recorded(each) for each in own])
            results = _floats(func(*leaves))
            grads = run_backward(
                results,
                weights,
                inputs=[leaves[at] for at in varied],
                retain_graph=True,
                create_graph=True,
            )
        return tuple([each for each in grads if each is not None and each.needs_grad])

    return gradcheck(
        slope,
        given + seeds,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
    )


def _recorded(value: Any) -> Any:
    """Return a differentiable alias of an input; a leaf where it is off the tape."""
    if not _is_float(value):
        return value
    if value.needs_grad:
        return value.view(value.shape)
    return value.detach().requires_grad_()


def _as_tuple(tensors: Tensors) -> tuple[Any, ...]:
    return (tensors,) if isinstance(tensors, TensorCore) else tuple(tensors)


def _is_float(value: object) -> bool:
    return isinstance(value, TensorCore) and value.dtype.is_differentiable


def _needs(value: object) -> bool:
    return isinstance(value, TensorCore) and value.needs_grad


def _floats(answer: Tensors) -> list[Any]:
    return [each for each in _as_tuple(answer) if _is_float(each)]


def _filled(like: Any, draw: Callable[[Any], np.ndarray]) -> Any:
    values = np.asarray(draw(like.shape))
    if like.dtype.is_complex:
        values = values + 1j * np.asarray(draw(like.shape))
    made: Any = type(like).from_host(values, like.device, like.dtype)
    return made.requires_grad_()


def _reals(tensor: Any) -> np.ndarray:
    """Return the elements as a vector, of complex ones both parts, as float64."""
    array = np.asarray(tensor.host_copy())
    wide = np.complex128 if tensor.dtype.is_complex else np.float64
    return np.ascontiguousarray(array, wide).reshape(-1).view(np.float64)


def _from_reals(values: np.ndarray, like: Any) -> Any:
    """Return a tensor like another one of what `_reals` returns."""
    array = values.view(np.complex128) if like.dtype.is_complex else values
    return type(like).from_host(array.reshape(like.shape), like.device, like.dtype)


def _jacobians(
    func: Callable[..., Tensors], given: tuple[Any, ...], varied: list[int], eps: float
) -> Any:
    """Yield a name and three Jacobians for each pair of a result and an input."""
    outputs = _floats(func(*given))
    if not outputs:
        yield from _without_gradients(func, given, varied, eps)
    inputs = [given[at] for at in varied]
    count = len(outputs)
    numeric = [_differences(func, given, at, eps, count, _floats) for at in varied]
    for number, output in enumerate(outputs):
        found = _analytic(output, inputs)
        again = _analytic(output, inputs)
        for at in range(len(varied)):
            name = f"of output {number} by input {varied[at]}"
            yield name, numeric[at][number], found[at], again[at]


def _without_gradients(
    func: Callable[..., Tensors], given: tuple[Any, ...], varied: list[int], eps: float
) -> Any:
    """Yield Jacobians of a function of integers only, which must be zeros."""
    count = len(_tensors(func(*given)))
    for at in varied:
        found = _differences(func, given, at, eps, count, _tensors)
        for number, wanted in enumerate(found):
            zeros = np.zeros(wanted.shape)
            yield f"of output {number} by input {at}", wanted, zeros, zeros


def _tensors(answer: Tensors) -> list[Any]:
    return [each for each in _as_tuple(answer) if isinstance(each, TensorCore)]


def _analytic(output: Any, inputs: Sequence[Any]) -> list[np.ndarray]:
    """Return the Jacobian of one output, by backward: a row for each element."""
    count = _reals(output).size
    rows = [np.zeros((count, _reals(each).size)) for each in inputs]
    if not output.needs_grad:
        return rows
    for element in range(count):
        seed = np.zeros(count)
        seed[element] = 1
        weight = _from_reals(seed, output)
        grads = run_backward([output], [weight], inputs=inputs, retain_graph=True)
        for row, grad in zip(rows, grads):
            if grad is not None:
                row[element] = _reals(grad)
    return rows


def _differences(
    func: Callable[..., Tensors],
    given: tuple[Any, ...],
    at: int,
    eps: float,
    count: int,
    chosen: Callable[[Tensors], list[Any]],
) -> list[np.ndarray]:
    """Return the Jacobians of chosen outputs by one input, by central differences."""
    base = _reals(given[at])
    columns: list[list[np.ndarray]] = [[] for _ in range(count)]
    for element in range(base.size):
        ends = []
        for step in (eps, -eps):
            moved = base.copy()
            moved[element] += step
            argument = _from_reals(moved, given[at])
            args = (*given[:at], argument, *given[at + 1 :])
            with no_grad():
                ends.append([_reals(each) for each in chosen(func(*args))])
        for column, above, below in zip(columns, *ends):
            column.append((above - below) / (2 * eps))
    return [
        np.stack(column, 1) if column else np.zeros((0, base.size))
        for column in columns
    ]


def _compare(
    name: str,
    wanted: np.ndarray,
    found: np.ndarray,
    again: np.ndarray,
    tolerances: tuple[float, float, float],
) -> None:
    atol, rtol, nondet = tolerances
    if not found.size:
        return
    if not np.allclose(found, wanted, rtol, atol, equal_nan=True):
        worst = np.unravel_index(np.argmax(np.abs(found - wanted)), found.shape)
        raise GradcheckError(
            f"gradcheck: the Jacobian {name} at {tuple(map(int, worst))} is"
            f" {found[worst]:.9g} by backward, {wanted[worst]:.9g} by finite"
            " differences; use float64 inputs, away from kinks, or mend the gradient"
        )
    if np.abs(found - again).max() > nondet:
        raise GradcheckError(
            f"gradcheck: the Jacobian {name} differs between two passes by"
            f" {np.abs(found - again).max():.3g}; nondet_tol is {nondet}"
        )
