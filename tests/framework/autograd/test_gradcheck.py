from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend.framework.autograd import GradcheckError, gradcheck, gradgradcheck


class Wrong(fw.autograd.Function):
    """Square, with a gradient that is right in its value but not in its own slope."""

    @staticmethod
    def forward(ctx: Any, x: Any, factor: float) -> Any:
        ctx.save_for_backward(x.detach())
        ctx.factor = factor
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return ctx.saved_tensors[0] * ctx.factor * grad, None


def double(*data: float) -> fw.Tensor:
    return fw.tensor(data, dtype="float64", requires_grad=True)


def test_right_gradients_pass() -> None:
    x, y = double(0.5, 1.5), double(2.0, 3.0)
    assert gradcheck(lambda x, y: (x * y.sum(), (x / y).exp()), (x, y))
    assert gradgradcheck(lambda x, y: x * x * y.sin(), [x, y])


def test_wrong_gradients_are_found() -> None:
    x = double(0.5, 1.5)
    assert gradcheck(lambda x: Wrong.apply(x, 2.0), x)
    with pytest.raises(GradcheckError, match="of output 0 by input 0"):
        gradcheck(lambda x: Wrong.apply(x, 3.0), x)
    assert not gradcheck(lambda x: Wrong.apply(x, 3.0), x, raise_exception=False)
    # What it saves is off the tape, so its gradient's gradient is missing.
    assert not gradgradcheck(lambda x: Wrong.apply(x, 2.0), x, raise_exception=False)


def test_without_gradients_there_is_nothing_to_check() -> None:
    with pytest.raises(ValueError, match="requires a gradient"):
        gradcheck(lambda x: x * 2, fw.ones(2))


def test_complex_gradients() -> None:
    x = fw.complex(double(0.5, -1.5), double(2.0, 3.0)).detach().requires_grad_()
    y = double(0.5, 1.5)
    assert gradcheck(lambda x, y: (x * x * y, x.abs(), x.conj()), (x, y))
    assert gradgradcheck(lambda x: x * x.conj() * x, x)

    class Conjugated(fw.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2j

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2j

    with pytest.raises(GradcheckError, match="by finite"):
        gradcheck(Conjugated.apply, x)


def test_a_function_of_integers_must_be_constant() -> None:
    x = double(0.5, 1.5)
    assert gradcheck(lambda x: x.argmax(), x)
    with pytest.raises(GradcheckError, match="of output 0 by input 0"):
        gradcheck(lambda x: (x.detach() * 1e7).long(), x)


def test_inputs_that_repeat_elements_are_refused() -> None:
    x = double(0.5).expand(3).detach().requires_grad_()
    with pytest.raises(GradcheckError, match="repeats elements"):
        gradcheck(lambda x: x * 2, x)
