"""The code of public functions is replaced while there is someone to ask."""

import gc
import inspect
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend.framework import interception, overrides


@pytest.fixture(autouse=True)
def _functions_are_left_as_they_were() -> Iterator[None]:
    gc.collect()
    interception.update()
    yield
    gc.collect()
    interception.update()


def codes() -> list[Any]:
    """Return what each function and method has of its own."""
    found = [each.code for each in interception.table()]
    return [
        (each.__code__, each.__kwdefaults__)
        for each in found
        if inspect.isfunction(each)
    ]


def test_functions_have_their_own_code_without_modes() -> None:
    before = codes()
    with overrides.BaseTorchFunctionMode():
        assert codes() != before
    assert codes() == before


def test_functions_have_their_own_code_once_the_classes_are_gone() -> None:
    before = codes()

    class Asked(fw.Tensor):
        @classmethod
        def __torch_function__(cls, *_: Any, **__: Any) -> Any:  # type: ignore[override]
            return 5

    assert codes() != before
    assert fw.exp(fw.ones(1).as_subclass(Asked)) == 5
    del Asked
    gc.collect()
    interception.update()
    assert codes() == before


def test_plain_subclasses_replace_nothing() -> None:
    before = codes()

    class Plain(fw.Tensor):
        pass

    class Quiet(fw.nn.Parameter):
        pass

    assert codes() == before
    assert type(fw.ones(1).as_subclass(Plain) + 1) is Plain
    assert Quiet(fw.ones(1)).requires_grad


def test_other_threads_have_no_mode() -> None:
    seen = []

    class Seen(overrides.BaseTorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(threading.get_ident())
            return super().__torch_function__(func, types, args, kwargs)

    with Seen():
        thread = threading.Thread(target=lambda: fw.ones(2).sum().item())
        thread.start()
        thread.join()
        fw.ones(1)
    assert seen == [threading.get_ident()]


def test_functions_do_as_before_within_a_mode() -> None:
    x = fw.arange(6.0).reshape(2, 3).requires_grad_()

    def values() -> list[Any]:
        x.grad = None
        model = fw.nn.Sequential(fw.nn.LayerNorm(3), fw.nn.GELU())
        loss = (model(x) ** 2).mean() + fw.cat([x, x.sin()]).var()
        loss.backward()
        return [loss.item(), x.grad.tolist(), fw.linalg.norm(x).item()]

    before = values()
    with overrides.BaseTorchFunctionMode():
        assert values() == before


def test_optimizers_run_within_a_mode() -> None:
    def stepped() -> Any:
        weight = fw.nn.Parameter(fw.ones(3))
        optimizer = fw.optim.AdamW([weight], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            (weight * weight).sum().backward()
            optimizer.step()
        return weight.tolist()

    before = stepped()
    with overrides.BaseTorchFunctionMode():
        assert stepped() == before


def test_wrong_arguments_are_told_within_a_mode() -> None:
    with (
        overrides.BaseTorchFunctionMode(),
        pytest.raises(TypeError, match="linear"),
    ):
        fw.nn.functional.linear(fw.ones(1, 1))  # type: ignore[call-arg]  # no weight
