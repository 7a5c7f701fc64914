"""Running extremes beside PyTorch: NaN, equal elements, every dtype and layout."""

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.ops.agree import need
from vkbackend.framework import ops

SHAPES = (((7,), 0), ((1,), 0), ((5, 300), 1), ((300, 5), 0), ((3, 2049), 1))
LONG = (((2, 30_000), 1), ((3, 70, 11), 1), ((3, 4100, 2), 1), ((600, 9), -1))
IN_GATE = (SHAPES[1], *SHAPES[3:], LONG[0])


@pytest.mark.device
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4", "i8", "u1", "i2", "?"])
@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        each if each in IN_GATE else pytest.param(*each, marks=pytest.mark.wide)
        for each in SHAPES + LONG
    ],
)
@pytest.mark.parametrize("fixture", ["gpu", "quads"])
def test_equal_elements_and_nan(
    shape: tuple[int, ...],
    dim: int,
    dtype: str,
    fixture: str,
    request: pytest.FixtureRequest,
) -> None:
    device = request.getfixturevalue(fixture)
    need(np.dtype(dtype).name, device)
    data = np.random.default_rng(0).integers(0, 9, shape).astype(dtype)
    if data.dtype.kind == "f" and data.size > 20:
        data.flat[data.size // 2 :: 7] = np.nan
        data.flat[5], data.flat[6] = -0.0, 0.0
    for name in ("cummax", "cummin"):
        found = getattr(ops, name)(fw.tensor(data, device=device), dim)
        right = getattr(torch, name)(torch.from_numpy(data), dim)
        assert np.array_equal(found.indices.numpy(), right.indices.numpy())
        values = found.values.numpy()
        assert np.array_equal(
            values, right.values.numpy(), equal_nan=data.dtype.kind == "f"
        )
        if data.dtype.kind == "f":
            signs = np.signbit(values), np.signbit(right.values.numpy())
            numbers = values == values
            assert np.array_equal(signs[0][numbers], signs[1][numbers])


def test_of_a_transposed_tensor_and_its_gradient(gpu: fw.device) -> None:
    data = np.random.default_rng(0).standard_normal((40, 30)).astype(np.float32)
    x = fw.tensor(data, device=gpu, requires_grad=True)
    y = torch.from_numpy(data).requires_grad_()
    for dim in (0, 1):
        x.grad = y.grad = None
        (ops.cummin(x.t(), dim).values * 2).sum().backward()
        (torch.cummin(y.t(), dim).values * 2).sum().backward()
        assert np.array_equal(x.grad.numpy(), y.grad.numpy())
