// Merge of sorted blocks of each line, WAYS to one: every element ranks itself in those
// beside it
// grid    one invocation per element of (lines, count), linear
// in      runs (lines, count), sorted in blocks of `block`; places, same shape, int32:
//         where they were in the line
// out     values, order (outer, most, inner), whose lines are over (outer, inner): the
//         first `most` of each; order is of places
// consts  DESCENDING; WAYS: blocks that become one, of which a line may lack the last;
//         HAS_VALUES: 0 leaves `values` unwritten
// source  merging by rank; the earlier block's of equal elements come first
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "sort/keys.glsl"
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"
#include "lib/place_buffers.glsl"

layout(constant_id = 3) const uint WAYS = 2;
layout(constant_id = 4) const uint DESCENDING = 0;
layout(constant_id = 5) const uint HAS_VALUES = 1;

layout(push_constant, std430) uniform Push {
    BitsIn runs;
    IntIn places;
    BitsOut values;
    PlaceOut order;
    uint lines;
    uint count;
    uint inner;
    uint most;
    uint block;
} push;

void main() {
    uint element = linear_invocation();
    BitsIn runs = push.runs;
    uint count = push.count, inner = push.inner, most = push.most, block = push.block;
    if (element >= push.lines * count) return;
    uint line = element / count, own = element - line * count;
    uint group = own / (WAYS * block), first_way = group * WAYS;
    uint own_way = own / block - first_way;
    KEY bits = load_bits(runs, element);
    KEY mine = sort_key(bits, DESCENDING != 0);
    // Rank in each block by binary search; all at once, so that their loads overlap.
    uint before[WAYS - 1], start[WAYS - 1], size[WAYS - 1];
    [[unroll]] for (uint i = 0; i < WAYS - 1; ++i) {
        uint begin = min((first_way + (i < own_way ? i : i + 1)) * block, count);
        size[i] = min(block, count - begin);
        start[i] = line * count + begin;
        before[i] = 0;
    }
    for (uint step_ = 1u << findMSB(block); step_ > 0; step_ /= 2) {
        [[unroll]] for (uint i = 0; i < WAYS - 1; ++i) {
            uint probe = before[i] + step_;
            // Of a block that a line lacks, the element before it.
            KEY its = load_bits(runs, start[i] + min(probe, size[i]) - 1);
            its = sort_key(its, DESCENDING != 0);
            uint earlier = uint(i < own_way);
            bool first = precedes(its, 1 - earlier, mine, earlier);
            if (first && probe <= size[i]) before[i] = probe;
        }
    }
    uint rank = own - own_way * block;  // among those of the group, and before it
    [[unroll]] for (uint i = 0; i < WAYS - 1; ++i) rank += before[i];
    if (rank >= most) return;
    uint outer = line / inner;
    uint target = outer * most * inner + (line - outer * inner) + rank * inner;
    store_place(push.order, target, uint(push.places.at[element]));
    if (HAS_VALUES != 0) store_bits(push.values, target, bits);
}
