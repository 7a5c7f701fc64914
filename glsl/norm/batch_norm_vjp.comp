// Batch norm gradient sums: the two reductions over each channel
// grid    one workgroup per channel, linear; z: chunk of its elements
// in      grad, x (batch, channels, inner); mean, inverse_std (channels) of ACC;
//         inner_magic, inner_shift: see `divide`
// out     sum_grad: of grad; sum_grad_normalized: of grad * (x - mean) * inverse_std; of
//         each chunk (chunks, channels)
// consts  LOCAL_X: a power of two
// macros  ITEMS: elements that an invocation loads at once; QUADS: those are four each
// source  Ioffe and Szegedy, arXiv:1502.03167
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
const uint GROUP = gl_WorkGroupSize.x;
#include "lib/group_sum.glsl"
#include "norm/channel_values.glsl"

#ifndef ITEMS
#define ITEMS 1
#endif

layout(push_constant, std430) uniform Push {
    In grad;
    In x;
    AccIn mean;
    AccIn inverse_std;
    AccOut sum_grad;
    AccOut sum_grad_normalized;
    uint batch;
    uint channels;
    uint inner;
    uint inner_magic;
    uint inner_shift;
} push;

void main() {
    In grad = push.grad;
    In x = push.x;
    uint channels = push.channels;
    uint inner = push.inner;
    uvec2 division = uvec2(push.inner_magic, push.inner_shift);
    uint channel = linear_workgroup();
    if (channel >= channels) return;
    uint count = push.batch * inner;
    ACC mean = push.mean.at[channel];

    VALUES sums = VALUES(0);
    VALUES products = VALUES(0);
    uint share = (count - 1) / gl_NumWorkGroups.z + 1;
    uint begin = gl_WorkGroupID.z * share, end = min(begin + share, count);
    for (uint i = begin + gl_LocalInvocationIndex; i < end; i += GROUP * ITEMS) {
        VALUES incoming[ITEMS], values[ITEMS];
        [[unroll]] for (uint k = 0; k < ITEMS; ++k) {
            uint index = min(i + k * GROUP, end - 1);
            uint at = channel_offset(index, channel, channels, inner, division);
            incoming[k] = values_at(grad, at);
            values[k] = values_at(x, at);
        }
        [[unroll]] for (uint k = 0; k < ITEMS; ++k) {
            if (i + k * GROUP >= end) break;
            sums += incoming[k];
            products = fma(incoming[k], values[k] - mean, products);
        }
    }
    ACC sum = tree_sum(total(sums));
    ACC product = tree_sum(total(products));

    if (gl_LocalInvocationIndex == 0) {
        uint place = gl_WorkGroupID.z * channels + channel;
        push.sum_grad.at[place] = sum;
        push.sum_grad_normalized.at[place] = product * push.inverse_std.at[channel];
    }
}
