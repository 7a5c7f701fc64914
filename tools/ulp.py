"""Largest error of each element-wise function on float32, in units in the last place.

    python -m vkbackend.tools.ulp                    on the best device
    python -m vkbackend.tools.ulp --device llvmpipe  on a device by name
    python -m vkbackend.tools.ulp sin exp            of these functions only
    python -m vkbackend.tools.ulp --write            keep them in framework/ops/ULP.md

Each function is computed on the device for some million numbers: every 1021st float32,
and a dense grid around 0 and 1. What is right comes from the host in float64, where
each function's reference is accurate to 2^-50 or so. The error is in units of the
spacing of float32 numbers at the right result, so a correctly rounded function has 0.5.
The second figure is for numbers below 2^-126, given or resulting, which devices may
take as 0. "cuda" is what the CUDA C++ Programming Guide states for the function that
PyTorch calls (12.6, "Mathematical Functions", table 13), which it measures from the
rounded result: it stands for half a unit more.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device, GpuDevice

from .exit_status import outcome

CUDA = {
    "exp": 2, "exp2": 2, "expm1": 1, "log": 1, "log2": 1, "log10": 2, "log1p": 1,
    "sqrt": 0, "rsqrt": 2, "reciprocal": 0, "sin": 2, "cos": 2, "tan": 4, "asin": 2,
    "acos": 2, "atan": 2, "sinh": 3, "cosh": 2, "tanh": 2, "asinh": 3, "acosh": 4,
    "atanh": 3, "erf": 2, "erfc": 4, "pow": 4, "atan2": 3, "hypot": 3, "div": 0,
    "remainder": 0, "fmod": 0,
}  # fmt: skip

UNARY = (
    "neg", "abs", "sign", "square", "floor", "ceil", "round", "trunc", "frac", "sqrt",
    "rsqrt", "reciprocal", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p",
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh",
    "acosh", "atanh", "erf", "erfc", "sigmoid", "log_sigmoid", "relu", "relu6",
    "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish", "softplus", "softsign",
    "hardswish", "hardsigmoid", "hardtanh",
)  # fmt: skip
BINARY = ("div", "pow", "atan2", "hypot", "fmod", "remainder", "floor_divide")

TABLE = Path(__file__).resolve().parents[1] / "framework" / "ops" / "ULP.md"
COLUMNS = ("function", "ulp", "below 2^-126", "CUDA", "worst at")
HEAD = """# Largest errors of element-wise functions

Made by `python -m vkbackend.tools.ulp --write`, which replaces the section of the
device that it runs on; a test looks at the form. Of float32, in units in the last
place: a correctly rounded result is at most 0.5 off. *below 2^-126* is the same for
numbers or results that small, which a device may take as 0. *CUDA* is what NVIDIA's
CUDA C++ Programming Guide (12.6, table 13) states for the function that PyTorch calls,
counted from the rounded result: it stands for half a unit more.

