import pytest

from vkbackend import ShaderError
from vkbackend.tools.spirv.control_flow import Function
from vkbackend.tools.spirv.module import read_program

from . import modules
from .shaders import main_of


def entry(body: str) -> Function:
    """Return the function of a shader."""
    return read_program(main_of(body)).entry


def test_straight() -> None:
    function = entry("push.y.at[0] = 1.0;")
    assert len(function.blocks) == 1
    assert function.members == {}


def test_loops_within_loops() -> None:
    function = entry(
        "for (uint a = 0; a < 4; ++a) for (uint b = 0; b < 4; ++b)"
        " push.y.at[a] = float(b);"
    )
    depths = sorted(len(block.loops) for block in function.blocks.values())
    assert (depths[0], depths[-1]) == (0, 2)
    outer, inner = sorted(function.members, key=lambda h: -len(function.members[h]))
    assert function.members[inner] < function.members[outer]
    innermost = next(b for b in function.blocks.values() if len(b.loops) == 2)
    assert innermost.loops == (outer, inner)


def test_regions() -> None:
    function = entry(
        "if (push.n > 3) { push.y.at[0] = 1.0; } else { push.y.at[0] = 2.0; }"
    )
    header = next(block for block in function.blocks.values() if block.merge)
    assert function.region(header) == set(header.successors)


def test_a_switch() -> None:
    function = entry(
        "switch (push.n) { case 1: push.y.at[0] = 1.0; break; default: break; }"
    )
    ends = [len(block.successors) for block in function.blocks.values()]
    assert 2 in ends


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (modules.MAIN[:1], "function %1 has no end"),
        (
            (*modules.MAIN[:2], modules.MAIN[3]),
            "block %4 has no end; it needs a branch",
        ),
        ((modules.MAIN[0], modules.MAIN[2]), "OpReturn stands in no block"),
        ((*modules.MAIN[:2], (249, (4,)), (253, ())), "OpReturn stands in no block"),
        ((modules.MAIN[0], (54, (2, 9, 0, 3))), "a function begins within another"),
        ((*modules.MAIN[:2], (249, (1,)), (56, ())), "%1 is no block of function %1"),
    ],
)
def test_what_is_refused(rows: tuple[modules.Row, ...], problem: str) -> None:
    with pytest.raises(ShaderError, match=rf"^SPIR-V word \d+: {problem}"):
        read_program(modules.assemble(*modules.SHADER, *rows))
