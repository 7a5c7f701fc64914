// Batch norm statistics: mean and biased variance of each channel, without cancellation
// grid    one workgroup per channel, linear
// in      x (batch, channels, inner); inner_magic, inner_shift: see `divide`
// out     mean, variance (channels) of ACC
// consts  LOCAL_X: a power of two
// macros  ITEMS: elements that an invocation loads at once; QUADS: those are four each
// source  Chan, Golub and LeVeque, Algorithms for Computing the Sample Variance, 1983
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
    In x;
    AccOut mean;
    AccOut variance;
    uint batch;
    uint channels;
    uint inner;
    uint inner_magic;
    uint inner_shift;
} push;

void main() {
    In x = push.x;
    uint channels = push.channels;
    uint inner = push.inner;
    uvec2 division = uvec2(push.inner_magic, push.inner_shift);
    uint channel = linear_workgroup();
    if (channel >= channels) return;
    uint count = push.batch * inner;

    // Each invocation computes its own mean and spread before the first barrier:
    // lavapipe spills values that are live across one.
    uint first = gl_LocalInvocationIndex;
    uint own = first < count ? (count - first - 1) / GROUP + 1 : 0;
    VALUES sums = VALUES(0);
    for (uint i = first; i < count; i += GROUP * ITEMS) {
        VALUES values[ITEMS];
        [[unroll]] for (uint k = 0; k < ITEMS; ++k) {
            uint index = min(i + k * GROUP, count - 1);
            values[k] =
                values_at(x, channel_offset(index, channel, channels, inner, division));
        }
        [[unroll]] for (uint k = 0; k < ITEMS; ++k)
            if (i + k * GROUP < count) sums += values[k];
    }
    ACC sum = total(sums), elements = ACC(own * TOGETHER);
    ACC own_mean = sum / max(elements, ACC(1));
    VALUES squares = VALUES(0);
    for (uint i = first; i < count; i += GROUP * ITEMS) {
        VALUES values[ITEMS];
        [[unroll]] for (uint k = 0; k < ITEMS; ++k) {
            uint index = min(i + k * GROUP, count - 1);
            values[k] =
                values_at(x, channel_offset(index, channel, channels, inner, division));
        }
        [[unroll]] for (uint k = 0; k < ITEMS; ++k) {
            VALUES apart = i + k * GROUP < count ? values[k] - own_mean : VALUES(0);
            squares = fma(apart, apart, squares);
        }
    }
    ACC all = ACC(count * TOGETHER);
    ACC mean = tree_sum(sum) / all;
    ACC d = own_mean - mean;
    ACC variance = tree_sum(fma(d * d, elements, total(squares))) / all;

    if (first == 0) {
        push.mean.at[channel] = mean;
        push.variance.at[channel] = variance;
    }
}
