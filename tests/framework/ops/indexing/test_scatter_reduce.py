"""Scattered elements that are combined, against PyTorch."""

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.agree import host_reads, need
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import DTypeError, ShapeError
from vkbackend.framework.ops.indexing.scatter_reduce import MODES

INDEX = np.array([[0, 2, 2, 0, 2], [1, 1, 1, 1, 1], [0, 1, 2, 0, 0]], np.int64)


def drawn(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return small whole numbers, so that all results are exact."""
    rng = np.random.default_rng(3)
    x, src = rng.integers(1, 4, (4, 3)), rng.integers(1, 4, (3, 6))
    return x.astype(dtype), src.astype(dtype)


@pytest.mark.filterwarnings("ignore:scatter_reduce:UserWarning")
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8", "float64"])
@pytest.mark.parametrize("mode", MODES)
def test_as_in_torch(mode: str, dtype: str, include_self: bool, place: Device) -> None:
    need(dtype, place)
    x, src = drawn(dtype)
    expected = torch.tensor(x).scatter_reduce(
        1, torch.tensor(INDEX), torch.tensor(src), mode, include_self=include_self
    )
    found = ops.scatter_reduce(
        fw.tensor(x, device=place),
        1,
        fw.tensor(INDEX, "int32", place),
        fw.tensor(src, device=place),
        mode,
        include_self=include_self,
    )
    assert_close(found, expected.numpy(), scale=2 if mode == "mean" else 1)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_gradient(mode: str, include_self: bool, place: Device) -> None:
    x, src = drawn("float32")
    x[0, 0], src[0, :3], src[1, 1] = 5, 2, 0  # ties, and a factor of 0
    if not include_self:
        x += 0.5  # PyTorch shares with a place's own element if it is equal by chance.
    theirs = [torch.tensor(each, requires_grad=True) for each in (x, src)]
    ours = [fw.tensor(each, device=place, requires_grad=True) for each in (x, src)]
    # PyTorch has no gradient for a larger `src`.
    fitting = theirs[1][:, : INDEX.shape[1]]
    expected = theirs[0].scatter_reduce(
        1, torch.tensor(INDEX), fitting, mode, include_self=include_self
    )
    weights = np.arange(expected.numel(), dtype=np.float32).reshape(4, 3) / 4 + 1
    expected.backward(torch.tensor(weights))
    index = fw.tensor(INDEX, "int32", place)
    reads = host_reads(place)
    found = ops.scatter_reduce(
        ours[0], 1, index, ours[1], mode, include_self=include_self
    )
    found.backward(fw.tensor(weights, device=place))
    fw.eval()
    assert host_reads(place) == reads
    assert_close(found, expected.detach().numpy(), scale=2)
    for mine, other in zip(ours, theirs):
        assert other.grad is not None
        assert_close(mine.grad, other.grad.numpy(), scale=2)


@pytest.mark.parametrize("mode", ["amax", "amin", "prod"])
def test_many_to_one_place(mode: str, place: Device) -> None:
    rng = np.random.default_rng(0)
    src = rng.uniform(0.99, 1.01, 1031).astype(np.float32)
    src[500] = np.nan
    index = np.minimum(rng.integers(0, 5, 1031), 2)
    expected = torch.zeros(3).scatter_reduce(
        0, torch.tensor(index), torch.tensor(src), mode, include_self=False
    )
    found = ops.scatter_reduce(
        fw.zeros(3, device=place),
        0,
        fw.tensor(index, "int32", place),
        fw.tensor(src, device=place),
        mode,
        include_self=False,
    )
    assert np.isnan(found.numpy()).sum() == 1
    assert_close(found, expected.numpy(), scale=4)  # hundreds of factors


def test_out_of_range_is_ignored_unchecked(
    place: Device, unchecked_indices: None
) -> None:
    x, index = fw.ones(3, device=place), fw.tensor([0, 3, -4], "int32", place)
    src = fw.tensor([2.0, 5.0, 7.0], device=place)
    if not place.is_gpu:
        with pytest.raises(ShapeError, match="index 3 is out of range"):
            ops.scatter_reduce(x, 0, index, src, "amax")
        return
    for mode in MODES:
        expected = 1.5 if mode == "mean" else {"sum": 3, "amin": 1}.get(mode, 2)
        out = ops.scatter_reduce(x, 0, index, src, mode)
        assert out.tolist() == [expected, 1, 1]


def test_bad_input() -> None:
    x, index = fw.ones((2, 3)), fw.zeros((2, 3), "int32")
    with pytest.raises(ShapeError) as raised:
        ops.scatter_reduce(x, 0, index, x, "median")
    assert str(raised.value) == (
        "scatter_reduce: reduce is 'median'; it must be one of"
        " ('sum', 'prod', 'mean', 'amax', 'amin')"
    )
    for mode in ("prod", "amax"):
        with pytest.raises(ShapeError, match=r"scatter_reduce: index is \(3,\), x"):
            ops.scatter_reduce(x, 0, index[0], x, mode)
        with pytest.raises(ShapeError, match=r"index must not be larger"):
            ops.scatter_reduce(x, 0, index, x[:1], mode)
    with pytest.raises(DTypeError, match="x is float32, src is int32"):
        ops.scatter_reduce(x, 0, index, index, "amax")


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "amax", "amin"])
def test_bools_are_combined(reduce: str, include_self: bool, place: Device) -> None:
    data = [True, False, False, True], [0, 0, 2, 3], [True, False, True, False]
    x, index, src = (fw.tensor(each, device=place) for each in data)
    found = ops.scatter_reduce(x, 0, index, src, reduce, include_self=include_self)
    its, at, source = map(torch.tensor, data)
    wanted = its.scatter_reduce(0, at, source, reduce, include_self=include_self)
    assert found.dtype is fw.bool_
    assert found.tolist() == wanted.tolist()


def test_bools_have_no_mean() -> None:
    x = fw.tensor([True, False])
    with pytest.raises(DTypeError) as raised:
        ops.scatter_reduce(x, 0, fw.tensor([0, 0]), x, "mean")
    assert str(raised.value) == "scatter_reduce: x is bool, which has no mean; cast it"
