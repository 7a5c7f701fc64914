from vkbackend.tools.spirv.abstract_interpreter import Values
from vkbackend.tools.spirv.layout import (
    Member,
    Variable,
    buffer_types,
    shared_variables,
)
from vkbackend.tools.spirv.module import read_program

from .shaders import compiled

HEAD = """#version 460
#extension GL_EXT_buffer_reference : require
struct Pair { float low; uint high; };
layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly buffer
    Table { vec4 scale; Pair pairs[3]; vec3 rows[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer
    Out { float at[]; };
layout(buffer_reference, std430) buffer Unused { float at[]; };
layout(push_constant) uniform Push { Table x; Out y; Unused z; };
layout(constant_id = 5) const uint SIZE = 3;
shared vec3 corners[SIZE];
shared struct { uint count; vec4 sum; } state;
"""
MAIN = """
void main() {
    corners[0] = x.rows[1]; state.count = x.pairs[2].high; state.sum = x.scale;
    y.at[0] = corners[1].x + state.sum.y; y.at[1] = y.at[0];
}
"""


def test_buffers() -> None:
    table, out, unused = buffer_types(Values(read_program(compiled(MAIN, HEAD))))
    assert (table.name, table.reads, table.writes) == ("Table", 3, 0)
    qualifiers = ("restrict", "readonly")
    assert table.members == (
        Member("scale", "vec4", 0, 16, 0, qualifiers),
        Member("pairs", "Pair[3]", 16, 24, 8, qualifiers),
        Member("rows", "vec3[]", 48, 0, 16, qualifiers),
    )
    assert table.alignments == (4, 16)
    assert (out.name, out.reads, out.writes) == ("Out", 1, 2)
    assert out.members == (Member("at", "float[]", 0, 0, 4, ("coherent",)),)
    assert (unused.name, unused.reads, unused.writes) == ("Unused", 0, 0)
    assert unused.alignments == ()


def test_shared_memory() -> None:
    words = compiled(MAIN, HEAD)
    assert shared_variables(read_program(words)) == (
        Variable("corners", "vec3[3]", 48),
        Variable("state", shared_variables(read_program(words))[1].type, 32),
    )
    assert shared_variables(read_program(words, {"SIZE": 10}))[0].size == 160
