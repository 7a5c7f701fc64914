// Binary search of values in sorted rows: the number of elements before each
// grid    one invocation per value, linear
// in      sorted_ (rows, count) T, values (rows, entries) T; with one row in all if
//         SHARED
// out     out_ (rows, entries): places
// consts  RIGHT: elements equal to a value are before it; SHARED
// source  binary search; NaN is above every number
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "sort/compare.glsl"
#include "lib/place_buffers.glsl"

layout(constant_id = 3) const uint RIGHT = 0;
layout(constant_id = 4) const uint SHARED = 0;

layout(push_constant, std430) uniform Push {
    In sorted_;
    In values;
    PlaceOut out_;
    uint numel;
    uint count;
    uint entries;
} push;

void main() {
    uint invocation = linear_invocation();
    In sorted_ = push.sorted_;
    uint count = push.count;
    if (invocation >= push.numel) return;
    uint base = SHARED != 0 ? 0 : invocation / push.entries * count;
    ACC mine = load(push.values, invocation);
    // NaN comes behind all elements, also behind NaN.
    uint low = mine != mine ? count : 0, high = count;
    while (low < high) {
        uint middle = (low + high) / 2;
        ACC its = load(sorted_, base + middle);
        bool earlier = RIGHT != 0
            ? !comes_before(mine, its, false)
            : comes_before(its, mine, false);
        if (earlier) low = middle + 1;
        else high = middle;
    }
    store_place(push.out_, invocation, low);
}
