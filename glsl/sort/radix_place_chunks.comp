// Radix sort of lines by one digit: elements go where the counts before them say
// grid    one invocation per chunk, linear over (lines, tiles)
// in      x (outer, count, inner), whose lines are over (outer, inner); places, (lines,
//         count), where the elements were along the dimension, unless IS_FIRST; counts
//         of `sort/radix_scan_chunks`, which are used up; range
// out     moved, moved_places (lines, count); of the last pass instead values, order
//         (outer, most, inner_out): the first `most` of each line; order is of places
// consts  CHUNK: elements; DESCENDING; IS_FIRST; HAS_VALUES: 0 leaves `values` unwritten;
//         RANGED
// source  LSD radix sort; for software devices, whose invocations share nothing
// lint    scalar-load: digits decide where an element goes
#version 460
#extension GL_EXT_buffer_reference : require
#include "sort/keys.glsl"
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"
#include "lib/place_buffers.glsl"
#include "sort/chunk_counts.glsl"
#include "sort/key_range.glsl"

layout(constant_id = 6) const uint IS_FIRST = 0;
layout(constant_id = 7) const uint HAS_VALUES = 1;

layout(push_constant, std430) uniform Push {
    BitsIn x;
    IntIn places;
    Counts counts;
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

void main() {
    BitsIn x = push.x;
    IntIn places = push.places;
    Counts counts = push.counts;
    BitsOut values = push.values;
    PlaceOut order = push.order;
    uint count = push.count, inner = push.inner, tiles = push.tiles, shift = push.shift;
    IntOut moved_places = push.moved_places;
    KeyRange range = push.range;
    uint line = linear_invocation() / tiles;
    if (line >= push.lines || !has_digit(range, shift)) return;
    KEY least = least_of(range);
    bool is_last = is_last_digit(range, shift);
    uint most = is_last ? push.most : count, inner_out = is_last ? push.inner_out : 1;
    BitsOut moved = push.moved;
    if (!is_last) values = moved;
    uint tile = linear_invocation() - line * tiles;
    uint own = line * BINS * tiles + tile;
    uint outer = line / inner, outer_out = line / inner_out;
    uint base = outer * count * inner + (line - outer * inner);
    uint base_out = outer_out * most * inner_out + (line - outer_out * inner_out);
    uint begin = tile * CHUNK, end = min(begin + CHUNK, count);
    for (uint i = begin; i < end; ++i) {
        KEY bits = load_bits(x, base + i * inner);
        KEY key = above(sort_key(bits, DESCENDING != 0), least);
        uint bin = own + key_bits(key, shift, DIGIT_BITS) * tiles;
        uint rank = counts.at[bin];
        counts.at[bin] = rank + 1;
        uint place = i;
        if (IS_FIRST == 0) place = uint(places.at[line * count + i]);
        if (rank < most) {
            uint target = base_out + rank * inner_out;
            if (is_last) store_place(order, target, place);
            else moved_places.at[target] = int(place);
            if (HAS_VALUES != 0 || !is_last) store_bits(values, target, bits);
        }
    }
}
