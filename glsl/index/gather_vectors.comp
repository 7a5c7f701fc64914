// Gather of rows of whole vectors by index: out[o, e] = x[o, row(e)], elsewhere `fill`
// grid    linear: (outer, segments of a row, lines, vectors of a segment), where an
//         invocation has that vector of ITEMS entries; the last segment of a row covers
//         its end, if with vectors of the one before
// in      x (outer, rows, width), in vectors of 16 bytes; indices (entries); lines:
//         entries by ITEMS; segment: vectors of one; count: invocations; magic and
//         shift, which divide by segment, lines and segments; fill: the elements where
//         no row is named
// out     out_ (outer, entries, width); error: an index out of range
// consts  INDEX_WORDS, INDEX_SIGNED, FROM_END; ITEMS: loads that are in flight
// source  numpy.take
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"
#include "index/row_index.glsl"

layout(constant_id = 9) const uint ITEMS = 1;

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
    uint lines;
    uint segment;
    uint segments;
    uint fill[2];
    uint magic[3];
    uint shift[3];
} args;

void main() {
    uint number = linear_invocation();
    Vectors x = args.x;
    Indices indices = args.indices;
    VectorsOut out_ = args.out_;
    IndexSlot error = args.error;
    if (number >= args.count) return;
    uint line = divide(number, args.magic[0], args.shift[0]);
    uint block = divide(line, args.magic[1], args.shift[1]);
    uint outer = divide(block, args.magic[2], args.shift[2]);
    uint begin = (block - outer * args.segments) * args.segment;
    uint column = min(begin, args.width - args.segment) + number - line * args.segment;
    uint first = line - block * args.lines, bad = 0;
    int row[ITEMS];
    [[unroll]] for (uint k = 0; k < ITEMS; ++k) {
        uint entry = min(first + k * args.lines, args.entries - 1);
        row[k] = read_row(indices, entry, args.rows, bad);
    }
    uvec4 value[ITEMS];
    [[unroll]] for (uint k = 0; k < ITEMS; ++k) {
        uint from = outer * args.rows + uint(max(row[k], 0));
        value[k] = x.at[from * args.width + column];
    }
    uvec4 missing = uvec4(args.fill[0], args.fill[1], args.fill[0], args.fill[1]);
    [[unroll]] for (uint k = 0; k < ITEMS; ++k) {
        uint entry = first + k * args.lines;
        if (entry >= args.entries) continue;
        uint to = outer * args.entries + entry;
        out_.at[to * args.width + column] = row[k] >= 0 ? value[k] : missing;
    }
    if (bad != 0) error.at[0] = bad;
}
