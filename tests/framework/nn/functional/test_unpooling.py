"""Max unpooling, power averages, and fractional max pooling."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.nn.functional.beside import beside, drawn
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.nn import functional as F  # noqa: N812 - PyTorch's usual name

# Classes and positions are int64, as in PyTorch.
pytestmark = pytest.mark.int64

SHAPE = (2, 3, 4, 6, 8)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_unpooled(dims: int, place: Device) -> None:
    shape = SHAPE[: 2 + dims]
    pool = getattr(torch.nn.functional, f"max_pool{dims}d")
    values, places = pool(torch.tensor(drawn(*shape)), 2, return_indices=True)
    given = values.numpy(), places.numpy()
    beside(f"max_unpool{dims}d", place, *given, 2)
    beside(f"max_unpool{dims}d", place, *given, 2, output_size=list(shape))


@pytest.mark.parametrize("dtype", ["int64", "uint8"])
def test_devices_move_integers(dtype: str, gpu: GpuDevice) -> None:
    for dims in (1, 2, 3):
        x = fw.arange(4, dtype=dtype, device=gpu).reshape(1, 1, *(1,) * (dims - 1), 4)
        places = fw.tensor([0, 3, 4, 7], device=gpu).reshape(x.shape)
        found = getattr(F, f"max_unpool{dims}d")(x, places, (1,) * (dims - 1) + (2,))
        assert str(found.dtype) == f"torch.{dtype}"
        assert found.flatten().tolist() == [0, 0, 0, 1, 2, 0, 0, 3]


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_power_averages(dims: int, place: Device) -> None:
    x = np.abs(drawn(*SHAPE[: 2 + dims])) + 0.1
    beside(f"lp_pool{dims}d", place, x, 3, 2, 2, True, scale=16)


@pytest.mark.torch213
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_power_averages_of_infinite_power(dims: int, place: Device) -> None:
    x = np.abs(drawn(*SHAPE[: 2 + dims])) + 0.1
    beside(f"lp_pool{dims}d", place, x, float("inf"), 2)


@pytest.mark.parametrize("dims", [2, 3])
def test_random_windows(dims: int, place: Device) -> None:
    x = drawn(2, 3, 7, 8, 9)[..., 0] if dims == 2 else drawn(2, 3, 7, 8, 9)
    draws = np.random.default_rng(0).uniform(size=(2, 3, dims)).astype(np.float32)
    beside(
        f"fractional_max_pool{dims}d",
        place,
        x,
        2,
        output_size=(3, 4, 5)[:dims],
        return_indices=True,
        _random_samples=draws,
    )
    pool, one = F.__dict__[f"fractional_max_pool{dims}d"], fw.tensor(x[0], device=place)
    pooled = pool(one, 2, 3, _random_samples=fw.tensor(draws, device=place))
    batch = pool(one[None], 2, 3, _random_samples=fw.tensor(draws, device=place))
    assert pooled.tolist() == batch[0].tolist()  # the samples of others are left
    ratio = F.__dict__[f"fractional_max_pool{dims}d"](
        fw.tensor(x, device=place), 2, output_ratio=0.5
    )
    assert ratio.shape == (2, 3, *(int(size * 0.5) for size in x.shape[2:]))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x, i: F.max_unpool2d(x, i[0], 2), "indices"),
        (lambda x, i: F.max_unpool2d(x, i, 2, output_size=[9, 9]), r"output_size is"),
        (lambda x, i: F.lp_pool2d(x, 2, (1, 2, 3)), "kernel_size is"),
        (lambda x, i: F.fractional_max_pool2d(x, 2), "give one"),
        (lambda x, i: F.fractional_max_pool2d(x, 2, 3), "do not fit"),
        (lambda x, i: F.fractional_max_pool2d(x, 2, None, 1.5), "between 0 and 1"),
    ],
)
def test_bad_arguments(call: Any, text: str) -> None:
    with pytest.raises(ShapeError, match=text):
        call(fw.ones((1, 1, 2, 2)), fw.zeros((1, 1, 2, 2), dtype="int64"))
