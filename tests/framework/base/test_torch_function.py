"""Who is asked about a call, and in which order."""

from typing import Any

import pytest

from vkbackend.framework.base import torch_function
from vkbackend.framework.base.torch_function import (
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    disabled_torch_function_impl,
    dispatch,
    is_overloaded,
    overloaded_args,
    relevant_args,
)


class Base:
    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return cls.__name__


class Derived(Base):
    pass


class Silent:
    @classmethod
    def __torch_function__(cls, *_: Any, **__: Any) -> Any:
        return NotImplemented


class Off:
    __torch_function__ = disabled_torch_function_impl


def test_subclasses_come_before_their_base() -> None:
    base, derived, silent = Base(), Derived(), Silent()
    assert overloaded_args([1, base, silent, derived, Base()]) == [
        derived,
        base,
        silent,
    ]


def test_only_the_protocol_counts() -> None:
    assert is_overloaded(Base())
    assert not any(map(is_overloaded, (1, None, Off(), Base)))


def test_sequences_are_looked_into() -> None:
    base = Base()
    assert base in relevant_args(([base, 1],), {})
    assert base in relevant_args((), {"x": (base,)})


def test_the_next_is_asked_where_one_has_no_answer() -> None:
    assert dispatch(len, [Silent(), Base()], (), {}) == "Base"
    with pytest.raises(TypeError, match="len: no implementation found: Silent"):
        dispatch(len, [Silent()], (), {})


def test_blocks_end_where_they_began() -> None:
    with DisableTorchFunctionSubclass():
        assert not torch_function.subclasses.top.value
        with DisableTorchFunction():
            assert torch_function.modes.top.value == ()
        assert not torch_function.subclasses.top.value
    assert torch_function.subclasses.top.value
