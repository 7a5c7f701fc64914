"""Calls that are replayed: like the first, and made without running the function."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.dispatch.replays import replays

CALLS: dict[str, Callable[[Any], Any]] = {
    "cumsum": lambda x: fw.cumsum(x, 1),
    "cumsum of integers": lambda x: fw.cumsum(x.int(), 0),
    "cumprod": lambda x: fw.cumprod(x, dim=-1),
    "another dtype": lambda x: fw.cumprod(x, 1, dtype=fw.float16),
    "sort": lambda x: fw.sort(x, descending=True),
    "argsort": lambda x: fw.argsort(x, 0),
    "topk": lambda x: fw.topk(x, 2),
    "topk of a view": lambda x: x.t().topk(2, largest=False),
}


def numbers(found: Any) -> list[Any]:
    return [each.tolist() for each in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize("name", CALLS)
def test_the_next_calls_are_like_the_first(name: str, place: Device) -> None:
    rng = np.random.default_rng(0)
    kinds = set()
    for _ in range(3):
        data = rng.integers(-4, 5, (3, 4)).astype("f4")
        found = CALLS[name](fw.tensor(data, device=place))
        assert numbers(found) == numbers(CALLS[name](fw.tensor(data)))
        kinds.add(type(found))
    assert len(kinds) == 1
    # Results are tensors of their own, which changes in place leave apart.
    x = fw.tensor(data, device=place)
    first, second = CALLS[name](x), CALLS[name](x)
    for each in first if isinstance(first, tuple) else (first,):
        each.zero_()
    assert numbers(second) == numbers(found)
    assert x.tolist() == data.tolist()


def counted(function: Callable[..., Any]) -> tuple[Callable[..., Any], list[int]]:
    """Return a function that replays its calls, and a list that grows as it runs."""
    runs: list[int] = []

    def body(*args: Any, **kwargs: Any) -> Any:
        runs.append(1)
        return function(*args, **kwargs)

    return replays(body), runs


def test_a_known_call_does_not_run_the_function(gpu: GpuDevice) -> None:
    call, runs = counted(lambda x, by, more=0: (x * by + more, x + by))
    x = fw.ones(3, device=gpu)
    for k in range(3):
        product, total = call(x + k, 2)
        assert [product.tolist(), total.tolist()] == [
            [2.0 * (k + 1)] * 3,
            [k + 3.0] * 3,
        ]
    assert len(runs) == 1
    for _ in range(2):
        assert call(x, 2, more=1)[0].tolist() == [3.0] * 3
        assert call(x, by=2)[0].tolist() == [2.0] * 3
        assert call(x, 3)[0].tolist() == [3.0] * 3
        assert call(x.reshape(1, 3), 2)[0].tolist() == [[2.0] * 3]
    assert len(runs) == 5
    gpu.begin_generation()
    call(x, 2)
    assert len(runs) == 6


def test_a_call_with_gradients_runs_it(gpu: GpuDevice) -> None:
    call, runs = counted(lambda x: x * x)
    x = fw.full((2,), 3.0, device=gpu, requires_grad=True)
    for _ in range(2):
        call(x).sum().backward()
    assert x.grad.tolist() == [12.0] * 2
    with fw.no_grad():
        for _ in range(3):
            assert not call(x).requires_grad
    assert len(runs) == 3


def test_what_is_not_its_own_is_not_replayed(gpu: GpuDevice) -> None:
    x, y = fw.ones(3, device=gpu), fw.zeros(3, device=gpu)
    for function in (lambda x: x, lambda x: x[1:], lambda x: (x + y, x)):
        call, runs = counted(function)
        for _ in range(2):
            call(x)
        assert len(runs) == 2
    call, runs = counted(lambda x: x + fw.rand(3, device=gpu))
    assert call(x).tolist() != call(x).tolist()
    assert len(runs) == 2


def test_errors_are_the_functions(place: Device) -> None:
    x = fw.ones(2, 3, device=place)
    for _ in range(2):
        with pytest.raises(ShapeError, match="topk"):
            fw.topk(x, 4)
        with pytest.raises(TypeError):
            fw.topk("x", 1)
