"""Reading and writing by index along one dimension, windows, and repeats."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from tests.framework.ops.agree import Row, agree, need
from tests.torch_calls import check
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import DTypeError, ShapeError
from vkbackend.framework.ops.indexing import gather


def places(*shape: int) -> np.ndarray:
    """Return indices from 0 to 3."""
    return np.random.default_rng(1).integers(0, 4, shape)


ORDER = np.argsort(np.random.default_rng(2).random((2, 4, 5)), 1)
NUMBERS = ("float32", "float16", "uint8", "int64")

ROWS = {
    "index_select": Row(
        lambda x, i: ops.index_select(x, 1, i),
        lambda x, i: x.index_select(1, i),
        (3, 4, 5),
        (places(7),),
    ),
    "gather": Row(
        lambda x, i: ops.gather(x, 1, i),
        lambda x, i: x.gather(1, i),
        (3, 4, 6),
        (places(2, 9, 5),),
    ),
    "take_along_dim": Row(
        lambda x, i: ops.take_along_dim(x, i, 1),
        lambda x, i: torch.take_along_dim(x, i, 1),
        (3, 4, 1),
        (3 * places(1, 9, 5) - 4,),  # modulo 4
    ),
    "take_along_dim flat": Row(
        ops.take_along_dim, torch.take_along_dim, (3, 4), (places(3, 2),)
    ),
    "gather of rows": Row(
        lambda x, i: ops.gather(x, 1, i[:, None].expand(2, 9, 5)),
        lambda x, i: x.gather(1, i[:, None].expand(2, 9, 5)),
        (3, 4, 6),
        (places(9),),
    ),
    "gather of rows, a size of 0": Row(
        lambda x, i: ops.gather(x, 0, i[:, None].expand(9, 0)),
        lambda x, i: x.gather(0, i[:, None].expand(9, 0)),
        (4, 6),
        (places(9),),
    ),
    "scatter of rows": Row(
        lambda x, i, s: ops.scatter(x, 1, i[:, None].expand(2, 4, 5), s),
        lambda x, i, s: x.scatter(1, i[:, None].expand(2, 4, 5), s),
        (3, 4, 6),
        (np.array([2, 0, 3, 1]),),
        ((2, 4, 5),),
    ),
    "scatter_add of rows": Row(
        lambda x, i, s: ops.scatter_add(x, 0, i[:, None].expand(9, 5), s),
        lambda x, i, s: x.scatter_add(0, i[:, None].expand(9, 5), s),
        (4, 5),
        (places(9),),
        ((9, 5),),
    ),
    "scatter": Row(
        lambda x, i, s: ops.scatter(x, 1, i, s),
        lambda x, i, s: x.scatter(1, i, s),
        (3, 4, 6),
        (ORDER,),
        ((2, 4, 5),),
    ),
    "scatter a number": Row(
        lambda x, i: ops.scatter(x, 1, i, 1),
        lambda x, i: x.scatter(1, i, 1),
        (3, 4, 6),
        (places(2, 9, 5),),
    ),
    "scatter_add": Row(
        lambda x, i, s: ops.scatter_add(x, 1, i, s),
        lambda x, i, s: x.scatter_add(1, i, s),
        (3, 4, 6),
        (places(2, 9, 5),),
        ((2, 9, 5),),
        NUMBERS,
    ),
    "index_add": Row(
        lambda x, i, s: ops.index_add(x, 1, i, s, alpha=2),
        lambda x, i, s: x.index_add(1, i, s, alpha=2),
        (3, 4, 6),
        (places(9),),
        ((3, 9, 6),),
        NUMBERS,
    ),
    "index_copy": Row(
        lambda x, i, s: ops.index_copy(x, 1, i, s),
        lambda x, i, s: x.index_copy(1, i, s),
        (3, 4, 6),
        (np.array([2, 0]),),
        ((3, 2, 6),),
    ),
    "index_fill": Row(
        lambda x, i: ops.index_fill(x, 1, i, 1),
        lambda x, i: x.index_fill(1, i, 1),
        (3, 4, 6),
        (np.array([2, 0]),),
    ),
    "unfold": Row(
        lambda x: ops.unfold(x, 1, 3, 2), lambda x: x.unfold(1, 3, 2), (3, 9, 2)
    ),
    "repeat_interleave": Row(
        lambda x: ops.repeat_interleave(x, 3, 1),
        lambda x: x.repeat_interleave(3, 1),
        (4, 5),
    ),
    "repeat_interleave each": Row(
        lambda x: ops.repeat_interleave(x, fw.tensor([0, 2, 1, 3]), 0),
        lambda x: x.repeat_interleave(torch.tensor([0, 2, 1, 3]), 0),
        (4, 5),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_as_in_torch(name: str, place: Device) -> None:
    if name == "take_along_dim":
        need("int64", place)  # to broadcast indices of that dtype
    agree(ROWS[name], place)


def test_of_equal_places_the_last_is_written(place: Device) -> None:
    x = fw.zeros(3, device=place, requires_grad=True)
    source = fw.tensor(np.arange(1.0, 5), "float32", place, requires_grad=True)
    index = fw.tensor([1, 0, 1, 1], device=place)
    out = ops.scatter(x, 0, index, source)
    assert out.tolist() == [2, 4, 0]
    (out * fw.tensor([5.0, 6.0, 7.0], device=place)).sum().backward()
    assert x.grad.tolist() == [0, 0, 7]
    # All that name a place get its gradient, as in PyTorch.
    assert source.grad.tolist() == [6, 5, 6, 6]


def test_of_many_equal_places_any_is_written(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a search for the last, unless results must be the same in each run."""
    target = dataclasses.replace(gpu.gpu.info.target, hides_latency=True)
    monkeypatch.setitem(vars(gpu.gpu.info), "target", target)
    monkeypatch.setattr(gather, "ANY_ENTRIES", 300)
    index = np.random.default_rng(0).integers(0, 200, 300)
    source = np.arange(300, dtype=np.float32)
    calls: list[Callable[[fw.Tensor, fw.Tensor, fw.Tensor], fw.Tensor]] = [
        lambda x, i, s: ops.scatter(x, 0, i, s),
        lambda x, i, s: ops.put(x, i, s),
        lambda x, i, s: ops.index_copy(x, 0, i, s),
        lambda x, i, s: ops.index_put(x, (i,), s),
    ]
    x, i, s = (fw.tensor(e, device=gpu) for e in (source[:200] * 0, index, source))
    for deterministic in (False, True):
        fw.use_deterministic_algorithms(deterministic)
        try:
            for call in calls:
                with gpu.gpu.profile() as profile, gpu.fresh_plan_cache():
                    found = call(x, i, s).numpy()
                kernels = {span.name.split()[0] for span in profile.spans}
                assert ("index/last_writer" in kernels) is deterministic
                named = np.isin(np.arange(200), index)
                assert np.array_equal(
                    index[found[named].astype(int)], named.nonzero()[0]
                )
                assert not found[~named].any()
        finally:
            fw.use_deterministic_algorithms(False)


