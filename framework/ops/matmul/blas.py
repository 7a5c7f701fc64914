"""Linear algebra on vectors and matrices, written with `matmul`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...autograd.decomposed import DecomposedNode, on_tape, saved_operand
from ...autograd.tape import (
    SHOWN,
    Edge,
    GradNode,
    ShownNode,
    distinct,
    edge_of,
    show_as,
    shown_as,
)
from ...base.device import GpuDevice
from ...base.dtype import COMPLEX, NUMERIC, float32
from ...base.errors import ShapeError
from ...dispatch import batching
from ...dispatch.autocast_policy import (
    autocast_low_precision,
    autocast_low_precision_on_device,
    autocast_promote,
)
from ...dispatch.declare import composite
from ...dispatch.replayable import replayable
from ..elementwise.binary import mul
from ..elementwise.cast import need_one_dtype
from ..elementwise.complex_numbers import conj
from ..reduce.common import in_storage
from ..reduce.products import _product_sums
from ..reduce.sum import sum
from ..source import fill_like
from ..view import reshape, t, transpose, unsqueeze
from .matmul import bmm, matmul

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


def _check_dims(name: str, **wanted: tuple[Tensor, int]) -> None:
    """Raise `ShapeError` for tensors that have not as many dimensions as they must."""
    for parameter, (x, ndim) in wanted.items():
        if x.ndim != ndim:
            raise ShapeError(
                f"{name}: {parameter} is {tuple(x.shape)}; it must be {ndim}-D"
            )


@autocast_low_precision_on_device
def mv(matrix: Tensor, vector: Tensor) -> Tensor:
    """Return the product of a matrix and a vector.

    Parameters
    ----------
    matrix : Tensor, shape (m, k)
    vector : Tensor, shape (k,), same dtype

    Returns
    -------
    Tensor, shape (m,)
    """
    _check_dims("mv", matrix=(matrix, 2), vector=(vector, 1))
    return matmul(matrix, vector)


@autocast_promote
@shown_as("DotBackward0", "a", "b")
def dot(a: Tensor, b: Tensor) -> Tensor:
    """Return the scalar product of two vectors of the same size and dtype.

    Parameters
    ----------
    a, b : Tensor, shape (n,)

    Returns
    -------
    Tensor, shape ()

    Raises
    ------
    ShapeError
        If they are no vectors of one size.
    DTypeError
        If the dtypes differ.
    """
    _check_dims("dot", a=(a, 1), b=(b, 1))
    return _scalar_product(a, b)


@autocast_promote
@shown_as("VdotBackward0", "a", "b")
def vdot(a: Tensor, b: Tensor) -> Tensor:
    """Return the scalar product of two vectors, the first conjugated.

    Parameters
    ----------
    a, b : Tensor, shape (n,)

    Returns
    -------
    Tensor, shape ()

    Raises
    ------
    ShapeError
        If they are no vectors of one size.
    DTypeError
        If the dtypes differ.
    """
    _check_dims("vdot", a=(a, 1), b=(b, 1))
    return _scalar_product(conj(a), b)


def _scalar_product(a: Tensor, b: Tensor) -> Tensor:
    """Return the sum of the products of two vectors, shape ()."""
    device = a.device
    if (
        not isinstance(device, GpuDevice)
        or a.dtype is not b.dtype
        or a.layout.shape != b.layout.shape
        or not a.numel()
    ):
        return matmul(a, b)
    software = device.gpu.info.target.prefers_composition
    if a.dtype.is_complex or (software and a.dtype is float32):
        return sum(mul(a, b))
    if a.layout.strides != b.layout.strides:
        a, b = a.contiguous(), b.contiguous()
    products = _product_sums(in_storage(a), in_storage(b), (0,), a.dtype)
    return reshape(products, ())


def outer(a: Tensor, b: Tensor) -> Tensor:
    """Return every product of an element of `a` with one of `b`.

    Parameters
    ----------
    a : Tensor, shape (m,)
    b : Tensor, shape (n,)

    Returns
    -------
    Tensor, shape (m, n)
    """
    _check_dims("outer", a=(a, 1), b=(b, 1))
    return reshape(a, (a.numel(), 1)) * b


@autocast_low_precision
def mm(a: Tensor, b: Tensor) -> Tensor:
    """Return the product of two matrices; `matmul` also takes batches of them.

    Parameters
    ----------
    a : Tensor, shape (m, k)
    b : Tensor, shape (k, n)

    Returns
    -------
    Tensor, shape (m, n)
    """
    _check_dims("mm", a=(a, 2), b=(b, 2))
    return matmul(a, b)


@autocast_low_precision
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return `x` times the transposed weight, plus the bias.

    Parameters
    ----------
    x : Tensor, shape (..., in_features)
    weight : Tensor, shape (out_features, in_features) or (in_features,)
        Read transposed in place.
    bias : Tensor, shape (out_features,) or (), or None

    Returns
    -------
    Tensor, shape (..., out_features) or (...)

    Raises
    ------
    ShapeError
        If sizes do not fit.
    """
    shape, sizes = x.layout.shape, weight.layout.shape
    if len(sizes) not in (1, 2) or not shape or shape[-1] != sizes[-1]:
        raise ShapeError(
            f"linear: x is {shape}, weight {sizes}; x must be (..., in_features) and"
            " weight (out_features, in_features)"
        )
    if bias is not None and bias.layout.shape != sizes[:-1]:
        raise ShapeError(
            f"linear: bias is {bias.layout.shape}; it must be {sizes[:-1]}"
        )
    if len(sizes) == 1:
        out = matmul(x, weight)
        return out if bias is None else out + bias
    if bias is None or (x.dtype is weight.dtype is bias.dtype and not batching.depth):
        return _linear(x, weight, bias)
    out = _linear(x, weight, None) + bias
    if out.grad_node is not None:
        out.grad_node.shown = _shown_linear(
            edge_of(x), edge_of(weight), edge_of(bias), x.ndim, True
        )
    return out


