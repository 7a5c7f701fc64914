"""Products of vectors and matrices against PyTorch."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.twin import Make, as_in_torch
from vkbackend.framework import ops
from vkbackend.framework.base.errors import ShapeError

ROWS: list[tuple[Any, Any, tuple[tuple[int, ...], ...], dict[str, Any]]] = [
    (ops.mv, torch.mv, ((7, 5), (5,)), {}),
    (ops.dot, torch.dot, ((13,), (13,)), {}),
    (ops.vdot, torch.vdot, ((13,), (13,)), {}),
    (ops.outer, torch.outer, ((7,), (5,)), {}),
    (ops.linear, F.linear, ((3, 5), (7, 5), (7,)), {}),
    (ops.linear, F.linear, ((2, 3, 5), (7, 5)), {}),
    (ops.linear, F.linear, ((5,), (7, 5), (7,)), {}),
    (ops.linear, F.linear, ((3, 5), (5,)), {}),
    (ops.addmm, torch.addmm, ((3, 7), (3, 5), (5, 7)), {}),
    (ops.addmm, torch.addmm, ((7,), (3, 5), (5, 7)), {"beta": 0.5, "alpha": -2.0}),
    (ops.baddbmm, torch.baddbmm, ((2, 3, 7), (2, 3, 5), (2, 5, 7)), {}),
    (ops.baddbmm, torch.baddbmm, ((3, 1), (2, 3, 5), (2, 5, 7)), {"alpha": 3}),
]
IDS = [f"{call.__name__}-{shapes}" for call, _, shapes, _ in ROWS]


@pytest.mark.parametrize(("call", "twin", "shapes", "options"), ROWS, ids=IDS)
def test_result_and_gradients(
    call: Any, twin: Any, shapes: Any, options: dict[str, Any], make: Make
) -> None:
    as_in_torch(make, call, twin, *shapes, **options)


def test_what_beta_leaves_out_is_not_read(make: Make) -> None:
    nan = make(np.full((2, 2), np.nan, np.float32))
    one = make(np.eye(2, dtype=np.float32))
    assert ops.addmm(nan, one, one, beta=0).tolist() == [[1, 0], [0, 1]]


def test_integers(make: Make) -> None:
    a = np.array([[2**30, 3], [-5, 7]], np.int32)
    b = np.array([[4, -1], [2, 9]], np.int32)
    found = ops.addmm(make(a), make(a), make(b), beta=2)
    assert_close(found, 2 * a + a @ b)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda x: ops.mv(x, x),
            "mv: vector is (2, 3); it must be 1-D",
        ),
        (
            lambda x: ops.mm(x[None], x),
            "mm: a is (1, 2, 3); it must be 2-D",
        ),
        (
            lambda x: ops.dot(x, x),
            "dot: a is (2, 3); it must be 1-D",
        ),
        (
            lambda x: ops.linear(x, x.mT),
            "linear: x is (2, 3), weight (3, 2); x must be (..., in_features) and"
            " weight (out_features, in_features)",
        ),
        (
            lambda x: ops.linear(x, x, x),
            "linear: bias is (2, 3); it must be (2,)",
        ),
        (
            lambda x: ops.addmm(x, x, x.mT),
            "addmm: x is (2, 3); it must broadcast to (2, 2)",
        ),
    ],
)
def test_bad_input(call: Any, text: str) -> None:
    with pytest.raises(ShapeError) as raised:
        call(fw.ones((2, 3)))
    assert str(raised.value) == text


def test_a_bias_of_another_dtype_is_promoted_as_a_sum_is(gpu: fw.device) -> None:
    """Of one dtype, product and sum are one entry of the tape."""
    x, weight = (
        fw.ones(shape, dtype=fw.float16, device=gpu).requires_grad_()
        for shape in ((2, 3), (4, 3))
    )
    for dtype in (fw.float32, fw.float16):
        bias = fw.ones(4, dtype=dtype, device=gpu).requires_grad_()
        for _ in range(3):  # the next calls replay the first
            x.grad = weight.grad = bias.grad = None
            out = fw.nn.functional.linear(x, weight, bias)
            assert out.dtype is dtype
            assert out.grad_fn.name() == "AddmmBackward0"
            out.sum().backward()
            for each, want in ((x, 4.0), (weight, 2.0), (bias, 2.0)):
                assert each.grad.dtype is each.dtype
                assert (each.grad.numpy() == want).all()


@pytest.mark.device
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int8", "complex64"])
def test_scalar_products(gpu: Any, dtype: str) -> None:
    """Of any alignment and stride, in as many chunks as there may be."""
    rng = np.random.default_rng(3)
    kind, whole = getattr(torch, dtype), "int" in dtype
    for n, starts, step in itertools.product(
        (1, 5, 4097, 300_000), ((0, 0), (1, 0), (1, 3)), (1, 2)
    ):
        given = [rng.integers(-5, 5, 2 * n + 8) for _ in range(2)]
        if not whole:
            given = [0.1 * x + rng.normal(size=x.size) for x in given]
        if dtype == "complex64":
            given = [x + 1j * rng.normal(size=x.size) for x in given]
        a, b = (torch.tensor(x).to(kind) for x in given)
        x, y = (fw.tensor(each.numpy()).to(gpu) for each in (a, b))
        first = slice(starts[0], starts[0] + n * step, step)
        second = slice(starts[1], starts[1] + n)
        a, b = a[first], b[second]
        found = ops.vdot(x[first], y[second]).numpy()
        if whole:
            assert found == torch.vdot(a, b)
            continue
        precise = torch.complex128 if dtype == "complex64" else torch.float64
        wanted = torch.vdot(a.to(precise), b.to(precise)).numpy()
        bound = 1e-3 if dtype == "float16" else 1e-6
        np.testing.assert_allclose(found, wanted, rtol=bound, atol=bound * 30 * n**0.5)
