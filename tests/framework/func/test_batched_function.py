"""Functions of users on batches, beside PyTorch's, which derives the same rules."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import GradError


def functions(lib: Any) -> tuple[Any, Any]:
    """Return a function without a rule for batches, and one with its own."""

    class Waves(lib.autograd.Function):  # type: ignore[misc, name-defined]
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any, factor: float) -> Any:
            return x.sin() * factor, x * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            x, ctx.factor = inputs
            ctx.save_for_backward(x)

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            (x,) = ctx.saved_tensors
            return first * x.cos() * ctx.factor + 2 * second, None

    class Square(lib.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(x: Any) -> Any:
            return x * x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return 2 * grad * ctx.saved_tensors[0]

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any) -> Any:
            assert (info.batch_size, in_dims) == (2, (0,))
            return Square.apply(x), 0

    return Waves, Square


def program(lib: Any, x: Any) -> list[Any]:
    waves, square = functions(lib)
    func = lib.func

    def product(v: Any) -> Any:
        first, second = waves.apply(v, 2.0)
        return (first * second).sum()

    return [
        func.vmap(lambda v: waves.apply(v, 2.0)[0])(x),
        func.grad(product)(x),
        func.vmap(func.grad(product))(x),
        func.vmap(func.jacrev(func.jacrev(product)))(x),
        func.grad(lambda x: func.vmap(product)(x).sum())(x),
        func.vmap(func.grad(lambda v: square.apply(v).sum()))(x),
    ]


def test_batches_of_functions_are_those_of_torch(place: Device) -> None:
    data = np.float32([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    found = program(fw, fw.tensor(data, device=place))
    wanted = program(torch, torch.tensor(data))
    for own, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(own.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)


def test_gradients_are_asked_for_within_a_batch() -> None:
    x = fw.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    found = fw.func.vmap(lambda v: fw.autograd.grad((v * v).sum(), v)[0])(x)
    assert found.tolist() == [[2, 4], [6, 8]]
    with pytest.raises(GradError, match=r"func\.grad"):
        fw.func.vmap(lambda v: (v * v).sum().backward())(x)


def test_a_rule_that_is_written_and_generated_is_refused() -> None:
    class Both(fw.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any) -> Any:
            return x * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any) -> Any:
            return x * 2, 0

    with pytest.raises(GradError, match="generate_vmap_rule is True"):
        fw.func.vmap(Both.apply)(fw.ones((2, 3)))
