"""Functions of expressions, and conversions of their arguments."""

import pytest

from tests.framework.codegen import rows
from tests.framework.codegen.glsl.test_kernel import program_of
from tests.framework.codegen.rows import GPU, program
from vkbackend.framework.codegen.glsl.expression import (
    call,
    function_names,
    functions,
    includes,
)


def test_equal_expressions_are_one_function() -> None:
    names = function_names(program_of("operands"))
    assert set(names) == {"f0"}
    assert len(functions(program_of("operands"), names)) == 1


def test_folds_have_no_function() -> None:
    assert function_names(program(rows.softmax(), GPU)) == ["", "f0", "f1", "", "f2"]


def test_row_programs_round_in_the_function() -> None:
    halves, made = program_of("halves"), program(rows.odd(), GPU, 2)
    assert "round_float16" not in functions(halves, function_names(halves))[0]
    assert "round_float16" in functions(made, function_names(made))[0]


@pytest.mark.parametrize(
    ("name", "number", "value"),
    [
        ("chain", 1, "f1(float(v0), float(s0))"),
        ("narrow", 0, "f0(int(x0))"),
        ("conversions", 1, "f1(saturate(v0, uint(0u), uint(255u)))"),
    ],
)
def test_arguments_are_converted(name: str, number: int, value: str) -> None:
    made = program_of(name)
    assert call(made, number, function_names(made)[number]) == value


def test_library_files_of_functions_are_included() -> None:
    lines = includes(program_of("outputs"))
    assert lines[0] == '#include "lib/index.glsl"'
    assert '#include "lib/math/exponential.glsl"' in lines
