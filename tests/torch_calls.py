"""One call, written as for PyTorch, beside PyTorch: value, dtype, shape and gradient.

`T` is the library; small tensors have the names below.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import CPU, Device

_RNG = np.random.default_rng(0)
ARRAYS: dict[str, np.ndarray] = {
    "m": _RNG.normal(size=(3, 4)).astype(np.float32),
    "m2": _RNG.normal(size=(3, 4)).astype(np.float32),
    "p": _RNG.uniform(0.3, 3, (3, 4)).astype(np.float32),
    "c": _RNG.normal(size=(2, 3, 4)).astype(np.float32),
    "v3": np.array([1.0, 2.5, 0.5], np.float32),
    "v4": np.array([0.5, -1, 2, 0.25], np.float32),
    "sq": _RNG.normal(size=(3, 3)).astype(np.float32),
    "nan": np.array([1.0, np.nan, 3.0], np.float32),
    "i": _RNG.integers(0, 5, (3, 4)),
    "b": _RNG.integers(0, 2, (3, 4)).astype(bool),
    "idx": np.array([[0, 1], [2, 3], [1, 1]]),
    "runs": np.array([1, 1, 2, 2, 3, 1, 1]),
}
# Indices and counts are int32 here; see the notes of `argmax`.
WHOLE = {"int32": "int64"}
MAKERS = ("tensor", "zeros", "ones", "empty", "eye", "full")


def library(device: Device) -> Any:
    """Return the framework with makers of tensors on a device."""

    def on(make: Any) -> Any:
        return lambda *args, **kwargs: make(*args, **{"device": device, **kwargs})

    names = {name: getattr(fw, name) for name in dir(fw)}
    return SimpleNamespace(**names | {name: on(names[name]) for name in MAKERS})


def scope(make: Any, differentiable: bool) -> dict[str, Any]:
    """Return the tensors by name."""
    found = {name: make(array) for name, array in ARRAYS.items()}
    for name, tensor in found.items():
        if differentiable and ARRAYS[name].dtype.kind == "f":
            tensor.requires_grad_()
    return found


def tensors(answer: Any) -> list[Any]:
    """Return the tensors of an answer in order."""
    if isinstance(answer, tuple | list):
        return [tensor for each in answer for tensor in tensors(each)]
    return [answer]


def dtype_name(tensor: Any) -> str:
    """Return the dtype's name, of indices as PyTorch's."""
    name = str(tensor.dtype).rpartition(".")[2].rstrip("_")
    return WHOLE.get(name, name)


def close(ours: Any, theirs: Any, call: str) -> None:
    """Check one tensor, or number, against PyTorch's."""
    if not isinstance(theirs, torch.Tensor):
        same = ours == theirs
        assert same or math.isclose(ours, theirs, rel_tol=1e-5), call
        return
    assert ours.shape == tuple(theirs.shape), call
    assert dtype_name(ours) == dtype_name(theirs), call
    found, wanted = ours.detach().numpy(), theirs.detach().numpy(force=True)
    np.testing.assert_allclose(
        found.astype(np.float64), wanted.astype(np.float64), 3e-5, 3e-5, err_msg=call
    )


def weighted(answers: list[Any], library: Any, device: Any) -> Any:
    """Return a sum of the float results that tells all their elements apart."""
    total = None
    for tensor in answers:
        if getattr(tensor, "requires_grad", False):
            count = max(tensor.numel(), 1)
            weights = np.linspace(0.5, 1.5, count).reshape(tuple(tensor.shape))
            weights = weights.astype(str(tensor.dtype).rpartition(".")[2])
            given = library.tensor(weights, device=device)
            term = (tensor * given).sum()
            total = term if total is None else total + term
    return total


def check(call: str, device: Device = CPU) -> None:
    """Check what a call answers, and its gradients.

    Parameters
    ----------
    call : str
        An expression over `T` and the tensors; behind "!" without gradients.
    device : Device
        Where ours runs.
    """
    gradient, call = not call.startswith("!"), call.removeprefix("!")
    theirs = scope(torch.tensor, gradient)
    ours = scope(lambda array: fw.tensor(array, device=device), gradient)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = tensors(eval(call, {"T": torch, **theirs}))
    found = tensors(eval(call, {"T": library(device), **ours}))
    assert len(found) == len(wanted), call
    for pair in zip(found, wanted):
        close(*pair, call)
    if gradient and (loss := weighted(wanted, torch, None)) is not None:
        try:
            loss.backward()
        except RuntimeError:
            return  # PyTorch has no gradient there
        weighted(found, fw, device).backward()
        _check_gradients(ours, theirs, call)


def _check_gradients(
    ours: Mapping[str, Any], theirs: Mapping[str, Any], call: str
) -> None:
    for name, tensor in theirs.items():
        if tensor.grad is not None:
            assert ours[name].grad is not None, f"{call}: no gradient of {name}"
            close(ours[name].grad, tensor.grad, f"{call}: gradient of {name}")