def _shown_linear(
    x: Edge | None, weight: Edge | None, bias: Edge | None, ndim: int, biased: bool
) -> ShownNode:
    """Return what the graph shows for a product, which PyTorch forms of matrices."""
    turned = None if weight is None else ShownNode("TBackward0", (weight,))
    if ndim == 2:
        if biased:
            return ShownNode("AddmmBackward0", (bias, x, turned))
        return ShownNode("MmBackward0", (x, turned))
    if ndim == 1 and not biased:
        row = None if x is None else ShownNode("UnsqueezeBackward0", (x,))
        return ShownNode("SqueezeBackward4", (ShownNode("MmBackward0", (row, turned)),))
    rows = None if x is None else ShownNode("ViewBackward0", (x,))
    if biased:
        inner = ShownNode("AddmmBackward0", (bias, rows, turned))
        return ShownNode("ViewBackward0", (inner,))
    return ShownNode("UnsafeViewBackward0", (ShownNode("MmBackward0", (rows, turned)),))


def _shown_node(node: GradNode) -> ShownNode:
    """Return what the graph shows for a node of `_linear`."""
    x, weight, *bias = node.edges
    ndim = node.specs[0].ndim
    shown = _shown_linear(x, weight, bias[0] if bias else None, ndim, bool(bias))
    return DecomposedNode(shown.name, shown.edges, _composed_linear)


def _composed_linear(node: GradNode) -> Tensor:
    """Return the result of a node of `_linear`, recorded as a product of matrices."""
    x, weight = (saved_operand(node, name, k) for k, name in enumerate(("x", "weight")))
    shape = (*x.layout.shape[:-1], weight.layout.shape[0])
    unbiased = len(node.edges) == 2
    if x.ndim == 1 and unbiased:
        rows = unsqueeze(x, 0)
    else:
        rows = x if x.ndim == 2 else reshape(x, (-1, x.layout.shape[-1]))
    if not unbiased:
        # No gradient reads the bias.
        bias = fill_like(x, shape[-1:], 0, x.dtype)
        out = addmm(on_tape(bias, node.edges[2]), rows, t(weight))
    else:
        out = mm(rows, t(weight))
    if x.ndim == 2:
        return out
    found = reshape(out, shape)
    if unbiased:
        name = "SqueezeBackward4" if x.ndim == 1 else "UnsafeViewBackward0"
        show_as(found, name, out)
    return found


