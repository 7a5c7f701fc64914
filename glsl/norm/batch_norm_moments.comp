// Mean and biased variance of each channel, in two passes: no cancellation
// grid    one workgroup per channel, linear
// in      x (batch, channels, inner) float32; inner_magic and inner_shift divide by inner
// out     mean, variance (channels) float32
// consts  LOCAL_X: a power of two
// source  Chan, Golub and LeVeque, Algorithms for Computing the Sample Variance, 1983
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "lib/types.glsl"
const uint GROUP = gl_WorkGroupSize.x;
#include "lib/tree.glsl"

layout(push_constant, std430) uniform Push {
    FloatIn x;
    FloatOut mean;
    FloatOut variance;
    uint batch;
    uint channels;
    uint inner;
    uint inner_magic;
    uint inner_shift;
} push;

void main() {
    FloatIn x = push.x;
    uint channels = push.channels;
    uint inner = push.inner;
    uvec2 division = uvec2(push.inner_magic, push.inner_shift);
    uint channel = linear_workgroup();
    if (channel >= channels) return;
    uint count = push.batch * inner;

    float sum = 0.0;
    for (uint i = gl_LocalInvocationIndex; i < count; i += GROUP)
        sum += x.at[channel_offset(i, channel, channels, inner, division)];
    float mean = tree_sum(sum) / float(count);

    float squares = 0.0;
    for (uint i = gl_LocalInvocationIndex; i < count; i += GROUP) {
        float d = x.at[channel_offset(i, channel, channels, inner, division)] - mean;
        squares = fma(d, d, squares);
    }
    float variance = tree_sum(squares) / float(count);

    if (gl_LocalInvocationIndex == 0) {
        push.mean.at[channel] = mean;
        push.variance.at[channel] = variance;
    }
}
