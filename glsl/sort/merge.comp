// Merge pass over pairs of sorted runs: every element ranks itself in the other run
// grid    one invocation per place of (outer, kept, inner), linear
// in      x (outer, count, inner) T; order (outer, kept, inner) int32: places along the
//         dimension, sorted in runs of `run`
// out     merged (outer, merged_kept, inner) int32, in runs of `merged_run`, which may
//         cut them short; if LAST, values, same shape, of T
// consts  DESCENDING; LAST: there is one pair
// source  merging by rank; the left run's of equal elements come first
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "sort/compare.glsl"
#include "lib/index_buffers.glsl"

layout(constant_id = 3) const uint DESCENDING = 0;
layout(constant_id = 4) const uint LAST = 0;

layout(push_constant, std430) uniform Push {
    In x;
    IntIn order;
    IntOut merged;
    Out values;
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
    In x = push.x;
    IntIn order = push.order;
    IntOut merged = push.merged;
    Out values = push.values;
    uint count = push.count, inner = push.inner, kept = push.kept, run = push.run;
    uint merged_kept = push.merged_kept, merged_run = push.merged_run;
    if (invocation >= push.outer * kept * inner) return;
    uint line = invocation / inner;
    uint outer = line / kept;
    uint own = line - outer * kept;
    uint column = invocation - line * inner;
    uint row = outer * count * inner + column, runs = outer * kept * inner + column;

    uint number = own / run;
    bool left = number % 2 == 0;
    int place = order.at[invocation];
    ACC mine = load(x, row + uint(place) * inner);
    uint other = min((left ? number + 1 : number - 1) * run, kept);
    uint low = 0, high = min(run, kept - other);
    while (low < high) {
        uint middle = (low + high) / 2;
        uint its_place = uint(order.at[runs + (other + middle) * inner]);
        ACC its = load(x, row + its_place * inner);
        bool earlier = left
            ? comes_before(its, mine, DESCENDING != 0)
            : !comes_before(mine, its, DESCENDING != 0);
        if (earlier) low = middle + 1;
        else high = middle;
    }
    uint rank = own - number * run + low;
    if (rank >= merged_run) return;
    uint target = number / 2 * merged_run + rank;
    target = (outer * merged_kept + target) * inner + column;
    merged.at[target] = place;
    if (LAST != 0) store(values, target, mine);
}
