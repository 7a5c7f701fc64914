"""Questions about tensors, beside PyTorch's."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import vkbackend.framework as fw

CALLS: list[Callable[[Any], Any]] = [
    lambda t: t.is_tensor(t.ones(1)),
    lambda t: t.is_tensor([1]),
    lambda t: t.is_floating_point(t.ones(1)),
    lambda t: t.is_floating_point(t.ones(1, dtype=t.long)),
    lambda t: t.is_complex(t.ones(1)),
    lambda t: t.is_signed(t.ones(1, dtype=t.uint8)),
    lambda t: t.is_nonzero(t.tensor([2])),
    lambda t: t.is_conj(t.ones(1)),
    lambda t: t.is_storage(t.ones(1).untyped_storage()),
    lambda t: t.numel(t.ones(2, 3)),
    lambda t: t.clone(t.ones(2), memory_format=t.preserve_format).tolist(),
    lambda t: t.detach(t.ones(2, requires_grad=True)).requires_grad,
    lambda t: t.typename(t.ones(1)),
    lambda t: t.typename([]),
]


@pytest.mark.parametrize("call", CALLS)
def test_as_pytorch(call: Callable[[Any], Any]) -> None:
    assert call(fw) == call(torch)


def test_tensors_are_asked() -> None:
    with pytest.raises(TypeError, match=r"^numel: a list is given; it must be a"):
        fw.numel([1])  # type: ignore[arg-type]
