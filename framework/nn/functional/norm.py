"""Normalisation under PyTorch's signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import ops
from ...base.errors import ShapeError
from ...dispatch.autocast_policy import autocast_float32_on_host
from ...eager.base_tensor import need_tensors
from ...tensor.out import write
from ...tensor.tensor import Tensor


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Return each channel normalised over the batch; see `ops.batch_norm`."""
    return ops.batch_norm(
        input,
        running_mean,
        running_var,
        weight,
        bias,
        training=training,
        momentum=momentum,
        eps=eps,
    )


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Return each channel of each sample normalised; see `ops.instance_norm`."""
    return ops.instance_norm(
        input,
        running_mean,
        running_var,
        weight,
        bias,
        use_input_stats,
        momentum,
        eps,
    )


def layer_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Return the last dimensions normalised; see `ops.layer_norm`."""
    need_tensors("layer_norm", input=input)
    if input.is_wrapper:
        wrapper: Any = input
        found: Tensor = wrapper.on_rows(
            "layer_norm",
            lambda x: ops.layer_norm(x, normalized_shape, weight, bias, eps),
        )
        return found
    return ops.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Return the last dimensions by their root mean square; see `ops.rms_norm`."""
    need_tensors("rms_norm", input=input)
    if input.is_wrapper:
        wrapper: Any = input
        found: Tensor = wrapper.on_rows(
            "rms_norm", lambda x: ops.rms_norm(x, normalized_shape, weight, eps)
        )
        return found
    return ops.rms_norm(input, normalized_shape, weight, eps)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Return groups of channels normalised in each sample; see `ops.group_norm`."""
    return ops.group_norm(input, num_groups, weight, bias, eps)


def normalize(
    input: Tensor,
    p: float = 2.0,
    dim: int | tuple[int, ...] = 1,
    eps: float = 1e-12,
    out: Tensor | None = None,
) -> Tensor:
    """Return vectors divided by their norms; see `ops.normalize`.

    Parameters
    ----------
    input : Tensor, float
    p : float, default 2
    dim : int or tuple of int, default 1
    eps : float, default 1e-12
    out : Tensor or None
        Where the result is written; it is returned then.
    """
    result = ops.normalize(input, p, dim, eps)
    return result if out is None else write("normalize", out, result)


def local_response_norm(
    input: Tensor,
    size: int,
    alpha: float = 1e-4,
    beta: float = 0.75,
    k: float = 1.0,
) -> Tensor:
    """Return `input` divided by a power of the squares in neighbouring channels.

    Each element is divided by (k + alpha * mean)^beta, of the squares in the `size`
    channels around it; channels beyond the ends count as 0.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, ...), float
    size : int
        Channels in the mean.
    alpha, beta, k : float, default 1e-4, 0.75, 1

    Raises
    ------
    ShapeError
        If `input` has fewer than three dimensions.

    Notes
    -----
    Source: Krizhevsky, Sutskever and Hinton, ImageNet Classification with Deep
    Convolutional Neural Networks, 2012.
    """
    if len(input.layout.shape) < 3:
        raise ShapeError(
            f"local_response_norm: input is {tuple(input.shape)}; it must be (batch,"
            " channels,"
            " ...) with at least 3 dimensions"
        )
    if input.numel() == 0:
        return input
    batch, channels = input.layout.shape[:2]
    planes = ops.reshape(ops.square(input), (batch, 1, channels, -1))
    padded = ops.pad(planes, (0, 0, size // 2, (size - 1) // 2))
    averaged = _averaged_images if input.ndim > 3 else ops.avg_pool2d
    means = averaged(padded, (size, 1), 1)
    return input / ops.pow(ops.reshape(means, input.layout.shape) * alpha + k, beta)


# In PyTorch it is `avg_pool3d` for images, which is on a list of autocast.
_averaged_images = autocast_float32_on_host(ops.avg_pool2d)
