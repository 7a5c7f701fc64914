"""Methods and operators of tensors: what they add to the ops behind them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import DeviceMismatchError, DTypeError, ShapeError

Make = Callable[..., fw.Tensor]
DATA = np.array([[0.5, -1.5, 2.0], [3.0, 0.25, -0.75]], np.float32)

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "truediv": lambda x, y: x / y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("other", [2, 0.25, DATA, DATA[0], np.float32(0.5)], ids=str)
def test_operators_with_numbers_and_arrays(name: str, other: Any, make: Make) -> None:
    function = BINARY[name]
    x = make(DATA)
    assert_close(function(x, other), function(DATA, other))
    assert_close(function(other, x), function(other, DATA))


def test_power(make: Make) -> None:
    base = np.abs(DATA)
    assert_close(make(base) ** 2, base**2)
    assert_close(make(base) ** make(DATA), base**DATA, scale=4)  # exp2 of a product
    assert_close(2 ** make(DATA), np.float32(2) ** DATA)


def test_unary_operators(make: Make) -> None:
    x = make(DATA)
    assert_close(-x, -DATA)
    assert_close(abs(x), abs(DATA))
    assert +x is x
    assert_close(x @ x.T, DATA @ DATA.T)


def test_numbers_adapt_to_the_tensor(make: Make) -> None:
    integers = make(np.array([1, 2], np.int16))
    assert (integers + 1).dtype is fw.int16
    assert (integers * 0.5).dtype is fw.float32
    assert (integers / 2).tolist() == [0.5, 1.0]
    assert (make(np.array([1, 2], np.float16)) * 2).dtype is fw.float16
    with pytest.raises(DTypeError) as raised:
        integers + 32768
    assert str(raised.value) == (
        "add: 32768 is no int16, which holds -32768 to 32767; cast the tensor to a"
        " wider dtype first"
    )


@pytest.mark.parametrize("other", ["2", None, [1, 2, 3]])
def test_what_is_no_operand(other: Any, make: Make) -> None:
    told = f"the argument `y` is a {type(other).__name__}; it must be a tensor or a"
    for call in (lambda: make(DATA) + other, lambda: ops.add(make(DATA), other)):
        with pytest.raises(TypeError, match=f"^add: {told} number$"):
            call()


@pytest.mark.core
def test_devices_do_not_mix(gpu: GpuDevice) -> None:
    with pytest.raises(DeviceMismatchError) as raised:
        fw.ones(2) + fw.ones(2, device=gpu)
    assert str(raised.value) == (
        f"add: tensors are on different devices: `x` on cpu, `y` on {gpu};"
        " move them with .to()"
    )


KINDS = {
    "bfloat16": "bfloat16", "byte": "uint8", "char": "int8", "short": "int16",
    "int": "int32", "long": "int64", "double": "float64",
}  # fmt: skip
# The ops that a user of PyTorch expects to find, by family.
EXPECTED = """
neg abs sign exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal sin cos
tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc floor ceil round trunc frac
sigmoid log_sigmoid relu relu6 leaky_relu elu selu celu gelu silu mish softplus softsign
hardswish hardsigmoid hardtanh isnan isinf isfinite logical_not bitwise_not add sub mul
div floor_divide remainder fmod pow maximum minimum atan2 hypot copysign eq ne lt le gt
ge logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor
bitwise_left_shift bitwise_right_shift where clamp lerp addcmul addcdiv sum mean prod
max min amax amin argmax argmin any all var std norm logsumexp count_nonzero cumsum
cumprod softmax log_softmax reshape view flatten permute transpose mT expand squeeze
unsqueeze flip roll pad cat stack split chunk narrow select index_select gather scatter
scatter_add take_along_dim masked_fill tril triu diag diagonal repeat tile
repeat_interleave unfold contiguous matmul bmm mv dot outer linear baddbmm einsum
tensordot conv1d conv2d conv_transpose2d im2col col2im max_pool1d max_pool2d avg_pool1d
avg_pool2d adaptive_avg_pool2d adaptive_max_pool2d interpolate layer_norm rms_norm
batch_norm group_norm instance_norm normalize dropout embedding one_hot
scaled_dot_product_attention rope swiglu mse_loss l1_loss smooth_l1_loss huber_loss
cross_entropy nll_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div sort
argsort topk kthvalue searchsorted bincount histc rand randn randint randperm bernoulli
normal uniform_ normal_ bernoulli_ exponential_ random_ multinomial zeros ones full
empty arange linspace eye tri zeros_like from_numpy from_dlpack float half bfloat16
double bool char short int long byte to
"""
# They change the shape, which in place nothing else of a view would see.
NOT_IN_PLACE = {"squeeze_", "unsqueeze_", "transpose_", "t_"}


@pytest.mark.parametrize("name", EXPECTED.split())
def test_nothing_is_missing(name: str) -> None:
    homes = (fw.Tensor, fw, ops, fw.nn.functional)
    assert any(hasattr(home, name) for home in homes)
    assert hasattr(fw.Tensor, name) or not hasattr(torch.Tensor, name)


@pytest.mark.parametrize("name", ops.NAMES)
def test_ops_are_where_pytorch_has_them(name: str) -> None:
    if hasattr(torch.Tensor, name):
        assert hasattr(fw.Tensor, name)
    if hasattr(torch.Tensor, f"{name}_") and f"{name}_" not in NOT_IN_PLACE:
        assert hasattr(fw.Tensor, f"{name}_")
    if hasattr(torch, name) and not hasattr(torch.nn.functional, name):
        assert hasattr(fw, name)


@pytest.mark.parametrize("name", sorted(set(dir(fw.Tensor)) & set(ops.NAMES)))
def test_methods_name_their_op(name: str) -> None:
    assert getattr(fw.Tensor, name).__doc__


def test_shape_methods(make: Make) -> None:
    x = make(np.arange(24, dtype=np.int32).reshape(2, 3, 4))
    data = x.numpy()
    assert_close(x.reshape(4, 6), data.reshape(4, 6))
    assert_close(x.reshape((4, -1)), data.reshape(4, 6))
    assert_close(x.view(-1), data.ravel())
    assert_close(x.permute(2, 0, 1), data.transpose(2, 0, 1))
    assert_close(x.permute((2, 0, 1)), data.transpose(2, 0, 1))
    assert_close(x.transpose(0, -1), data.swapaxes(0, -1))
    assert_close(x.T, data.T)
    assert_close(x.mT, data.swapaxes(1, 2))
    assert_close(x.flatten(1), data.reshape(2, 12))
    assert_close(x[:1].expand(5, -1, -1), np.broadcast_to(data[:1], (5, 3, 4)))
    assert_close(x.unsqueeze(-1).unsqueeze(0), data[None, ..., None])
    assert_close(x.unsqueeze(1).squeeze(1), data)
    assert x.squeeze(1) is not x
    with pytest.raises(
        ShapeError, match="squeeze: there is no dimension 3: the tensor"
    ):
        x.squeeze(3)
    with pytest.raises(ShapeError, match="unsqueeze: there is no dimension 4: "):
        x.unsqueeze(4)


def test_contiguous_and_clone(make: Make) -> None:
    x = make(DATA)
    assert x.contiguous() is x
    assert x.T.contiguous().layout.is_contiguous
    clone = x.clone()
    x.zero_()
    assert_close(clone, DATA)


def test_casts(make: Make) -> None:
    x = make(DATA)
    assert x.float() is x
    assert x.half().dtype is fw.float16
    assert_close(x.int(), DATA.astype(np.int32))
    assert_close(x.bool(), DATA.astype(bool))
    for name in ("bfloat16", "byte", "char", "short", "int", "long", "double"):
        assert getattr(fw.tensor(DATA), name)().dtype.name == KINDS[name]
    assert x.type_as(make(np.int32(1))).dtype is fw.int32
    for target in ("int32", fw.int32, np.int32, np.dtype("int32")):
        assert x.to(target).dtype is fw.int32
    assert x.to(float).dtype is fw.float64
    assert x.to(dtype="int8").dtype is fw.int8
    assert x.to("cpu", dtype=fw.int8).device is fw.device("cpu")


def test_python_conversions(make: Make) -> None:
    assert float(make([2.5])) == 2.5
    assert int(make([2.5])) == 2
    assert bool(make([[0.0]])) is False
    assert len(make(DATA)) == 2
    with pytest.raises(TypeError, match="len: a tensor without dimensions"):
        len(make(1.0))
    assert np.asarray(make(DATA)).dtype == np.float32
    assert np.asarray(make(DATA), np.float64).dtype == np.float64
    assert_close(np.add(DATA, make(DATA)), DATA + DATA)


def test_sizes(make: Make) -> None:
    x = make(DATA)
    assert x.size() == (2, 3)
    assert (x.size(-1), x.dim(), x.nelement(), x.element_size()) == (3, 2, 6, 4)
    assert x.is_floating_point()
    assert not (x > 0).is_floating_point()
    with pytest.raises(ShapeError, match="size: there is no dimension 2"):
        x.size(2)


def test_data_is_off_the_tape(make: Make) -> None:
    x = make(DATA, grad=True)
    x.data.mul_(2)
    assert_close(x, DATA * 2)
    assert x.requires_grad
    assert not x.data.requires_grad


def test_data_can_be_set(make: Make) -> None:
    x = make(DATA, grad=True)
    y = (x * x).sum()
    other = make(2 * DATA[0])
    x.data = other
    other.add_(1)
    assert_close(x, 2 * DATA[0] + 1)
    assert x.requires_grad
    y.backward()
    assert_close(x.grad, 2 * DATA)
    x.data -= 1
    assert_close(other, 2 * DATA[0])
    x.data = other.to("float16")
    assert x.dtype.name == "float16"
    with pytest.raises(DTypeError, match="data: a tensor of int32 was set on one that"):
        x.data = make(DATA, "int32")
    with pytest.raises(TypeError, match="data: a int was set; it must be a tensor"):
        x.data = 3


def test_new_tensors(make: Make) -> None:
    x = make(np.array([1, 0], np.int16))
    for found, wanted in (
        (x.new_zeros(2, 2), [[0, 0], [0, 0]]),
        (x.new_ones((1, 2)), [[1, 1]]),
        (x.new_full((2,), 7), [7, 7]),
        (x.new_tensor([3, 4]), [3, 4]),
    ):
        assert found.tolist() == wanted
        assert found.dtype is fw.int16
        assert found.device is x.device
    assert make(True).new_ones(2).tolist() == [True, True]
    assert not make(1.0, grad=True).new_zeros(2).requires_grad


def test_integers_index(make: Make) -> None:
    assert "abc"[make(np.array([1], np.int32))] == "b"
    with pytest.raises(TypeError) as raised:
        range(make(2.0))
    assert str(raised.value) == "index: the tensor is float32; it must be of integers"


def test_iteration(make: Make) -> None:
    rows = list(make(DATA))
    assert [row.tolist() for row in rows] == DATA.tolist()
    first, second = make(DATA)
    assert_close(first + second, DATA.sum(0))
    with pytest.raises(TypeError, match="a tensor without dimensions"):
        iter(make(1.0))


def test_tensors_are_keys() -> None:
    x, y = fw.ones(2), fw.ones(2)
    assert {x: 1, y: 2}[x] == 1


def test_a_scalar_is_formatted_as_a_number(make: Make) -> None:
    assert f"{make(1.5):.3f} {make(1.5)} {make(np.int8(3)):>3}" == "1.500 1.5   3"
    assert f"{make([1.5])}" == repr(make([1.5]))
    assert str(make(1.5)) == repr(make(1.5))
    with pytest.raises(TypeError, match="unsupported format string"):
        format(make([1.0]), ".2f")


def test_repr(make: Make) -> None:
    device = "" if not make(1.0).is_gpu else f", device='{make(1.0).device}'"
    assert repr(make([1.5, 2.0])) == f"tensor([1.5000, 2.0000]{device})"
    grad = repr(make([1.5], grad=True))
    assert grad == f"tensor([1.5000]{device}, requires_grad=True)"
    assert repr(make(np.int8(3))) == f"tensor(3{device}, dtype=torch.int8)"
