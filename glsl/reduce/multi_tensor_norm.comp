// Multi-tensor sum of squares: a chunk of one tensor per workgroup
// grid    linear in workgroups: those of the first tensor, of the second, ...
// in      args: x, contiguous tensors of T; count: elements of each; end: its last
//         workgroup, plus 1; those after the last tensor have no elements
// out     out_ of ACC, one for each workgroup
// consts  ROUNDS: elements of each invocation
// source  -
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"

layout(constant_id = 3) const uint ROUNDS = 16;

const uint GROUP = gl_WorkGroupSize.x;
const uint TENSORS = 128;

#include "lib/group_sum.glsl"

layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly buffer
    Arguments {
    AccOut out_;
    In x[TENSORS];
    uint count[TENSORS];
    uint end[TENSORS];
};
layout(push_constant, std430) uniform Push { Arguments args; };

void main() {
    uint workgroup = linear_workgroup();
    if (workgroup >= args.end[TENSORS - 1]) return;
    // The first tensor that ends behind this workgroup.
    uint tensor = 0;
    for (uint half_size = TENSORS / 2; half_size > 0; half_size /= 2) {
        if (args.end[tensor + half_size - 1] <= workgroup) tensor += half_size;
    }
    uint first = tensor > 0 ? args.end[tensor - 1] : 0;
    uint count = args.count[tensor];
    In x = args.x[tensor];
    uint at = (workgroup - first) * ROUNDS * GROUP + gl_LocalInvocationIndex;
    ACC sum = ACC(0);
    for (uint round = 0; round < ROUNDS && at < count; ++round, at += GROUP) {
        ACC value = load(x, at);
        sum = multiply_add(value, value, sum);
    }
    sum = tree_sum(sum);
    if (gl_LocalInvocationIndex == 0) args.out_.at[workgroup] = sum;
}
