import pytest

from vkbackend.tools.spirv.abstract_interpreter import InvocationContext
from vkbackend.tools.spirv.divergence import Divergence
from vkbackend.tools.spirv.lint_rules import LintContext
from vkbackend.tools.spirv.memory_access import (
    bank_conflict_degree,
    byte_offset,
    origin,
)
from vkbackend.tools.spirv.report import analyse

from .shaders import compiled

BODY = """
struct Cell {{ uint a; vec3 b; }};
shared Cell cells[64];
shared vec4 rows[64][3];
shared float tile[4096];
void main() {{ {store} = {value}; barrier(); push.y.at[i] = 1.0; }}
"""


def subject(store: str, value: str = "1.0") -> LintContext:
    """Return a shader that stores to shared memory once."""
    return LintContext(analyse(compiled(BODY.format(store=store, value=value))))


@pytest.mark.parametrize(
    ("store", "offset"),
    [
        ("tile[lane * 2 + 1]", 3 * 8 + 4),
        ("cells[lane].b.y", 3 * 32 + 16 + 4),
        ("rows[lane][2].z", 3 * 48 + 32 + 8),
    ],
)
def test_offsets(store: str, offset: int) -> None:
    shader = subject(store)
    (step,) = shader.accesses("shared")
    pointer = shader.pointer(step.row)
    found = byte_offset(shader.values, step.frame, pointer, InvocationContext(lane=3))
    assert found == offset


@pytest.mark.parametrize(
    ("store", "value", "size", "ways"),
    [
        ("tile[lane]", "1.0", 4, 1),
        ("tile[lane * 2]", "1.0", 4, 2),
        ("tile[lane * 32]", "1.0", 4, 32),
        ("tile[lane * 33]", "1.0", 4, 1),
        ("tile[lane * 32 + (lane ^ 7)]", "1.0", 4, 1),
        ("tile[5]", "1.0", 4, 1),
        ("rows[lane][0]", "vec4(1.0)", 16, 1),
        ("tile[uint(push.x.at[lane])]", "1.0", 4, 0),
    ],
)
def test_ways(store: str, value: str, size: int, ways: int) -> None:
    shader = subject(store, value)
    step = list(shader.accesses("shared"))[-1]
    divergence = Divergence(shader.program)
    pointer = shader.pointer(step.row)
    assert (
        bank_conflict_degree(shader.values, divergence, step.frame, pointer, size)
        == ways
    )


def test_origins() -> None:
    shader = LintContext(
        analyse(
            compiled(
                "In copy = push.x;\n"
                "void main() { push.y.at[i] = copy.at[0] + push.x.at[1]; }"
            )
        )
    )
    first, second, third = (
        origin(shader.values, step.frame, shader.pointer(step.row))
        for step in shader.accesses("device")
    )
    assert first == second != third
