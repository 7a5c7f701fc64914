"""Diagnosis of failed calls, by the annotations of the function."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework import nn
from vkbackend.framework.dispatch.diagnosis import diagnosed, explained

Tensor = fw.Tensor
ONE = fw.ones(2)


def function(
    x: Tensor,
    size: int | Sequence[int] = 1,
    p: float | None = None,
    flag: bool = False,
    *,
    mode: str = "a",
    others: Sequence[Tensor] = (),
    anything: Any = None,
) -> Any:
    return p < 1  # type: ignore[operator]  # fails for most


RIGHT: tuple[tuple[Any, ...], ...] = (
    (ONE,),
    (ONE, 2, 0.5, True),
    (ONE, (1, 2), np.float32(1)),
    (ONE, [1, np.int64(2)], fw.tensor(0.5)),
    (ONE, np.array([1, 2])),
)
WRONG: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "f: x is None; it must be a tensor": ((None,), {}),
    "f: x is a list; it must be a tensor": (([1],), {}),
    "f: size is 1.5; it must be an int or a sequence of ints": ((ONE, 1.5), {}),
    "f: size is a tuple with 'b'; it must be an int or a sequence of ints": (
        (ONE, (1, "b")),
        {},
    ),
    "f: p is 'x'; it must be a number or None": ((ONE, 1, "x"), {}),
    "f: p is a ndarray; it must be a number or None": ((ONE, 1, np.ones(2)), {}),
    "f: flag is 'x'; it must be a bool": ((ONE, 1, 1.0, "x"), {}),
    "f: mode is None; it must be a string": ((ONE,), {"mode": None}),
    "f: others is a list with 1; it must be a sequence of tensors": (
        (ONE,),
        {"others": [ONE, 1]},
    ),
    "f: missing a required argument: `x`; it takes (x, size, p, flag, mode, others,"
    " anything)": ((), {}),
}


def test_arguments_of_a_wrong_kind_are_named() -> None:
    signature = inspect.signature(function)
    for args in RIGHT:
        assert diagnosed("f", signature, args, {"anything": object()}) is None
    for text, (args, kwargs) in WRONG.items():
        assert str(diagnosed("f", signature, args, kwargs)) == text


def test_only_failed_calls_are_looked_at() -> None:
    call = explained(function)
    assert call("no tensor", p=0.5)
    with pytest.raises(TypeError, match=r"^function: x is 'no tensor'; it must be a"):
        call("no tensor", p=None)
    with pytest.raises(TypeError, match="not supported between"):
        call(ONE, p=None)  # its own fault


def test_modules_of_a_user_are_left_alone() -> None:
    class Scale(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return x.shape[0] + self.missing

    with pytest.raises(AttributeError, match="missing"):
        Scale()(np.ones(2))
    with pytest.raises(TypeError, match=r"^MSELoss: missing a required argument"):
        nn.MSELoss()(ONE)
    with pytest.raises(TypeError, match=r"^Linear: missing a required argument"):
        type("Own", (nn.Linear,), {})(4)


def test_functions_are_pickled_by_their_address() -> None:
    for each in (nn.functional.mse_loss, nn.functional.relu, fw.Tensor.tolist):
        assert pickle.loads(pickle.dumps(each)) is each
