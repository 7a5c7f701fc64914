import pytest

from vkbackend import ShaderError
from vkbackend.tools.spirv import instruction
from vkbackend.tools.spirv.abstract_interpreter import Frame, InvocationContext, Values
from vkbackend.tools.spirv.module import read_program

from . import modules
from .shaders import compiled, main_of


def stored(words: bytes, invocation: InvocationContext) -> object:
    """Return the index at which `main` stores to memory last."""
    values = Values(read_program(words))
    frame = Frame(values.program.entry)
    stores = [
        row
        for _, row in values.program.entry.instructions()
        if instruction.operation(row.opcode) == "Store"
        and len(values.place(frame, row.operands[0]).path) > 1
    ]
    (owner, index) = values.place(frame, stores[-1].operands[0]).path[-1]
    return values.value(owner, index, invocation)


@pytest.mark.parametrize(
    ("expression", "lane", "expected"),
    [
        ("lane * 3 + 1", 5, 16),
        ("lane / 4 * 8 + lane % 4", 13, 25),
        ("(lane ^ 5) & 7", 3, 6),
        ("lane < 4 ? 100 + lane : 200u", 3, 103),
        ("lane < 4 ? 100 + lane : 200u", 4, 200),
        ("uvec2(lane, lane + 1).y", 6, 7),
        ("min(lane, 7u) + max(lane, 9u)", 8, 16),
        ("uint(int(lane) - 9 + 9)", 2, 2),
        ("gl_LocalInvocationID.x + gl_LocalInvocationID.y", 63, 63),
        ("gl_GlobalInvocationID.x - gl_WorkGroupID.x * 64", 17, 17),
    ],
)
def test_indices(expression: str, lane: int, expected: int) -> None:
    words = main_of(f"uint place = {expression}; push.y.at[place] = 1.0;")
    assert stored(words, InvocationContext(lane=lane)) == expected


def test_functions_are_followed() -> None:
    words = compiled(
        "void split(uint n, out uint low) { low = n % 10; }\n"
        "uint twice(uint n) { return n * 2; }\n"
        "void main() { uint a; split(lane, a); push.y.at[twice(a)] = 1.0; }"
    )
    assert stored(words, InvocationContext(lane=37)) == 14


def test_what_is_unknown() -> None:
    words = main_of("push.y.at[uint(push.x.at[0])] = 1.0;")
    assert stored(words, InvocationContext(assume=False)) is None
    words = main_of("push.y.at[push.n] = 1.0;")
    assert stored(words, InvocationContext(assume=False)) is None
    size = stored(words, InvocationContext())
    assert isinstance(size, int)
    assert size % 64 == 0
    assert stored(words, InvocationContext(odd=True)) == size + 1


def test_loops_go_round() -> None:
    values = Values(
        read_program(
            main_of("for (uint k = 3; k < 9; k += 2) push.y.at[k * 10] = 1.0;")
        )
    )
    function = values.program.entry
    (header,) = function.members
    frame = Frame(function)
    place = next(
        values.place(frame, row.operands[0])
        for block, row in function.instructions()
        if instruction.operation(row.opcode) == "Store"
        and block.loops
        and len(values.place(frame, row.operands[0]).path) > 1
    )
    seen = [
        values.value(
            frame, place.path[-1][1], InvocationContext(rounds={((), header): n})
        )
        for n in range(3)
    ]
    assert seen == [30, 50, 70]


def test_recursion_is_refused() -> None:
    call = (57, (2, 9, 1))
    main = (modules.MAIN[0], modules.MAIN[1], call, *modules.MAIN[2:])
    words = modules.assemble(*modules.SHADER, *main)
    values = Values(read_program(words))
    row = next(r for r in values.program.rows if r.opcode == 57)
    with pytest.raises(ShaderError, match=r"word \d+: %1 calls itself"):
        values.call(Frame(values.program.entry), row, ())
