"""How operands are loaded: vectors, one element for four, and each by itself."""

from tests.framework.codegen import rows
from tests.framework.codegen.glsl.test_kernel import program_of
from tests.framework.codegen.rows import GPU, program
from vkbackend.framework.codegen.glsl.operand import load, load_one


def test_contiguous_elements_are_loaded_as_a_vector() -> None:
    lines = load(program_of("broadcast"), 0, wide=False)
    assert lines[:2] == [
        "uvec4 w0_0 = in0.at[i];",
        "float x0_0 = uintBitsToFloat(w0_0.x);",
    ]


def test_four_take_one_element_where_it_is_the_same() -> None:
    made = program_of("broadcast")
    splat, scalar = load(made, 2, wide=False), load(made, 3, wide=False)
    assert splat[0] == "float x2_0 = uintBitsToFloat(in2.at[o1_0]);"
    assert scalar[0] == "float x3_0 = uintBitsToFloat(in3.at[0u]);"
    assert splat[1:] == [f"float x2_{lane} = x2_0;" for lane in (1, 2, 3)]


def test_elements_of_odd_rows_are_loaded_one_by_one() -> None:
    lines = load(program(rows.odd(), GPU, 2), 0, wide=False)
    assert [line.count("in0.at[o0_") for line in lines] == [1] * 4


def test_an_element_of_a_draw_is_one_of_its_vector() -> None:
    made = program_of("broadcast")
    drawn = made._replace(
        accesses=(made.accesses[0]._replace(kind="random", pattern=2),)
    )
    assert load_one(drawn, 0, "known", "") == (
        "random_uniform((known >> 2), uvec2(s2, s3), uvec2(s4, s5))[known & 3u]"
    )
