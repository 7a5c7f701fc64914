// Scan along contiguous rows, tile by tile
// grid    one group of GROUP invocations per chunk of each row, linear over
//         (outer, chunks)
// in      x (outer, count) of T, or of states with FROM_STATES; if HAS_CARRY, carry
//         (outer, chunks): the state at the end of each chunk
// out     out_ (outer, count) of T, or of states with TO_STATES; if TOTALS instead
//         (outer, chunks) of states, the total of each; with EXTREME places
//         (outer, count), unless states are written
// consts  TOTALS, HAS_CARRY; REVERSE: from the end to the front; GROUP: a power of two,
//         which divides the workgroup; those of scan/state.glsl
// source  Blelloch, Prefix Sums and Their Applications, 1990
// lint    scalar-load: neighbours load neighbours
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#ifdef SHUFFLES
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/place_buffers.glsl"
#include "scan/state.glsl"

layout(constant_id = 3) const uint TOTALS = 0;
layout(constant_id = 4) const uint HAS_CARRY = 0;
layout(constant_id = 6) const uint REVERSE = 0;
layout(constant_id = 7) const uint GROUP = 1;

layout(push_constant, std430) uniform Push {
    SOURCE x;
    StatesIn carry;
    TARGET out_;
#if defined(EXTREME) && !defined(TO_STATES)
    PlaceOut places;
#endif
    uint outer;
    uint count;
    uint chunks;
    uint chunk_size;
} push;

// Consecutive elements of an invocation; a tile has as many for each of a group.
const uint ITEMS = 8;
const uint TILE = GROUP * ITEMS;
const uint PADDED = GROUP * (ITEMS + 1);
const uint GROUPS = gl_WorkGroupSize.x / GROUP;

// What is read, then what is written: states where that is of states, too.
shared STAGED tiles[gl_WorkGroupSize.x * (ITEMS + 1)];
#if defined(EXTREME) && !defined(TO_STATES)
shared uint tile_places[gl_WorkGroupSize.x * (ITEMS + 1)];
#endif
shared State totals[gl_WorkGroupSize.x];

void store_tile(uint at, State state) {
#if defined(FROM_STATES)
    tiles[at] = state;
#else
    tiles[at] = value_of(state);
#if defined(EXTREME) && !defined(TO_STATES)
    tile_places[at] = state.place;
#endif
#endif
}

// Returns what comes before this invocation's total in its group; `all`: the group's.
#ifdef SHUFFLES
// Subgroups are full, and their invocations in order.
uint self = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
State before_own(State own, out State all) {
    uint lane = gl_SubgroupInvocationID, width = min(GROUP, gl_SubgroupSize);
    uint place = lane % width;
    State up_to = own;
    for (uint apart = 1; apart < width; apart *= 2) {
        State other = shuffled(up_to, lane - min(apart, place));
        if (place >= apart) up_to = joined(other, up_to);
    }
    State before = shuffled(up_to, lane - min(1u, place));
    if (place == 0) before = neutral();
    all = shuffled(up_to, lane - place + width - 1);
    if (GROUP > gl_SubgroupSize) {
        if (place == 0) totals[gl_SubgroupID] = all;
        barrier();
        uint subgroups = GROUP / gl_SubgroupSize;
        uint first = gl_SubgroupID / subgroups * subgroups;
        State earlier = neutral();
        all = neutral();
        for (uint i = first; i < first + subgroups; ++i) {
            if (i == gl_SubgroupID) earlier = all;
            all = joined(all, totals[i]);
        }
        before = joined(earlier, before);
    }
    return before;
}
#else
uint self = gl_LocalInvocationIndex;
State before_own(State own, out State all) {
    uint place = self % GROUP;
    totals[self] = own;
    barrier();
    for (uint apart = 1; apart < GROUP; apart *= 2) {
        State other = neutral();
        if (place >= apart) other = totals[self - apart];
        barrier();
        if (place >= apart) totals[self] = joined(other, totals[self]);
        barrier();
    }
    all = totals[self - place + GROUP - 1];
    State before = neutral();
    if (place > 0) before = totals[self - 1];
    return before;
}
#endif

void main() {
    SOURCE x = push.x;
    TARGET out_ = push.out_;
#if defined(EXTREME) && !defined(TO_STATES)
    PlaceOut places = push.places;
#endif
    uint count = push.count, chunks = push.chunks, chunk_size = push.chunk_size;
    uint slot = self / GROUP, part = self % GROUP;
    uint line = linear_workgroup() * GROUPS + slot;
    bool live = line < push.outer * chunks;
    uint row = line / chunks, chunk = line - row * chunks;
    uint begin = chunk * chunk_size;
    uint end = live ? min(begin + chunk_size, count) : begin;
    // Where elements begin, and their distance.
    uint base = row * count + (REVERSE != 0 ? count - 1 : 0);

    State running = neutral();
    if (HAS_CARRY != 0 && live && chunk > 0) running = push.carry.at[line - 1];
    for (uint done = 0; done < chunk_size; done += TILE) {
        uint first = begin + done;
        STAGED loaded[ITEMS];
        [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
            uint k = first + i * GROUP + part;
            if (k < end) loaded[i] = staged_element(x, REVERSE != 0 ? base - k : base + k);
        }
        if (TOTALS != 0) {
            [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
                uint k = first + i * GROUP + part;
                if (k < end) running = joined(running, staged_state(loaded[i], k));
            }
            continue;
        }
        uint tile = slot * PADDED;
        [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
            uint k = i * GROUP + part;
            if (first + k < end) tiles[tile + k + k / ITEMS] = loaded[i];
        }
        barrier();
        uint own = tile + part * (ITEMS + 1), own_first = first + part * ITEMS;
        State up_to = neutral(), states[ITEMS];
        [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
            if (own_first + i < end)
                up_to = joined(up_to, staged_state(tiles[own + i], own_first + i));
            states[i] = up_to;
        }
        State all;
        State before = joined(running, before_own(up_to, all));
        [[unroll]] for (uint i = 0; i < ITEMS; ++i)
            store_tile(own + i, joined(before, states[i]));
        running = joined(running, all);
        barrier();
        [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
            uint k = i * GROUP + part, at = first + k;
            uint from = tile + k + k / ITEMS, to = REVERSE != 0 ? base - at : base + at;
            if (at < end) {
#if defined(TO_STATES) && defined(FROM_STATES)
                out_.at[to] = tiles[from];
#elif !defined(TO_STATES)
                store(out_, to, tiles[from]);
#ifdef EXTREME
                store_place(places, to, tile_places[from]);
#endif
#endif
            }
        }
        barrier();
    }
#ifdef TO_STATES
    if (TOTALS != 0) {
        State all;
        before_own(running, all);
        if (live && part == 0) out_.at[line] = all;
    }
#endif
}
