"""Functions of lists of tensors, beside PyTorch's."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.tensor.foreach import BINARY, FOREACH, UNARY


def lists(lib: Any, device: Any = "cpu", shift: float = 0.0) -> list[Any]:
    """Return tensors of different shapes, with elements from 0.1 to 0.9."""
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(0.1, 0.9, shape) for shape in ((3,), (2, 5), ())]
    return [
        lib.tensor((each + shift).astype(np.float32), device=device) for each in arrays
    ]


CALLS: dict[str, Any] = {
    **{f"_foreach_{name}": lambda f, x, y, z: f(x) for name in UNARY.split()},
    **{f"_foreach_{name}": lambda f, x, y, z: f(x, y) for name in BINARY.split()},
    **{
        f"_foreach_{name}, a number": lambda f, x, y, z: f(x, 0.5)
        for name in BINARY.split()
    },
    **{
        f"_foreach_{name}, numbers": lambda f, x, y, z: f(x, [0.5, 2.0, 3.0])
        for name in BINARY.split()
    },
    "_foreach_add, alpha": lambda f, x, y, z: f(x, y, alpha=0.25),
    "_foreach_addcdiv": lambda f, x, y, z: f(x, y, z),
    "_foreach_addcdiv, a number": lambda f, x, y, z: f(x, y, z, -0.1),
    "_foreach_addcmul, numbers": lambda f, x, y, z: f(x, y, z, [1.0, 2.0, 3.0]),
    "_foreach_lerp": lambda f, x, y, z: f(x, y, z),
    "_foreach_lerp, a number": lambda f, x, y, z: f(x, y, 0.3),
}
WITHOUT_FORM_IN_PLACE = {
    "_foreach_norm": lambda f, x, y, z: f(x),
    "_foreach_norm, 1": lambda f, x, y, z: f(x, 1),
    "_foreach_norm, inf": lambda f, x, y, z: f(x, ord=float("inf")),
    "_foreach_max": lambda f, x, y, z: f(x),
    "_foreach_clone": lambda f, x, y, z: f(x),
    "_foreach_pow, a base": lambda f, x, y, z: f(2.0, x),
    "_foreach_mm": lambda f, x, y, z: f([x[1]], [y[1].t()]),
    "_foreach_copy_": lambda f, x, y, z: f(x, y),
    "_foreach_zero_": lambda f, x, y, z: f(x),
}


def run(lib: Any, key: str, call: Any, suffix: str, device: Any = "cpu") -> Any:
    """Return what a call returns, and the first list afterwards, as arrays."""
    x, y, z = (lists(lib, device, shift) for shift in (0.0, 0.3, 0.6))
    function = getattr(lib, key.partition(",")[0] + suffix)
    answer = call(function, x, y, z)
    kind = type(answer)
    assert all(one is each for one, each in zip(answer, x)) is (kind is list)
    return kind, [each.tolist() for each in (*answer, *x)]


def check(key: str, call: Any, suffix: str, device: Any) -> None:
    """Compare a call with PyTorch's."""
    kind, found = run(fw, key, call, suffix, device)
    wanted_kind, wanted = run(torch, key, call, suffix)
    assert kind is wanted_kind
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("key", CALLS)
def test_results_are_those_of_torch(key: str) -> None:
    for suffix in ("", "_"):
        check(key, CALLS[key], suffix, "cpu")


@pytest.mark.parametrize("key", WITHOUT_FORM_IN_PLACE)
def test_the_others_are_those_of_torch(key: str) -> None:
    if not hasattr(torch, key.split(",")[0]):
        pytest.skip("this PyTorch has no such function")
    check(key, WITHOUT_FORM_IN_PLACE[key], "", "cpu")


@pytest.mark.parametrize("key", ["_foreach_addcdiv", "_foreach_mul, a number"])
def test_on_a_device(key: str, gpu: GpuDevice) -> None:
    for suffix in ("", "_"):
        check(key, CALLS[key], suffix, gpu)


def test_all_of_torchs_are_here() -> None:
    theirs = {name for name in dir(torch) if name.startswith("_foreach_")}
    assert theirs <= {*FOREACH}
    assert all(getattr(fw, name) is each for name, each in FOREACH.items())


def test_what_is_no_list_of_tensors_is_refused() -> None:
    with pytest.raises(TypeError, match="must be a list of tensors"):
        fw._foreach_abs(fw.ones(2))
    with pytest.raises(TypeError, match="must be of tensors"):
        fw._foreach_abs([1.0])
    with pytest.raises(RuntimeError, match="is empty"):
        fw._foreach_add([], 1)
    with pytest.raises(RuntimeError, match="2 operands for 1 tensors"):
        fw._foreach_add([fw.ones(2)], [1.0, 2.0])
