"""Operands of mixed dtypes: device, host and PyTorch must agree on dtype and elements.

    python -m tests.mixtures                    every pair of dtypes, every operation
    python -m tests.mixtures --device cpu       on the host
    python -m tests.mixtures --brief            few elements of each pair

Each operation of two operands is computed for tensors with and without dimensions, for
Python numbers, with operands from memory and with operands that a fused kernel makes.
Differences are printed, then how many calls were compared and what was refused.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import operator
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

import vkbackend.framework as fw
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.dtype import FLOAT, INT, DType
from vkbackend.framework.base.errors import DTypeError

COMMON = (fw.bool_, fw.uint8, *INT, *FLOAT)
"""What PyTorch promotes too."""

NUMBERS = (True, 3, -0.5)

ARITHMETIC = (
    "add", "sub", "mul", "div", "floor_divide", "remainder", "fmod", "pow", "atan2",
    "copysign", "hypot", "maximum", "minimum",
)  # fmt: skip
COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")
LOGIC = ("logical_and", "logical_or", "logical_xor")
BITS = (
    "bitwise_and", "bitwise_or", "bitwise_xor",
    "bitwise_left_shift", "bitwise_right_shift",
)  # fmt: skip
NAMES = (*ARITHMETIC, *COMPARED, *LOGIC, *BITS, "where")

WHOLE_DIVISION = ("floor_divide", "remainder", "fmod")
SHIFTS = ("bitwise_left_shift", "bitwise_right_shift")

ERRORS = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-6, "float64": 1e-12}
"""Relative, of single operations, whose operands are rounded alike."""

Refusals = collections.Counter[tuple[str, str, str]]


def elements(dtype: DType, seed: int) -> np.ndarray:
    """Return seven numbers of a dtype, of both signs, none of them 0 but of bools."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "bool":
        return np.array([True, False, True, True, False, True, False])
    if dtype.is_float:
        drawn = rng.choice([0.5, 1.0, 1.5, 2.0, 3.0, 4.0], 7)
        return (drawn * rng.choice([-1, 1], 7)).astype(dtype.numpy)
    small = rng.integers(1, 7, 7)
    if dtype.kind == "int":
        small = small * rng.choice([-1, 1], 7)
    return small.astype(dtype.numpy)


def torch_of(values: np.ndarray, dtype: DType) -> torch.Tensor:
    """Return the same elements in PyTorch."""
    return torch.from_numpy(np.asarray(values)).to(getattr(torch, dtype.name))


def theirs(name: str, x: Any, y: Any) -> torch.Tensor:
    """Return what PyTorch answers."""
    if name == "where":
        mask = torch.tensor([True, False, True, False, False, True, True])
        return torch.where(mask, x, y)
    if name in SHIFTS or not (isinstance(x, torch.Tensor)):
        symbols = {
            "bitwise_left_shift": operator.lshift,
            "bitwise_right_shift": operator.rshift,
        }
        if name in symbols:
            return symbols[name](x, y)  # type: ignore[no-any-return]
    return getattr(torch, name)(x, y)  # type: ignore[no-any-return]


def ours(name: str, x: Any, y: Any) -> fw.Tensor:
    """Return what the library under test answers, pending."""
    if name == "where":
        mask = [True, False, True, False, False, True, True]
        device = next(each.device for each in (x, y) if isinstance(each, fw.Tensor))
        return ops.where(fw.tensor(mask, device=device), x, y)
    return getattr(ops, name)(x, y)  # type: ignore[no-any-return]


def sensible(name: str, x: Any, y: Any) -> bool:
    """Whether PyTorch defines what an operation makes of these elements."""
    whole = all(
        not each.is_floating_point()
        for each in (x, y)
        if isinstance(each, torch.Tensor)
    ) and not any(isinstance(each, float) for each in (x, y))
    places = y if isinstance(y, torch.Tensor) else torch.tensor(y)
    if name in WHOLE_DIVISION and whole:
        return bool((places != 0).all())
    if name in SHIFTS:
        return bool((places >= 0).all())
    if name == "pow" and whole:
        return bool((places >= 0).all())
    return True


def kinds(dtype: DType, seed: int) -> Iterator[np.ndarray]:
    """Yield elements with and without dimensions; of shifts and the like positive."""
    whole = elements(dtype, seed)
    positive = np.abs(whole) if dtype.kind == "int" else whole
    for values in (whole, positive):
        yield values
        yield values[0]


