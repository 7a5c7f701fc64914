// How often each value of a digit occurs in each tile of the lines of a radix sort
// grid    one workgroup per TOGETHER tiles, linear over (lines, those)
// in      x (outer, count, inner), whose lines are over (outer, inner); range
// out     counts (lines, 256, tiles)
// consts  TILE: elements; TOGETHER: tiles of a workgroup, whose counts of a digit are
//         stored side by side; DESCENDING; RANGED
// source  sums of integers do not depend on the order of atomics
// lint    atomic-in-loop: the digits of an invocation differ; atomics are in shared memory
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "sort/keys.glsl"
#include "lib/index.glsl"
#include "sort/bins.glsl"
#include "sort/key_range.glsl"

layout(constant_id = 3) const uint TILE = 1024;
layout(constant_id = 4) const uint DESCENDING = 0;
layout(constant_id = 5) const uint TOGETHER = 1;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer
    CountsOut { uint at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly buffer
    CountQuadsOut { uvec4 at[]; };
layout(push_constant, std430) uniform Push {
    BitsIn x;
    CountsOut counts;
    KeyRange range;
    uint lines;
    uint count;
    uint inner;
    uint tiles;
    uint shift;
} push;

// Loads of an invocation that are under way at once.
const uint BATCH = 4;

shared uint sums[TOGETHER * BINS];

void main() {
    BitsIn x = push.x;
    KeyRange range = push.range;
    uint count = push.count, inner = push.inner, tiles = push.tiles, shift = push.shift;
    uint groups = (tiles + TOGETHER - 1) / TOGETHER;
    uint line = linear_workgroup() / groups;
    if (line >= push.lines || !has_digit(range, shift)) return;
    KEY least = least_of(range);
    uint tile = (linear_workgroup() - line * groups) * TOGETHER;
    uint workgroup = gl_WorkGroupSize.x, self = gl_LocalInvocationIndex;
    for (uint i = self; i < TOGETHER * BINS; i += workgroup) sums[i] = 0;
    barrier();
    uint outer = line / inner;
    uint base = outer * count * inner + (line - outer * inner);
    uint end = min(TOGETHER * TILE, count - tile * TILE);
    for (uint first = self; first < end; first += BATCH * workgroup) {
        KEY bits[BATCH];
        [[unroll]] for (uint i = 0; i < BATCH; ++i) {
            uint own = min(first + i * workgroup, end - 1);
            bits[i] = load_bits(x, base + (tile * TILE + own) * inner);
        }
        [[unroll]] for (uint i = 0; i < BATCH; ++i) {
            KEY key = above(sort_key(bits[i], DESCENDING != 0), least);
            uint own = first + i * workgroup;
            uint at = own / TILE * BINS + key_bits(key, shift, DIGIT_BITS);
            if (own < end) atomicAdd(sums[at], 1u);
        }
    }
    barrier();
    uint wanted = min(TOGETHER, tiles - tile);
    for (uint bin = self; bin < BINS; bin += workgroup) {
        uint to = (line * BINS + bin) * tiles + tile;
        // Each store of a word is a transaction of its own, as lines are far apart.
        if (tiles % 4 == 0 && wanted % 4 == 0) {
            for (uint i = 0; i < wanted; i += 4)
                CountQuadsOut(push.counts).at[(to + i) / 4] = uvec4(
                    sums[i * BINS + bin], sums[(i + 1) * BINS + bin],
                    sums[(i + 2) * BINS + bin], sums[(i + 3) * BINS + bin]);
        } else {
            for (uint i = 0; i < wanted; ++i)
                push.counts.at[to + i] = sums[i * BINS + bin];
        }
    }
}
