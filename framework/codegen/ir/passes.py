"""Passes over the elements of a row: which steps of a program each of them computes."""

from __future__ import annotations

from typing import NamedTuple

from ...base.shape import ceil_div
from .program import Fold, KernelProgram, Reference


class Pass(NamedTuple):
    """Pass over the elements of a row, and the per-row steps after it.

    Attributes
    ----------
    loads : tuple of int
        Accesses loaded.
    kept : tuple of Reference
        Values in registers from an earlier pass.
    steps : tuple of int
        Per-element steps.
    folds : tuple of int
    outputs : tuple of int
        Per-element outputs stored.
    after : tuple of int
        Per-row steps that can be computed now; folds among them.
    """

    loads: tuple[int, ...]
    kept: tuple[Reference, ...]
    steps: tuple[int, ...]
    folds: tuple[int, ...]
    outputs: tuple[int, ...]
    after: tuple[int, ...]


class Passes(NamedTuple):
    """Pass schedule of a program.

    Attributes
    ----------
    before : tuple of int
        Per-row steps before the first pass.
    passes : tuple of Pass
    kept : tuple of Reference
        Values kept in registers from one pass to a later one.
    """

    before: tuple[int, ...]
    passes: tuple[Pass, ...]
    kept: tuple[Reference, ...]


def passes(program: KernelProgram, keep: bool) -> Passes:
    """Schedule the steps of a program into passes; an element-wise one has one pass.

    Parameters
    ----------
    program : KernelProgram
    keep : bool
        Whether a per-element value that a later pass needs stays in registers;
        otherwise it is recomputed.
    """
    stages = _stages(program)
    rows = [n for n, step in enumerate(program.instructions) if step.per_row]
    all_folds = [n for n in rows if isinstance(program.instructions[n], Fold)]
    element_outputs = {
        k: output.instruction
        for k, output in enumerate(program.outputs)
        if not program.is_per_row(output)
    }
    last = max(
        [
            *(stages[n] - 1 for n in all_folds),
            *(stages[n] for n in element_outputs.values()),
        ]
    )
    found: list[Pass] = []
    known: set[Reference] = set()
    for number in range(last + 1):
        folds = [n for n in all_folds if stages[n] == number + 1]
        outputs = [k for k, n in element_outputs.items() if stages[n] == number]
        roots = [
            *(program.instructions[n].arguments[0] for n in folds),
            *(Reference("op", program.outputs[k].instruction) for k in outputs),
        ]
        needed, kept = _needed(program, roots, known if keep else set())
        known |= needed
        found.append(
            Pass(
                tuple(sorted(n for source, n in needed if source == "in")),
                tuple(sorted(kept)),
                tuple(sorted(n for source, n in needed if source == "op")),
                tuple(folds),
                tuple(outputs),
                tuple(n for n in rows if stages[n] == number + 1),
            )
        )
    before = tuple(n for n in rows if stages[n] == 0)
    reused = dict.fromkeys(key for each in found for key in each.kept)
    return Passes(before, tuple(found), tuple(reused))


def _stages(program: KernelProgram) -> list[int]:
    """Return the pass level of each step: passes that must precede it."""
    stages: list[int] = []
    for step in program.instructions:
        needs = [stages[n] for source, n in step.arguments if source == "op"]
        stages.append(max(needs, default=0) + isinstance(step, Fold))
    return stages


def _needed(
    program: KernelProgram, roots: list[Reference], known: set[Reference]
) -> tuple[set[Reference], set[Reference]]:
    """Return the references computed per element, and those reused from registers."""
    needed: set[Reference] = set()
    kept: set[Reference] = set()
    pending = list(roots)
    while pending:
        reference = pending.pop()
        source, number = reference
        if source not in ("in", "op") or reference in needed:
            continue
        if _of_row(program, reference):
            continue
        if reference in known:
            kept.add(reference)
            continue
        needed.add(reference)
        if source == "op":
            pending += program.instructions[number].arguments
    return needed, kept


def _of_row(program: KernelProgram, reference: Reference) -> bool:
    source, number = reference
    if source == "in":
        return program.accesses[number].per_row
    return program.instructions[number].per_row


def kept_registers(program: KernelProgram) -> int:
    """Return the peak of 32-bit registers per element kept between passes."""
    walks = passes(program, keep=True).passes
    most = 0
    for number in range(1, len(walks)):
        later = {key for other in walks[number:] for key in other.kept}
        for other in walks[number:]:
            later -= {Reference("in", k) for k in other.loads}
            later -= {Reference("op", n) for n in other.steps}
        sizes = [program.dtype_of(key).itemsize for key in later]
        most = max(most, sum(ceil_div(size, 4) for size in sizes))
    return most
