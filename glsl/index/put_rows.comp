// Rows written over those of a tensor: out[o, places[e]] = source[o, e], the last e wins
// grid    one invocation per 32-bit word of source, linear
// in      source (outer, entries, width) words; places (entries) int32, what is below 0
//         names nothing; last (rows) int32, the last entry of each row
// out     out_ (outer, rows, width) words, of which other rows stay
// consts  none
// source  numpy: out[:, places] = source
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    Words { uint at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer
    WordsOut { uint at[]; };

layout(push_constant, std430) uniform Push {
    Words source;
    IntIn places;
    IntIn last;
    WordsOut out_;
    uint count;
    uint entries;
    uint rows;
    uint width;
} args;

void main() {
    uint at = linear_invocation();
    Words source = args.source;
    WordsOut out_ = args.out_;
    uint entries = args.entries, width = args.width;
    if (at >= args.count) return;
    uint row = at / width, entry = row % entries;
    int place = args.places.at[entry];
    if (place < 0 || args.last.at[place] != int(entry)) return;
    uint target = row / entries * args.rows + uint(place);
    out_.at[target * width + at % width] = source.at[at];
}
