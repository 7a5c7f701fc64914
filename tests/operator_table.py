"""PyTorch's own table of operators, run here: sweeps, and what is known to differ.

The table is internal to PyTorch, so it is imported only when it is asked for.
`python -m tests.operator_table` writes the known differences anew, of all sweeps or of
those that are named.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

import vkbackend.framework as fw
from tests.operator_calls import Difference, differences, functions, refusals
from vkbackend.framework.base.device import CPU, Device


def table() -> list[Any]:
    """Return the operators of PyTorch's table whose function is here too."""
    from torch.testing._internal.common_methods_invocations import op_db

    return [op for op in op_db if functions(op) is not None]


def title(op: Any) -> str:
    """Return the operator's name with that of its variant."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


DTYPES = {
    name: getattr(torch, name)
    for name in (
        "float32", "int64", "bool", "float16", "float64", "bfloat16", "int32", "uint8",
        "complex64",
    )
}  # fmt: skip


def rows(
    ops: Iterable[Any], dtype: str, device: Device, variant: str = ""
) -> Iterator[tuple[str, Counter[str], list[Difference]]]:
    """Yield each operator that differs, the number by kind, and the calls."""
    for op in ops:
        if dtype == "error":
            found = list(refusals(op, device))
        elif DTYPES[dtype] in op.supported_dtypes("cpu"):
            found = list(differences(op, DTYPES[dtype], device, variant))
        else:
            continue
        if found:
            yield title(op), Counter(each.kind for each in found), found


def place(name: str) -> Device:
    """Return the host or the Vulkan device."""
    return CPU if name == "host" else fw.device()


VARIANTS = ("method", "inplace", "alias", "out", "strided", "second")
SWEEPS = tuple(f"host {dtype}" for dtype in DTYPES)
SWEEPS += tuple(f"host float32 {variant}" for variant in VARIANTS)
SWEEPS += "host int64 inplace", "host error"
SWEEPS += tuple(
    f"lavapipe {dtype}"
    for dtype in ("float32", "float64", "float16", "bfloat16", "complex64")
)
SWEEPS += tuple(f"lavapipe float32 {variant}" for variant in VARIANTS)
"""Where the table runs, of which dtype its samples are, and the variant of its calls;
or its refused calls."""

KNOWN = Path(__file__).parent / "data" / "operator_table.txt"
"""Differences that there are, under the reason for each, in brackets: sweep, operator,
kind, and how many calls differ."""
UNEXPLAINED = "unexplained"


def found_in(sweep: str) -> dict[str, int]:
    """Run a sweep; return how many calls differ, by operator and kind."""
    where, dtype, *variant = sweep.split()
    return {
        f"{name} {kind}": number
        for name, count, _ in rows(table(), dtype, place(where), *variant)
        for kind, number in sorted(count.items())
    }


def known() -> dict[str, dict[str, int]]:
    """Return the differences that are written down: their numbers, by reason."""
    found: dict[str, dict[str, int]] = {}
    reason = UNEXPLAINED
    for line in KNOWN.read_text().splitlines():
        if line.startswith("["):
            reason = line.strip("[]")
        else:
            key, _, number = line.rpartition(" ")
            found.setdefault(reason, {})[key] = int(number)
    return found


def write(found: dict[str, dict[str, int]]) -> None:
    """Write the differences of sweeps, each under the reason that it had."""
    before = known()
    reasons = {key: reason for reason, keys in before.items() for key in keys}
    # What one sweep's difference is due to, that of another is too.
    for key, reason in list(reasons.items()):
        reasons.setdefault(_without_sweep(key), reason)
    groups: dict[str, list[str]] = {reason: [] for reason in (*before, UNEXPLAINED)}
    for reason, keys in before.items():
        for key, number in keys.items():
            if sweep_of(key) not in found:
                groups[reason].append(f"{key} {number}\n")
    for sweep, each in found.items():
        for key, number in each.items():
            reason = reasons.get(f"{sweep} {key}", reasons.get(key, UNEXPLAINED))
            groups[reason].append(f"{sweep} {key} {number}\n")
    KNOWN.write_text(
        "".join(
            f"[{reason}]\n{''.join(lines)}" for reason, lines in groups.items() if lines
        )
    )


def sweep_of(key: str) -> str:
    """Return the sweep that a difference is of."""
    return max((each for each in SWEEPS if key.startswith(f"{each} ")), key=len)


def _without_sweep(key: str) -> str:
    return key.removeprefix(f"{sweep_of(key)} ")


if __name__ == "__main__":
    write({sweep: found_in(sweep) for sweep in sys.argv[1:] or SWEEPS})
