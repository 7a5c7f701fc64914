"""Address arithmetic in GLSL: element offsets of the operands of a row program."""

from __future__ import annotations

from ..ir.program import KernelProgram, Pattern
from .packing import LANES


def row_offsets(program: KernelProgram) -> list[str]:
    """Compute the offset of each pattern's row: b{k}."""
    if not program.patterns:
        return []
    lines = _divided("row_", program.row_rank, "known", "r")
    for k, pattern in enumerate(program.patterns):
        terms = [f"p{k}_offset"] if pattern.offset else []
        terms += _terms(k, "row", pattern.rows, "r")
        lines.append(f"uint b{k} = {' + '.join(terms) or '0u'};")
    return lines


def column_offsets(program: KernelProgram, used: set[int]) -> list[str]:
    """Compute the offsets of four elements of each pattern: o{k}_0 to o{k}_3."""
    if not used:
        return []
    lines = []
    for lane in LANES[:1] if program.vec4 else LANES:
        number = "4u * column" if program.vec4 else f"column_{lane}"
        lines += _divided("", program.column_rank, number, "c", str(lane))
        for k in sorted(used):
            steps = program.patterns[k].columns
            terms = [f"b{k}", *_terms(k, "", steps, f"c{lane}")]
            lines.append(f"uint o{k}_{lane} = {' + '.join(terms)};")
    if program.vec4:
        lines += [
            f"uint o{k}_{lane} = o{k}_0{_next(k, program.patterns[k], lane)};"
            for k in sorted(used)
            for lane in LANES[1:]
        ]
    return lines


def _next(k: int, pattern: Pattern, lane: int) -> str:
    """Return the offset of `lane` relative to the first of four elements."""
    last = pattern.columns[-1]
    if last == "0":
        return ""
    stride = f" * p{k}_{len(pattern.columns) - 1}" if last == "s" else ""
    return f" + {lane}u{stride}"


def _divided(
    side: str, rank: int, number: str, names: str, suffix: str = ""
) -> list[str]:
    """Split a linear index into coordinates of one side of the iteration space."""
    rest = f"{names}{suffix}_rest"
    lines = [f"uint {rest} = {number};"]
    for dim in range(rank - 1, 0, -1):
        size = f"{side}size{dim}"
        quotient = f"{names}{suffix}_q{dim}"
        lines += [
            f"uint {quotient} = divide({rest}, {side}magic{dim}, {side}shift{dim});",
            f"uint {names}{suffix}_{dim} = {rest} - {quotient} * {size};",
            f"{rest} = {quotient};",
        ]
    return [*lines, f"uint {names}{suffix}_0 = {rest};"]


def _terms(k: int, side: str, steps: tuple[str, ...], names: str) -> list[str]:
    return [
        f"{names}_{dim}" + (f" * p{k}_{side}{dim}" if step == "s" else "")
        for dim, step in enumerate(steps)
        if step != "0"
    ]
