import resource

import pytest

from vkbackend import ShaderError
from vkbackend.tools.spirv.module import MAX_SIZE, read_program

from . import modules, mutation
from .shaders import SHARED, compiled, main_of, small

COUNT = 2000


def test_mutated_modules() -> None:
    # A million of them, by hand: python -m tests.tools.spirv.mutation 1000000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    whole, _ = mutation.run(small(), 0, COUNT)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert 0 < whole < COUNT
    assert grown * 1024 < mutation.MAX_BYTES


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (b"", r"word 0: the module is cut short: it has 0 bytes"),
        (bytes(MAX_SIZE + 4), r"word \d+: the module is too large: 2097156 bytes"),
        (
            modules.assemble(*modules.SHADER, (61, (2, 9, 77)), *modules.MAIN),
            r"word \d+: OpLoad uses %77, which nothing defines",
        ),
        (
            modules.assemble(*modules.SHADER, (19, (2,)), *modules.MAIN),
            r"word \d+: %2 is defined again or 0",
        ),
        (
            modules.assemble(*modules.SHADER, (43, (1, 9, 0)), *modules.MAIN),
            r"word \d+: OpConstant has %1 for its type, which is none",
        ),
    ],
)
def test_rejections(words: bytes, problem: str) -> None:
    with pytest.raises(ShaderError, match=f"^SPIR-V {problem}"):
        read_program(words)


def test_deep_types() -> None:
    rows = [(22, (10, 32)), (21, (11, 32, 0)), (43, (11, 12, 2))]
    rows += [(28, (100 + n, 99 + n if n else 10, 12)) for n in range(100)]
    program = read_program(modules.assemble(*modules.SHADER, *rows, *modules.MAIN))
    with pytest.raises(ShaderError, match="types are nested too deep: at most 32"):
        program.type(199)


def test_constants_are_computed() -> None:
    program = read_program(compiled(SHARED), {"ROWS": 7})
    cells = next(n for n, name in program.names.items() if name == "CELLS")
    assert program.constant(cells) == 14


def test_decorations_and_names() -> None:
    program = read_program(main_of("push.y.at[i] = 1.0;"))
    struct = next(n for n, name in program.names.items() if name == "In")
    assert program.decoration(struct, "Block") == ()
    assert program.decoration(struct, "Offset", 0) == (0,)
    assert program.decoration(struct, "Offset") is None
    assert program.name_of(999_999) == "%999999"
