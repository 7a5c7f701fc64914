"""Second names of methods."""

import pytest
import torch

import vkbackend.framework as fw
from tests.torch_calls import check
from vkbackend.framework.tensor.methods import AliasMethods

CALLS = """\
m.absolute()
m.clone().subtract_(m2, alpha=2)
m.divide(m2, rounding_mode="floor")
m.swapaxes(0, 1)
m.moveaxis(0, 1)
m.greater_equal(0)
m.clone().arctan2_(m2)
""".splitlines()


def test_pytorch_has_them() -> None:
    names = [name for name in vars(AliasMethods) if not name.startswith("__")]
    assert [name for name in names if not hasattr(torch.Tensor, name)] == []
    assert all(hasattr(fw.Tensor, name) for name in names)


@pytest.mark.parametrize("call", CALLS)
def test_call(call: str) -> None:
    check(call)
