"""Report on one shader, as plain values that JSON can hold."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from vkbackend.shader.interface import PUSH_SIZE
from vkbackend.shader.reflection import BlockLayout

from . import instruction, requirement
from .abstract_interpreter import Values
from .cost_model import (
    CostTally,
    ExecutedInstruction,
    LoopNest,
    classify,
    loop_nests,
    walk,
)
from .layout import buffer_types, shared_variables
from .module import Constant, ResolvedModule, read_program
from .requirement import DeviceSupport

SHARED_MINIMUM = 16384
"""Bytes of shared memory that every Vulkan device has."""

Report = dict[str, Any]


@dataclass(frozen=True)
class Analysis:
    """A shader taken apart: what reports and rules start from."""

    program: ResolvedModule
    values: Values
    steps: list[ExecutedInstruction]
    nest: LoopNest


def analyse(
    words: bytes,
    constants: Mapping[str, Constant] | None = None,
    *,
    open_size: int | None = None,
) -> Analysis:
    """Take a module apart; all as `read_program` has it.

    Raises
    ------
    ShaderError
        If it is broken, naming the offset in words.
    """
    program = read_program(words, constants, open_size=open_size)
    values = Values(program)
    steps = list(walk(values))
    return Analysis(program, values, steps, loop_nests(values, steps))


def report(
    name: str,
    words: bytes,
    constants: Mapping[str, Constant] | None = None,
    has: DeviceSupport | None = None,
) -> Report:
    """Return everything that is said about one shader.

    Parameters
    ----------
    name : str
        What to call it.
    words : bytes
        The module.
    constants : mapping of str to bool, int or float, optional
        Specialization constants by name.
    has : DeviceSupport, optional
        The device that it is for.

    Raises
    ------
    ShaderError
        If the module is broken, naming the offset in words.
    """
    analysis = analyse(words, constants)
    program = analysis.program
    module = program.module
    size = analysis.values.workgroup_size()
    found = {
        "name": name,
        "bytes": len(words),
        "entry_point": module.entry_point,
        "version": module.version,
        "device": None if has is None else has.info.name,
        "workgroup": {
            "size": size,
            "invocations": size[0] * size[1] * size[2],
            "constants": module.workgroup_ids,
        },
        **_requirements(program, has),
        "constants": [
            {**asdict(row), "value": program.overrides.get(row.id, row.default)}
            for row in module.spec_constants
        ],
        "push": _block(module.push, PUSH_SIZE),
        "arguments": _block(module.arguments, None) if module.indirect else None,
        "buffers": [asdict(row) for row in buffer_types(analysis.values)],
        "shared": _shared(program, has),
        **_counts(program),
        "invocation": _cost(analysis.nest),
        "structure": _structure(program, analysis.nest),
    }
    return {key: _plain(value) for key, value in found.items()}


def _requirements(program: ResolvedModule, has: DeviceSupport | None) -> Report:
    capabilities, extensions = program.module.capabilities, program.module.extensions
    return {
        "capabilities": [
            {"number": number, **asdict(requirement.of_capability(number, has))}
            for number in capabilities
        ],
        "extensions": [
            asdict(requirement.of_extension(text, has)) for text in extensions
        ],
    }


def _plain(value: Any) -> Any:
    """Return a value as JSON gives it back: with lists for tuples."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return [*map(_plain, value)] if isinstance(value, list | tuple) else value


def _block(layout: BlockLayout | None, limit: int | None) -> Report | None:
    if layout is None:
        return None
    fields = [asdict(field) for field in layout.fields]
    found: Report = {"size": layout.size, "fields": fields}
    return found if limit is None else {**found, "limit": limit}


def _shared(program: ResolvedModule, has: DeviceSupport | None) -> Report:
    variables = shared_variables(program)
    limit = SHARED_MINIMUM if has is None else has.info.max_shared_memory
    return {
        "size": sum(row.size for row in variables),
        "limit": limit,
        "variables": [asdict(row) for row in variables],
    }


def _counts(program: ResolvedModule) -> Report:
    """Return how often each operation occurs in the module, and each class in it."""
    opcodes = Counter(row.opcode for row in program.rows)
    operations = {
        f"Op{instruction.operation(n)}": count for n, count in opcodes.items()
    }
    classes: Counter[str] = Counter()
    for function in program.functions.values():
        for _, row in function.instructions():
            kind = classify(program, row)
            if kind != "declaration":
                classes[kind] += 1
    return {
        "instructions": sum(classes.values()),
        "classes": dict(sorted(classes.items())),
        "operations": dict(sorted(operations.items())),
    }


def _cost(nest: LoopNest) -> Report:
    total, complete = nest.total()
    return {
        "rounds": nest.rounds,
        "function": nest.function,
        "offset": nest.offset,
        "own": _tally(nest.own),
        "total": _tally(total),
        "complete": complete,
        "loops": [_cost(inner) for inner in nest.inner],
    }


def _tally(tally: CostTally) -> Report:
    return {
        "instructions": sum(tally.counts.values()),
        "classes": dict(sorted(tally.counts.items())),
        "flops": tally.flops,
        "matrix_flops": tally.matrix_flops,
        "read": dict(sorted(tally.read.items())),
        "written": dict(sorted(tally.written.items())),
    }


def _structure(program: ResolvedModule, nest: LoopNest) -> Report:
    blocks = [b for f in program.functions.values() for b in f.blocks.values()]
    ends = Counter(instruction.operation(block.terminator.opcode) for block in blocks)
    return {
        "functions": len(program.functions),
        "blocks": len(blocks),
        "loops": sum(1 for block in blocks if block.proceed),
        "branches": sum(
            1
            for block in blocks
            if block.merge and not block.proceed and _is_branch(block.terminator.opcode)
        ),
        "switches": ends["Switch"],
        "deepest_nest": _depth(nest),
    }


def _is_branch(opcode: int) -> bool:
    return instruction.operation(opcode) == "BranchConditional"


def _depth(nest: LoopNest) -> int:
    return max((1 + _depth(inner) for inner in nest.inner), default=0)
