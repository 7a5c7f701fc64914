"""Autocast by statements, beside PyTorch's."""

from typing import Any

import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.errors import DTypeError


def product(lib: Any) -> str:
    """Return the dtype of a product."""
    a = lib.ones(2, 2)
    return str((a @ a).dtype)


def statements(lib: Any) -> list[Any]:
    """Return what is in force between statements."""
    found: list[Any] = [lib.is_autocast_enabled("cpu"), product(lib)]
    before = lib.get_autocast_dtype("cpu")
    lib.set_autocast_enabled("cpu", True)
    try:
        found += [lib.is_autocast_enabled("cpu"), product(lib)]
        lib.set_autocast_dtype("cpu", lib.float16)
        found += [product(lib), str(lib.get_autocast_dtype("cpu"))]
        with lib.autocast("cpu", enabled=False):
            found += [product(lib)]
            lib.set_autocast_enabled("cpu", True)
            found += [product(lib)]
    finally:
        lib.set_autocast_enabled("cpu", False)
    found += [lib.is_autocast_enabled("cpu"), product(lib)]
    with lib.autocast("cpu"):
        found += [product(lib)]
    lib.set_autocast_dtype("cpu", before)
    with lib.autocast("cpu"):
        found += [product(lib)]
    found += [lib.autocast_increment_nesting(), lib.autocast_increment_nesting()]
    found += [lib.autocast_decrement_nesting(), lib.autocast_decrement_nesting()]
    lib.set_autocast_cache_enabled(False)
    found += [lib.is_autocast_cache_enabled()]
    lib.set_autocast_cache_enabled(True)
    found += [lib.is_autocast_cache_enabled()]
    lib.clear_autocast_cache()
    return found


def test_statements_are_those_of_torch() -> None:
    assert statements(fw) == statements(torch)


def test_old_names_set_the_same() -> None:
    fw.set_autocast_gpu_dtype(fw.bfloat16)
    assert fw.get_autocast_gpu_dtype() is fw.bfloat16
    fw.set_autocast_gpu_dtype(fw.float16)
    fw.set_autocast_cpu_enabled(True)
    assert fw.is_autocast_enabled()
    fw.set_autocast_enabled(False)
    assert not fw.is_autocast_enabled()
    fw.set_autocast_cpu_dtype(fw.bfloat16)
    assert fw.get_autocast_cpu_dtype() is fw.bfloat16


def test_what_is_cast_is_forgotten_by_hand() -> None:
    weight = fw.ones(2, 2, requires_grad=True)
    with fw.autocast("cpu"):
        first = weight @ weight
        fw.clear_autocast_cache()
        second = weight @ weight
    assert first.tolist() == second.tolist()


def test_other_arguments_are_refused() -> None:
    with pytest.raises(DTypeError, match="must be float16"):
        fw.set_autocast_dtype("cpu", fw.float64)
    with pytest.raises(TypeError, match="must be a type of device and a bool"):
        fw.set_autocast_enabled("cpu", 1)  # type: ignore[arg-type]  # no bool
