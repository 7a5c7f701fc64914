// Bitonic sort of short lines of (outer, count, inner), several by one workgroup
// grid    one workgroup per 2 * LOCAL_X / WIDTH lines, linear over (outer, inner)
// in      x (outer, count, inner)
// out     values, order (outer, most, inner): the first `most` in order; with RANKED
//         (outer, inner): the one of a rank, `most`, as sort/rank.glsl takes it
// consts  WIDTH: a power of two, from `count` to 2 * LOCAL_X; DESCENDING; HAS_VALUES: 0
//         leaves `values` unwritten; RANKED, and MISSING of sort/rank.glsl
// source  Batcher, Sorting Networks and Their Applications, 1968; places settle ties
// lint    integer-division: two rounds
#version 460
#extension GL_EXT_buffer_reference : require
#include "sort/keys.glsl"
#include "lib/index.glsl"
#include "lib/place_buffers.glsl"

layout(constant_id = 3) const uint WIDTH = 2;
layout(constant_id = 4) const uint DESCENDING = 0;
layout(constant_id = 5) const uint HAS_VALUES = 1;
layout(constant_id = 6) const uint RANKED = 0;

layout(push_constant, std430) uniform Push {
    BitsIn x;
    BitsOut values;
    PlaceOut order;
    uint lines;
    uint count;
    uint inner;
    uint most;
} push;

const uint SLOTS = 2 * gl_WorkGroupSize.x;
const uint LINES = SLOTS / WIDTH;

shared KEY keys[SLOTS];
shared uint places[SLOTS];

#include "sort/bitonic.glsl"
#include "sort/rank.glsl"

// The line and the place in it that an invocation moves: neighbours are neighbours in
// memory.
uvec2 line_and_place(uint slot, uint inner) {
    return inner == 1 ? uvec2(slot / WIDTH, slot % WIDTH)
                      : uvec2(slot % LINES, slot / LINES);
}

void main() {
    BitsIn x = push.x;
    uint count = push.count, inner = push.inner, most = push.most;
    uint first = linear_workgroup() * LINES;
    if (first >= push.lines) return;
    for (uint i = 0; i < 2; ++i) {
        uint slot = gl_LocalInvocationIndex + i * gl_WorkGroupSize.x;
        uvec2 own = line_and_place(slot, inner);
        uint line = first + own.x, outer = line / inner;
        KEY key = LAST_KEY;
        if (line < push.lines && own.y < count) {
            uint base = outer * count * inner + (line - outer * inner);
            key = sort_key(load_bits(x, base + own.y * inner), DESCENDING != 0);
        }
        keys[own.x * WIDTH + own.y] = key;
        places[own.x * WIDTH + own.y] = own.y;
    }
    barrier();
    sort_slots(WIDTH, SLOTS);
    if (RANKED != 0) {
        for (uint own = gl_LocalInvocationIndex; own < LINES; own += gl_WorkGroupSize.x) {
            uint line = first + own, outer = line / inner, numbers = count;
            if (line >= push.lines) continue;
            while (MISSING != 0 && numbers > 0 && keys[own * WIDTH + numbers - 1] == LAST_KEY)
                --numbers;
            uint place = places[own * WIDTH + rank_of(most, count, count - numbers)];
            store_place(push.order, line, place);
            store_bits(push.values, line,
                load_bits(x, (outer * count + place) * inner + (line - outer * inner)));
        }
        return;
    }
    for (uint i = 0; i < 2; ++i) {
        uint slot = gl_LocalInvocationIndex + i * gl_WorkGroupSize.x;
        uvec2 own = line_and_place(slot, inner);
        uint line = first + own.x, outer = line / inner;
        if (line >= push.lines || own.y >= most) continue;
        uint place = places[own.x * WIDTH + own.y], column = line - outer * inner;
        uint target = outer * most * inner + own.y * inner + column;
        store_place(push.order, target, place);
        // Elements that are equal may differ in their bits.
        if (HAS_VALUES != 0)
            store_bits(push.values, target,
                load_bits(x, outer * count * inner + place * inner + column));
    }
}
