// A region of a tensor replaced: result = base, except where a layout takes from source
// grid    one invocation per 32-bit word of base, linear
// in      base and source, contiguous; size, stride: the region over base from the
//         longest stride down; step: strides of the same dimensions in source; offset:
//         the region's first element; count: elements of base
// out     result, as base
// consts  SIZE: bytes per element, 1, 2, 4 or 8
// source  gather form: each word is written once, by the invocation that owns it
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"

layout(constant_id = 3) const uint SIZE = 4;
const int DIMS = 6;
const uint BITS = SIZE < 4 ? 8 * SIZE : 32;
const uint MASK = SIZE < 4 ? (1u << (BITS & 31)) - 1u : 0xffffffffu;

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

// The place in source of an element of base, or -1 if the region does not have it.
int source_of(uint element) {
    bool inside = element >= args.offset && element < args.count;
    uint rest = element - args.offset;
    uint place = 0;
    for (int dim = 0; dim < DIMS; ++dim) {
        uint coordinate = rest / args.stride[dim];
        rest -= coordinate * args.stride[dim];
        // The padding dimensions have size 1 and stride 1 and must take nothing.
        inside = inside && coordinate < args.size[dim];
        place += coordinate * args.step[dim];
    }
    return inside && rest == 0 ? int(place) : -1;
}

void main() {
    uint word = linear_invocation();
    uint words = (args.count * SIZE + 3) / 4;
    if (word >= words) return;
    uint result = args.base.at[word];
    uint lanes = max(4 / SIZE, 1u);
    for (uint lane = 0; lane < lanes; ++lane) {
        int place = source_of(SIZE == 8 ? word / 2 : word * lanes + lane);
        if (place < 0) continue;
        uint part = uint(place) * SIZE + (SIZE == 8 ? word % 2 * 4 : 0);
        uint value = args.source.at[part / 4] >> part % 4 * 8 & MASK;
        result = result & ~(MASK << lane * BITS % 32) | value << lane * BITS % 32;
    }
    args.result.at[word] = result;
}
