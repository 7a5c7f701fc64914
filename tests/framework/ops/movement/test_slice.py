"""Parts of a tensor: views of them, and tensors with a part replaced."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.ops.agree import Row, agree
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import DTypeError, ShapeError
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ops.movement.slice import strided_scatter

ROWS = {
    "narrow": Row(
        lambda x: ops.narrow(x, 1, -3, 2), lambda x: x.narrow(1, -3, 2), (3, 4, 5)
    ),
    "select": Row(lambda x: ops.select(x, 1, -2), lambda x: x.select(1, -2), (3, 4, 5)),
    "unbind": Row(lambda x: ops.unbind(x, 1)[2], lambda x: x.unbind(1)[2], (3, 4, 5)),
    "split": Row(lambda x: ops.split(x, 3, 1)[2], lambda x: x.split(3, 1)[2], (3, 8)),
    "split by sizes": Row(
        lambda x: ops.split(x, [1, 4, 3], -1)[1],
        lambda x: x.split([1, 4, 3], -1)[1],
        (3, 8),
    ),
    "chunk": Row(lambda x: ops.chunk(x, 3, 1)[2], lambda x: x.chunk(3, 1)[2], (3, 8)),
    "tensor_split": Row(
        lambda x: ops.tensor_split(x, 3, 1)[1],
        lambda x: x.tensor_split(3, 1)[1],
        (3, 8),
    ),
    "tensor_split at": Row(
        lambda x: ops.tensor_split(x, [2, -1], 1)[1],
        lambda x: x.tensor_split([2, -1], 1)[1],
        (3, 8),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_as_in_torch(name: str, place: Device) -> None:
    agree(ROWS[name], place)


def test_parts_are_views(place: Device) -> None:
    x = fw.zeros((4, 6), device=place)
    for part in (*ops.split(x, 4, 1), *ops.chunk(x, 3), *ops.unbind(x, 1)):
        assert part.array is x.array
    ops.chunk(x, 2, 1)[1].fill_(1)
    assert x.numpy().sum(0).tolist() == [0, 0, 0, 4, 4, 4]


@pytest.mark.parametrize("sizes", [(0, 3), (3, 0)])
def test_parts_of_nothing(sizes: tuple[int, int]) -> None:
    x = fw.zeros(sizes)
    assert ops.split(x, 2)[0].shape[1] == sizes[1]
    assert len(ops.chunk(x, 2)) == 2
    assert len(ops.tensor_split(x, 2)) == 2


Ones = Callable[..., fw.Tensor]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda x: ops.narrow(x, 1, 2, 2),
            "narrow: 2 elements from 2 on are not within dimension 1, which has size 3",
        ),
        (
            lambda x: ops.select(x, 0, 2),
            "select: 2 is out of range: dimension 0 has size 2",
        ),
        (
            lambda x: ops.split(x, [1, 1], 1),
            "split: sizes [1, 1] do not add up to 3, the size of dimension 1",
        ),
        (lambda x: ops.split(x, 0), "split: split_size is 0; it must be at least 1"),
        (lambda x: ops.chunk(x, 0), "chunk: chunks is 0; it must be at least 1"),
        (
            lambda x: ops.tensor_split(x, 0),
            "tensor_split: 0 parts; at least 1 is possible",
        ),
    ],
)
def test_bad_input(call: Callable[[fw.Tensor], object], text: str) -> None:
    with pytest.raises(ShapeError) as raised:
        call(fw.ones((2, 3)))
    assert str(raised.value) == text


def test_place_in_many_dimensions(place: Device) -> None:
    data = np.arange(4.0**6, dtype=np.float32).reshape((4,) * 6)
    x = fw.tensor(data, device=place)
    x[1:3, ::2, 1:, ::3, :2, 1::2] = -1
    data[1:3, ::2, 1:, ::3, :2, 1::2] = -1
    assert np.array_equal(x.numpy(), data)


def test_place_joins_dimensions(place: Device) -> None:
    x = fw.zeros((2,) * 8, device=place)
    x[0] = 1
    assert x.numpy().sum() == 128


def test_place_needs_one_dtype() -> None:
    with pytest.raises(DTypeError) as raised:
        ops.strided_scatter(fw.ones(4), fw.ones(2, "int32"), Layout((2,), (1,), 0))
    assert str(raised.value) == (
        "strided_scatter: base is float32 and source int32; they must be the same"
    )


def test_place_in_too_many_dimensions() -> None:
    x = fw.zeros((3,) * 7)
    with pytest.raises(ShapeError) as raised:
        x[(slice(0, 3, 2),) * 7] = 1
    assert str(raised.value) == (
        "strided_scatter: the region has 7 dimensions; at most 6 are possible"
    )


EMPTY: dict[str, Callable[[fw.Tensor], fw.Tensor]] = {
    "roll": lambda x: x[1:1].roll(1, 0),
    "roll of columns": lambda x: x[:, 2:2].roll(2),
    "diagonal": lambda x: ops.diagonal(x[:, 0:0], 1),
    "index_select": lambda x: x[:, 0:0].index_select(0, fw.arange(2, device=x.device)),
    "take_along_dim": lambda x: ops.take_along_dim(x[0:0], x[0:0].argsort(1), 1),
    "row": lambda x: x[2:2, 1] * 2,
    "flip": lambda x: x[1:1].flip(0),
    "repeat": lambda x: x[0:0].repeat(2, 2),
    "sort": lambda x: x[0:0].sort(1)[0],
    "tril": lambda x: x[0:0].tril(),
    "matmul": lambda x: x[:, 0:0] @ x[:, 0:0].mT,
    "softmax": lambda x: x[0:0].softmax(1),
    "cat": lambda x: ops.cat([x[0:0], x[3:3]]),
}


@pytest.mark.parametrize("name", EMPTY)
def test_gradients_of_empty_slices(name: str, place: Device) -> None:
    x = fw.ones((3, 4), device=place, requires_grad=True)
    EMPTY[name](x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[0.0] * 4] * 3


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
def test_the_rest_of_a_base_is_not_written(dtype: str, gpu: GpuDevice) -> None:
    """Where its memory becomes the result's."""
    if dtype == "float16" and not gpu.gpu.info.storage_16bit:
        pytest.skip("the device stores whole words")
    x = fw.zeros(1 << 12, dtype=dtype, device=gpu)
    fw.eval(x)
    kernels = _kernels(gpu, lambda: x.__setitem__(7, 1))
    assert "copy/scatter_elements" in kernels
    assert not COPIES & {*kernels}
    assert x[5:9].tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
