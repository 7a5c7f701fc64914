"""Rows of the op table for normalisation and embedding."""

from typing import Any

import numpy as np
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.case import Bad, Case, Draw, Sample, sample
from vkbackend.framework import ops
from vkbackend.framework.base.errors import DTypeError, IndexRangeError, ShapeError
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.ops.reduce.multi_tensor_norm import CHUNK, MOST_TENSORS


def moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and biased variance of each channel."""
    wide = x.astype(np.float64)
    statistic = np.float64 if x.dtype == np.float64 else np.float32
    mean, variance = wide.mean((0, 2)), wide.var((0, 2))
    return mean.astype(statistic), variance.astype(statistic)


def norm_sums(
    grad: np.ndarray, x: np.ndarray, mean: np.ndarray, inverse_std: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return sums of gradients, and of them times normalised elements."""
    statistic = np.float64 if x.dtype == np.float64 else np.float32
    x, grad, mean, inverse_std = (
        each.astype(statistic) for each in (x, grad, mean, inverse_std)
    )
    normalized = (x - mean[:, None]) * inverse_std[:, None]
    return grad.sum((0, 2)), (grad * normalized).sum((0, 2))


CHANNELS = (
    ((3, 5, 7), (5, 1)),
    ((2, 3, 4, 5), (2, 3, 1, 1)),
    ((3, 0, 7), (0, 1)),
    ((1, 1, 1), (1, 1)),
)
"""Shapes of what is normalised, and of its statistics."""

ROWS = (((3, 7), (3, 1)), ((2, 3, 5), (2, 1, 5)), ((0, 7), (0, 1)), ((1, 1), (1, 1)))
"""Shapes of what has rows, and of a number for each."""


def of_normalized(
    scaled: Any, x: Any, mean: Any, inverse_std: Any, one: Any, two: Any, share: float
) -> Any:
    """Return the gradient of what is normalised, in NumPy or PyTorch."""
    y = (x - mean) * inverse_std
    return (scaled - one * share - y * (two * share)) * inverse_std


def statistic(x: fw.Tensor) -> fw.Tensor:
    """Return numbers as ops keep statistics: in float32 or wider."""
    return x if x.dtype.itemsize > 2 else x.float()


