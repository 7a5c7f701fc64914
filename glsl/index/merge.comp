// Pairs of sorted runs merged: every pair finds its place in the other run
// grid    one invocation per pair, linear
// in      pairs (count) of key and place, sorted in runs of `run`
// out     merged, same, in runs of 2 * run; or, if LAST, places (count) int32
// consts  LAST: the result is one run
// source  merging by rank; the left run's of equal keys come first
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "lib/types.glsl"

layout(constant_id = 3) const uint LAST = 0;

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
    uint number = element / run;
    bool left = number % 2 == 0;
    uint other = min((left ? number + 1 : number - 1) * run, count);
    uint low = 0, high = min(run, count - other);
    while (low < high) {
        uint middle = (low + high) / 2;
        uint key = pairs.at[other + middle].x;
        if (left ? key < pair.x : key <= pair.x) low = middle + 1;
        else high = middle;
    }
    uint place = number / 2 * 2 * run + (element - number * run) + low;
    if (LAST != 0) places.at[place] = int(pair.y);
    else merged.at[place] = pair;
}
