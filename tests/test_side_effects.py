"""Side effects in Python, which a replay would leave out."""

import locale
import random
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.ordinary import SIZE, STEPS
from tests.stale_rows import ROWS, Row
from tests.stale_rows import results as rows_of
from vkbackend.framework import nn
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.jit import jit

pytestmark = pytest.mark.device

CALLS = 6
MOST_TRACES = 3
"""The first makes room for what is kept, the second may find caches that it filled."""


Function = Callable[[fw.Tensor], fw.Tensor]
Made = tuple[Function, Callable[[int], object]]
"""A function, and what is done between its calls."""


@pytest.fixture
def settings() -> Iterator[None]:
    """Let what rows set of the interpreter be as it was for the tests that follow."""
    digits, local = sys.get_int_max_str_digits(), locale.setlocale(locale.LC_ALL)
    yield
    sys.set_int_max_str_digits(digits)
    locale.setlocale(locale.LC_ALL, local)


def nothing(_: int) -> None:
    """Do nothing between calls."""


class Counting(nn.Module):
    """Counts its calls, and remembers what it returned."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.last: fw.Tensor | None = None

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        self.calls += 1
        x = x * self.calls if self.last is None else x * self.calls + self.last
        self.last = x
        return x


def counter(_: GpuDevice) -> Made:
    place = SimpleNamespace(steps=0)

    def function(x: fw.Tensor) -> fw.Tensor:
        place.steps += 1
        return x * place.steps

    return function, nothing


def state(gpu: GpuDevice) -> Made:
    total = fw.zeros(2, device=gpu)

    def function(x: fw.Tensor) -> fw.Tensor:
        nonlocal total
        total = total + x
        return total * 2

    return function, nothing


def appended(_: GpuDevice) -> Made:
    kept: list[fw.Tensor] = []

    def function(x: fw.Tensor) -> fw.Tensor:
        kept.append(x)
        return x * len(kept)

    return function, nothing


def module(_: GpuDevice) -> Made:
    called = Counting()
    return lambda x: called(x), nothing


def inner_module(_: GpuDevice) -> Made:
    called = nn.Sequential(Counting())
    return lambda x: called(x), nothing


def iterator(_: GpuDevice) -> Made:
    numbers: Iterator[int] = count(1)
    return lambda x: x * next(numbers), nothing


def drawn(_: GpuDevice) -> Made:
    rng = random.Random(3)
    return lambda x: x * rng.random(), nothing


def array(gpu: GpuDevice) -> Made:
    factors = np.ones(2, np.float32)

    def between(number: int) -> None:
        factors[0] = number

    return lambda x: x * fw.tensor(factors, device=gpu), between


def array_element(_: GpuDevice) -> Made:
    factors = np.ones(2, np.float32)

    def between(number: int) -> None:
        factors[1] = number

    return lambda x: x * float(factors[1]), between


def tensor_of_the_host(gpu: GpuDevice) -> Made:
    factors = fw.ones(2)
    return lambda x: x * factors.to(gpu), lambda number: factors.add_(number)


def queue(_: GpuDevice) -> Made:
    numbers = deque([1.0])
    return lambda x: x * numbers[0], lambda number: numbers.appendleft(number)


def attribute_of_a_layer(_: GpuDevice) -> Made:
    layer = nn.Dropout(0.5)

    def between(number: int) -> None:
        layer.train(number < 5)

    return lambda x: x * (2.0 if layer.training else 3.0), between


def learning_rate(gpu: GpuDevice) -> Made:
    optimizer = fw.optim.SGD([nn.Parameter(fw.ones(1, device=gpu))], lr=1.0)

    def between(number: int) -> None:
        optimizer.param_groups[0]["lr"] = float(number)

    return lambda x: x * optimizer.param_groups[0]["lr"], between


class Factor:
    """A number that instances may have of their own."""

    factor = 1.0


def attribute_of_a_class(_: GpuDevice) -> Made:
    one, other = Factor(), Factor()

    def between(number: int) -> None:
        other.factor = number

    return lambda x: x * one.factor * other.factor, between


def attribute_by_name(_: GpuDevice) -> Made:
    place = SimpleNamespace(factor=1.0)

    def between(number: int) -> None:
        place.factor = number

    return lambda x: x * getattr(place, "factor", 0.0), between


MAKERS = [counter, state, appended, module, inner_module, iterator, drawn, array]
MAKERS += [array_element, tensor_of_the_host, queue, attribute_of_a_layer]
MAKERS += [learning_rate, attribute_of_a_class, attribute_by_name]


def results(gpu: GpuDevice, made: Made, wrap: Callable[[Function], Function]) -> Any:
    function, between = made
    function = wrap(function)
    found = []
    for number in range(CALLS):
        found.append(function(fw.tensor([1.0, 2.0], device=gpu)).tolist())
        between(number + 2)
    return found


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_nothing_is_stale(gpu: GpuDevice, make: Callable[[GpuDevice], Made]) -> None:
    expected = results(gpu, make(gpu), lambda function: function)
    assert expected[0] != expected[-1]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "jit: .* runs without replay")
        assert results(gpu, make(gpu), jit) == expected


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (counter, "it changes `steps`, which a replay would not"),
        (state, "it changes `total`, which"),
        (appended, "it changes what a list holds, which"),
        (inner_module, "it changes `calls`, which a replay would not"),
        (iterator, "it takes from an iterator, which"),
        (drawn, "it draws numbers on the host, which"),
        (array, "what an array holds is another one in each call"),
        (tensor_of_the_host, "what a tensor on the host holds is another one in"),
    ],
)
def test_what_is_in_the_way_is_named(
    gpu: GpuDevice, make: Callable[[GpuDevice], Made], reason: str
) -> None:
    with pytest.warns(UserWarning, match=f"runs without replay .*: {reason}"):
        results(gpu, make(gpu), jit)


def test_random_numbers_of_modules_are_seen(gpu: GpuDevice) -> None:
    def of_numpy(x: fw.Tensor) -> fw.Tensor:
        return x * float(np.random.uniform())

    for function in (of_numpy, lambda x: x * random.random()):
        with pytest.warns(UserWarning, match="it draws numbers on the host"):
            found = results(gpu, (function, nothing), jit)
        assert len({str(each) for each in found}) == CALLS


def test_writing_a_file_is_no_reason(gpu: GpuDevice, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log:

        @jit
        def function(x: fw.Tensor) -> fw.Tensor:
            print("traced", file=log)
            return x * 2

        assert results(gpu, (function, nothing), lambda each: each)[-1] == [2, 4]
    assert (function.traces, function.replays) == (1, CALLS - 1)


def test_what_changes_once_is_traced_twice(gpu: GpuDevice) -> None:
    made: list[fw.Tensor] = []

    @jit
    def function(x: fw.Tensor) -> fw.Tensor:
        if not made:
            made.append(fw.full((2,), 3.0, device=gpu))
        return x * made[0]

    x = fw.tensor([1.0, 2.0], device=gpu)
    assert [function(x).tolist() for _ in range(4)] == [[3, 6]] * 4
    assert (function.traces, function.replays) == (2, 2)


class Kept:
    """Has places for a result, one of them fixed."""

    __slots__ = ("__dict__", "slot")


def kept_in_attribute(place: Kept, x: fw.Tensor) -> None:
    place.out = x


def kept_in_slot(place: Kept, x: fw.Tensor) -> None:
    place.slot = x


def kept_by_name(place: Kept, x: fw.Tensor) -> None:
    object.__setattr__(place, "named", x)


def kept_in_global(_: Kept, x: fw.Tensor) -> None:
    global kept_outside
    kept_outside = x


kept_outside: object = None
STORES = [kept_in_attribute, kept_in_slot, kept_by_name, kept_in_global]


@pytest.mark.parametrize("store", STORES, ids=lambda store: store.__name__)
def test_what_is_only_stored_is_kept(
    gpu: GpuDevice, store: Callable[[Kept, fw.Tensor], None]
) -> None:
    place = Kept()

    def function(x: fw.Tensor) -> fw.Tensor:
        store(place, x * 2)
        return x + 1

    step, results = jit(function), []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for number in range(CALLS):
            step(fw.full((1,), float(number), device=gpu))
            held = [getattr(place, n, None) for n in ("out", "slot", "named")]
            results += [next((v for v in held if v is not None), kept_outside)]
    assert ["it changes `" in str(each.message) for each in said] == [True]
    assert [each.item() for each in results] == [2.0 * k for k in range(CALLS)]


def test_a_number_that_is_only_stored_is_stored_again(gpu: GpuDevice) -> None:
    place = SimpleNamespace()

    @jit
    def function(x: fw.Tensor) -> fw.Tensor:
        place.seen = 5
        return x + 1

    x = fw.ones(1, device=gpu)
    for _ in range(4):
        function(x)
    assert function.replays >= 2
    del place.seen
    function(x)
    assert place.seen == 5


class Refusing(type):
    """A class of classes without attributes that it would tell of."""

    def __getattr__(cls, name: str) -> object:
        raise RuntimeError(name)


class Refused(metaclass=Refusing):
    """An object of such a class."""


@pytest.mark.parametrize(
    "value",
    [Refused(), Refused, np.array([None]), np.float32, memoryview(b"x")],
    ids=lambda value: type(value).__name__,
)
def test_odd_objects_do_not_matter(gpu: GpuDevice, value: object) -> None:
    def function(x: fw.Tensor) -> fw.Tensor:
        assert value is not None
        return x * 2

    replayed = jit(function)
    x = fw.tensor([1.0, 2.0], device=gpu)
    assert [replayed(x).tolist() for _ in range(3)] == [[2, 4]] * 3
    assert (replayed.traces, replayed.replays) == (1, 2)


@pytest.mark.parametrize("make", STEPS, ids=lambda make: make.__name__)
def test_ordinary_steps_are_replayed(
    gpu: GpuDevice, make: Callable[[GpuDevice], Any]
) -> None:
    fw.manual_seed(5)
    step = jit(make(gpu))
    for _ in range(2 * MOST_TRACES):
        step(fw.ones((3, SIZE), device=gpu))
    assert step.traces <= MOST_TRACES
    assert step.replays >= MOST_TRACES


OF_PACKAGES = ("estimator_fitted", "tree_in_c")
"""Rows that may be refused, or in other words: what packages do differs by version."""


@pytest.mark.sampled(3)
@pytest.mark.usefixtures("settings")
@pytest.mark.filterwarnings("ignore:Setting the:DeprecationWarning")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_no_row_is_stale(gpu: GpuDevice, row: Row) -> None:
    expected, _ = rows_of(row, gpu, lambda step: step, once=not row.refused)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", "Setting the", DeprecationWarning)
        found, step = rows_of(row, gpu, jit, once=not row.refused)
    if row.change != "pass":
        assert expected[0] != expected[-1]
        assert found == expected
    if row.name in OF_PACKAGES:
        assert step.replays >= 3 or len(said) == 1
    elif row.refused:
        assert step.replays == 0
        assert [row.refused in str(each.message) for each in said] == [True]
    else:
        assert not said
        assert step.replays >= 3
