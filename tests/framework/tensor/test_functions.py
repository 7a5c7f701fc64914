"""The table of functions: all are there, under names that PyTorch has."""

import pytest
import torch

import vkbackend.framework as fw
from tests.torch_calls import check
from vkbackend.framework.ops import matrix_functions
from vkbackend.framework.tensor.functions import ALIASES, FUNCTIONS, METHODS, OPS

CALLS = """\
T.arctan2(m, m2)
T.clip(m, min=0)
T.concat([m, m2], dim=1)
T.true_divide(i, 2)
T.row_stack((v3, v3))
T.exp_(m.clone())
T.clamp_(m.clone(), 0, 1)
""".splitlines()


def test_pytorch_has_them() -> None:
    assert [name for name in FUNCTIONS if not hasattr(torch, name)] == []
    named = [*OPS.split(), *METHODS.split()]
    named += [pair.partition(":")[0] for pair in ALIASES.split()]
    named += matrix_functions.TOP
    assert sorted(set(named)) == sorted(FUNCTIONS)
    assert all(callable(getattr(fw, name)) for name in FUNCTIONS)


@pytest.mark.parametrize("call", CALLS)
def test_call(call: str) -> None:
    check(call)