def normalized(
    x: np.ndarray, mean: np.ndarray, inverse_std: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows less their means, times factors, and these factors, in float64."""
    mean, spread = (each.astype(np.float64)[:, None] for each in (mean, inverse_std))
    return (x.astype(np.float64) - mean) * spread, spread


def row_gradient(
    grad: np.ndarray,
    x: np.ndarray,
    weight: np.ndarray,
    mean: np.ndarray,
    inverse_std: np.ndarray,
) -> np.ndarray:
    """Return the gradient of layer norm by rows whose statistics are given."""
    y, spread = normalized(x, mean, inverse_std)
    inner = grad.astype(np.float64) * weight
    parts = inner.mean(1, keepdims=True) + y * (inner * y).mean(1, keepdims=True)
    return ((inner - parts) * spread).astype(x.dtype)


def column_sums(
    grad: np.ndarray, x: np.ndarray, mean: np.ndarray, inverse_std: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradients of layer norm by weight and bias."""
    y, _ = normalized(x, mean, inverse_std)
    statistic = np.float64 if x.dtype == np.float64 else np.float32
    wide = grad.astype(np.float64)
    return (wide * y).sum(0).astype(statistic), wide.sum(0).astype(statistic)


def chunk_squares(*arrays: np.ndarray) -> np.ndarray:
    """Return the sum of squares of each chunk of each array."""
    wide = np.float64 if arrays[0].dtype == np.float64 else np.float32
    sums = [
        np.square(part.astype(np.float64)).sum()
        for array in arrays
        for part in np.array_split(array.reshape(-1), range(CHUNK, array.size, CHUNK))
        if part.size
    ]
    return np.array(sums, wide)


NORMALIZATION = {
    "multi_tensor_square_sum": Case(
        lambda *tensors: REGISTRY["multi_tensor_square_sum"](*tensors),
        (
            sample((7, 11), (), (CHUNK + 3,), (5,)),
            sample((1,)),
            sample((0,), (0, 3)),
            sample(*[(k + 1,) for k in range(MOST_TENSORS)]),
        ),
        chunk_squares,
        gradient=False,
        bad=(
            Bad(
                lambda ones: REGISTRY["multi_tensor_square_sum"](
                    ones(2), ones(2, dtype="float16")
                ),
                DTypeError,
                "multi_tensor_square_sum: x0 is float32, x1 is float16; they must be"
                " the same",
            ),
        ),
    ),
    "batch_norm_moments": Case(
        REGISTRY["batch_norm_moments"],
        (
            sample((3, 5, 7)),
            sample((13, 2, 64)),
            sample((2, 3, 1)),
            sample((3, 0, 7)),
            sample((1, 1, 1)),
        ),
        moments,
        gradient=False,
        scale=10,  # sums of hundreds of terms
    ),
    "batch_norm_sums": Case(
        lambda grad, x, mean, inverse_std: REGISTRY["batch_norm_sums"](
            grad, x, statistic(mean), statistic(inverse_std)
        ),
        (
            sample((3, 5, 7), (3, 5, 7), (5,), (5,)),
            sample((13, 2, 64), (13, 2, 64), (2,), (2,)),
            sample((3, 0, 7), (3, 0, 7), (0,), (0,)),
            sample((1, 1, 1), (1, 1, 1), (1,), (1,)),
        ),
        norm_sums,
        gradient=False,
        scale=100,  # sums of hundreds of terms of size 16
    ),
    "inverse_deviation": Case(
        REGISTRY["inverse_deviation"],
        tuple(
            Sample((Draw(shape, 0.5, 4),), {"eps": 0.25})
            for shape in ((7, 11), (5, 1), (0, 3), (1,))
        ),
        lambda variance, eps: (1 / np.sqrt(variance + eps)).astype(variance.dtype),
        lambda variance, eps: (variance + eps).rsqrt(),
        gradient=False,
        scale=4,  # the oracles round a float16 three times
    ),
    "normalized": Case(
        REGISTRY["normalized"],
        tuple(sample(whole, *4 * (each,)) for whole, each in CHANNELS),
        lambda x, mean, inverse_std, weight, bias: (
            (x - mean) * (inverse_std * weight) + bias
        ),
        lambda x, mean, inverse_std, weight, bias: (
            (x - mean) * (inverse_std * weight) + bias
        ),
        gradient=False,
        scale=16,  # the oracles round a float16 four times
    ),
    "normalized_vjp": Case(
        REGISTRY["normalized_vjp"],
        tuple(
            sample(whole, whole, *4 * (each,), share=0.25) for whole, each in CHANNELS
        ),
        of_normalized,
        of_normalized,
        gradient=False,
        scale=64,  # the oracles round a float16 eight times
    ),
    "softmax_element": Case(
        REGISTRY["softmax_element"],
        tuple(
            Sample((Draw(whole, -4, 4), Draw(each, 4, 5), Draw(each, 1, 3)), {})
            for whole, each in ROWS
        ),
        lambda x, greatest, total: np.exp(x - greatest) / total,
        lambda x, greatest, total: (x - greatest).exp() / total,
        gradient=False,
        scale=16,  # the oracles round a float16 exponent of up to 9
    ),
    "log_softmax_element": Case(
        REGISTRY["log_softmax_element"],
        tuple(sample(whole, each, each) for whole, each in ROWS),
        lambda x, greatest, log_total: x - greatest - log_total,
        lambda x, greatest, log_total: x - greatest - log_total,
        gradient=False,
        scale=4,  # the oracles round a float16 twice
    ),
    "softmax_element_vjp": Case(
        REGISTRY["softmax_element_vjp"],
        tuple(sample(whole, whole, each) for whole, each in ROWS),
        lambda grad, y, shared: y * (grad - shared),
        lambda grad, y, shared: y * (grad - shared),
        gradient=False,
        scale=4,  # the oracles round a float16 twice
    ),
    "log_softmax_element_vjp": Case(
        REGISTRY["log_softmax_element_vjp"],
        tuple(sample(whole, whole, each) for whole, each in ROWS),
        lambda grad, y, shared: grad - np.exp(y) * shared,
        lambda grad, y, shared: grad - y.exp() * shared,
        gradient=False,
        scale=16,  # the oracles round a float16 three times
    ),
    "batch_norm_tracked": Case(
        lambda x, weight, bias: REGISTRY["batch_norm_tracked"](
            x, weight, bias, statistic(weight), statistic(bias), 1e-5, 0.1
        )[0],
        (sample((5, 3), (3,), (3,)), sample((3, 5, 4, 7), (5,), (5,))),
        torch=lambda x, weight, bias: F.batch_norm(
            x, None, None, weight, bias, training=True
        ),
        scale=10,  # deviations from a mean that is itself a sum
    ),
    "batch_norm_train": Case(
        lambda x, weight, bias: ops.batch_norm(
            x, None, None, weight, bias, training=True
        ),
        (
            sample((5, 3), (3,), (3,)),
            sample((3, 5, 4, 7), (5,), (5,)),
        ),
        torch=lambda x, weight, bias: F.batch_norm(
            x, None, None, weight, bias, training=True
        ),
        scale=10,  # deviations from a mean that is itself a sum
        bad=(
            Bad(
                lambda ones: ops.batch_norm(ones(3), None, None, training=True),
                ShapeError,
                "batch_norm: x is (3,); it must be (batch, channels, ...)",
            ),
            Bad(
                lambda ones: ops.batch_norm(ones(1, 3), None, None, training=True),
                ShapeError,
                "batch_norm: training needs at least two values per channel; x is"
                " (1, 3)",
            ),
            Bad(
                lambda ones: ops.batch_norm(ones(2, 3), None, None),
                ShapeError,
                "batch_norm: not training needs running_mean and running_var",
            ),
        ),
    ),
    "layer_norm": Case(
        lambda x, weight=None, bias=None, dims=1: ops.layer_norm(
            x, x.shape[-dims:], weight, bias
        ),
        (
            sample((7, 11), (11,), (11,)),
            sample((3, 5, 7), (5, 7), (5, 7), dims=2),
            sample((5, 4), (4,)),
            sample((2, 1031)),
            sample((131, 3), (3,), (3,)),
            sample((0, 3), (3,), (3,)),
            sample((1, 1), (1,), (1,)),
        ),
        torch=lambda x, weight=None, bias=None, dims=1: F.layer_norm(
            x, x.shape[-dims:], weight, bias
        ),
        scale=20,  # deviations from a mean that is itself a sum
        bad=(
            Bad(
                lambda ones: ops.layer_norm(ones(4, 3), 4),
                ShapeError,
                "layer_norm: x is (4, 3), normalized_shape (4,); x must end with it,"
                " and it must have at least one dimension",
            ),
            Bad(
                lambda ones: ops.layer_norm(ones(4, 3), (3,), ones(4)),
                ShapeError,
                "layer_norm: weight is (4,); it must be (3,)",
            ),
            Bad(
                lambda ones: ops.rms_norm(ones(4, 3), ()),
                ShapeError,
                "rms_norm: x is (4, 3), normalized_shape (); x must end with it, and"
                " it must have at least one dimension",
            ),
        ),
    ),
    "composed_layer_norm": Case(
        lambda x, weight, bias, centred=True: REGISTRY["composed_layer_norm"](
            x, statistic(weight), statistic(bias), 1e-5, centred
        )[0],
        (
            sample((7, 11), (11,), (11,)),
            sample((5, 4), (4,), (4,), centred=False),
            sample((0, 3), (3,), (3,)),
            sample((1, 1), (1,), (1,)),
        ),
        torch=lambda x, weight, bias, centred=True: (
            F.layer_norm(x, x.shape[1:], weight, bias)
            if centred
            else F.rms_norm(x, x.shape[1:], weight, 1e-5) + bias
        ),
        scale=20,  # deviations from a mean that is itself a sum
    ),
    "split_layer_norm": Case(
        lambda x, weight, bias, centred=True: REGISTRY["split_layer_norm"](
            x, statistic(weight), statistic(bias), 1e-5, centred
        )[0],
        (
            sample((7, 11), (11,), (11,)),
            sample((5, 4), (4,), (4,), centred=False),
            sample((1, 1), (1,), (1,)),
        ),
        torch=lambda x, weight, bias, centred=True: (
            F.layer_norm(x, x.shape[1:], weight, bias)
            if centred
            else F.rms_norm(x, x.shape[1:], weight, 1e-5) + bias
        ),
        scale=20,  # deviations from a mean that is itself a sum
    ),
    "layer_norm_dx": Case(
        lambda grad, x, weight, mean, inverse_std: REGISTRY["layer_norm_dx"](
            grad, x, *map(statistic, (weight, mean, inverse_std)), True
        ),
        (
            sample((7, 11), (7, 11), (11,), (7,), (7,)),
            sample((0, 11), (0, 11), (11,), (0,), (0,)),
            sample((1, 1), (1, 1), (1,), (1,), (1,)),
        ),
        row_gradient,
        gradient=False,
        scale=50,  # means of products of four numbers up to 2
    ),
    "layer_norm_dgamma": Case(
        lambda grad, x, mean, inverse_std: REGISTRY["layer_norm_dgamma"](
            grad, x, *map(statistic, (mean, inverse_std)), True
        ),
        (
            sample((7, 11), (7, 11), (7,), (7,)),
            # More than one chunk of rows.
            sample((5000, 2), (5000, 2), (5000,), (5000,)),
            sample((0, 2), (0, 2), (0,), (0,)),
            sample((1, 1), (1, 1), (1,), (1,)),
        ),
        column_sums,
        gradient=False,
        scale=500,  # sums of thousands of terms of size 16
    ),
    "layer_norm_dx_dgamma": Case(
        lambda grad, x, weight, mean, inverse_std: REGISTRY["layer_norm_dx_dgamma"](
            grad, x, *map(statistic, (weight, mean, inverse_std)), True
        ),
        (
            sample((7, 11), (7, 11), (11,), (7,), (7,)),
            sample((0, 11), (0, 11), (11,), (0,), (0,)),
            sample((1, 1), (1, 1), (1,), (1,), (1,)),
        ),
        lambda grad, x, weight, mean, inverse_std: (
            row_gradient(grad, x, weight, mean, inverse_std),
            *column_sums(grad, x, mean, inverse_std),
        ),
        gradient=False,
        scale=50,  # means of products of four numbers up to 2
    ),
    "group_norm": Case(
        ops.group_norm,
        (
            sample((3, 6, 5), num_groups=2),
            sample((2, 4, 3, 4), num_groups=1),
            sample((5, 3, 2), num_groups=3),
            sample((0, 6, 5), num_groups=2),
        ),
        torch=F.group_norm,
        scale=20,  # deviations from a mean that is itself a sum
        bad=(
            Bad(
                lambda ones: ops.group_norm(ones(2, 5, 3), 2),
                ShapeError,
                "group_norm: x is (2, 5, 3), num_groups 2; x must be (batch, channels,"
                " ...) and the groups divide the channels",
            ),
            Bad(
                lambda ones: ops.group_norm(ones(2, 4, 3), 2, ones(2)),
                ShapeError,
                "group_norm: weight is (2,); it must be (4,)",
            ),
            Bad(
                lambda ones: ops.instance_norm(ones(2, 4, 1)),
                ShapeError,
                "instance_norm: x is (2, 4, 1); it must be (batch, channels, ...) with"
                " at least two elements in a channel",
            ),
        ),
    ),
    "embedding": Case(
        lambda weight, index: ops.embedding(index, weight),
        (
            Sample((Draw((11, 5)), Draw((7,), 0, 11, "int32"))),
            Sample((Draw((3, 4)), Draw((2, 13), 0, 3, "int64"))),
            Sample((Draw((5, 1)), Draw((), 0, 5, "uint8"))),
            Sample((Draw((3, 4)), Draw((0, 2), 0, 3, "int32"))),
            Sample((Draw((1, 1)), Draw((1,), 0, 1, "int32"))),
        ),
        torch=lambda weight, index: F.embedding(index.long(), weight),
        exact=True,
        bad=(
            Bad(
                lambda ones: ops.embedding(ones(2, dtype="int32"), ones(3)),
                ShapeError,
                "embedding: weight is (3,); it must be 2-D",
            ),
            Bad(
                lambda ones: ops.embedding(ones(2), ones(3, 4)),
                DTypeError,
                "embedding: index is float32; it must be an integer dtype",
            ),
            Bad(
                lambda ones: ops.embedding(ones(2, dtype="int32"), ones(3, 4), 3),
                ShapeError,
                "embedding: padding_idx is 3; it must be from -3 to 2",
            ),
            Bad(
                lambda ones: ops.embedding(ones(2, dtype="int32") * -1, ones(3, 4)),
                IndexRangeError,
                "embedding: index -1 is out of range: weight has size 3",
            ),
        ),
    ),
}
