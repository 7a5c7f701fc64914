// Copy of memory as it is
// grid    one invocation per 32-bit word, linear
// in      x, count words
// out     out_, likewise
// consts  none
// source  -
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    Words { uint at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer
    WordsOut { uint at[]; };

layout(push_constant, std430) uniform Push {
    Words x;
    WordsOut out_;
    uint count;
} push;

void main() {
    uint at = linear_invocation();
    Words x = push.x;
    WordsOut out_ = push.out_;
    if (at < push.count) out_.at[at] = x.at[at];
}
