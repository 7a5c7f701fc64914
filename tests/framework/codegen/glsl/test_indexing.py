"""Offsets of elements, from the coordinates of rows and columns."""

from tests.framework.codegen import rows
from tests.framework.codegen.glsl.test_kernel import program_of
from tests.framework.codegen.rows import GPU, program
from vkbackend.framework.codegen.glsl.indexing import element_offsets, row_offsets


def test_rows_begin_at_their_pushed_strides() -> None:
    assert row_offsets(program(rows.odd(), GPU))[-1] == (
        "uint b0 = p0_offset + r_0 * p0_row0;"
    )


def test_nothing_is_computed_where_elements_follow_each_other() -> None:
    softmax = program(rows.softmax(), GPU)
    assert row_offsets(softmax) == []
    assert element_offsets(softmax, set(), ["4u * column"]) == []


def test_neighbours_share_their_coordinates() -> None:
    lines = element_offsets(program(rows.normalised(), GPU), {0}, ["4u * column"])
    assert lines[-4:] == [
        "uint o0_0 = b0 + c0_0;",
        "uint o0_1 = o0_0 + 1u;",
        "uint o0_2 = o0_0 + 2u;",
        "uint o0_3 = o0_0 + 3u;",
    ]


def test_others_are_found_one_by_one() -> None:
    lines = element_offsets(program(rows.odd(), GPU), {0}, list("abcd"))
    assert [line for line in lines if line.startswith("uint o0")] == [
        f"uint o0_{lane} = b0 + c{lane}_0 * p0_0;" for lane in range(4)
    ]


def test_an_element_wise_program_has_no_rows() -> None:
    made = program_of("odd_sizes")
    lines = element_offsets(made, range(2), ["i", "j", "k", "l"])
    assert lines[0] == "uint c0_rest = i;"
    assert "uint o0_3 = c3_0 * p0_0 + c3_1 * p0_1 + c3_2 * p0_2;" in lines
    assert lines[-1] == "uint o1_3 = c3_1;"
