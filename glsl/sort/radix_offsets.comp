// Scan of a radix sort's counts over the tiles of each line and digit, in place
// grid    one group of GROUP invocations per row, linear
// in      counts (rows, tiles); range
// out     counts: how many there are in the tiles before; totals (rows)
// consts  GROUP: a power of two, which divides the workgroup; EACH: counts of an
//         invocation at once, all of which are loaded before one is stored; RANGED
// source  Blelloch, Prefix Sums and Their Applications, 1990
// lint    scalar-load: an invocation reads a few, of a table that is in the cache
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"
#include "sort/key_range.glsl"

layout(constant_id = 3) const uint GROUP = 1;
layout(constant_id = 4) const uint EACH = 4;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict buffer Counts {
    uint at[];
};
layout(push_constant, std430) uniform Push {
    Counts counts;
    Counts totals;
    KeyRange range;
    uint rows;
    uint tiles;
    uint shift;
} push;

shared uint sums[2][gl_WorkGroupSize.x];

void main() {
    KeyRange range = push.range;
    if (!has_digit(range, push.shift)) return;
    uint self = gl_LocalInvocationIndex, own = self % GROUP, at = 0;
    uint row = linear_workgroup() * (gl_WorkGroupSize.x / GROUP) + self / GROUP;
    uint tiles = push.tiles, before = 0;
    bool exists = row < push.rows;
    Counts counts = push.counts;
    for (uint first = 0; first < tiles; first += GROUP * EACH) {
        uint base = row * tiles + first + own * EACH;
        uint left = exists ? tiles - min(first + own * EACH, tiles) : 0, total = 0;
        uint found[EACH];
        [[unroll]] for (uint i = 0; i < EACH; ++i)
            found[i] = i < left ? counts.at[base + i] : 0u;
        [[unroll]] for (uint i = 0; i < EACH; ++i) total += found[i];
        sums[at][self] = total;
        barrier();
        for (uint apart = 1; apart < GROUP; apart *= 2) {
            uint earlier = own >= apart ? sums[at][self - apart] : 0u;
            sums[1 - at][self] = sums[at][self] + earlier;
            at = 1 - at;
            barrier();
        }
        uint running = before + sums[at][self] - total;
        before += sums[at][self - own + GROUP - 1];
        [[unroll]] for (uint i = 0; i < EACH; ++i) {
            if (i < left) counts.at[base + i] = running;
            running += found[i];
        }
        // The other buffer is written next: it was read before the last barrier.
        at = 1 - at;
    }
    if (exists && own == 0) push.totals.at[row] = before;
}
