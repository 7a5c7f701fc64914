"""Views: what shares memory, what is copied, and indexing as NumPy has it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.agree import Row, agree
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import ShapeError

Make = Callable[..., fw.Tensor]
DATA = np.arange(105, dtype=np.float32).reshape(3, 5, 7)

VIEWS: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: x.reshape(15, 7),
    "permute": lambda x: x.T,
    "slice": lambda x: x[1:, ::2, 3],
    "new dimension": lambda x: x[:, None],
    "reshape of a slice": lambda x: x[:, :, 2:5].reshape(15, 3),
    "single rows": lambda x: x[:, 1:2].reshape(3, 7),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_share_memory(name: str, make: Make) -> None:
    x = make(DATA)
    view = VIEWS[name](x)
    assert view.array is x.array
    assert_close(view, VIEWS[name](DATA))


def test_what_cannot_be_a_view_is_copied(make: Make) -> None:
    x = make(DATA)
    flat = x.T.reshape(105)
    assert flat.array is not x.array
    assert_close(flat, DATA.T.ravel())
    assert_close(x[:, ::2].reshape(9, 7), DATA[:, ::2].reshape(9, 7))


@pytest.mark.parametrize("name", VIEWS)
def test_gradients_go_back_to_their_place(name: str, make: Make) -> None:
    x = make(DATA, grad=True)
    view = VIEWS[name](x)
    weights = np.arange(view.numel(), dtype=np.float32).reshape(view.shape)
    view.backward(make(weights))
    places = VIEWS[name](np.arange(105).reshape(3, 5, 7)).ravel()
    expected = np.zeros(105, np.float32)
    expected[places] = weights.ravel()
    assert_close(x.grad, expected.reshape(3, 5, 7), exact=True)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_gradient_of_a_slice_in_other_dtypes(dtype: str) -> None:
    x = fw.tensor(np.ones((3, 5)), dtype, requires_grad=True)
    x[1:, ::2].sum().backward()
    assert x.grad.tolist() == [[0] * 5] + [[1, 0, 1, 0, 1]] * 2


def test_reshape_infers_one_size(make: Make) -> None:
    x = make(DATA)
    assert x.reshape(-1).shape == (105,)
    assert x.reshape(5, -1, 3).shape == (5, 7, 3)
    assert make(np.zeros((0, 3), np.float32)).reshape(0, 3, 1).shape == (0, 3, 1)
    for shape in ((-1, -1), (4, -1), (-1, 0), (-2,), (106,)):
        with pytest.raises(ShapeError, match=r"^reshape: \(3, 5, 7\) has 105 elements"):
            x.reshape(shape)


def test_flatten(make: Make) -> None:
    x = make(DATA)
    assert ops.flatten(x).shape == (105,)
    assert ops.flatten(x, 1).shape == (3, 35)
    assert ops.flatten(x, 0, -2).shape == (15, 7)
    assert ops.flatten(make(1.0)).shape == (1,)
    with pytest.raises(ShapeError) as raised:
        ops.flatten(x, 2, 1)
    assert str(raised.value) == "flatten: start_dim 2 comes after end_dim 1"


@pytest.mark.parametrize("shape", [(-1, 1, 5, 7), (2, -3, 5, 7), (-2, 5, 7)])
def test_expand_to_a_negative_size(shape: tuple[int, ...], make: Make) -> None:
    x = make(DATA[:1])
    with pytest.raises(ShapeError, match="expand: "):
        x.expand(shape)
    with pytest.raises(ShapeError, match="expand: "):
        x.sum().expand(-1)


def test_expand(make: Make) -> None:
    x = make(DATA[:1])
    assert x.expand(3, -1, 7).shape == (3, 5, 7)
    assert x.expand(1, 5, 7) is not x
    assert_close(x.expand(2, 3, 5, 7), np.broadcast_to(DATA[:1], (2, 3, 5, 7)))
    y = make([[1.0], [2.0]], grad=True)
    y.expand(4, 2, 3).sum().backward()
    assert y.grad.tolist() == [[12], [12]]


@pytest.mark.core
def test_views_take_no_dispatch(gpu: GpuDevice) -> None:
    x = fw.tensor(DATA, device=gpu)
    before = gpu.gpu.counters.snapshot()
    for view in VIEWS.values():
        view(x).numpy()
    assert (gpu.gpu.counters - before).dispatches == 0


@pytest.mark.core
def test_move(gpu: GpuDevice) -> None:
    x = fw.tensor(DATA).T
    moved = x.to(gpu)
    assert moved.device is gpu
    assert_close(moved, DATA.T)
    assert_close(moved.cpu(), DATA.T)


ROWS = {
    "unflatten": Row(
        lambda x: ops.unflatten(x, 1, (2, -1)),
        lambda x: x.unflatten(1, (2, -1)),
        (3, 6),
    ),
    "squeeze": Row(ops.squeeze, lambda x: x.squeeze(), (3, 1, 5, 1)),
    "squeeze some": Row(
        lambda x: ops.squeeze(x, (1, 2)), lambda x: x.squeeze((1, 2)), (3, 1, 5, 1)
    ),
    "unsqueeze": Row(lambda x: ops.unsqueeze(x, -2), lambda x: x.unsqueeze(-2), (3, 5)),
    "movedim": Row(
        lambda x: ops.movedim(x, (0, -1), (2, 0)),
        lambda x: x.movedim((0, -1), (2, 0)),
        (3, 4, 5, 2),
    ),
    "t": Row(ops.t, lambda x: x.t(), (3, 5)),
    "movedim of one": Row(
        lambda x: ops.movedim(x, 0, -1), lambda x: x.movedim(0, -1), (3, 4, 5)
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_as_in_torch(name: str, place: Device) -> None:
    agree(ROWS[name], place)


def test_bad_dimensions() -> None:
    x = fw.ones((2, 6))
    with pytest.raises(ShapeError) as raised:
        ops.unflatten(x, 1, (4, -1))
    assert str(raised.value) == (
        "unflatten: dimension 1 has size 6; (4, -1) does not multiply to that"
    )
    with pytest.raises(ShapeError) as raised:
        ops.movedim(x, (0, 1), (0,))
    assert str(raised.value) == (
        "movedim: source is (0, 1), destination (0,); they must name as many"
        " dimensions, each once"
    )


def test_t_of_more_than_a_matrix() -> None:
    with pytest.raises(ShapeError) as raised:
        ops.t(fw.ones((2, 3, 4)))
    assert str(raised.value) == (
        "t: x is (2, 3, 4); it must have at most 2 dimensions; use transpose or mT"
    )
