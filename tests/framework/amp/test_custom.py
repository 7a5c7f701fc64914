"""Methods of functions run in the autocast state that they ask for."""

from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend.framework.amp import custom_bwd, custom_fwd


@pytest.mark.parametrize("cast", [None, fw.float32])
def test_states(cast: Any) -> None:
    seen = []

    class Product(fw.autograd.Function):
        @staticmethod
        @custom_fwd(device_type="cpu", cast_inputs=cast)
        def forward(ctx: Any, a: fw.Tensor, b: fw.Tensor) -> fw.Tensor:
            ctx.save_for_backward(a, b)
            seen.append((fw.is_autocast_enabled(), a.dtype))
            return a @ b

        @staticmethod
        @custom_bwd(device_type="cpu")
        def backward(ctx: Any, gradient: fw.Tensor) -> Any:
            a, b = ctx.saved_tensors
            seen.append((fw.is_autocast_enabled(), gradient.dtype))
            return gradient @ b.mT, a.mT @ gradient

    a = fw.ones((2, 2), dtype=fw.bfloat16, requires_grad=True)
    b = fw.ones((2, 2), dtype=fw.bfloat16, requires_grad=True)
    with fw.autocast("cpu"):
        result = Product.apply(a, b)
    result.float().sum().backward()
    kept = cast is None
    dtype = fw.bfloat16 if kept else fw.float32
    assert seen == [(kept, dtype), (kept, dtype)]
    assert result.dtype is dtype
    assert a.grad is not None
