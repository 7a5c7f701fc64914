"""Rows that invocations reduce by index, a column each, against PyTorch."""

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.agree import need
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import DTYPES
from vkbackend.framework.base.errors import IndexRangeError
from vkbackend.framework.kernels import column_reduce
from vkbackend.framework.ops.indexing.scatter_reduce import MODES

KERNEL = "index/column_reduce"


@pytest.fixture
def columns(quads: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> GpuDevice:
    """Return the device, with kernels as for hardware, to which columns are many."""
    monkeypatch.setattr(column_reduce, "LEAST_COLUMNS", 0)
    return quads


def drawn(dtype: str, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Return small whole numbers, whose sums and products are exact."""
    rng = np.random.default_rng(0)
    return [rng.integers(1, 3, shape).astype(dtype) for shape in shapes]


@pytest.mark.filterwarnings("ignore:scatter_reduce:UserWarning")
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int64", "float64"])
@pytest.mark.parametrize("mode", MODES)
def test_as_in_torch(
    mode: str, dtype: str, include_self: bool, columns: GpuDevice
) -> None:
    """In one kernel, but for means of integers, and of dtypes as they are."""
    need(dtype, columns)
    base, source = drawn(dtype, (3, 9, 130), (3, 19, 130))
    index = np.random.default_rng(1).integers(0, 8, source.shape)
    theirs, at, src = (torch.from_numpy(each) for each in (base, index, source))
    expected = theirs.scatter_reduce(1, at, src, mode, include_self=include_self)
    x, places, given = (
        fw.tensor(each, device=columns) for each in (base, index, source)
    )
    with fw.profile(columns) as profile:
        found = x.scatter_reduce(1, places, given, mode, include_self=include_self)
        fw.eval(found)
    names = [span.name.split()[0] for span in profile.spans]
    assert KERNEL in names
    assert len(names) == 1 or (mode == "mean" and DTYPES[dtype].kind == "int")
    assert_close(found, expected.numpy(), scale=1)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_gradients(mode: str, include_self: bool, columns: GpuDevice) -> None:
    base, source = drawn("float32", (9, 257), (19, 257))
    if not include_self:
        base += 0.5  # PyTorch shares with a place's own element if it is equal.
    index = np.random.default_rng(1).integers(0, 8, source.shape)
    theirs = [torch.tensor(each, requires_grad=True) for each in (base, source)]
    ours = [
        fw.tensor(each, device=columns, requires_grad=True) for each in (base, source)
    ]
    weights = np.random.default_rng(2).standard_normal(base.shape).astype(np.float32)
    theirs[0].scatter_reduce(
        0, torch.tensor(index), theirs[1], mode, include_self=include_self
    ).backward(torch.tensor(weights))
    places = fw.tensor(index, device=columns)
    found = fw.scatter_reduce(
        ours[0], 0, places, ours[1], mode, include_self=include_self
    )
    found.backward(fw.tensor(weights, device=columns))
    for mine, other in zip(ours, theirs):
        assert other.grad is not None
        assert_close(mine.grad, other.grad.numpy(), scale=4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("each", [True, False])
def test_gathers_and_their_gradients(
    each: bool, dtype: str, columns: GpuDevice
) -> None:
    """Of an index for each element, and of one for each row."""
    need(dtype, columns)
    rng = np.random.default_rng(0)
    base, source = drawn("float32", (5, 300), (11, 300))
    index = rng.integers(0, 5, source.shape if each else (11,))
    places, kind = fw.tensor(index, device=columns, dtype=fw.int32), DTYPES[dtype]
    x, given = (fw.tensor(n, device=columns, dtype=kind) for n in (base, source))
    fw.eval(x, places, given)
    with fw.profile(columns) as profile:
        add = x.scatter_add if each else x.index_add
        found = add(0, places, given)
        fw.eval(found)
    assert [span.name.split()[0] for span in profile.spans] == [KERNEL]
    right = base.copy()
    np.add.at(right, (index, np.arange(300)) if each else index, source)
    assert np.array_equal(found.cpu().float().numpy(), right)
    if not kind.is_float:
        return
    x.requires_grad_()
    (x.gather(0, places) if each else x.index_select(0, places)).backward(given)
    assert np.array_equal(x.grad.cpu().float().numpy(), right - base)


def test_nan_and_rounding(columns: GpuDevice) -> None:
    """NaN is either extreme; means of float32 are rounded once."""
    source = np.random.default_rng(0).standard_normal((7, 140)).astype(np.float32)
    index = np.zeros((7, 140), np.int64)
    x, places = fw.zeros(3, 140, device=columns), fw.tensor(index, device=columns)
    found = x.scatter_reduce(0, places, fw.tensor(source, device=columns), "mean")
    total = np.add.accumulate(source, 0)[-1]
    assert np.array_equal(found.numpy()[0], total / np.float32(8))
    source[3] = np.nan
    for mode in ("amax", "amin"):
        found = x.scatter_reduce(0, places, fw.tensor(source, device=columns), mode)
        assert np.isnan(found.numpy()).sum() == 140


def test_no_row(columns: GpuDevice) -> None:
    x, source = fw.zeros(4, 150, device=columns), fw.ones(6, 150, device=columns)
    index = fw.zeros(6, 150, device=columns, dtype=fw.int64)
    index[5, 149] = 4
    with pytest.raises(IndexRangeError, match="4"):
        x.scatter_add(0, index, source).numpy()
