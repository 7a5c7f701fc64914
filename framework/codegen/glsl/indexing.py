"""Address arithmetic in GLSL: element offsets of operands from their coordinates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..ir.program import KernelProgram, Pattern, stride_names
from .packing import LANES


def row_offsets(program: KernelProgram) -> list[str]:
    """Compute the offset of each pattern's row: b{k}."""
    if not program.patterns:
        return []
    lines = _coordinates("row_", program.row_rank, "known", "r")
    for k, pattern in enumerate(program.patterns):
        terms = [f"p{k}_offset"] if pattern.offset else []
        terms += _terms(stride_names(k, pattern)[: program.row_rank], "r")
        lines.append(f"uint b{k} = {' + '.join(terms) or '0u'};")
    return lines


def element_offsets(
    program: KernelProgram, used: Iterable[int], indices: Sequence[str]
) -> list[str]:
    """Compute the offsets of four elements of some patterns: o{k}_0 to o{k}_3.

    Parameters
    ----------
    program : KernelProgram
    used : iterable of int
        The patterns.
    indices : sequence of str
        Index of each element; where the program is `vec4`, of the first alone, or of
        the first of each two.
    """
    patterns = [(k, program.patterns[k]) for k in sorted(used)]
    if not patterns:
        return []
    lines = []
    apart = len(LANES) // len(indices) if program.vec4 else 1
    for lane, index in zip(LANES[::apart], indices):
        lines += _coordinates("", program.column_rank, index, f"c{lane}")
        for k, pattern in patterns:
            terms = [f"p{k}_offset"] if pattern.offset else []
            terms = [f"b{k}"] if program.group else terms
            terms += _terms(stride_names(k, pattern)[program.row_rank :], f"c{lane}")
            lines.append(f"uint o{k}_{lane} = {' + '.join(terms) or '0u'};")
    if program.vec4:
        lines += [
            f"uint o{k}_{lane} ="
            f" o{k}_{lane // apart * apart}{_next(k, pattern, lane % apart)};"
            for k, pattern in patterns
            for lane in LANES
            if lane % apart
        ]
    return lines


def _next(k: int, pattern: Pattern, lane: int) -> str:
    """Return the offset of `lane` relative to the first of neighbouring elements."""
    name, step = stride_names(k, pattern)[-1]
    if step == "0":
        return ""
    return f" + {lane}u" + (f" * {name}" if step == "s" else "")


def _coordinates(side: str, rank: int, index: str, names: str) -> list[str]:
    """Split a linear index into coordinates of one side of the iteration space."""
    rest = f"{names}_rest"
    lines = [f"uint {rest} = {index};"]
    for dim in range(rank - 1, 0, -1):
        quotient = f"{names}_q{dim}"
        lines += [
            f"uint {quotient} = divide({rest}, {side}magic{dim}, {side}shift{dim});",
            f"uint {names}_{dim} = {rest} - {quotient} * {side}size{dim};",
            f"{rest} = {quotient};",
        ]
    return [*lines, f"uint {names}_0 = {rest};"]


def _terms(strides: Sequence[tuple[str, str]], names: str) -> list[str]:
    return [
        f"{names}_{dim}" + (f" * {name}" if step == "s" else "")
        for dim, (name, step) in enumerate(strides)
        if step != "0"
    ]
