"""One call on a tensor of ours and on PyTorch's, and what both answer."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.base.device import Device

Call = Callable[[Any, Callable[[Any], Any]], Any]
"""Of a tensor, and of a function that makes more of the same library."""

X = np.array([[0.5, -1.5, 2.0], [3.0, 0.25, -0.75]], np.float32)
Y = np.array([[1.5, 0.5, -2.0], [-0.5, 4.0, 0.75]], np.float32)
SMALL = X / 4
POSITIVE = np.abs(X) + np.float32(1.25)
WHOLE = np.array([[5, -3, 7], [2, 0, -8]], np.int32)
FEW = np.array([[1, 2, 3], [3, 1, 2]], np.int32)
TRUTH = np.array([[True, False, True], [False, False, True]])


def ours(place: Device) -> Callable[[Any], fw.Tensor]:
    """Return what makes tensors on a device; whole numbers are int32."""

    def made(data: Any) -> fw.Tensor:
        array = np.asarray(data)
        kind = {"f": "float32", "i": "int32", "b": "bool"}[array.dtype.kind]
        return fw.tensor(array, kind, place)

    return made


def theirs(data: Any) -> torch.Tensor:
    """Return PyTorch's tensor; whole numbers are int64, as its indices must be."""
    array = np.asarray(data)
    kind = {"f": np.float32, "i": np.int64, "b": np.bool_}[array.dtype.kind]
    return torch.tensor(array.astype(kind))


def agree(call: Call, x: np.ndarray, place: Device, *, scale: float = 1.0) -> None:
    """Check that a call has PyTorch's results, in a dtype of the same kind."""
    make = ours(place)
    found, expected = flat(call(make(x), make)), flat(call(theirs(x), theirs))
    assert len(found) == len(expected)
    for mine, other in zip(found, expected):
        if not isinstance(mine, fw.Tensor):
            assert mine == other
            continue
        wanted = other.numpy()
        assert mine.device is place
        assert mine.dtype.numpy.kind == wanted.dtype.kind
        assert_close(mine, wanted.astype(mine.dtype.numpy), scale=scale)


def flat(answer: Any) -> list[Any]:
    """Return the tensors of an answer, or the answer itself, as a list."""
    return list(answer) if isinstance(answer, tuple | list) else [answer]


def public(mixin: type) -> set[str]:
    """Return the names that a class adds for users."""
    return {name for name in vars(mixin) if not name.startswith("_")}
