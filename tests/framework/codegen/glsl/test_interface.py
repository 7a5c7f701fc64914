"""Buffers, arguments and extensions of a kernel."""

from tests.framework.codegen import rows
from tests.framework.codegen.glsl.test_kernel import program_of
from tests.framework.codegen.rows import GPU, program
from vkbackend.framework.codegen.glsl.interface import (
    buffer_types,
    declarations,
    extensions,
    interface,
)


def test_contiguous_operands_are_buffers_of_vectors() -> None:
    made = program_of("broadcast")
    kinds = {"in0": "In_uvec4", "in1": "In_uvec4", "in2": "In_uint", "in3": "In_uint"}
    assert buffer_types(made, wide=False) == kinds | {"out0": "Out_uvec4"}
    assert buffer_types(made, wide=True)["in0"] == "In_u64vec2"


def test_results_of_rows_are_written_alone() -> None:
    made = program(rows.softmax(64, 40, rows.float16), GPU, wanted=5)
    kinds = buffer_types(made, wide=False)
    assert (kinds["out0"], kinds["out1"]) == ("Out_uint16_t", "Out_uvec2")
    storage = "#extension GL_EXT_shader_16bit_storage : require"
    assert storage in extensions(made, wide=False)
    assert storage not in extensions(program_of("halves"), wide=False)


def test_many_arguments_are_read_from_memory() -> None:
    fields = [(f"in{k}", "") for k in range(17)]
    kinds = {name: "In_uint" for name, _ in fields}
    assert "uniform Push {" in "".join(interface(fields[:16], kinds))
    assert "Push { Arguments args; }" in "".join(interface(fields, kinds))


def test_numbers_of_a_row_program_are_global() -> None:
    assert "float s0 = args.s0;" in declarations(program_of("chain"), wide=False)
    assert "s0 = args.s0;" in declarations(program(rows.normalised(), GPU), wide=False)