def test_regions_of_several_dimensions(dtype: str, gpu: GpuDevice) -> None:
    data = np.arange(3 * 5 * 4 * 7 * 3).reshape(3, 5, 4, 7, 3)
    x = fw.tensor(data, dtype=dtype, device=gpu)
    for at in (
        np.s_[:, ::2, 1, ::3, 1:],
        np.s_[1:, 3:, ::3, 2:5, ::2],
        np.s_[..., 0],
        np.s_[2, 1::2],
    ):
        source = -data[at] - 1
        x[at] = fw.tensor(source, dtype=dtype, device=gpu)
        data[at] = source
        np.testing.assert_array_equal(x.cpu().numpy(), data)


COPIES = {"copy/words", "copy/rows"}


def _kernels(gpu: GpuDevice, call: Callable[[], object]) -> list[str]:
    with gpu.gpu.profile() as profile:
        found = call()
        fw.eval()
    del found
    return [span.name.split()[0] for span in profile.spans]


def test_no_copy_of_what_the_graph_makes(gpu: GpuDevice) -> None:
    x, source = fw.rand(64, 64, device=gpu), fw.rand(64, device=gpu)
    fw.eval(x, source)

    def launches(call: Callable[[], object]) -> int:
        return len(_kernels(gpu, call))

    assert launches(lambda: ops.select_scatter(x + 1, source, 0, 3)) == 2
    assert launches(lambda: ops.diag_embed(source)) == 2
    # What else is read, or kept, stays as it is.
    assert launches(lambda: ops.select_scatter(x, source, 0, 3)) == 2

    def kept() -> tuple[fw.Tensor, fw.Tensor]:
        base = x + 1
        return base, ops.select_scatter(base, source, 0, 3)

    assert launches(kept) == 3
    for call in (kept, fw.jit(kept)):
        for _ in range(3):
            base, found = call()
            assert np.array_equal(base.numpy(), x.numpy() + 1)
            assert np.array_equal(found[3].numpy(), source.numpy())
            assert np.array_equal(found[4:].numpy(), x[4:].numpy() + 1)


