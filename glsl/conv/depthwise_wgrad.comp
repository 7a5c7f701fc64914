// Direct wgrad of groups with few channels (depthwise): gradient of conv2d by weight
// grid    one workgroup per filter (out_channels, in_channels / groups), linear; z:
//         slice of the pixels
// in      x, grad (batch, out_channels, out_height, out_width)
// out     out_ (slices, out_channels, in_channels / groups, KERNEL_H, KERNEL_W): the
//         gradient is its sum over slices; of ACC where there are several
// consts  KERNEL_H, KERNEL_W, STRIDE_*, PADDING_*, DILATION_*
// source  definition
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "conv/arguments.glsl"
#define GROUP gl_WorkGroupSize.x
#include "lib/group_sum.glsl"

layout(push_constant, std430) uniform Push {
    In x;
    In grad;
    Out out_;
    CONV2D_SIZES
    uint share;  // pixels of a slice
    uint plane_magic;
    uint plane_shift;
    uint width_magic;
    uint width_shift;
} push;

void main() {
    uint in_count = push.in_channels / push.groups;
    uint out_count = push.out_channels / push.groups;
    uint filters = push.out_channels * in_count;
    uint number = linear_workgroup();
    if (number >= filters) return;
    uint out_channel = number / in_count;
    uint in_channel = out_channel / out_count * in_count + number % in_count;
    uint in_plane = push.in_height * push.in_width;
    uint out_plane = push.out_height * push.out_width;
    ivec2 in_size = ivec2(push.in_height, push.in_width);

    ACC sum[TAPS];
    [[unroll]] for (uint tap = 0; tap < TAPS; ++tap) sum[tap] = ACC(0);
    uint start = gl_WorkGroupID.z * push.share;
    uint end = min(start + push.share, push.batch * out_plane);
    for (uint at = start + gl_LocalInvocationIndex; at < end; at += GROUP) {
        uint image = divide(at, push.plane_magic, push.plane_shift);
        uint rest = at - image * out_plane;
        uint line = divide(rest, push.width_magic, push.width_shift);
        ivec2 corner = ivec2(line, rest - line * push.out_width) * STRIDE - PADDING;
        uint plane = (image * push.in_channels + in_channel) * in_plane;
        uint from = (image * push.out_channels + out_channel) * out_plane + rest;
        ACC factor = load(push.grad, from);
        [[unroll]] for (uint tap = 0; tap < TAPS; ++tap) {
            Pixel pixel = Pixel(plane, corner + tap_offset(tap));
            sum[tap] = multiply_add(factor, load_pixel(push.x, pixel, in_size), sum[tap]);
        }
    }
    uint to = (gl_WorkGroupID.z * filters + number) * TAPS;
    [[unroll]] for (uint tap = 0; tap < TAPS; ++tap) {
        ACC total = tree_sum(sum[tap]);
        if (gl_LocalInvocationIndex == 0) store(push.out_, to + tap, total);
    }
}