def compare(name: str, found: fw.Tensor, wanted: torch.Tensor, say: str) -> str | None:
    """Return what is wrong with an answer, or None."""
    if str(wanted.dtype) != f"torch.{found.dtype.name}":
        return f"{say} is {found.dtype.name}, not {wanted.dtype}"
    exact = wanted.double() if wanted.is_floating_point() else wanted
    values, right = found.numpy(), exact.numpy()
    if values.shape != right.shape:
        return f"{say} is of shape {values.shape}, not {right.shape}"
    error = ERRORS.get(found.dtype.name, 0.0)
    if np.allclose(values.astype(right.dtype), right, error, 0.0, equal_nan=True):
        return None
    return f"{say}: {values.tolist()} instead of {right.tolist()}"


def check(
    pair: tuple[DType, DType],
    device: Device,
    names: Sequence[str] = NAMES,
    fused: bool = False,
    brief: bool = False,
) -> tuple[list[str], Refusals, int]:
    """Compare every operation on operands of two dtypes with PyTorch.

    Results are pending until all are, so that one kernel computes many of them. In
    brief, few operands are combined.
    """
    wrong, refused = [], Refusals()
    waiting: list[tuple[str, fw.Tensor, torch.Tensor, str]] = []
    for a, b in [*operands(*pair)][:3] if brief else operands(*pair):
        x, y = (_on(each, device, fused) for each in (a, b))
        for name in names:
            if not sensible(name, a, b):
                continue
            say = f"{name}({_text(a)}, {_text(b)}) on {device.name}"
            try:
                wanted = theirs(name, a, b)
            except (RuntimeError, TypeError, NotImplementedError):
                continue
            try:
                waiting.append((name, ours(name, x, y), wanted, say))
            except DTypeError:
                refused[name, _text(a), _text(b)] += 1
    for name, found, wanted, say in waiting:
        error = compare(name, found, wanted, say)
        if error:
            wrong.append(error)
    return wrong, refused, len(waiting)


def operands(a: DType, b: DType) -> Iterator[tuple[Any, Any]]:
    """Yield pairs of operands of two dtypes, and of one and a number."""
    for x, y in itertools.product(kinds(a, 1), kinds(b, 2)):
        yield torch_of(x, a), torch_of(y, b)
    if a is b:
        for values, number in itertools.product(kinds(a, 3), NUMBERS):
            yield torch_of(values, a), number
            yield number, torch_of(values, a)


def _text(x: Any) -> str:
    if not isinstance(x, torch.Tensor):
        return repr(x)
    return f"{str(x.dtype).removeprefix('torch.')}{tuple(x.shape)}"


def _on(x: Any, device: Device, fused: bool) -> Any:
    """Return an operand on a device, made by an operation if `fused`."""
    if not isinstance(x, torch.Tensor):
        return x
    name = str(x.dtype).removeprefix("torch.")
    values = x.float().numpy() if name == "bfloat16" else x.numpy()
    made = fw.tensor(values, dtype=name, device=device)
    return ops.where(ops.eq(made, made), made, made) if fused else made


def computed(device: Device) -> list[DType]:
    """Return the dtypes that a device computes in."""
    info = getattr(getattr(device, "gpu", None), "info", None)
    return [
        dtype
        for dtype in COMMON
        if info is None or dtype.feature is None or getattr(info, dtype.feature)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare as the command line says; the exit status is 0 if all agreed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mixtures")
    parser.add_argument("--device", help="a device's name or number; default the best")
    parser.add_argument("--brief", action="store_true", help="few of each pair")
    given = parser.parse_args(arguments)
    device = fw.device(given.device)
    wrong, count, refused = 0, 0, Refusals()
    report: Callable[[str], None] = print
    for pair in itertools.product(computed(device), repeat=2):
        for fused in (False, True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                errors, refusals, compared = check(
                    pair, device, fused=fused, brief=given.brief
                )
            for error in errors:
                report(f"{'fused ' if fused else ''}{error}")
            wrong, count = wrong + len(errors), count + compared
            refused += refusals
    names = collections.Counter[str]()
    for (name, _, _), times in refused.items():
        names[name] += times
    report(f"{count} calls compared on {device.name}, {wrong} differ; refused {names}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
