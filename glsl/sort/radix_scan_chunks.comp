// Scan of a radix sort's counts over the digits and chunks of each line, in place
// grid    one invocation per line, linear
// in      counts (lines, width); range
// out     counts: the sum of those before
// consts  RANGED
// source  for software devices, whose invocations share nothing
// lint    scalar-load: one by one, as each sum follows from the one before
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "sort/chunk_counts.glsl"
#include "sort/key_range.glsl"

layout(push_constant, std430) uniform Push {
    Counts counts;
    KeyRange range;
    uint lines;
    uint width;
    uint shift;
} push;

void main() {
    Counts counts = push.counts;
    uint line = linear_invocation(), width = push.width, running = 0;
    KeyRange range = push.range;
    if (line >= push.lines || !has_digit(range, push.shift)) return;
    for (uint i = line * width; i < (line + 1) * width; ++i) {
        uint count = counts.at[i];
        counts.at[i] = running;
        running += count;
    }
}
