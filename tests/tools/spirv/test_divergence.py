import pytest

from vkbackend.tools.spirv import instruction
from vkbackend.tools.spirv.divergence import Divergence
from vkbackend.tools.spirv.module import read_program

from .shaders import compiled, main_of


def stored_differs(words: bytes) -> bool:
    """Return whether what `main` stores to memory last differs in a workgroup."""
    program = read_program(words)
    divergence = Divergence(program)
    stores = [
        row
        for _, row in program.entry.instructions()
        if instruction.operation(row.opcode) == "Store"
    ]
    return stores[-1].operands[1] in divergence.values


@pytest.mark.parametrize(
    ("value", "differs"),
    [
        ("1.0", False),
        ("float(push.n)", False),
        ("float(gl_WorkGroupID.x)", False),
        ("float(lane)", True),
        ("float(gl_GlobalInvocationID.x)", True),
        ("push.x.at[push.n]", False),
        ("push.x.at[lane]", True),
        ("min(float(lane), 2.0)", True),
    ],
)
def test_values(value: str, differs: bool) -> None:
    assert stored_differs(main_of(f"push.y.at[0] = {value};")) is differs


def test_what_is_written_where_only_some_are() -> None:
    body = "float a = 0; if ({}) a = 1.0; push.y.at[0] = a;"
    assert stored_differs(main_of(body.format("lane < 3")))
    assert not stored_differs(main_of(body.format("push.n < 3")))


def test_functions_called_by_some() -> None:
    words = compiled(
        "float two() { return push.n * 2.0; }\n"
        "void main() { float a = 0; if (lane < 3) a = two(); push.y.at[0] = two(); }"
    )
    assert not stored_differs(words)
    program = read_program(words)
    divergence = Divergence(program)
    names = {program.name_of(number) for number in divergence.functions}
    assert names == {"two("}


def test_loops_that_some_leave() -> None:
    program = read_program(
        main_of("uint k = 0; while (true) { if (k > lane) break; ++k; }")
    )
    divergence = Divergence(program)
    (members,) = program.entry.members.values()
    assert members <= divergence.blocks
