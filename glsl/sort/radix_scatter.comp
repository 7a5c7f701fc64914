// Radix sort of lines by one digit: each tile, ordered in shared memory, goes where the
// counts of the tiles and digits before it say
// grid    one workgroup per tile, linear over (lines, tiles)
// in      x (outer, count, inner), whose lines are over (outer, inner); places, (lines,
//         count), where the elements were along the dimension, unless IS_FIRST; before
//         (lines, 256, tiles) and totals (lines, 256) of `sort/radix_offsets`; range
// out     moved, moved_places (lines, count); of the last pass instead values, order
//         (outer, most, inner_out): the first `most` of each line; order is of places
// consts  ITEMS: elements of an invocation; SUBGROUPS: most in a workgroup; DESCENDING;
//         IS_FIRST; HAS_VALUES: 0 leaves `values` unwritten; RANGED
// source  LSD radix sort; ranks by votes as in Adinets and Merrill, Onesweep, 2022
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#include "sort/keys.glsl"
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"
#include "lib/place_buffers.glsl"
#include "sort/bins.glsl"
#include "sort/rank_tile.glsl"
#include "sort/key_range.glsl"

layout(constant_id = 5) const uint DESCENDING = 0;
layout(constant_id = 6) const uint IS_FIRST = 0;
layout(constant_id = 7) const uint HAS_VALUES = 1;

layout(push_constant, std430) uniform Push {
    BitsIn x;
    IntIn places;
    IntIn before;
    IntIn totals;
    BitsOut moved;
    IntOut moved_places;
    BitsOut values;
    PlaceOut order;
    KeyRange range;
    uint lines;
    uint count;
    uint inner;
    uint tiles;
    uint shift;
    uint most;
    uint inner_out;
} push;

// Where in its line a digit's first element of the tile goes, less its place in the tile.
shared uint line_starts[BINS];
KEY bits[ITEMS];
uint targets[ITEMS];

// Passes a word of each element to the invocation that writes it, which is in order.
uint passed(uint item) {
    return exchanged[gl_LocalInvocationIndex + item * gl_WorkGroupSize.x];
}

void main() {
    BitsIn x = push.x;
    KeyRange range = push.range;
    uint count = push.count, inner = push.inner, tiles = push.tiles, shift = push.shift;
    uint line = linear_workgroup() / tiles;
    if (line >= push.lines || !has_digit(range, shift)) return;
    KEY least = least_of(range);
    uint tile = linear_workgroup() - line * tiles;
    uint outer = line / inner;
    uint base = outer * count * inner + (line - outer * inner);
    uint begin = tile * TILE, size = min(TILE, count - begin);
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
        uint own = tile_place(i);
        // What is past the end is last, for it is behind what it equals.
        bits[i] = KEY(0);
        keys[i] = LAST_KEY;
        if (own < size) {
            bits[i] = load_bits(x, base + (begin + own) * inner);
            keys[i] = above(sort_key(bits[i], DESCENDING != 0), least);
        }
    }
    for (uint bin = gl_LocalInvocationIndex; bin < BINS; bin += gl_WorkGroupSize.x)
        bin_sums[0][bin] = uint(push.totals.at[line * BINS + bin]);
    barrier();
    scan_bins();
    for (uint bin = gl_LocalInvocationIndex; bin < BINS; bin += gl_WorkGroupSize.x) {
        uint earlier = uint(push.before.at[(line * BINS + bin) * tiles + tile]);
        line_starts[bin] = bin_start(bin) + earlier;
    }
    barrier();
    rank_tile(shift);
    for (uint bin = gl_LocalInvocationIndex; bin < BINS; bin += gl_WorkGroupSize.x)
        line_starts[bin] -= bin_start(bin);

    bool is_last = is_last_digit(range, shift);
    uint inner_out = is_last ? push.inner_out : 1, most = is_last ? push.most : count;
    uint outer_out = line / inner_out;
    uint base_out = outer_out * most * inner_out + (line - outer_out * inner_out);
    [[unroll]] for (uint i = 0; i < ITEMS; ++i)
        exchanged[ranks[i]] = key_bits(keys[i], shift, DIGIT_BITS);
    barrier();
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
        uint own = gl_LocalInvocationIndex + i * gl_WorkGroupSize.x;
        uint rank = line_starts[passed(i)] + own;
        // Those that are not wanted have no target.
        targets[i] = own < size && rank < most ? base_out + rank * inner_out : ~0u;
    }
    barrier();
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
        uint own = tile_place(i), place = begin + own;
        if (IS_FIRST == 0 && own < size)
            place = uint(push.places.at[line * count + place]);
        exchanged[ranks[i]] = place;
    }
    barrier();
    PlaceOut order = push.order;
    IntOut moved_places = push.moved_places;
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
        if (targets[i] == ~0u) continue;
        if (is_last) store_place(order, targets[i], passed(i));
        else moved_places.at[targets[i]] = int(passed(i));
    }
    if (is_last && HAS_VALUES == 0) return;
    BitsOut values = push.values, moved = push.moved;
    if (!is_last) values = moved;
    barrier();
#if BYTES == 8
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) exchanged[ranks[i]] = bits[i].x;
    barrier();
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) keys[i].x = passed(i);
    barrier();
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) exchanged[ranks[i]] = bits[i].y;
    barrier();
    [[unroll]] for (uint i = 0; i < ITEMS; ++i)
        if (targets[i] != ~0u)
            store_bits(values, targets[i], uvec2(keys[i].x, passed(i)));
#else
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) exchanged[ranks[i]] = bits[i];
    barrier();
    [[unroll]] for (uint i = 0; i < ITEMS; ++i)
        if (targets[i] != ~0u) store_bits(values, targets[i], passed(i));
#endif
}
