"""Views that are found by their calls: the second call is like the first."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.dispatch.view_cache import caches_views, uncached

DATA = np.arange(24, dtype=np.float32).reshape(4, 6)

CALLS: dict[str, Callable[[Any], Any]] = {
    "transpose": lambda x: x.transpose(0, -1),
    "keywords": lambda x: fw.transpose(x, dim0=1, dim1=0),
    "permute": lambda x: x.permute(1, 0),
    "t": lambda x: fw.t(x),
    "T": lambda x: x.T,
    "view": lambda x: x.view(2, -1),
    "reshape": lambda x: x.reshape(6, 4),
    "the same shape": lambda x: x.reshape(4, 6),
    "ravel": lambda x: fw.ravel(x),
    "flatten": lambda x: x.flatten(),
    "squeeze": lambda x: x[:1].squeeze(),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "movedim": lambda x: fw.movedim(x, 0, 1),
    "expand": lambda x: x[:, :1].expand(4, 3),
    "narrow": lambda x: x.narrow(1, 2, 3),
    "as_strided": lambda x: x.as_strided((2, 3), (7, 2), 1),
    "meshgrid": lambda x: fw.meshgrid(x[0], x[0, 1:3], indexing="xy")[1],
    "select": lambda x: x.select(0, -1),
    "diagonal": lambda x: x.diagonal(1),
    "unfold": lambda x: x.unfold(1, 3, 3),
    "an int": lambda x: x[-1],
    "slices": lambda x: x[1:, ::2],
    "a new dimension": lambda x: x[None, ..., 1],
}
SEVERAL: dict[str, Callable[[Any], Any]] = {
    "split": lambda x: x.split(3, dim=1),
    "sizes": lambda x: fw.split_with_sizes(x, [1, 3]),
    "chunk": lambda x: x.chunk(3, 1),
    "unbind": lambda x: x.unbind(1),
    "tensor_split": lambda x: fw.tensor_split(x, (1, 2), 1),
    "hsplit": lambda x: fw.hsplit(x, 2),
}


@pytest.mark.parametrize("name", [*CALLS, *SEVERAL])
def test_the_next_calls_are_like_the_first(name: str, place: Device) -> None:
    call = CALLS.get(name) or SEVERAL[name]
    wanted = None
    for _ in range(3):
        x = fw.tensor(DATA, device=place)
        found = call(x)
        several = found if isinstance(found, tuple) else (found,)
        assert (type(found) is tuple) == (name in SEVERAL)
        numbers = [each.tolist() for each in several]
        assert numbers == (wanted or numbers)
        wanted = numbers
        assert len({id(each) for each in (x, *several)}) == 1 + len(several)
        # What changes in one of them changes in the others.
        several[0].fill_(-1)
        x[-1] = 7
        again = call(fw.tensor(x.numpy(), device=place))
        again = again if isinstance(again, tuple) else (again,)
        assert [each.tolist() for each in several] == [each.tolist() for each in again]


def shown(node: Any) -> Any:
    """Return the names of what the graph shows from a node on."""
    if node is None:
        return None
    return node.name(), [shown(each) for each, _ in node.next_functions]


@pytest.mark.parametrize("name", [*CALLS, *SEVERAL])
def test_tape_entries_of_the_next_calls_are_those_of_the_first(
    name: str, place: Device
) -> None:
    call = CALLS.get(name) or SEVERAL[name]
    known: list[Any] = []
    for _ in range(6):
        x = fw.tensor(DATA, device=place).requires_grad_()
        y = x * 1
        found = call(y)
        several = found if isinstance(found, tuple) else (found,)
        graph = [shown(each.grad_fn) for each in several]
        assert all(each.requires_grad for each in several)
        if name in CALLS and name not in ("expand", "meshgrid") and found is not y:
            # A change of it in place is one of what it is a view of.
            found.mul_(3)
            total = (y * y).sum()
        else:
            total = fw.stack([(each * each).sum() for each in several]).sum()
        total.backward()
        assert x.grad is not None
        known.append((graph, x.grad.tolist(), y.tolist()))
    assert known == known[:1] * 6


def test_calls_on_the_tape_run_a_few_times(place: Device) -> None:
    calls = 0

    def turned(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return x.transpose(0, 1)[1:]

    cached = caches_views(turned)
    x = fw.tensor(DATA, device=place).requires_grad_()
    for _ in range(8):
        found = cached(x)
        assert type(found.grad_fn).__name__ == type(turned(x).grad_fn).__name__
    assert calls - 8 <= 4
    before = calls
    with fw.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        cached(x)
    assert calls == before + 1
    with fw.no_grad():
        off = cached(x)
        assert not off.requires_grad
    assert calls == before + 1
    for each in (off, cached(x)):
        with pytest.raises(RuntimeError, match="in place"):
            each.add_(1)


@pytest.mark.parametrize("name", [*CALLS, *SEVERAL])
def test_gradients_after_calls_without(name: str, place: Device) -> None:
    call = CALLS.get(name) or SEVERAL[name]
    call(fw.tensor(DATA, device=place))
    x = fw.tensor(DATA, device=place).requires_grad_()
    with fw.no_grad():
        views = call(x)
    assert not any(
        each.requires_grad for each in (views if type(views) is tuple else (views,))
    )
    found = call(x)
    several = found if isinstance(found, tuple) else (found,)
    sum((k + 1) * each.sum() for k, each in enumerate(several)).backward()
    marked = np.zeros(24, np.float32)
    places = call(fw.tensor(np.arange(24).reshape(4, 6), device=place))
    for k, each in enumerate(places if isinstance(places, tuple) else (places,)):
        np.add.at(marked, each.numpy().ravel(), k + 1)
    assert x.grad.numpy().ravel().tolist() == marked.tolist()


def test_arguments_that_are_equal_are_not_the_same(place: Device) -> None:
    x = fw.tensor(DATA, device=place)
    for _ in range(2):
        assert x[(0, 1)].tolist() == 1
        assert x[[0, 1]].tolist() == DATA[[0, 1]].tolist()
        assert x[1:3].tolist() == DATA[1:3].tolist()
        assert x[1, 3].tolist() == DATA[1, 3]
        assert x[True].tolist() == DATA[True].tolist()
        with pytest.raises(TypeError):
            x.transpose(0.0, 1.0)
        assert x.transpose(0, 1).shape == (6, 4)


def test_a_copy_is_made_anew(place: Device) -> None:
    x = fw.tensor(DATA, device=place)
    for _ in range(3):
        flat = x.t().reshape(24)
        flat.fill_(0)
        assert x.tolist() == DATA.tolist()


def test_one_layout_on_two_devices_and_in_two_dtypes(place: Device) -> None:
    for dtype in (fw.float32, fw.int32, fw.bool):
        for there in (place, fw.device("cpu"), fw.device("meta")):
            x = fw.zeros(4, 6, device=there, dtype=dtype)
            found = x.transpose(0, 1)
            assert (found.device, found.dtype) == (there, dtype)


def test_a_storage_that_ends_with_the_operand(place: Device) -> None:
    part = fw.zeros(20, device=place)[:6]
    alone = fw.zeros(6, device=place)
    assert part.layout is alone.layout
    for _ in range(2):
        assert part.as_strided((2, 5), (5, 1)).shape == (2, 5)
        with pytest.raises(ShapeError, match="reach element 9; the storage has 6"):
            alone.as_strided((2, 5), (5, 1))


@pytest.mark.parametrize("grad", [False, True])
def test_the_argument_itself_is_found(grad: bool, place: Device) -> None:
    calls = 0

    @caches_views
    def same(x: fw.Tensor) -> fw.Tensor:
        nonlocal calls
        calls += 1
        return x if len(x.shape) > 1 else x.unsqueeze(0)

    for _ in range(3):
        x = fw.zeros(2, 3, device=place, requires_grad=grad)
        assert same(x) is x
        assert fw.atleast_2d(x) is x
    assert calls == 1
    assert same(x[0]).shape == (1, 3)


def test_what_was_decorated() -> None:
    def function(x: fw.Tensor, dim: int) -> fw.Tensor:
        return x.sum(dim)

    call = caches_views(function)
    assert uncached(call) is function
    assert uncached(function) is None
    x = fw.tensor(DATA)
    assert [call(x, 0).tolist() for _ in range(2)] == [DATA.sum(0).tolist()] * 2
    with pytest.raises(TypeError, match="missing"):
        call(x)  # type: ignore[call-arg]  # the test
    with pytest.raises(AttributeError):
        call([1], 0)  # type: ignore[arg-type]  # the test
