// Rank sort of blocks along the middle dimension: every element counts those before it
// grid    one invocation per element of (outer, count, inner), linear
// in      x (outer, count, inner) T
// out     order (outer, kept, inner): places along the dimension, of each block
//         the first `run`; values, same shape, of T
// consts  DESCENDING
// source  rank sort; equal elements keep their order
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "sort/compare.glsl"
#include "lib/place_buffers.glsl"

layout(constant_id = 3) const uint DESCENDING = 0;

layout(push_constant, std430) uniform Push {
    In x;
    PlaceOut order;
    Out values;
    uint outer;
    uint count;
    uint inner;
    uint block;
    uint run;
    uint kept;
} push;

void main() {
    uint element = linear_invocation();
    In x = push.x;
    PlaceOut order = push.order;
    Out values = push.values;
    uint count = push.count, inner = push.inner, block = push.block, run = push.run;
    uint kept = push.kept;
    if (element >= push.outer * count * inner) return;
    uint line = element / inner;
    uint outer = line / count;
    uint own = line - outer * count;
    uint column = element - line * inner;
    uint number = own / block;
    uint begin = number * block, end = min(begin + block, count);
    uint base = outer * count * inner + column;

    ACC mine = load(x, element);
    uint rank = 0;
    for (uint other = begin; other < end; ++other) {
        ACC its = load(x, base + other * inner);
        rank += goes_first(its, other < own, mine, DESCENDING != 0) ? 1 : 0;
    }
    if (rank >= run) return;
    uint place = (outer * kept + number * run + rank) * inner + column;
    store_place(order, place, own);
    store(values, place, mine);
}
