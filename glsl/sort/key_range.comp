// Least and greatest key of a radix sort, and the digits of their difference
// grid    PASS 0: `groups` workgroups, linear; PASS 1: one workgroup
// in      x (count), in any order; bounds of PASS 0
// out     bounds (groups, 2): PASS 0, the least and the greatest key of a workgroup; range
//         of `sort/key_range.glsl`: PASS 1
// consts  PASS; DESCENDING
// source  extremes do not depend on the order
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "sort/keys.glsl"
#include "lib/index.glsl"
#include "sort/key_range.glsl"

layout(constant_id = 3) const uint PASS = 0;
layout(constant_id = 4) const uint DESCENDING = 0;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict buffer Bounds {
    KEY at[];
};
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer
    RangeOut { uint at[]; };
layout(push_constant, std430) uniform Push {
    BitsIn x;
    Bounds bounds;
    RangeOut range;
    uint count;
    uint groups;
} push;

// Loads of an invocation that are under way at once.
const uint BATCH = 4;

shared KEY lowest[gl_WorkGroupSize.x], highest[gl_WorkGroupSize.x];

KEY lesser(KEY a, KEY b) { return precedes(b, 0, a, 0) ? b : a; }
KEY greater(KEY a, KEY b) { return precedes(a, 0, b, 0) ? b : a; }

void main() {
    BitsIn x = push.x;
    Bounds bounds = push.bounds;
    uint count = push.count, groups = push.groups, own = gl_LocalInvocationIndex;
    uint workgroup = gl_WorkGroupSize.x;
    KEY least = LAST_KEY, greatest = KEY(0);
    if (PASS == 0) {
        if (linear_workgroup() >= groups) return;
        uint apart = groups * workgroup;
        for (uint first = linear_invocation(); first < count; first += BATCH * apart) {
            KEY bits[BATCH];
            [[unroll]] for (uint i = 0; i < BATCH; ++i)
                bits[i] = load_bits(x, min(first + i * apart, count - 1));
            [[unroll]] for (uint i = 0; i < BATCH; ++i) {
                KEY key = sort_key(bits[i], DESCENDING != 0);
                least = lesser(least, key);
                greatest = greater(greatest, key);
            }
        }
    } else {
        for (uint i = own; i < groups; i += workgroup) {
            least = lesser(least, bounds.at[2 * i]);
            greatest = greater(greatest, bounds.at[2 * i + 1]);
        }
    }
    lowest[own] = least;
    highest[own] = greatest;
    barrier();
    for (uint apart = workgroup / 2; apart > 0; apart /= 2) {
        if (own < apart) {
            lowest[own] = lesser(lowest[own], lowest[own + apart]);
            highest[own] = greater(highest[own], highest[own + apart]);
        }
        barrier();
    }
    if (own != 0) return;
    least = lowest[0];
    greatest = highest[0];
    if (PASS == 0) {
        uint at = 2 * linear_workgroup();
        bounds.at[at] = least;
        bounds.at[at + 1] = greatest;
        return;
    }
    KEY apart = above(greatest, least);
#if BYTES == 8
    int bits = apart.y != 0u ? 33 + findMSB(apart.y) : 1 + findMSB(apart.x);
    push.range.at[0] = least.x;
    push.range.at[1] = least.y;
#else
    int bits = 1 + findMSB(apart);
    push.range.at[0] = least;
#endif
    push.range.at[2] = max(1u, uint(bits + 7) / 8);
}
