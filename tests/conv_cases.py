"""Rows of the op table for convolution and for images as columns."""

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

from tests.case import Bad, Case, Sample, sample
from vkbackend.framework import ops
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.kernels.conv.problem import Convolution
from vkbackend.framework.kernels.conv.window import Window

MOVED = {
    "kernel_size": (3, 2),
    "dilation": (1, 2),
    "padding": (2, 1),
    "stride": (2, 3),
}

# Images, filters, and how the filters move; the last has groups and unequal numbers.
CONVOLUTIONS: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 3, 7, 11), (5, 3, 3, 3), {"padding": 1}),
    ((3, 4, 5, 9), (4, 4, 1, 1), {"stride": 2}),
    (
        (2, 4, 11, 13),
        (6, 2, 3, 2),
        {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 3), "groups": 2},
    ),
    ((0, 3, 5, 5), (4, 3, 3, 3), {"padding": 1}),
    ((1, 1, 1, 1), (1, 1, 1, 1), {}),
)


def window(weight: tuple[int, ...], options: dict[str, Any]) -> Window:
    """Return the window that options of a convolution mean."""

    def both(value: Any) -> tuple[int, int]:
        return value if isinstance(value, tuple) else (value, value)

    return Window(
        (weight[2], weight[3]),
        both(options.get("stride", 1)),
        both(options.get("padding", 0)),
        both(options.get("dilation", 1)),
    )


def input_vjp_samples() -> tuple[Sample, ...]:
    """Return gradients, filters and a bias of each convolution."""
    found = []
    for x, weight, options in CONVOLUTIONS:
        size = window(weight, options).output(*x[2:])
        grad = (x[0], weight[0], *size)
        bias = (weight[1] * options.get("groups", 1),)
        found.append(sample(grad, weight, bias, size=x[2:], options=options))
    return tuple(found)


def weight_vjp_samples() -> tuple[Sample, ...]:
    """Return gradients and images of each convolution."""
    found = []
    for x, weight, options in CONVOLUTIONS:
        size = window(weight, options).output(*x[2:])
        grad = (x[0], weight[0], *size)
        found.append(sample(grad, x, weight=weight, options=options))
    return tuple(found)


def input_vjp(
    grad: Any, weight: Any, bias: Any, size: Any, options: dict[str, Any]
) -> Any:
    """Call the op with the options of its convolution."""
    frame = window(weight.shape, options)
    how = Convolution(frame, options.get("groups", 1), "")
    return REGISTRY["conv2d_input_vjp"](grad, weight, bias, size, how)


def torch_input_vjp(
    grad: Any, weight: Any, bias: Any, size: Any, options: dict[str, Any]
) -> Any:
    """Answer as PyTorch does."""
    channels = weight.shape[1] * options.get("groups", 1)
    shape = (grad.shape[0], channels, *size)
    out = torch.nn.grad.conv2d_input(shape, weight, grad, **options)
    return out + bias[:, None, None]


def weight_vjp(grad: Any, x: Any, weight: Any, options: dict[str, Any]) -> Any:
    """Call the op with the options of its convolution."""
    frame = window(weight, options)
    how = Convolution(frame, options.get("groups", 1), "")
    return REGISTRY["conv2d_weight_vjp"](grad, x, how)


CONVOLUTION = {
    "conv2d": Case(
        ops.conv2d,
        (
            *(
                sample(x, weight, (weight[0],), **options)
                for x, weight, options in CONVOLUTIONS
            ),
            sample((2, 3, 7, 7), (4, 3, 5, 5)),
        ),
        torch=F.conv2d,
        scale=20,  # dozens of terms of size 4, in any order
        bad=(
            Bad(
                lambda ones: ops.conv2d(ones(1, 2, 5, 5), ones(4, 3, 3, 3)),
                ShapeError,
                "conv2d: x has 2 channels, weight is (4, 3, 3, 3), groups 1; x must"
                " have weight.shape[1] * groups = 3 channels, and groups must divide"
                " weight.shape[0]",
            ),
            Bad(
                lambda ones: ops.conv2d(ones(1, 3, 5, 5), ones(4, 3, 3, 3), ones(3)),
                ShapeError,
                "conv2d: bias is (3,); it must be (4,)",
            ),
            Bad(
                lambda ones: ops.conv2d(ones(1, 3, 2, 5), ones(4, 3, 3, 3)),
                ShapeError,
                "conv2d: a window of (3, 3) with dilation (1, 1) does not fit an image"
                " of (2, 5) with padding (0, 0)",
            ),
            Bad(
                lambda ones: ops.conv2d(ones(1, 3, 5, 5), ones(4, 3, 3, 3), stride=0),
                ShapeError,
                "conv2d: stride is 0; it must be one number or (height, width), each"
                " at least 1",
            ),
        ),
    ),
    "conv2d_input_vjp": Case(
        input_vjp, input_vjp_samples(), torch=torch_input_vjp, scale=20
    ),
    "conv2d_weight_vjp": Case(
        weight_vjp,
        weight_vjp_samples(),
        torch=lambda grad, x, weight, options: torch.nn.grad.conv2d_weight(
            x, weight, grad, **options
        ),
        scale=50,  # hundreds of terms of size 4
    ),
    "im2col": Case(
        ops.im2col,
        (
            sample((2, 3, 7, 11), kernel_size=2),
            sample((2, 3, 7, 11), **MOVED),
            sample((3, 5, 9), kernel_size=3),
            sample((0, 3, 4, 4), kernel_size=2),
            sample((1, 1, 1, 1), kernel_size=1),
        ),
        torch=F.unfold,
        exact=True,
        bad=(
            Bad(
                lambda ones: ops.im2col(ones(5, 5), 2),
                ShapeError,
                "im2col: x is (5, 5); it must be 4-D, or 3-D without a batch",
            ),
            Bad(
                lambda ones: ops.im2col(ones(1, 3, 5, 5), 6),
                ShapeError,
                "im2col: a window of (6, 6) with dilation (1, 1) does not fit an image"
                " of (5, 5) with padding (0, 0)",
            ),
        ),
    ),
    "col2im": Case(
        ops.col2im,
        (
            sample((3, 12, 60), output_size=(7, 11), kernel_size=2),
            sample((2, 18, 20), output_size=(7, 11), **MOVED),
            sample((27, 21), output_size=(5, 9), kernel_size=3),
            sample((0, 12, 9), output_size=4, kernel_size=2),
            sample((1, 1, 1), output_size=1, kernel_size=1),
        ),
        torch=F.fold,
        scale=4,  # nine terms, in any order
        bad=(
            Bad(
                lambda ones: ops.col2im(ones(2, 12, 60), (7, 10), 2),
                ShapeError,
                "col2im: x is (2, 12, 60); for images of (7, 10) and windows of (2, 2)"
                " it must be (batch, channels * 4, 54), or without batch",
            ),
        ),
    ),
}
