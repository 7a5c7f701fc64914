// Rows written over those of a tensor: out[o, places[e]] = source[o, e], the last e wins
// grid    one invocation per word of source, linear
// in      source (outer, entries, width) words of BYTES; places (entries) int32, what is
//         below 0 names nothing; last (rows) int32, the last entry of each row; division:
//         see `line_and_outer`
// out     out_ (outer, rows, width) words, of which other rows stay
// consts  macro BYTES: 4 or 16
// source  numpy: out[:, places] = source
#version 460
#extension GL_EXT_buffer_reference : require
#ifndef BYTES
#define BYTES 4
#endif
#if BYTES == 4
#define WORD uint
#else
#define WORD uvec4
#endif
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"

layout(buffer_reference, std430, buffer_reference_align = BYTES) restrict readonly
    buffer Words { WORD at[]; };
layout(buffer_reference, std430, buffer_reference_align = BYTES) restrict writeonly
    buffer WordsOut { WORD at[]; };

layout(push_constant, std430) uniform Push {
    Words source;
    IntIn places;
    IntIn last;
    WordsOut out_;
    uint count;
    uint entries;
    uint rows;
    uint width;
    uint division[4];
} args;

void main() {
    uint at = linear_invocation();
    Words source = args.source;
    WordsOut out_ = args.out_;
    uint entries = args.entries, width = args.width;
    if (at >= args.count) return;
    uvec2 line = line_and_outer(at, args.division);
    uint entry = line.x - line.y * entries;
    int place = args.places.at[entry];
    if (place < 0 || args.last.at[place] != int(entry)) return;
    uint target = line.y * args.rows + uint(place);
    out_.at[target * width + at - line.x * width] = source.at[at];
}
