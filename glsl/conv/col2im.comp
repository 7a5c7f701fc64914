// col2im: each pixel sums the windows that cover it
// grid    one invocation per element of out_, linear
// in      x (planes, KERNEL_H * KERNEL_W, out_height * out_width)
// out     out_ (planes, in_height, in_width)
// consts  KERNEL_H, KERNEL_W, STRIDE_*, PADDING_*, DILATION_*
// source  the transpose of conv/im2col.comp, gathered: the same sum every time
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/window.glsl"

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
    ivec2 out_size = ivec2(push.out_height, push.out_width);
    uint places = push.out_height * push.out_width;
    uint in_plane = push.in_height * push.in_width;
    uint element = linear_invocation();
    if (element >= push.planes * in_plane) return;
    uint plane = element / in_plane;
    uint p = element - plane * in_plane;
    uint row = p / push.in_width;
    ivec2 pixel = ivec2(row, p - row * push.in_width) + PADDING;

    ACC sum = ACC(0);
    for (uint tap = 0; tap < TAPS; ++tap) {
        ivec2 corner = pixel - tap_offset(tap);
        ivec2 at = corner / STRIDE;
        bool reached = all(greaterThanEqual(corner, ivec2(0))) && at * STRIDE == corner
            && all(lessThan(at, out_size));
        uint from = (plane * TAPS + tap) * places + uint(at.x * out_size.y + at.y);
        ACC value = load(x, reached ? from : 0);
        sum += reached ? value : ACC(0);
    }
    store(push.out_, element, sum);
}
