"""Convolution over volumes, and its transpose, against PyTorch."""

import warnings
from typing import Any

import pytest
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.framework.ops.twin import Make, as_in_torch
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import ShapeError

X = (2, 4, 5, 6, 7)

CALLS: list[tuple[str, tuple[tuple[int, ...], ...], dict[str, Any]]] = [
    ("conv3d", (X, (6, 4, 3, 2, 3), (6,)), {}),
    (
        "conv3d",
        (X, (6, 2, 3, 2, 3), (6,)),
        {"stride": (2, 1, 2), "padding": (1, 0, 1), "dilation": (1, 2, 1), "groups": 2},
    ),
    ("conv3d", (X[1:], (6, 4, 2, 3, 3)), {"padding": "same"}),
    ("conv_transpose3d", (X, (4, 3, 3, 2, 3), (3,)), {"stride": 2, "padding": 1}),
    (
        "conv_transpose3d",
        (X[1:], (4, 3, 2, 2, 3), (6,)),
        {"groups": 2, "dilation": (3, 2, 1), "output_padding": (2, 1, 0)},
    ),
    # Planes that no tap reaches, between others and everywhere
    ("conv_transpose3d", (X, (4, 3, 2, 2, 1), (3,)), {"stride": 3}),
    (
        "conv_transpose3d",
        ((2, 4, 1, 3, 3), (4, 3, 2, 1, 1), (3,)),
        {"dilation": (2, 1, 1), "padding": (1, 0, 0)},
    ),
    (
        "conv_transpose3d",
        (X, (4, 3, 3, 1, 2), (3,)),
        {"stride": (2, 1, 1), "dilation": (3, 1, 1), "padding": (2, 0, 0)},
    ),
]


CALLS += [
    # Windows of one pixel, of one plane, of planes that are a stride apart
    ("conv3d", (X, (6, 4, 2, 1, 1), (6,)), {"padding": (1, 0, 0)}),
    ("conv3d", (X, (6, 4, 1, 3, 3), (6,)), {"stride": (2, 1, 1)}),
    ("conv3d", (X, (6, 4, 3, 1, 1), (6,)), {"stride": (3, 1, 1), "padding": (2, 0, 0)}),
    ("conv_transpose3d", (X, (4, 3, 2, 1, 1), (3,)), {}),
    ("conv_transpose3d", (X, (4, 3, 2, 1, 1), (3,)), {"stride": (2, 1, 1)}),
    ("conv_transpose3d", (X, (4, 3, 4, 3, 3), (3,)), {"stride": 2, "padding": 1}),
    ("conv_transpose3d", (X, (4, 3, 3, 3, 3), (3,)), {"padding": 2}),
    # Planes of zeros and the bias at one end
    (
        "conv_transpose3d",
        (X, (4, 3, 2, 2, 2), (3,)),
        {"stride": 3, "output_padding": 2},
    ),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "shapes", "options"), CALLS)
def test_result_and_gradients(
    name: str, shapes: Any, options: dict[str, Any], make: Make
) -> None:
    with warnings.catch_warnings():
        # PyTorch copies the volumes for an even kernel with padding "same".
        warnings.simplefilter("ignore", UserWarning)
        call, twin = getattr(ops, name), getattr(F, name)
        as_in_torch(make, call, twin, *shapes, scale=20, **options)


def test_result_is_contiguous() -> None:
    out = ops.conv3d(fw.ones((2, 1, 3, 3, 3)), fw.ones((2, 1, 2, 2, 2)))
    assert out.view(2, 16).shape == (2, 16)


@pytest.mark.parametrize(
    ("name", "options", "most"),
    [
        # Windows of planes, the convolution
        ("conv3d", {"padding": 1}, 2),
        ("conv3d", {"stride": 2, "padding": 1, "dilation": (2, 1, 1)}, 2),
        # The transpose, and its planes summed up
        ("conv_transpose3d", {"padding": 1}, 2),
        (
            "conv_transpose3d",
            {"stride": 2, "padding": 1, "output_padding": 1},
            2,
        ),
    ],
)
def test_planes_are_not_copied(
    name: str, options: dict[str, Any], most: int, gpu: GpuDevice
) -> None:
    if not gpu.gpu.info.shader_float64:
        pytest.skip("other dtypes have several kernels, by device")
    x = fw.ones((2, 4, 4, 6, 6), "float64", gpu)
    weight = fw.ones((4, 4, 3, 3, 3), "float64", gpu)
    bias = fw.ones((4,), "float64", gpu)
    fw.eval(x, weight, bias)
    before = gpu.gpu.counters.snapshot()
    fw.eval(getattr(ops, name)(x, weight, bias, **options))
    assert (gpu.gpu.counters.snapshot() - before).dispatches <= most


def test_second_derivative(make: Make) -> None:
    def penalty(x: Any, weight: Any) -> Any:
        library: Any = ops if isinstance(x, fw.Tensor) else F
        return library.conv3d(x * x, weight, None, 1, 1).sum()

    def call(x: fw.Tensor, weight: fw.Tensor) -> fw.Tensor:
        x.grad = None
        penalty(x, weight).backward(create_graph=True)
        grad: fw.Tensor = x.grad
        x.grad = weight.grad = None
        return grad

    def twin(x: Any, weight: Any) -> Any:
        import torch

        return torch.autograd.grad(penalty(x, weight), x, create_graph=True)[0]

    as_in_torch(make, call, twin, (1, 1, 3, 3, 3), (1, 1, 2, 2, 2), scale=20)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: ops.conv3d(x, x[0]), "conv3d: weight is"),
        (lambda x: ops.conv3d(x[0, 0], x), "conv3d: x is"),
        (lambda x: ops.conv3d(x, fw.ones((1, 1, 4, 1, 1))), "do not fit a volume"),
        (lambda x: ops.conv3d(x, x, padding="full"), "padding is 'full'"),
        (lambda x: ops.conv3d(x, x, stride=(1, 2)), "conv3d: stride is"),
        (lambda x: ops.conv_transpose3d(x, x, padding=9), "would be -13 deep"),
        (lambda x: ops.conv_transpose3d(x, x, fw.ones(7)), r"bias is \(7,\)"),
    ],
)
def test_bad_arguments(call: Any, text: str) -> None:
    with pytest.raises(ShapeError, match=text):
        call(fw.ones((1, 1, 3, 3, 3)))