Errors of `remainder` and `floor_divide` are largest where a remainder is about to
vanish: there an intermediate result is below 2^-126. Quotients, reciprocals
and square roots are rounded once, roots but for two of a million: see
`glsl/lib/math/division.glsl`.
"""
STRIDE = 1021
SMALLEST_NORMAL = 2.0**-126


class LargestError(NamedTuple):
    """The largest error of a function, and where it is."""

    ulp: float
    denormal: float
    where: tuple[float, ...]


def one_number() -> tuple[np.ndarray]:
    """Return the inputs of unary functions."""
    bits = np.arange(0, 0x7F800001, STRIDE, dtype=np.uint32)
    sweep = np.append(bits, 0x7F800000).astype(np.uint32).view(np.float32)
    dense = np.linspace(0, 4, 1 << 20, dtype=np.float32)
    wide = np.linspace(4, 128, 1 << 18, dtype=np.float32)
    positive = np.concatenate([sweep, dense, wide])
    return (np.concatenate([positive, -positive, [np.float32(np.nan)]]),)


def two_numbers() -> tuple[np.ndarray, np.ndarray]:
    """Return the inputs of binary functions."""
    rng = np.random.default_rng(0)
    anything = rng.integers(0, 1 << 32, (2, 1 << 19), dtype=np.uint32).view(np.float32)
    close = rng.uniform(-8, 8, (2, 1 << 19)).astype(np.float32)
    mixed = np.stack([rng.uniform(0, 3, 1 << 19), rng.uniform(-150, 150, 1 << 19)])
    specials = [0, -0.0, 1, -1, 2, -3, 0.5, np.inf, -np.inf, np.nan, 1e-40]
    pairs = np.stack([grid.ravel() for grid in np.meshgrid(specials, specials)])
    parts = [anything, close, mixed.astype(np.float32), pairs.astype(np.float32)]
    x, y = np.concatenate(parts, axis=1)
    return x, y


def worst_error(
    function: Callable[..., Any], inputs: tuple[np.ndarray, ...], device: Any
) -> LargestError:
    """Return the largest error of a function over some inputs."""
    with np.errstate(all="ignore"):
        found = function(*(fw.tensor(x, device=device) for x in inputs)).numpy()
        exact = function(*(fw.tensor(x.astype(np.float64)) for x in inputs)).numpy()
        right = exact.astype(np.float32)
        spacing = np.spacing(np.abs(right)).astype(np.float64)
        error = np.abs(found.astype(np.float64) - exact) / spacing
        error[~np.isfinite(error)] = np.inf
    error[(found == right) & ~(np.isfinite(right) & np.isfinite(error))] = 0
    error[np.isnan(found) & np.isnan(right)] = 0
    tiny = np.abs(right) < SMALLEST_NORMAL
    tiny &= exact != 0
    for x in inputs:
        tiny |= (np.abs(x) < SMALLEST_NORMAL) & (x != 0)
    at = int(np.argmax(np.where(tiny, -1.0, error)))
    denormal = float(np.max(error[tiny], initial=0.0))
    return LargestError(float(error[at]), denormal, tuple(float(x[at]) for x in inputs))


class FunctionErrors(NamedTuple):
    """Measured errors of one function."""

    name: str
    worst: LargestError

    def cells(self) -> tuple[str, str, str, str, str]:
        """Return the row of a table."""
        ulp, denormal, places = self.worst
        where = ", ".join(f"{x:.9g}" for x in places)
        cuda = CUDA.get(self.name, "")
        return self.name, f"{ulp:.3f}", f"{denormal:.3g}", str(cuda), where


def measured(names: Sequence[str], device: Device) -> Iterator[FunctionErrors]:
    """Yield the errors of functions, or of all if none is named."""
    with fw.no_grad():
        for known, inputs in ((UNARY, one_number()), (BINARY, two_numbers())):
            for name in known:
                if not names or name in names:
                    yield FunctionErrors(
                        name, worst_error(getattr(ops, name), inputs, device)
                    )


def section(device: GpuDevice, rows: Iterable[FunctionErrors]) -> str:
    """Return the section of `ULP.md` on a device."""
    info = device.gpu.info
    lines = [f"## {info.name}", "", f"Driver: {info.driver_name} {info.driver_info}."]
    lines += [
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "| --- |" + " ---: |" * 3 + " --- |",
    ]
    for name, *figures in (row.cells() for row in rows):
        lines.append(f"| `{name}` | " + " | ".join(figures) + " |")
    return "\n".join(lines) + "\n"


def updated(document: str, new: str) -> str:
    """Return a document with the section of one device replaced or added."""
    head, *sections = re.split(r"^(?=## )", document or HEAD, flags=re.MULTILINE)
    named = {each.partition("\n")[0]: each.rstrip() + "\n" for each in sections}
    named[new.partition("\n")[0]] = new
    return "\n".join([head.rstrip() + "\n", *(named[key] for key in sorted(named))])


def main() -> int:
    """Print the table, or keep it, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m vkbackend.tools.ulp", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("names", nargs="*", help="functions; all if none is named")
    parser.add_argument("--device", help="a device's name or number")
    parser.add_argument(
        "--write",
        nargs="?",
        const=TABLE,
        type=Path,
        metavar="FILE",
        help=f"keep the device's section in a Markdown file, or in {TABLE.name}",
    )
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in (*UNARY, *BINARY)]
    if unknown:
        parser.error(f"there is no function {', '.join(unknown)}")
    return outcome("ulp", lambda: _run(parser, given))


def _run(parser: argparse.ArgumentParser, given: argparse.Namespace) -> int:
    device = fw.device(given.device)
    if given.write is not None:
        if given.names or not isinstance(device, GpuDevice):
            parser.error("--write takes all functions, on a Vulkan device")
        document = (
            given.write.read_text(encoding="utf-8") if given.write.exists() else ""
        )
        found = section(device, measured((), device))
        given.write.write_text(updated(document, found), encoding="utf-8")
        return 0
    print(f"device: {device.name}\n")
    print(f"{'function':14}{'ulp':>9}{'denormal':>10}{'cuda':>6}  worst at")
    for row in measured(given.names, device):
        name, ulp, denormal, cuda, where = row.cells()
        print(f"{name:14}{ulp:>9}{denormal:>10}{cuda:>6}  {where}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