SHOWN["linear"] = _shown_node


@composite(dtypes=(*NUMERIC, *COMPLEX))
def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return `x` times the transposed weight, a matrix, plus the bias.

    With a rule of its own, the gradient of the weight lies in the weight's order.
    """
    batch = _as_batch(x), transpose(_as_batch(weight), 1, 2)
    out = reshape(bmm(*batch), (*x.layout.shape[:-1], weight.layout.shape[0]))
    return out if bias is None else out + bias


def _as_batch(x: Tensor) -> Tensor:
    """Return all rows as the only matrix of a batch."""
    *sizes, columns = x.layout.shape
    return reshape(x, (1, math.prod(sizes), columns))


@_linear.vjp
def _linear_vjp(
    grad: Tensor, x: Tensor, weight: Tensor, needs: tuple[bool, bool, bool]
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    rows, grad_x, grad_weight = _as_batch(grad), None, None
    if needs[0]:
        grad_x = reshape(bmm(rows, _as_batch(conj(weight))), x.layout.shape)
    if needs[1]:
        turned = transpose(rows, 1, 2)
        grad_weight = reshape(bmm(turned, _as_batch(conj(x))), weight.layout.shape)
    return grad_x, grad_weight, grad if needs[2] else None


@autocast_low_precision
def addmm(
    x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """Return beta * x + alpha * (a @ b).

    Parameters
    ----------
    x : Tensor, broadcasts to (m, n)
        Not read where `beta` is 0, so that its NaN do not matter.
    a : Tensor, shape (m, k)
    b : Tensor, shape (k, n)
    beta, alpha : float, default 1
        Whole numbers where the dtype is an integer one.

    Returns
    -------
    Tensor, shape (m, n)
    """
    _check_dims("addmm", a=(a, 2), b=(b, 2))
    if x is a or a is b or x is b:
        x, a, b = distinct((x, a, b))
    out = _added("addmm", x, matmul(a, b), beta, alpha)
    show_as(out, "AddmmBackward0", x, a, b)
    return out


@autocast_low_precision
@replayable
def baddbmm(
    x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """Return beta * x + alpha * (a @ b) of each pair in two batches.

    Parameters
    ----------
    x : Tensor, broadcasts to (batch, m, n)
        Not read where `beta` is 0, so that its NaN do not matter.
    a : Tensor, shape (batch, m, k)
    b : Tensor, shape (batch, k, n)
    beta, alpha : float, default 1
        Whole numbers where the dtype is an integer one.

    Returns
    -------
    Tensor, shape (batch, m, n)
    """
    _check_dims("baddbmm", a=(a, 3), b=(b, 3))
    if x is a or a is b or x is b:
        x, a, b = distinct((x, a, b))
    out = _added("baddbmm", x, bmm(a, b), beta, alpha)
    show_as(out, "BaddbmmBackward0", x, a, b)
    return out


def _added(name: str, x: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    shape = product.layout.shape
    fits = len(x.layout.shape) <= len(shape) and all(
        size in (1, wanted) for size, wanted in zip(x.layout.shape[::-1], shape[::-1])
    )
    if not fits:
        raise ShapeError(
            f"{name}: x is {tuple(x.shape)}; it must broadcast to {tuple(shape)}"
        )
    if x.dtype is not product.dtype:
        need_one_dtype(name, x=x, product=product)
    if not (product.dtype.is_float or product.dtype.is_complex):
        # Integers take integer factors, cut towards zero as in PyTorch.
        beta, alpha = int(beta), int(alpha)
    scaled = product if alpha == 1 else product * alpha
    if beta == 0:
        return scaled
    return (x if beta == 1 else x * beta) + scaled
