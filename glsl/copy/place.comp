// A region of a tensor replaced: result = base, except where a layout takes from source
// grid    one invocation per element of base, linear
// in      base and source, contiguous, of 32-bit words; size, stride: the region over
//         base from the longest stride down; step: strides of the same dimensions in
//         source; offset: the region's first element
// out     result, as base
// consts  WORDS: 32-bit words per element
// source  gather form: no two invocations write one element
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"

layout(constant_id = 3) const uint WORDS = 1;
const int DIMS = 6;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    In { uint at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer
    Out { uint at[]; };
layout(push_constant, std430) uniform Push {
    In base;
    In source;
    Out result;
    uint count;
    uint offset;
    uint size[DIMS];
    uint stride[DIMS];
    uint step[DIMS];
} args;

void main() {
    uint i = linear_invocation();
    if (i >= args.count) return;
    bool inside = i >= args.offset;
    uint rest = i - args.offset;
    uint place = 0;
    for (int dim = 0; dim < DIMS; ++dim) {
        uint coordinate = rest / args.stride[dim];
        rest -= coordinate * args.stride[dim];
        // The padding dimensions have size 1 and stride 1 and must take nothing.
        inside = inside && coordinate < args.size[dim];
        place += coordinate * args.step[dim];
    }
    for (uint word = 0; word < WORDS; ++word) {
        args.result.at[i * WORDS + word] = inside
            ? args.source.at[place * WORDS + word]
            : args.base.at[i * WORDS + word];
    }
}
