"""Functions of passes: what they take and give."""

from tests.framework.codegen import rows
from tests.framework.codegen.glsl.test_kernel import program_of
from tests.framework.codegen.rows import GPU, program
from vkbackend.framework.codegen.glsl.element_function import ElementFunction
from vkbackend.framework.codegen.glsl.expression import function_names
from vkbackend.framework.codegen.ir.passes import passes
from vkbackend.framework.codegen.ir.program import KernelProgram


def functions(made: KernelProgram) -> list[ElementFunction]:
    schedule = passes(made, keep=True)
    names = function_names(made)
    numbers = range(len(schedule.passes))
    return [ElementFunction(made, schedule, number, names) for number in numbers]


def test_an_element_wise_function_takes_its_numbers() -> None:
    (function,) = functions(program_of("chain"))
    assert function.definition()[0] == (
        "void compute0(float x0, float x1, float s0, out float y0) {"
    )
    assert function.call(2) == [
        "float y0_2;",
        "compute0(x0_2, x1_2, s0, y0_2);",
    ]


def test_results_are_rounded_where_they_are_stored() -> None:
    (function,) = functions(program_of("halves"))
    assert "    y0 = u0;" in function.definition()
    assert "    float v0 = round_float16(u0);" in function.definition()


def test_passes_hand_values_on_in_registers() -> None:
    first, second, third = functions(program(rows.softmax(), GPU))
    assert list(first.answers) == ["t0"]
    assert list(second.answers) == ["t3", "h2"]
    assert second.call(1)[-1] == "compute1(kept_x0[4u * round_ + 1u], t3_1, h2_1);"
    assert third.call(1)[-1] == "compute2(kept_v2[4u * round_ + 1u], y0_1);"
