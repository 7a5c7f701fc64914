// Gather of rows of whole vectors by index: out[o, e] = x[o, row(e)], elsewhere `fill`
// grid    linear, one invocation for each vector of 16 bytes of out_
// in      x (outer, rows, width), in vectors; indices (entries); count: vectors of out_;
//         magic and shift, which divide by width and entries; fill: the elements where
//         no row is named
// out     out_ (outer, entries, width); error: an index out of range
// consts  INDEX_WORDS, INDEX_SIGNED, FROM_END
// source  numpy.take
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "index/row_index.glsl"

layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly buffer
    Vectors { uvec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly buffer
    VectorsOut { uvec4 at[]; };

layout(push_constant, std430) uniform Push {
    Vectors x;
    Indices indices;
    VectorsOut out_;
    IndexSlot error;
    uint width;
    uint count;
    uint rows;
    uint entries;
    uint fill[2];
    uint magic[2];
    uint shift[2];
} args;

void main() {
    uint number = linear_invocation();
    if (number >= args.count) return;
    uint line = divide(number, args.magic[0], args.shift[0]);
    uint outer = divide(line, args.magic[1], args.shift[1]);
    uint bad = 0;
    int row = read_row(args.indices, line - outer * args.entries, args.rows, bad);
    uint start = (outer * args.rows + uint(max(row, 0))) * args.width;
    uvec4 value = uvec4(args.fill[0], args.fill[1], args.fill[0], args.fill[1]);
    if (row >= 0) value = args.x.at[start + number - line * args.width];
    args.out_.at[number] = value;
    if (bad != 0) args.error.at[0] = bad;
}
