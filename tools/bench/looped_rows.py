"""Rows too long for registers: hand-written kernels beside generated ones.

`python -m vkbackend.tools.bench.looped_rows` times an op, which has a kernel of its own
that loops over rows, and the same computed by plain ops, which fuse into one generated
kernel, in turns. It prints a table of both in microseconds with their ratio (above 1
the hand-written one is faster), then a line of JSON for each case with the kernels that
ran. Rows are contiguous, or strided by as many elements as there are rows. An `r` marks
rows that the op's kernel holds in registers, an `s` plain ops that became several
kernels, as the generator has none for such rows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework import Tensor, ops
from vkbackend.framework.base.errors import ShapeError

from ..exit_status import outcome
from .clock import Run, device_seconds, wall_seconds
from .measure import device_to_measure

COLUMNS = (1 << 12, 1 << 15, 1 << 18, 1 << 20)
DTYPES = ("float32", "float16")
ELEMENTS = 1 << 24
"""Of the operand: with the result more than the caches of most devices hold."""

_BATCH_SECONDS = 0.002
_MOST_REPEATS = 50
_EPS = 1e-5

Function = Callable[[Tensor, Tensor, int], Tensor]


class Pair(NamedTuple):
    """One computation by both kernels.

    Attributes
    ----------
    own, plain : callable
        Of the operand, a weight for each column, and the dimension of columns: the op,
        and plain ops for the same.
    strided : bool
        Whether the op takes rows along a dimension that is not the last.
    """

    own: Function
    plain: Function
    strided: bool = True


def _softmax(x: Tensor, weight: Tensor, dim: int) -> Tensor:
    wide = x.float()
    powers = (wide - wide.amax(dim, keepdim=True)).exp()
    return (powers / powers.sum(dim, keepdim=True)).to(x.dtype)


def _layer_norm(x: Tensor, weight: Tensor, dim: int) -> Tensor:
    wide = x.float()
    apart = wide - wide.mean(dim, keepdim=True)
    scale = ((apart * apart).mean(dim, keepdim=True) + _EPS).rsqrt()
    return (apart * scale * weight.float()).to(x.dtype)


def _rms_norm(x: Tensor, weight: Tensor, dim: int) -> Tensor:
    wide = x.float()
    scale = ((wide * wide).mean(dim, keepdim=True) + _EPS).rsqrt()
    return (wide * scale * weight.float()).to(x.dtype)


def _logsumexp(x: Tensor, weight: Tensor, dim: int) -> Tensor:
    wide = x.float()
    greatest = wide.amax(dim, keepdim=True)
    total = (wide - greatest).exp().sum(dim, keepdim=True)
    return (total.log() + greatest).squeeze(dim).to(x.dtype)


# Doubled elements make a reduction alone one of a generated kernel.
PAIRS = {
    "softmax": Pair(lambda x, w, dim: ops.softmax(x, dim), _softmax),
    "layer_norm": Pair(
        lambda x, w, dim: ops.layer_norm(x, x.shape[1], w), _layer_norm, False
    ),
    "rms_norm": Pair(
        lambda x, w, dim: ops.rms_norm(x, x.shape[1], w, _EPS), _rms_norm, False
    ),
    "sum": Pair(lambda x, w, dim: x.sum(dim), lambda x, w, dim: (x + x).sum(dim)),
    "amax": Pair(lambda x, w, dim: x.amax(dim), lambda x, w, dim: (x + x).amax(dim)),
    "logsumexp": Pair(lambda x, w, dim: ops.logsumexp(x, dim), _logsumexp),
}


class Timing(NamedTuple):
    """Median seconds of a case, and the kernels that ran.

    Attributes
    ----------
    own, generated : float
    own_kernels, generated_kernels : tuple of str
    """

    own: float
    generated: float
    own_kernels: tuple[str, ...]
    generated_kernels: tuple[str, ...]


def sides(
    pair: Pair, columns: int, rows: int, dtype: str, strided: bool, device: Any
) -> tuple[Run, Run]:
    """Return both ways to compute a case, on the same operands."""
    rng = np.random.default_rng(0)
    shape = (columns, rows) if strided else (rows, columns)
    drawn = np.resize(rng.standard_normal(1 << 20, np.float32), shape)
    x = fw.tensor(drawn, device=device).to(dtype)
    weight = fw.tensor(drawn.reshape(-1)[:columns], device=device).to(dtype)
    fw.eval(x, weight)
    dim = 0 if strided else 1

    def run(function: Function) -> Run:
        return lambda: [function(x, weight, dim)]

    return run(pair.own), run(pair.plain)


def kernels(gpu: Any, run: Run) -> tuple[str, ...]:
    """Return the names of what a run dispatches."""
    with gpu.profile() as profile:
        fw.eval(*run())
    return tuple(span.name for span in profile.spans)


def measure(device: Any, both: tuple[Run, Run], rounds: int) -> Timing:
    """Time two runs in turns."""
    gpu = device.gpu
    clock = wall_seconds if gpu.info.kind == "software" else device_seconds
    names, repeats = [], []
    for run in both:
        names.append(kernels(gpu, run))
        once = clock(gpu, run, 1)
        repeat = round(_BATCH_SECONDS / max(once, 1e-9))
        repeats.append(max(1, min(_MOST_REPEATS, repeat)))
    found: list[list[float]] = [[], []]
    for _ in range(rounds):
        for seconds, run, repeat in zip(found, both, repeats):
            seconds.append(clock(gpu, run, repeat))
    own, generated = map(statistics.median, found)
    return Timing(own, generated, *names)


def cases(
    names: Sequence[str], dtypes: Sequence[str]
) -> Iterator[tuple[str, bool, str]]:
    """Yield (name, strided, dtype) for each line of the table."""
    for name in names:
        for strided in (False, True)[: 1 + PAIRS[name].strided]:
            for dtype in dtypes:
                yield name, strided, dtype


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m vkbackend.tools.bench.looped_rows",
        description="Time hand-written and generated kernels of long and strided rows.",
    )
    parser.add_argument("--only", nargs="+", choices=PAIRS, default=list(PAIRS))
    parser.add_argument("--dtype", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--columns", nargs="+", type=int, default=list(COLUMNS))
    parser.add_argument("--elements", type=int, default=ELEMENTS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", help="an index or part of a name")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Print table and lines; the exit status is 1 where there is no device."""
    options = _parser().parse_args(arguments)
    return outcome("bench.looped_rows", lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    device = device_to_measure(options.device)
    if device is None:
        return 1
    print(f"{device.description}: own/generated us = generated over own, by columns")
    heads = "".join(f"{columns:>28}" for columns in options.columns)
    print(f"{'op':<11}{'rows':<11}{'dtype':<9}{heads}")
    lines = []
    for name, strided, dtype in cases(options.only, options.dtype):
        place = "strided" if strided else "contiguous"
        print(f"{name:<11}{place:<11}{dtype:<9}", end="")
        for columns in options.columns:
            rows = max(1, options.elements // columns)
            both = sides(PAIRS[name], columns, rows, dtype, strided, device)
            try:
                timing = measure(device, both, options.rounds)
            except ShapeError:  # more rounds of a loop than a device is given
                print(f"{'-':>28}", end="")
                continue
            print(_cell(timing), end="", flush=True)
            case = {"op": name, "rows": rows, "columns": columns, "dtype": dtype}
            lines.append(case | {"strided": strided} | timing._asdict())
        print()
    for line in lines:
        print(json.dumps(line))
    return 0


def _cell(timing: Timing) -> str:
    own, generated = timing.own * 1e6, timing.generated * 1e6
    marks = "r" * any("registers" in kernel for kernel in timing.own_kernels)
    marks += "s" * (len(timing.generated_kernels) > 1)
    ratio = f"{generated / own:.2f}{marks}"
    return f"{f'{own:.1f}/{generated:.1f} = {ratio}':>28}"


if __name__ == "__main__":
    sys.exit(main())
