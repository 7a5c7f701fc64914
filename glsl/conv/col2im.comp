// col2im: each pixel sums the windows that cover it
// grid    one invocation per element of out_, linear
// in      x (planes, KERNEL_H * KERNEL_W, out_height * out_width), bias (channels)
// out     out_ (planes, in_height, in_width)
// consts  KERNEL_H, KERNEL_W, STRIDE_*, PADDING_*, DILATION_*; QUADS: elements are vectors
//         of four, of windows of one column; HAS_BIAS
// source  the transpose of conv/im2col.comp, gathered: the same sum every time
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/window.glsl"
#if BYTES <= 4
#include "lib/vec4_io.glsl"
#endif

layout(constant_id = 18) const uint QUADS = 0;
layout(constant_id = 19) const uint HAS_BIAS = 0;

layout(push_constant, std430) uniform Push {
    In x;
    In bias;
    Out out_;
    uint channels;
    uint planes;
    uint in_height;
    uint in_width;
    uint out_height;
    uint out_width;
} push;

// Whether a window has a pixel at one of its taps, and where its element is.
bool reaches(uint tap, uint plane, ivec2 pixel, ivec2 out_size, out uint from) {
    ivec2 corner = pixel - tap_offset(tap);
    ivec2 at = corner / STRIDE;
    bool reached = all(greaterThanEqual(corner, ivec2(0))) && at * STRIDE == corner
        && all(lessThan(at, out_size));
    uint places = uint(out_size.x * out_size.y);
    uint place = (plane * TAPS + tap) * places + uint(at.x * out_size.y + at.y);
    from = reached ? place : 0;
    return reached;
}

void main() {
    In x = push.x;
    In bias = push.bias;
    Out out_ = push.out_;
    ivec2 out_size = ivec2(push.out_height, push.out_width);
    uint in_plane = push.in_height * push.in_width;
    uint element = linear_invocation();
    if (element >= push.planes * in_plane) return;
    uint plane = element / in_plane;
    uint p = element - plane * in_plane;
    uint row = p / push.in_width;
    ivec2 pixel = ivec2(row, p - row * push.in_width) + PADDING;

    ACC added = HAS_BIAS != 0 ? load(bias, plane % push.channels) : ACC(0);
#if BYTES <= 4
    if (QUADS != 0) {
        ACC4 sums = ACC4(added);
        for (uint tap = 0; tap < TAPS; ++tap) {
            uint from;
            bool reached = reaches(tap, plane, pixel, out_size, from);
            ACC4 values = load_quad(QuadsIn(uvec2(x)), from);
            sums += reached ? values : ACC4(0);
        }
        store_quad(QuadsOut(uvec2(out_)), element, sums);
        return;
    }
#endif
    ACC sum = added;
    for (uint tap = 0; tap < TAPS; ++tap) {
        uint from;
        bool reached = reaches(tap, plane, pixel, out_size, from);
        ACC value = load(x, from);
        sum += reached ? value : ACC(0);
    }
    store(out_, element, sum);
}
