// Dot product stage: sums of products or partial sums, per ROUNDS * LOCAL_X elements
// grid    linear in workgroups, one sum each
// in      x (count); y, same, if PRODUCTS
// out     out_ (ceil(count / (ROUNDS * LOCAL_X)))
// consts  PRODUCTS: multiply x by y, otherwise y is not read; ROUNDS
// source  pairwise summation: Higham, Accuracy and Stability of Numerical Algorithms, 4.2
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"

layout(constant_id = 3) const uint PRODUCTS = 1;
layout(constant_id = 4) const uint ROUNDS = 16;

#define GROUP gl_WorkGroupSize.x
#include "lib/group_sum.glsl"

layout(push_constant, std430) uniform Push {
    In x;
    In y;
    Out out_;
    uint count;
} push;

In x = push.x, y = push.y;
uint count = push.count;

void main() {
    uint first = linear_workgroup() * ROUNDS * GROUP + gl_LocalInvocationIndex;
    float total = 0.0;
    for (uint i = 0; i < ROUNDS; ++i) {
        uint at = first + i * GROUP;
        float value = load(x, min(at, count - 1));
        if (PRODUCTS != 0) value *= load(y, min(at, count - 1));
        total += at < count ? value : 0.0;
    }
    total = tree_sum(total);
    bool inside = linear_workgroup() < (count - 1) / (ROUNDS * GROUP) + 1;
    if (inside && gl_LocalInvocationIndex == 0)
        store(push.out_, linear_workgroup(), total);
}
