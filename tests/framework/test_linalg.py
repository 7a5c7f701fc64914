"""Linear algebra beside PyTorch's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import ShapeError

RNG = np.random.default_rng(0)
SQUARE = RNG.standard_normal((2, 3, 3)) + np.eye(3) * 2
TALL, WIDE = RNG.standard_normal((2, 4, 3)), RNG.standard_normal((3, 4))
SIDE = RNG.standard_normal((2, 3, 2))
Call = Callable[..., Any]
CALLS: dict[str, tuple[Call, tuple[np.ndarray, ...]]] = {
    "det": (lambda t, a: t.linalg.det(a), (SQUARE,)),
    "slogdet": (lambda t, a: t.linalg.slogdet(a), (SQUARE,)),
    "logdet": (lambda t, a: (a @ a.mT).logdet(), (SQUARE,)),
    "inv": (lambda t, a: t.linalg.inv(a), (SQUARE,)),
    "solve": (lambda t, a, b: t.linalg.solve(a, b), (SQUARE, SIDE)),
    "solve right": (
        lambda t, a, b: t.linalg.solve(a, b.mT, left=False), (SQUARE, SIDE)
    ),
    "solve vectors": (lambda t, a, b: t.linalg.solve(a, b[..., 0]), (SQUARE, SIDE)),
    "triangular": (
        lambda t, a, b: t.linalg.solve_triangular(a, b.mT, upper=True, left=False),
        (SQUARE, SIDE),
    ),
    "cholesky": (lambda t, a: t.linalg.cholesky(a @ a.mT, upper=True), (SQUARE,)),
    "cholesky_solve": (
        lambda t, a, b: t.cholesky_solve(b, t.linalg.cholesky(a @ a.mT)),
        (SQUARE, SIDE),
    ),
    "cholesky_inverse": (
        lambda t, a: t.cholesky_inverse(t.linalg.cholesky(a @ a.mT)), (SQUARE[0],)
    ),
    "qr": (lambda t, a: tuple(t.linalg.qr(a)), (TALL,)),
    "qr wide": (lambda t, a: tuple(t.linalg.qr(a)), (WIDE,)),
    "eigh": (
        lambda t, a: (lambda w, v: (w, v * v))(*t.linalg.eigh(a + a.mT)), (SQUARE,)
    ),
    "eigvalsh": (lambda t, a: t.linalg.eigvalsh(a + a.mT, UPLO="U"), (SQUARE,)),
    "svdvals": (lambda t, a: t.linalg.svdvals(a), (TALL,)),
    "svd": (lambda t, a: tuple(x * x for x in t.svd(a)), (WIDE,)),
    "pinv": (lambda t, a: t.linalg.pinv(a), (TALL,)),
    "lstsq": (lambda t, a, b: t.linalg.lstsq(a, b).solution, (TALL, TALL[..., :2])),
    "lu": (lambda t, a: tuple(t.linalg.lu(a)), (SQUARE,)),
    "lu tall": (lambda t, a: tuple(t.linalg.lu(a)), (TALL,)),
    "lu wide": (lambda t, a: tuple(t.linalg.lu(a)), (WIDE,)),
    "lu_solve": (
        lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b), (SQUARE, SIDE)
    ),
    "lu_solve adjoint": (
        lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b, adjoint=True),
        (SQUARE, SIDE),
    ),
    "matrix_power": (lambda t, a: t.linalg.matrix_power(a, -2), (SQUARE,)),
    "matrix_exp": (lambda t, a: t.linalg.matrix_exp(a), (SQUARE,)),
    "multi_dot": (
        lambda t, a, b: t.linalg.multi_dot([a[0, 0], b[0], a[0].mT[:, :2].mT[:, 0]]),
        (SQUARE, SIDE),
    ),
    "matrix_norm": (
        lambda t, a: tuple(
            t.linalg.matrix_norm(a, p) for p in ("fro", "nuc", 1, -1, 2, -2, np.inf)
        ),
        (TALL,),
    ),
    "norm": (
        lambda t, a: (
            t.linalg.norm(a),
            t.linalg.norm(a, 1, dim=(0, 1)),
            t.linalg.norm(a, 3, dim=1),
            t.linalg.vector_norm(a, 1, keepdim=True),
        ),
        (WIDE,),
    ),
    "cond": (lambda t, a: (t.linalg.cond(a), t.linalg.cond(a, -2)), (SQUARE,)),
    "vecdot": (lambda t, a, b: t.linalg.vecdot(a[..., :2], b), (SQUARE, SIDE)),
    "cross": (lambda t, a: t.linalg.cross(a[0], a[1]), (SQUARE,)),
    "vander": (lambda t, a: t.linalg.vander(a, N=3), (WIDE,)),
    "diagonal": (lambda t, a: t.linalg.diagonal(a, offset=1), (TALL,)),
    "tensorinv": (
        lambda t, a: t.linalg.tensorinv(a.reshape(2, 3, 6)), (RNG.random((6, 6)),)
    ),
    "tensorsolve": (
        lambda t, a, b: t.linalg.tensorsolve(a.reshape(2, 3, 6), b.reshape(2, 3)),
        (RNG.random((6, 6)), RNG.random(6)),
    ),
    "householder": (
        lambda t, a, b: t.linalg.householder_product(a, b), (TALL, SIDE[..., 0])
    ),
}  # fmt: skip


def parts(result: Any) -> list[Any]:
    """Return the tensors of a result."""
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("name", CALLS)
def test_values_and_gradients(name: str) -> None:
    call, arrays = CALLS[name]
    ours = [fw.tensor(x, requires_grad=True) for x in arrays]
    theirs = [torch.tensor(x, requires_grad=True) for x in arrays]
    found, expected = parts(call(fw, *ours)), parts(call(torch, *theirs))
    for one, other in zip(found, expected, strict=True):
        assert tuple(one.shape) == tuple(other.shape)
        np.testing.assert_allclose(
            one.detach().numpy(), other.detach().numpy(), 1e-7, 1e-9
        )
    sum((x * x).sum() for x in found).backward()
    sum((x * x).sum() for x in expected).backward()  # type: ignore[union-attr]
    for one, other in zip(ours, theirs):
        np.testing.assert_allclose(one.grad.numpy(), other.grad.numpy(), 1e-6, 1e-8)


def test_on_a_device(device: vkbackend.Device) -> None:
    x = fw.tensor(SQUARE.astype(np.float32), device=device.name)
    x.requires_grad_()
    out = fw.linalg.inv(x) @ fw.linalg.cholesky(x @ x.mT)
    assert out.device is x.device
    out.sum().backward()
    y = torch.tensor(SQUARE, dtype=torch.float32, requires_grad=True)
    (torch.linalg.inv(y) @ torch.linalg.cholesky(y @ y.mT)).sum().backward()
    assert y.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), 1e-3, 1e-4)


def test_refusals() -> None:
    with pytest.raises(fw.linalg.LinAlgError, match="singular"):
        fw.linalg.inv(fw.zeros(2, 2))
    with pytest.raises(fw.linalg.LinAlgError, match="positive-definite"):
        fw.linalg.cholesky(-fw.eye(2))
    with pytest.raises(ValueError, match="square"):
        fw.linalg.det(fw.zeros(2, 3))
    with pytest.raises(TypeError, match="float16"):
        fw.linalg.det(fw.zeros(2, 2, dtype=fw.float16))


def test_singular_determinant_and_info() -> None:
    x = fw.tensor([[1.0, 2.0], [2.0, 4.0]], requires_grad=True)
    x.det().backward()
    np.testing.assert_allclose(x.grad.numpy(), [[4, -2], [-2, 1]], 1e-5)
    found = fw.linalg.cholesky_ex(fw.stack([fw.eye(2), fw.tensor([[1.0, 2], [2, 1]])]))
    assert found.info.tolist() == [0, 2]
    assert fw.linalg.matrix_rank(x).item() == 1
    assert fw.linalg.svd(fw.rand(4, 2)).U.shape == (4, 4)


def test_factors_that_are_not_wanted() -> None:
    a = np.float32([[0, 1, 2], [3, 4, 5], [1, 0, 2]])
    ours, theirs = fw.tensor(a), torch.from_numpy(a)
    factors, expected = fw.linalg.lu_factor(ours), torch.linalg.lu_factor(theirs)
    for options in ({"unpack_data": False}, {"unpack_pivots": False}):
        found = fw.lu_unpack(*factors, **options)
        for one, other in zip(found, torch.lu_unpack(*expected, **options)):
            assert one.shape == other.shape
            np.testing.assert_allclose(one.numpy(), other.numpy(), 1e-6, 1e-6)
    found = fw.svd(ours[:2], compute_uv=False)
    for one, other in zip(found, torch.svd(theirs[:2], compute_uv=False)):
        assert one.shape == other.shape
        np.testing.assert_allclose(one.numpy(), other.numpy(), 1e-6, 1e-6)


def test_without_pivots_a_zero_is_divided_by() -> None:
    singular, _ = fw.linalg.lu_factor(fw.tensor([[0.0, 1.0], [1.0, 0.0]]), pivot=False)
    assert not np.isfinite(singular.numpy()).all()
    regular, _ = fw.linalg.lu_factor(fw.tensor([[2.0, 1.0], [1.0, 0.0]]), pivot=False)
    np.testing.assert_allclose(regular.numpy(), [[2, 1], [0.5, -0.5]])


def test_vander_of_too_few_powers() -> None:
    for count in (0, 1):
        with pytest.raises(ShapeError, match=f"N is {count}; it must be at least 2"):
            fw.linalg.vander(fw.ones(3), N=count)


@pytest.mark.parametrize("p", [1, -1, float("inf"), "fro"])
def test_condition_of_singular_matrices_is_infinite(p: Any) -> None:
    a = np.float32([[[1, 2], [2, 4]], [[2, 1], [1, 3]]])
    found = fw.linalg.cond(fw.tensor(a), p).numpy()
    expected = torch.linalg.cond(torch.from_numpy(a), p).numpy()
    np.testing.assert_allclose(found, expected, 1e-5)


def test_powers_that_a_device_cannot_index(gpu: GpuDevice) -> None:
    x = fw.ones(1 << 16, device=gpu)
    text = r"vander: shape \(65536, 65536\) of float32 is too large: "
    for function in (fw.vander, fw.linalg.vander):
        with pytest.raises(ShapeError, match=text):
            function(x)
