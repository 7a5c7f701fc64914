"""Elements of one rank beside PyTorch's stable sort: NaN, equal ones, layouts."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.ops.agree import need
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.kernels import select

MODES = ("kthvalue", "median", "nanmedian")
LAYOUTS = (((7,), 0), ((1,), 0), ((5, 100), 1), ((300, 5), 0), ((3, 1025), 1))
LAYOUTS += (((3, 70, 11), 1), ((2, 3001), 1), ((600, 9), 1), ((70, 129), -1))
LONG = (((20_000,), 0), ((2, 17_000), 1), ((900, 3), 0))


def of_sorted(x: torch.Tensor, dim: int, mode: str) -> tuple[torch.Tensor, ...]:
    """Return what is at the rank of a mode in a stable order."""
    ordered, count = torch.sort(x, dim=dim, stable=True), x.shape[dim]
    nan = (x != x).sum(dim, keepdim=True)
    if mode == "kthvalue":
        rank = torch.full_like(nan, max(1, count // 3) - 1)
    elif mode == "median":
        rank = torch.where(nan > 0, count - 1, (count - 1) // 2)
    else:
        rank = torch.where(nan == count, 0, (count - 1 - nan).clamp(min=0) // 2)
    return tuple(each.gather(dim, rank).squeeze(dim) for each in ordered)


def check(shape: tuple[int, ...], dim: int, dtype: str, device: Device) -> None:
    need(np.dtype(dtype).name, device)
    rng = np.random.default_rng(0)
    for most in (3, 100):
        data = rng.integers(0 if dtype == "u1" else -most, most, shape).astype(dtype)
        if data.dtype.kind == "f" and data.size > 20:
            data = (data * 0.37).astype(dtype)
            data.flat[1::9] = -0.0
            if most == 3:
                data.flat[::7] = np.nan
        x, y = fw.tensor(data, device=device), torch.from_numpy(data)
        for mode in MODES:
            given = (max(1, shape[dim] // 3), dim) if mode == "kthvalue" else (dim,)
            found = getattr(ops, mode)(x, *given)
            values, indices = of_sorted(y, dim, mode)
            assert np.array_equal(found.indices.numpy(), indices.numpy())
            assert np.array_equal(
                found.values.numpy(), values.numpy(), equal_nan=dtype[0] == "f"
            )


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "u1", "i2", "i4", "i8"])
@pytest.mark.parametrize(("shape", "dim"), LAYOUTS)
def test_on_the_host(shape: tuple[int, ...], dim: int, dtype: str) -> None:
    check(shape, dim, dtype, fw.device("cpu"))


@pytest.mark.parametrize("dtype", ["f4", "i8"])
@pytest.mark.parametrize(("shape", "dim"), LAYOUTS[::2])
def test_of_what_is_sorted(
    shape: tuple[int, ...], dim: int, dtype: str, gpu: GpuDevice
) -> None:
    check(shape, dim, dtype, gpu)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "u1", "i2", "i4", "i8"])
@pytest.mark.parametrize(("shape", "dim"), LAYOUTS + LONG)
def test_selected(
    shape: tuple[int, ...], dim: int, dtype: str, quads: GpuDevice
) -> None:
    check(shape, dim, dtype, quads)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "u1", "i8"])
@pytest.mark.parametrize(("shape", "dim"), LAYOUTS[2:] + LONG)
def test_by_several_workgroups(
    shape: tuple[int, ...],
    dim: int,
    dtype: str,
    quads: GpuDevice,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(select, "SHORT_LINE", 16)
    monkeypatch.setattr(select, "MOST_LINE", 50)
    monkeypatch.setattr(select, "RANK_CHUNK", 128)
    check(shape, dim, dtype, quads)


CALLS: tuple[Callable[..., object], ...] = (
    lambda x, take: take.median(x, 0)[0].sum(),
    lambda x, take: take.median(x, 1, True)[0].sum(),
    lambda x, take: take.median(x),
    lambda x, take: take.nanmedian(x, 0)[0].sum(),
    lambda x, take: take.nanmedian(x),
    lambda x, take: take.kthvalue(x, 5, 1)[0].sum(),
)


@pytest.mark.device
@pytest.mark.parametrize("fixture", ["gpu", "quads"])
@pytest.mark.parametrize("call", CALLS)
def test_gradients(
    call: Callable[..., object], fixture: str, request: pytest.FixtureRequest
) -> None:
    device = request.getfixturevalue(fixture)
    data = np.random.default_rng(0).standard_normal((40, 90)).astype("f4")
    x = fw.tensor(data, device=device, requires_grad=True)
    y = torch.tensor(data, requires_grad=True)
    for tensor, take in ((x, fw), (y, torch)):
        call(tensor, take).backward()  # type: ignore[attr-defined]  # it is a tensor
    assert x.grad is not None
    assert y.grad is not None
    assert np.array_equal(x.grad.numpy(), y.grad.numpy())


def test_no_line_is_sorted(quads: GpuDevice) -> None:
    for shape, kernel in (
        ((700, 100), "sort/short_rows"),
        ((20, 3000), "sort/select_rank"),
    ):
        x = fw.rand(*shape, device=quads)
        fw.eval(x)
        with quads.gpu.profile() as profile:
            found = ops.median(x, 1)
            fw.eval()
        assert [span.name.split()[0] for span in profile.spans] == [kernel]
        del found
