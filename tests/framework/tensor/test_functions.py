"""The table of functions: all are there, under names that PyTorch has."""

from typing import Any

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
T.nan_to_num(m / 0, None)
m.clone().copy_(m2, True)
T.histogram(m).bin_edges
T.view_copy(m, dtype=T.int32)
T.special.legendre_polynomial_p(0.5, i)
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


@pytest.mark.parametrize(
    "call",
    [
        lambda: fw.detach_([1.0]),
        lambda: fw.abs_(None),
        lambda: fw.where([True]),
        lambda: fw.nuclear_norm([1.0]),
        lambda: fw.nn.functional.softmax([1.0], 0),
        lambda: fw.nn.functional.log_softmax(None),
        lambda: fw.nn.functional.embedding(fw.tensor([0]), 3),
    ],
)
def test_what_is_no_tensor_is_refused_by_its_kind(call: Any) -> None:
    with pytest.raises(TypeError, match=r"it must be a tensor"):
        call()
