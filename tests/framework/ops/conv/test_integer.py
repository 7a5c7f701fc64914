"""Convolutions of integers are PyTorch's."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import DTypeError

OPTIONS: list[dict[str, Any]] = [
    {"padding": "same"},
    {"stride": 2, "padding": 1, "groups": 2},
    {"stride": 3, "dilation": 2, "padding": 2},
]


@pytest.mark.filterwarnings("ignore:Using padding")
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_numbers(dims: int, place: Device) -> None:
    rng = np.random.default_rng(0)
    x, bias = rng.integers(0, 9, (2, 4, *[7, 6, 5][:dims])), rng.integers(0, 5, 6)
    for options in OPTIONS:
        groups = options.get("groups", 1)
        back = {} if "stride" not in options else {"output_padding": 1}
        runs: list[tuple[str, int, Any]] = [("conv", 0, {})]
        if "stride" in options:
            runs.append(("conv_transpose", 1, back))
        for name, transposed, more in runs:
            shape = (4, 6 // groups) if transposed else (6, 4 // groups)
            weight = rng.integers(0, 9, (*shape, *[3, 2, 2][:dims]))
            found, expected = (
                getattr(m.nn.functional, f"{name}{dims}d")(
                    *[m.tensor(each, device=at) for each in (x, weight, bias)],
                    **options,
                    **more,
                )
                for m, at in ((fw, place), (torch, "cpu"))
            )
            assert found.dtype is fw.int64
            np.testing.assert_array_equal(found.cpu().numpy(), expected.numpy())


def test_numbers_wrap(place: Device) -> None:
    x = torch.full((1, 2, 4), 100, dtype=torch.uint8)
    expected = torch.nn.functional.conv1d(x, x[..., :2])
    ours = fw.tensor(x.numpy(), device=place)
    found = fw.nn.functional.conv1d(ours, ours[..., :2])
    assert found.dtype is fw.uint8
    assert found.tolist() == expected.tolist()


def test_dtypes_that_are_refused() -> None:
    f, x = fw.nn.functional, fw.ones(1, 2, 5, dtype="int32")
    with pytest.raises(DTypeError, match="must be of one dtype"):
        f.conv1d(x, fw.ones(2, 2, 3))
    with pytest.raises(DTypeError, match="of integers it must be int64"):
        f.conv_transpose1d(x, x[..., :2])
