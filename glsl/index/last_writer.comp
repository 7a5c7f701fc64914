// Last writer of each destination: out[place] = greatest entry, or -1
// grid    one invocation per place, then one per index, linear
// in      places (outer, entries, inner) int32; what is below 0 names nothing; first,
//         span: those that the second pass is for
// out     out_ (count) int32
// consts  CLEAR: the first pass, which sets -1
// source  the maximum of integers does not depend on the order of atomics
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"

layout(constant_id = 3) const uint CLEAR = 1;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict buffer
    Last { int at[]; };
layout(push_constant, std430) uniform Push {
    IntIn places;
    Last out_;
    uint count;
    uint entries;
    uint inner;
    int first;
    uint span;
} args;

void main() {
    uint element = linear_invocation();
    IntIn places = args.places;
    Last out_ = args.out_;
    uint entries = args.entries, inner = args.inner;
    if (element >= args.count) return;
    if (CLEAR != 0) {
        out_.at[element] = -1;
        return;
    }
    int place = places.at[element];
    // What names nothing is beyond any span, too.
    if (uint(place - args.first) < args.span) atomicMax(out_.at[place], int(element / inner % entries));
}
