"""`__torch_function__` of classes and modes, as PyTorch has it."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import vkbackend.framework as fw
from tests.torch_function_programs import PROGRAMS
from vkbackend.framework import interception, overrides

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _functions_are_left_as_they_were() -> Iterator[None]:
    yield
    gc.collect()
    interception.update()


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_do_as_with_pytorch(name: str) -> None:
    ours = PROGRAMS[name](fw, overrides)
    assert ours == PROGRAMS[name](torch, torch.overrides)


class Calls(overrides.TorchFunctionMode):
    """Counts what it sees, by the name of the function."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


def test_a_mode_sees_functions_however_a_program_holds_them() -> None:
    held, relu = fw.zeros, fw.nn.functional.relu
    with Calls() as mode:
        held(1)
        relu(fw.ones(1))
    assert mode.seen == [fw.zeros, fw.ones, fw.nn.functional.relu]


def test_layers_are_seen_by_their_functions() -> None:
    layers = fw.nn.Linear(2, 2), fw.nn.GELU("tanh"), fw.nn.Conv1d(1, 1, 1)
    x = fw.ones(1, 2)
    with Calls() as mode:
        for layer in layers:
            x = layer(x)
    functional = fw.nn.functional
    assert mode.seen == [functional.linear, functional.gelu, functional.conv1d]


def test_jitted_functions_run_untraced(gpu: Any) -> None:
    jitted = fw.jit(lambda x: fw.exp(x))
    x = fw.ones(2).to(gpu)
    for _ in range(3):
        jitted(x)
    replays = jitted.replays
    with Calls() as mode:
        jitted(x)
    assert mode.seen == [fw.exp]
    assert jitted.replays == replays > 0


def test_a_mode_without_a_method_is_told() -> None:
    with (
        pytest.raises(NotImplementedError, match="__torch_function__ is missing"),
        overrides.TorchFunctionMode(),
    ):
        fw.ones(1)


def test_push_is_deprecated() -> None:
    with pytest.warns(UserWarning, match="no longer needed"):
        assert isinstance(Calls.push(), Calls)


def test_the_functions_are_listed() -> None:
    listed = overrides.get_overridable_functions()
    assert fw.add in listed[fw]
    assert fw.nn.functional.relu in listed[fw.nn.functional]
    assert fw.Tensor.sum in listed[fw.Tensor]
    assert fw.is_tensor in overrides.get_ignored_functions()
    assert fw.is_tensor not in listed[fw]
    assert overrides.get_default_nowrap_functions() >= {fw.Tensor.grad.__get__}  # type: ignore[attr-defined]  # of a property
    assert overrides.resolve_name(len) is None
