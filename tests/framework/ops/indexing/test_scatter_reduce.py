"""Scattered elements that are combined, against PyTorch."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.agree import host_reads, need
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device, GpuDevice
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


@pytest.fixture(params=[False, True])
def fixed_order(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Let products of floats be combined by atomics, then in order."""
    fw.use_deterministic_algorithms(request.param)
    yield request.param
    fw.use_deterministic_algorithms(False)


CALLS = (((40, 7), (90, 7), (90, 7), 0), ((5, 300), (5, 40), (6, 50), 1))
CALLS += (((4, 50, 3), (3, 70, 2), (4, 80, 3), 1), ((9,), (4000,), (4000,), 0))


@pytest.mark.filterwarnings("ignore:scatter_reduce:UserWarning")
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4", "i8", "u1", "i1"])
@pytest.mark.parametrize("mode", ["amax", "amin", "prod"])
def test_special_numbers_and_shapes(
    mode: str, dtype: str, include_self: bool, place: Device, fixed_order: bool
) -> None:
    need(np.dtype(dtype).name, place)
    rng = np.random.default_rng(0)
    for *shapes, dim in CALLS:
        x, index, src = (rng.integers(0, 3, shape) for shape in shapes)
        data = [x.astype(dtype), src.astype(dtype)]
        if mode != "prod":
            data = [each - np.array(1, dtype) for each in data]
        if data[0].dtype.kind == "f" and mode != "prod":
            for each in data:
                each.flat[::37], each.flat[1::41] = np.nan, -np.nan
                each.flat[::11], each.flat[3::53] = -np.inf, np.inf
        index = index + rng.integers(0, x.shape[dim] - 2, index.shape)
        keywords = {"include_self": include_self}
        given = (torch.from_numpy(each) for each in (index, data[1]))
        wanted = torch.from_numpy(data[0]).scatter_reduce(dim, *given, mode, **keywords)
        ours = (fw.tensor(each, device=place) for each in (index, data[1]))
        found = ops.scatter_reduce(
            fw.tensor(data[0], device=place), dim, *ours, mode, **keywords
        )
        assert_close(found, wanted.numpy())


@pytest.mark.filterwarnings("ignore:index_reduce:UserWarning")
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("mode", ["prod", "mean", "amax", "amin"])
def test_rows_and_their_gradients(
    mode: str, include_self: bool, place: Device, fixed_order: bool
) -> None:
    rng = np.random.default_rng(0)
    least = 0 if mode == "prod" else -4
    x, src = (rng.integers(least, 5, (n, 5)).astype(np.float32) for n in (6, 12))
    x += 0 if include_self else 0.5  # PyTorch shares with equal elements otherwise
    index, grad = rng.integers(0, 6, 12), rng.standard_normal((6, 5)).astype("f4")
    theirs = [torch.tensor(each, requires_grad=True) for each in (x, src)]
    ours = [fw.tensor(each, device=place, requires_grad=True) for each in (x, src)]
    keywords = {"include_self": include_self}
    wanted = theirs[0].index_reduce(
        0, torch.from_numpy(index), theirs[1], mode, **keywords
    )
    wanted.backward(torch.from_numpy(grad))
    found = ops.index_reduce(
        ours[0], 0, fw.tensor(index, device=place), ours[1], mode, **keywords
    )
    found.backward(fw.tensor(grad, device=place))
    assert_close(found, wanted.detach().numpy(), scale=2)
    for mine, other in zip(ours, theirs):
        assert other.grad is not None
        assert_close(mine.grad, other.grad.numpy(), scale=8)  # quotients of products


def test_second_derivatives_of_products_with_zeros(
    place: Device, fixed_order: bool
) -> None:
    rng = np.random.default_rng(1)
    data = [rng.integers(0, 3, (n, 2)).astype(np.float32) for n in (3, 8)]
    index = rng.integers(0, 3, (8, 2))

    def multiplied(x: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
        found = []
        for row, column in np.ndindex(3, 2):
            factors = src[torch.from_numpy(index[:, column] == row), column]
            found.append(x[row, column] * factors.prod())
        return torch.stack(found).reshape(3, 2)

    x, src = (torch.tensor(each, requires_grad=True) for each in data)
    out = multiplied(x, src)
    grads = torch.autograd.grad((out**2).sum() + out.sum(), (x, src), create_graph=True)
    right = torch.autograd.grad(sum((each**2).sum() for each in grads), (x, src))
    a, b = (fw.tensor(each, device=place, requires_grad=True) for each in data)
    ours = ops.scatter_reduce(a, 0, fw.tensor(index, device=place), b, "prod")
    ours = (ours**2).sum() + ours.sum()
    found = fw.autograd.grad(ours, (a, b), create_graph=True)
    twice = fw.autograd.grad(sum((each**2).sum() for each in found), (a, b))
    for mine, other in zip((*found, *twice), (*grads, *right), strict=True):
        assert_close(mine, other.detach().numpy(), scale=8)  # sums of such products


def test_extremes_by_atomics(gpu: GpuDevice) -> None:
    x, index = fw.rand(64, 8, device=gpu), fw.randint(0, 64, (64, 8), device=gpu)
    fw.eval(x, index)
    with gpu.gpu.profile() as profile:
        found = ops.scatter_reduce(x, 0, index, x, "amax")
        fw.eval()
    names = [span.name.split()[0] for span in profile.spans]
    assert names == ["index/atomic_reduce"] * 2
    del found
