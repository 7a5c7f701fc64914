// Batch norm gradient sums: the two reductions over each channel
// grid    one workgroup per channel, linear
// in      grad, x (batch, channels, inner); mean, inverse_std (channels) of ACC;
//         inner_magic, inner_shift: see `divide`
// out     sum_grad: of grad; sum_grad_normalized: of grad * (x - mean) * inverse_std
// consts  LOCAL_X: a power of two
// source  Ioffe and Szegedy, arXiv:1502.03167
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
const uint GROUP = gl_WorkGroupSize.x;
#include "lib/group_sum.glsl"

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

    ACC sum = ACC(0);
    ACC products = ACC(0);
    for (uint i = gl_LocalInvocationIndex; i < count; i += GROUP) {
        uint at = channel_offset(i, channel, channels, inner, division);
        ACC g = load(grad, at);
        sum += g;
        products = fma(g, load(x, at) - mean, products);
    }
    sum = tree_sum(sum);
    products = tree_sum(products);

    if (gl_LocalInvocationIndex == 0) {
        push.sum_grad.at[channel] = sum;
        push.sum_grad_normalized.at[channel] = products * push.inverse_std.at[channel];
    }
}
