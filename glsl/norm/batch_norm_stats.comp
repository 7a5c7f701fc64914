// Batch norm statistics: mean and biased variance of each channel, without cancellation
// grid    one workgroup per channel, linear
// in      x (batch, channels, inner); inner_magic, inner_shift: see `divide`
// out     mean, variance (channels) of ACC
// consts  LOCAL_X: a power of two
// source  Chan, Golub and LeVeque, Algorithms for Computing the Sample Variance, 1983
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
const uint GROUP = gl_WorkGroupSize.x;
#include "lib/group_sum.glsl"

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
    ACC sum = ACC(0);
    for (uint i = first; i < count; i += GROUP)
        sum += load(x, channel_offset(i, channel, channels, inner, division));
    ACC own_mean = sum / max(ACC(own), ACC(1));
    ACC squares = ACC(0);
    for (uint i = first; i < count; i += GROUP) {
        ACC value = load(x, channel_offset(i, channel, channels, inner, division));
        squares = fma(value - own_mean, value - own_mean, squares);
    }
    ACC mean = tree_sum(sum) / ACC(count);
    ACC d = own_mean - mean;
    ACC variance = tree_sum(fma(d * d, ACC(own), squares)) / ACC(count);

    if (first == 0) {
        push.mean.at[channel] = mean;
        push.variance.at[channel] = variance;
    }
}
