// Copy of memory as it is
// grid    one invocation per 32-bit word, or per four with VECTORS, linear
// in      x, count words
// out     out_, likewise
// consts  none; VECTORS: x and out_ begin at multiples of 16 bytes
// source  -
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    Words { uint at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer
    WordsOut { uint at[]; };
#ifdef VECTORS
layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly buffer
    Vectors { uvec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly buffer
    VectorsOut { uvec4 at[]; };
#endif

layout(push_constant, std430) uniform Push {
    Words x;
    WordsOut out_;
    uint count;
} push;

void main() {
    uint at = linear_invocation();
    Words x = push.x;
    WordsOut out_ = push.out_;
#ifdef VECTORS
    uint first = 4 * at, count = push.count;
    if (first >= count) return;
    if (count - first >= 4)
        VectorsOut(out_).at[at] = Vectors(x).at[at];
    else
        for (at = first; at < count; ++at) out_.at[at] = x.at[at];
#else
    if (at < push.count) out_.at[at] = x.at[at];
#endif
}
