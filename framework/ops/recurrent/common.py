"""What recurrent ops share: states before each step, products over all steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...autograd.engine import is_grad_enabled
from ...base.dtype import float32, float64
from ...base.shape import Layout
from ...dispatch import batching
from ...ir.lazy_graph import Array, Value
from ..elementwise.compare import where
from ..movement.concat import cat
from ..view import reshape, unsqueeze

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


def on_host(x: Tensor) -> bool:
    """Return whether NumPy computes the steps: nothing is to be recorded.

    Of 16-bit states it would round others than the ops do.
    """
    plain = x.is_cpu and x.dtype in (float32, float64)
    return plain and not batching.transforming() and not is_grad_enabled()


def views(*tensors: Tensor | None) -> list[Any]:
    """Return the elements of host tensors as views; None stays."""
    return [None if each is None else each.host_view() for each in tensors]


def made(array: np.ndarray, like: Tensor) -> Tensor:
    """Return a new array as a tensor on the device of another; not copied."""
    flat = np.ascontiguousarray(array).reshape(-1)
    storage = Array(Value(flat.size, like.dtype, buffer=flat))
    return type(like).make(storage, Layout.contiguous(array.shape), like.device)


def logistic_in_place(x: np.ndarray) -> None:
    """Replace elements by 1 / (1 + exp(-x)); an overflow gives 0."""
    np.negative(x, out=x)
    np.exp(x, out=x)
    x += 1
    np.reciprocal(x, out=x)


def states_before(first: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Return the states before each step."""
    return np.concatenate([first[None], states[:-1]])


def sum_of_products(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the sum over steps and batch of the products of two vectors."""
    left = left.reshape(-1, left.shape[-1])
    return left.T @ right.reshape(-1, right.shape[-1])


def shifted(first: Tensor, states: Tensor) -> Tensor:
    """Return the states before each step."""
    return cat([unsqueeze(first, 0), states[:-1]])


def kept(grad: Tensor, mask: Tensor | None, step: int) -> Tensor | float:
    """Return the gradient of states that a step leaves as they were."""
    return 0.0 if mask is None else where(mask[step], 0.0, grad)


def product_of_steps(left: Tensor, right: Tensor) -> Tensor:
    """Return the sum over steps and batch of the products of two vectors."""
    left = reshape(left, (-1, left.layout.shape[-1]))
    return left.mT @ reshape(right, (-1, right.layout.shape[-1]))
