// Direct convolution of groups with few channels (depthwise), or its dgrad
// grid    one invocation per result, linear
// in      x: images (batch, in_channels, in_height, in_width), or with FOR_INPUT the
//         gradient (batch, out_channels, out_height, out_width); weight, bias
// out     out_: the other of the two
// consts  KERNEL_H, KERNEL_W, STRIDE_*, PADDING_*, DILATION_*, HAS_BIAS, FOR_INPUT;
//         PLANES: see conv/volume.glsl
// source  definition
// lint    scalar-load: of filters, which are few, and of pixels at any element
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "conv/arguments.glsl"

layout(constant_id = 18) const uint HAS_BIAS = 0;
layout(constant_id = 19) const uint FOR_INPUT = 0;

layout(push_constant, std430) uniform Push {
    In x;
    In weight;
    In bias;
    Out out_;
    CONV2D_SIZES
    uint plane_magic;  // of out_
    uint plane_shift;
    uint width_magic;
    uint width_shift;
} push;

const uint STEP_H = FOR_INPUT != 0 && DILATION_H == 1 ? STRIDE_H : 1;
const uint STEP_W = FOR_INPUT != 0 && DILATION_W == 1 ? STRIDE_W : 1;

uint first_tap(int at, uint stride, uint dilation) {
    return FOR_INPUT != 0 && dilation == 1 ? uint(at) % stride : 0;
}

void main() {
    uvec2 in_size = uvec2(push.in_height, push.in_width);
    uvec2 out_size = uvec2(push.out_height, push.out_width);
    uint in_count = push.in_channels / push.groups;
    uint out_count = push.out_channels / push.groups;
    bool for_input = FOR_INPUT != 0;
    uvec2 size = for_input ? in_size : out_size;
    uvec2 other_size = for_input ? out_size : in_size;
    uint channels = for_input ? push.in_channels : push.out_channels;
    uint others = for_input ? push.out_channels : push.in_channels;
    uint count = for_input ? out_count : in_count;

    uint element = linear_invocation();
    if (element >= push.batch * channels * size.x * size.y) return;
    uint plane = divide(element, push.plane_magic, push.plane_shift);
    uint rest = element - plane * size.x * size.y;
    uint line = divide(rest, push.width_magic, push.width_shift);
    ivec2 at = ivec2(line, rest - line * size.y);
    at = for_input ? at + PADDING : at * STRIDE - PADDING;
    uint image = plane / channels;
    uint channel = plane - image * channels;
    uint group = channel / (for_input ? in_count : out_count);
    uint first = (first_plane(image, others) + group * count * PLANES) * other_size.x
        * other_size.y;
    uint filters = for_input ? group * out_count * in_count + channel % in_count
                             : channel * in_count;
    uint apart = for_input ? in_count : 1;

    ACC sum = HAS_BIAS != 0 ? load(push.bias, channel) : ACC(0);
    for (uint other = 0; other < count; ++other) {
        uint plane_of = first + other * PLANES * other_size.x * other_size.y;
        uint filter_of = (filters + other * apart) * TAPS;
        // Of the gradient, one tap in STRIDE reaches a result.
        for (uint y = first_tap(at.x, STRIDE_H, DILATION_H); y < KERNEL_H; y += STEP_H) {
            for (uint x = first_tap(at.y, STRIDE_W, DILATION_W); x < KERNEL_W; x += STEP_W) {
                ivec2 tap = ivec2(y, x) * DILATION;
                ivec2 from = at + tap;
                if (FOR_INPUT != 0) {
                    ivec2 corner = at - tap;
                    ivec2 reached = corner / STRIDE;
                    bool whole = all(greaterThanEqual(corner, ivec2(0)))
                        && reached * STRIDE == corner;
                    from = whole ? reached : ivec2(-1);
                }
                ACC value = load_pixel(push.x, Pixel(plane_of, from), ivec2(other_size));
                ACC factor = load(push.weight, filter_of + y * KERNEL_W + x);
                sum = multiply_add(value, factor, sum);
            }
        }
    }
    uint own = first_plane(image, channels) + channel * PLANES;
    store(push.out_, own * size.x * size.y + rest, sum);
}