@pytest.mark.parametrize("count", [64, 65, 256, 257, 5000])
@pytest.mark.parametrize("targets", [1, 3, 100])
def test_sums_over_many_chunks(count: int, targets: int, place: Device) -> None:
    index = np.random.default_rng(count).integers(0, targets, count)
    values = np.random.default_rng(targets).integers(-9, 9, (2, count, 3))
    expected = np.zeros((2, targets, 3), np.float32)
    np.add.at(expected, (slice(None), index), values)
    found = ops.index_add(
        fw.zeros((2, targets, 3), device=place),
        1,
        fw.tensor(index, device=place),
        fw.tensor(values.astype(np.float32), device=place),
    )
    assert np.array_equal(found.numpy(), expected)


@pytest.mark.core
def test_sums_are_the_same_in_each_run(gpu: GpuDevice) -> None:
    rng = np.random.default_rng(0)
    index = fw.tensor(rng.integers(0, 7, 3000).astype(np.int32), device=gpu)
    values = fw.tensor(rng.standard_normal(3000).astype(np.float32), device=gpu)
    runs = [
        ops.scatter_add(fw.zeros(7, device=gpu), 0, index, values).numpy()
        for _ in range(3)
    ]
    assert np.array_equal(runs[0], runs[1])
    assert np.array_equal(runs[0], runs[2])


@pytest.mark.core
def test_out_of_range_writes_nothing(gpu: GpuDevice, unchecked_indices: None) -> None:
    x = fw.zeros(3, device=gpu)
    index = fw.tensor(np.array([0, 7, -9, 2], np.int32), device=gpu)
    ones = fw.ones(4, device=gpu)
    assert ops.scatter_add(x, 0, index, ones).tolist() == [1, 0, 1]
    assert ops.scatter(x, 0, index, ones).tolist() == [1, 0, 1]


