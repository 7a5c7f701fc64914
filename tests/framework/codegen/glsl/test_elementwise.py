"""Main functions of element-wise kernels."""

from tests.framework.codegen.glsl.test_kernel import program_of
from vkbackend.framework.codegen.glsl.elementwise import varying
from vkbackend.framework.codegen.glsl.kernel import emit


def test_several_groups_of_four_read_a_scalar_once() -> None:
    program = program_of("broadcast")._replace(rounds=4)
    before, loop, after = emit(program).partition("for (")
    assert loop
    assert "float x3_0 = uintBitsToFloat(in3.at[0u]);" in before
    assert "in3.at" not in after
    assert "if (i < quads) {" in after


def test_a_single_vector_is_left_out_past_the_end() -> None:
    main = emit(program_of("broadcast")).partition("void main()")[2]
    assert main.index("if (i >= quads) return;") < main.index(".at[")


def test_an_element_for_all_does_not_vary() -> None:
    assert varying(program_of("broadcast")) == [0, 1, 2]
