"""Matrix multiplication: choice of the GEMM kernel, and gradients."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...autograd.decomposed import DecomposedNode, Operand
from ...autograd.engine import is_grad_enabled
from ...autograd.tape import GradNode, ShownNode, distinct, show_as, shown_node
from ...base.dtype import COMPLEX, NUMERIC, bfloat16, float16, float32
from ...base.errors import ShapeError
from ...base.shape import Shape, TensorSpec, broadcast_shapes
from ...dispatch import batching
from ...dispatch.autocast_policy import autocast_low_precision
from ...dispatch.declare import composite, primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.gemm.candidates import Candidates, gemm_candidates, gemm_dispatches
from ...kernels.shader_types import check_same_dtype
from ...kernels.tensor_cores import product_mode, register_test_op
from ..elementwise.binary import mul
from ..elementwise.complex_numbers import conj, numbers_of, pairs_of
from ..movement.concat import stack
from ..view import another, expand, reshape, transpose, unsqueeze

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


@autocast_low_precision
def bmm(a: Tensor, b: Tensor) -> Tensor:
    """Return the matrix product of each pair in two batches.

    Parameters
    ----------
    a : Tensor, shape (batch, m, k)
    b : Tensor, shape (batch, k, n), same dtype
        Transposed and repeated operands are read in place.

    Returns
    -------
    Tensor, shape (batch, m, n)
        Accumulated in float32 or wider; integers wrap.

    Raises
    ------
    ShapeError
        If an operand has not three dimensions, or sizes do not fit.
    """
    dtype = a.dtype
    if dtype.kind == "complex":
        return _complex_bmm(a, b)
    return _bmm(a, b, product_mode(a.device, dtype))


@primitive(dtypes=NUMERIC, strided=True, typed="a", epilogue_dims=1)
def _bmm(a: Tensor, b: Tensor, mode: str) -> Tensor:
    """Return the batched GEMM, with a `mode` of `gemm.select`."""


@_bmm.spec
def bmm_spec(a: TensorSpec, b: TensorSpec, mode: str) -> TensorSpec:
    if a.ndim != 3 or b.ndim != 3:
        raise ShapeError(
            f"bmm: a is {tuple(a.shape)}, b is {tuple(b.shape)}; both must be 3-D"
        )
    check_same_dtype("matmul", a=a, b=b)
    batch, m, k = a.shape
    batch_b, k_b, n = b.shape
    if k != k_b:
        raise ShapeError(
            f"matmul: inner sizes differ: a is {tuple(a.shape)}, b is {tuple(b.shape)};"
            f" a.shape[-1] = {k} must equal b.shape[-2] = {k_b}"
        )
    if batch != batch_b:
        raise ShapeError(
            f"bmm: batch sizes differ: a is {tuple(a.shape)}, b is {tuple(b.shape)}"
        )
    return TensorSpec((batch, m, n), a.dtype)


@_bmm.kernel
def bmm_kernel(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, mode: str
) -> list[Dispatch]:
    return gemm_dispatches(gpu, a, b, mode, a.dtype)


@_bmm.candidates
def bmm_candidates(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, mode: str
) -> Candidates:
    return gemm_candidates(gpu, a, b, mode, a.dtype)


@_bmm.vjp
def bmm_vjp(
    grad: Tensor, a: Tensor, b: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    return (
        _gradient(grad, transpose(b, 1, 2)) if needs[0] else None,
        _gradient(transpose(a, 1, 2), grad) if needs[1] else None,
    )


def _gradient(a: Tensor, b: Tensor) -> Tensor:
    """Return a product of a gradient: of a column and a row element by element."""
    outer = a.layout.shape[2] == 1 and not a.dtype.is_complex
    return mul(a, b) if outer and not is_grad_enabled() else bmm(a, b)


@_bmm.reference
def bmm_reference(a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    return np.matmul(a, b)


@composite(dtypes=COMPLEX)
def _complex_bmm(a: Tensor, b: Tensor) -> Tensor:
    """Return the batched product of complex matrices, by one of real ones.

    With numbers as pairs, a times the pairs of b and of i b:
    (x, y) times ((u, v), (-v, u)) is (x u - y v, x v + y u).
    """
    batch, m, n = bmm_spec(a.spec, b.spec, "").shape
    if a.is_cpu:
        made = np.matmul(a.host_view(), b.host_view())
        return type(a).from_host(made, a.device, a.dtype)
    k = a.shape[2]
    pairs = stack([pairs_of(b), pairs_of(mul(b, 1j))], 2)
    left = reshape(pairs_of(a), (batch, m, 2 * k))
    out = bmm(left, reshape(pairs, (batch, 2 * k, 2 * n)))
    return numbers_of(reshape(out, (batch, m, n, 2)))


@_complex_bmm.vjp
def _complex_bmm_vjp(
    grad: Tensor, a: Tensor, b: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    return (
        bmm(grad, conj(transpose(b, 1, 2))) if needs[0] else None,
        bmm(conj(transpose(a, 1, 2)), grad) if needs[1] else None,
    )


register_test_op(_bmm, float32, float16, bfloat16)


@autocast_low_precision
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Return the matrix product over the last two dimensions.

    Parameters
    ----------
    a : Tensor, shape (..., m, k) or (k,)
    b : Tensor, shape (..., k, n) or (k,), same dtype
        Leading dimensions broadcast. A 1-D operand is a row on the left, a column on
        the right, and its dimension is dropped from the result, as in NumPy.

    Returns
    -------
    Tensor, shape (..., m, n)

    Raises
    ------
    ShapeError
        If an operand is a scalar, inner sizes differ, or batches do not broadcast.
    """
    shape_a, shape_b = a.layout.shape, b.layout.shape
    if not shape_a or not shape_b:
        raise ShapeError(
            f"matmul: a is {shape_a}, b is {shape_b}; both need at least one dimension"
        )
    if shape_a[-1] != shape_b[-2 if len(shape_b) > 1 else 0]:
        raise ShapeError(
            f"matmul: inner sizes differ: a is {shape_a}, b is {shape_b};"
            f" a.shape[-1] = {shape_a[-1]} must equal"
            f" b.shape[{'-2' if len(shape_b) > 1 else '0'}] ="
            f" {shape_b[-2 if len(shape_b) > 1 else 0]}"
        )
    if a is b:
        a, b = distinct((a, b))
    if len(shape_a) > 1 and len(shape_b) > 1:
        matrices = len(shape_a) == len(shape_b) == 2
        wrapped = a.is_wrapper or b.is_wrapper
        if matrices and a.device.is_gpu and not (wrapped or batching.depth):
            return _mm(a, b)
        out = broadcast_product("matmul", a, b, bmm)
        if out.grad_node is not None:
            _show(out, a, b)
        return out
    if len(shape_b) < 3:
        # One GEMM over all rows.
        rows = reshape(a, (1, math.prod(shape_a[:-1]), shape_a[-1]))
        columns = reshape(b, (1, shape_b[0], math.prod(shape_b[1:])))
        out = reshape(bmm(rows, columns), (*shape_a[:-1], *shape_b[1:]))
    else:
        out = broadcast_product("matmul", reshape(a, (1, *shape_a)), b, bmm)
        *batch, _, count = out.layout.shape
        out = reshape(out, (*batch, count))
    if out.grad_node is not None:
        _show(out, a, b)
    return out


