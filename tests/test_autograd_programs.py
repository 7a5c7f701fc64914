"""Programs on autograd return what they return with PyTorch."""

import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests import (
    autograd_graph_programs,
    autograd_node_programs,
    autograd_programs,
)

NOT_PROGRAMS = {"raised", "ramp", "warned"}
SINCE_213 = {"functions_with_keywords", "graph_of_a_copied_part"}
"""Programs that earlier versions of PyTorch refuse, or whose node they do not name."""


def programs(module: types.ModuleType) -> list[Any]:
    """Return the programs of a module."""
    return [
        pytest.param(
            value, id=name, marks=[pytest.mark.torch213] if name in SINCE_213 else []
        )
        for name, value in vars(module).items()
        if isinstance(value, types.FunctionType)
        and not name.startswith("_")
        and name not in NOT_PROGRAMS
    ]


def plain(value: Any) -> Any:
    """Return a result without the library's own types, to be compared."""
    if isinstance(value, torch.Tensor | fw.Tensor):
        value = value.detach()
        return str(value.dtype), np.asarray(value.tolist(), dtype=np.complex128)
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return value


def compare(found: Any, wanted: Any, where: str = "") -> None:
    """Compare what `plain` returned."""
    if isinstance(wanted, list):
        assert isinstance(found, list), f"{where}: {found} instead of {wanted}"
        assert len(found) == len(wanted), f"{where}: {found} instead of {wanted}"
        for at, (one, other) in enumerate(zip(found, wanted)):
            compare(one, other, f"{where}[{at}]")
    elif isinstance(wanted, tuple):
        assert isinstance(found, tuple), f"{where}: {found} instead of {wanted}"
        assert found[0] == wanted[0], f"{where}: {found[0]} instead of {wanted[0]}"
        assert found[1].shape == wanted[1].shape, where
        np.testing.assert_allclose(found[1], wanted[1], 2e-5, 2e-5, err_msg=where)
    elif isinstance(wanted, autograd_programs.Raised):
        assert isinstance(found, autograd_programs.Raised)
        same = wanted.names[:1] == found.names[:1]
        assert same or wanted.names[0] in found.names, f"{where}: {found}, {wanted}"
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=1e-5), where
    else:
        assert found == wanted, f"{where}: {found!r} instead of {wanted!r}"


def run(program: Callable[[Any], Any], library: Any) -> Any:
    """Return what a program returns with a library."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plain(program(library))


@pytest.mark.parametrize(
    "program",
    [
        *programs(autograd_programs),
        *programs(autograd_graph_programs),
        *programs(autograd_node_programs),
    ],
)
def test_the_results_are_those_of_torch(program: Callable[[Any], Any]) -> None:
    compare(run(program, fw), run(program, torch))
