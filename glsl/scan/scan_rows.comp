// Scan (prefix sums or products) along contiguous rows, tile by tile
// grid    one group of GROUP invocations per chunk of each row, linear over
//         (outer, chunks)
// in      x (outer, count) T; if HAS_CARRY, carry (outer, chunks) ACC: the result at the
//         end of each chunk
// out     out_ (outer, count) T; if TOTALS instead (outer, chunks), the total of each
// consts  TOTALS, HAS_CARRY; PRODUCT; REVERSE: from the end to the front; GROUP: a power
//         of two, which divides the workgroup
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

layout(constant_id = 3) const uint TOTALS = 0;
layout(constant_id = 4) const uint HAS_CARRY = 0;
layout(constant_id = 5) const uint PRODUCT = 0;
layout(constant_id = 6) const uint REVERSE = 0;
layout(constant_id = 7) const uint GROUP = 1;

layout(push_constant, std430) uniform Push {
    In x;
    AccIn carry;
    Out out_;
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

shared ACC tiles[gl_WorkGroupSize.x * (ITEMS + 1)];
shared ACC totals[gl_WorkGroupSize.x];

ACC neutral() { return PRODUCT != 0 ? ACC(1) : ACC(0); }
ACC joined(ACC a, ACC b) { return PRODUCT != 0 ? a * b : a + b; }

// Returns what comes before this invocation's total in its group; `all`: the group's.
#ifdef SHUFFLES
// Subgroups are full, and their invocations in order.
uint self = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
ACC before_own(ACC own, out ACC all) {
    uint lane = gl_SubgroupInvocationID, width = min(GROUP, gl_SubgroupSize);
    uint place = lane % width;
    ACC up_to = own;
    for (uint apart = 1; apart < width; apart *= 2) {
        ACC other = subgroupShuffle(up_to, lane - min(apart, place));
        if (place >= apart) up_to = joined(other, up_to);
    }
    ACC before = subgroupShuffle(up_to, lane - min(1u, place));
    if (place == 0) before = neutral();
    all = subgroupShuffle(up_to, lane - place + width - 1);
    if (GROUP > gl_SubgroupSize) {
        if (place == 0) totals[gl_SubgroupID] = all;
        barrier();
        uint subgroups = GROUP / gl_SubgroupSize;
        uint first = gl_SubgroupID / subgroups * subgroups;
        ACC earlier = neutral();
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
ACC before_own(ACC own, out ACC all) {
    uint place = self % GROUP;
    totals[self] = own;
    barrier();
    for (uint apart = 1; apart < GROUP; apart *= 2) {
        ACC other = place >= apart ? totals[self - apart] : neutral();
        barrier();
        if (place >= apart) totals[self] = joined(other, totals[self]);
        barrier();
    }
    all = totals[self - place + GROUP - 1];
    return place > 0 ? totals[self - 1] : neutral();
}
#endif

void main() {
    In x = push.x;
    Out out_ = push.out_;
    uint count = push.count, chunks = push.chunks, chunk_size = push.chunk_size;
    uint slot = self / GROUP, part = self % GROUP;
    uint line = linear_workgroup() * GROUPS + slot;
    bool live = line < push.outer * chunks;
    uint row = line / chunks, chunk = line - row * chunks;
    uint begin = chunk * chunk_size;
    uint end = live ? min(begin + chunk_size, count) : begin;
    // Where elements begin, and their distance.
    uint base = row * count + (REVERSE != 0 ? count - 1 : 0);

    ACC running = neutral();
    if (HAS_CARRY != 0 && live && chunk > 0) running = push.carry.at[line - 1];
    for (uint done = 0; done < chunk_size; done += TILE) {
        uint first = begin + done;
        ACC loaded[ITEMS];
        [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
            uint k = first + i * GROUP + part;
            loaded[i] = neutral();
            if (k < end) loaded[i] = load(x, REVERSE != 0 ? base - k : base + k);
        }
        if (TOTALS != 0) {
            [[unroll]] for (uint i = 0; i < ITEMS; ++i) running = joined(running, loaded[i]);
            continue;
        }
        uint tile = slot * PADDED;
        [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
            uint k = i * GROUP + part;
            tiles[tile + k + k / ITEMS] = loaded[i];
        }
        barrier();
        uint own = tile + part * (ITEMS + 1);
        ACC up_to = neutral();
        [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
            up_to = joined(up_to, tiles[own + i]);
            loaded[i] = up_to;
        }
        ACC all;
        ACC before = joined(running, before_own(up_to, all));
        [[unroll]] for (uint i = 0; i < ITEMS; ++i) tiles[own + i] = joined(before, loaded[i]);
        running = joined(running, all);
        barrier();
        [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
            uint k = i * GROUP + part, at = first + k;
            if (at < end) store(out_, REVERSE != 0 ? base - at : base + at, tiles[tile + k + k / ITEMS]);
        }
        barrier();
    }
    if (TOTALS != 0) {
        ACC all;
        before_own(running, all);
        if (live && part == 0) store(out_, line, all);
    }
}
