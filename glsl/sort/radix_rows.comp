// Radix sort of lines of (outer, count, inner), or blocks of these, each in the memory of
// a workgroup
// grid    one workgroup per block, linear over (outer, inner, blocks)
// in      x (outer, count, inner); a block has `block` elements, at most ITEMS * LOCAL_X
// out     values, order (outer, most, inner_out), whose lines are those of x: of each
//         block the first `most` in order, from where it begins
// consts  ITEMS: elements of an invocation; SUBGROUPS: most in a workgroup; DESCENDING;
//         HAS_VALUES: 0 leaves `values` unwritten; RANGED: whether passes over digits in
//         which no two elements of a line differ are left out
// source  LSD radix sort by digits of 8 bits; ranks by votes as in Adinets and Merrill,
//         Onesweep, 2022
// lint    divergent-barrier: all invocations make the passes that shared words say
// lint    atomic-in-loop: an invocation has few elements; atomics are in shared memory
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#include "sort/keys.glsl"
#include "lib/index.glsl"
#include "lib/place_buffers.glsl"
#include "sort/bins.glsl"
#include "sort/rank_tile.glsl"

layout(constant_id = 5) const uint DESCENDING = 0;
layout(constant_id = 6) const uint HAS_VALUES = 1;
layout(constant_id = 7) const uint RANGED = 0;

layout(push_constant, std430) uniform Push {
    BitsIn x;
    BitsOut values;
    PlaceOut order;
    uint lines;
    uint count;
    uint inner;
    uint most;
    uint block;
    uint blocks;
    uint inner_out;
} push;

uint places[ITEMS];

void move_elements() {
    barrier();
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) exchanged[ranks[i]] = places[i];
    barrier();
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) places[i] = exchanged[tile_place(i)];
    barrier();
#if BYTES == 8
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) exchanged[ranks[i]] = keys[i].y;
    barrier();
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) keys[i].y = exchanged[tile_place(i)];
    barrier();
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) exchanged[ranks[i]] = keys[i].x;
    barrier();
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) keys[i].x = exchanged[tile_place(i)];
#else
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) exchanged[ranks[i]] = keys[i];
    barrier();
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) keys[i] = exchanged[tile_place(i)];
#endif
}

shared uint least, greatest, least_low, greatest_low;

// Subtracts the least word of the keys, the upper one where these differ; returns how many
// digits are left.
uint remove_least(uint count) {
    if (gl_LocalInvocationIndex == 0) {
        least = least_low = ~0u;
        greatest = greatest_low = 0;
    }
    barrier();
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
        if (places[i] >= count) continue;
        atomicMin(least, HIGH(keys[i]));
        atomicMax(greatest, HIGH(keys[i]));
#if BYTES == 8
        atomicMin(least_low, keys[i].x);
        atomicMax(greatest_low, keys[i].x);
#endif
    }
    barrier();
    uint range = greatest - least, digits = 0;
#if BYTES == 8
    if (range == 0) range = greatest_low - least_low;
    else digits = 4;
    KEY lower = digits == 0 ? KEY(least_low, least) : KEY(0, least);
#else
    KEY lower = least;
#endif
    [[unroll]] for (uint i = 0; i < ITEMS; ++i)
        if (places[i] < count) keys[i] -= lower;
    return digits + uint(findMSB(range) + 8) / 8;
}

void main() {
    uint blocks = push.blocks, line = linear_workgroup() / blocks;
    if (line >= push.lines) return;
    BitsIn x = push.x;
    BitsOut values = push.values;
    PlaceOut order = push.order;
    uint inner = push.inner, inner_out = push.inner_out, most = push.most;
    uint begin = (linear_workgroup() - line * blocks) * push.block;
    uint count = min(push.block, push.count - begin);
    uint outer = line / inner;
    uint base = (outer * push.count + begin) * inner + (line - outer * inner);
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
        // What is past the end is last, for it is behind what it equals.
        places[i] = tile_place(i);
        keys[i] = LAST_KEY;
        if (places[i] < count)
            keys[i] = sort_key(
                load_bits(x, base + places[i] * inner), DESCENDING != 0);
    }
    uint digits = BYTES;
    if (RANGED != 0) digits = remove_least(count);
    for (uint shift = 0; shift < DIGIT_BITS * digits; shift += DIGIT_BITS) {
        rank_tile(shift);
        move_elements();
    }
    uint outer_out = line / inner_out;
    uint base_out = (outer_out * most + begin) * inner_out;
    base_out += line - outer_out * inner_out;
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
        uint rank = tile_place(i);
        if (rank >= min(most, count)) continue;
        store_place(order, base_out + rank * inner_out, begin + places[i]);
        // Elements that are equal may differ in their bits.
        if (HAS_VALUES != 0)
            store_bits(values, base_out + rank * inner_out,
                load_bits(x, base + places[i] * inner));
    }
}
