"""Operands of other dtypes, empty, singular or without dimensions, beside PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw

F32, F64 = np.float32([0.5, -1.25, 2.0]), np.float64([1.0, 0.25, -3.0])
F16, INT, BOOL = (
    np.float16([1, 0.5, 2]),
    np.array([3, 1, 2]),
    np.array([True, False, 1]),
)
BOOL = BOOL.astype(bool)
SQUARE = np.float32([[4, 1, 0], [1, 3, 1], [0, 1, 2]])
DOUBLE, WHOLE = SQUARE.astype(np.float64), SQUARE.astype(np.int64)
SINGULAR = np.stack([SQUARE, np.ones((3, 3), np.float32)])
ONE, ONE_DOUBLE = np.float32(0.5), np.float64(2.0)
EMPTY, NO_INTS = np.zeros((2, 0), np.float32), np.zeros((0,), np.int64)

Call = tuple[Callable[..., Any], tuple[np.ndarray, ...]]

CALLS: dict[str, Call] = {
    "addr promotes": (lambda t, x, y: t.addr(x, y, y, beta=0.5), (ONE_DOUBLE, F32)),
    "addr of integers": (lambda t, x, y: t.addr(x, y, y, alpha=0.5), (ONE, INT)),
    "addmm": (lambda t, x, y: t.addmm(x, y, y), (WHOLE, SQUARE)),
    "addmv": (lambda t, x, a, b: t.addmv(x, a, b), (F64, SQUARE, F32)),
    "baddbmm": (lambda t, x, a: t.baddbmm(x, a[None], a[None]), (DOUBLE, SQUARE)),
    "addcdiv": (lambda t, x, y: t.addcdiv(x, y, y), (F32, INT)),
    "cross": (lambda t, x, y: t.linalg.cross(x, y), (F32, F64)),
    "isclose": (lambda t, x, y: t.isclose(x, y), (F32, F64)),
    "allclose": (lambda t, x, y: t.allclose(x, y), (INT, F32)),
    "block_diag": (lambda t, x, y: t.block_diag(x, y), (SQUARE, ONE_DOUBLE)),
    "solve": (lambda t, a, b: t.linalg.solve(a, b), (SQUARE, DOUBLE)),
    "lu_solve": (
        lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b),
        (SQUARE, DOUBLE),
    ),
    "cholesky_solve": (lambda t, a, b: t.cholesky_solve(b, a), (SQUARE, DOUBLE)),
    "solve_triangular": (
        lambda t, a, b: t.linalg.solve_triangular(a, b, upper=True),
        (SQUARE, DOUBLE),
    ),
    "triangular_solve": (lambda t, a, b: t.triangular_solve(b, a), (SQUARE, DOUBLE)),
    "info of inv": (lambda t, a: t.linalg.inv_ex(a).info, (SINGULAR,)),
    "regular of inv": (lambda t, a: t.linalg.inv_ex(a).inverse[0], (SINGULAR,)),
    "info of solve": (
        lambda t, a, b: t.linalg.solve_ex(a, b[..., None])[1],
        (SINGULAR, F32),
    ),
    "checked": (lambda t, a: t.linalg.inv_ex(a, check_errors=True), (SINGULAR,)),
    "lu of nothing": (lambda t, a: t.linalg.lu(a), (EMPTY,)),
    "cond of nothing": (lambda t, a: t.linalg.cond(a), (EMPTY,)),
    "mse of bools": (lambda t, x, y: t.nn.functional.mse_loss(x, y), (F32, BOOL)),
    "l1 of 0-D": (lambda t, x, y: t.nn.functional.l1_loss(x, y), (ONE, ONE_DOUBLE)),
    "huber": (lambda t, x, y: t.nn.functional.huber_loss(x, y), (F16, F32)),
    "huber of integers": (lambda t, x, y: t.nn.functional.huber_loss(x, y), (INT, F32)),
    "soft margin": (lambda t, x, y: t.nn.functional.soft_margin_loss(x, y), (F16, F32)),
    "with logits": (
        lambda t, x, y: t.nn.functional.binary_cross_entropy_with_logits(x, y),
        (F32, F16),
    ),
    "binary cross entropy": (
        lambda t, x, y: t.nn.functional.binary_cross_entropy(x.sigmoid(), y.sigmoid()),
        (F32, F64),
    ),
    "cross entropy": (lambda t, x, y: t.nn.functional.cross_entropy(x, y), (F32, F64)),
    "cosine": (
        lambda t, x, y: t.nn.functional.cosine_similarity(x, y, 0),
        (INT, F32),
    ),
    "no classes": (
        lambda t, x: t.nn.functional.multilabel_soft_margin_loss(x, x),
        (EMPTY,),
    ),
    "logaddexp of bools": (lambda t, x, y: t.logaddexp(x, y), (F32, BOOL)),
    "polynomial": (lambda t, x, y: t.special.hermite_polynomial_h(x, y), (F32, F64)),
    "complex degree": (lambda t, x: t.special.laguerre_polynomial_l(x, 1j), (F32,)),
    "bincount of nothing": (lambda t, x: t.bincount(x, x, 3), (NO_INTS,)),
    "half weights": (lambda t, x, y: t.bincount(x, y), (INT, F16)),
    "integral of nothing": (lambda t, x: t.trapezoid(x), (NO_INTS,)),
    "integral of bools": (lambda t, x: t.trapezoid(x), (BOOL,)),
    "gradient by places": (
        lambda t, x, y: t.gradient(x, spacing=(y,)),
        (INT, np.float64([1, 3, 4])),
    ),
    "float repeats": (lambda t, x, y: t.repeat_interleave(x, y), (F32, F64)),
    "extremes of nothing": (
        lambda t, x, i: t.scatter_reduce(x, 0, i, x[:0], "amax"),
        (F32, NO_INTS),
    ),
    "reduce of two dtypes": (
        lambda t, x, y, i: t.scatter_reduce(x, 0, i, y, "prod"),
        (F32, F64, INT - 1),
    ),
    "all dimensions": (lambda t, x: t.logsumexp(x, (), keepdim=True), (SQUARE,)),
    "copied view": (lambda t, x: t.view_copy(x.T, (9,)), (SQUARE,)),
    "0-D": (lambda t, x: x.mT + x.mH, (ONE,)),
    "bool as dim": (lambda t, x: t.sum(x, dim=True), (SQUARE,)),
    "normal": (lambda t, x, y: t.normal(x, y * 0 + 1).dtype, (F16, F32)),
}


def outcome(library: Any, name: str) -> Any:
    call, arrays = CALLS[name]
    try:
        return call(library, *map(library.tensor, arrays))
    except Exception as error:
        return error


SINCE_213 = {"addmv"}
"""What PyTorch refuses from 2.13 on; before, it took operands of different dtypes."""

NAMES = [
    pytest.param(name, marks=[pytest.mark.torch213] if name in SINCE_213 else [])
    for name in CALLS
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_as_in_torch(name: str) -> None:
    found, expected = outcome(fw, name), outcome(torch, name)
    if isinstance(expected, Exception):
        assert isinstance(found, RuntimeError if name != "bool as dim" else TypeError)
        return
    if not isinstance(expected, tuple):
        found, expected = (found,), (expected,)
    for one, two in zip(found, expected, strict=True):
        if not isinstance(two, torch.Tensor):
            assert str(one) == str(two)
            continue
        assert tuple(one.shape) == tuple(two.shape)
        assert str(one.dtype).rstrip("_") == str(two.dtype)
        np.testing.assert_allclose(one.numpy(), two.numpy(), 2e-3, 1e-5)
