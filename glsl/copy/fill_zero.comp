// Zero fill: out[i] = 0
// grid    one invocation per four 32-bit words of out_, linear
// in      nothing
// out     out_ (count) words, also as words: not every driver converts references
// consts  none
// source  memset
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"

layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly buffer
    Quads { uvec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer
    Words { uint at[]; };
layout(push_constant, std430) uniform Push {
    Quads out_;
    Words words;
    uint count;
} args;

void main() {
    uint quad = linear_invocation();
    Quads out_ = args.out_;
    Words words = args.words;
    uint count = args.count;
    if (quad < count / 4) {
        out_.at[quad] = uvec4(0);
        return;
    }
    for (uint word = 4 * quad; word < min(4 * quad + 4, count); ++word)
        words.at[word] = 0;
}
