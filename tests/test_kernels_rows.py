"""Kernels that normalize channels and rows, against NumPy."""

import numpy as np
import pytest

from tests.kernel_run import Array, close, division, linear, random, run
from vkbackend import Device

pytestmark = pytest.mark.core


@pytest.mark.parametrize("shape", [(64, 16, 64), (3, 5, 7), (1, 1, 1), (113, 2, 1)])
def test_batch_norm(device: Device, shape: tuple[int, int, int]) -> None:
    batch, channels, inner = shape
    x = random(*shape) + np.float32(100)
    sizes = {"batch": batch, "channels": channels, "inner": inner}
    sizes |= division("inner", inner)
    each = ((channels,), np.float32)
    exact = x.astype(np.float64)
    mean, variance = run(
        device,
        "norm/batch_norm_stats",
        linear(channels),
        {"mean": each, "variance": each},
        {"LOCAL_X": 64},
        {"x": x, **sizes},
    )
    np.testing.assert_allclose(mean, exact.mean(axis=(0, 2)), rtol=1e-6)
    np.testing.assert_allclose(variance, exact.var(axis=(0, 2)), rtol=1e-5, atol=1e-9)

    grad = random(*shape, seed=1)
    inverse_std = (1 / np.sqrt(variance + 1e-5)).astype(np.float32)
    sums = run(
        device,
        "norm/batch_norm_vjp",
        linear(channels),
        {"sum_grad": each, "sum_grad_normalized": each},
        {"LOCAL_X": 64},
        {"grad": grad, "x": x, "mean": mean, "inverse_std": inverse_std, **sizes},
    )
    normalized = (exact - mean[:, None]) * inverse_std[:, None]
    close(sums[0], grad.sum(axis=(0, 2), dtype=np.float64), batch * inner)
    close(sums[1], (grad * normalized).sum(axis=(0, 2)), 4 * batch * inner)


def cross_entropy(
    logits: Array, labels: Array, smoothing: float, ignored: int
) -> tuple[Array, Array, Array]:
    """Return loss and logsumexp of each row, and the loss's gradient by the logits."""
    x = logits.astype(np.float64)
    rows, columns = x.shape
    top = x.max(axis=1, keepdims=True)
    logsumexp = top + np.log(np.exp(x - top).sum(axis=1, keepdims=True))
    valid = (labels >= 0) & (labels < columns)
    target = np.full(x.shape, smoothing / columns)
    target[np.arange(rows), np.where(valid, labels, 0)] += 1 - smoothing
    loss = (target * (logsumexp - x)).sum(axis=1)
    grad = np.exp(x - logsumexp) - target
    for row, label in enumerate(labels):
        if label == ignored or not valid[row]:
            loss[row] = grad[row] = 0 if label == ignored else np.nan
    return loss, logsumexp[:, 0], grad


@pytest.mark.parametrize("shape", [(64, 10), (7, 113), (1, 1), (37, 1000)])
@pytest.mark.parametrize("group", [1, 32])
@pytest.mark.parametrize("words", [1, 2])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy(
    device: Device, shape: tuple[int, int], group: int, words: int, smoothing: float
) -> None:
    rows, columns = shape
    logits = random(*shape) * 10
    kind = np.int32 if words == 1 else np.int64
    labels = np.random.default_rng(rows).integers(0, columns, rows).astype(kind)
    odd = [-100, -1, columns, -(1 << 31)] + [(1 << 32), (1 << 32) - 100] * (words - 1)
    if rows > len(odd):
        labels[: len(odd)] = odd
    loss, logsumexp, expected = cross_entropy(logits, labels, smoothing, -100)
    each = ((rows,), np.float32)
    arguments = {
        "logits": logits,
        "labels": labels,
        "rows": rows,
        "columns": columns,
        "ignore_index": -100,
        "label_smoothing": smoothing,
    }
    constants = {"LOCAL_X": 64, "LABEL_WORDS": words}
    out = run(
        device,
        "loss/cross_entropy",
        linear(-(-rows * group // 64)),
        {
            "loss": each,
            "greatest": each,
            "log_total": each,
            "counts": each,
            "error": ((1,), np.uint32),
        },
        {**constants, "GROUP": group},
        {**arguments, "parts": 1},
    )
    bad = (labels != -100) & ((labels < 0) | (labels >= columns))
    if bad.any():
        biased = np.clip(labels[bad].astype(np.int64), 1 - (1 << 31), (1 << 31) - 1) + (
            1 << 31
        )
        assert out[4][0] in biased
    np.testing.assert_allclose(out[0], loss, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(out[1], logits.max(axis=1))
    np.testing.assert_allclose(out[1] + out[2], logsumexp, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(out[3], labels != -100)

    grad = random(rows)
    (grad_logits,) = run(
        device,
        "loss/cross_entropy_vjp",
        linear(-(-logits.size // 64)),
        {"out_": (shape, np.float32)},
        constants,
        {
            **arguments,
            "grad": grad,
            "greatest": out[1],
            "log_total": out[2],
            **division("columns", columns),
        },
    )
    np.testing.assert_allclose(
        grad_logits, grad[:, None] * expected, rtol=1e-3, atol=1e-5
    )
