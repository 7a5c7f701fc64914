"""Calls of plain functions that are recorded, and those that are not."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from vkbackend.errors import Error
from vkbackend.framework.codegen.ir.reductions import SMALL
from vkbackend.framework.dispatch.replayable import replayable
from vkbackend.framework.ops.shape_constant import shape_constant
from vkbackend.tools.bench.baseline import Peer
from vkbackend.tools.bench.sweep.forms import flatten
from vkbackend.tools.bench.sweep.plan import FORWARD, SweepCase, cases
from vkbackend.tools.bench.sweep.sides import (
    Here,
    Inputs,
    NoGradientError,
    bound,
    side_of,
)
from vkbackend.tools.bench.sweep.units import units

SWEPT = cases(units(), "small")


@pytest.fixture
def place(device: vkbackend.Device) -> Any:
    return fw.device(device.name)


def ramp(place: Any, start: int) -> Any:
    return fw.tensor(np.arange(start, start + 6, dtype=np.float32), device=place)


class Counted:
    """Function that counts its calls."""

    def __init__(self, function: Any) -> None:
        self.calls = 0

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            return function(*args, **kwargs)

        self.run = replayable(counted)


class Pair(NamedTuple):
    """Named results."""

    total: Any
    rest: Any


def test_two_calls_run_and_the_others_are_replayed(place: Any) -> None:
    function = Counted(lambda x, by, add=0: (x * by + add).reshape(2, 3).sum(0))
    for start in range(4):
        x = ramp(place, start)
        expected = (x.numpy() * 3 + 2).reshape(2, 3).sum(0)
        assert function.run(x, 3, add=2).tolist() == expected.tolist()
    assert function.calls == 2
    # Of another number, layout and device.
    function.run(ramp(place, 0), 4, add=2)
    function.run(fw.ones((6, 2), device=place)[:, 0], 3, add=2)
    function.run(fw.ones(6), 3, add=2)
    assert function.calls == 5


def test_what_is_about_to_be_made_is_reduced_on_the_way(place: Any) -> None:
    """A large tensor is, in a call of its own."""
    counted = Counted(lambda x: x.sum())
    x = fw.ones(SMALL + 1, device=place)
    for made, calls in ((False, 2), (True, 4), (False, 4), (True, 4)):
        for _ in range(3):
            fw.eval()
            given = x * 2 if made else x
            assert counted.run(given).item() == (SMALL + 1) * (1 + made)
        assert counted.calls == calls


def test_named_results_and_constants(place: Any) -> None:
    def function(x: Any) -> Pair:
        table = shape_constant(x, np.arange(6, dtype=np.float32))
        return Pair((x * table).sum(), x - table)

    counted = Counted(function)
    for start in range(3):
        found = counted.run(ramp(place, start))
        assert type(found) is Pair
        assert found.total.item() == (np.arange(6) * (np.arange(6) + start)).sum()
        assert found.rest.tolist() == [start] * 6
    assert counted.calls == 2


NOT_REPLAYED = {
    "a read": lambda x: x * x.sum().item(),
    "a draw": lambda x: x + fw.rand(6, device=x.device),
    "a change in place": lambda x: x.add_(1.0),
    "a table": lambda x: x + fw.tensor([1.0] * 6, device=x.device),
    "an argument": lambda x: x,
}


@pytest.mark.parametrize("what", NOT_REPLAYED)
def test_what_is_not_replayed(what: str, place: Any) -> None:
    counted = Counted(NOT_REPLAYED[what])
    for _ in range(4):
        counted.run(ramp(place, 1))
    assert counted.calls == 4


def test_settings_are_those_of_each_call(place: Any) -> None:
    counted = Counted(lambda x: x * fw.full((6,), 2.0, device=x.device))
    for _ in range(3):
        counted.run(ramp(place, 1))
    fw.set_default_dtype(fw.float16)
    try:
        assert counted.run(fw.ones(6, dtype=fw.float16, device=place)).dtype is (
            fw.float16
        )
        counted.run(ramp(place, 1))
    finally:
        fw.set_default_dtype(fw.float32)
    assert counted.calls == 4
    with fw.autocast(place.type):
        counted.run(ramp(place, 1))
    assert counted.calls == 5


def test_traces_run_the_function(place: Any) -> None:
    step = fw.jit(replayable(lambda x: (x * 2).sum()))
    for start in range(4):
        x = ramp(place, start)
        assert step(x).item() == x.numpy().sum() * 2


def test_every_call_warns(place: Any) -> None:
    x = fw.ones((1, 1, 4, 4), device=place)
    grid = fw.zeros((1, 2, 2, 2), device=place)
    for _ in range(3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fw.nn.functional.grid_sample(x, grid)
        assert len(caught) == 1


CALLS: dict[str, Callable[[Any], Any]] = {
    "cumsum": lambda x: fw.cumsum(x, 1),
    "cumsum of integers": lambda x: fw.cumsum(x.int(), 0),
    "another dtype": lambda x: fw.cumprod(x, 1, dtype=fw.float16),
    "sort": lambda x: fw.sort(x, descending=True),
    "argsort": lambda x: fw.argsort(x, 0),
    "topk of a view": lambda x: x.t().topk(2, largest=False),
}


def numbers(found: Any) -> list[Any]:
    return [each.tolist() for each in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize("name", CALLS)
def test_scans_and_sorts_are_like_the_first_ones(name: str, place: Any) -> None:
    rng = np.random.default_rng(0)
    kinds = set()
    for _ in range(4):
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


def test_a_tensor_that_is_given_twice(place: Any) -> None:
    counted = Counted(lambda x, y, by: (x - y * by).sum(0))
    for start in range(4):
        x, y = ramp(place, start), ramp(place, start + 1)
        for first, second in ((x, x), (x, y), (y, y)):
            wanted = (first.numpy() - second.numpy() * 3).sum()
            assert counted.run(first, second, 3).item() == wanted
    # Two of a pair, and two of one tensor.
    assert counted.calls == 4


def test_gradients_of_a_tensor_that_is_given_twice(place: Any) -> None:
    counted = Counted(lambda x, y: x.exp() * y)
    for start in range(4):
        x = (ramp(place, start) / 8).requires_grad_()
        counted.run(x, x).sum().backward()
        host = x.detach().numpy()
        np.testing.assert_allclose(x.grad.numpy(), np.exp(host) * (1 + host), 1e-6)
    assert counted.calls == 2


WARM = 3
"""Calls on other elements: the first is checked, the second recorded."""


def _elements(tensor: fw.Tensor) -> np.ndarray[Any, Any]:
    tensor = tensor.detach()
    return (tensor.float() if tensor.dtype is fw.bfloat16 else tensor).numpy()


@pytest.mark.wide
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", SWEPT, ids=lambda c: f"{c.title} {c.dtype}")
def test_a_replay_is_a_first_call(case: SweepCase, place: Any) -> None:
    here = Here(place)
    inputs = Inputs(here, side_of(Peer("numpy")), on_gpu=False)
    runs = bound(here, 0, case.unit, case.arguments, case.dtype, inputs)
    assert runs is not None
    run = runs[0] if case.direction == FORWARD else runs[1]
    given = [inputs.of(each, case.dtype)[0] for each in flatten(case.arguments)]
    changing = [each for each in given if each.dtype.is_float or each.dtype.is_complex]
    first = [each.detach().clone() for each in changing]
    # Positive, definite, sorted and likely numbers stay that.
    others = [each * 0.75 for each in first]

    def put(contents: list[fw.Tensor]) -> None:
        with fw.no_grad():
            for tensor, content in zip(changing, contents, strict=True):
                tensor.copy_(content)

    put(others)
    fw.manual_seed(3)
    try:
        wanted = [_elements(each) for each in run()]
    except (NoGradientError, Error) as error:
        pytest.skip(f"it is refused: {error}")
    put(first)
    for _ in range(WARM):
        fw.eval(*run())
    put(others)
    fw.manual_seed(3)
    found = [_elements(each) for each in run()]
    assert len(found) == len(wanted)
    for mine, each in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(mine, each)
