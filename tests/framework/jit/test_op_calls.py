"""What the profile function of a trace sees of ops and gradient rules."""

import sys
from types import FrameType
from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend.framework import autograd
from vkbackend.framework.dispatch.elementwise import Elementwise
from vkbackend.framework.jit.op_calls import HiddenCalls

pytestmark = pytest.mark.core


class Watch:
    """An observer of calls."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def on_event(self, frame: FrameType, event: str, given: object) -> None:
        if event == "call":
            self.names.add(frame.f_code.co_name)


class Mine(fw.Tensor):
    """A user's class of tensors."""


class Double(autograd.Function):
    """A user's function with a gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2


def _seen(run: Any, kind: type = Watch) -> set[str]:
    watch = Watch()
    with HiddenCalls(kind):
        sys.setprofile(watch.on_event)
        try:
            run()
        finally:
            sys.setprofile(None)
    return watch.names


def test_only_the_librarys_own_calls_are_hidden() -> None:
    call = vars(Elementwise)["__call__"]
    x = fw.ones(3, requires_grad=True)
    hooked: Any = fw.ones(3, requires_grad=True)
    hooked.register_hook(lambda grad: grad.neg())
    inside, rules = {"_slow_path", "_checked"}, {"_arguments", "_apply"}
    assert not inside & _seen(lambda: fw.exp(x) + 1)
    assert not rules & _seen(lambda: (x * x).sum().backward())
    assert inside & _seen(lambda: fw.exp(x) + 1, str)
    assert inside & _seen(lambda: fw.exp(Mine([1.0])))
    assert "<lambda>" in _seen(lambda: (hooked * x).sum().backward())
    assert {"forward", "backward"} <= _seen(lambda: Double.apply(x).sum().backward())

    def packed(kept: Any) -> Any:
        return kept

    with autograd.graph.saved_tensors_hooks(packed, packed):
        assert "packed" in _seen(lambda: x * x)
        out = x * x
    assert "packed" in _seen(lambda: out.sum().backward())
    assert vars(Elementwise)["__call__"] is call
