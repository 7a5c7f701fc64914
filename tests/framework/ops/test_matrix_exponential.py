"""Exponentials of matrices and their gradients, beside PyTorch's in float64."""

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice

wide = pytest.mark.wide
SIZE = 2.0**20


# Kernels of few rows compile within seconds, those of 16 take most of a minute.
LONG = ((3, 16, 16), (1, 1), (30, 30), (60, 60))


@pytest.mark.parametrize(
    "shape", [(3, 3, 3), *(pytest.param(each, marks=wide) for each in LONG)]
)
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=wide)])
def test_exponentials(shape: tuple[int, ...], dtype: str, quick: GpuDevice) -> None:
    if dtype == "float64" and not quick.gpu.info.shader_float64:
        pytest.skip("no float64")
    rng = np.random.default_rng(shape[-1])
    for scale in (1e-3, 1.0, 4.0):
        data = (rng.standard_normal(shape) * scale / shape[-1] ** 0.5).astype(dtype)
        # It is linear in what comes in, whose size does not matter.
        seed = (SIZE * rng.standard_normal(shape)).astype(dtype)
        x = fw.tensor(data, device=quick, requires_grad=True)
        given = torch.tensor(data.astype("f8"), requires_grad=True)
        reads = quick.gpu.counters.host_reads
        found, wanted = fw.linalg.matrix_exp(x), torch.linalg.matrix_exp(given)
        found.backward(fw.tensor(seed, device=quick))
        wanted.backward(torch.tensor(seed.astype("f8") / SIZE))
        assert x.grad is not None
        assert given.grad is not None
        fw.eval(found, x.grad)
        if shape[-1] <= 16:
            assert quick.gpu.counters.host_reads == reads
        for ours, theirs in ((found, wanted), (x.grad / SIZE, given.grad)):
            exact = theirs.detach().numpy()
            error = np.abs(ours.detach().numpy() - exact).max()
            # PyTorch's gradients in float64 lose two digits of their own.
            most = max(200 * np.finfo(dtype).eps, 1e-12)
            assert error <= most * np.abs(exact).max()


def test_matrices_by_themselves(quick: GpuDevice) -> None:
    data = np.zeros((4, 4, 4), "f4")
    data[1, 0, 0], data[2, 1, 1], data[3, 2, 3] = np.nan, -1e38, np.inf
    found = fw.linalg.matrix_exp(fw.tensor(data, device=quick)).numpy()
    np.testing.assert_array_equal(found[0], np.eye(4))
    np.testing.assert_array_equal(found[2], np.diag([1, 0, 1, 1]))
    assert np.isnan(found[[1, 3]]).all()


@pytest.mark.parametrize("norm", [1e-8, 3e-4, 2e-2, 0.3, 1.0, 2.5, 20.0])
def test_degrees(norm: float, quick: GpuDevice) -> None:
    data = np.random.default_rng(1).standard_normal((50, 50)).astype("f4")
    data *= norm / np.abs(data).sum(-1).max()
    found = fw.linalg.matrix_exp(fw.tensor(data, device=quick)).numpy()
    exact = torch.linalg.matrix_exp(torch.tensor(data.astype("f8"))).numpy()
    assert np.abs(found - exact).max() <= 4e-6 * np.abs(exact).max()


def test_each_matrix_is_halved_as_often_as_it_needs(quick: GpuDevice) -> None:
    data = np.random.default_rng(1).standard_normal((4, 50, 50)).astype("f4")
    data /= np.abs(data).sum(-1).max((-1, -2), keepdims=True)
    data *= np.array([1e-3, 0.0, 1.0, np.nan], "f4")[:, None, None]
    data[1, 0, 1:] = 64.0  # its square is 0
    x = fw.tensor(data, device=quick)
    reads = quick.gpu.counters.host_reads
    found = fw.linalg.matrix_exp(x)
    assert quick.gpu.counters.host_reads == reads + 1
    exact = torch.linalg.matrix_exp(torch.tensor(data[:3].astype("f8"))).numpy()
    for ours, theirs in zip(found.numpy(), exact):
        assert np.abs(ours - theirs).max() <= 4e-6 * np.abs(theirs).max()
    assert np.isnan(found.numpy()[3]).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_two_byte_matrices_are_computed_in_float32(
    dtype: str, quick: GpuDevice
) -> None:
    data = np.random.default_rng(1).standard_normal((64, 64)).astype("f4") * 0.5
    x = fw.tensor(data, device=quick, dtype=getattr(fw, dtype))
    found = fw.linalg.matrix_exp(x).float().numpy()
    exact = torch.linalg.matrix_exp(torch.tensor(x.float().numpy())).numpy()
    rounding = {"float16": 2**-11, "bfloat16": 2**-8}[dtype]
    np.testing.assert_allclose(
        found, exact, rtol=rounding, atol=1e-5 * np.abs(exact).max()
    )


@pytest.mark.wide
@pytest.mark.parametrize("size", [3, *(pytest.param(n, marks=wide) for n in (6, 30))])
def test_second_derivatives(size: int, quick: GpuDevice) -> None:
    data = np.random.default_rng(0).standard_normal((size, size)).astype("f4") * 0.2
    found = []
    for library, x in (
        (fw, fw.tensor(data, device=quick)),
        (torch, torch.tensor(data)),
    ):
        lib, make = library.func, library.linalg.matrix_exp

        def first(p, lib=lib, make=make):  # type: ignore[no-untyped-def]
            return (lib.grad(lambda q: (make(q) ** 2).sum())(p) * p.sin()).sum()

        found.append(lib.grad(first)(x).numpy())
    ours, theirs = found
    np.testing.assert_allclose(ours, theirs, atol=1e-4 * np.abs(theirs).max())
