"""Timing of matrix products with other tiles, for the choice of constants.

`python -m vkbackend.tools.bench.product_tiles` times, on the Vulkan device, products of
few rows or columns and some others with every kernel that there is for them: the tiles
and split-K counts of the cost model (`kernels/gemm/cost_model.py`), thin ones among
them, GEMV and the fallback; the sum of slices without a place for an epilogue, and the
thin tiles left out. It prints a table for each: the quickest first, `*` is what is
chosen now. What differs from that by more than rounding is wrong. It ends after
`--seconds` (55); `--product BATCHxMxNxK` gives products, `--dtype` their dtypes, and
`--turned` has the right operand transposed, as a linear layer's weight is.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from unittest import mock

import vkbackend.framework as fw
from vkbackend.framework import Tensor
from vkbackend.framework.ir.kernel_call import Dispatch
from vkbackend.framework.kernels import gpu_model
from vkbackend.framework.kernels.gemm import candidates, select, slice_sum
from vkbackend.framework.ops.matmul import matmul

from ..exit_status import outcome
from .measure import device_to_measure
from .variants import Variant, applied, print_table, timings

Product = tuple[int, int, int, int]

PRODUCTS: tuple[Product, ...] = (
    (1, 16, 4096, 4096),
    (1, 16, 14336, 4096),
    (1, 32, 4096, 4096),
    (1, 64, 4096, 4096),
    (1, 1 << 20, 16, 16),
    (1, 1 << 20, 32, 16),
    (1, 4096, 16, 4096),
    (96, 1024, 1024, 64),
)

LIKELY = 24
"""Tile configurations of a product to time, the quickest by the cost model."""


def variants_of(
    device: Any, a: Tensor, b: Tensor, run: Callable[[], Any]
) -> list[Variant]:
    """Return the kernels of a product, the chosen one first."""
    given: list[Any] = []

    def noted(*call: Any) -> list[Dispatch]:
        given[:] = call
        return candidates.gemm_dispatches(*call)

    with applied(device, Variant("", [(matmul, "gemm_dispatches", noted)])):
        fw.eval(*run())
    if not given:
        return [Variant("as chosen", [])]
    with mock.patch.object(select, "LIKELY_CONFIGS", LIKELY):
        each = candidates.gemm_candidates(*given)
    found = [Variant("as chosen", [])]
    found += [
        Variant(name, [(matmul, "gemm_dispatches", partial(_forced, make))])
        for name, make in each.items()
        if make()
    ]
    found.append(Variant("sums without an epilogue", [(slice_sum, "MOST_SLICES", 0)]))
    plain = {
        name: dataclasses.replace(
            model,
            gemm={
                mode: dataclasses.replace(costs, thin_tiles=())
                for mode, costs in model.gemm.items()
            },
        )
        for name, model in gpu_model.MODELS.items()
    }
    rows = [(gpu_model.MODELS, name, model) for name, model in plain.items()]
    return [*found, Variant("without thin tiles", rows)]


def _forced(make: Callable[[], list[Dispatch] | None], *_: Any) -> list[Dispatch]:
    """Return the dispatches of a candidate, whatever is asked for."""
    found = make()
    assert found is not None
    return found


def _operands(
    device: Any, product: Product, dtype: str, turned: bool
) -> tuple[Tensor, Tensor]:
    """Return random operands, the right one perhaps transposed."""
    batch, m, n, k = product
    fw.manual_seed(0)
    lead = (batch,) if batch > 1 else ()
    shapes = (*lead, m, k), (*lead, n, k) if turned else (*lead, k, n)
    a, b = (fw.randn(*shape, device=device).to(dtype) for shape in shapes)
    fw.eval(a, b)
    return a, b.mT if turned else b


def _product(text: str) -> Product:
    sizes = text.split("x")
    if len(sizes) != 4 or not all(size.isdigit() and int(size) for size in sizes):
        raise argparse.ArgumentTypeError(f"{text!r} must be BATCHxMxNxK")
    batch, m, n, k = map(int, sizes)
    return batch, m, n, k


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m vkbackend.tools.bench.product_tiles",
        description="Time matrix products with other tiles.",
    )
    parser.add_argument("--product", nargs="+", type=_product, default=list(PRODUCTS))
    parser.add_argument("--dtype", nargs="+", default=["float16"])
    parser.add_argument("--turned", action="store_true")
    parser.add_argument("--seconds", type=float, default=55.0)
    parser.add_argument("--device", help="an index or part of a name")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; the exit status is 1 where there is no device."""
    options = _parser().parse_args(arguments)
    return outcome("bench.product_tiles", lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    device = device_to_measure(options.device)
    if device is None:
        return 1
    print(device)
    until = time.monotonic() + options.seconds
    for product in options.product:
        for dtype in options.dtype:
            a, b = _operands(device, product, dtype, options.turned)

            def run(a: Tensor = a, b: Tensor = b) -> Sequence[Tensor]:
                return [a @ b]

            variants = variants_of(device, a, b, run)
            rows = list(timings(device, variants, run, until))
            turned = ", right operand transposed" if options.turned else ""
            title = f"{dtype} {'x'.join(map(str, product))}{turned}"
            if rows:
                batch, m, n, k = product
                print_table(title, rows, 2.0 * batch * m * n * k)
            if time.monotonic() > until:
                return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