def test_one_hot(place: Device) -> None:
    need("int64", place)
    x = fw.tensor([[0, 2], [1, 2]], device=place)
    expected = torch.nn.functional.one_hot(torch.tensor([[0, 2], [1, 2]])).numpy()
    assert np.array_equal(ops.one_hot(x).numpy(), expected)
    assert ops.one_hot(x, 5).shape == (2, 2, 5)
    with pytest.raises(ShapeError) as raised:
        ops.one_hot(fw.tensor([-1]), 3)
    assert str(raised.value) == "one_hot: label -1 is out of range: there are 3 classes"
    with pytest.raises(ShapeError, match=r"^one_hot: num_classes is -5; "):
        ops.one_hot(x, -5)
    reduce_empty = fw.zeros(0, dtype=fw.int64, device=place)
    assert ops.one_hot(reduce_empty, 3).shape == (0, 3)
    with pytest.raises(ShapeError, match=r"^one_hot: x of shape \(0,\) has no class"):
        ops.one_hot(reduce_empty)


Call = Callable[[fw.Tensor, fw.Tensor], object]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda x, i: ops.index_select(x, 0, i.reshape(1, 2)),
            ShapeError,
            "index_select: index is (1, 2); it must have one dimension",
        ),
        (
            lambda x, i: ops.gather(x, 0, i),
            ShapeError,
            "gather: index is (2,), x (2, 3); they must have as many dimensions, and"
            " index none larger but dimension 0",
        ),
        (
            lambda x, i: ops.scatter(x, 0, i.expand(2, 2), x[:1]),
            ShapeError,
            "scatter: index is (2, 2), src (1, 3); index must not be larger",
        ),
        (
            lambda x, i: ops.scatter_add(x, 0, i.expand(2, 2), x.int()),
            DTypeError,
            "scatter_add: src is int32, x float32; they must be the same",
        ),
        (
            lambda x, i: ops.index_add(x, 0, i, x[:1]),
            ShapeError,
            "index_add: index is (2,), source (1, 3); index must have one dimension,"
            " and source be (2, 3)",
        ),
        (
            lambda x, i: ops.index_copy(x, 0, i, x.int()),
            DTypeError,
            "index_copy: source is int32, x float32; they must be the same",
        ),
        (
            lambda x, i: ops.take_along_dim(x, i, 0),
            ShapeError,
            "take_along_dim: indices are (2,), x (2, 3); they must have as many"
            " dimensions",
        ),
        (
            lambda x, i: ops.repeat_interleave(x, i, 1),
            ShapeError,
            "repeat_interleave: repeats are [1, 1] for dimension 1 of size 3; one for"
            " all or one for each, at least 0, is possible",
        ),
    ],
)
def test_bad_input(call: Call, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as raised:
        call(fw.ones((2, 3)), fw.ones(2, "int32"))
    assert str(raised.value) == text


def test_bools_are_added_as_in_torch(place: Device) -> None:
    """The sum of bools is whether one of them holds."""
    data = [True, False, False], [0, 0, 2], [True, True, False]
    x, index, src = (fw.tensor(each, device=place) for each in data)
    its, at, source = map(torch.tensor, data)
    assert x.scatter_add(0, index, src).tolist() == (
        its.scatter_add(0, at, source).tolist()
    )
    assert x.index_add(0, index, src).tolist() == its.index_add(0, at, source).tolist()
    assert ops.index_put(x, (index,), src, accumulate=True).tolist() == (
        its.index_put((at,), source, accumulate=True).tolist()
    )
    assert ops.put(x, index, src, accumulate=True).tolist() == (
        its.put(at, source, accumulate=True).tolist()
    )


def test_numbers_that_scatter_takes(place: Device) -> None:
    x = fw.tensor([1.0, 2.0, 3.0], device=place)
    index = fw.tensor([1], device=place)
    values: tuple[Any, ...] = np.float32(-5), np.int64(-5)
    for value in values:
        assert ops.scatter(x, 0, index, value).tolist() == [1, -5, 3]
    values = "1", [1]
    for value in values:
        with pytest.raises(TypeError, match=r"^scatter: .* is no operand"):
            ops.scatter(x, 0, index, value)
    with pytest.raises(TypeError, match="src and value are both missing"):
        ops.scatter(x, 0, index, None)


# A tensor without dimensions takes the dimension that one of one element has.
SCALARS = """\
T.tensor(2.).sum(0, keepdim=True)
T.tensor(2.).mean(-1)
T.tensor(2.).prod(0)
T.tensor(2.).amax(0)
T.tensor(2.).argmax(0)
T.tensor(2.).all(0)
T.tensor(2.).logsumexp(0)
T.tensor(2.).norm(2, 0)
T.tensor(2.).squeeze(0)
T.tensor(2.).flip(0)
T.tensor(2.).transpose(0, -1)
T.tensor(2.).movedim(0, 0)
T.tensor(2.).unfold(0, 1, 1)
T.tensor(2.).index_select(0, T.tensor(0))
T.tensor(2.).gather(0, T.tensor([0, 0]))
T.tensor(2.).scatter(0, T.tensor(0), T.tensor(3.))
T.tensor(2.).scatter_add(0, T.tensor([0, 0]), T.tensor([3., 4.]))
T.tensor(2.).scatter_reduce(0, T.tensor(0), T.tensor(3.), 'prod')
T.tensor(2.).index_add(0, T.tensor(0), T.tensor(3.))
T.tensor(2.).index_copy(0, T.tensor(0), T.tensor(3.))
T.tensor(2.).index_fill(0, T.tensor(0), 3.)
T.nn.functional.cosine_similarity(T.tensor(2.), T.tensor(3.), dim=0)
""".splitlines()


def test_no_dimensions(device: vkbackend.Device) -> None:
    for call in SCALARS:
        check(call)
    for call in SCALARS[::5]:
        check(call, fw.device(device.name))


@pytest.mark.device
@pytest.mark.parametrize("dtype", ["f4", "f2", "f8", "u1", "i2", "i8"])
@pytest.mark.parametrize("shape", [(16, 8), (5, 6, 12), (9,), (33, 7)])
@pytest.mark.parametrize("fixture", ["gpu", "quads"])
def test_one_number_for_all(
    shape: tuple[int, ...], dtype: str, fixture: str, request: pytest.FixtureRequest
) -> None:
    device, rng = request.getfixturevalue(fixture), np.random.default_rng(0)
    need(np.dtype(dtype).name, device)
    data = rng.integers(0, 99, math.prod(shape) + 1).astype(dtype)
    # The second does not begin with its memory.
    for start in (0, 1):
        own = data[start : start + math.prod(shape)].reshape(shape)
        x = fw.tensor(data, device=device)[start : start + own.size].reshape(shape)
        for dim, size in enumerate(shape):
            rows, each = rng.integers(-size, size, 5), rng.integers(0, size, shape)
            found = x.index_fill(dim, fw.tensor(rows, device=device), 7)
            right = torch.from_numpy(own).index_fill(dim, torch.from_numpy(rows), 7)
            assert np.array_equal(found.numpy(), right.numpy())
            found = x.scatter(dim, fw.tensor(each, device=device), 7)
            right = torch.from_numpy(own).scatter(dim, torch.from_numpy(each), 7)
            assert np.array_equal(found.numpy(), right.numpy())


def test_an_index_that_repeats_names_rows(gpu: GpuDevice) -> None:
    """One index is read for each row, and none is copied."""
    x = fw.tensor(np.arange(24, dtype=np.float32).reshape(4, 6), device=gpu)
    index = fw.tensor([3, 0], device=gpu)[:, None].expand(2, 6)
    fw.eval(x, index)
    before = gpu.gpu.counters.dispatches
    rows = fw.gather(x, 0, index)
    fw.eval(rows)
    assert gpu.gpu.counters.dispatches == before + 1
    assert rows.tolist() == [[18, 19, 20, 21, 22, 23], [0, 1, 2, 3, 4, 5]]
    bad = fw.tensor([4], device=gpu)[:, None].expand(1, 6)
    with pytest.raises(IndexError, match=r"gather: index 4 .* dimension 0 has size 4"):
        fw.gather(x, 0, bad).tolist()


def test_what_may_be_stored_in_any_order(gpu: GpuDevice) -> None:
    """Gradients of sorted elements go to a place each."""
    x = fw.rand(7, 50, device=gpu, requires_grad=True)
    index = fw.tensor([0, 3], device=gpu)
    sorted_ = x.sort(1).values
    fw.eval(x, index, sorted_)
    calls: tuple[Callable[[], object], ...] = (
        lambda: x.detach().index_fill(0, index, 2.0),
        lambda: sorted_.sum().backward(),
    )
    for call in calls:
        with gpu.gpu.profile() as profile:
            found = call()
            fw.eval()
        kernels = {span.name.split()[0] for span in profile.spans}
        assert "index/store_rows" in kernels
        assert not {"index/last_writer", "index/gather"} & kernels
        del found
