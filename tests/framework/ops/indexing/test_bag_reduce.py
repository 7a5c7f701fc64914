"""Reductions of bags of rows of a table, beside PyTorch and as on hardware."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.agree import need
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.dtype import DTYPES
from vkbackend.framework.base.errors import IndexRangeError
from vkbackend.framework.kernels import bag_reduce
from vkbackend.framework.nn.functional import embedding_bag

pytestmark = pytest.mark.int64


def drawn(*shape: int) -> np.ndarray:
    """Return small whole numbers that are apart, whose sums are exact."""
    numbers = np.random.default_rng(0).permutation(np.prod(shape)) % 61 - 30
    return numbers.reshape(shape).astype(np.float32)


@pytest.mark.parametrize("width", [520, 35])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_kernels_of_hardware(
    mode: str, dtype: str, width: int, quads: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several segments of quads, or of elements; of bags of any length, and none."""
    need(dtype, quads)
    monkeypatch.setattr(bag_reduce, "SEGMENT", 800)
    data, kind = drawn(29, width), DTYPES[dtype]
    index = np.random.default_rng(1).integers(0, 29, 40)
    starts = np.array([0, 3, 3, 4, 17, 21, 40])
    table = fw.tensor(data, device=quads, dtype=kind, requires_grad=True)
    given = [fw.tensor(each, device=quads) for each in (index, starts)]
    fw.eval(table, *given)
    with fw.profile(quads) as profile:
        found = embedding_bag(given[0], table, given[1], mode=mode)
        fw.eval(found)
    assert [span.name.split()[0] for span in profile.spans] == ["index/bag_reduce"]
    theirs = torch.from_numpy(data).double().requires_grad_()
    places = [torch.from_numpy(each) for each in (index, starts)]
    wanted = torch.nn.functional.embedding_bag(places[0], theirs, places[1], mode=mode)
    right = fw.tensor(wanted.detach().numpy()).to(kind).double().numpy()
    assert np.array_equal(found.detach().cpu().double().numpy(), right)
    seed = drawn(*wanted.shape)
    found.backward(fw.tensor(seed, device=quads, dtype=kind))
    wanted.backward(torch.from_numpy(seed).double())
    assert theirs.grad is not None
    grad = table.grad.cpu().double().numpy()
    near = 0.0
    if mode == "mean":
        near = 1e-2 if dtype == "float16" else 1e-5
    np.testing.assert_allclose(grad, theirs.grad, near, near)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_ends_padding_and_first_of_equals(mode: str, place: Device) -> None:
    """The last offset is an end; NaN is a maximum where it is the first."""
    data = np.array([[1, 1], [1, 2], [3, 0], [np.nan, 1], [-np.inf, 5]], np.float32)
    index = np.array([0, 1, 3, 4, 4, 2, 3, 1, 2])
    starts = np.array([0, 2, 3, 5, 5, 9])
    if mode != "max":
        data[3:] = 7
    options: dict[str, Any] = {"mode": mode, "include_last_offset": True}
    theirs, ours = torch.tensor(data, requires_grad=True), fw.tensor(data, device=place)
    ours.requires_grad_()
    for padding in (None, 2):
        wanted = torch.nn.functional.embedding_bag(
            torch.tensor(index),
            theirs,
            torch.tensor(starts),
            padding_idx=padding,
            **options,
        )
        given = [fw.tensor(each, device=place) for each in (index, starts)]
        found = embedding_bag(given[0], ours, given[1], padding_idx=padding, **options)
        assert_close(found, wanted.detach().numpy())
        seed = np.arange(10, dtype=np.float32).reshape(5, 2)
        theirs.grad = ours.grad = None
        wanted.backward(torch.tensor(seed))
        found.backward(fw.tensor(seed, device=place))
        assert theirs.grad is not None
        assert_close(ours.grad, theirs.grad.numpy())


def test_weighted_rows_and_second_gradients(place: Device) -> None:
    index, starts = np.array([0, 1, 3, 3, 2]), np.array([0, 2, 2])
    data, factors = drawn(5, 3), drawn(5)
    grads = []
    for module, where in ((torch, {}), (fw, {"device": place})):
        make: Any = module.tensor
        table, shares = (make(e, requires_grad=True, **where) for e in (data, factors))
        given = [make(each, **where) for each in (index, starts)]
        out = module.nn.functional.embedding_bag(
            given[0],
            table,
            given[1],
            mode="sum",
            per_sample_weights=shares,
            padding_idx=3,
        )
        grads.append(module.autograd.grad((out**2).sum(), [table, shares]))
    for theirs, ours in zip(*grads):
        assert_close(ours, theirs.numpy())


@pytest.mark.parametrize("mode", ["sum", "max"])
def test_what_is_out_of_range(mode: str, place: Device) -> None:
    table = fw.ones(4, 3, device=place)
    index = fw.tensor([0, 1, 4, 2], device=place)
    starts = fw.tensor([0, 2], device=place)
    with pytest.raises(IndexRangeError, match=r"index 4 .* weight has size 4"):
        embedding_bag(index, table, starts, mode=mode).numpy()
    starts = fw.tensor([0, 3, 1], device=place)
    with pytest.raises(IndexRangeError, match=r"offset 1 .* offsets rise, up to where"):
        embedding_bag(index % 4, table, starts, mode=mode, padding_idx=0).numpy()


@pytest.mark.parametrize("sizes", [(0, 3), (2, 0)])
def test_no_entries(sizes: tuple[int, int], place: Device) -> None:
    table = fw.ones(4, 3, device=place, requires_grad=True)
    index = fw.zeros(*sizes, device=place, dtype=fw.int64)
    for mode in ("sum", "mean", "max"):
        found = embedding_bag(index, table, mode=mode)
        assert found.tolist() == [[0.0] * 3] * sizes[0]
        found.sum().backward()
        assert table.grad is not None
        assert not table.grad.numpy().any()


def test_few_long_bags_are_divided(quads: GpuDevice) -> None:
    table = fw.tensor(drawn(20, 6), device=quads, requires_grad=True)
    index = fw.tensor(np.arange(200) % 20, device=quads)
    with fw.profile(quads) as profile:
        found = embedding_bag(index, table, fw.tensor([0, 150], device=quads))
        fw.eval(found)
    assert "index/bag_reduce" not in {span.name.split()[0] for span in profile.spans}
    rows = drawn(20, 6)[np.arange(200) % 20]
    assert_close(found, np.stack([rows[:150].mean(0), rows[150:].mean(0)]), scale=8)
