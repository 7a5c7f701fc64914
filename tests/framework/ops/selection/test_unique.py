"""Different elements: where they are, how often they occur."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.agree import need
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.ops.selection import unique

Make = Callable[..., fw.Tensor]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "float16", "float32"])
@pytest.mark.parametrize("shape", [(7, 11), (3001,), (1,), (), (0, 3)])
def test_against_numpy(dtype: str, shape: tuple[int, ...], make: Make) -> None:
    data = np.random.default_rng(0).integers(0, 99, shape).astype(dtype)
    values, inverse, counts = np.unique(data, return_inverse=True, return_counts=True)
    found = ops.unique(make(data), return_inverse=True, return_counts=True)
    assert isinstance(found, tuple)
    assert_close(found[0], values)
    assert_close(found[1], inverse.reshape(shape).astype(np.int64))
    assert_close(found[2], counts.astype(np.int64))
    alone = ops.unique(make(data))
    assert isinstance(alone, fw.Tensor)
    assert_close(alone, values)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "float32"])
@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        ((40, 3), 0),
        ((40, 1), -2),
        ((3, 50), 1),
        ((4, 30, 2), 1),
        ((2, 3, 30), -1),
        ((1, 5), 0),
        ((9,), 0),
        ((0, 3), 0),
    ],
)
def test_slices_as_in_torch(
    dtype: str, shape: tuple[int, ...], dim: int, make: Make
) -> None:
    data = np.random.default_rng(1).integers(0, 3, shape).astype(dtype)
    options = {"dim": dim, "return_inverse": True, "return_counts": True}
    expected = torch.unique(torch.from_numpy(data), **options)
    found = ops.unique(make(data), **options)
    assert isinstance(found, tuple)
    assert found[0].dtype.name == dtype
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.shape == tuple(theirs.shape)
        assert ours.tolist() == theirs.tolist()


def test_slices_without_elements_are_an_error(make: Make) -> None:
    with pytest.raises(ShapeError) as raised:
        ops.unique(make(np.ones((3, 0))), dim=0)
    assert str(raised.value) == (
        "unique: dim is 0 for shape (3, 0), whose slices have no elements; no other"
        " dimension may have size 0"
    )


def test_slices_with_nan_are_different(make: Make) -> None:
    x = make([[1.0, np.nan], [1.0, 2.0], [1.0, np.nan], [1.0, 2.0]])
    found = ops.unique(x, return_counts=True, dim=0)
    assert found[1].tolist() == [2, 1, 1]


def test_every_nan_is_different(make: Make) -> None:
    found = ops.unique(make([np.nan, 1.0, np.nan, 1.0]), return_counts=True)
    assert found[1].tolist() == [2, 1, 1]


def test_one_number_is_read_back(gpu: GpuDevice) -> None:
    x = fw.tensor([3.0, 1.0, 3.0], device=gpu)
    before = gpu.gpu.counters.host_reads
    ops.unique(x)
    assert gpu.gpu.counters.host_reads == before + 1


def test_signs_of_zero_and_nan(make: Make) -> None:
    data = np.array([2, -0.0, np.nan, 0.0, np.nan, 2, -1], np.float32)
    values, inverse, counts = ops.unique(
        make(data), return_inverse=True, return_counts=True
    )
    assert np.array_equal(values.numpy()[:3], [-1, 0, 2])
    assert np.signbit(values.numpy()[1])
    assert np.isnan(values.numpy()[3:]).all()
    assert counts.tolist() == [1, 2, 2, 1, 1]
    assert inverse.tolist() == [2, 1, 3, 1, 4, 2, 0]


DTYPES = ["uint8", "int8", "int16", "int32", "int64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_close_integers_are_marked(
    dtype: str, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(dtype, gpu)
    monkeypatch.setattr(unique, "LEAST_MARKED", 300)
    rng = np.random.default_rng(0)
    info = np.iinfo(dtype)
    spans = (info.min, 100), (info.max - 99, 100), (-50, 300), (5, 1)
    monkeypatch.setattr(unique, "PRIVATE_COUNTS", 200)
    for low, span in spans:
        low = max(low, info.min)
        high = min(low + span, info.max + 1)
        data = rng.integers(low, high, (20, 17), dtype)
        values, inverse, counts = np.unique(
            data, return_inverse=True, return_counts=True
        )
        x = fw.tensor(data, device=gpu)
        wide = dtype in ("int32", "int64")
        with gpu.gpu.profile() as profile:
            alone = ops.unique(x)
            found = ops.unique(x, return_inverse=True, return_counts=True)
            fw.eval(alone, *found)
        kernels = {span.name.split()[0] for span in profile.spans}
        if wide or dtype == "uint8" or dtype == "int8":
            assert not any(name.startswith("sort/radix") for name in kernels)
        assert isinstance(alone, fw.Tensor)
        assert isinstance(found, tuple)
        assert alone.dtype is found[0].dtype is x.dtype
        for ours, theirs in zip(
            (alone, *found), (values, values, inverse.reshape(20, 17), counts)
        ):
            assert np.array_equal(ours.numpy(), theirs)


def test_integers_far_apart_are_sorted(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unique, "LEAST_MARKED", 300)
    data = np.random.default_rng(0).integers(-(2**31), 2**31 - 1, 500, np.int32)
    data[:2] = -(2**31), 2**31 - 1
    found = ops.unique(fw.tensor(data, device=gpu), return_counts=True)
    assert isinstance(found, tuple)
    values, counts = np.unique(data, return_counts=True)
    assert np.array_equal(found[0].numpy(), values)
    assert np.array_equal(found[1].numpy(), counts)
