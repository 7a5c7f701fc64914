// Scan of a radix sort's counts over the tiles of each line and digit, in place
// grid    one group of GROUP invocations per row, linear
// in      counts (rows, tiles); range
// out     counts: how many there are in the tiles before; totals (rows)
// consts  GROUP: a power of two, which divides the workgroup; RANGED
// source  Blelloch, Prefix Sums and Their Applications, 1990
// lint    scalar-load: an invocation reads a few, of a table that is in the cache
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "sort/key_range.glsl"

layout(constant_id = 3) const uint GROUP = 1;

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
    uint tiles = push.tiles, each = (tiles + GROUP - 1) / GROUP;
    bool exists = row < push.rows;
    uint begin = min(own * each, tiles), end = min(begin + each, tiles), total = 0;
    if (exists)
        for (uint i = begin; i < end; ++i) total += push.counts.at[row * tiles + i];
    sums[0][self] = total;
    barrier();
    for (uint apart = 1; apart < GROUP; apart *= 2) {
        uint earlier = own >= apart ? sums[at][self - apart] : 0u;
        sums[1 - at][self] = sums[at][self] + earlier;
        at = 1 - at;
        barrier();
    }
    if (!exists) return;
    uint running = sums[at][self] - total;
    for (uint i = begin; i < end; ++i) {
        uint count = push.counts.at[row * tiles + i];
        push.counts.at[row * tiles + i] = running;
        running += count;
    }
    if (own == GROUP - 1) push.totals.at[row] = running;
}