def _chain(x: Any, source: Any, take: Any) -> tuple[Any, ...]:
    """Return results of changes to intermediates, some of which are read again."""
    first = x * 2
    second = take.slice_scatter(first, first[:32] * 3, 0, 0, 32)
    third = take.select_scatter(second, source, 1, 3)
    fourth = take.select_scatter(third, x[0], 0, 5)
    return first, second, third, fourth, take.diag_embed(fourth[0]), first + 1


@pytest.mark.parametrize("kept", range(1, 64, 3))
def test_chains_of_changes(kept: int, gpu: GpuDevice) -> None:
    def chosen(x: fw.Tensor, source: fw.Tensor) -> list[fw.Tensor]:
        found = _chain(x, source, ops)
        return [each for at, each in enumerate(found) if kept >> at & 1]

    data = np.random.default_rng(0).standard_normal((65, 64)).astype(np.float32)
    x, source = fw.tensor(data[:64], device=gpu), fw.tensor(data[64], device=gpu)
    given = torch.from_numpy(data[:64]), torch.from_numpy(data[64])
    wanted = [each for at, each in enumerate(_chain(*given, torch)) if kept >> at & 1]
    replayed = fw.jit(chosen)
    for call in (chosen, replayed, replayed, replayed):
        for found, right in zip(call(x, source), wanted, strict=True):
            assert np.array_equal(found.numpy(), right.numpy())


REGIONS: dict[str, tuple[tuple[int, ...], Callable[[Any], Any]]] = {
    "vectors": ((64, 64), lambda x: x[:, 16:48]),
    "odd start": ((64, 64), lambda x: x[:, 1:33]),
    "odd rows": ((63, 61), lambda x: x[2:40, 3:50]),
    "one run": ((64, 64), lambda x: x[8:24]),
    "steps": ((16, 64), lambda x: x[::3, ::2]),
    "column": ((40, 8), lambda x: x[:, 3]),
    "batched": ((4, 6, 8, 16), lambda x: x[1:3, :, 2:4, 4:12]),
    "one": ((5,), lambda x: x[4:5]),
}


@pytest.mark.device
@pytest.mark.parametrize("dtype", ["f4", "f2", "f8", "u1", "i2", "i8", "c8"])
@pytest.mark.parametrize("name", REGIONS)
@pytest.mark.parametrize("fixture", ["gpu", "quads"])
def test_regions(
    name: str, dtype: str, fixture: str, request: pytest.FixtureRequest
) -> None:
    device = request.getfixturevalue(fixture)
    shape, region = REGIONS[name]
    data = np.random.default_rng(0).integers(0, 99, (2, *shape)).astype(dtype)
    layout = region(fw.zeros(*shape, device="cpu")).layout
    part = np.ascontiguousarray(region(data[1]))
    right = data[0].copy()
    region(right)[...] = part
    # Also of a base and a source that do not begin with their memory.
    for start in (0, 1):
        base, source = (
            fw.tensor(np.append(np.zeros(start, dtype), each), device=device)
            for each in (data[0], part)
        )
        given = base[start:].reshape(shape), source[start:].reshape(part.shape)
        assert np.array_equal(strided_scatter(*given, layout).numpy(), right)