_PLAIN = {(2, 2): "MmBackward0", (2, 1): "MvBackward0", (1, 1): "DotBackward0"}
"""PyTorch's names of nodes by the numbers of dimensions."""


def _show(out: Tensor, a: Tensor, b: Tensor) -> None:
    """Let the graph show a product as PyTorch computes it, of matrices and batches."""
    dims = len(a.layout.shape), len(b.layout.shape)
    if dims in _PLAIN:
        show_as(out, _PLAIN[dims], a, b)
        return
    if dims == (1, 2):
        name = "SqueezeBackward4"
        inner = shown_node("MmBackward0", _through("UnsqueezeBackward0", a), b)
    elif dims[0] > 2 and dims[1] < 3:
        name, product = "UnsafeViewBackward0", f"M{'mv'[dims[1] == 1]}Backward0"
        inner = shown_node(product, _through("ViewBackward0", a), b)
    elif dims[0] > 2:
        name = "UnsafeViewBackward0"
        batches = [
            _through("ViewBackward0", _through("ExpandBackward0", each))
            for each in (a, b)
        ]
        inner = shown_node("BmmBackward0", *batches)
    else:
        return
    composed = functools.partial(_composed, Operand(a), Operand(b))
    assert out.grad_node is not None
    out.grad_node.shown = DecomposedNode(name, (inner,), composed)


