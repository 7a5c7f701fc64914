"""Layer norm and RMS norm: options, halves, chunks of rows, numbers that cancel."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.twin import as_in_torch, draw
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.kernels import norm
from vkbackend.framework.kernels.rowwise import RowTile

Make = Callable[..., fw.Tensor]


@pytest.mark.parametrize("shape", [(7, 11), (3, 5, 7), (1, 1), (300, 64), (2, 2053)])
def test_layer_norm(shape: tuple[int, ...], make: Make) -> None:
    last = shape[-1:]

    def call(x: fw.Tensor, weight: fw.Tensor, bias: fw.Tensor) -> fw.Tensor:
        return ops.layer_norm(x, last[0], weight, bias, 1e-3)

    def twin(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, last, weight, bias, 1e-3)

    # Sums over hundreds of rows.
    as_in_torch(make, call, twin, shape, last, last, scale=20)


@pytest.mark.parametrize("eps", [None, 1e-3])
@pytest.mark.parametrize("shape", [(7, 11), (3, 5, 7), (1, 1), (300, 64), (2, 2053)])
def test_rms_norm(shape: tuple[int, ...], eps: float | None, make: Make) -> None:
    last = shape[-1:]
    as_in_torch(
        make,
        lambda x, weight: ops.rms_norm(x, last, weight, eps),
        lambda x, weight: F.rms_norm(x, last, weight, eps or 2.0**-23),
        shape,
        last,
        scale=20,
    )


def test_several_dimensions_without_weights(make: Make) -> None:
    both = (5, 7)
    as_in_torch(
        make,
        lambda x: ops.layer_norm(x, both) + ops.rms_norm(x, both),
        lambda x: F.layer_norm(x, both) + F.rms_norm(x, both, None, 2.0**-23),
        (3, 5, 7),
        scale=20,
    )


def test_only_the_shift_wants_a_gradient(make: Make) -> None:
    bias = make(draw(5), grad=True)
    ops.layer_norm(make(draw(7, 5)), 5, bias=bias).sum().backward()
    assert_close(bias.grad, np.full(5, 7, np.float32))


def test_no_rows(make: Make) -> None:
    x, weight = make(np.zeros((0, 5), np.float32), grad=True), make(draw(5), grad=True)
    out = ops.layer_norm(x, 5, weight)
    assert out.shape == (0, 5)
    out.sum().backward()
    assert_close(weight.grad, np.zeros(5, np.float32))


def test_many_rows_are_summed_in_chunks(make: Make) -> None:
    x = make(draw(70_000, 3), grad=True)
    weight, bias = make(np.ones(3, np.float32), grad=True), make(draw(3), grad=True)
    ops.layer_norm(x, 3, weight, bias).sum().backward()
    assert_close(bias.grad, np.full(3, 70_000, np.float32))
    exact = x.detach().numpy().astype(np.float64)
    exact = exact - exact.mean(1, keepdims=True)
    exact /= np.sqrt((exact**2).mean(1, keepdims=True) + 1e-5)
    # As large as the sum would be if terms did not cancel.
    assert_close(weight.grad / 70_000, (exact.mean(0)).astype(np.float32))


def test_large_mean_does_not_cancel(make: Make) -> None:
    data = draw(5, 64) + np.float32(1000)
    exact = data.astype(np.float64)
    exact = (exact - exact.mean(1, keepdims=True)) / np.sqrt(
        exact.var(1, keepdims=True) + 1e-5
    )
    # The mean is known to 6e-5 of a deviation of 0.6.
    found = ops.layer_norm(make(data), 64)
    assert_close(found, exact.astype(np.float32), scale=60)


@pytest.mark.parametrize("weights", ["same", "float32"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves(dtype: str, weights: str, make: Make) -> None:
    data, weight = draw(7, 37), draw(37, seed=1)
    kind = getattr(torch, dtype)
    x = make(data).to(dtype)
    scale = make(weight).to(dtype) if weights == "same" else make(weight)
    twin = torch.from_numpy(data).to(kind).double()
    factor = torch.from_numpy(weight)
    factor = (factor.to(kind) if weights == "same" else factor).double()
    expected = F.layer_norm(twin, (37,), factor).to(kind).float().numpy()
    found = ops.layer_norm(x, 37, scale)
    assert found.dtype.name == dtype
    assert_close(found, expected.astype(found.numpy().dtype))


def test_sums_are_the_same_in_each_run(make: Make) -> None:
    grads = []
    for _ in range(2):
        weight = make(draw(5), grad=True)
        ops.layer_norm(make(draw(1000, 5)), 5, weight).sum().backward()
        grads.append(weight.grad.numpy())
    assert (grads[0] == grads[1]).all()


@pytest.mark.parametrize("shape", [(7, 256), (5, 70), (9, 36), (3, 201)])
@pytest.mark.parametrize("per_workgroup", [1, 3])
def test_rows_of_any_length_take_one_barrier(
    shape: tuple[int, int],
    per_workgroup: int,
    registers: GpuDevice,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where some of their subgroups have few elements, or none."""
    ragged, full = shape[1] % 4 != 0, shape[1] == 256
    ends = 2 if ragged else int(not full)
    tile = RowTile(64, 1, per_workgroup, ends)
    monkeypatch.setattr(norm, "row_tile", lambda *_, **__: tile)
    # Far from 0, where squares of the elements would cancel.
    data = np.random.default_rng(0).normal(300, 1, shape).astype(np.float32)
    weight, bias = data[0] / 300, data[1] / 300
    given = [fw.tensor(each, device=registers) for each in (data, weight, bias)]
    found = ops.layer_norm(given[0], shape[1], *given[1:], 1e-3).numpy()
    twin = [torch.from_numpy(each).double() for each in (data, weight, bias)]
    wanted = F.layer_norm(twin[0], shape[1:], *twin[1:], 1e-3).numpy()
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-4)
    found = ops.rms_norm(given[0], shape[1], given[1], 1e-3).numpy()
    wanted = F.rms_norm(twin[0], shape[1:], twin[1], 1e-3).numpy()
    np.testing.assert_allclose(found, wanted, rtol=2e-6)


@pytest.mark.parametrize("shape", [(5, 128), (3, 1031), (50, 68), (3, 2, 256)])
def test_rows_in_registers(shape: tuple[int, ...], registers: GpuDevice) -> None:
    def registered(data: object, grad: bool = False) -> fw.Tensor:
        return fw.tensor(data, device=registers, requires_grad=grad)

    last = shape[-1:]
    as_in_torch(
        registered,
        lambda x, weight, bias: ops.layer_norm(x, last, weight, bias, 1e-3),
        lambda x, weight, bias: F.layer_norm(x, last, weight, bias, 1e-3),
        shape,
        last,
        last,
        scale=20,
    )
    as_in_torch(
        registered,
        lambda x, weight: ops.rms_norm(x, last, weight, 1e-3),
        lambda x, weight: F.rms_norm(x, last, weight, 1e-3),
        shape,
        last,
        scale=20,
    )
