// Merge pass over sorted runs of key-place pairs: every pair ranks itself in the others
// grid    one invocation per pair, linear
// in      pairs (count) of key and place, sorted in runs of `run`, a power of two
// out     merged, same, in runs of WAYS * run; or, if LAST, places (count) int32
// consts  LAST: the result is one run; WAYS: runs that become one
// source  merging by rank; the left run's of equal keys come first
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"

layout(constant_id = 3) const uint LAST = 0;
layout(constant_id = 4) const uint WAYS = 2;

layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer
    PairsIn { uvec2 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) restrict writeonly buffer
    PairsOut { uvec2 at[]; };
layout(push_constant, std430) uniform Push {
    PairsIn pairs;
    PairsOut merged;
    IntOut places;
    uint count;
    uint run;
} args;

void main() {
    uint element = linear_invocation();
    PairsIn pairs = args.pairs;
    PairsOut merged = args.merged;
    IntOut places = args.places;
    uint count = args.count, run = args.run;
    if (element >= count) return;
    uvec2 pair = pairs.at[element];
    uint own = element / run % WAYS, own_place = element % run;
    uint first = element / run / WAYS * WAYS * run;
    // Rank in each run by binary search; all runs at once, so that their loads overlap.
    uint before[WAYS];
    [[unroll]] for (uint way = 0; way < WAYS; ++way) before[way] = 0;
    for (uint half_ = run; half_ > 0; half_ /= 2) {
        [[unroll]] for (uint way = 0; way < WAYS; ++way) {
            uint start = min(first + way * run, count);
            uint probe = before[way] + half_;
            uint key = pairs.at[min(start + probe, count) - 1].x;
            bool comes = way < own ? key <= pair.x : key < pair.x;
            if (comes && probe <= min(run, count - start)) before[way] = probe;
        }
    }
    uint place = first;
    [[unroll]] for (uint way = 0; way < WAYS; ++way)
        place += way == own ? own_place : before[way];
    if (LAST != 0) places.at[place] = int(pair.y);
    else merged.at[place] = pair;
}
