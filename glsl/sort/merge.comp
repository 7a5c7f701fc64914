// Merge pass over sorted runs: every element ranks itself in the WAYS - 1 runs beside it
// grid    one invocation per place of (outer, kept, inner), linear
// in      runs (outer, kept, inner) T, sorted in runs of `run`; places, same shape,
//         int32: where they were along the dimension
// out     values, order (outer, merged_kept, inner), likewise in runs of `merged_run`,
//         which may cut them short; order is of places
// consts  DESCENDING; WAYS: runs that become one
// source  merging by rank; the left run's of equal elements come first
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "sort/compare.glsl"
#include "lib/index_buffers.glsl"
#include "lib/place_buffers.glsl"

layout(constant_id = 3) const uint DESCENDING = 0;
layout(constant_id = 4) const uint WAYS = 2;

layout(push_constant, std430) uniform Push {
    In runs;
    IntIn places;
    Out values;
    PlaceOut order;
    uint outer;
    uint count;
    uint inner;
    uint kept;
    uint run;
    uint merged_kept;
    uint merged_run;
} push;

void main() {
    uint invocation = linear_invocation();
    In runs = push.runs;
    uint inner = push.inner, kept = push.kept, run = push.run;
    if (invocation >= push.outer * kept * inner) return;
    uint line = invocation / inner;
    uint outer = line / kept;
    uint own = line - outer * kept;
    uint column = invocation - line * inner;
    uint base = outer * kept * inner + column;

    uint number = own / run, group = number / WAYS, own_way = number % WAYS;
    ACC mine = load(runs, invocation);
    // Rank in each run by binary search; all runs at once, so that their loads overlap.
    uint before[WAYS - 1], start[WAYS - 1], size[WAYS - 1];
    [[unroll]] for (uint other = 0; other < WAYS - 1; ++other) {
        uint way = other + (other < own_way ? 0 : 1);
        start[other] = min((group * WAYS + way) * run, kept);
        size[other] = min(run, kept - start[other]);
        before[other] = 0;
    }
    for (uint step_ = 1u << findMSB(run); step_ > 0; step_ /= 2) {
        [[unroll]] for (uint other = 0; other < WAYS - 1; ++other) {
            uint probe = before[other] + step_;
            uint at = min(start[other] + probe, kept) - 1;
            ACC its = load(runs, base + at * inner);
            bool first = goes_first(its, other < own_way, mine, DESCENDING != 0);
            if (first && probe <= size[other]) before[other] = probe;
        }
    }
    uint rank = own - number * run;
    [[unroll]] for (uint other = 0; other < WAYS - 1; ++other) rank += before[other];
    if (rank >= push.merged_run) return;
    uint target = group * push.merged_run + rank;
    target = (outer * push.merged_kept + target) * inner + column;
    store_place(push.order, target, uint(push.places.at[invocation]));
    store(push.values, target, mine);
}
