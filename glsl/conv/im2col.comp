// im2col: the window at each output pixel as a column; padding is 0
// grid    one invocation per element of out_, linear
// in      x (planes, in_height, in_width)
// out     out_ (planes, KERNEL_H * KERNEL_W, out_height * out_width)
// consts  KERNEL_H, KERNEL_W, STRIDE_*, PADDING_*, DILATION_*; QUADS: elements are vectors
//         of four, of windows of one column
// source  definition
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

layout(push_constant, std430) uniform Push {
    In x;
    Out out_;
    uint planes;
    uint in_height;
    uint in_width;
    uint out_height;
    uint out_width;
} push;

void main() {
    In x = push.x;
    Out out_ = push.out_;
    uvec2 size = uvec2(push.in_height, push.in_width);
    uint places = push.out_height * push.out_width;
    uint element = linear_invocation();
    if (element >= push.planes * TAPS * places) return;
    uint line = element / places;
    uint place = element - line * places;
    uint row = place / push.out_width;
    ivec2 corner = ivec2(row, place - row * push.out_width) * STRIDE - PADDING;
    uvec2 at = uvec2(corner + tap_offset(line % TAPS));
    bool inside = all(lessThan(at, size));
    uint from = line / TAPS * size.x * size.y + at.x * size.y + at.y;
#if BYTES <= 4
    if (QUADS != 0) {
        ACC4 values = load_quad(QuadsIn(uvec2(x)), inside ? from : 0);
        store_quad(QuadsOut(uvec2(out_)), element, inside ? values : ACC4(0));
        return;
    }
#endif
    ACC value = load(x, inside ? from : 0);
    store(out_, element, inside ? value : ACC(0));
}
