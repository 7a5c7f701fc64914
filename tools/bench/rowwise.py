"""Row-wise workloads: softmax, normalisation, losses, embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vkbackend.framework import Tensor, ops

from .workload import Bench, Case, workload

_WORD = 4
_ROWS, _SMALL = (8192, 8192), (1024, 1024)
_NORM_ROWS = (16384, 4096)


def _softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


@workload("softmax_{}x{}", full=_ROWS, small=_SMALL)
def softmax(bench: Bench, rows: int, columns: int) -> Case:
    """Take the softmax of rows."""
    x, px = bench.uniform(rows, columns, low=-4, high=4)
    return Case(
        lambda: [ops.softmax(x, 1)],
        bench.choose(lambda torch: [px.softmax(1)], lambda: [_softmax(px)]),
        moved=2 * _WORD * rows * columns,
    )


@workload("plain_softmax_{}x{}", full=_ROWS, small=_SMALL)
def plain_softmax(bench: Bench, rows: int, columns: int) -> Case:
    """Write the softmax of rows with four plain ops; the peer has one."""
    x, px = bench.uniform(rows, columns, low=-4, high=4)

    def ours() -> list[Tensor]:
        powers = (x - x.amax(1, keepdim=True)).exp()
        return [powers / powers.sum(1, keepdim=True)]

    return Case(
        ours,
        bench.choose(lambda torch: [px.softmax(1)], lambda: [_softmax(px)]),
        moved=2 * _WORD * rows * columns,
    )


@workload("log_softmax_{}x{}", full=_ROWS, small=_SMALL)
def log_softmax(bench: Bench, rows: int, columns: int) -> Case:
    """Take the logarithm of the softmax of rows."""
    x, px = bench.uniform(rows, columns, low=-4, high=4)
    return Case(
        lambda: [ops.log_softmax(x, 1)],
        bench.choose(lambda torch: [px.log_softmax(1)]),
        moved=2 * _WORD * rows * columns,
    )


@workload("softmax_fwdbwd_{}x{}", full=_ROWS, small=_SMALL)
def softmax_gradient(bench: Bench, rows: int, columns: int) -> Case:
    """Take the softmax of rows and its gradient."""
    x, px = bench.uniform(rows, columns, low=-4, high=4)
    grad, peer_grad = bench.uniform(rows, columns)
    return Case(
        _gradients(lambda x: ops.softmax(x, 1), grad, x),
        bench.choose(
            lambda torch: _peer_gradients(lambda x: x.softmax(1), peer_grad, px)
        ),
        moved=5 * _WORD * rows * columns,
    )


def _gradients(
    forward: Callable[..., Tensor], grad: Tensor, *leaves: Tensor
) -> Callable[[], list[Tensor]]:
    """Return a run forward and backward; it gives the result and the gradients."""
    for leaf in leaves:
        leaf.requires_grad_()

    def run() -> list[Tensor]:
        for leaf in leaves:
            leaf.grad = None
        out = forward(*leaves)
        out.backward(grad)
        return [out, *(leaf.grad for leaf in leaves if leaf.grad is not None)]

    return run


def _peer_gradients(forward: Callable[..., Any], grad: Any, *leaves: Any) -> list[Any]:
    for leaf in leaves:
        leaf.requires_grad_()
        leaf.grad = None
    out = forward(*leaves)
    out.backward(grad)
    return [out, *(leaf.grad for leaf in leaves)]


def _layer_norm(x: np.ndarray[Any, Any], w: Any, b: Any) -> np.ndarray[Any, Any]:
    apart = x - x.mean(axis=1, keepdims=True)
    scale = np.sqrt((apart * apart).mean(axis=1, keepdims=True) + 1e-5)
    return np.asarray(apart / scale * w + b)


@workload("layernorm_fwd_{}x{}", full=_NORM_ROWS, small=_SMALL)
def layer_norm(bench: Bench, rows: int, columns: int) -> Case:
    """Normalise rows."""
    x, px = bench.uniform(rows, columns)
    (w, pw), (b, pb) = bench.uniform(columns), bench.uniform(columns)
    return Case(
        lambda: [ops.layer_norm(x, columns, w, b)],
        bench.choose(
            lambda torch: [torch.nn.functional.layer_norm(px, (columns,), pw, pb)],
            lambda: [_layer_norm(px, pw, pb)],
        ),
        moved=2 * _WORD * rows * columns,
    )


@workload("plain_layernorm_fwd_{}x{}", full=_NORM_ROWS, small=_SMALL)
def plain_layer_norm(bench: Bench, rows: int, columns: int) -> Case:
    """Normalise rows with plain ops; the peer has one."""
    x, px = bench.uniform(rows, columns)
    (w, pw), (b, pb) = bench.uniform(columns), bench.uniform(columns)

    def ours() -> list[Tensor]:
        apart = x - x.mean(1, keepdim=True)
        scale = ((apart * apart).mean(1, keepdim=True) + 1e-5).rsqrt()
        return [apart * scale * w + b]

    return Case(
        ours,
        bench.choose(
            lambda torch: [torch.nn.functional.layer_norm(px, (columns,), pw, pb)],
            lambda: [_layer_norm(px, pw, pb)],
        ),
        moved=2 * _WORD * rows * columns,
    )


@workload("layernorm_fwdbwd_{}x{}", full=_NORM_ROWS, small=_SMALL)
def layer_norm_gradient(bench: Bench, rows: int, columns: int) -> Case:
    """Normalise rows, with the gradients by rows, weight and bias."""
    x, px = bench.uniform(rows, columns)
    (w, pw), (b, pb) = bench.uniform(columns), bench.uniform(columns)
    grad, peer_grad = bench.uniform(rows, columns)
    return Case(
        _gradients(lambda x, w, b: ops.layer_norm(x, columns, w, b), grad, x, w, b),
        bench.choose(
            lambda torch: _peer_gradients(
                lambda x, w, b: torch.nn.functional.layer_norm(x, (columns,), w, b),
                peer_grad,
                px,
                pw,
                pb,
            )
        ),
        moved=5 * _WORD * rows * columns,
        tolerance=2e-5,
    )


@workload("rmsnorm_fwd_{}x{}", full=_NORM_ROWS, small=_SMALL)
def rms_norm(bench: Bench, rows: int, columns: int) -> Case:
    """Divide rows by their root mean square."""
    x, px = bench.uniform(rows, columns)
    w, pw = bench.uniform(columns)
    return Case(
        lambda: [ops.rms_norm(x, columns, w, 1e-6)],
        bench.choose(
            lambda torch: [torch.nn.functional.rms_norm(px, (columns,), pw, 1e-6)]
        ),
        moved=2 * _WORD * rows * columns,
    )


@workload("rmsnorm_fwdbwd_{}x{}", full=_NORM_ROWS, small=_SMALL)
def rms_norm_gradient(bench: Bench, rows: int, columns: int) -> Case:
    """Divide rows by their root mean square, with the gradients."""
    x, px = bench.uniform(rows, columns)
    w, pw = bench.uniform(columns)
    grad, peer_grad = bench.uniform(rows, columns)
    return Case(
        _gradients(lambda x, w: ops.rms_norm(x, columns, w, 1e-6), grad, x, w),
        bench.choose(
            lambda torch: _peer_gradients(
                lambda x, w: torch.nn.functional.rms_norm(x, (columns,), w, 1e-6),
                peer_grad,
                px,
                pw,
            )
        ),
        moved=5 * _WORD * rows * columns,
        tolerance=2e-5,
    )


@workload("xent_fwdbwd_{}x{}", full=(8192, 50257), small=(256, 5025))
def cross_entropy(bench: Bench, rows: int, columns: int) -> Case:
    """Take the mean cross-entropy of rows and its gradient."""
    x, px = bench.uniform(rows, columns, low=-4, high=4)
    labels, peer_labels = bench.whole(rows, below=columns)
    x.requires_grad_()

    def ours() -> list[Tensor]:
        x.grad = None
        loss = ops.cross_entropy(x, labels)
        loss.backward()
        assert x.grad is not None
        return [loss, x.grad]

    def theirs(torch: Any) -> list[Any]:
        px.requires_grad_().grad = None
        loss = torch.nn.functional.cross_entropy(px, peer_labels)
        loss.backward()
        return [loss, px.grad]

    return Case(ours, bench.choose(theirs), moved=2 * _WORD * rows * columns)


@workload("embedding_fwdbwd", full=(50257, 768, 8192), small=(5025, 96, 512))
def embedding(bench: Bench, rows: int, columns: int, tokens: int) -> Case:
    """Read rows of a table and add gradients up into them."""
    table, peer_table = bench.uniform(rows, columns)
    index, peer_index = bench.whole(tokens, below=rows)
    grad, peer_grad = bench.uniform(tokens, columns)
    return Case(
        _gradients(lambda table: ops.embedding(index, table), grad, table),
        bench.choose(
            lambda torch: _peer_gradients(
                lambda table: torch.nn.functional.embedding(peer_index, table),
                peer_grad,
                peer_table,
            )
        ),
        moved=_WORD * columns * (rows + 3 * tokens),
    )
