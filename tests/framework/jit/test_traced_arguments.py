"""Traced arguments: stand-ins, and mutations written back."""

import warnings
from collections import OrderedDict, UserDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.jit.traced_arguments import TracedArguments

CALLS = 6


@dataclass
class State:
    """What a step may carry along."""

    x: fw.Tensor
    n: int = 0
    log: list[Any] = field(default_factory=list)


class Titled(list[Any]):
    """A list with an attribute."""

    title: Any = 0


def append(x: fw.Tensor, s: list[Any]) -> fw.Tensor:
    s.append(float(len(s)))
    return x * s[-1]


def append_tensor(x: fw.Tensor, s: list[Any]) -> fw.Tensor:
    s.append(x * len(s))
    return s[-1] + 1


def assign(x: fw.Tensor, s: list[Any]) -> fw.Tensor:
    s[0] = s[0] * 0.5 + x
    return s[0] * 2


def update(x: fw.Tensor, s: dict[str, Any]) -> dict[str, Any]:
    s["h"] = s.get("h", 0.0) * 0.5 + x
    s["n"] = s.pop("n", 0) + 1
    return s


def reorder(x: fw.Tensor, s: OrderedDict[str, Any]) -> fw.Tensor:
    s.move_to_end(next(iter(s)))
    return x * len(s)


def add(x: fw.Tensor, s: set[Any]) -> fw.Tensor:
    s.add(len(s))
    return x * len(s)


def in_record(x: fw.Tensor, s: State) -> fw.Tensor:
    s.n += 1
    s.x = s.x + x
    s.log.append(s.n)
    return x * s.n


def in_nested(x: fw.Tensor, s: tuple[Any, ...]) -> fw.Tensor:
    s[1]["deep"].append(s[0] + x)
    return x * len(s[1]["deep"])


def in_attribute(x: fw.Tensor, s: Titled) -> fw.Tensor:
    s.title = s.title + 1
    return x * s.title + s[0]


def drop(x: fw.Tensor, s: dict[str, Any]) -> fw.Tensor:
    del s[f"{len(s)}"]
    return x * len(s)


CASES: list[tuple[Callable[..., Any], Callable[[fw.Tensor], Any]]] = [
    (append, lambda x: []),
    (append_tensor, lambda x: []),
    (assign, lambda x: [x]),
    (update, lambda x: {"h": x}),
    (update, lambda x: UserDict(h=x)),
    (reorder, lambda x: OrderedDict(a=x, b=x * 2, c=1)),
    (add, lambda x: set()),
    (in_record, State),
    (in_nested, lambda x: (x, {"deep": []})),
    (in_attribute, lambda x: Titled([x])),
    (drop, lambda x: {f"{k}": x for k in range(1, 9)}),
]


def plain(value: Any) -> Any:
    """Return numbers in the place of tensors."""
    if isinstance(value, fw.Tensor):
        return value.tolist()
    if isinstance(value, State):
        value = vars(value)
    if isinstance(value, dict | UserDict):
        return [(key, plain(each)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return [getattr(value, "title", 0), *map(plain, value)]
    return value


@pytest.mark.core
@pytest.mark.parametrize(("function", "make"), CASES)
def test_changes_reach_the_caller(
    gpu: GpuDevice, function: Callable[..., Any], make: Callable[[fw.Tensor], Any]
) -> None:
    x = fw.tensor([1.0, 2.0], device=gpu)
    jitted, ours, theirs = fw.jit(function), make(x), make(x)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "jit: .* runs without replay")
        for _ in range(CALLS):
            found, expected = jitted(x, ours), function(x, theirs)
            assert plain(found) == plain(expected)
            assert (found is ours) == (expected is theirs)
            assert plain(ours) == plain(theirs)
    assert jitted.replays == 0


@pytest.mark.core
def test_a_changed_argument_is_named(gpu: GpuDevice) -> None:
    x = fw.ones(2, device=gpu)
    step, state = fw.jit(assign), [x]
    with pytest.warns(UserWarning, match="it changes argument s, which a replay would"):
        [step(x, s=state) for _ in range(CALLS)]


@pytest.mark.core
def test_changes_before_an_error_stay(gpu: GpuDevice) -> None:
    @fw.jit
    def function(x: fw.Tensor, s: list[Any]) -> fw.Tensor:
        s.append(x * 3)
        raise ArithmeticError

    state = [fw.ones(2, device=gpu)]
    with pytest.raises(ArithmeticError):
        function(state[0], state)
    assert plain(state) == [0, [1, 1], [3, 3]]


@pytest.mark.core
def test_what_is_only_read_is_replayed(gpu: GpuDevice) -> None:
    @fw.jit
    def function(x: fw.Tensor, s: dict[str, Any], t: State) -> fw.Tensor:
        return x * s["scale"] + s["parts"][0] * len(t.log) + t.x

    x = fw.ones(2, device=gpu)
    for k in range(4):
        given = {"scale": 2.0, "parts": [x * k]}
        assert function(x, given, State(x, log=[1])).tolist() == [3 + k] * 2
    assert (function.traces, function.replays) == (1, 3)


def test_one_container_stays_one_and_nothing_else_is_copied() -> None:
    x, y = fw.ones(1), fw.zeros(1)
    held, numbers = [x], [1, {"a": 2}]
    arguments = TracedArguments(lambda each: y if each is x else each)
    given = arguments.substitute((held, {"again": held}, numbers), "0")
    assert given[0] is given[1]["again"] is not held
    assert given[0][0] is y
    assert given[2] is numbers
    assert arguments.changed() == ""
    given[0].append(given[0][0])
    assert arguments.changed() == "argument 0"
    arguments.write_back()
    assert held[0] is held[1] is x
    assert arguments.caller_value({"new": given})["new"][0] is held