def _composed(left: Operand, right: Operand, node: GradNode) -> Tensor:
    """Return a product that is recorded as it is shown, of matrices and batches."""
    a, b = left.tensor(), right.tensor()
    shape_a, shape_b = a.layout.shape, b.layout.shape
    if len(shape_a) == 1:
        inner = matmul(unsqueeze(a, 0), b)
        out = reshape(inner, shape_b[1:])
        show_as(out, "SqueezeBackward4", inner)
        return out
    if len(shape_b) < 3:
        inner = matmul(reshape(a, (-1, shape_a[-1])), b)
        out = reshape(inner, (*shape_a[:-1], *shape_b[1:]))
    else:
        sizes = broadcast_shapes("matmul", shape_a[:-2], shape_b[:-2])
        inner = bmm(*[_batches(each, sizes) for each in (a, b)])
        out = reshape(inner, (*sizes, shape_a[-2], shape_b[-1]))
        out = another(inner, out, "UnsafeViewBackward0")
    show_as(out, "UnsafeViewBackward0", inner)
    return out


def _batches(x: Tensor, sizes: Shape) -> Tensor:
    matrix = x.layout.shape[-2:]
    wide = another(x, expand(x, (*sizes, *matrix)), "ExpandBackward0")
    rows = reshape(wide, (math.prod(sizes), *matrix))
    return another(wide, rows, "ViewBackward0")


def _through(name: str, value: Any) -> ShownNode | None:
    """Return a node that is shown before a tensor, or None where it needs no grad."""
    needed = value is not None and getattr(value, "needs_grad", True)
    return shown_node(name, value) if needed else None


@composite(dtypes=(*NUMERIC, *COMPLEX))
def _mm(a: Tensor, b: Tensor) -> Tensor:
    """Return the product of two matrices.

    With a rule of its own, it is recorded as one entry of the tape, without the views
    as batches, and later calls replay it.
    """
    (m, k), n = a.layout.shape, b.layout.shape[1]
    return reshape(bmm(reshape(a, (1, m, k)), reshape(b, (1, k, n))), (m, n))


@_mm.vjp
def _mm_vjp(
    grad: Tensor, a: Tensor, b: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    (m, k), n = a.layout.shape, b.layout.shape[1]
    batch, grad_a, grad_b = reshape(grad, (1, m, n)), None, None
    if needs[0]:
        turned = transpose(reshape(b, (1, k, n)), 1, 2)
        grad_a = reshape(_gradient(batch, conj(turned)), (m, k))
    if needs[1]:
        turned = transpose(reshape(a, (1, m, k)), 1, 2)
        grad_b = reshape(_gradient(conj(turned), batch), (k, n))
    return grad_a, grad_b


def broadcast_product(
    name: str, a: Tensor, b: Tensor, multiply: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """Multiply operands of two or more dimensions; `multiply` takes batches of them.

    `name` is what errors call the operation.
    """
    shape, shape_b = a.layout.shape, b.layout.shape
    m, k = shape[-2:]
    n = shape_b[-1]
    if len(shape_b) == 2:
        # One GEMM over all rows, instead of a batch that repeats b.
        rows = reshape(a, (1, math.prod(shape[:-1]), k))
        return reshape(multiply(rows, reshape(b, (1, k, n))), (*shape[:-1], n))
    batch = shape[:-2]
    if shape_b[:-2] != batch:
        batch = broadcast_shapes(name, batch, shape_b[:-2])
        a, b = expand(a, (*batch, m, k)), expand(b, (*batch, k, n))
    count = math.prod(batch)
    left = reshape(a, (count, m, k))
    right = reshape(b, (count, k, n))
    return reshape(multiply(left, right), (*batch, m, n))
