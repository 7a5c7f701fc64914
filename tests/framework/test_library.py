"""Functions that count as one op, beside PyTorch's."""

from typing import Any

import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import library
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import GradError


def program(lib: Any, tensor: Any) -> list[Any]:
    """Define ops and return what they give, with gradients."""

    @lib.library.custom_op("tests_vk::scaled", mutates_args=())
    def scaled(
        x: lib.Tensor, y: lib.Tensor, factor: float, *, shift: float = 1.0
    ) -> lib.Tensor:
        return x.sin() * y * factor + shift

    @scaled.register_fake
    def _(x: Any, y: Any, factor: float, *, shift: float = 1.0) -> Any:
        return lib.empty_like(x)

    def setup(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
        x, y, ctx.factor = inputs
        ctx.save_for_backward(x, y)

    def backward(ctx: Any, grad: Any) -> Any:
        x, y = ctx.saved_tensors
        return grad * x.cos() * y * ctx.factor, grad * x.sin() * ctx.factor, None

    scaled.register_autograd(backward, setup_context=setup)
    x, y = tensor([0.5, 1.0]), tensor([2.0, 3.0])
    first = scaled(x, y, 2.0)
    second = lib.ops.tests_vk.scaled(x, y, factor=0.5, shift=3.0)
    (first * second).sum().backward()
    return [first, second, x.grad, y.grad]


def test_is_as_in_torch(place: Device) -> None:
    found = program(fw, lambda x: fw.tensor(x, device=place, requires_grad=True))
    wanted = program(torch, lambda x: torch.tensor(x, requires_grad=True))
    for one, other in zip(found, wanted):
        assert_close(one, other.detach().numpy(), scale=4)


def test_without_a_rule_backward_says_so() -> None:
    made = library.custom_op("tests_vk::plain", lambda x: x * 2, mutates_args=())
    y = made(fw.ones(2, requires_grad=True))
    assert y.tolist() == [2, 2]
    assert y.requires_grad
    with pytest.raises(GradError, match="register_autograd"):
        y.sum().backward()


def test_devices_have_kernels(place: Device) -> None:
    made = library.custom_op("tests_vk::where", mutates_args=(), device_types="cpu")(
        lambda x: x + 1
    )
    x = fw.zeros(1, device=place)
    if place.type != "cpu":
        with pytest.raises(NotImplementedError, match="one for cpu"):
            made(x)
    library.register_kernel("tests_vk::where", "gpu", lambda x: x + 2)
    assert made(x).item() == (1 if place.type == "cpu" else 2)


def test_refusals() -> None:
    with pytest.raises(NotImplementedError, match="custom_op"):
        library.Library("mine", "DEF")
    for name in ("plain", "::x", "a::", "matmul::x"):
        with pytest.raises(ValueError, match="custom_op"):
            library.custom_op(name, lambda x: x, mutates_args=())
    with pytest.raises(ValueError, match="there is no op"):
        library.register_fake("tests_vk::nothing")
