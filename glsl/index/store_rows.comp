// Rows stored over those of a tensor that they name, in any order
// grid    one invocation per element of source, or for a whole row of vectors, linear
// in      source (outer, entries, inner), or one element if SINGLE; indices (entries), or
//         one for each element if EACH; count: elements that are stored; division: see
//         `line_and_outer`
// out     out_ (outer, rows, inner), of which other rows stay; error: an index out of range
// consts  BYTES: of an element, 1, 2, 4, 8 or 16; EACH; SINGLE; REPEATED: what has the
//         value is left alone, as stores to one place wait for each other and loads from
//         a cache do not; INDEX_WORDS, INDEX_SIGNED, FROM_END
// source  numpy: out[:, indices] = source, where it does not matter which comes last
#version 460
#extension GL_EXT_buffer_reference : require
#ifndef BYTES
#define BYTES 4
#endif
#if BYTES == 1
#extension GL_EXT_shader_8bit_storage : require
#define STORED uint8_t
#elif BYTES == 2
#extension GL_EXT_shader_16bit_storage : require
#define STORED uint16_t
#elif BYTES == 4
#define STORED uint
#elif BYTES == 8
#define STORED uvec2
#else
#define STORED uvec4
#endif
#if BYTES <= 2
#define READ uint
#else
#define READ STORED
#endif
#include "lib/index.glsl"
#include "index/row_index.glsl"

layout(constant_id = 3) const uint SINGLE = 0;
layout(constant_id = 7) const uint EACH = 1;
layout(constant_id = 9) const uint REPEATED = 0;

layout(buffer_reference, std430, buffer_reference_align = BYTES) restrict readonly
    buffer Elements { STORED at[]; };
layout(buffer_reference, std430, buffer_reference_align = BYTES) restrict
    buffer ElementsOut { STORED at[]; };

layout(push_constant, std430) uniform Push {
    Elements source;
    Indices indices;
    ElementsOut out_;
    IndexSlot error;
    uint count;
    uint rows;
    uint entries;
    uint inner;
    uint division[4];
} args;

void main() {
    uint element = linear_invocation();
    Elements source = args.source;
    ElementsOut out_ = args.out_;
    uint rows = args.rows, entries = args.entries, inner = args.inner;
    if (element >= args.count) return;
    uvec2 at = line_and_outer(element, args.division);
    uint line = at.x, outer = at.y;
    uint entry = EACH != 0 ? element : line - outer * entries, bad = 0;
    int row = read_row(args.indices, entry, rows, bad);
    if (bad != 0) args.error.at[0] = bad;
    if (row < 0) return;
    uint place = (outer * rows + uint(row)) * inner + (element - line * inner);
    uint from = SINGLE != 0 ? 0 : element;
    if (REPEATED != 0 && READ(out_.at[place]) == READ(source.at[from])) return;
    out_.at[place] = source.at[from];
}
