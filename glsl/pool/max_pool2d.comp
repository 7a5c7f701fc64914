// Greatest element of each window and its flat position in the plane; padding is -inf
// grid    one invocation per element of out_, linear
// in      x (planes, in_height, in_width) float32
// out     out_ (planes, out_height, out_width) float32; indices, same, int32
// consts  KERNEL_H, KERNEL_W, STRIDE_*, PADDING_* (at most half a kernel), DILATION_*
// source  PyTorch's rules: the first of equals, but the last NaN
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "lib/types.glsl"
#include "lib/window.glsl"

layout(push_constant, std430) uniform Push {
    FloatIn x;
    FloatOut out_;
    IntOut indices;
    uint planes;
    uint in_height;
    uint in_width;
    uint out_height;
    uint out_width;
} push;

void main() {
    uint out_plane = push.out_height * push.out_width;
    ivec2 size = ivec2(push.in_height, push.in_width);
    uint element = linear_invocation();
    FloatIn x = push.x;
    bool exists = element < push.planes * out_plane;
    uint plane = exists ? element / out_plane : 0;
    uint p = element % out_plane;
    ivec2 corner = ivec2(p / push.out_width, p % push.out_width) * STRIDE - PADDING;

    float greatest = uintBitsToFloat(0xff800000u);
    int position = -1;
    for (uint tap = 0; tap < TAPS; ++tap) {
        ivec2 at = corner + tap_offset(tap);
        int candidate = at.x * size.y + at.y;
        bool inside = all(lessThan(uvec2(at), uvec2(size)));
        float value = x.at[plane * uint(size.x * size.y) + (inside ? candidate : 0)];
        if (inside && (position < 0 || value > greatest || value != value)) {
            greatest = value;
            position = candidate;
        }
    }
    if (exists) {
        push.out_.at[element] = greatest;
        push.indices.at[element] = position;
    }
}
