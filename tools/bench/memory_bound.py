"""Memory-bound workloads: element-wise, casts, transposes, sums."""

from __future__ import annotations

import numpy as np

from vkbackend.framework import ops

from .workload import Bench, Case, workload

_FULL = 64 << 20
_SMALL = 4 << 20
_WORD = 4


@workload("copy_{}_f32", full=(_FULL,), small=(_SMALL,))
def copy(bench: Bench, count: int) -> Case:
    """Read and write every element."""
    x, px = bench.uniform(count)
    return Case(
        lambda: [x.clone()],
        bench.choose(lambda torch: [px.clone()], lambda: [px.copy()]),
        moved=2 * _WORD * count,
    )


@workload("add_{}_f32", full=(_FULL,), small=(_SMALL,))
def add(bench: Bench, count: int) -> Case:
    """Add two tensors."""
    (x, px), (y, py) = bench.uniform(count), bench.uniform(count)
    return Case(
        lambda: [x + y],
        bench.choose(lambda torch: [px + py], lambda: [px + py]),
        moved=3 * _WORD * count,
    )


@workload("gelu_{}_f32", full=(_FULL,), small=(_SMALL,))
def gelu(bench: Bench, count: int) -> Case:
    """Apply the exact gelu."""
    x, px = bench.uniform(count, low=-4, high=4)
    return Case(
        lambda: [ops.gelu(x)],
        bench.choose(lambda torch: [torch.nn.functional.gelu(px)]),
        moved=2 * _WORD * count,
    )


@workload("eager_relu(x*y+o)_{}", full=(_FULL,), small=(_SMALL,))
def chain(bench: Bench, count: int) -> Case:
    """Run three ops, which the peer does one by one."""
    (x, px), (y, py), (o, po) = (bench.uniform(count) for _ in range(3))
    return Case(
        lambda: [(x * y + o).relu()],
        bench.choose(
            lambda torch: [torch.relu(px * py + po)],
            lambda: [np.maximum(px * py + po, 0)],
        ),
        moved=4 * _WORD * count,
    )


@workload("compiled_relu(x*y+o)_{}", full=(_FULL,))
def compiled_chain(bench: Bench, count: int) -> Case:
    """Run three ops, which the peer compiles into one kernel."""
    (x, px), (y, py), (o, po) = (bench.uniform(count) for _ in range(3))
    module = bench.peer.torch
    compiled = module and module.compile(lambda a, b, c: module.relu(a * b + c))
    return Case(
        lambda: [(x * y + o).relu()],
        bench.choose(lambda torch: [compiled(px, py, po)]),
        moved=4 * _WORD * count,
    )


@workload("cast_f32_to_f16_{}", full=(_FULL,), small=(_SMALL,))
def narrow(bench: Bench, count: int) -> Case:
    """Round to float16."""
    x, px = bench.uniform(count)
    return Case(
        lambda: [x.half()],
        bench.choose(lambda torch: [px.half()], lambda: [px.astype(np.float16)]),
        moved=6 * count,
    )


@workload("cast_f16_to_f32_{}", full=(_FULL,), small=(_SMALL,), dtype="float16")
def widen(bench: Bench, count: int) -> Case:
    """Widen float16."""
    x, px = bench.uniform(count, dtype="float16")
    return Case(
        lambda: [x.float()],
        bench.choose(lambda torch: [px.float()], lambda: [px.astype(np.float32)]),
        moved=6 * count,
    )


@workload("cast_f32_to_bf16_{}", full=(_FULL,))
def narrow_bfloat16(bench: Bench, count: int) -> Case:
    """Round to bfloat16."""
    x, px = bench.uniform(count)
    return Case(
        lambda: [x.to("bfloat16")],
        bench.choose(lambda torch: [px.bfloat16()]),
        moved=6 * count,
    )


@workload("transpose_{}x{}_f32", full=(8192, 8192), small=(2048, 2048))
def transpose(bench: Bench, rows: int, columns: int) -> Case:
    """Write the transpose in row-major order."""
    x, px = bench.uniform(rows, columns)
    return Case(
        lambda: [x.T.contiguous()],
        bench.choose(
            lambda torch: [px.t().contiguous()], lambda: [np.ascontiguousarray(px.T)]
        ),
        moved=2 * _WORD * rows * columns,
    )


@workload("transpose_{}x{}_f16", full=(8192, 8192), small=(2048, 2048), dtype="float16")
def transpose_half(bench: Bench, rows: int, columns: int) -> Case:
    """Write the transpose of 2-byte elements in row-major order."""
    x, px = bench.uniform(rows, columns, dtype="float16")
    return Case(
        lambda: [x.T.contiguous()],
        bench.choose(
            lambda torch: [px.t().contiguous()], lambda: [np.ascontiguousarray(px.T)]
        ),
        moved=4 * rows * columns,
    )


@workload("sum_{}", full=(_FULL,), small=(_SMALL,))
def sum_all(bench: Bench, count: int) -> Case:
    """Add up everything."""
    x, px = bench.uniform(count, low=0)
    return Case(
        lambda: [x.sum()],
        bench.choose(lambda torch: [px.sum()], lambda: [px.sum()]),
        moved=_WORD * count,
    )


@workload("sum_rows_{}x{}", full=(16384, 4096), small=(1024, 1024))
def sum_rows(bench: Bench, rows: int, columns: int) -> Case:
    """Add up each row."""
    x, px = bench.uniform(rows, columns, low=0)
    return Case(
        lambda: [x.sum(1)],
        bench.choose(lambda torch: [px.sum(1)], lambda: [px.sum(1)]),
        moved=_WORD * rows * columns,
    )


@workload("sum_columns_{}x{}", full=(16384, 4096), small=(1024, 1024))
def sum_columns(bench: Bench, rows: int, columns: int) -> Case:
    """Add up each column."""
    x, px = bench.uniform(rows, columns, low=0)
    return Case(
        lambda: [x.sum(0)],
        bench.choose(lambda torch: [px.sum(0)], lambda: [px.sum(0)]),
        moved=_WORD * rows * columns,
    )


@workload("argmax_{}x{}", full=(8192, 8192), small=(1024, 1024))
def argmax(bench: Bench, rows: int, columns: int) -> Case:
    """Find the greatest of each row."""
    x, px = bench.uniform(rows, columns)
    return Case(
        lambda: [x.argmax(1)],
        bench.choose(lambda torch: [px.argmax(1)], lambda: [px.argmax(1)]),
        moved=_WORD * rows * columns,
        tolerance=0.0,
    )


@workload("dropout_{}_f32", full=(_FULL,), small=(_SMALL,))
def dropout(bench: Bench, count: int) -> Case:
    """Drop a tenth; the draws differ, so only times are compared."""
    x, px = bench.uniform(count)
    return Case(
        lambda: [ops.dropout(x, 0.1)],
        bench.choose(lambda torch: [torch.nn.functional.dropout(px, 0.1)]),
        moved=2 * _WORD * count,
        tolerance=None,
    )
