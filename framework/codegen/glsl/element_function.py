"""GLSL function of a pass: from one element of each operand to what the pass makes."""

from __future__ import annotations

from ...base.dtype import DTYPES
from ..ir.passes import Passes
from ..ir.program import KernelProgram, Reference
from ..ir.rounding import exact_steps
from .expression import argument, call
from .interface import uniform_numbers
from .packing import LANES, ROUNDED


def variable(reference: Reference) -> str:
    """Return the variable of an operand's element, or of an instruction's result."""
    return f"{'x' if reference.source == 'in' else 'v'}{reference.number}"


class ElementFunction:
    """Function of a pass: its parameters and results, and how it is called.

    Numbers and values of a row are parameters of an element-wise program, and global
    variables of a row program.

    Parameters
    ----------
    program : KernelProgram
    schedule : Passes
    number : int
        The pass.
    names : list of str
        Functions of the instructions.

    Attributes
    ----------
    walk : Pass
    reads, keeps : list of Reference
        Values that it reads from registers, and those that later passes read there.
    rounded : list of bool
        Whether each output of an element-wise program is a number of its dtype. Others
        are rounded as they are stored, two at a time.
    """

    def __init__(
        self, program: KernelProgram, schedule: Passes, number: int, names: list[str]
    ) -> None:
        self.program = program
        self.names = names
        self.name = f"compute{number}"
        self.walk = walk = schedule.passes[number]
        self.reads = walk.kept
        made = {Reference("in", k) for k in walk.loads}
        made |= {Reference("op", n) for n in walk.steps}
        self.keeps = [key for key in schedule.kept if key in made]
        loads = walk.loads if program.group else range(len(program.accesses))
        taken = [*(Reference("in", k) for k in loads), *walk.kept]
        self.takes = {variable(key): program.dtype_of(key).glsl for key in taken}
        self.numbers = {} if program.group else uniform_numbers(program)
        # Row programs round in the functions of their expressions.
        results = [step.result in ROUNDED for step in program.instructions]
        exact = exact_steps(program)
        self.rounds = [
            found and n not in exact and not program.group
            for n, found in enumerate(results)
        ]
        self.rounded = [not self.rounds[number] for number, _ in program.outputs]
        self.answers = self._answers()

    def _answers(self) -> dict[str, tuple[str, str]]:
        """Return the type and value of each result; each has a name of its own."""
        program, answers = self.program, {}
        for n in self.walk.folds:
            step = program.instructions[n]
            kind = DTYPES[step.types[0]]
            answers[f"t{n}"] = kind.glsl, argument(program, kind, step.arguments[0])
        for k in self.walk.outputs:
            number, dtype = program.outputs[k]
            value = f"{'u' if self.rounds[number] else 'v'}{number}"
            answers[f"y{k}"] = DTYPES[dtype].glsl, value
        for key in self.keeps:
            if key.source == "op":
                kind = program.dtype_of(key)
                answers[f"h{key.number}"] = kind.glsl, variable(key)
        return answers

    def definition(self) -> list[str]:
        """Return the function."""
        parameters = [
            f"{kind} {name}" for name, kind in (self.takes | self.numbers).items()
        ]
        parameters += [f"out {kind} {name}" for name, (kind, _) in self.answers.items()]
        lines = [f"void {self.name}({', '.join(parameters)}) {{"]
        for n in self.walk.steps:
            result = self.program.instructions[n].result
            kind, value = DTYPES[result].glsl, call(self.program, n, self.names[n])
            if self.rounds[n]:
                lines.append(f"    {kind} u{n} = {value};")
                value = f"round_{result}(u{n})"
            lines.append(f"    {kind} v{n} = {value};")
        lines += [f"    {name} = {value};" for name, (_, value) in self.answers.items()]
        return [*lines, "}"]

    def call(self, lane: int) -> list[str]:
        """Compute the results of one of four elements."""
        kept = {variable(key) for key in self.reads}
        arguments = [
            f"{register(name, lane)}" if name in kept else f"{name}_{lane}"
            for name in self.takes
        ]
        arguments += [*self.numbers, *(f"{name}_{lane}" for name in self.answers)]
        return [
            *(f"{kind} {name}_{lane};" for name, (kind, _) in self.answers.items()),
            f"{self.name}({', '.join(arguments)});",
        ]

    def calls(self) -> list[str]:
        """Compute the results of four elements."""
        return [line for lane in LANES for line in self.call(lane)]


def register(name: str, lane: int) -> str:
    """Return the register that keeps a value of the round for later passes."""
    return f"kept_{name}[4u * round_ + {lane}u]"
